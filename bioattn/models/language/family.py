"""The family of language models: its commands' settings, and the way to its training and its models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.errors import SettingsError
from bioattn.io.settings import (
    Settings,
    argument,
    option,
    table,
)
from bioattn.models.family import Family, imported
from bioattn.models.language import running as runs
from bioattn.models.language.config import FineTuningConfig, LanguageModelConfig, LanguageTrainingConfig
from bioattn.models.language.running import LanguageGeneration, LanguagePreparation, LanguageRun
from bioattn.models.running import RunReport
from bioattn.training.settings import TrainingCommand

if TYPE_CHECKING:
    import torch

    from bioattn.inference.runner import BinEncoder
    from bioattn.training.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTrainingSettings(TrainingCommand):
    """Train a language model on sequences: an encoder, a decoder, or an encoder with a decoder.

    An encoder restores masked tokens, a decoder predicts the next one, and an encoder with a decoder restores
    masked spans. Settings come from the defaults, then --config (tables [model] and [training], every field of
    which docs/models/language.md explains), then the options here. Prints bits per token, perplexity and accuracy
    on held-out sequences beside counts of short contexts. Ctrl-C or SIGTERM finishes the step and saves; --resume
    continues, to the same weights as an uninterrupted run.

    With --targets the model learns the columns of a table instead, from the weights of --from (or from random
    ones), and is compared with linear models on the same split.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare language`.")
    start: Path | None = option(
        "Model folder whose weights training goes on from; its architecture is kept.",
        "--from",
        recorded_file="model.safetensors",
    )
    targets: Path | None = option(
        "Fine-tune on this table: the column id (or the first), perhaps split, and columns of numbers, classes or "
        "one letter for each token."
    )
    target: tuple[str, ...] = option(
        "Column of --targets to learn; can be repeated [default: all].", default=()
    )
    baselines: bool = option("Count short contexts on the same split, to compare with.", default=True)
    model: Mapping[str, Any] = table(LanguageModelConfig)
    training: Mapping[str, Any] = table(LanguageTrainingConfig, FineTuningConfig)


class LanguageFamily(Family):
    name = "language"
    title = "sequences: masked, next and hidden tokens of DNA, codons and proteins"
    settings: Mapping[str, type[Settings]] = {
        "prepare": LanguagePreparation,
        "train": LanguageTrainingSettings,
        "run": LanguageRun,
        "generate": LanguageGeneration,
    }
    files: Sequence[str] = ("vocabulary.json",)
    published: Sequence[str] = ("esm", "bert", "gpt2", "t5")

    load = imported("language.folder", "load_language_model")
    prepare = staticmethod(runs.prepare)

    def task(self, settings: LanguageTrainingSettings, device: "torch.device") -> "Task":
        from bioattn.models.language.training.fine_tuning import FineTuningTask
        from bioattn.models.language.training.task import LanguageTask

        if settings.targets is not None:
            return FineTuningTask(settings, device)
        if settings.target or "lora" in settings.training:
            raise SettingsError("--target and --lora are for fine-tuning; give the table of --targets")
        return LanguageTask(settings, device)

    def encoder(self, description: Mapping[str, Any]) -> "BinEncoder":
        from bioattn.models.language.encoder import LanguageEncoder

        return LanguageEncoder.described(description)

    run = staticmethod(runs.run)
    generate = staticmethod(runs.generate)

    def export_parameters(
        self, model: Path, output: Path, *, structure_layers: int | None, force: bool
    ) -> RunReport:
        """Write a model as a Hugging Face folder, or a published one as a folder of bioattn."""
        from bioattn.errors import SettingsError
        from bioattn.io.files import check_apart, check_parent
        from bioattn.models.language.published.writing import export_language_model, is_published

        if structure_layers is not None or output.suffix:
            raise SettingsError(
                "--structure-layers is for MSA/pair models"
                if structure_layers is not None
                else f"--output {output}: a language model is written as a folder; give a name without suffix"
            )
        check_parent(output)
        check_apart(output, [model])
        published = is_published(model)
        number = export_language_model(model, output, published=published, force=force)
        form = "model folder" if published else "Hugging Face folder"
        return RunReport(
            sentences=[f"wrote {output}: a {form} of {number:,} parameters"],
            outputs=[output],
            inputs={"model": model / "config.json"},
            figures={"parameters": number},
        )

    export_attention = staticmethod(runs.export_attention)


FAMILY = LanguageFamily()
