"""The settings of an MSA/pair model: everything that decides its shape, nothing of how it is trained."""

from dataclasses import dataclass, fields

from bioattn.errors import SettingsError


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
    """Whether row and column attention weigh all keys alike: the control that attention has to beat."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "num_extra_msa_blocks" else 1
            if isinstance(value, int) and not isinstance(value, bool) and value < least:
                raise SettingsError(f"{field.name} is {value}; it must be at least {least}")
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
