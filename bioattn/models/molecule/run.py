"""A molecule model that is ready to run, and its commands: predictions, attention and contributions of atoms.

Shape suffixes: B molecules, T tasks, R radii, A atoms.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.site import Axis
from bioattn.choices import Task
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.inputs import HELD, Source, python_call, sequences_in
from bioattn.inference.passes import finite_results, require_finite
from bioattn.inference.run import Work, attention_work, write_attention_file
from bioattn.io.files import sha256_of
from bioattn.models.attention_settings import (
    ONLY_PROMOTERS,
    AttentionKeywords,
    ExportAttention,
    attention_options,
)
from bioattn.models.family import method
from bioattn.models.model_folder import CheckedModel
from bioattn.models.molecule.family import MoleculeModelConfig, MoleculeRun
from bioattn.models.molecule.model import MoleculeModel, molecule_batch
from bioattn.models.molecule_layers import ATOMS
from bioattn.models.running import Running, RunReport, stream_output, tsv
from bioattn.molecules.chemistry import Record, clean_molecules, read_records, require_rdkit
from bioattn.molecules.graphs import Collector
from bioattn.store.reader import Attention
from bioattn.store.schema import (
    ATOM_CONTRIBUTIONS,
    TEXT,
    Array,
    AttentionOptions,
    Column,
    FileLayout,
    GroupLayout,
    Samples,
)
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

if TYPE_CHECKING:
    import pandas as pd

LOGGER = logging.getLogger("bioattn")
BATCH = 64
"""Molecules that are predicted together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedMoleculeModel(CheckedModel[MoleculeModel, MoleculeModelConfig]):
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

        with python_call():
            rows = list(predicted_rows(self, records_in(inputs, smiles_column)))
            dropped = sum(values is None for _, _, values, _ in rows)
            if dropped:
                LOGGER.warning(f"{counted(dropped, 'record')} without a prediction; the column note says why")
        unknown = [np.nan] * len(self.config.tasks)
        cells = [[name, smiles, *(values or unknown), note] for name, smiles, values, note in rows]
        return pd.DataFrame(cells, columns=["id", "smiles", *self.config.tasks, "note"]).set_index("id")

    def attention(
        self, inputs: Any, *, batch_size: int | None = None, **choices: Unpack[AttentionKeywords]
    ) -> Attention:
        """Return the attention weights of molecules, and what each atom contributes to each task, in memory.

        batch_size: molecules per forward pass; None = as memory allows. choices: what is kept, as
        `AttentionKeywords` has them: sites, heads, dtype, reduce, top_k, value_weighted.

        Raises: BioattnError when no molecule can be used, and for sites or heads that the model lacks.
        """
        options = attention_options(**choices)
        with python_call(ExportAttention, batch_size=batch_size):
            work, layout = _maps(self, inputs, options, batch_size)
            return Attention(work.collect(layout))

    check_probe = method("molecule.check", "make_probe")


def in_units(config: MoleculeModelConfig, answer_BT: Tensor) -> NDArray[np.float64]:
    """What a model gives, in the units of the data, or as probabilities of classes."""
    answer_BT = answer_BT.double()
    if config.task is Task.BINARY:
        return np.asarray(answer_BT.sigmoid().cpu())
    return np.asarray(answer_BT.cpu() * torch.tensor(config.spread) + torch.tensor(config.mean))


def load_molecule_model(folder: Path, device: torch.device) -> LoadedMoleculeModel:
    return LoadedMoleculeModel.of_folder(folder, device, MoleculeModelConfig, MoleculeModel)


def records_in(
    inputs: Any, smiles_column: str | None = None, progress: Progress = SILENT
) -> Iterator[Record]:
    """Cleaned molecules of a table or SDF file, or of SMILES.

    inputs: a `Path`, else SMILES by name, in a list or a table; text is never a path.

    Raises: FormatError without a column of SMILES; BioattnError when no molecule can be used.
    """
    if isinstance(inputs, Path):
        return clean_molecules(read_records(inputs, smiles_column), inputs, progress, unique=False)
    named = zip(*sequences_in(inputs, "molecule", smiles_column or "smiles", empty=True)[:2], strict=True)
    return clean_molecules(((name, smiles, {}) for name, smiles in named), HELD, progress, unique=False)


