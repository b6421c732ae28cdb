"""Commands of molecule models: their settings, and the way to what carries them out."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.io.settings import (
    Settings,
    Writes,
    argument,
    force_option,
    option,
    output_option,
    threads_option,
)
from bioattn.models.attention_settings import ONLY_PROMOTERS, ExportAttention
from bioattn.models.running import Running, RunReport, loaded_model, stream_output
from bioattn.system.device import Device, device_option
from bioattn.text import counted

if TYPE_CHECKING:
    from bioattn.models.molecule.folder import LoadedMoleculeModel

TABLE_HELP = "Table with a column of SMILES, or SDF; the first other column names the molecules."
_COLUMN_HELP = "The column of the SMILES [default: smiles, in any case]."


class MoleculeSplit(StrEnum):
    """How molecules are held out."""

    SCAFFOLD = "scaffold"
    """Molecules of one Murcko scaffold (or of none) together."""
    RANDOM = "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculePreparation(Settings):
    """Make a dataset of molecules with measured values, cleaned and split without leakage (needs RDKit).

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every record kept or dropped, and why; salts removed,
    charges neutralised and stereo centres not given are notes there. Learnt are all columns of numbers (0 and 1
    alone: classes), or those of --target; a column of words becomes one class for each word.
    """

    table: Path = argument("TABLE", TABLE_HELP)
    output: Path = output_option("Dataset to write, X.dataset.h5.", Writes.FILE)
    smiles_column: str | None = option(_COLUMN_HELP, metavar="NAME")
    target: tuple[str, ...] = option(
        "A column to learn; can be repeated [default: all of numbers].", default=(), metavar="NAME"
    )
    responses: Path | None = option("Table of measured values; its first column names the molecules.")
    split: MoleculeSplit = option(
        "scaffold: molecules of one Murcko scaffold, or of none, stay together; random.",
        default=MoleculeSplit.SCAFFOLD,
    )
    holdout: tuple[str, ...] = option(
        "test=0.1 or validation=0.1 (share); can be repeated [default: a tenth each].", default=()
    )
    split_table: Path | None = option(
        "TSV/CSV whose first column names the molecules, with the column split (train, validation, test); "
        "instead of --split."
    )
    seed: int = option("Seed of the split.", default=0, min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeSimulation(Settings):
    """Make molecules of which some hold a planted substructure that acts (needs RDKit).

    Writes molecules.tsv (with the measured value `activity`), truth.tsv (the atoms of the substructure, from 1)
    and simulation.json into the folder OUTPUT; the same options and seed give the same bytes. A second
    substructure, as frequent, does nothing.
    """

    output: Path = output_option("Folder to write.", Writes.FOLDER)
    molecules: int = option("Molecules.", default=1000, min=10)
    pieces: int = option("Pieces that a molecule is made of, at most.", default=8, min=2, max=30)
    effect: float = option("What the substructure adds to the activity.", default=2.0)
    noise: float = option("Standard deviation added to the activity.", default=0.5, min=0)
    seed: int = option("Seed of every random choice.", default=0, min=0)
    force: bool = force_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeRun(Settings):
    """Predict the values, or the probabilities of classes, of molecules (needs RDKit).

    Writes a TSV with the columns id, smiles (cleaned), one for each task, and note: what cleaning changed, or why
    there is no prediction.
    """

    model: Path = argument("MODEL", "Folder of a trained molecule model.", recorded_file="model.safetensors")
    table: Path = argument("TABLE", TABLE_HELP)
    output: Path = output_option("Table to write.", Writes.STREAM)
    smiles_column: str | None = option(_COLUMN_HELP, metavar="NAME")
    device: Device = device_option()
    threads: int | None = threads_option()


def prepare(settings: MoleculePreparation, running: Running) -> RunReport:
    from bioattn.io.audit import audit_path
    from bioattn.molecules.preparation import PreparationSettings, prepare_molecules

    made = prepare_molecules(
        settings.table,
        settings.output,
        PreparationSettings(
            smiles_column=settings.smiles_column,
            targets=settings.target,
            responses=settings.responses,
            by_scaffold=settings.split is MoleculeSplit.SCAFFOLD,
            holdouts=settings.holdout,
            split_table=settings.split_table,
            seed=settings.seed,
        ),
        running.progress,
    )
    if made.dropped:
        running.warn(f"{counted(len(made.dropped), 'record')} left out; the first: {made.dropped[0]}")
    audit = audit_path(settings.output)
    sides = ", ".join(f"{name} {number:,}" for name, number in made.molecules.items())
    return RunReport(
        sentences=[
            f"wrote {settings.output} and {audit}: molecules: {sides}; {counted(made.tasks, 'task')} "
            f"({made.task}); {made.noted:,} with a note on salts, charges or stereo"
        ],
        outputs=[settings.output, audit],
        figures={"molecules": made.molecules, "dropped": len(made.dropped), "leakage": made.leakage},
    )


def simulate(settings: MoleculeSimulation, running: Running) -> RunReport:
    from bioattn.models.molecule.simulation import write_simulation

    write_simulation(settings)
    table = settings.output / "molecules.tsv"
    return RunReport(
        sentences=[
            f"wrote {settings.output}: {counted(settings.molecules, 'molecule')}",
            f"next: bioattn prepare molecules {table} --split random -o X.dataset.h5",
        ],
        outputs=[settings.output],
    )


def run(settings: MoleculeRun, running: Running) -> RunReport:
    from bioattn.models.molecule.records import predicted_rows, records_in

    loaded = _loaded(settings, running)
    records = records_in(settings.table, settings.smiles_column, running.progress)
    predicted = dropped = 0
    with stream_output(settings.output, running) as (output, written):
        output.write("\t".join(["id", "smiles", *loaded.config.tasks, "note"]) + "\n")
        for name, smiles, values, note in predicted_rows(loaded, records):
            cells = (
                [""] * len(loaded.config.tasks) if values is None else [f"{value:.7g}" for value in values]
            )
            output.write("\t".join([name, smiles, *cells, note]) + "\n")
            predicted += values is not None
            dropped += values is None
    if dropped:
        running.warn(f"{counted(dropped, 'record')} without a prediction; the column note says why")
    return RunReport(
        sentences=[f"wrote {path}: {counted(predicted, 'molecule')}" for path in written],
        outputs=written,
        figures={"predicted": predicted, "dropped": dropped},
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    from bioattn.models.molecule.attention import write_attention
    from bioattn.models.molecule.records import collected, records_in

    settings.refuse((*ONLY_PROMOTERS, "window", "targets"), "molecule models")
    loaded = _loaded(settings, running)
    molecules, dropped, _ = collected(records_in(settings.sequences, None, running.progress))
    if dropped:
        running.warn(f"{counted(len(dropped), 'record')} left out; the first: {dropped[0]}")
    return write_attention(settings, running, loaded, molecules)


def _loaded(settings: MoleculeRun | ExportAttention, running: Running) -> "LoadedMoleculeModel":
    from bioattn.models.molecule.folder import load_molecule_model
    from bioattn.molecules.chemistry import require_rdkit

    require_rdkit()
    return loaded_model(settings, running, load_molecule_model)
