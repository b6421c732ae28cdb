"""Figures of results: every `read_…` gathers what is shown as arrays, every `draw_…` makes a figure of it.

`write_figure` saves one as PNG, SVG or PDF, with the same bytes for the same data.
"""

from bioattn.errors import BioattnError

try:
    import matplotlib as mpl  # noqa: F401 - asked for here once, so that no figure has to
except ImportError as error:
    raise BioattnError(
        "figures need matplotlib, which is not installed: pip install 'bioattn[plot]', or pip install matplotlib"
    ) from error

from bioattn.figures.output import require_figure_name, write_figure

__all__ = ["require_figure_name", "write_figure"]
