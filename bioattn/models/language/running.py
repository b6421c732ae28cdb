"""Commands of language models: their settings, and the way to what carries them out."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.errors import BioattnError, SettingsError
from bioattn.models.attention_settings import ONLY_PROMOTERS, ExportAttention
from bioattn.models.language.config import Pool
from bioattn.models.running import Running, RunReport, loaded_model, stream_output
from bioattn.models.settings import (
    Settings,
    Writes,
    argument,
    device_option,
    option,
    output_option,
    threads_option,
)
from bioattn.sequences.choices import Alphabet, SequenceSplit
from bioattn.system.device import Device
from bioattn.text import counted, listed

if TYPE_CHECKING:
    from bioattn.models.language.folder import LoadedLanguageModel
    from bioattn.models.language.inference.source import TokenSource

NO_OUTPUT = "was published without an output layer"


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguagePreparation(Settings):
    """Make a dataset of sequences for training, split without leakage.

    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every record kept or dropped, and why. Files are
    streamed: a genome of any size needs little memory. The split is by record for five chromosomes or more, by
    position for fewer, and by homology for shorter records, unless --split says otherwise.
    """

    fasta: tuple[Path, ...] = argument("FASTA...", "Genomes, genes or proteins: plain, gzip or xz.")
    output: Path = output_option("Dataset to write, X.dataset.h5.", Writes.FILE)
    alphabet: Alphabet = option("What the sequences are.", default=Alphabet.DNA)
    kmer: int = option("Bases of a token of DNA.", default=1, min=1)
    split: SequenceSplit | None = option("Units of the split [default: chosen by the records].")
    holdout: tuple[str, ...] = option(
        "test=IV,XV (records) or validation=0.1 (share of letters); can be repeated [default: a tenth each].",
        default=(),
    )
    split_table: Path | None = option(
        "TSV/CSV with the columns gene (or the first) and split (train, validation, test), instead of --split."
    )
    genetic_code: int = option("NCBI genetic code, to find related genes (codon).", default=1)
    seed: int = option("Seed of the split.", default=0, min=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageRun(Settings):
    """Score sequences with a language model, write its predictions, and their embeddings.

    Writes a TSV, one row per sequence: words, log-likelihood (natural logarithm), bits per word, perplexity. A
    decoder gives each word the probability given those before it; an encoder masks each in turn
    (pseudo-likelihood). With --variants one row per mutant: ln of how much likelier it is than the sequence. Of a
    fine-tuned model predictions instead: numbers, the likeliest class and the probability of each, or one tag for
    each token, in columns named as the targets.
    """

    model: Path = argument("MODEL", "Folder of a trained language model.", recorded_file="model.safetensors")
    sequences: Path = argument("SEQUENCES", "FASTA.")
    output: Path = output_option("Table to write.", Writes.STREAM)
    variants: Path | None = option(
        "Table of substitutions (columns sequence and mutant, such as H24C) to score instead of whole sequences."
    )
    embeddings: Path | None = option("Also write embeddings here as HDF5.", writes=Writes.FILE)
    window: int | None = option(
        "Most tokens read at once; longer sequences are read in windows that overlap by half "
        "[default: the model's context].",
        min=8,
    )
    pool: Pool = option("What becomes a sequence's embedding.", default=Pool.MEAN)
    device: Device = device_option()
    threads: int | None = threads_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageGeneration(Settings):
    """Write new sequences, drawn from a decoder token by token.

    A sequence ends where the decoder ends it, or at --length. The same seed draws the same sequences; with
    --temperature 0 nothing is drawn, and all sequences are alike.
    """

    model: Path = argument("MODEL", "Folder of a trained decoder.", recorded_file="model.safetensors")
    output: Path = output_option("FASTA to write.", Writes.FILE)
    number: int = option("Sequences.", "--number", "-n", default=10, min=1)
    prompt: str = option("Letters that each begins with.", default="")
    examples: Path | None = option(
        "FASTA of sequences that are read before each (few-shot).", "--prompt-file", metavar="FASTA"
    )
    length: int | None = option("Most tokens of a sequence [default: what the model reads at once].", min=1)
    temperature: float = option(
        "0 for the likeliest token each time; 1 as trained.", default=1.0, min=0, max=1000
    )
    top_p: float = option(
        "Draw from the likeliest tokens that hold this much probability.", default=1.0, min=0
    )
    seed: int = option("Seed of the draws.", default=0, min=0)
    device: Device = device_option()
    threads: int | None = threads_option()


def prepare(settings: LanguagePreparation, running: Running) -> RunReport:
    from bioattn.io.audit import audit_path
    from bioattn.sequences.preparation import SequenceSettings, prepare_sequences

    made = prepare_sequences(
        settings.fasta,
        settings.output,
        SequenceSettings(
            alphabet=settings.alphabet,
            kmer=settings.kmer,
            split=settings.split,
            holdouts=settings.holdout,
            split_table=settings.split_table,
            genetic_code=settings.genetic_code,
            seed=settings.seed,
        ),
        running.progress,
    )
    audit = audit_path(settings.output)
    letters = ", ".join(f"{name} {number:,}" for name, number in made.letters.items())
    dropped = f", {made.dropped:,} dropped" if made.dropped else ""
    return RunReport(
        sentences=[
            f"wrote {settings.output} and {audit}: {counted(made.records, 'record')}{dropped}; letters: {letters}"
        ],
        outputs=[settings.output, audit],
        inputs={f"fasta.{number}": path for number, path in enumerate(settings.fasta, start=1)},
        figures={"records": made.records, "letters": made.letters, "leakage": made.leakage},
    )


def run(settings: LanguageRun, running: Running) -> RunReport:
    """Write scores and, where asked for, embeddings."""
    from bioattn.models.language.config import Output, Shape
    from bioattn.models.language.folder import load_language_model
    from bioattn.models.language.inference.embedding_file import write_embeddings
    from bioattn.models.language.inference.scoring import pooled
    from bioattn.models.language.inference.source import read_tokens, say_windows, tokens_at_once
    from bioattn.models.language.readout import require_length

    loaded = loaded_model(settings, running, load_language_model)
    if settings.variants is not None:
        _require_likelihoods(loaded, settings.model)
    most = tokens_at_once(loaded.config, settings.window)
    whole = loaded.model.readout is not None
    source = read_tokens(settings.sequences, loaded.vocabulary, most, whole=whole)
    if loaded.model.readout is not None and loaded.model.readout.fine_tuned.num_tokens:
        require_length(
            source.tokens, source.ids, loaded.model.readout.fine_tuned.num_tokens, settings.sequences
        )
    say_windows(source, most, causal=loaded.config.shape is not Shape.ENCODER)
    with stream_output(settings.output, running) as (file, written):
        file.writelines(_table(loaded, source, settings, most, running))
    if loaded.config.form.output is Output.NONE:
        running.warn(f"{settings.model}: {NO_OUTPUT}; the table has no likelihoods")
    what = "variants" if settings.variants is not None else counted(source.num_samples, "sequence")
    table = "scores" if loaded.model.readout is None else "predictions"
    sentences = [f"wrote {path}: {table} of {what}" for path in written]
    if settings.embeddings is not None:
        batches = source.batches(_batch_size(min(source.longest, most)))
        values = pooled(loaded, batches, settings.pool, most)
        write_embeddings(settings.embeddings, list(source.ids), values, loaded.sha256, settings.pool)
        written.append(settings.embeddings)
        sentences.append(
            f"wrote {settings.embeddings}: {len(values):,} embeddings of {values.shape[1]} channels"
        )
    return RunReport(sentences=sentences, outputs=written, figures={"sequences": source.num_samples})


def generate(settings: LanguageGeneration, running: Running) -> RunReport:
    from bioattn.formats.fasta import FastaRecord, write_fasta
    from bioattn.models.language.config import Shape
    from bioattn.models.language.folder import load_language_model
    from bioattn.models.language.inference.generation import generate as drawn
    from bioattn.models.language.inference.source import read_tokens
    from bioattn.sequences.vocabulary import UNKNOWN

    loaded = loaded_model(settings, running, load_language_model)
    if loaded.config.shape is not Shape.DECODER:
        raise BioattnError(
            f"{settings.model}: is an {loaded.config.shape}; sequences are drawn from a decoder "
            "(`bioattn train language --shape decoder`)"
        )
    _require_likelihoods(loaded, settings.model)
    vocabulary = loaded.vocabulary
    words = vocabulary.words(settings.prompt, "--prompt")
    if vocabulary.published is None and len(settings.prompt) % vocabulary.word:
        raise SettingsError(
            f"--prompt: {len(settings.prompt)} letters are not whole tokens of {vocabulary.word}"
        )
    prompt = vocabulary.framed(words)[: vocabulary.begins + len(words)]
    if not len(prompt):
        raise SettingsError(
            "--prompt: this model has no token that begins a sequence; give the first letters"
        )
    if len(words) and (words == UNKNOWN).all():
        raise SettingsError(f"--prompt {settings.prompt}: holds no letter that the model knows")
    examples = []
    if settings.examples is not None:
        if not vocabulary.begins:
            raise SettingsError(f"--prompt-file: {settings.model} has no token that begins a sequence")
        examples = list(read_tokens(settings.examples, vocabulary, loaded.config.context).tokens)
    shown = sum(map(len, examples))
    room = loaded.config.context - vocabulary.begins - shown
    if room < 1:
        raise SettingsError(
            f"--prompt-file: its sequences are {shown:,} tokens long; the model reads "
            f"{loaded.config.context:,} at once: give fewer or shorter ones"
        )
    length = room if settings.length is None else settings.length
    if not len(words) < length <= room:
        raise SettingsError(
            f"--length {length}: give more than the {len(words)} tokens of --prompt and at most {room}, which the "
            f"model reads at once{' behind --prompt-file' if shown else ''}"
        )
    if not 0 < settings.top_p <= 1:
        raise SettingsError(f"--top-p {settings.top_p:g}: give a share above 0 and up to 1")
    running.progress.begin("sequences", settings.number)
    records: list[FastaRecord] = []
    for tokens in drawn(
        loaded,
        prompt,
        settings.number,
        length=length,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
        examples=examples,
    ):
        records.append(FastaRecord(f"generated_{len(records) + 1}", "", vocabulary.text(tokens)))
        running.progress.advance(1)
    running.progress.end()
    write_fasta(settings.output, records)
    return RunReport(
        sentences=[f"wrote {settings.output}: {counted(len(records), 'sequence')}"],
        outputs=[settings.output],
        figures={"sequences": len(records)},
    )


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    from bioattn.models.language.folder import load_language_model
    from bioattn.models.language.inference.attention import write_attention

    settings.refuse((*ONLY_PROMOTERS, "targets"), "language models")
    return write_attention(settings, running, loaded_model(settings, running, load_language_model))


def _require_likelihoods(loaded: "LoadedLanguageModel", folder: Path) -> None:
    if loaded.model.readout is not None:
        raise SettingsError(
            f"{folder}: was fine-tuned, and says no longer how likely sequences are; give the model that it was "
            "trained from"
        )


def _table(
    loaded: "LoadedLanguageModel",
    source: "TokenSource",
    settings: LanguageRun,
    most: int,
    running: Running,
) -> Iterator[str]:
    """The lines of the table: scores of variants where there are some, else of sequences."""
    import numpy as np

    from bioattn.models.language.config import Output
    from bioattn.models.language.inference.predictions import prediction_header, predictions
    from bioattn.models.language.inference.scoring import score
    from bioattn.models.language.inference.source import read_letters
    from bioattn.models.language.inference.variants import read_variants, variant_scores
    from bioattn.models.language.readout import is_word

    readout, progress = loaded.model.readout, running.progress
    without: list[str] = []
    if readout is not None:
        progress.begin("sequences", source.num_samples)
        yield "\t".join(prediction_header(readout)) + "\n"
        for cells in predictions(loaded, source, _batch_size(source.longest)):
            yield "\t".join(cells) + "\n"
            progress.advance(1)
    elif settings.variants is not None:
        if loaded.config.form.output is Output.NONE:
            raise BioattnError(f"{settings.model}: {NO_OUTPUT}, so that it scores no variants")
        sequences = dict(read_letters(settings.sequences, loaded.vocabulary))
        variants = read_variants(settings.variants, sequences)
        progress.begin("variants", len(variants))
        yield "sequence\tmutant\tscore\n"
        scores = variant_scores(loaded, source, sequences, variants, most)
        for variant, value in zip(variants, scores, strict=True):
            if value is None:
                without.append(f"{variant.sequence} {variant.mutant}")
            yield f"{variant.sequence}\t{variant.mutant}\t{'' if value is None else f'{value:.7g}'}\n"
            progress.advance(1)
    elif loaded.config.form.output is Output.NONE:
        yield "id\twords\n"
        yield from (
            f"{name}\t{np.count_nonzero(is_word(tokens))}\n"
            for name, tokens in zip(source.ids, source.tokens, strict=True)
        )
        return
    else:
        progress.begin("sequences", source.num_samples)
        yield "id\twords\tlog_likelihood\tbits_per_word\tperplexity\n"
        for name, tokens in zip(source.ids, source.tokens, strict=True):
            scored = score(loaded, tokens, most)
            progress.advance(1)
            if not scored.words:
                without.append(name)
                yield f"{name}\t0\t\t\t\n"
                continue
            nats = -scored.log_likelihood / scored.words
            yield (
                f"{name}\t{scored.words}\t{scored.log_likelihood:.7g}\t{nats / math.log(2):.7g}\t"
                f"{math.exp(min(nats, 700.0)):.7g}\n"
            )
    progress.end()
    if without:
        running.warn(
            f"{settings.variants or settings.sequences}: {listed(without)}: no word that the model could be asked "
            "for (N and X are unknown ones); the cells of the table are empty"
        )


def _batch_size(longest: int) -> int:
    return max(1, 8192 // longest)
