"""What can be chosen when results are interpreted, and the settings of `explain` and `export`; nothing here
imports torch or NumPy."""

from dataclasses import MISSING, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from bioattn.choices import Method, Subset, parse_heads
from bioattn.errors import SettingsError
from bioattn.io.settings import (
    FORCE,
    RUNNING,
    SEED,
    Settings,
    Writes,
    argument,
    option,
    options_of,
    output_option,
)
from bioattn.models.attention_settings import DROP_PARTS_HELP, TREATMENT_HELP, TREATMENT_TABLE_HELP
from bioattn.models.running import ResumableCommand, RunCommand

HIT_P_VALUE = 1e-4
"""Largest of a site of a motif anywhere in a promoter, per base and strand."""


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


# --- options that several commands have --------------------------------------------------------------------------

OUTPUT = output_option("Result to write.", Writes.FILE)
FOLDER = output_option("Result to write.", Writes.FOLDER)
RESULT = output_option("Result to write.")
"""Checked by what writes it: several files, or a file or a folder."""
_choice = partial(option, group="Inputs")
GENES = _choice(
    "A gene, or a file with one id per line; can be repeated [default: all].", default=(), metavar="ID|FILE"
)
TREATMENTS = _choice("A treatment; can be repeated [default: all].", default=(), metavar="NAME")
_SITES_HELP = "Attention sites to average, for example 'promoter.cross.0'; can be repeated [default: all]."
AVERAGED_SITES = _choice(_SITES_HELP, default=(), metavar="PATTERN")
_SITES: Any = _choice(_SITES_HELP, "--sites", default=("*",), metavar="PATTERN")
HEADS = _choice("Heads, for example 0,2 (counted from 0) [default: all].", metavar="LIST", parse=parse_heads)
_AVERAGED_HEADS: Any = _choice(
    "Heads to average, for example 0,2 (counted from 0) [default: all].", metavar="LIST", parse=parse_heads
)
SAMPLE = _choice("Which alignment [default: the only one].", metavar="ID")
WEIGHTS_HELP = (
    "Attention weights [default: contributions, which add up to the response, where there are any]."
)
WEIGHTS: Any = option(WEIGHTS_HELP, default=False)
_VALUE_WEIGHTED: Any = option("Weights times the norm of the value, scaled to sum 1.", default=False)
RESIDUE_ATTENTION = argument(
    "ATTENTION", "Attention HDF5 of alignments, or of a language model's proteins (`export attention`)."
)

