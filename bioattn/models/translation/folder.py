"""A translation model as a folder of documented files, and a trained one ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.models.model_folder import LoadedModel, load_model
from bioattn.models.translation.config import TranslationModelConfig
from bioattn.models.translation.model import Translator, attention_sites
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.models.translation.head_scorer import TranslationHeadScorer
    from bioattn.models.translation.inference.probe import TranslationProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTranslator(LoadedModel[Translator, TranslationModelConfig]):
    """A translation model ready to run."""

    family: ClassVar[str] = "translation"

    @property
    def sites(self) -> dict[str, AttentionSite]:
        return attention_sites(self.model)

    def head_scorer(self, dataset: Path, split: str, _progress: Progress) -> "TranslationHeadScorer":
        """Judge heads on a split of a dataset of pairs. Raises: BioattnError for one that does not fit."""
        from bioattn.models.translation.head_scorer import TranslationHeadScorer

        return TranslationHeadScorer(self, dataset, split)

    def check_probe(
        self, inputs: Path, settings: "CheckSettings", _evidence: "Evidence"
    ) -> "TranslationProbe":
        """Pairs to check the attention with. Raises: BioattnError for a dataset that does not fit."""
        from bioattn.models.translation.inference.probe import make_probe

        return make_probe(self, inputs, settings)


def load_translator(folder: Path, device: torch.device) -> LoadedTranslator:
    """Load a model folder. Raises: as `load_model`."""
    model, sha256 = load_model(folder, LoadedTranslator.family, TranslationModelConfig, Translator, device)
    return LoadedTranslator(model=model, device=device, sha256=sha256, path=folder)
