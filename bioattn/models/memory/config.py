"""The settings of a memory network and of its training; nothing here imports torch."""

from dataclasses import dataclass

from bioattn.errors import SettingsError
from bioattn.io.settings import option, require
from bioattn.training.settings import UpdateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModelConfig:
    """Architecture of a memory network."""

    words: tuple[str, ...]
    """Words of the facts and questions of the training, ascending; the tables decide it."""
    answers: tuple[str, ...]
    """Answers of the training questions, ascending; the tables decide it."""
    places: int
    """Words of the longest fact or question of the training; the tables decide it."""
    most_facts: int
    """Facts of the largest story of the training; the tables decide it."""
    hops: int = option("Facts that are read one after the other.", default=3)
    channels: int = option("Numbers that stand for a word, a fact or what is known so far.", default=64)
    temporal: bool = False
    """Whether the order of facts matters: a learned vector for a fact's position. The memory then holds no more
    facts than the largest training story."""

    def __post_init__(self) -> None:
        require(self, ("hops", "channels", "places", "most_facts"), lambda value: value >= 1, "be at least 1")
        if not self.answers or not {*self.answers} <= {*self.words}:
            raise SettingsError("answers must be words, at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTrainingConfig(UpdateConfig):
    """How a memory network is trained."""

    batch_size: int = 32
    """Questions of an update, over all processes."""
    learning_rate: float = 5e-3
    """Peak rate of AdamW."""
    weight_decay: float = 0.0
    """On matrices."""
    hop_weight: float = 1.0
    """Weight of the loss of the hops, where questions name their true facts; 0: learn from answers alone."""
    linear_fraction: float = 0.3
    """Without true facts, share of the steps in which facts are weighted without softmax (linear start)."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("hop_weight",), lambda value: value >= 0, "not be negative")
        require(self, ("linear_fraction",), lambda value: 0 <= value < 1, "lie in [0, 1)")
