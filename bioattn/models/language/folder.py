"""A language model as a folder of documented files, and a trained one ready to run."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.errors import FormatError
from bioattn.io.config_file import build
from bioattn.io.files import sha256_of
from bioattn.io.input_watch import unchanged
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.config import LanguageModelConfig
from bioattn.models.language.model import LanguageModel, attention_sites
from bioattn.models.model_folder import (
    check_sizes,
    load_weights,
    read_model_config,
    write_model_config,
    write_weights,
)
from bioattn.sequences.vocabulary import Vocabulary

MODEL_TYPE = "language"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLanguageModel:
    """A language model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: LanguageModel
    device: torch.device
    sha256: str
    """Of the weights file."""
    path: Path | None = None
    """The folder it was loaded from."""

    @property
    def config(self) -> LanguageModelConfig:
        """The model's architecture."""
        return self.model.config

    @property
    def vocabulary(self) -> Vocabulary:
        """What the model reads."""
        return self.model.vocabulary

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name, in the order in which a pass comes to them."""
        return attention_sites(self.model)


def write_language_model(folder: Path, model: LanguageModel) -> None:
    """Write weights and `config.json` into the existing `folder`."""
    write_weights(folder, model)
    write_model_config(folder, MODEL_TYPE, architecture=asdict(model.config))


def load_language_model(folder: Path, device: torch.device) -> LoadedLanguageModel:
    """Load a folder that `write_language_model` wrote.

    Raises: FormatError naming the file that is missing, of another version or kind, or damaged; BioattnError when
    there is none, or a file changes meanwhile.
    """
    with unchanged(folder / CONFIG, folder / WEIGHTS):
        content = read_model_config(folder, MODEL_TYPE)
        try:
            config = build(LanguageModelConfig, content["architecture"], str(folder / CONFIG))
        except KeyError as error:
            raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error
        check_sizes(lambda: LanguageModel(config), asdict(config), folder / WEIGHTS)
        model = LanguageModel(config)
        load_weights(model, folder / WEIGHTS)
        return LoadedLanguageModel(
            model=model.to(device).eval(), device=device, sha256=sha256_of(folder / WEIGHTS), path=folder
        )
