"""The architecture of what reads molecules, in models of molecules and of treatments. Imports no torch."""

from dataclasses import dataclass
from enum import StrEnum

from bioattn.errors import SettingsError
from bioattn.io.settings import require


class MoleculeEncoding(StrEnum):
    """What reads the graph of a molecule."""

    FINGERPRINT = "fingerprint"
    """Sums over neighbours with weights by degree; every atom writes a total of 1 into slots, by a softmax, at
    every radius (neural graph fingerprints, Duvenaud et al. 2015)."""
    ATTENTION = "attention"
    """Atoms attend to their neighbours (Veličković et al. 2018), and at every radius heads attend to atoms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeEncoderConfig:
    """Architecture of what reads molecules."""

    encoder: MoleculeEncoding = MoleculeEncoding.FINGERPRINT
    """fingerprint or attention."""
    radius: int = 3
    """Layers: an atom knows what is up to so many bonds away."""
    channels: int = 64
    """Channels of an atom."""
    slots: int = 128
    """Slots that atoms write into; for attention, channels of all heads together."""
    num_heads: int = 4
    """Attention heads (attention)."""
    dropout: float = 0.1
    """Dropout of atoms between layers and of the slots."""

    def __post_init__(self) -> None:
        require(self, ("radius",), lambda value: 0 <= value <= 10, "lie in 0..10")
        require(self, ("channels", "slots", "num_heads"), lambda value: value >= 1, "be at least 1")
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        if self.encoder is MoleculeEncoding.ATTENTION and (
            self.channels % self.num_heads or self.slots % self.num_heads
        ):
            raise SettingsError(
                f"channels = {self.channels} and slots = {self.slots}: "
                f"num_heads = {self.num_heads} must divide both"
            )
