"""A translation model as a folder of documented files, and a trained one ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.models.model_folder import load_model, write_model
from bioattn.models.translation.config import TranslationModelConfig
from bioattn.models.translation.model import Translator, attention_sites

if TYPE_CHECKING:
    from bioattn.models.translation.inference.probe import TranslationProbe

MODEL_TYPE = "translation"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTranslator:
    """A translation model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: Translator
    device: torch.device
    sha256: str
    """Of the weights file."""
    path: Path | None = None
    """The folder it was loaded from."""

    @property
    def config(self) -> TranslationModelConfig:
        """The model's architecture."""
        return self.model.config

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name, in the order in which a pass comes to them."""
        return attention_sites(self.model)

    def token_probe(self, path: Path, number: int, seed: int) -> "TranslationProbe":
        """Held-out pairs of a dataset, and what the model predicts of their targets."""
        from bioattn.models.translation.inference.probe import make_probe

        return make_probe(self, path, number, seed)


def write_translator(folder: Path, model: Translator) -> None:
    """Write weights and `config.json` into the existing `folder`."""
    write_model(folder, MODEL_TYPE, model, model.config)


def load_translator(folder: Path, device: torch.device) -> LoadedTranslator:
    """Load a folder that `write_translator` wrote. Raises: as `load_model`."""
    model, sha256 = load_model(folder, MODEL_TYPE, TranslationModelConfig, Translator, device)
    return LoadedTranslator(model=model, device=device, sha256=sha256, path=folder)
