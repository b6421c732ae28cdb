"""What tracks hold and how they are written, and the choice of tracks of an attention file."""

from collections.abc import Sequence
from dataclasses import dataclass

from bioattn.choices import require_names, require_reference
from bioattn.errors import BioattnError, SettingsError
from bioattn.interpret.choices import Overlapping, Upsampling
from bioattn.interpret.file_kinds import TrackFormat, file_stems
from bioattn.store.reader import AttentionFile

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
    contributions: bool = False
    """What attention adds to the response, with its sign, instead of weights."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One track: the values of a treatment, or their difference from another's."""

    treatment: str | None
    """None: the model does not tell treatments apart."""
    reference: str | None
    """The values of this treatment are subtracted."""
    stem: str

    @property
    def title(self) -> str:
        """Title in genome browsers."""
        name = self.treatment or "all treatments"
        return name if self.reference is None else f"{name} minus {self.reference}"


def choose_tracks(
    attention: AttentionFile, known: list[str] | None, requested: Sequence[str], reference: str | None
) -> list[Track]:
    """Make the list of tracks in the order requested, treatments before differences."""
    if known is None:
        if requested or reference is not None:
            option = "--treatment" if requested else "--against"
            raise BioattnError(
                f"{attention.path}: its attention does not tell treatments apart, so there is one track for all; "
                f"leave {option} out"
            )
        return [Track(treatment=None, reference=None, stem="all")]
    require_names("--treatment", requested, known, attention.path)
    require_reference("--against", reference, known, attention.path)
    names = list(requested or known)
    pairs: list[tuple[str, str | None]] = [(name, None) for name in names]
    if reference is not None:
        if reference in known and reference not in names:
            pairs.append((reference, None))
        others = [name for name in names if name != reference]
        if not others:
            raise BioattnError(f"--against {reference}: is the only treatment asked for; name others")
        pairs += [(name, reference) for name in others]
    stems = file_stems([name if other is None else f"{name}-vs-{other}" for name, other in pairs])
    return [
        Track(treatment=name, reference=other, stem=stem)
        for (name, other), stem in zip(pairs, stems, strict=True)
    ]
