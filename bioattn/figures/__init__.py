"""Figures of results: every `read_…` reads the data as arrays, every `draw_…` makes a figure from them.

`write_figure` saves one as PNG, SVG or PDF, with the same bytes for the same data.
"""

from bioattn.errors import BioattnError

try:
    import matplotlib as mpl  # noqa: F401 - a missing Matplotlib is reported here, once
except ImportError as error:
    raise BioattnError("figures need matplotlib, which is not installed: pip install matplotlib") from error

from bioattn.figures.style import require_figure_name, write_figure

__all__ = ["require_figure_name", "write_figure"]
