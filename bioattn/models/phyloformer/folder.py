"""A Phyloformer model that is ready to run."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.io.files import sha256_of
from bioattn.io.input_watch import unchanged
from bioattn.models.phyloformer.model import Phyloformer
from bioattn.models.phyloformer.parameters import read_parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPhyloformer:
    """A model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = "phyloformer"

    model: Phyloformer
    device: torch.device
    sha256: str
    """Of the parameter file."""
    path: Path

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name, in the order in which a pass comes to them."""
        return self.model.attention_sites()


def load_phyloformer(path: Path, device: torch.device) -> LoadedPhyloformer:
    """Load published parameters. Raises: as `read_parameters`; BioattnError when the file changes meanwhile."""
    with unchanged(path):
        return LoadedPhyloformer(
            model=read_parameters(path).to(device), device=device, sha256=sha256_of(path), path=path
        )
