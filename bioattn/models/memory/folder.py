"""A memory network as a folder of documented files, and a trained one ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.models.memory.config import MemoryModelConfig
from bioattn.models.memory.model import MemoryNetwork
from bioattn.models.model_folder import load_model, write_model

MODEL_TYPE = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMemory:
    """A memory network on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: MemoryNetwork
    device: torch.device
    sha256: str
    """Of the weights file."""
    path: Path | None = None
    """The folder it was loaded from."""

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """The one attention site by name."""
        return {self.model.site.name: self.model.site}


def write_memory(folder: Path, model: MemoryNetwork) -> None:
    """Write weights and `config.json` into the existing `folder`."""
    write_model(folder, MODEL_TYPE, model, model.config)


def load_memory(folder: Path, device: torch.device) -> LoadedMemory:
    """Load a folder that `write_memory` wrote. Raises: as `load_model`."""
    model, sha256 = load_model(folder, MODEL_TYPE, MemoryModelConfig, MemoryNetwork, device)
    return LoadedMemory(model=model, device=device, sha256=sha256, path=folder)
