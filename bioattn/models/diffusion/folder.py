"""A diffusion model as a folder of documented files, and a trained one ready to run."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.errors import FormatError
from bioattn.io.config_file import build
from bioattn.io.files import sha256_of
from bioattn.io.input_watch import unchanged
from bioattn.models.diffusion.config import DiffusionModelConfig
from bioattn.models.diffusion.model import Denoiser
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import (
    check_sizes,
    load_weights,
    read_model_config,
    write_model_config,
    write_weights,
)

MODEL_TYPE = "diffusion"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDenoiser:
    """A diffusion model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: Denoiser
    device: torch.device
    sha256: str
    """Of the weights file."""
    path: Path | None = None
    """The folder it was loaded from."""

    @property
    def config(self) -> DiffusionModelConfig:
        """The model's architecture."""
        return self.model.config

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name, in the order in which a pass comes to them."""
        return self.model.sites


def write_denoiser(folder: Path, model: Denoiser) -> None:
    """Write weights and `config.json` into the existing `folder`."""
    write_weights(folder, model)
    write_model_config(folder, MODEL_TYPE, architecture=asdict(model.config))


def load_denoiser(folder: Path, device: torch.device) -> LoadedDenoiser:
    """Load a folder that `write_denoiser` wrote.

    Raises: FormatError naming the file that is missing, of another version or kind, or damaged; BioattnError when
    there is none, or a file changes meanwhile.
    """
    with unchanged(folder / CONFIG, folder / WEIGHTS):
        content = read_model_config(folder, MODEL_TYPE)
        try:
            config = build(DiffusionModelConfig, content["architecture"], str(folder / CONFIG))
        except KeyError as error:
            raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error
        check_sizes(lambda: Denoiser(config), asdict(config), folder / WEIGHTS)
        model = Denoiser(config)
        load_weights(model, folder / WEIGHTS)
        return LoadedDenoiser(
            model=model.to(device).eval(), device=device, sha256=sha256_of(folder / WEIGHTS), path=folder
        )
