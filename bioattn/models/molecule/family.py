"""The family of molecule models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import Settings, argument, table
from bioattn.models.family import Family, imported
from bioattn.models.molecule import running as runs
from bioattn.models.molecule.config import MoleculeModelConfig, MoleculeTrainingConfig
from bioattn.models.molecule.running import MoleculePreparation, MoleculeRun, MoleculeSimulation
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class MoleculeTraining(TrainingCommand):
    """Train a model that predicts measured values, or classes, from molecules.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/molecules.md explains), then the options here. Prints how good the model is on held-out molecules
    beside Nadaraya-Watson and a Gaussian process on the Tanimoto similarity of fingerprints. Ctrl-C or SIGTERM
    finishes the step and saves; --resume continues, to the same weights as an uninterrupted run.
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

    load = imported("molecule.folder", "load_molecule_model")
    prepare = staticmethod(runs.prepare)
    simulate = staticmethod(runs.simulate)
    task = imported("molecule.task", "MoleculeTask")
    run = staticmethod(runs.run)
    export_attention = staticmethod(runs.export_attention)


FAMILY = MoleculeFamily()
