"""The Phyloformer family: the settings of its command, and the way to its models."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.io.settings import Settings, argument, table
from bioattn.models.family import Family, imported
from bioattn.models.phyloformer import running as runs
from bioattn.models.phyloformer.config import PhyloformerConfig, PhyloformerTrainingConfig
from bioattn.models.phyloformer.running import PhyloformerRun, TreeSimulation
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class PhyloformerTraining(TrainingCommand):
    """Train a model of evolutionary distances on alignments with known trees.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/phyloformer.md explains), then the options here. Prints the error of distances on held-out
    alignments beside those of simple methods: Kimura 1983 and LG for proteins, JC and K80 for DNA. Ctrl-C or
    SIGTERM finishes the step and saves; --resume continues, to the same weights as an uninterrupted run.
    """

    pairs: Path = argument(
        "PAIRS",
        "Table with the columns id, alignment and tree (`simulate trees`), and split where that is fixed.",
    )
    model: Mapping[str, Any] = table(PhyloformerConfig)
    training: Mapping[str, Any] = table(PhyloformerTrainingConfig)


class PhyloformerFamily(Family):
    name = "phyloformer"
    title = "alignments: evolutionary distances and trees of proteins or DNA"
    settings: Mapping[str, type[Settings]] = {
        "simulate": TreeSimulation,
        "train": PhyloformerTraining,
        "run": PhyloformerRun,
    }
    nouns: Mapping[str, str] = {"simulate": "trees"}
    table = "distances.tsv"

    load = imported("phyloformer.folder", "load_phyloformer")
    load_file = load

    def recognises(self, path: Path) -> bool:
        """Whether a file is a checkpoint whose names are Phyloformer's."""
        try:
            with zipfile.ZipFile(path) as archive:
                names = next(name for name in archive.namelist() if name.endswith("data.pkl"))
                return b"pwFNN.0.weight" in archive.read(names)
        except (OSError, zipfile.BadZipFile, StopIteration, RuntimeError):
            return False

    simulate = staticmethod(runs.simulate)
    task = imported("phyloformer.task", "PhyloformerTask")
    run = staticmethod(runs.run)
    export_attention = staticmethod(runs.export_attention)


FAMILY = PhyloformerFamily()
