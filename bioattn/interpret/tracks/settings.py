"""What tracks hold and how they are written."""

from dataclasses import dataclass

from bioattn.errors import SettingsError
from bioattn.interpret.choices import Overlapping, Upsampling
from bioattn.interpret.tracks.track_folder import TrackFormat

USUAL_DOWNSTREAM = 200
"""The default of `prepare promoters`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSettings:
    """What tracks hold and how they are written."""

    sites: tuple[str, ...] = ("*",)
    """Shell patterns of attention sites, which are averaged."""
    heads: tuple[int, ...] | None = None
    """The model's heads that are averaged; None = all that the file holds."""
    value_weighted: bool = False
    """Weights times the norm of the value vector, each row scaled to sum 1."""
    upsampling: Upsampling = Upsampling.NEAREST
    overlapping: Overlapping = Overlapping.NEAREST_GENE
    downstream: int | None = None
    """Bases of the windows from position 0 on, as they were prepared; says which gene is nearest. None = as the
    attention file says, or `USUAL_DOWNSTREAM` where it does not."""
    reference: str | None = None
    """Also write each treatment minus this one."""
    formats: tuple[TrackFormat, ...] = tuple(TrackFormat)
    gzip: bool = False
    """Compress text."""

    def __post_init__(self) -> None:
        if not self.formats:
            raise SettingsError(f"--format names none of {', '.join(TrackFormat)}")
        if self.downstream is not None and self.downstream < 0:
            raise SettingsError(f"--downstream must be at least 0, not {self.downstream}")


def parse_formats(text: str) -> tuple[TrackFormat, ...]:
    """`bigwig,tsv` as formats. Raises: SettingsError naming what is none."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in list(TrackFormat):
            raise SettingsError(f"--format {name!r}: is none of {', '.join(TrackFormat)}")
    return tuple(each for each in TrackFormat if each in names)
