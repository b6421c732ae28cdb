"""From two FASTA files with equal ids, or a table, to a dataset of pairs: checked, split and audited."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from Bio.Data.CodonTable import TranslationError
from Bio.Seq import translate
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import are_nucleotides, count_nucleotides, encode
from bioattn.formats.tables import is_missing, open_table
from bioattn.io.files import read_lines
from bioattn.io.records import audit_path, write_audit
from bioattn.models.running import Running, RunReport
from bioattn.models.translation.family import TranslationModelConfig
from bioattn.promoters.homology import Links, protein_links
from bioattn.promoters.splits import SplitWords, parse_holdouts, read_split_table, split_by_table
from bioattn.sequences.choices import Alphabet, PairAlphabet, SequenceSplit, TranslationPreparation
from bioattn.sequences.letters import warn_of_nucleotides
from bioattn.sequences.pairs import SIDES, Pair, PairDataset, PairVocabulary, write_pair_dataset
from bioattn.sequences.preparation import (
    check_split,
    described,
    related_across,
    related_links,
    split_by_homology,
    split_by_record,
)
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")

PAIRS = SplitWords("pair", "pairs", "record")
SIMULATED = ("source.fa", "target.fa")
"""In a folder of `simulate translation`."""
RELATED_K, RELATED_COMMON, RELATED_CAP = 6, 3, 60
"""Proteins that share three residue 6-mers are related; 6-mers of more than 60 proteins do not count."""


def _alphabets(
    settings: TranslationPreparation | TranslationModelConfig,
) -> tuple[PairAlphabet, PairAlphabet]:
    """Of the source and of the target."""
    return settings.source_alphabet, settings.target_alphabet


def prepare(settings: TranslationPreparation, running: Running) -> RunReport:
    """Write the dataset and, beside it, an audit of every pair."""
    if settings.split is SequenceSplit.POSITION:
        raise SettingsError("--split position: pairs are kept whole; give homology or record")
    if settings.split is SequenceSplit.HOMOLOGY and PairAlphabet.CHARACTERS in _alphabets(settings):
        raise SettingsError("--split homology: characters have none; give --split record")
    check_split(settings, "pair")
    first, output = settings.pairs[0], settings.output
    folder = first.is_dir() and len(settings.pairs) == 1
    files = [first / name for name in SIMULATED] if folder else list(settings.pairs)
    texts = _read_pairs(files, settings)
    for place, (side, alphabet) in enumerate(zip(SIDES, _alphabets(settings), strict=True)):
        own = "".join(both[place] for both in texts.values())
        if alphabet is PairAlphabet.PROTEIN and are_nucleotides(count_nucleotides(own), len(own)):
            warn_of_nucleotides(
                f"{files[0]}: {side}s" if len(files) == 1 else files[place], f"--{side}-alphabet dna or codon"
            )
    sides = None if settings.split_table is None else read_split_table(settings.split_table)
    reasons = {
        name: "not in the split table"
        if sides is not None and name not in sides
        else coding_problem(both, settings)
        for name, both in texts.items()
    }
    kept = [name for name, reason in reasons.items() if not reason]
    dropped = [f"{name} ({reason})" for name, reason in reasons.items() if reason]
    if not kept:
        raise BioattnError(f"{files[0]}: no pair can be used; the first: {dropped[0]}")
    if dropped:
        LOGGER.warning(f"{counted(len(dropped), 'pair')} left out; the first: {dropped[0]}")
    characters = ("".join(sorted(set().union(*own))) for own in zip(*map(texts.get, kept), strict=True))
    source, target = (
        PairVocabulary(alphabet, own if alphabet is PairAlphabet.CHARACTERS else "")
        for alphabet, own in zip(_alphabets(settings), characters, strict=True)
    )
    pairs = [
        Pair(
            source.tokenize(texts[name][0], f"{files[0]}: {name}"),
            target.tokenize(texts[name][1], f"{files[-1]}: {name}"),
        )
        for name in kept
    ]
    links = _links([texts[name] for name in kept], settings)
    split, description = _split(kept, pairs, sides, links, settings)
    leakage = [] if links is None else related_across(split, links, "pairs", "pair")
    metadata = described(files, settings, description, leakage)
    write_pair_dataset(output, PairDataset(output, source, target, kept, split, pairs, metadata))
    side_of = {name: SPLIT_NAMES[side] for name, side in zip(kept, split, strict=True)}
    rows = [
        (name, "dropped" if reason else "kept", reason, side_of.get(name, ""))
        for name, reason in reasons.items()
    ]
    write_audit(output, ("pair", "status", "reason", "split"), rows)
    numbers = {name: int((split == side).sum()) for side, name in enumerate(SPLIT_NAMES)}
    sides_said = ", ".join(f"{name} {number:,}" for name, number in numbers.items())
    said = f"; {len(dropped):,} dropped" if dropped else ""
    return RunReport(
        f"wrote {output} and {audit_path(output)}: pairs: {sides_said}{said}",
        inputs={f"pairs.{number}": path for number, path in enumerate(files, start=1)},
        outputs=[output, audit_path(output)],
        pairs=numbers,
        leakage=leakage,
    )


def _read_pairs(files: Sequence[Path], settings: TranslationPreparation) -> dict[str, tuple[str, str]]:
    """Source and target by name."""
    if len(files) == 1:
        if next((line for _, line in read_lines(files[0]) if line.strip()), "").startswith(">"):
            raise FormatError(f"{files[0]}: is FASTA; give two such files (sources, targets), or one table")
        table = open_table(files[0])
        places = [table.column(name, "a table of pairs") for name in ("id", "source", "target")]
        found: dict[str, tuple[str, str]] = {}
        for line, cells in table.rows():
            name, *both = (cells[place] for place in places)
            if not name:
                raise FormatError(f"{files[0]}:{line}: the id is empty; name every pair")
            if name in found:
                raise FormatError(f"{files[0]}:{line}: the id {name!r} stands there already")
            for side, text, alphabet in zip(SIDES, both, _alphabets(settings), strict=True):
                # Characters can be any word, NA among them.
                if not text or (alphabet is not PairAlphabet.CHARACTERS and is_missing(text)):
                    raise FormatError(
                        f"{files[0]}:{line}: {name!r} has no {side}; give one, or leave the pair out"
                    )
            found[name] = both[0], both[1]
        if not found:
            raise FormatError(f"{files[0]}: holds no pair below its header; give a row for each")
        return found
    if len(files) != 2:
        raise SettingsError(f"{len(files)} files: give two FASTA files (sources, targets), or one table")
    one, other = ({record.name: record.sequence for record in read_fasta(path)} for path in files)
    for here, there, path, lacking in ((one, other, files[0], files[1]), (other, one, files[1], files[0])):
        absent = [name for name in here if name not in there]
        if absent:
            raise FormatError(
                f"{lacking}: {len(absent):,} of {counted(len(here), 'record')} of {path} are not there: "
                f"{quoted(absent)}; a pair has the same id in both files"
            )
    return {name: (source, other[name]) for name, source in one.items()}


def coding_problem(both: tuple[str, str], settings: TranslationPreparation | TranslationModelConfig) -> str:
    """What is wrong with a pair's coding sequence, by itself or beside the protein; empty: nothing."""
    encoded: list[str] = []
    for text, alphabet in zip(both, _alphabets(settings), strict=True):
        if alphabet is PairAlphabet.CODON:
            if len(text) % 3:
                return f"{len(text):,} bases are not whole codons"
            try:
                residues = translate(text, table=settings.genetic_code)
            except TranslationError as error:
                return f"{error}; codons of DNA are needed"
            if "*" in residues[:-1]:
                return f"stop codon {residues.index('*') + 1:,} of {len(residues):,} codons"
            encoded.append(residues.removesuffix("*"))
    if len(encoded) == 1 and PairAlphabet.PROTEIN in _alphabets(settings):
        protein = both[_alphabets(settings).index(PairAlphabet.PROTEIN)].upper().removesuffix("*")
        if len(protein) != len(encoded[0]):
            return f"{len(encoded[0]):,} codons before the stop, but {len(protein):,} residues"
        for place, (own, residue) in enumerate(zip(encoded[0], protein, strict=True)):
            starts = place == 0 and residue == "M"  # every start codon is read as methionine
            if own != residue and "X" not in (own, residue) and not starts:
                return f"codon {place + 1:,} encodes {own}, the protein has {residue}"
    return ""