def predicted_rows(
    loaded: LoadedMoleculeModel, records: Iterator[Record]
) -> Iterator[tuple[str, str, list[float] | None, str]]:
    """Name, cleaned SMILES, predictions (None without any) and a note of each record."""
    done = 0
    while True:
        batch, collector, size = list[Record](), Collector(), 0
        for record in records:
            batch.append(record)
            if record.molecule is not None:
                size = collector.add(record.name, record.molecule) + 1
                if size == BATCH:
                    break
        if not batch:
            return
        answers: Iterator[list[float]] = iter(())
        if size:
            molecules = molecule_batch(collector.molecules(), range(size), loaded.device)
            with finite_results(f"molecules {done + 1:,} and following", loaded.path), torch.inference_mode():
                answer_BT = in_units(loaded.config, loaded.model(molecules))
                require_finite(answer_BT, "predictions")
            answers = iter(answer_BT.tolist())
        done += BATCH
        for name, molecule, reason, _ in batch:
            if molecule is None:
                yield name, "", None, reason
            else:
                yield name, molecule.smiles, next(answers), "; ".join(molecule.notes)


def _maps(
    loaded: LoadedMoleculeModel,
    inputs: Any,
    options: AttentionOptions,
    batch_size: int | None,
    progress: Progress = SILENT,
) -> tuple[Work, FileLayout]:
    """How the maps of molecules are computed, and what each atom at each radius contributes to each task.

    Raises: as `records_in`; BioattnError for sites or heads that the model lacks.
    """
    collector, digest, dropped = Collector(), hashlib.sha256(), list[str]()
    for name, molecule, reason, _ in records_in(inputs, progress=progress):
        if molecule is None:
            dropped.append(f"{name} {reason}")
        else:
            collector.add(name, molecule)
            digest.update(f"{name}\0{molecule.smiles}\0".encode())
    if dropped:
        LOGGER.warning(f"{counted(len(dropped), 'record')} left out; the first: {dropped[0]}")
    molecules = collector.molecules()

    def forward(rows: Sequence[int]) -> Mapping[str, Mapping[str, NDArray[Any]]]:
        lost_BTRA = loaded.model.contributions(molecule_batch(molecules, rows, loaded.device))
        return {ATOM_CONTRIBUTIONS: {"values": lost_BTRA.cpu().numpy()}}

    # SMILES tell the order in which the atoms stand.
    atoms = molecules.sizes.astype(np.int32)
    samples = Samples({"id": molecules.ids, ATOMS: atoms, "smiles": molecules.smiles})
    contributions = GroupLayout(
        path=ATOM_CONTRIBUTIONS,
        axes=(
            Axis("task", coordinates=loaded.config.tasks),
            Axis("radius", size=loaded.config.radius + 1),
            Axis("place", "atom", size=int(molecules.sizes.max()), lengths=ATOMS),
        ),
        arrays=(
            Array(
                "values",
                "float32",
                ("task", "radius", "place"),
                "what the prediction loses when the atom writes nothing (standard deviations, or log-odds)",
            ),
        ),
    )
    return attention_work(
        loaded,
        Source(range(len(molecules.ids)), samples),
        forward,
        options,
        sites=choose_sites(loaded.sites, options.sites),
        noun="molecule",
        columns=[
            Column(ATOMS, "int32", "heavy atoms, in the order of the SMILES"),
            Column("smiles", TEXT, "the molecule as the model reads it"),
        ],
        more=[contributions],
        attributes={"input_sha256": sha256_of(inputs) if isinstance(inputs, Path) else digest.hexdigest()},
        batch_size=batch_size,
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    settings.refuse((*ONLY_PROMOTERS, "window", "targets"), "molecule models")
    require_rdkit()
    loaded = load_molecule_model(settings.model, running.device(settings.device, settings.threads))
    options = settings.options()
    work, layout = _maps(loaded, settings.sequences, options, settings.batch_size, running.progress)
    return write_attention_file(settings, running, work, layout)


def run(settings: MoleculeRun, running: Running) -> RunReport:
    require_rdkit()
    loaded = load_molecule_model(settings.model, running.device(settings.device, settings.threads))
    records = records_in(settings.table, settings.smiles_column, running.progress)
    predicted = dropped = 0
    with stream_output(settings.output, running) as (output, written):
        output.write(tsv(["id", "smiles", *loaded.config.tasks, "note"]))
        for name, smiles, values, note in predicted_rows(loaded, records):
            cells = [""] * len(loaded.config.tasks) if values is None else values
            output.write(tsv([name, smiles, *cells, note]))
            predicted += values is not None
            dropped += values is None
    if dropped:
        running.warn(f"{counted(dropped, 'record')} without a prediction; the column note says why")
    return RunReport(
        *[f"wrote {path}: {counted(predicted, 'molecule')}" for path in written],
        outputs=written,
        predicted=predicted,
        dropped=dropped,
    )
