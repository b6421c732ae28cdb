"""The family of molecule models: its architecture, its training, and the settings of its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.io.settings import FORCE, Settings, Writes, argument, option, output_option, require, table
from bioattn.models.family import Family, imported
from bioattn.models.molecule_settings import MoleculeEncoderConfig, MoleculeEncoding
from bioattn.models.running import RunCommand
from bioattn.training.settings import TrainingCommand, UpdateConfig

TABLE_HELP = (
    "Table with a column of SMILES, SDF or SMILES file; a table's first column of names is read, too."
)
_COLUMN_HELP = "The column of the SMILES [default: smiles, in any case]."
DATASET_GIVES = ("task", "tasks", "mean", "spread", "scale", "measured")
"""Fields of `MoleculeModelConfig` that the dataset decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeModelConfig(MoleculeEncoderConfig):
    """Architecture of a molecule model."""

    encoder: MoleculeEncoding = option("What reads a molecule.", default=MoleculeEncoding.ATTENTION)
    task: Task = Task.REGRESSION
    """regression or binary; the dataset decides it."""
    tasks: tuple[str, ...] = ()
    """What is predicted; the dataset decides it."""
    mean: tuple[float, ...] = ()
    """Of each task's training values (regression); the dataset decides it."""
    spread: tuple[float, ...] = ()
    """Standard deviation of each task's training values (regression); the dataset decides it."""
    scale: float = 1.0
    """What atoms write together is multiplied by it; the dataset decides it."""
    gaussian_process: bool = True
    """Whether answers begin with a Gaussian process on shared substructures, to which the network adds."""
    measured: int = 0
    """Molecules that the Gaussian process compares with; the dataset decides it."""
    hidden: int = 128
    """Units of the hidden layer beside the linear one; 0: none, so that what atoms contribute adds up."""

    def __post_init__(self) -> None:
        MoleculeEncoderConfig.__post_init__(self)
        require(self, ("hidden", "measured"), lambda value: value >= 0, "not be negative")
        if self.gaussian_process and not self.radius:
            raise SettingsError(
                "radius is 0 with gaussian_process, whose substructures reach one bond; give 1 or more"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeTrainingConfig(UpdateConfig):
    """How a molecule model is trained. A batch holds molecules of like size."""

    steps: int = option("Updates of the weights.", default=800, min=1)
    steps_per_round: int = 100
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.01


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
    alone: classes), or those of --target; a column of words becomes one class for each word, of two for the rarer.
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

    def __post_init__(self) -> None:
        if self.split_table is not None and self.holdout:
            raise SettingsError("--split-table gives the side of every molecule; leave --holdout out")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeSimulation(Settings):
    """Make molecules of which some hold a planted substructure that acts (needs RDKit).

    Writes molecules.tsv (with the measured value `activity`), truth.tsv (the atoms of the substructure, from 1)
    and simulation.json into the folder OUTPUT; the same options and seed give the same bytes. A second
    substructure, as frequent, does nothing.
    """

    output: Path = output_option("Folder to write.", Writes.FOLDER)
    molecules: int = option("Molecules.", default=1000, min=10)
    seed: int = option("Seed of every random choice.", default=0, min=0)
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeRun(RunCommand):
    """Predict the values, or the probabilities of classes, of molecules (needs RDKit).

    Writes a TSV with the columns id, smiles (cleaned), one for each task, and note: what cleaning changed, or why
    there is no prediction.
    """

    model: Path = argument("MODEL", "Folder of a trained molecule model.", recorded_file="model.safetensors")
    table: Path = argument("TABLE", TABLE_HELP)
    output: Path = output_option("Table to write.", Writes.STREAM)
    smiles_column: str | None = option(_COLUMN_HELP, metavar="NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeTraining(TrainingCommand):
    """Train a model that predicts measured values, or classes, from molecules.

    docs/models/molecules.md explains the tables [model] and [training] of --config. Prints how good the model is
    on held-out molecules beside Nadaraya-Watson and a Gaussian process on the Tanimoto similarity of fingerprints.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare molecules`.")
    model: Mapping[str, Any] = table(MoleculeModelConfig)
    training: Mapping[str, Any] = table(MoleculeTrainingConfig)


class MoleculeFamily(Family):
    name = "molecule"
    title = "molecules: values or classes, with what each atom contributes"
    settings: Mapping[str, type[Settings]] = {
        "prepare": MoleculePreparation,
        "simulate": MoleculeSimulation,
        "train": MoleculeTraining,
        "run": MoleculeRun,
    }
    nouns: Mapping[str, str] = {"prepare": "molecules", "simulate": "molecules"}

    load = imported("molecule.run", "load_molecule_model")
    prepare = imported("molecule.preparation", "prepare")
    simulate = imported("molecule.preparation", "simulate")
    task = imported("molecule.task", "MoleculeTask")
    run = imported("molecule.run", "run")
    export_attention = imported("molecule.run", "export_attention")


FAMILY = MoleculeFamily()
