"""A molecule model as a folder of documented files, and a trained one ready to run."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import AttentionSite
from bioattn.choices import Task
from bioattn.inference.finite import require_finite
from bioattn.models.model_folder import LoadedModel, load_model
from bioattn.models.molecule.config import MoleculeModelConfig
from bioattn.models.molecule.model import MoleculeModel, molecule_batch
from bioattn.molecules.graphs import Molecules

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.models.molecule.probe import MoleculeProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMoleculeModel(LoadedModel[MoleculeModel, MoleculeModelConfig]):
    """A molecule model ready to run."""

    family: ClassVar[str] = "molecule"

    @property
    def sites(self) -> dict[str, AttentionSite]:
        return self.model.sites

    def check_probe(self, inputs: Path, settings: "CheckSettings", _evidence: "Evidence") -> "MoleculeProbe":
        """Molecules to check the attention with. Raises: BioattnError for a dataset that does not fit."""
        from bioattn.models.molecule.probe import make_probe

        return make_probe(self, inputs, settings)

    def predict(self, molecules: Molecules, rows: Sequence[int]) -> NDArray[np.float64]:
        """Values in the units of the data, or probabilities of classes, (rows, tasks).

        Raises: NotFiniteError when one is NaN or infinite.
        """
        with torch.inference_mode():
            answer_BT = in_units(self.config, self.model(molecule_batch(molecules, rows, self.device)))
        require_finite(answer_BT, "predictions")
        return answer_BT


def in_units(config: MoleculeModelConfig, answer_BT: Tensor) -> NDArray[np.float64]:
    """What a model gives, in the units of the data, or as probabilities of classes."""
    if config.task is Task.BINARY:
        answer_BT = answer_BT.double().sigmoid()
    else:
        answer_BT = answer_BT.double().cpu() * torch.tensor(config.spread) + torch.tensor(config.mean)
    answers: NDArray[np.float64] = answer_BT.cpu().numpy()
    return answers


def load_molecule_model(folder: Path, device: torch.device) -> LoadedMoleculeModel:
    """Load a model folder. Raises: as `load_model`."""
    model, sha256 = load_model(folder, LoadedMoleculeModel.family, MoleculeModelConfig, MoleculeModel, device)
    return LoadedMoleculeModel(model=model, device=device, sha256=sha256, path=folder)
