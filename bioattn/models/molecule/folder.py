"""A molecule model as a folder of documented files, and a trained one ready to run."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.choices import Task
from bioattn.inference.finite import require_finite
from bioattn.inference.inputs import python_warnings
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import attention_options
from bioattn.models.model_folder import LoadedModel, Sites, load_model
from bioattn.models.molecule.config import MoleculeModelConfig
from bioattn.models.molecule.model import MoleculeModel, molecule_batch
from bioattn.molecules.graphs import Molecules
from bioattn.store.reader import Attention
from bioattn.text import counted

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.checks.record import CheckRecord
    from bioattn.models.molecule.probe import MoleculeProbe

LOGGER = logging.getLogger("bioattn")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedMoleculeModel(LoadedModel[MoleculeModel, MoleculeModelConfig]):
    """A molecule model: values or classes of molecules, and where it looks (needs RDKit).

    `inputs` of its methods are SMILES: one, by name, in a list, or a DataFrame with a column `smiles`; or the
    `Path` of a table or SDF file. Text is never a path.
    """

    family: ClassVar[str] = "molecule"

    def predict(self, inputs: Any, *, smiles_column: str | None = None) -> "pd.DataFrame":
        """Predict values in the units of the data, or probabilities of classes: the table of `run molecule`.

        A row per molecule with its cleaned SMILES, a column per task and a note: what cleaning changed, or why
        there is no prediction. smiles_column: None = the one called smiles, in any case.

        Raises: BioattnError when no molecule can be used.
        """
        import pandas as pd

        from bioattn.models.molecule.records import predicted_rows, records_in

        with python_warnings():
            rows = list(predicted_rows(self, records_in(inputs, smiles_column)))
            dropped = sum(values is None for _, _, values, _ in rows)
            if dropped:
                LOGGER.warning(f"{counted(dropped, 'record')} without a prediction; the column note says why")
        names, smiles, values, notes = zip(*rows, strict=True)
        unknown = [np.nan] * len(self.config.tasks)
        table = pd.DataFrame(
            [unknown if each is None else each for each in values],
            index=pd.Index(names, name="id"),
            columns=list(self.config.tasks),
        )
        table.insert(0, "smiles", smiles)
        return table.assign(note=notes)

    def attention(
        self,
        inputs: Any,
        *,
        sites: str | Sequence[str] = "*",
        heads: Sequence[int] | None = None,
        dtype: str = "float32",
        reduce: str = "none",
        top_k: int = 16,
        value_weighted: bool = False,
        batch_size: int | None = None,
    ) -> Attention:
        """Return the attention weights of molecules, and what each atom contributes to each task, in memory.

        sites: shell patterns of names among `model.sites`. heads: numbers of those kept; None = all. dtype:
        float32 or float16. reduce: `none`, `mean-heads`, `max-heads`, or `top-k`, the largest `top_k` of each
        query. value_weighted: also weights times the norm of the value that they multiply. batch_size: molecules
        per forward pass; None = as memory allows.

        Raises: BioattnError when no molecule can be used, and for sites or heads that the model lacks.
        """
        from bioattn.inference.inputs import HELD
        from bioattn.models.molecule.attention import attention_work
        from bioattn.models.molecule.records import collected, records_in

        options = attention_options(
            sites=sites, heads=heads, dtype=dtype, reduce=reduce, top_k=top_k, value_weighted=value_weighted
        )
        with python_warnings():
            molecules, dropped, digest = collected(records_in(inputs))
            if dropped:
                LOGGER.warning(f"{counted(len(dropped), 'record')} left out; the first: {dropped[0]}")
            path = inputs if isinstance(inputs, Path) else HELD
            sha256 = sha256_of(path) if isinstance(inputs, Path) else digest
            work, layout = attention_work(self, molecules, path, sha256, options, batch_size)
            return Attention(work.collect(layout))

    def check(
        self, inputs: Path | str, *, dataset: Path | str | None = None, samples: int = 300, seed: int = 0
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed, on a dataset (docs/checks.md).

        samples: held-out molecules, drawn by `seed`. Raises: BioattnError for a dataset that does not fit.
        """
        from bioattn.checks.engine import CheckSettings, Evidence, check_model

        evidence = Evidence(dataset=None if dataset is None else Path(dataset))
        with python_warnings():
            settings = CheckSettings(samples=samples, seed=seed)
            return check_model(self, Path(inputs), evidence, settings=settings)

    @property
    def sites(self) -> Sites:
        """Attention sites by name."""
        return Sites(self.model.sites)

    def check_probe(self, inputs: Path, settings: "CheckSettings", _evidence: "Evidence") -> "MoleculeProbe":
        """Molecules to check the attention with. Raises: BioattnError for a dataset that does not fit."""
        from bioattn.models.molecule.probe import make_probe

        return make_probe(self, inputs, settings)

    def answers(self, molecules: Molecules, rows: Sequence[int]) -> NDArray[np.float64]:
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
