"""A Phyloformer model that is ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.io.files import sha256_of
from bioattn.models.model_folder import load_model
from bioattn.models.phyloformer.config import PhyloformerConfig
from bioattn.models.phyloformer.model import Phyloformer
from bioattn.models.phyloformer.parameters import read_parameters

MODEL_TYPE = "phyloformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPhyloformer:
    """A model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: Phyloformer
    device: torch.device
    sha256: str
    """Of the parameters."""
    path: Path
    """The file or folder it was loaded from."""

    @property
    def sites(self) -> dict[str, AttentionSite]:
        return self.model.attention_sites()


def load_phyloformer(path: Path, device: torch.device) -> LoadedPhyloformer:
    """Load a model folder, or published parameters.

    Raises: as `load_model` or `read_parameters`.
    """
    if path.is_file():
        model, sha256 = read_parameters(path).to(device), sha256_of(path)
    else:
        model, sha256 = load_model(path, MODEL_TYPE, PhyloformerConfig, Phyloformer, device)
    return LoadedPhyloformer(model=model, device=device, sha256=sha256, path=path)
