"""The settings of the structure module."""

from dataclasses import dataclass, fields

from bioattn.errors import SettingsError


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
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise SettingsError(f"{field.name} is {getattr(self, field.name)}; it must be at least 1")
