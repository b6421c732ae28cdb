"""The settings of `bioattn export attention`, which asks the family of a model to write its attention."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from bioattn.choices import Reduction, WeightType, chosen, parse_heads
from bioattn.errors import SettingsError
from bioattn.io.settings import RUNNING, Writes, argument, option, output_option, parameters_of
from bioattn.models.running import ResumableCommand
from bioattn.system.shard import parse_shard

if TYPE_CHECKING:
    from bioattn.store.schema import AttentionOptions

ONLY_PROMOTERS = ("treatments", "treatment_table", "phases")

TREATMENT_HELP = (
    "A treatment to predict; can be repeated; `unconditional` is the model's token for an unknown one "
    "[default: all]."
)
TREATMENT_TABLE_HELP = (
    "Table of treatments to predict instead of the training ones; unseen treatments need a model trained with "
    "--treatment-encoder features, kernel or molecule."
)
BATCH_SIZE_HELP = "Promoters per forward pass [default: chosen to keep memory flat]."
DROP_PARTS_HELP = "Drop the parts of an interrupted run (a finished file is always replaced)."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportAttention(ResumableCommand):
    """Write where a model looks, in each promoter for each treatment, sequence or molecule, as HDF5.

    The command prints the size first and refuses a file larger than the free disk. The file appears when it is
    complete; until then parts are kept in OUTPUT.partial; --resume continues from them, --force drops them.
    docs/formats/attention.md has the schema, and code to read the file with h5py, xarray and R.
    """

    model: Path = argument("MODEL", "Folder of a trained model.", recorded_file="model.safetensors")
    sequences: Path = argument(
        "INPUT",
        "What the model reads: promoters of `bioattn prepare promoters`, other sequences or an alignment as "
        "FASTA, a table of molecules.",
        recorded="promoters",
    )
    output: Path = output_option("Result to write.", Writes.FILE)
    targets: Path | None = option(
        "Translation models: the outputs, FASTA with the names of the sources (`run translation`) "
        "[default: the likeliest token at each step]."
    )
    genes: tuple[str, ...] = option(
        "A gene, sequence or molecule, or a file with one id per line; can be repeated [default: all].",
        default=(),
        metavar="ID|FILE",
    )
    samples: int | None = option(
        "This many inputs alone, spread evenly over the file [default: all].", min=1, metavar="N"
    )
    treatments: tuple[str, ...] = option(TREATMENT_HELP, "--treatment", default=(), metavar="NAME")
    treatment_table: Path | None = option(TREATMENT_TABLE_HELP)
    sites: tuple[str, ...] = option(
        "Attention sites, for example 'promoter.cross.*'; can be repeated [default: all].",
        default=(),
        metavar="PATTERN",
    )
    heads: str | None = option("Heads, for example 0,2 (counted from 0) [default: all].", metavar="LIST")
    dtype: WeightType = option(
        "float16 halves the size, but netCDF programs (and xarray's default engine) cannot read it.",
        default=WeightType.FLOAT32,
    )
    reduce: Reduction = option(
        "Mean or maximum over heads instead of each, or the largest of each query.", default=Reduction.NONE
    )
    value_weighted: bool = option(
        "Also write the weights times the norm of the value that they multiply.", default=False
    )
    top_k: int | None = option("Keys kept of each query with --reduce top-k [default: 16].", min=1)
    window: int | None = option(
        "Language models: most tokens read at once; longer sequences are read in windows that overlap by half "
        "[default: the model's context].",
        min=8,
    )
    phases: int = option(
        "Average over N windows a fraction of a bin apart: N times finer bins, time and size.",
        default=1,
        min=1,
        metavar="N",
    )
    batch_size: int | None = option(BATCH_SIZE_HELP, min=1)
    force: bool = option(DROP_PARTS_HELP, default=False, group=RUNNING)

    def options(self) -> "AttentionOptions":
        """What of the attention is written. Raises: SettingsError for heads or --top-k that cannot be."""
        return attention_options(
            sites=self.sites or ("*",),
            heads=parse_heads(self.heads),
            dtype=self.dtype,
            reduce=self.reduce,
            top_k=self.top_k,
            value_weighted=self.value_weighted,
            phases=self.phases,
        )

    def refuse(self, names: Sequence[str], models: str) -> None:
        """Raises: SettingsError when an option is given that `models` have no use for, or --shard is no part.

        names: of the fields.
        """
        if self.shard is not None:
            parse_shard(self.shard)
        for one in parameters_of(type(self)):
            if one.name in names and getattr(self, one.name) != one.default:
                raise SettingsError(f"{one.flag} is not for {models}")


class AttentionKeywords(TypedDict, total=False):
    """What methods `attention` of models take beside what their family alone has."""

    sites: str | Sequence[str]
    """Shell patterns of names among `model.sites`; not given: all."""
    heads: int | Sequence[int] | None
    """Numbers of those kept, from 0; None = all."""
    dtype: str
    reduce: str
    """`none` (if not given), `mean-heads`, `max-heads`, `top-k` (the largest `top_k` of each query), and of
    alignments `mean-rows` or `max-rows`."""
    top_k: int | None
    """16, if not given; only with `top-k`."""
    value_weighted: bool
    """Whether to keep weights times the norm of the value that they multiply, too; not of alignments."""


def attention_options(phases: int = 1, **choices: Unpack[AttentionKeywords]) -> "AttentionOptions":
    """What is kept of the attention. Raises: SettingsError for a choice that is none."""
    from bioattn.store.schema import AttentionOptions

    given: dict[str, Any] = {name: value for name, value in choices.items() if value is not None}
    if "top_k" in given and given.get("reduce") != Reduction.TOP_K:
        raise SettingsError("--top-k is for --reduce top-k; say that too, or leave it out")
    for name in {"sites", "heads"} & given.keys():
        given[name] = (given[name],) if isinstance(given[name], str | int) else tuple(given[name])
    for name, kind in {"dtype": WeightType, "reduce": Reduction}.items():
        if name in given:
            given[name] = chosen(kind, name, given[name])
    return AttentionOptions(**given, phases=phases)
