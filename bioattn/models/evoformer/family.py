"""The family of MSA/pair models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bioattn.models.evoformer import running as runs
from bioattn.models.evoformer.running import EvoformerRun
from bioattn.models.family import Family, imported
from bioattn.models.running import RunReport
from bioattn.models.settings import (
    Settings,
    argument,
    option,
)
from bioattn.training.settings import TrainingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class EvoformerTrainingSettings(TrainingCommand):
    """Train an MSA/pair model on distances, contacts and masked residues.

    Settings come from the defaults, then --config (tables [model] and [training], every field of which
    docs/models/evoformer-training.md explains), then the options here. Shows the loss and the validation
    figures of every round, and prints the precision of contacts of the validation and test proteins, beside
    couplings. Ctrl-C or SIGTERM finishes the step and saves; --resume continues, to the same weights as an
    uninterrupted run. Several processes or machines train together under torchrun:
    docs/training.md.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare contacts`.")
    steps: int | None = option("Updates on the dataset's families [default: 2000].", table="training", min=0)
    simulated_steps: int | None = option(
        "Updates on simulated families alone, before [default: 0].", table="training", min=0
    )
    initial_model: Path | None = option(
        "Model folder whose weights and shape to start from.", metavar="FOLDER"
    )
    covariance: bool = option("Also give the model covariances of columns as pair features.", default=False)
    uniform_attention: bool = option(
        "Weigh all keys of MSA attention alike: a control.",
        default=False,
        table="model",
        key="uniform_msa_attention",
    )
    exclude: tuple[str, ...] = option("Leave out a protein; can be repeated.", default=(), metavar="ID")


class EvoformerFamily(Family):
    name = "evoformer"
    title = "alignments: contacts, distances and structures of proteins"
    settings: Mapping[str, type[Settings]] = {"train": EvoformerTrainingSettings, "run": EvoformerRun}
    table = "contacts.tsv"

    load = imported("evoformer.folder", "load_evoformer_model")
    load_file = load
    task = imported("evoformer.training.task", "EvoformerTask")
    run = staticmethod(runs.run)

    def export_parameters(
        self, model: Path, output: Path, *, structure_layers: int | None, force: bool
    ) -> RunReport:
        """Write parameters in the form that the name of `output` chooses.

        structure_layers: of a file of parameters, which does not tell it; None: AlphaFold's 8.
        """
        from bioattn.models.evoformer.parameters.export import export_parameters

        number = export_parameters(model, output, num_structure_layers=structure_layers, force=force)
        return RunReport(
            sentences=[f"wrote {output}: {number:,} parameters"],
            outputs=[output],
            inputs={"model": model / "model.safetensors" if model.is_dir() else model},
            figures={"parameters": number},
        )


FAMILY = EvoformerFamily()