def _links(texts: Sequence[tuple[str, str]], settings: TranslationPreparation) -> Links | None:
    """Which pairs are related: proteins, or what codons encode, by 6-mers; DNA by 14-mers; None of characters."""
    for alphabet in (PairAlphabet.PROTEIN, PairAlphabet.CODON):
        if alphabet in _alphabets(settings):
            place = _alphabets(settings).index(alphabet)
            own = [each[place].upper() for each in texts]
            if alphabet is PairAlphabet.CODON:
                own = [translate(each, table=settings.genetic_code) for each in own]
            return protein_links(own, k=RELATED_K, min_share=0, min_common=RELATED_COMMON, cap=RELATED_CAP)
    if PairAlphabet.DNA not in _alphabets(settings):
        return None
    place = _alphabets(settings).index(PairAlphabet.DNA)
    return related_links([encode(each[place], "") for each in texts], Alphabet.DNA, settings.genetic_code)


def _split(
    kept: Sequence[str],
    pairs: Sequence[Pair],
    sides: dict[str, int] | None,
    links: Links | None,
    settings: TranslationPreparation,
) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """The side of each pair, and how it was chosen."""
    if sides is not None:
        return split_by_table(kept, sides, PAIRS), {"by": "table"}
    holdouts = parse_holdouts(settings.holdout, with_treatments=False)
    if links is None or settings.split is SequenceSplit.RECORD:
        lengths = np.array([len(pair.source) for pair in pairs], dtype=np.int64)
        return split_by_record(kept, lengths, holdouts, settings.seed), {"by": "record"}
    split, found = split_by_homology(len(kept), links, holdouts, settings.seed, PAIRS)
    return split, {"by": "homology", **found}