# --- the settings of methods, and of commands --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSettings:
    """The quantity that tracks hold, and the files they are written to."""

    reference: str | None = option(
        "Also write each treatment minus this one, or minus the `mean` over all treatments.",
        "--against",
        "--reference",
        metavar="NAME",
    )
    sites: tuple[str, ...] = _SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    value_weighted: bool = _VALUE_WEIGHTED
    weights: bool = WEIGHTS
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
    sites: tuple[str, ...] = _SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    weights: bool = WEIGHTS
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
    genes: tuple[str, ...] = GENES
    sites: tuple[str, ...] = _SITES
    heads: tuple[int, ...] | None = _AVERAGED_HEADS
    match_by: MatchBy = option(
        "Find motifs by consensus, or by matrix; the other where a row lacks one.",
        "--match",
        default=MatchBy.CONSENSUS,
    )
    num_shuffled: int = option(
        "Shuffled motifs of equal information to compare each with.", "--shuffles", default=100, min=20
    )
    p_value: float = HIT_P_VALUE
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
    steps: int = option(
        "integrated-gradients: points on the path from a quarter of each base to the promoter.",
        default=50,
        min=1,
    )

    def text(self) -> str:
        """What beside the method decides the values."""
        is_path = self.method is Method.INTEGRATED_GRADIENTS
        return f"steps={self.steps} baseline=uniform" if is_path else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainAttribution(ResumableCommand):
    """Write the contribution of each base of each promoter to the response to each treatment, as HDF5.

    For every position the file holds a value for each of the four bases, centred on their mean. The difference of
    two values is the effect of replacing one base by the other; the value of the present base is its contribution.
    Binary models are explained in log-odds. The command prints the size first and refuses a file larger than the
    free disk. Until the file is complete, parts are kept in OUTPUT.partial; --resume continues from them, --force
    drops them. docs/formats/attribution.md has the schema.

    bioattn explain attribution model promoters.fa -o explain.h5 --treatment heat --genes genes.txt
    """

    model: Path = argument("MODEL", "Folder of a trained promoter model.", recorded_file="model.safetensors")
    promoters: Path = argument("PROMOTERS", "Promoter FASTA (`bioattn prepare promoters`).")
    output: Path = OUTPUT
    settings: MethodSettings = options_of(MethodSettings)
    treatment: tuple[str, ...] = option(TREATMENT_HELP, default=(), metavar="NAME")
    treatment_table: Path | None = option(TREATMENT_TABLE_HELP)
    genes: tuple[str, ...] = GENES
    force: bool = option(DROP_PARTS_HELP, default=False, group=RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainHeads(RunCommand):
    """Rank attention heads by their importance for the predictions of a model.

    Importance is the mean absolute gradient of the loss with respect to a mask on the head (Michel et al. 2019).
    Heads are also described: entropy, distance, the neighbours that they attend to, whether they find the copy of
    a word (induction) or follow another sequence. But for MSA/pair models the command leaves each head out, and
    prunes the least important ones one after the other. --prune-to writes a model with the kept heads; heads keep
    their numbers.

    bioattn explain heads model X.dataset.h5 -o heads --prune-to 2 --pruned-model small
    """

    model: Path = argument("MODEL", "Folder of a trained model.", recorded_file="model.safetensors")
    dataset: Path = argument("DATASET", "Dataset the model was trained on.")
    output: Path = output_option("Folder of tables to write.", Writes.FOLDER)
    split: Subset = option(
        "Genes, proteins, sequences or pairs on which importance is measured.", default=Subset.VALIDATION
    )
    prune_to: int | None = option(
        "Keep N heads in all, at least one per site (promoter models).", min=1, metavar="N"
    )
    pruned_model: Path | None = option(
        "Where --prune-to writes the smaller model.", metavar="FOLDER", writes=Writes.FOLDER
    )
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainMotifs(Settings):
    """Score attention and attribution at known motifs, by condition.

    For each pair of the table the command compares the signal at the motif's sites with windows matched by
    position and G+C, and with shuffled motifs of equal information, of which at most 5 % may do as well.
    Attribution and contributions must have the expected direction; attention, which has no sign, must exceed
    the background. A pair of direction `none` passes without a signal. docs/known-motifs.md explains the
    columns.

    bioattn explain motifs attention.h5 explain.h5 -o motifs.tsv --expected expected.tsv --motifs JASPAR.meme
    """

    results: tuple[Path, ...] = argument(
        "RESULT",
        "Attention and attribution HDF5 over the same promoters; several of a kind are averaged.",
        recorded="result_{}",
    )
    output: Path = OUTPUT
    expected: Path = option(
        "Columns factor, jaspar_id, consensus, condition_group and direction.",
        default=MISSING,
        metavar="TABLE",
    )
    motif_database: Path | None = option(
        "MEME or JASPAR file with the matrices of jaspar_id.", "--motifs", metavar="FILE", recorded="motifs"
    )
    promoters: Path | None = option(
        "Promoter FASTA of the results; attribution files hold the sequences.", metavar="FASTA"
    )
    treatment_groups: Path | None = option(
        "Treatments (first column) and their `group`, whose mean is then the condition "
        "[default: every treatment is one].",
        metavar="TABLE",
    )
    settings: KnownMotifSettings = options_of(KnownMotifSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportArrays(Settings):
    """Write attribution as NumPy archives, or attention and predictions as AnnData (.h5ad), for other programs.

    A name of OUTPUT that ends in .h5ad makes AnnData, for scanpy and its like. Predictions become genes ×
    treatments. Attention over promoters adds a map over the bins of each gene for each treatment (obsm), the mean
    over sites and heads. docs/formats/anndata.md says where everything stands. Needs anndata (extra `anndata`).

    bioattn export arrays attention.h5 -o attention.h5ad --treatment heat

    Any other OUTPUT is a folder for TF-MoDISco-lite and tangermeme: sequences.npz (one-hot) and an archive of
    hypothetical contributions for each treatment, all as `arr_0` of shape (genes, 4, positions); treatments.tsv
    and genes.tsv name the archives and rows.

    bioattn export arrays explain.h5 -o arrays --treatment heat

    modisco motifs -s arrays/sequences.npz -a arrays/heat.npz -n 2000 -o modisco.h5
    """

    file: Path = argument(
        "FILE", "HDF5 of `explain attribution`, attention HDF5, or predictions of `run promoter` (TSV)."
    )
    output: Path = RESULT
    treatment: tuple[str, ...] = TREATMENTS
    genes: tuple[str, ...] = GENES
    sites: tuple[str, ...] = AVERAGED_SITES
    heads: tuple[int, ...] | None = HEADS
    value_weighted: bool = _VALUE_WEIGHTED
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportMotifs(Settings):
    """Find the motifs that a model attends to, and test them for each treatment.

    The stretches of promoters with the highest contributions (or attention, or attribution) are searched for words
    that other promoters have less often at the same positions; similar words of several treatments become one
    motif. The folder OUTPUT gets motifs.meme, motifs.tsv with matches to --database, treatments.tsv with a test of
    each motif in each treatment against its reference, edges.tsv from motif to gene, and logos.

    bioattn export motifs attention.h5 explain.h5 --promoters promoters.fa --database JASPAR.meme -o motifs
    """

    output: Path = FOLDER
    files: tuple[Path, ...] = argument(
        "FILE",
        "Attention HDF5 of promoters, attribution HDF5, or one of each.",
        default=(),
        recorded="file_{}",
    )
    promoters: Path | None = option(
        "The promoters; attention and --model need their sequences.", metavar="FASTA"
    )
    model: Path | None = option("Also show the first layer of this model as motifs.", metavar="FOLDER")
    database: Path | None = option("Motifs to compare with: MEME, JASPAR or TRANSFAC.", metavar="FILE")
    treatment: tuple[str, ...] = TREATMENTS
    genes: tuple[str, ...] = GENES
    settings: MotifSettings = options_of(MotifSettings)
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportTracks(Settings):
    """Write contributions or attention along chromosomes, for IGV, JBrowse and UCSC.

    One bedGraph and one bigWig for every treatment and strand: what each base adds to the response, sums over
    heads; or, without contributions or with --weights, the share of a promoter's attention on it. The folder also
    holds a table per treatment with every bin of every gene, and tracks.json, which lists the files. Where windows
    of one strand overlap, a base goes to the nearest gene; the table has all windows.

    bioattn export tracks attention.h5 -o tracks --treatment heat --against control
    """

    attention: Path = argument("ATTENTION", "Attention HDF5 of promoters (`export attention`).")
    output: Path = FOLDER
    treatment: tuple[str, ...] = TREATMENTS
    genes: tuple[str, ...] = GENES
    settings: TrackSettings = options_of(TrackSettings)
    chromosome_sizes: Path | None = option(
        "The genome's .fai, chrom.sizes or FASTA: true chromosome lengths in bigWig.", metavar="FILE"
    )
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportStructure(Settings):
    """Colour a structure by attention, in place of B-factors.

    0 is the least attended residue of the chain, 100 the most attended; the command prints both in multiples of
    uniform attention. Atoms without attention (other chains, ligands, residues without a column in the alignment)
    get -1. All other bytes are kept. In PyMOL: spectrum b, minimum=0, maximum=100; in
    ChimeraX: color byattribute bfactor range 0,100. --format writes these commands beside the output, and lines
    from CA to CA between residues at least six apart, wider with more attention (both directions averaged).

    bioattn export structure family.attention.h5 family.pdb -o painted.pdb --format cxc --format pml
    """

    attention: Path = RESIDUE_ATTENTION
    structure: Path = argument("STRUCTURE", "PDB or mmCIF file, plain or compressed.")
    output: Path = OUTPUT
    sample: str | None = SAMPLE
    chain: str | None = option(
        "Chain of the structure [default: the only one].", metavar="ID", group="Inputs"
    )
    sites: tuple[str, ...] = option(
        "Attention sites, averaged; can be repeated [default: row or self-attention of all layers].",
        default=(),
        metavar="PATTERN",
    )
    heads: tuple[int, ...] | None = HEADS
    query_residue: str | None = option(
        "Show the attention of this residue (number in the structure) [default: received attention].",
        metavar="N",
    )
    format: tuple[ScriptFormat, ...] = option(
        "Also write a script for ChimeraX (cxc) or PyMOL (pml) with lines between residues; can be repeated.",
        default=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreAttention(Settings):
    """Score contributions or attention against planted motifs, for the right treatment and for others.

    Prints tables, separated by tabs unless standard output is a terminal. Without --dataset every promoter of the
    attention file is scored, training ones included.
    """

    attention: Path = argument("ATTENTION", "Attention HDF5 of simulated promoters.")
    truth: Path = argument("TRUTH", "truth.tsv of the simulation.")
    output: Path | None = option("Also write the scores as JSON here.", "--output", "-o", writes=Writes.FILE)
    dataset: Path | None = option(
        "Dataset of these promoters: choose genes by its split, score predictions too."
    )
    split: ScoredGenes | None = option("Which genes of the dataset are scored [default: test].")
    sites: tuple[str, ...] = AVERAGED_SITES
    weights: bool = WEIGHTS
    value_weighted: bool = option("Score weights times the norm of the value vector.", default=False)

    def __post_init__(self) -> None:
        if self.split is not None and self.dataset is None:
            raise SettingsError(
                f"--split {self.split}: the split stands in the dataset; give it with --dataset"
            )
