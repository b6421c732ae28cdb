"""A memory network as a folder of documented files, and a trained one ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.models.memory.config import MemoryModelConfig
from bioattn.models.memory.model import MemoryNetwork
from bioattn.models.model_folder import LoadedModel, load_model


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMemory(LoadedModel[MemoryNetwork, MemoryModelConfig]):
    """A memory network ready to run."""

    family: ClassVar[str] = "memory"

    @property
    def sites(self) -> dict[str, AttentionSite]:
        return {self.model.site.name: self.model.site}


def load_memory(folder: Path, device: torch.device) -> LoadedMemory:
    """Load a model folder. Raises: as `load_model`."""
    model, sha256 = load_model(folder, LoadedMemory.family, MemoryModelConfig, MemoryNetwork, device)
    return LoadedMemory(model=model, device=device, sha256=sha256, path=folder)
