"""A diffusion model as a folder of documented files, and a trained one ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.models.diffusion.config import DiffusionModelConfig
from bioattn.models.diffusion.model import Denoiser
from bioattn.models.model_folder import load_model, write_model

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
    write_model(folder, MODEL_TYPE, model, model.config)


def load_denoiser(folder: Path, device: torch.device) -> LoadedDenoiser:
    """Load a folder that `write_denoiser` wrote. Raises: as `load_model`."""
    model, sha256 = load_model(folder, MODEL_TYPE, DiffusionModelConfig, Denoiser, device)
    return LoadedDenoiser(model=model, device=device, sha256=sha256, path=folder)
