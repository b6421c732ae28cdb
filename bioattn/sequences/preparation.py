"""From FASTA files to a sequence dataset: letters, a split without leakage, and an audit of every record."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from Bio.Data import CodonTable
from Bio.Seq import translate
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION, not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.nucleotides import UNKNOWN, are_nucleotides, count_nucleotides, decode
from bioattn.io.files import sha256_of
from bioattn.io.records import write_audit
from bioattn.promoters.homology import Links, group_labels, promoter_links, protein_links
from bioattn.promoters.splits import (
    MIN_CHROMOSOMES,
    Holdout,
    SplitWords,
    parse_holdouts,
    read_split_table,
    split_by_group,
    split_by_table,
)
from bioattn.sequences.choices import Alphabet, LanguagePreparation, SequenceSplit, TranslationPreparation
from bioattn.sequences.letters import read_letters, warn_of_nucleotides
from bioattn.sequences.sequence_dataset import Segments, write_sequence_dataset
from bioattn.sequences.vocabulary import CODON_LENGTH, GAP, MAX_KMER, RESIDUES, Vocabulary
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, percentage

LOGGER = logging.getLogger("bioattn")

CHROMOSOME_LENGTH = 10_000
"""Records of at least this median length are taken for chromosomes: other letters of one are no other gene."""
MAX_HOMOLOGY_LETTERS = 100_000_000
"""Records with more letters in all are not compared with each other: their k-mers would not fit in memory."""
MAX_LEAKAGE_LETTERS = 50_000_000
"""With more letters the leakage of other splits is not measured: it would take minutes and gigabytes."""
LEAKAGE_WINDOW = 1_000
"""Letters of the pieces of chromosomes whose likeness is measured."""
SHARES = {VALIDATION: 0.1, TEST: 0.1}
RECORDS = SplitWords("record", "records", "record")


def check_split(settings: LanguagePreparation | TranslationPreparation, noun: str) -> None:
    """Raises: SettingsError for a table of sides beside another split, and for an unknown genetic code."""
    if settings.split_table is not None and (settings.split is not None or settings.holdout):
        raise SettingsError(f"--split-table gives the side of every {noun}; leave --split and --holdout out")
    check_genetic_code(settings.genetic_code)


def check_genetic_code(number: int) -> None:
    """Raises: SettingsError for a number that NCBI has no table for."""
    if number not in CodonTable.unambiguous_dna_by_id:
        raise SettingsError(f"--genetic-code {number}: NCBI has no such table")


@dataclass(slots=True)
class _Record:
    name: str
    codes: NDArray[np.uint8]
    dropped: str = ""
    """Why it is left out; empty: it is kept."""


def prepare_sequences(
    settings: LanguagePreparation, progress: Progress = SILENT
) -> tuple[dict[str, Any], int]:
    """Write the dataset and, beside it, an audit of every record. Returns its figures, and the number of records
    that were dropped."""
    if not 1 <= settings.kmer <= MAX_KMER:
        raise SettingsError(f"--kmer {settings.kmer}: give 1 to {MAX_KMER}")
    if settings.kmer > 1 and settings.alphabet is not Alphabet.DNA:
        raise SettingsError(
            f"--kmer is for --alphabet dna; a token of {settings.alphabet} is one {settings.alphabet}"
        )
    if settings.alphabet is Alphabet.ALIGNMENT and settings.split is SequenceSplit.POSITION:
        raise SettingsError("--split position: rows of an alignment stay whole; give record or homology")
    check_split(settings, "record")
    files, output = settings.fasta, settings.output
    vocabulary = Vocabulary(settings.alphabet, settings.kmer)
    records = _read_records(files, vocabulary, settings.genetic_code, progress)
    kept = [each for each in records if not each.dropped]
    if not kept:
        raise BioattnError(f"{files[0]}: no record can be used; the first: {records[0].dropped}")
    segments, description = _split(kept, settings)
    leakage = _leakage(segments, kept, vocabulary, settings.genetic_code)
    metadata = described(files, settings, description, leakage)
    codes = [each.codes for each in kept]
    write_sequence_dataset(output, vocabulary, [each.name for each in kept], codes, segments, metadata)
    sides: dict[str, tuple[str, ...]] = {each.name: () for each in records}
    for number, side in zip(segments.record, segments.split, strict=True):
        sides[kept[number].name] += (SPLIT_NAMES[side],)
    rows = [
        (each.name, "dropped" if each.dropped else "kept", each.dropped, sides[each.name], len(each.codes))
        for each in records
    ]
    write_audit(output, ("record", "status", "reason", "split", "letters"), rows)
    letters = {
        name: int((segments.end - segments.start)[segments.split == side].sum())
        for side, name in enumerate(SPLIT_NAMES)
    }
    figures = {"records": len(kept), "letters": letters, "leakage": leakage}
    return figures, len(records) - len(kept)


def _read_records(
    files: Sequence[Path], vocabulary: Vocabulary, genetic_code: int, progress: Progress
) -> list[_Record]:
    """All records, and why some cannot be used."""
    records: dict[str, _Record] = {}
    stopped: list[str] = []
    stop_codons = CodonTable.unambiguous_dna_by_id[genetic_code].stop_codons
    stops = [each for each, token in enumerate(vocabulary.tokens) if token in stop_codons]
    progress.begin("letters", None)
    for path in files:
        letters = nucleotides = 0
        for name, sequence in read_letters(path, vocabulary.alphabet):
            if name in records:
                raise FormatError(f"{path}: the name {name!r} stands in a file before it already")
            letters += len(sequence)
            nucleotides += count_nucleotides(sequence)
            record = records[name] = _Record(name, vocabulary.encode(sequence, f"{path}: {name}"))
            if not sequence:
                record.dropped = "no sequence"
            elif vocabulary.alphabet is Alphabet.CODON:
                if len(sequence) % CODON_LENGTH:
                    record.dropped = f"{len(sequence)} bases are not whole codons"
                if np.isin(vocabulary.tokenize(record.codes)[:-1], stops).any():
                    stopped.append(name)
            progress.advance(len(sequence))
        if vocabulary.alphabet is Alphabet.PROTEIN and are_nucleotides(nucleotides, letters):
            warn_of_nucleotides(path, "--alphabet dna or codon")
    progress.end()
    lengths = {len(record.codes) for record in records.values()}
    if vocabulary.alphabet is Alphabet.ALIGNMENT and len(lengths) > 1:
        raise FormatError(
            f"{files[-1]}: has other than {max(lengths)} columns; the files must be parts of one alignment"
        )
    if stopped:
        LOGGER.warning(
            f"{counted(len(stopped), 'record')} of {len(records):,} have a stop codon before the last codon; the "
            f"first: {stopped[0]}"
        )
    return list(records.values())


def _split(kept: Sequence[_Record], settings: LanguagePreparation) -> tuple[Segments, dict[str, Any]]:
    """The segments of each side, and how they were chosen."""
    lengths = np.array([len(each.codes) for each in kept], dtype=np.int64)
    everything = np.arange(len(kept)), np.zeros(len(kept), np.int64), lengths
    names = [each.name for each in kept]
    if settings.split_table is not None:
        sides = split_by_table(names, read_split_table(settings.split_table), RECORDS)
        return Segments(*everything, sides), {"by": "table"}
    usual = SequenceSplit.RECORD
    if settings.alphabet is not Alphabet.ALIGNMENT:
        if np.median(lengths) < CHROMOSOME_LENGTH:
            usual = SequenceSplit.HOMOLOGY
        elif len(lengths) < MIN_CHROMOSOMES:
            usual = SequenceSplit.POSITION
    kind = settings.split or usual
    holdouts = parse_holdouts(settings.holdout, with_treatments=False)
    named = any(not each.fraction and each.values for each in holdouts)
    description: dict[str, Any] = {"by": str(kind)}
    if kind is SequenceSplit.POSITION:
        if named:
            raise SettingsError("--holdout: names are for --split record; give shares, such as test=0.1")
        return _by_position(lengths, settings.kmer, holdouts), description
    if kind is SequenceSplit.HOMOLOGY:
        if lengths.sum() > MAX_HOMOLOGY_LETTERS:
            raise BioattnError(
                f"--split homology: {lengths.sum():,} letters are too many to compare (most "
                f"{MAX_HOMOLOGY_LETTERS:,}); give --split record, or --split-table"
            )
        links = related_links([each.codes for each in kept], settings.alphabet, settings.genetic_code)
        sides, found = split_by_homology(len(kept), links, holdouts, settings.seed, RECORDS)
        description |= found
    else:
        sides = split_by_record(names, lengths, holdouts, settings.seed)
    return Segments(*everything, sides), description


def split_by_homology(
    number: int, links: Links, holdouts: Sequence[Holdout], seed: int, words: SplitWords
) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """The side of each of `number` sequences, related ones together, and the groups."""
    groups = group_labels(number, [(links.first, links.second)])
    sizes = np.bincount(groups)
    found = {"groups": len(sizes), "largest_group": int(sizes.max())}
    LOGGER.info(
        f"homology: {counted(len(sizes), 'group')} of related {words.inputs}, the largest of {sizes.max():,}"
    )
    return split_by_group(groups, holdouts, seed, "homology", words), found


def _shares(holdouts: Sequence[Holdout]) -> dict[int, float]:
    """The part of the letters that each held-out side gets; 0 where it is empty or named.

    Raises: SettingsError when nothing is left for training.
    """
    given = {each.side: each.fraction or 0.0 for each in holdouts}
    shares = SHARES | given
    if sum(shares.values()) >= 1:
        raise SettingsError(
            f"--holdout: {sum(shares.values()):g} of the letters held out leaves none for training"
        )
    return shares


def split_by_record(
    names: Sequence[str], lengths: NDArray[np.int64], holdouts: Sequence[Holdout], seed: int
) -> NDArray[np.uint8]:
    """The side of each record: named, or drawn at random until a share of the letters is reached."""
    sides = np.full(len(names), TRAIN, dtype=np.uint8)
    shares = _shares(holdouts)
    for holdout in holdouts:
        for name in [] if holdout.fraction else holdout.values:
            if name not in names:
                raise not_there("--holdout", name, "the input", "record", names)
            if sides[names.index(name)] not in (TRAIN, holdout.side):
                raise SettingsError(f"--holdout: {name!r} is named for both test and validation")
            sides[names.index(name)] = holdout.side
    order = np.random.default_rng(seed).permutation(len(names))
    for side in (TEST, VALIDATION):
        wanted, got = shares[side] * lengths.sum(), 0
        free = [number for number in order if sides[number] == TRAIN]
        for number in free if wanted else []:
            if not got or got + lengths[number] <= wanted:
                sides[number] = side
                got += int(lengths[number])
    if not (sides == TRAIN).any():
        raise BioattnError("--holdout: every record is held out; none is left for training")
    return sides


def _by_position(lengths: NDArray[np.int64], word: int, holdouts: Sequence[Holdout]) -> Segments:
    """Of every record the first part, the next and the last; cut between words of `word` letters."""
    shares = _shares(holdouts)
    rows = []
    for record, length in enumerate(lengths.tolist()):
        trained = 1 - shares[VALIDATION] - shares[TEST], 1 - shares[TEST]
        cuts = [0, *(round(length * share) // word * word for share in trained), length]
        rows += [
            (record, start, end, side) for side, (start, end) in enumerate(pairwise(cuts)) if start < end
        ]
    record_S, start_S, end_S, side_S = np.array(rows, dtype=np.int64).T
    return Segments(record_S, start_S, end_S, side_S.astype(np.uint8))


def related_links(codes: Sequence[NDArray[np.uint8]], alphabet: Alphabet, genetic_code: int) -> Links:
    """Pairs of related sequences: by shared residue 5-mers, of DNA by shared 14-mers of either strand."""
    if alphabet is Alphabet.DNA:
        padded = np.full((len(codes), max(map(len, codes))), UNKNOWN, dtype=np.uint8)
        for row, each in zip(padded, codes, strict=True):
            row[: len(each)] = each
        return promoter_links(padded)
    if alphabet is Alphabet.CODON:
        return protein_links(
            [translate(decode(each), table=genetic_code).removesuffix("*") for each in codes]
        )
    gap = GAP if alphabet is Alphabet.ALIGNMENT else ""
    letters = np.frombuffer(f"{RESIDUES}{gap}X".encode(), np.uint8)
    return protein_links([letters[each].tobytes().decode().replace(GAP, "") for each in codes])


def _leakage(
    segments: Segments, kept: Sequence[_Record], vocabulary: Vocabulary, genetic_code: int
) -> list[dict[str, Any]]:
    """How many sequences of a held-out side are related to one of another; chromosomes count in windows."""
    length_S = segments.end - segments.start
    if length_S.sum() > MAX_LEAKAGE_LETTERS:
        LOGGER.warning(
            f"leakage between the sides is not measured: more than {MAX_LEAKAGE_LETTERS:,} letters"
        )
        return []
    window = LEAKAGE_WINDOW // vocabulary.word * vocabulary.word
    pieces: list[NDArray[np.uint8]] = []
    sides: list[int] = []
    for number, length in enumerate(length_S.tolist()):
        codes = kept[segments.record[number]].codes[segments.start[number] : segments.end[number]]
        step = window if length >= CHROMOSOME_LENGTH else length
        pieces += [codes[first : first + step] for first in range(0, length, step)]
        sides += [int(segments.split[number])] * (len(pieces) - len(sides))
    links = related_links(pieces, vocabulary.alphabet, genetic_code)
    return related_across(np.array(sides), links, "pieces", "sequence")


def described(
    files: Sequence[Path],
    settings: LanguagePreparation | TranslationPreparation,
    split: dict[str, Any],
    leakage: list[dict[str, Any]],
) -> dict[str, Any]:
    """The metadata of a dataset."""
    return {
        "files": [{"name": path.name, "sha256": sha256_of(path)} for path in files],
        "split": split,
        "leakage": leakage,
        "settings": {
            name: str(value.name if isinstance(value, Path) else value)
            for name, value in asdict(settings).items()
            if value is not None and name not in ("fasta", "pairs", "output")
        },
    }


def related_across(side: NDArray[np.uint8], links: Links, key: str, noun: str) -> list[dict[str, Any]]:
    """How many sequences of a held-out side are related to one of another; logged, too.

    key, noun: what they are called in the result and in messages.
    """
    found = []
    for here, there in ((VALIDATION, TRAIN), (TEST, TRAIN), (TEST, VALIDATION)):
        number = int((side == here).sum())
        if number and (side == there).any():
            related = np.unique(links.first[(side[links.first] == here) & (side[links.second] == there)])
            share = round(len(related) / number, 6)
            names = {"side": SPLIT_NAMES[here], "against": SPLIT_NAMES[there]}
            found.append({**names, key: number, "related": share})
            LOGGER.info(
                f"{names['side']} against {names['against']}: {percentage(share, 1)} of {counted(number, noun)} "
                "are related to one there"
            )
    return found
