"""The settings of an MSA/pair model: its shape, how alignments are presented to it, how it is trained.

A model without structure module, extra-MSA stack, recycling or some heads is another config, not another class.
Nothing here imports torch.
"""

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum

from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.system.device import Compile
from bioattn.training.settings import OptimiserConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureModuleConfig:
    """Shape of the structure module; the defaults are AlphaFold 2's."""

    num_layers: int = 8
    """Rounds of invariant point attention and backbone update; they share their weights."""
    num_heads: int = 12
    """Heads of the invariant point attention."""
    head_channels: int = 16
    """Channels of a head's queries, keys and values."""
    num_query_points: int = 4
    """Query points of a head in space; it has as many key points."""
    num_value_points: int = 8
    """Value points of a head in space."""
    angle_channels: int = 128
    """Width of the residual network that predicts torsion angles."""
    num_angle_blocks: int = 2
    """Number of blocks of the network for torsion angles."""

    def __post_init__(self) -> None:
        require(self, [each.name for each in fields(self)], lambda value: value >= 1, "be at least 1")
        # The weights do not tell: layers share them.
        require(self, ("num_layers",), lambda value: value <= 1000, "be at most 1000")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateConfig:
    """Shape of the template embedder; the defaults are those of AlphaFold's `model_1` and `model_2`."""

    channels: int = 64
    """Channels of a template's pair representation."""
    num_blocks: int = 2
    """Blocks of the template pair stack."""
    pair_heads: int = 4
    """Heads of triangle attention in that stack."""
    triangle_multiplication_channels: int = 64
    """Hidden channels of the triangular multiplicative updates in that stack."""
    transition_factor: int = 2
    """How many times wider a transition of that stack is inside."""
    attention_heads: int = 4
    """Heads of the attention of residue pairs to templates."""
    attention_channels: int = 64
    """Channels of its queries, keys and values, all heads together."""

    def __post_init__(self) -> None:
        require(self, [each.name for each in fields(self)], lambda value: value >= 1, "be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerConfig:
    """Shape of an MSA/pair model; the defaults are those of AlphaFold 2."""

    msa_channels: int = 256
    """Channels of the MSA representation."""
    pair_channels: int = 128
    """Channels of the pair representation."""
    extra_msa_channels: int = 64
    """Channels of the extra MSA representation."""
    single_channels: int = 384
    """Channels of the single representation that leaves the stack."""
    msa_heads: int = 8
    """Heads of row and column attention; a head has msa_channels / msa_heads channels."""
    pair_heads: int = 4
    """Heads of triangle attention, in both stacks."""
    extra_msa_heads: int = 8
    """Heads of row and column attention in the extra-MSA stack."""
    outer_product_channels: int = 32
    """Channels whose outer product is taken, in both stacks."""
    triangle_multiplication_channels: int = 128
    """Hidden channels of the triangular multiplicative updates, in both stacks."""
    transition_factor: int = 4
    """How many times wider a transition is inside."""
    num_blocks: int = 48
    """Evoformer blocks."""
    num_extra_msa_blocks: int = 4
    """Blocks of the extra-MSA stack; 0 = no such stack."""
    uniform_msa_attention: bool = False
    """Whether row and column attention are uniform: the control."""
    centred_outer_product: bool = False
    """Whether the outer product mean gives covariances."""
    tied_row_heads: int = 0
    """Heads of a row attention with one map for all rows, in place of the outer product mean; 0 = maps for every
    row."""
    target_features: int = 22
    """Features of a target residue."""
    msa_features: int = 49
    """Features of a cell of the clustered MSA."""
    pair_features: int = 0
    """External features of a pair of columns (covariances, say); 0 = none."""
    max_relative_position: int = 32
    """Largest distance in the chain that is encoded; larger distances are clipped."""
    recycling: bool = True
    """Whether a pass gets the representations of the pass before; needed for more than one pass."""
    structure_module: StructureModuleConfig | None = field(default_factory=StructureModuleConfig)
    """None for a model that predicts no atoms; it has no pLDDT head either."""
    templates: TemplateConfig | None = None
    """None for a model without template embedder."""
    distogram_bins: int = 64
    """Distance bins of the distogram head; 0 = no such head."""
    masked_msa_head: bool = True
    """Whether masked cells of the MSA are predicted."""
    plddt_channels: int = 128
    """Hidden channels of the pLDDT head."""
    aligned_error_head: bool = False
    """Whether there is a predicted aligned error head (the pTM models)."""
    experimentally_resolved_head: bool = True
    """Whether it is predicted which atoms an experiment resolves."""

    def __post_init__(self) -> None:
        numbers = {each.name for each in fields(self) if type(getattr(self, each.name)) is int}
        # These leave a part out when they are 0.
        may_be_zero = {"num_extra_msa_blocks", "pair_features", "distogram_bins", "tied_row_heads"}
        require(self, sorted(numbers - may_be_zero), lambda value: value >= 1, "be at least 1")
        require(self, sorted(may_be_zero), lambda value: value >= 0, "be at least 0")
        for channels, heads in (
            ("msa_channels", "msa_heads"),
            ("pair_channels", "pair_heads"),
            ("extra_msa_channels", "extra_msa_heads"),
        ):
            if getattr(self, channels) % getattr(self, heads):
                raise SettingsError(
                    f"{channels} = {getattr(self, channels)} cannot be divided among "
                    f"{heads} = {getattr(self, heads)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSettings:
    """Settings of the rows and columns drawn from an alignment; the defaults are AlphaFold 2's."""

    max_msa_clusters: int = option(
        "Rows of the clustered MSA at most [default: the model's, 512 of AlphaFold].", default=512, min=1
    )
    max_extra_msa: int = 5120
    """Rows of the extra MSA at most."""
    min_extra_share: float = 0.0
    """Least fraction of the rows for the extra MSA, also where all rows would fit among the clusters."""
    masked_fraction: float = 0.15
    """Fraction of the clusters' cells that are masked."""
    weighted_rows: bool = False
    """Whether rows are drawn by their sequence weight (identity 0.8) and those drawn for neither MSA are left out;
    otherwise rows are alike, and all that are no cluster centre take part in the clusters."""
    max_gap_column: float = 1.0
    """Columns with a larger part of gaps are left out, unless the target has a residue there."""
    num_recycles: int = option(
        "Passes after the first [default: the model's, 3 of AlphaFold].", "--recycles", default=3, min=0
    )
    num_samples: int = 1
    """Number of draws whose predicted distances are averaged."""
    max_averaged_columns: int = 500
    """Wider alignments get one draw of a quarter of the extra rows in place of several: a draw takes minutes."""

    def __post_init__(self) -> None:
        counts = ("max_msa_clusters", "max_extra_msa", "num_samples")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("num_recycles",), lambda value: value >= 0, "be at least 0")
        shares = ("min_extra_share", "masked_fraction", "max_gap_column")
        require(self, shares, lambda value: 0 <= value <= 1, "be between 0 and 1")

    def for_columns(self, number: int) -> "InputSettings":
        """The settings for an alignment of which the model sees so many columns."""
        if self.num_samples == 1 or number <= self.max_averaged_columns:
            return self
        return replace(self, num_samples=1, max_extra_msa=max(1, self.max_extra_msa // 4))


class Representation(StrEnum):
    """What of a model's inner state can be kept."""

    SINGLE = "single"
    """(R, C) of the trunk."""
    PAIR = "pair"
    """(R, R, C)"""
    MSA = "msa"
    """(S, R, C)"""
    MSA_FIRST_ROW = "msa_first_row"
    """(R, C)"""
    STRUCTURE = "structure"
    """(R, C) single representation that leaves the structure module."""


SMALL_MODEL = {
    "msa_channels": 32,
    "pair_channels": 48,
    "extra_msa_channels": 32,
    "single_channels": 32,
    "msa_heads": 4,
    "pair_heads": 2,
    "extra_msa_heads": 4,
    "outer_product_channels": 16,
    "triangle_multiplication_channels": 32,
    "transition_factor": 2,
    "num_blocks": 2,
    "num_extra_msa_blocks": 1,
    "centred_outer_product": True,
    "recycling": False,
    "structure_module": None,
    "experimentally_resolved_head": False,
}
"""Fields of `EvoformerConfig` that differ from AlphaFold 2's: a trunk with distogram and masked-MSA head, small
enough to train on one core at some three steps a second."""

MIN_EXTRA_SHARE = 0.5
"""At least this part of a sample's rows goes to the extra MSA, also where all would fit among the clusters."""
MOSTLY_GAPS = 0.5
"""Columns with at least this share of gaps are left out of a sample unless its target has a residue there."""
ROUND_EXTRA_MSA = 1024
"""Extra rows the validation of a round draws."""
PREDICTION_CLUSTERS, PREDICTION_EXTRA_MSA = 64, 4096
"""Rows a trained model is run with where an alignment has them: more than a training step has, as covariances are
sums over rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerTrainingConfig(OptimiserConfig):
    """How an MSA/pair model is trained. With `simulated_steps` the run begins on simulated families alone."""

    steps: int = option(
        "Updates of the weights on the dataset's families, after `simulated_steps`.", default=2000, min=0
    )
    simulated_steps: int = 0
    """Updates on simulated families alone, before."""
    simulated_share: float = 0.0
    """Chance that a sample of the later steps is of a simulated family too."""
    simulated_families: int = 600
    """Different simulated families; each is made when it is first drawn."""
    steps_per_round: int = 100
    """Updates after which the model is validated and saved, as at the end of each stage."""
    families_per_step: int = 1
    """Samples whose gradients are summed before an update (gradient accumulation)."""
    max_msa_clusters: int = 32
    """Rows of the clustered MSA."""
    max_extra_msa: int = 384
    """Rows of the extra MSA."""
    crop: int = 72
    """Columns of a sample at most; wider alignments are cut at random."""
    weighted_rows: bool = True
    """Whether rows are drawn in proportion to their sequence weights (1 / rows alike at 80 %)."""
    any_target: float = 0.5
    """Chance that another row than the first stands as target: all rows share the fold."""
    masked_fraction: float = 0.15
    """Cells of the clustered MSA that are masked."""
    learning_rate: float = 1e-3
    """Peak rate of AdamW on the dataset's families."""
    simulated_learning_rate: float = 2e-3
    """Peak rate in the steps on simulated families alone."""
    weight_decay: float = 0.01
    warmup_fraction: float = 0.03
    distogram_weight: float = 0.3
    """Weight of the cross-entropy of distance bins, as in AlphaFold 2."""
    contact_weight: float = 5.0
    """Weight of the cross-entropy of contact or not (below 8 Å, 6 or more columns apart)."""
    masked_msa_weight: float = 0.1
    """Weight of the cross-entropy of masked cells."""
    activation_checkpointing: bool = False
    """Recompute blocks in the backward pass: less memory, more time."""
    prediction_samples: int = 4
    """Draws of rows whose predicted distances are averaged."""
    patience: int = 1000
    compile: Compile = Compile.AUTO
    """Whether `torch.compile` makes one program of a block; auto: on a GPU, where the work ahead pays for it."""

    def __post_init__(self) -> None:
        OptimiserConfig.__post_init__(self)
        sizes = ("families_per_step", "max_msa_clusters", "max_extra_msa", "crop", "prediction_samples")
        require(self, ("steps_per_round", *sizes), lambda value: value >= 1, "be at least 1")
        shares = ("masked_fraction", "simulated_share", "any_target")
        require(self, shares, lambda value: 0 <= value <= 1, "lie between 0 and 1")
        require(self, ("simulated_learning_rate",), lambda value: value > 0, "be above 0")
        numbers = [each.name for each in fields(self) if isinstance(getattr(self, each.name), int | float)]
        require(self, numbers, lambda value: value >= 0, "not be negative")
        if not self.total_steps:
            raise SettingsError("steps and simulated_steps are both 0; one of them must be at least 1")
        if (self.simulated_steps or self.simulated_share) and not self.simulated_families:
            raise SettingsError("simulated_families is 0; steps on simulated families need some")

    @property
    def prediction_inputs(self) -> InputSettings:
        """How a model trained so wants alignments presented."""
        return InputSettings(
            max_msa_clusters=max(self.max_msa_clusters, PREDICTION_CLUSTERS),
            max_extra_msa=max(self.max_extra_msa, PREDICTION_EXTRA_MSA),
            min_extra_share=MIN_EXTRA_SHARE,
            masked_fraction=self.masked_fraction,
            weighted_rows=self.weighted_rows,
            max_gap_column=MOSTLY_GAPS,
            num_recycles=0,
            num_samples=self.prediction_samples,
        )

    @property
    def round_inputs(self) -> InputSettings:
        """How families are presented when a round is validated: one draw of fewer rows, in a third of the time."""
        extra = max(self.max_extra_msa, ROUND_EXTRA_MSA)
        inputs = self.prediction_inputs
        return replace(inputs, max_msa_clusters=self.max_msa_clusters, max_extra_msa=extra, num_samples=1)

    @property
    def total_steps(self) -> int:
        return self.simulated_steps + self.steps
