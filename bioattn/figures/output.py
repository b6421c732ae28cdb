"""Saves figures as PNG, SVG or PDF, atomically and without time or program version."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bioattn.errors import SettingsError
from bioattn.figures.style import figure_style
from bioattn.io.files import atomic_output

DPI = 300
"""Dots per inch of PNG, as journals ask for."""
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Creator": None, "Date": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def require_figure_name(output: Path) -> None:
    """Raises: SettingsError when the name does not say which format is wanted."""
    if output.suffix.lower() not in _METADATA:
        raise SettingsError(f"--output {output}: end its name in .png, .svg or .pdf")


def write_figure(figure: Figure, output: Path, dpi: int = DPI) -> None:
    """Save `figure` in the format of its file name. dpi: dots per inch of PNG, and of maps within SVG and PDF.

    The same figure gives the same bytes with one version of matplotlib.

    Raises: SettingsError for another name; BioattnError when the file cannot be written.
    """
    require_figure_name(output)
    suffix = output.suffix.lower()
    with atomic_output(output) as temporary, figure_style():
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=_METADATA[suffix])
