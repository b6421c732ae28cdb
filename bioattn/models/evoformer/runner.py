"""One alignment at a time: reading it, running the model on it, writing its folder or giving its arrays."""

import logging
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from bioattn import __version__
from bioattn.alignments.rows import centre_on_query, find_name
from bioattn.alignments.templates import Templates
from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import read_with_digest
from bioattn.inference.alignment_inputs import Given, InputFile, alignments_in
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter
from bioattn.io.folders import atomic_folder
from bioattn.models.evoformer.config import InputSettings, Representation
from bioattn.models.evoformer.folder import LoadedEvoformerModel
from bioattn.models.evoformer.inputs import AlignmentInputs, TemplateInputs, prepare_inputs
from bioattn.models.evoformer.layers import use_precision
from bioattn.models.evoformer.memory import plan_memory
from bioattn.models.evoformer.prediction import Prediction, predict
from bioattn.models.evoformer.prediction_files import (
    PREDICTION_FILES,
    PredictionOf,
    target_row,
    write_prediction,
)
from bioattn.models.evoformer.sites import (
    TEMPLATE_SITE,
    AlignmentSizes,
    alignment_layout,
    alignment_sample,
    template_site,
)
from bioattn.store.contents import Held
from bioattn.store.reader import Attention
from bioattn.store.schema import AttentionOptions, FileLayout, Samples
from bioattn.structures.predictions import CONTACT_COLUMNS, SCORES, contact_rows
from bioattn.system.device import Precision
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")

PREDICTION_FORMAT = "bioattn-prediction"
PREDICTION_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What is asked of a run besides model and alignments."""

    inputs: InputSettings
    """How alignments are presented: those of the model, or what the user wants instead."""
    query: str | None = None
    """Name of the row that is the target and whose residues become the columns; None = row 1, all columns stay."""
    seed: int = 0
    precision: Precision = Precision.FP32
    """With bf16 the weights of the given model's stacks are rounded, once and for all."""
    chunk: int | None = None
    """Rows or residues that layers take at a time, at most; None = what memory allows."""
    representations: tuple[Representation, ...] = ()
    templates: Templates | None = None
    """Of the one alignment's target."""


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedAlignment:
    """An alignment ready to run."""

    source: InputFile
    subject: PredictionOf
    inputs: AlignmentInputs
    row_names: list[str]
    template_names: Sequence[str]
    """Of the rows that templates add to the clustered MSA."""

    def sample(self, seed: int) -> Samples:
        """The line of the attention file; rows are those of the last pass."""
        inputs, target = self.inputs, self.subject.target
        records = inputs.encoded.records
        assert records is not None
        clusters, extra = (
            [self.row_names[record] for record in records[rows]]
            for rows in inputs.rows_of(seed, inputs.settings.num_recycles)
        )
        return alignment_sample(
            id=self.source.name,
            query="".join(target.letters[column] for column in inputs.columns),
            rows=inputs.num_clusters + len(self.template_names),
            extra_rows=inputs.num_extra,
            input_sha256=self.subject.input_sha256,
            columns=inputs.columns.tolist(),
            alignment_columns=len(target.letters),
            row_names=[*clusters, *self.template_names],
            extra_row_names=extra or [""],
        )


