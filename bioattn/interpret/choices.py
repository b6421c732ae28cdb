"""What can be chosen when results are interpreted; nothing here imports torch or NumPy."""

from dataclasses import MISSING, dataclass
from enum import StrEnum
from typing import Any

from bioattn.choices import Method, parse_heads
from bioattn.errors import SettingsError
from bioattn.io.settings import SEED, option


class AttributionBaseline(StrEnum):
    """Where integrated gradients begin. Where a promoter has N, every baseline has too."""

    UNIFORM = "uniform"
    """A quarter of each base."""
    ZEROS = "zeros"
    """No base at all."""
    DINUCLEOTIDE_SHUFFLED = "dinucleotide-shuffled"
    """The mean of sequences with the promoter's dinucleotide counts."""


class MatchBy(StrEnum):
    """What decides where an expected motif has sites, where a row gives both."""

    CONSENSUS = "consensus"
    MATRIX = "matrix"


class ScriptFormat(StrEnum):
    """Programs that a structure is written for."""

    CXC = "cxc"
    """ChimeraX."""
    PML = "pml"
    """PyMOL."""


class Upsampling(StrEnum):
    """How attention to bins becomes attention to bases (`bioattn.interpret.position_maps`)."""

    NEAREST = "nearest"
    """A bin's weight is shared equally by its bases."""
    GAUSSIAN = "gaussian"
    """Smoothed by a Gaussian of half a bin."""
    RECEPTIVE_FIELD = "receptive-field"
    """A bin's weight is shared equally by all bases that its key sees."""


class ScoredGenes(StrEnum):
    """Which genes attention is scored on against planted motifs."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"
    ALL = "all"


class TrackFormat(StrEnum):
    """What a track is written as."""

    BIGWIG = "bigwig"
    BEDGRAPH = "bedgraph"
    TSV = "tsv"
    """The weight of every bin of every promoter, before overlaps are settled."""


def parse_formats(text: str) -> tuple[TrackFormat, ...]:
    """`bigwig,tsv` as formats. Raises: SettingsError for a name that is no format."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in list(TrackFormat):
            raise SettingsError(f"--format {name!r}: is none of {', '.join(TrackFormat)}")
    return tuple(track_format for track_format in TrackFormat if track_format in names)


WEIGHTS_HELP = (
    "Attention weights [default: contributions, which add up to the response, where there are any]."
)


_AVERAGED_SITES: Any = option(
    "Attention sites to average, for example 'promoter.cross.0'; can be repeated [default: all].",
    "--sites",
    default=("*",),
    metavar="PATTERN",
    group="Inputs",
)
_AVERAGED_HEADS: Any = option(
    "Heads to average, for example 0,2 (counted from 0) [default: all].",
    metavar="LIST",
    group="Inputs",
    parse=parse_heads,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSettings:
    """The quantity that tracks hold, and the files they are written to."""

    reference: str | None = option(
        "Also write each treatment minus this one, or minus the `mean` over all treatments.",
        "--against",
        "--reference",
        metavar="NAME",
    )
    sites: tuple[str, ...] = _AVERAGED_SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    value_weighted: bool = option("Weights times the norm of the value, scaled to sum 1.", default=False)
    weights: bool = option(WEIGHTS_HELP, default=False)
    upsampling: Upsampling = option(
        "From bins to bases: flat within a bin, smoothed by half a bin, or over all bases that a bin sees.",
        "--upsample",
        default=Upsampling.NEAREST,
    )
    downstream: int | None = option(
        "Bases of the windows from position 0 on [default: from the file, else 200].", min=0
    )
    formats: tuple[TrackFormat, ...] = option(
        "Formats to write; tsv: the value of every bin of every gene [default: bigwig,bedgraph,tsv].",
        "--format",
        default=tuple(TrackFormat),
        metavar="LIST",
        parse=parse_formats,
    )
    gzip: bool = option("Compress bedGraph and tables.", default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifSettings:
    """Settings of the search for motifs."""

    against: str | None = option(
        "Search where a treatment gains against this one, or against the `mean` over all "
        "[default: search where attention is highest; compare with mean].",
        metavar="NAME",
    )
    sites: tuple[str, ...] = _AVERAGED_SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    weights: bool = option(WEIGHTS_HELP, default=False)
    max_seqlets: int = option(
        "Number of promoter stretches searched for each treatment.", default=1000, min=1
    )
    max_motifs: int = option("Most motifs for each treatment.", default=5, min=1)
    seed: int = 0
    """Of the control windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownMotifSettings:
    """How attention and attribution are scored at known motifs."""

    contrasts: tuple[str, ...] = option(
        "Also score the pairs of CONDITION against OTHER; can be repeated.",
        "--contrast",
        default=(),
        metavar="CONDITION:OTHER",
    )
    genes: tuple[str, ...] = option(
        "A gene, or a file with one id per line; can be repeated [default: all].",
        default=(),
        metavar="ID|FILE",
        group="Inputs",
    )
    sites: tuple[str, ...] = _AVERAGED_SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    match_by: MatchBy = option(
        "Find motifs by consensus, or by matrix; the other where a row lacks one.",
        "--match",
        default=MatchBy.CONSENSUS,
    )
    num_shuffled: int = option(
        "Shuffled motifs of equal information to compare each with.", "--shuffles", default=100, min=20
    )
    p_value: float = 1e-4
    """Largest of a matrix match, per base and strand."""
    seed: int = SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSettings:
    """What is smoothed, and how."""

    along: tuple[str, ...] = option(
        "A column of TREATMENTS with times or doses; can be repeated.", default=MISSING, metavar="COLUMN"
    )
    series: str | None = option(
        "The column that tells series apart [default: all are one].", metavar="COLUMN"
    )
    genes: tuple[str, ...] = option(
        "Whose curves are written: ids, or a file with one per line; can be repeated [default: the mean of all].",
        default=(),
        metavar="ID|FILE",
    )
    linear: bool = option(
        "Fit lines, which are less drawn to the mean at the ends.", "--local-linear", default=False
    )
    log: bool = option("Take distances between logarithms.", default=True)
    offset: float = option("Added before the logarithm, for zeros.", default=0.0, min=0)
    points: int = 40
    """Points of a curve."""

    def __post_init__(self) -> None:
        if len(set(self.along)) < len(self.along):
            raise SettingsError("--along names a column twice; name each column once")
        if self.offset and not self.log:
            raise SettingsError("--offset is for logarithmic axes; leave --no-log out")


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSettings:
    """Which method, and what integrated gradients need to know."""

    method: Method = option(
        "ism mutates every base to every other; gradient-input and integrated-gradients use the "
        "model's gradient.",
        default=Method.ISM,
    )
    steps: int = option("integrated-gradients: points on the path from the baseline.", default=50, min=1)
    baseline: AttributionBaseline = option(
        "integrated-gradients: the baseline, where the path begins.", default=AttributionBaseline.UNIFORM
    )
    seed: int = SEED
    """Of the shuffles of `dinucleotide-shuffled`."""

    def text(self) -> str:
        """What beside the method decides the values."""
        if self.method is not Method.INTEGRATED_GRADIENTS:
            return ""
        seed = f" seed={self.seed}" if self.baseline is AttributionBaseline.DINUCLEOTIDE_SHUFFLED else ""
        return f"steps={self.steps} baseline={self.baseline}{seed}"
