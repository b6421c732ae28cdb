"""The family of translation models: its architecture, its training, and the settings of its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.choices import AttentionScore
from bioattn.errors import SettingsError
from bioattn.io.settings import (
    FORCE,
    THREADS,
    Settings,
    Writes,
    argument,
    option,
    output_option,
    require,
    table,
)
from bioattn.models.family import Family, imported
from bioattn.sequences.choices import PairAlphabet, TranslationPreparation
from bioattn.system.device import DEVICE, Device
from bioattn.training.settings import TrainingCommand, UpdateConfig


class Architecture(StrEnum):
    """What reads the source and writes the target."""

    RECURRENT = "recurrent"
    """A decoder that knows the source by one vector of fixed size (Sutskever et al. 2014, Cho et al. 2014)."""
    RECURRENT_ATTENTION = "recurrent-attention"
    """A recurrent decoder that attends to the source at every step (Bahdanau et al. 2014)."""
    TRANSFORMER = "transformer"
    """Self-attention in encoder and decoder (Vaswani et al. 2017)."""
    TURING_MACHINE = "turing-machine"
    """A controller with a memory that it reads and writes by moving heads (Graves et al. 2014)."""


class Cell(StrEnum):
    GRU = "gru"
    LSTM = "lstm"


class Encoder(StrEnum):
    """What reads the source for a recurrent decoder."""

    BIDIRECTIONAL = "bidirectional"
    """The cell, in both directions."""
    CONV = "conv"
    """Convolutions, over whose map the decoder looks (Show, Attend and Tell, Xu et al. 2015)."""


UNUSED = {
    Architecture.RECURRENT: {"score"},
    Architecture.RECURRENT_ATTENTION: set[str](),
    Architecture.TRANSFORMER: {"cell", "encoder", "score", "aligned", "kernel"},
    Architecture.TURING_MACHINE: {"encoder", "score", "aligned", "kernel", "layers", "reach"},
}
"""Settings that an architecture has no use for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationModelConfig:
    """Architecture of a translation model."""

    source_alphabet: PairAlphabet
    """What sources are made of; the dataset decides it."""
    target_alphabet: PairAlphabet
    """What targets are made of; the dataset decides it."""
    source_characters: str = ""
    """Characters of the sources (alphabet characters); the dataset decides it."""
    target_characters: str = ""
    """Characters of the targets (alphabet characters); the dataset decides it."""
    longest_source: int = 0
    """Tokens of the longest source that was trained on; the dataset and `longest` decide it."""
    genetic_code: int = 1
    """NCBI genetic code of coding sequences; the dataset decides it."""
    architecture: Architecture = option("What the model is.", default=Architecture.RECURRENT_ATTENTION)
    cell: Cell | None = None
    """gru or lstm; default gru for recurrent models, none for a Turing machine's controller."""
    encoder: Encoder = Encoder.BIDIRECTIONAL
    """bidirectional or conv (recurrent)."""
    score: AttentionScore = AttentionScore.ADDITIVE
    """additive, dot or gaussian: how recurrent decoders score source tokens; a transformer takes dot."""
    aligned: bool = False
    """Whether a recurrent decoder also reads the source at the position of the token that it writes."""
    layers: int = 2
    """Layers of the encoder, and of the decoder."""
    channels: int = 128
    """Channels of a token."""
    num_heads: int = 4
    """Attention heads; each has channels / num_heads channels. A Turing machine has so many read heads and one
    write head."""
    slots: int = 64
    """Slots of a Turing machine's memory; two for each source token where that is more."""
    slot_channels: int = 20
    """Numbers in a slot."""
    kernel: int = 5
    """Tokens that a convolution of the encoder covers."""
    reach: int = 8
    """Distance between step and source token up to which attention logits have a learned bias, from the source's
    start and end; 0: no bias."""
    dropout: float = 0.0
    """Dropout of embeddings and between layers."""

    def __post_init__(self) -> None:
        counts = ("layers", "num_heads", "kernel", "slots", "slot_channels")
        require(self, counts, lambda value: value >= 1, "be at least 1")
        require(self, ("channels",), lambda value: value >= 2, "be at least 2")
        require(self, ("longest_source", "reach"), lambda value: value >= 0, "not be negative")
        require(self, ("dropout",), lambda value: 0 <= value < 1, "lie in [0, 1)")
        if self.channels % (2 * self.num_heads):
            raise SettingsError(
                f"channels is {self.channels}; 2 × num_heads = {2 * self.num_heads} must divide it"
            )
        if not self.kernel % 2:
            raise SettingsError(f"kernel is {self.kernel}; an odd number is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationTrainingConfig(UpdateConfig):
    """How a translation model is trained, with the true prefix given at every step (teacher forcing).

    A batch holds pairs of like length.
    """

    learning_rate: float = 2e-3
    weight_decay: float = 0.01
    longest: int = 1000
    """Pairs with more tokens on either side are not trained on."""
    grow_every: int = 0
    """Updates after which sources may be one token longer, from one token on; 0: all at once."""
    validation_pairs: int = 128
    """Pairs of the validation side that every round predicts, spread evenly."""

    def __post_init__(self) -> None:
        UpdateConfig.__post_init__(self)
        require(self, ("longest", "validation_pairs"), lambda value: value >= 1, "be at least 1")
        require(self, ("grow_every",), lambda value: value >= 0, "not be negative")


class OutputConstraint(StrEnum):
    """What outputs must keep to."""

    PROTEIN = "protein"
    """Codons of the residues of the source, one for each."""


class PairTask(StrEnum):
    """What simulated pairs are."""

    COPY = "copy"
    REVERSE_COMPLEMENT = "reverse-complement"
    SORT = "sort"
    RECALL = "recall"
    CASCADE = "cascade"
    SPLICE = "splice"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationSimulation(Settings):
    """Make pairs of sequences with known truth and known alignment.

    Writes source.fa, target.fa, alignment.tsv (which source letter each target letter comes from, both from 1) and
    simulation.json into the folder OUTPUT; of recall and cascade facts.tsv and questions.tsv too, for
    `bioattn train memory`. The same options and seed give the same bytes.
    """

    output: Path = output_option("Folder to write.", Writes.FOLDER)
    task: PairTask = option(
        "copy and reverse-complement of DNA; sort of letters a to z; recall: the value that a key had; cascade: "
        "the regulator some steps upstream; splice: exons without introns.",
        default=PairTask.COPY,
    )
    pairs: int = option("Pairs.", default=2000, min=1)
    shortest: int = option("Least letters of a source (recall, cascade: facts).", default=1, min=1)
    longest: int = option("Most letters of a source (recall, cascade: facts).", default=20, min=1)
    genes: int = option("cascade: genes of all cascades.", default=26, min=4, max=62)
    seed: int = option("Seed of every random choice.", default=0, min=0)
    force: bool = FORCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Search(Settings):
    """How outputs are found."""

    beam: int = option(
        "Outputs that are followed at once; 1: the likeliest token each time.", default=1, min=1, max=1000
    )
    number: int = option("Outputs to write of a beam.", "--number", "-n", default=1, min=1)
    length_penalty: float = option("0: order outputs by likelihood alone.", default=0.6, min=0)
    """α of ((5 + tokens) / 6)^α, by which log-likelihoods are divided (Wu et al. 2016)."""
    samples: int = option("Draw so many outputs instead.", default=0, min=0)
    temperature: float = option("Of draws: 1 as trained.", default=1.0, min=0, max=1000)
    top_p: float = option(
        "Draw from the likeliest tokens that hold this much probability.", default=1.0, min=0
    )
    length: int | None = option(
        "Most tokens of an output [default: 4 for each of the source, and 10].", min=1
    )
    seed: int = option("Seed of the draws.", default=0, min=0)

    def __post_init__(self) -> None:
        if self.samples and self.beam > 1:
            raise SettingsError("--samples and --beam: give one of them")
        if self.number > self.beam:
            raise SettingsError(f"--number {self.number}: a beam of {self.beam} has no more; give --beam")
        if not 0 < self.top_p <= 1:
            raise SettingsError(f"--top-p {self.top_p:g}: give a share above 0 and up to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRun(Search):
    """Write outputs for sources: the likeliest (greedy, or by beam search), draws, or scores of given ones.

    The name of OUTPUT decides its form: FASTA (.fa, .fasta), else a TSV with id, rank, tokens, log-likelihood
    (natural logarithm), score (divided by the length penalty) and sequence. Of several outputs of a source the
    FASTA calls the second NAME/2. With --targets nothing is written anew: one row for each given output.
    """

    model: Path = argument(
        "MODEL", "Folder of a trained translation model.", recorded_file="model.safetensors"
    )
    sources: Path = argument("SOURCES", "FASTA.")
    output: Path = output_option("Table or FASTA to write.", Writes.STREAM)
    ensemble: tuple[Path, ...] = option(
        "Another model of the same alphabets: probabilities are means over all models; can be repeated.",
        default=(),
        metavar="MODEL",
        recorded="ensemble.{}",
        recorded_file="model.safetensors",
    )
    targets: Path | None = option("Given outputs to score: FASTA with the names of SOURCES.")
    constraint: OutputConstraint | None = option("protein: codons of the given residues only.")
    forbid: Path | None = option(
        "Motifs that may stand on neither strand: FASTA, or lines NAME MOTIF, in IUPAC letters."
    )
    genetic_code: int | None = option("NCBI genetic code of --constraint protein [default: the dataset's].")
    device: Device = DEVICE
    threads: int | None = THREADS


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationTraining(TrainingCommand):
    """Train a translation model on pairs of sequences, with the true prefix given at every step.

    docs/models/translation.md explains the tables [model] and [training] of --config. Prints bits per token,
    perplexity and accuracy on held-out pairs beside counts of aligned tokens.
    """

    dataset: Path = argument("DATASET", "Dataset of `bioattn prepare translation`.")
    model: Mapping[str, Any] = table(TranslationModelConfig)
    training: Mapping[str, Any] = table(TranslationTrainingConfig)


class TranslationFamily(Family):
    name = "translation"
    title = "pairs of sequences: one is written from the other, with what aligned with what"
    settings: Mapping[str, type[Settings]] = {
        "prepare": TranslationPreparation,
        "simulate": TranslationSimulation,
        "train": TranslationTraining,
        "run": TranslationRun,
    }
    load = imported("translation.run", "load_translator")
    prepare = imported("translation.preparation", "prepare")
    simulate = imported("translation.pairs", "simulate")
    task = imported("translation.task", "TranslationTask")
    run = imported("translation.run", "run")
    export_attention = imported("translation.run", "export_attention")


FAMILY = TranslationFamily()