class AlignmentRunner:
    """A model and what is asked of it: a `bioattn.inference.folders.FolderRunner`."""

    noun = "alignment"
    record_file = SCORES

    def __init__(self, model: LoadedEvoformerModel, settings: RunSettings, progress: Progress) -> None:
        self.model, self.model_path = model, model.path
        self.settings = settings
        self.progress = progress
        if settings.precision is Precision.BF16:
            for stack in (model.model.extra_msa_stack, model.model.evoformer):
                if stack is not None:
                    use_precision(stack, torch.bfloat16)

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name; that of templates only where there are some."""
        sites = self.model.sites
        site = sites.pop(TEMPLATE_SITE, None)
        if site is not None and self.settings.templates is not None:
            sites[TEMPLATE_SITE] = template_site(site.num_heads, tuple(self.settings.templates.names))
        return sites

    def check(self, attention: AttentionOptions | None = None) -> None:
        if attention is not None:
            self.layout(attention)
        config = self.model.config
        if self.settings.inputs.num_recycles and not config.recycling:
            raise BioattnError(
                f"--recycles {self.settings.inputs.num_recycles}: the model {self.model.path} has no recycling; "
                "only 0 is possible"
            )
        if self.settings.templates is not None and config.templates is None:
            raise BioattnError(
                f"--templates: the model {self.model.path} has no template embedder; AlphaFold's model_1 and "
                "model_2 have one"
            )
        if Representation.STRUCTURE in self.settings.representations and config.structure_module is None:
            raise BioattnError("--representations structure: the model has no structure module")

    def prepare(self, source: InputFile, alignment: Alignment, sha256: str) -> PreparedAlignment:
        """Encode an alignment. Raises: BioattnError naming what is wrong with it."""
        if self.settings.query is not None:
            row = find_name(alignment.names, self.settings.query, str(source.path))
            alignment = centre_on_query(alignment, row, str(source.path))
        target = target_row(alignment)
        templates = self.settings.templates
        if templates is not None and target.letters.replace("-", "") != templates.letters:
            raise BioattnError(
                f"{source.path}: its target, {target.name}, is not the sequence of the templates, which are of "
                f"{templates.query} ({counted(len(templates.letters), 'residue')}); prepare templates for this "
                "target, or name the row with --query"
            )
        inputs = prepare_inputs(
            alignment,
            self.model.config,
            self.settings.inputs,
            source=str(source.path),
            progress=self.progress,
        )
        if templates is not None:
            laid = TemplateInputs.on_columns(templates, target.letters, inputs.columns)
            inputs = replace(inputs, templates=laid)
        subject = PredictionOf(
            name=source.name,
            target=target,
            columns=inputs.columns,
            aatype=inputs.encoded.aatype[inputs.columns],
            model_sha256=self.model.sha256,
            input_sha256=sha256,
        )
        return PreparedAlignment(
            source=source,
            subject=subject,
            inputs=inputs,
            row_names=alignment.names,
            template_names=() if templates is None else templates.names,
        )

    def run(
        self, source: InputFile, folder: Path, request: StopRequest, attention: AttentionWriter | None
    ) -> list[str]:
        """Read and predict one alignment and write its folder; returns the names of the files."""
        prepared = self.prepare(source, *read_with_digest(source.path))
        # First of all: a place that takes no files is better known before hours of prediction than after.
        with atomic_folder(folder, PREDICTION_FILES) as partial:
            prediction = self.compute(prepared, request, attention)
            return write_prediction(partial, prepared.subject, prediction, self._scores(prepared))

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file. Raises: BioattnError for sites or heads that the model lacks."""
        chosen = [self.sites[name] for name in choose_sites(self.sites, options.sites)]
        return alignment_layout(chosen, options, self.model.sha256)

    def settings_json(self) -> dict[str, Any]:
        settings = self.settings
        structure = self.model.config.structure_module
        return {
            "model_sha256": self.model.sha256,
            # The one setting of a model that its parameters do not tell.
            "structure_layers": None if structure is None else structure.num_layers,
            "query": settings.query,
            "seed": settings.seed,
            "precision": str(settings.precision),
            "device": self.model.device.type,
            "inputs": asdict(settings.inputs),
            "representations": [str(name) for name in settings.representations],
            **({} if settings.templates is None else {"templates_sha256": settings.templates.sha256}),
        }

    def compute(
        self, prepared: PreparedAlignment, request: StopRequest, attention: AttentionWriter | None = None
    ) -> Prediction:
        """Predict a prepared alignment; what it attends to in the last pass goes to `attention`.

        Raises: as `predict`.
        """
        _tell(prepared, predicts_atoms=self.model.config.structure_module is not None)
        inputs, num_templates = prepared.inputs, len(prepared.template_names)
        with ExitStack() as stack:
            receiver = None
            if attention is not None:
                receiver = stack.enter_context(attention.sample(prepared.sample(self.settings.seed)))
            stack.enter_context(
                plan_memory(
                    self.model.config,
                    self.model.device,
                    AlignmentSizes(
                        inputs.num_clusters + num_templates, inputs.num_extra, len(inputs.columns)
                    ),
                    self.settings.chunk,
                    num_templates=num_templates,
                    attention=attention is not None,
                    source=str(prepared.source.path),
                )
            )
            return predict(
                self.model,
                inputs,
                seed=self.settings.seed,
                progress=self.progress,
                request=request,
                description=prepared.source.name,
                representations=self.settings.representations,
                receiver=receiver,
                sites=() if attention is None else attention.site_names,
            )

    def _scores(self, prepared: PreparedAlignment) -> dict[str, Any]:
        inputs, subject = prepared.inputs, prepared.subject
        return {
            "format": PREDICTION_FORMAT,
            "format_version": PREDICTION_FORMAT_VERSION,
            "generated_by": f"bioattn {__version__}",
            "id": subject.name,
            "target": subject.target.name,
            "input": {"file": prepared.source.path.name, "sha256": subject.input_sha256},
            "model": {"file": self.model.name, "sha256": self.model.sha256},
            "rows": len(prepared.row_names),
            "distinct_rows": inputs.encoded.num_rows,
            "msa_clusters": inputs.num_clusters,
            "extra_msa_rows": inputs.num_extra,
            "templates": prepared.template_names,
            "columns": len(subject.target.letters),
            "columns_used": len(inputs.columns),
            "settings": self.settings_json(),
        }


