"""An MSA/pair model that is ready to run: its folder, and one alignment at a time predicted into arrays or files.

The schema of the folder stands in `docs/formats/model.md`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import pandas as pd
import torch

from bioattn import __version__
from bioattn.alignments.rows import centre_on_query, find_name
from bioattn.alignments.templates import Templates, read_templates
from bioattn.attention.site import AttentionSite
from bioattn.choices import chosen
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import read_with_digest
from bioattn.formats.tables import open_table
from bioattn.inference.alignment_inputs import Given, InputFile, alignments_in
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter
from bioattn.inference.inputs import names_in, python_call
from bioattn.io.files import sha256_of
from bioattn.io.folders import atomic_folder
from bioattn.io.settings import build
from bioattn.models.attention_settings import AttentionKeywords, attention_options
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, Representation
from bioattn.models.evoformer.family import EvoformerRun
from bioattn.models.evoformer.inputs import TemplateInputs, prepare_inputs
from bioattn.models.evoformer.layers import use_precision
from bioattn.models.evoformer.memory import plan_memory
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.pair_updates import CUEQUIVARIANCE_LEAST, use_kernels
from bioattn.models.evoformer.parameter_files import load_parameters
from bioattn.models.evoformer.prediction import (
    PREDICTION_FILES,
    Prediction,
    PreparedAlignment,
    contact_table,
    predict,
    target_numbers,
    write_prediction,
)
from bioattn.models.evoformer.sites import TEMPLATE_SITE, AlignmentSizes, alignment_layout, template_site
from bioattn.models.evoformer.stacks import compile_blocks
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import LoadedModel, load_network, read_model_config, write_model
from bioattn.store.contents import Held
from bioattn.store.reader import Attention
from bioattn.store.schema import AttentionOptions, FileLayout
from bioattn.structures.chain import aligned_residues, expected_alignments, protein_aligner, scorable
from bioattn.structures.predictions import SCORES
from bioattn.system.device import Compile, Kernels, Precision
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted, percentage

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.checks.record import CheckRecord
    from bioattn.models.evoformer.contact_probe import AlignmentHeadScorer, ContactProbe

LOGGER = logging.getLogger("bioattn")
MODEL_TYPE = "evoformer"
FAMILIES_TABLE = "families.tsv"
ALIKE = 1e-3
"""Local alignments of so high a score that chance gives of two sequences, below which these are alike."""
GAP = -12
"""Score of the first residue of a gap."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedEvoformerModel(LoadedModel[EvoformerModel, EvoformerConfig]):
    """An MSA/pair model: contacts, distances and structures of proteins from their alignments.

    `inputs` of its methods are the path of an alignment, of a folder of them or of a file that lists them; an
    `Alignment`; or its rows by name, the target first, or a list of rows, with insertions in lower case as in A3M.
    """

    family: ClassVar[str] = MODEL_TYPE

    path: Path
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
    ) -> pd.DataFrame:
        """Predict contacts: a row for each pair of columns, the likeliest first, as contacts.tsv has them.

        Of several alignments the tables stand below each other, their names in the index. query: name of the row
        that is the target; None = the first. recycles: passes after the first, and max_msa_clusters: rows of the
        clustered MSA at most; None = the model's. templates: a file of `prepare templates`. precision: fp32 or
        bf16. chunk: rows or residues that layers take at a time; None = as memory allows. seed: of every random
        choice.

        Raises: BioattnError for alignments that cannot be read, and settings that the model has no part for.
        """
        with python_call(EvoformerRun, seed=seed):
            runner = self._runner(query, recycles, max_msa_clusters, templates, precision, chunk, seed)
            given, several = alignments_in(inputs)
            tables = {
                prepared.source.name: contact_table(prepared, prediction)
                for prepared, prediction in runner.predictions(given)
            }
        return pd.concat(tables) if several else next(iter(tables.values()))

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
    ) -> dict[str, Prediction]:
        """Predict all that the model can, as arrays by the name of the alignment: distances, structure, pLDDT.

        representations: those to keep too: `single`, `pair`, `msa`, `msa_first_row` or `structure`. Other
        arguments and errors: as `predict`.
        """
        with python_call(EvoformerRun, seed=seed):
            runner = self._runner(
                query, recycles, max_msa_clusters, templates, precision, chunk, seed, representations
            )
            predictions = runner.predictions(alignments_in(inputs)[0])
            return {prepared.source.name: prediction for prepared, prediction in predictions}

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
        choices.setdefault("reduce", "mean-rows")
        options = attention_options(**choices)
        with python_call(EvoformerRun, seed=seed):
            runner = self._runner(query, recycles, max_msa_clusters, templates, precision, chunk, seed)
            given, _ = alignments_in(inputs)
            kept = Held(runner.layout(options))
            for _ in runner.predictions(given, AttentionWriter(kept, kept.layout, runner.sites)):
                pass
        return Attention(kept)

    def check(
        self,
        inputs: Any,
        *,
        other_models: Sequence["LoadedEvoformerModel"] = (),
        samples: int = 300,
        seed: int = 0,
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed (docs/checks.md).

        inputs: alignments as `predict` takes them, or the path of a dataset of contacts. other_models: the same
        trained with uniform attention. samples: proteins at most, drawn by `seed`.

        Raises: BioattnError for too few alignments.
        """
        from bioattn.python.analyses import check

        return check(self, inputs, samples=samples, seed=seed, other_models=other_models)

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
        inputs = self.inputs
        if recycles is not None:
            inputs = replace(inputs, num_recycles=recycles)
        if max_msa_clusters is not None:
            inputs = replace(inputs, max_msa_clusters=max_msa_clusters)
        # Precision rounds weights in place, and the caller's are to stay.
        rounds = chosen(Precision, "precision", precision) is Precision.BF16
        return AlignmentRunner(
            model=replace(self, model=deepcopy(self.model)) if rounds else self,
            inputs=inputs,
            query=query,
            seed=seed,
            precision=Precision.BF16 if rounds else Precision.FP32,
            chunk=chunk,
            representations=tuple(
                chosen(Representation, "representations", name) for name in names_in(representations)
            ),
            templates=None if templates is None else read_templates(Path(templates)),
        )

    def trial(self) -> None:
        """Predict an alignment of random residues, eight rows of sixteen. Raises: NotFiniteError."""
        residues = np.random.default_rng(0).choice(np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8), (8, 16))
        alignment = Alignment.plain([f"row{number}" for number in range(len(residues))], residues)
        settings = replace(self.inputs, num_samples=1, num_recycles=min(1, self.inputs.num_recycles))
        inputs = prepare_inputs(alignment, self.config, settings, source=f"{self.path}: the trial")
        states = (Representation.MSA, Representation.PAIR)
        predict(self.model, inputs, seed=0, progress=SILENT, request=StopRequest(), representations=states)

    def head_scorer(self, dataset: Path, split: str, progress: Progress) -> "AlignmentHeadScorer":
        from bioattn.models.evoformer.contact_probe import AlignmentHeadScorer

        return AlignmentHeadScorer(self, dataset, split, progress)

    def check_probe(self, inputs: Any, settings: "CheckSettings", evidence: "Evidence") -> "ContactProbe":
        """Alignments to check the attention with. Raises: BioattnError for inputs or controls that do not fit."""
        from bioattn.models.evoformer.contact_probe import make_probe

        return make_probe(self, inputs, settings, evidence.other_models)


@dataclass(kw_only=True)
class AlignmentRunner:
    """A model and what is asked of it: a `bioattn.inference.folders.FolderRunner`."""

    noun = "alignment"
    record_file = SCORES

    model: LoadedEvoformerModel
    inputs: InputSettings
    """How alignments are presented: those of the model, or what the user wants instead."""
    query: str | None = None
    """Name of the row that is the target and whose residues become the columns; None = row 1, all columns stay."""
    seed: int = 0
    precision: Precision = Precision.FP32
    """With bf16 the weights of the given model's stacks are rounded, once and for all."""
    chunk: int | None = None
    """Rows or residues that layers take at a time, at most; None = what memory allows."""
    compile: Compile = Compile.AUTO
    kernel_choice: Kernels = Kernels.AUTO
    remaining: int = 1
    """Alignments that will be run."""
    representations: tuple[Representation, ...] = ()
    templates: Templates | None = None
    progress: Progress = SILENT
    kernels: dict[str, str] = field(default_factory=dict)
    """Versions of what was used beside torch's."""

    def __post_init__(self) -> None:
        config = self.model.config
        if self.inputs.num_recycles and not config.recycling:
            raise BioattnError(
                f"--recycles {self.inputs.num_recycles}: the model {self.model.path} has no recycling; "
                "only 0 is possible"
            )
        if self.templates is not None and config.templates is None:
            raise BioattnError(
                f"--templates: the model {self.model.path} has no template embedder; AlphaFold's model_1 and "
                "model_2 have one"
            )
        if Representation.STRUCTURE in self.representations and config.structure_module is None:
            raise BioattnError("--representations structure: the model has no structure module")
        self.model_path = self.model.path
        self._trained_on = {} if self.model_path is None else read_families(self.model_path.parent)
        if self.precision is Precision.BF16:
            for stack in (self.model.model.extra_msa_stack, self.model.model.evoformer):
                if stack is not None:
                    use_precision(stack, torch.bfloat16)

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name; that of templates only where there are some."""
        sites = self.model.sites
        site = sites.pop(TEMPLATE_SITE, None)
        if site is not None and self.templates is not None:
            sites[TEMPLATE_SITE] = template_site(site.num_heads, tuple(self.templates.names))
        return sites

    def prepare(self, source: InputFile, alignment: Alignment, sha256: str) -> PreparedAlignment:
        """Encode an alignment. Raises: BioattnError naming what is wrong with it."""
        if self.query is not None:
            row = find_name(alignment.names, self.query, str(source.path))
            alignment = centre_on_query(alignment, row, str(source.path))
        target, letters = alignment.names[0], alignment.row(0)
        templates = self.templates
        if templates is not None and letters.replace("-", "") != templates.letters:
            raise BioattnError(
                f"{source.path}: its target, {target}, is not the sequence of the templates, which are of "
                f"{templates.query} ({counted(len(templates.letters), 'residue')}); prepare templates for this "
                "target, or name the row with --query"
            )
        alike = most_alike(letters, self._trained_on)
        if alike is not None:
            LOGGER.warning(
                f"{source.name}: is like {alike[0]}, on which the model was trained ({percentage(alike[1])} of "
                "the residues aligned are equal): how good its contacts are says nothing of other proteins"
            )
        inputs = prepare_inputs(
            alignment, self.model.config, self.inputs, source=str(source.path), progress=self.progress
        )
        if templates is not None:
            laid = TemplateInputs.on_columns(templates, letters, inputs.columns)
            inputs = replace(inputs, templates=laid)
        numbers = target_numbers(alignment)
        return PreparedAlignment(
            source=source,
            sha256=sha256,
            model_sha256=self.model.sha256,
            target=target,
            letters=letters,
            numbers=[numbers[column] for column in inputs.columns],
            num_inserted=sum(map(len, alignment.insertions[0].values())),
            inputs=inputs,
            row_names=alignment.names,
            template_names=() if templates is None else templates.names,
            trained_on=None if alike is None else alike[0],
            warnings=inputs.warnings(),
        )

    def run(
        self, source: InputFile, folder: Path, request: StopRequest, attention: AttentionWriter | None
    ) -> list[str]:
        """Read and predict one alignment and write its folder; returns the names of the files."""
        prepared = self.prepare(source, *read_with_digest(source.path))
        inputs = prepared.inputs
        scores = {
            "format": "bioattn-prediction",
            "format_version": 1,
            "generated_by": f"bioattn {__version__}",
            "id": source.name,
            "target": prepared.target,
            "input": {"file": source.path.name, "sha256": prepared.sha256},
            "model": {"file": self.model.name, "sha256": self.model.sha256},
            "rows": len(prepared.row_names),
            "distinct_rows": len(inputs.encoded.msa),
            "msa_clusters": inputs.num_clusters,
            "extra_msa_rows": inputs.num_extra,
            "templates": prepared.template_names,
            "trained_on": prepared.trained_on,
            "warnings": prepared.warnings,
            "columns": len(prepared.letters),
            "columns_used": len(inputs.columns),
            "settings": self.settings_json(),
        }
        # First of all: a place that takes no files is better known before hours of prediction than after.
        with atomic_folder(folder, PREDICTION_FILES) as partial:
            return write_prediction(partial, prepared, self.compute(prepared, request, attention), scores)

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file. Raises: BioattnError for sites or heads that the model lacks."""
        sites = self.sites
        chosen = [sites[name] for name in choose_sites(sites, options.sites)]
        return alignment_layout(chosen, options, self.model.sha256)

    def settings_json(self) -> dict[str, Any]:
        return {
            "model_sha256": self.model.sha256,
            "query": self.query,
            "seed": self.seed,
            "precision": str(self.precision),
            "device": self.model.device.type,
            "inputs": asdict(self.inputs),
            "representations": [str(name) for name in self.representations],
            **({} if self.templates is None else {"templates_sha256": self.templates.sha256}),
        }

    def compute(
        self, prepared: PreparedAlignment, request: StopRequest, attention: AttentionWriter | None = None
    ) -> Prediction:
        """Predict a prepared alignment; what it attends to in the last pass goes to `attention`.

        Raises: as `predict`.
        """
        prepared.tell(predicts_atoms=self.model.config.structure_module is not None)
        inputs, num_templates = prepared.inputs, len(prepared.template_names)
        device, config = self.model.device, self.model.config
        columns = len(inputs.columns)
        passes = self.inputs.num_samples * (1 + self.inputs.num_recycles) * self.remaining
        cells = config.num_blocks * columns * (columns + inputs.num_clusters)
        cells += config.num_extra_msa_blocks * columns * (columns + inputs.num_extra)
        compiled = compile_blocks(self.model.model, self.compile, device, passes * cells)
        self.kernels |= use_kernels(
            self.kernel_choice,
            device,
            attention=compiled or attention is not None,
            triangle=columns >= CUEQUIVARIANCE_LEAST,
        )
        self.remaining -= 1
        with ExitStack() as stack:
            receiver = None
            if attention is not None:
                receiver = stack.enter_context(attention.sample(prepared.sample(self.seed)))
            memory = plan_memory(
                config,
                device,
                AlignmentSizes(inputs.num_clusters + num_templates, inputs.num_extra, columns),
                self.chunk,
                num_templates=num_templates,
                attention=attention is not None,
                source=str(prepared.source.path),
            )
            stack.enter_context(memory)
            return predict(
                self.model.model,
                inputs,
                seed=self.seed,
                progress=self.progress,
                request=request,
                description=prepared.source.name,
                representations=self.representations,
                receiver=receiver,
                sites=() if attention is None else attention.site_names,
            )

    def predictions(
        self, given: Sequence[Given], attention: AttentionWriter | None = None
    ) -> Iterator[tuple[PreparedAlignment, Prediction]]:
        """Predict one alignment after the other."""
        for one in given:
            prepared = self.prepare(*one)
            yield prepared, self.compute(prepared, StopRequest(), attention)


def read_families(folder: Path) -> dict[str, str]:
    """Sequences by family; empty for a folder without the table. Raises: FormatError for a damaged one."""
    path = folder / FAMILIES_TABLE
    if not path.is_file():
        return {}
    table = open_table(path)
    family, sequence = (table.column(name, FAMILIES_TABLE) for name in ("family", "sequence"))
    return {cells[family]: cells[sequence] for _, cells in table.rows()}


def most_alike(letters: str, families: Mapping[str, str]) -> tuple[str, float] | None:
    """The family whose sequence is most like a query (gaps left out), and the share of equal residues among those
    aligned; None where none is more alike than by chance."""
    query = scorable(letters.replace("-", "").upper())
    found = {
        name: expected_alignments(query, scorable(known), opening=GAP) for name, known in families.items()
    }
    name = min(found, key=found.__getitem__, default="")
    if not name or found[name] > ALIKE:
        return None
    known = scorable(families[name])
    places, residues = aligned_residues(protein_aligner("local", GAP), query, known)
    equal = sum(query[i] == known[j] for i, j in zip(places, residues, strict=True))
    return name, equal / len(places)


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


def load_evoformer_model(path: Path, device: torch.device) -> LoadedEvoformerModel:
    """Load a folder that `write_evoformer_model` wrote, or a parameter file of AlphaFold or OpenFold.

    Raises: FormatError naming the file or array that is missing, of another version, damaged or at odds with the
    rest.
    """
    if path.is_dir():
        config, inputs = read_evoformer_config(path)
        weights = path / WEIGHTS
        model = load_network(lambda: EvoformerModel(config), asdict(config), weights, device)
        name = f"{(path if path.name not in ('', '..') else path.resolve()).name}/{WEIGHTS}"
    else:
        weights, name = path, path.name
        model, inputs = load_parameters(path)
    return LoadedEvoformerModel(
        model=model.to(device).eval(),
        device=device,
        path=weights,
        sha256=sha256_of(weights),
        name=name,
        inputs=inputs,
    )
