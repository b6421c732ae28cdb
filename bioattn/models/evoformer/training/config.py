"""The settings of a training run of the MSA/pair stack, and the shape of the small model it trains by default."""

from dataclasses import dataclass, fields, replace

from bioattn.errors import SettingsError
from bioattn.io.config_file import require
from bioattn.models.evoformer.config import InputSettings
from bioattn.system.device import Precision

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

AT_LEAST_ONE = (
    "steps_per_round",
    "families_per_step",
    "max_msa_clusters",
    "max_extra_msa",
    "crop",
    "prediction_samples",
    "patience",
)
SHARES = ("masked_fraction", "average_decay", "warmup_fraction", "simulated_share", "any_target")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerTrainingConfig:
    """How an MSA/pair model is trained. With `simulated_steps` the run begins on simulated families alone."""

    seed: int = 0
    """Decides first weights, the simulated families and every sample."""
    steps: int = 2000
    """Updates of the weights on the dataset's families, after `simulated_steps`; 0 for none."""
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
    """On matrices, not on biases and norms."""
    warmup_fraction: float = 0.03
    """Share of the steps of a stage in which the rate rises from zero; then it falls along a cosine."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient."""
    average_decay: float = 0.99
    """How slowly the average of the weights, which is validated and kept, forgets; 0 for no average."""
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
    """Rounds without improvement on the validation families before training stops."""
    precision: Precision = Precision.FP32
    """fp32 or bf16 (autocast)."""

    def __post_init__(self) -> None:
        require(self, AT_LEAST_ONE, lambda value: value >= 1, "be at least 1")
        require(self, SHARES, lambda value: 0 <= value <= 1, "lie between 0 and 1")
        rates = ("learning_rate", "simulated_learning_rate", "gradient_clip")
        require(self, rates, lambda value: value > 0, "be above 0")
        numbers = [each.name for each in fields(self) if isinstance(getattr(self, each.name), int | float)]
        require(self, numbers, lambda value: value >= 0, "not be negative")
        if not self.total_steps:
            raise SettingsError("--steps and --simulated-steps are both 0; one of them must be at least 1")
        if self.average_decay == 1:
            raise SettingsError(
                "average_decay is 1; an average that forgets nothing stays at the first weights"
            )
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