def _tell(prepared: PreparedAlignment, *, predicts_atoms: bool) -> None:
    """Say what is run, and what may be unexpected about it."""
    source, inputs, target = prepared.source, prepared.inputs, prepared.subject.target
    columns = len(target.letters)
    left_out = columns - len(inputs.columns)
    LOGGER.info(
        f"{source.name}: {counted(len(prepared.row_names), 'row')} ({inputs.encoded.num_rows:,} distinct), "
        f"{counted(columns, 'column')}"
        + (f" ({left_out:,} mostly gaps and left out)" if left_out else "")
        + f"; per pass {counted(inputs.num_clusters, 'cluster row')} and "
        f"{counted(min(inputs.num_extra, inputs.num_drawn - inputs.num_clusters), 'extra row')}"
    )
    odd = []
    if num_gaps := target.letters.count("-"):
        odd.append(f"gaps in {counted(num_gaps, 'column')}, which count as unknown residues")
    if target.num_inserted:
        odd.append(f"{counted(target.num_inserted, 'residue')} outside the columns, which are not predicted")
    if odd:
        say = LOGGER.warning if predicts_atoms else LOGGER.info
        say(
            f"{source.name}: row 1, the target, has {' and '.join(odd)} (--query {shlex.quote(target.name)} makes "
            "its residues the columns)"
        )
    if inputs.encoded.num_rows == 1:
        LOGGER.warning(f"{source.path}: one distinct row only: there is nothing to tell contacts from")
        return
    for sentence in inputs.warnings():
        LOGGER.warning(f"{source.path}: {sentence}")


def contacts(runner: AlignmentRunner, inputs: Any) -> pd.DataFrame:
    """The contacts of alignments as contacts.tsv has them; of several with their names in the index."""
    given, several = alignments_in(inputs)
    tables = {}
    for prepared, prediction in _predictions(runner, given):
        probabilities, distances = prediction.contact_probability, prediction.expected_distance
        assert probabilities is not None
        assert distances is not None
        subject = prepared.subject
        rows = contact_rows(
            subject.target.letters, subject.columns, subject.residue_numbers, probabilities, distances
        )
        table = pd.DataFrame(list(rows), columns=list(CONTACT_COLUMNS))
        numbers = [name for name in CONTACT_COLUMNS if not name.startswith("letter")]
        table[numbers] = table[numbers].apply(pd.to_numeric)
        tables[subject.name] = table
    return pd.concat(tables) if several else next(iter(tables.values()))


def arrays(runner: AlignmentRunner, inputs: Any) -> dict[str, Prediction]:
    """All that a model says of alignments, by their names."""
    given, _ = alignments_in(inputs)
    return {prepared.subject.name: prediction for prepared, prediction in _predictions(runner, given)}


def attention(runner: AlignmentRunner, inputs: Any, options: AttentionOptions) -> Attention:
    """The attention of the last pass over alignments."""
    given, _ = alignments_in(inputs)
    kept = Held(runner.layout(options))
    for _ in _predictions(runner, given, AttentionWriter(kept, kept.layout, runner.sites)):
        pass
    return Attention(kept)


def _predictions(
    runner: AlignmentRunner, given: list[Given], attention: AttentionWriter | None = None
) -> Iterator[tuple[PreparedAlignment, Prediction]]:
    """Predict one alignment after the other."""
    runner.check()
    for one in given:
        prepared = runner.prepare(*one)
        yield prepared, runner.compute(prepared, StopRequest(), attention)
