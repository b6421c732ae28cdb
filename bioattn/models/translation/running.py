"""Commands of translation models: their settings, and the way to what carries them out."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from bioattn.errors import SettingsError
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
from bioattn.sequences.choices import PairAlphabet, SequenceSplit
from bioattn.system.device import Device, device_option
from bioattn.text import counted

if TYPE_CHECKING:
    from bioattn.models.translation.folder import LoadedTranslator
    from bioattn.models.translation.inference.constraints import Constraint
    from bioattn.models.translation.inference.search import Search

SIMULATED = ("source.fa", "target.fa")
FASTA_NAMES = (".fa", ".fasta", ".fna", ".faa", ".ffn")


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
class TranslationPreparation(Settings):
    """Make a dataset of pairs of sequences for training, split without leakage.

    PAIRS are two FASTA files with equal ids, sources first, one table with the columns id, source and target, or
    a folder of `simulate translation`.
    Writes X.dataset.h5 and X.dataset.audit.tsv, an audit: every pair kept or dropped, and why. Coding sequences
    must be whole codons without inner stops and encode the protein on the other side. The split keeps pairs whose
    proteins share three residue 6-mers on one side (DNA: by 14-mers), unless --split says otherwise.
    """

    pairs: tuple[Path, ...] = argument(
        "PAIRS...", "Two FASTA files, or one table or folder.", recorded="pairs.{}"
    )
    output: Path = output_option("Dataset to write, X.dataset.h5.", Writes.FILE)
    source_alphabet: PairAlphabet = option("What sources are made of.", default=PairAlphabet.PROTEIN)
    target_alphabet: PairAlphabet = option("What targets are made of.", default=PairAlphabet.CODON)
    split: SequenceSplit | None = option(
        "homology, or record (at random) [default: homology; record for characters]."
    )
    holdout: tuple[str, ...] = option(
        "test=0.1 (share) or, with --split record, test=ID,ID; can be repeated [default: a tenth each].",
        default=(),
    )
    split_table: Path | None = option(
        "TSV/CSV with the columns gene (or the first) and split (train, validation, test), instead of --split; "
        "pairs that are not in it are left out."
    )
    genetic_code: int = option("NCBI genetic code of coding sequences.", default=1)
    seed: int = option("Seed of the split.", default=0, min=0)


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
    force: bool = force_option()


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationRun(Settings):
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
    beam: int = option(
        "Outputs that are followed at once; 1: the likeliest token each time.", default=1, min=1, max=1000
    )
    number: int = option("Outputs to write of a beam.", "--number", "-n", default=1, min=1)
    length_penalty: float = option("0: order outputs by likelihood alone.", default=0.6, min=0)
    samples: int = option("Draw so many outputs instead.", default=0, min=0)
    temperature: float = option("Of draws: 1 as trained.", default=1.0, min=0, max=1000)
    top_p: float = option(
        "Draw from the likeliest tokens that hold this much probability.", default=1.0, min=0
    )
    constraint: OutputConstraint | None = option("protein: codons of the given residues only.")
    forbid: Path | None = option(
        "Motifs that may stand on neither strand: FASTA, or lines NAME MOTIF, in IUPAC letters."
    )
    genetic_code: int = option("NCBI genetic code of --constraint protein.", default=1)
    length: int | None = option(
        "Most tokens of an output [default: 4 for each of the source, and 10].", min=1
    )
    seed: int = option("Seed of the draws.", default=0, min=0)
    device: Device = device_option()
    threads: int | None = threads_option()


def prepare(settings: TranslationPreparation, running: Running) -> RunReport:
    from bioattn.io.audit import audit_path
    from bioattn.sequences.pair_preparation import PairSettings, prepare_pairs

    (first, *more) = settings.pairs
    files = [first / name for name in SIMULATED] if first.is_dir() and not more else list(settings.pairs)
    made = prepare_pairs(
        files,
        settings.output,
        PairSettings(
            source_alphabet=settings.source_alphabet,
            target_alphabet=settings.target_alphabet,
            split=settings.split,
            holdouts=settings.holdout,
            split_table=settings.split_table,
            genetic_code=settings.genetic_code,
            seed=settings.seed,
        ),
    )
    audit = audit_path(settings.output)
    sides = ", ".join(f"{name} {number:,}" for name, number in made.pairs.items())
    dropped = f"; {made.dropped:,} dropped" if made.dropped else ""
    return RunReport(
        sentences=[f"wrote {settings.output} and {audit}: pairs: {sides}{dropped}"],
        outputs=[settings.output, audit],
        inputs={f"pairs.{number}": path for number, path in enumerate(files, start=1)},
        figures={"pairs": made.pairs, "leakage": made.leakage},
    )


def simulate(settings: TranslationSimulation, running: Running) -> RunReport:
    from bioattn.models.translation.simulation import write_simulation

    if settings.shortest > settings.longest:
        raise SettingsError(f"--shortest {settings.shortest} is larger than --longest {settings.longest}")
    if settings.task is PairTask.CASCADE and settings.longest >= settings.genes:
        raise SettingsError(
            f"--longest {settings.longest}: a cascade of {settings.genes} genes has at most "
            f"{settings.genes - 1} facts; give --genes"
        )
    alphabet = write_simulation(settings)
    return RunReport(
        sentences=[
            f"wrote {settings.output}: {counted(settings.pairs, 'pair')} ({settings.task})",
            f"next: bioattn prepare translation {settings.output} --source-alphabet {alphabet} "
            f"--target-alphabet {alphabet} --split record -o X.dataset.h5",
        ],
        outputs=[settings.output],
    )


def run(settings: TranslationRun, running: Running) -> RunReport:
    """Write outputs, or scores of given ones."""
    from bioattn.models.translation.ensemble import with_others
    from bioattn.models.translation.folder import load_translator

    defaults = {"constraint": None, "forbid": None, "samples": 0, "length": None, "beam": 1}
    for name, default in defaults.items():
        if settings.targets is not None and getattr(settings, name) != default:
            raise SettingsError(f"--{name} is for outputs that are written; --targets are given")
    if settings.samples and settings.beam > 1:
        raise SettingsError("--samples and --beam: give one of them")
    if settings.number > settings.beam:
        raise SettingsError(f"--number {settings.number}: a beam of {settings.beam} has no more; give --beam")
    if not 0 < settings.top_p <= 1:
        raise SettingsError(f"--top-p {settings.top_p:g}: give a share above 0 and up to 1")
    loaded = with_others(loaded_model(settings, running, load_translator), settings.ensemble)
    lines = _given(loaded, settings, running) if settings.targets else _outputs(loaded, settings, running)
    with stream_output(settings.output, running) as (file, outputs):
        written = 0
        for line in lines:
            file.write(line)
            written += 1
    sentences = [f"wrote {path}: {counted(written, 'output')}" for path in outputs]
    return RunReport(sentences=sentences, outputs=outputs, figures={"written": written})


def _outputs(loaded: "LoadedTranslator", settings: TranslationRun, running: Running) -> Iterator[str]:
    import torch

    from bioattn.formats.fasta import format_record
    from bioattn.models.translation.batches import read_sources
    from bioattn.models.translation.inference.attention import tell_longer
    from bioattn.models.translation.inference.search import OUTPUT_COLUMNS, output_rows
    from bioattn.sequences.vocabulary import UNKNOWN

    sources = read_sources(settings.sources, loaded.model.source)
    tell_longer(loaded, [len(each) for each in sources.values()])
    search, constraint = _search(settings), _constraint(loaded, settings)
    if settings.constraint is not None:
        unknown = {name: int((each == UNKNOWN).sum()) for name, each in sources.items()}
        if any(unknown.values()):
            running.warn(
                f"{settings.sources}: {counted(sum(unknown.values()), 'residue')} of "
                f"{counted(sum(map(bool, unknown.values())), 'source')} are none of the 20 amino acids: any codon "
                f"may stand there; the first in {next(name for name, number in unknown.items() if number)}"
            )
    generator = torch.Generator().manual_seed(settings.seed) if settings.samples else None
    as_fasta = any(settings.output.name.removesuffix(".gz").endswith(end) for end in FASTA_NAMES)
    several = max(settings.samples, settings.number) > 1
    running.progress.begin("sources", len(sources))
    header = "" if as_fasta else "\t".join(OUTPUT_COLUMNS) + "\n"
    rows = output_rows(loaded, sources, search, constraint, generator, settings.number, running.progress)
    for name, rank, tokens, log_likelihood, score, text in rows:
        if as_fasta:
            own = f"{name}/{rank}" if several and rank > 1 else name
            yield format_record(own, f"log_likelihood={log_likelihood:.7g}", text)
        else:
            yield f"{header}{name}\t{rank}\t{tokens}\t{log_likelihood:.7g}\t{score:.7g}\t{text}\n"
            header = ""
    running.progress.end()


def _given(loaded: "LoadedTranslator", settings: TranslationRun, running: Running) -> Iterator[str]:
    from bioattn.models.translation.batches import read_given
    from bioattn.models.translation.inference.attention import tell_longer
    from bioattn.models.translation.inference.search import GIVEN_COLUMNS, given_rows

    assert settings.targets is not None
    given = read_given(settings.sources, settings.targets, loaded.model)
    tell_longer(loaded, [len(pair.source) for pair in given.pairs])
    running.progress.begin("pairs", given.num_samples)
    header = "\t".join(GIVEN_COLUMNS) + "\n"
    for name, tokens, likely, perplexity, accuracy in given_rows(loaded, given):
        yield f"{header}{name}\t{tokens}\t{likely:.7g}\t{perplexity:.7g}\t{accuracy:.7g}\n"
        header = ""
        running.progress.advance(1)
    running.progress.end()


def export_attention(settings: ExportAttention, running: Running) -> RunReport:
    from bioattn.models.translation.folder import load_translator
    from bioattn.models.translation.inference.attention import write_attention

    settings.refuse((*ONLY_PROMOTERS, "window"), "translation models")
    return write_attention(settings, running, loaded_model(settings, running, load_translator))


def _search(settings: TranslationRun) -> "Search":
    from bioattn.models.translation.inference.search import Search

    return Search(
        beam=settings.beam,
        samples=settings.samples,
        length_penalty=settings.length_penalty,
        temperature=settings.temperature,
        top_p=settings.top_p,
        longest=settings.length,
    )


def _constraint(loaded: "LoadedTranslator", settings: TranslationRun) -> "Constraint | None":
    from bioattn.models.translation.inference.constraints import Constraint, read_motifs
    from bioattn.sequences.preparation import check_genetic_code

    if settings.constraint is None and settings.forbid is None:
        return None
    config, protein = loaded.config, settings.constraint is OutputConstraint.PROTEIN
    sides = config.source_alphabet, config.target_alphabet
    if protein and sides != (PairAlphabet.PROTEIN, PairAlphabet.CODON):
        raise SettingsError(
            f"--constraint protein: the model writes {sides[1]} for {sides[0]}, not codons for proteins"
        )
    if protein and settings.length is not None:
        raise SettingsError("--length: --constraint protein decides how long outputs are")
    if settings.forbid is not None and config.target_alphabet not in (PairAlphabet.DNA, PairAlphabet.CODON):
        raise SettingsError(
            f"--forbid: motifs are for outputs of DNA or codons, not {config.target_alphabet}"
        )
    check_genetic_code(settings.genetic_code)
    motifs = {} if settings.forbid is None else read_motifs(settings.forbid)
    return Constraint(loaded.model.target, motifs, protein=protein, genetic_code=settings.genetic_code)
