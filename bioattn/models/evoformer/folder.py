"""An MSA/pair model as a folder of documented files, and loading of a model from any of its forms.

`config.json` (format, version, shape, digest of the weights) and `model.safetensors`; of a model trained here also
`training.json` (settings, data digests, versions, metrics), `history.csv` and `README.md` (model card). The schema
stands in `docs/formats/model.md`.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError
from bioattn.io.config_file import build
from bioattn.io.files import sha256_of
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameters.loading import allocate_model, load_parameters
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import (
    check_sizes,
    load_weights,
    read_model_config,
    write_model_config,
    write_weights,
)
from bioattn.system.progress import Progress

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.models.evoformer.contact_probe import ContactProbe
    from bioattn.models.evoformer.head_scorer import AlignmentHeadScorer

MODEL_TYPE = "evoformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedEvoformerModel:
    """An MSA/pair model ready to run, on its device and in evaluation mode (`bioattn.inference.runner.Runner`)."""

    family: ClassVar[str] = MODEL_TYPE

    model: EvoformerModel
    device: torch.device
    path: Path
    """The file the weights came from."""
    sha256: str
    """Of that file."""
    name: str
    """The model's name in results: the file name; for a model folder, `FOLDER/model.safetensors`."""
    inputs: InputSettings
    """How alignments are presented to the model."""

    @property
    def config(self) -> EvoformerConfig:
        return self.model.config

    @property
    def sites(self) -> dict[str, AttentionSite]:
        found: dict[str, AttentionSite] = {}
        for module in self.model.modules():
            for value in vars(module).values():
                for site in value if isinstance(value, list) else [value]:
                    if isinstance(site, AttentionSite):
                        found[site.name] = site
        return found

    def trial(self) -> None:
        """Predict a small alignment of random residues. Raises: NotFiniteError."""
        from bioattn.models.evoformer.inference.prediction import try_model

        try_model(self)

    def head_scorer(self, dataset: Path, split: str, progress: Progress) -> "AlignmentHeadScorer":
        from bioattn.models.evoformer.head_scorer import AlignmentHeadScorer

        return AlignmentHeadScorer(self, dataset, split, progress)

    @property
    def is_control(self) -> bool:
        """Whether its attention to rows and columns is uniform by design."""
        return self.config.uniform_msa_attention

    def check_probe(self, inputs: Path, settings: "CheckSettings", evidence: "Evidence") -> "ContactProbe":
        """Alignments to check the attention with. Raises: BioattnError for inputs or controls that do not fit."""
        from bioattn.models.evoformer.contact_probe import make_probe

        return make_probe(self, inputs, settings, evidence.other_models)


def write_evoformer_model(folder: Path, model: EvoformerModel, inputs: InputSettings) -> None:
    """Write the weights and `config.json`, with their digest, into the existing `folder`.

    inputs: what `run` gives the model.
    """
    write_weights(folder, model)
    write_model_config(
        folder,
        MODEL_TYPE,
        architecture=asdict(model.config),
        inputs=asdict(inputs),
        sha256={WEIGHTS: sha256_of(folder / WEIGHTS)},
    )


def read_evoformer_config(folder: Path) -> tuple[EvoformerConfig, InputSettings]:
    """The architecture of the model in a folder, and how alignments are presented to it.

    Raises: FormatError naming the file that is missing, of another version or kind, or damaged.
    """
    content = read_model_config(folder, MODEL_TYPE)
    try:
        return (
            build(EvoformerConfig, content["architecture"], f"{folder / CONFIG}"),
            build(InputSettings, content["inputs"], f"{folder / CONFIG}"),
        )
    except FormatError as error:
        raise FormatError(f"{error}; the folder is damaged or was edited") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error


def load_evoformer_model(
    path: Path, device: torch.device, num_structure_layers: int | None = None
) -> LoadedEvoformerModel:
    """Load a folder that `write_evoformer_model` wrote, or a parameter file of AlphaFold or OpenFold.

    num_structure_layers: layers of the structure module, for parameter files, which lack it (`load_parameters`).

    Raises: FormatError naming the file or array that is missing, of another version, damaged or at odds with the
    rest; BioattnError when layers are given for a folder.
    """
    return _load(path, device, num_structure_layers)


def _load(path: Path, device: torch.device, num_structure_layers: int | None) -> LoadedEvoformerModel:
    if path.is_dir():
        if num_structure_layers is not None:
            raise BioattnError(f"{path}: a model folder knows its number of structure module layers")
        config, inputs = read_evoformer_config(path)
        weights = path / WEIGHTS
        check_sizes(lambda: EvoformerModel(config), asdict(config), weights)
        model = allocate_model(config)
        load_weights(model, weights)
    else:
        weights = path
        model, inputs = load_parameters(path, num_structure_layers)
    return LoadedEvoformerModel(
        model=model.to(device).eval(),
        device=device,
        path=weights,
        sha256=sha256_of(weights),
        name=_name(path, weights),
        inputs=inputs,
    )


def _name(path: Path, weights: Path) -> str:
    if weights == path:
        return weights.name
    folder = path if path.name not in ("", "..") else path.resolve()
    return f"{folder.name}/{weights.name}"
