"""The settings of an MSA/pair model: everything that decides its shape, nothing of how it is trained.

A model without structure module, extra-MSA stack, recycling or some heads is another config, not another class.
"""

from dataclasses import dataclass, field, fields

from bioattn.errors import SettingsError
from bioattn.models.evoformer.structure_module.config import StructureModuleConfig

MAY_BE_ZERO = ("num_extra_msa_blocks", "pair_features", "distogram_bins")
"""Settings that leave a part out when they are 0."""


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
    """Whether row and column attention are uniform over keys: the control that attention must beat."""
    centred_outer_product: bool = False
    """Whether the outer product mean gives covariances (see `outer_product_mean`); AlphaFold's does not."""
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
        for setting in fields(self):
            value = getattr(self, setting.name)
            least = 0 if setting.name in MAY_BE_ZERO else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise SettingsError(f"{setting.name} is {value}; it must be at least {least}")
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
