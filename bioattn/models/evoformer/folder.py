"""An MSA/pair model as a folder of documented files, and loading of a model from any of its forms.

`config.json` (format, version, shape, digest of the weights) and `model.safetensors`; of a model trained here also
`training.json` (settings, data digests, versions, metrics), `history.csv` and `README.md` (model card). The schema
stands in `docs/formats/model.md`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import torch

from bioattn.attention.site import AttentionSite
from bioattn.choices import chosen
from bioattn.errors import BioattnError, FormatError
from bioattn.inference.inputs import names_in, python_warnings
from bioattn.io.files import sha256_of
from bioattn.io.settings import build
from bioattn.models.attention_settings import AttentionKeywords, attention_options
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, Representation
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_files import allocate_model, load_parameters
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import (
    LoadedModel,
    Sites,
    load_network,
    read_model_config,
    write_model,
)
from bioattn.store.reader import Attention
from bioattn.system.device import Precision
from bioattn.system.progress import SILENT, Progress

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.checks.record import CheckRecord
    from bioattn.models.evoformer.contact_probe import ContactProbe
    from bioattn.models.evoformer.head_scorer import AlignmentHeadScorer
    from bioattn.models.evoformer.prediction import Prediction
    from bioattn.models.evoformer.runner import AlignmentRunner

MODEL_TYPE = "evoformer"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedEvoformerModel(LoadedModel[EvoformerModel, EvoformerConfig]):
    """An MSA/pair model: contacts, distances and structures of proteins from their alignments.

    `inputs` of its methods are the path of an alignment, or a folder or list of them; an `Alignment`; or its rows
    by name, the target first, or a list of rows, with insertions in lower case as in A3M.
    """

    family: ClassVar[str] = MODEL_TYPE

    path: Path
    """The file the weights came from."""
    name: str
    """The model's name in results: the file name; for a model folder, `FOLDER/model.safetensors`."""
    inputs: InputSettings
    """How alignments are presented to the model."""

    def predict(
        self,
        inputs: Any,
        *,
        query: str | None = None,
        recycles: int | None = None,
        max_msa_clusters: int | None = None,
        templates: Path | str | None = None,
        precision: str = "fp32",
        chunk: int | None = None,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """Predict contacts: a row for each pair of columns, the likeliest first, as contacts.tsv has them.

        Of several alignments the tables stand below each other, their names in the index. query: name of the row
        that is the target; None = the first. recycles: passes after the first, and max_msa_clusters: rows of the
        clustered MSA at most; None = the model's. templates: a file of `prepare templates`. precision: fp32 or
        bf16. chunk: rows or residues that layers take at a time; None = as memory allows. seed: of every random
        choice.

        Raises: BioattnError for alignments that cannot be read, and settings that the model has no part for.
        """
        from bioattn.models.evoformer.runner import contacts

        with python_warnings():
            runner = self._runner(query, recycles, max_msa_clusters, templates, precision, chunk, seed)
            return contacts(runner, inputs)

    def arrays(
        self,
        inputs: Any,
        *,
        query: str | None = None,
        recycles: int | None = None,
        max_msa_clusters: int | None = None,
        templates: Path | str | None = None,
        representations: Sequence[str] = (),
        precision: str = "fp32",
        chunk: int | None = None,
        seed: int = 0,
    ) -> "dict[str, Prediction]":
        """Predict all that the model can, as arrays by the name of the alignment: distances, structure, pLDDT.

        representations: those to keep too: `single`, `pair`, `msa`, `msa_first_row` or `structure`. Other
        arguments and errors: as `predict`.
        """
        from bioattn.models.evoformer.runner import arrays

        with python_warnings():
            runner = self._runner(
                query, recycles, max_msa_clusters, templates, precision, chunk, seed, representations
            )
            return arrays(runner, inputs)

    def attention(
        self,
        inputs: Any,
        *,
        query: str | None = None,
        recycles: int | None = None,
        max_msa_clusters: int | None = None,
        templates: Path | str | None = None,
        precision: str = "fp32",
        chunk: int | None = None,
        seed: int = 0,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return the attention weights of the last pass over alignments, in memory.

        choices: what is kept, as `AttentionKeywords` has them: sites, heads, dtype, reduce (not given:
        `mean-rows`), top_k. Other arguments and errors: as `predict`.
        """
        from bioattn.models.evoformer.runner import attention

        choices.setdefault("reduce", "mean-rows")
        options = attention_options(**choices)
        with python_warnings():
            runner = self._runner(query, recycles, max_msa_clusters, templates, precision, chunk, seed)
            return attention(runner, inputs, options)

    def check(
        self,
        inputs: Path | str,
        *,
        other_models: Sequence["LoadedEvoformerModel"] = (),
        samples: int = 300,
        seed: int = 0,
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed (docs/checks.md).

        inputs: the path of alignments or of a dataset of contacts. other_models: the same trained with uniform
        attention. samples: proteins at most, drawn by `seed`.

        Raises: BioattnError for too few alignments.
        """
        from bioattn.checks.engine import CheckSettings, Evidence, check_model

        with python_warnings():
            settings = CheckSettings(samples=samples, seed=seed)
            return check_model(self, Path(inputs), Evidence(other_models=other_models), settings=settings)

    def write(self, folder: Path) -> None:
        """Write the weights and `config.json` into the existing `folder`."""
        write_evoformer_model(folder, self.model, self.inputs)

    def _runner(
        self,
        query: str | None,
        recycles: int | None,
        max_msa_clusters: int | None,
        templates: Path | str | None,
        precision: str,
        chunk: int | None,
        seed: int,
        representations: Sequence[str] = (),
    ) -> "AlignmentRunner":
        from bioattn.alignments.templates import read_templates
        from bioattn.models.evoformer.runner import AlignmentRunner, RunSettings

        inputs = self.inputs
        if recycles is not None:
            inputs = replace(inputs, num_recycles=recycles)
        if max_msa_clusters is not None:
            inputs = replace(inputs, max_msa_clusters=max_msa_clusters)
        settings = RunSettings(
            inputs=inputs,
            query=query,
            seed=seed,
            precision=chosen(Precision, "precision", precision),
            chunk=chunk,
            representations=tuple(
                chosen(Representation, "representations", name) for name in names_in(representations)
            ),
            templates=None if templates is None else read_templates(Path(templates)),
        )
        return AlignmentRunner(self, settings, SILENT)

    @property
    def sites(self) -> Sites:
        """Attention sites by name."""
        found = Sites()
        for module in self.model.modules():
            for value in vars(module).values():
                for site in value if isinstance(value, list) else [value]:
                    if isinstance(site, AttentionSite):
                        found[site.name] = site
        return found

    def trial(self) -> None:
        """Predict a small alignment of random residues. Raises: NotFiniteError."""
        from bioattn.models.evoformer.prediction import try_model

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
    architecture = asdict(model.config)
    write_model(folder, MODEL_TYPE, model, architecture=architecture, inputs=asdict(inputs), digest=True)


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
    if path.is_dir():
        if num_structure_layers is not None:
            raise BioattnError(f"{path}: a model folder knows its number of structure module layers")
        config, inputs = read_evoformer_config(path)
        weights = path / WEIGHTS
        model = load_network(
            lambda: EvoformerModel(config), asdict(config), weights, lambda: allocate_model(config)
        )
        name = f"{(path if path.name not in ('', '..') else path.resolve()).name}/{WEIGHTS}"
    else:
        weights, name = path, path.name
        model, inputs = load_parameters(path, num_structure_layers)
    return LoadedEvoformerModel(
        model=model.to(device).eval(),
        device=device,
        path=weights,
        sha256=sha256_of(weights),
        name=name,
        inputs=inputs,
    )
