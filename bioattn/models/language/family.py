"""The family of language models: its commands' settings, and the way to what carries them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.errors import SettingsError
from bioattn.io.settings import RUNNING, SHARD, Settings, Writes, argument, option, output_option, table
from bioattn.models.family import Family, imported
from bioattn.models.language.config import (
    PUBLISHED,
    FineTuningConfig,
    LanguageModelConfig,
    LanguageTrainingConfig,
    Pool,
    Score,
    published_type,
)
from bioattn.models.running import RunCommand, Running, RunReport
from bioattn.sequences.choices import LanguagePreparation
from bioattn.system.device import RunPrecision
from bioattn.text import counted
from bioattn.training.settings import TrainingCommand

if TYPE_CHECKING:
    import torch

    from bioattn.training.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRun(RunCommand):
    """Write embeddings, likelihoods, contacts or predictions of sequences by a language model.

    --embeddings writes the mean over the words of each sequence. --output writes a TSV, one row per sequence:
    words, log-likelihood (natural logarithm), bits per word, perplexity. A decoder gives each word the probability
    given those before it; an encoder masks each in turn (pseudo-likelihood: a pass for each word) or, by --score
    one-pass, gives that of the words which it reads. With --variants one row per mutant: ln of how much likelier
    it is than the sequence. Of a fine-tuned model predictions instead: numbers, the likeliest class and the
    probability of each, or one tag for each token, in columns named as the targets.
    """

    model: Path = argument(
        "MODEL",
        "Folder of a language model, or its name on the Hugging Face hub: facebook/esm2_t6_8M_UR50D[@REVISION].",
        recorded_file="model.safetensors",
    )
    sequences: Path = argument("SEQUENCES", "FASTA.")
    output: Path | None = option("Table to write.", "--output", "-o", writes=Writes.STREAM)
    score: Score | None = option(
        "How an encoder scores sequences or mutants in the table of --output; none: words are counted alone "
        "[default: masked]."
    )
    variants: Path | None = option(
        "Table of substitutions (columns sequence and mutant, such as H24C) to score instead of whole sequences."
    )
    embeddings: Path | None = option("Write embeddings here as HDF5.", writes=Writes.FILE)
    pool: Pool = option("What becomes a sequence's embedding.", default=Pool.MEAN)
    per_token: bool = option("Write the embedding of every word instead.", default=False)
    layers: str | None = option(
        "Layers whose channels are written, such as 6,12,-1; 0 is what goes into the first [default: the last].",
        metavar="LIST",
    )
    contacts: Path | None = option(
        "Write the contacts of proteins here (.tsv), by the regression that ESM-2's weights hold.",
        writes=Writes.FILE,
    )
    precision: RunPrecision = option(
        "Arithmetic and weights; auto: bf16 on a GPU that has it where embeddings alone are asked for, else fp32.",
        default=RunPrecision.AUTO,
        group=RUNNING,
    )
    window: int | None = option(
        "Most tokens read at once; longer sequences are read in windows that overlap by half "
        "[default: the model's context].",
        min=8,
    )
    shard: str | None = SHARD


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageGeneration(RunCommand):
    """Write new sequences, drawn from a decoder token by token.

    A sequence ends where the decoder ends it, or at --max-length. The same seed draws the same sequences; with
    --temperature 0 nothing is drawn, and all sequences are alike.
    """

    model: Path = argument("MODEL", "Folder of a trained decoder.", recorded_file="model.safetensors")
    output: Path = output_option("FASTA to write.", Writes.FILE)
    number: int = option("Sequences.", "--number", "-n", default=10, min=1)
    prompt: str = option("Letters that each begins with.", default="")
    examples: Path | None = option(
        "FASTA of sequences that are read before each (few-shot).", "--prompt-file", metavar="FASTA"
    )
    max_length: int | None = option(
        "Most tokens of a sequence [default: what the model reads at once].", min=1
    )
    temperature: float = option(
        "0 for the likeliest token each time; 1 as trained.", default=1.0, min=0, max=1000
    )
    top_p: float = option(
        "Draw from the likeliest tokens that hold this much probability.", default=1.0, min=0
    )
    seed: int = option("Seed of the draws.", default=0, min=0)


def prepare(settings: LanguagePreparation, running: Running) -> RunReport:
    from bioattn.io.records import audit_path
    from bioattn.sequences.preparation import prepare_sequences

    figures, dropped = prepare_sequences(settings, running.progress)
    audit = audit_path(settings.output)
    letters = ", ".join(f"{name} {number:,}" for name, number in figures["letters"].items())
    said = f", {dropped:,} dropped" if dropped else ""
    return RunReport(
        f"wrote {settings.output} and {audit}: {counted(figures['records'], 'record')}{said}; letters: {letters}",
        inputs={f"fasta.{number}": path for number, path in enumerate(settings.fasta, start=1)},
        outputs=[settings.output, audit],
        **figures,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageTrainingSettings(TrainingCommand):
    """Train a language model on sequences: an encoder, a decoder, or an encoder with a decoder.

    An encoder restores masked tokens, a decoder predicts the next one, and an encoder with a decoder restores
    masked spans. docs/models/language.md explains the tables [model] and [training] of --config. Prints bits per
    token, perplexity and accuracy on held-out sequences beside counts of short contexts. Several processes or
    machines train together under torchrun: docs/training.md.

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
    published = staticmethod(published_type)
    published_types = PUBLISHED

    load = load_file = imported("language.folder", "load_language_model")
    prepare = staticmethod(prepare)

    @staticmethod
    def recognises(path: Path) -> bool:
        """Whether these are weights of ESM C, or adapters alone, of which loading says what to take instead."""
        adapters = (path / "adapter_config.json").is_file()
        return adapters or (path.suffix == ".pth" and path.name.lower().startswith("esmc"))

    def task(self, settings: LanguageTrainingSettings, device: "torch.device") -> "Task":
        from bioattn.models.language.fine_tuning import FineTuningTask
        from bioattn.models.language.task import LanguageTask

        if settings.targets is not None:
            return FineTuningTask(settings, device)
        if settings.target or "lora" in settings.training:
            raise SettingsError("--target and --lora are for fine-tuning; give the table of --targets")
        return LanguageTask(settings, device)

    encoder = imported("language.encoder", "described")
    run = imported("language.run", "run")
    generate = imported("language.generation", "generate")

    export_parameters = imported("language.published_writing", "export_parameters")
    export_attention = imported("language.attention", "export_attention")


FAMILY = LanguageFamily()
