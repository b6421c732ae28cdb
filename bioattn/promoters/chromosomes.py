"""Which chromosome of a genome is which of its annotation, whose names are of NCBI, Ensembl, UCSC or others."""

import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.annotation import embedded_sequences
from bioattn.formats.genes import Annotation
from bioattn.formats.genome import Chromosome, Genome
from bioattn.formats.nucleotides import encode
from bioattn.io.files import read_lines, text_output
from bioattn.text import listed

AUTO = "auto"
"""What --chromosome-aliases takes in place of a table."""
_PREFIX = re.compile(r"^(chromosome|chrom|chr)[_-]?", re.IGNORECASE)
_VERSION = re.compile(r"\.\d+$")
_ACCESSIONS = (
    re.compile(r"\b(?:ref|gb|emb|dbj|tp[aegd]|lcl)\|([^|]+)"),  # gi|330443391|ref|NC_001133.9|
    re.compile(r"^chr\w+?_([A-Z]+\d+)v\d+(?:_\w+)?$"),  # chrUn_KI270302v1, chr1_KI270706v1_random
)
_IN_DESCRIPTION = re.compile(r"\bchromosome[ :=]+(?:[\w.-]+:)?(\w+)", re.IGNORECASE)
_ORGANELLE = re.compile(r"\b(mitochondrion|chloroplast|plastid)\b", re.IGNORECASE)
_PART_OF_CHROMOSOME = re.compile(r"scaffold|contig|unlocali[sz]ed|unplaced|patch|alternate", re.IGNORECASE)
_ROMAN_TENS, _ROMAN_ONES = ("", "X", "XX"), ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_ROMAN = {
    tens + ones: str(10 * ten + one)
    for ten, tens in enumerate(_ROMAN_TENS)
    for one, ones in enumerate(_ROMAN_ONES)
}
_ORGANELLES = dict.fromkeys(
    ("m", "mt", "mito", "mtdna", "mitochondria", "mitochondrion", "mitochondrion_genome", "chrm"), "mt"
)
_ORGANELLES |= dict.fromkeys(("c", "pt", "cp", "pltd", "chloroplast", "plastid"), "pt")
_COVERED = 0.95
"""How much of its only chromosome an annotation must reach, to be taken for that of a genome of one."""


def read_aliases(path: Path) -> list[tuple[str, str]]:
    """Read pairs of names of the same chromosome: two tab-separated columns; `#` starts a comment line."""
    pairs = []
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise FormatError(
                f"{path}:{number}: {len(columns)} tab-separated columns where two names of a chromosome are needed"
            )
        pairs.append((columns[0], columns[1]))
    if not pairs:
        raise FormatError(f"{path}: holds no pair of chromosome names")
    return pairs


def write_aliases(path: Path, pairs: dict[str, str]) -> None:
    """Write a table that `read_aliases` reads."""
    with text_output(path) as file:
        file.write("# annotation\tgenome\n")
        file.writelines(f"{ours}\t{theirs}\n" for ours, theirs in pairs.items())


def match_chromosomes(
    annotation: Annotation, genome: Genome, fasta: Path, aliases: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """Find the genome's name of each chromosome of an annotation.

    A name the genome has stands for itself; else an alias pair, in either order, leads to one.

    Raises: BioattnError when an alias leads to two chromosomes, and when no name agrees: the message shows the
    first names of both files and, where lengths or names tell, those that `find_aliases` takes for the same.
    """
    others: dict[str, set[str]] = {}
    for first, second in aliases:
        others.setdefault(first, set()).add(second)
        others.setdefault(second, set()).add(first)
    matched = {}
    for name in annotation.chromosomes:
        if name in genome.lengths:
            matched[name] = name
            continue
        targets = sorted(other for other in others.get(name, ()) if other in genome.lengths)
        if len(targets) > 1:
            raise BioattnError(
                f"--chromosome-aliases: {name!r} stands for several chromosomes of the genome: "
                f"{listed(targets)}; leave one pair"
            )
        if targets:
            matched[name] = targets[0]
    if not matched:
        found = find_aliases(annotation, genome)
        hint = "write both names of each, tab-separated, in a file for --chromosome-aliases"
        if found:
            hint = f"{shown_aliases(found)} seem to be the same: --chromosome-aliases auto takes them"
        likely = suggest_aliases(annotation, genome.chromosomes)
        if likely and not found:
            ours, theirs = next(iter(likely.items()))
            hint = (
                f"{ours} and {theirs} are alike, but their lengths, genes or sequences do not agree: is "
                "this another assembly?"
            )
        raise BioattnError(
            f"no chromosome name agrees: {annotation.path} has {listed(annotation.chromosomes)} and {fasta} "
            f"has {listed(genome.names)}; {hint}"
        )
    return matched


def shown_aliases(pairs: dict[str, str]) -> str:
    """The first pairs, for messages."""
    shown = ", ".join(f"{ours} = {theirs}" for ours, theirs in list(pairs.items())[:3])
    return f"{shown}{', …' if len(pairs) > 3 else ''}"


def find_aliases(annotation: Annotation, genome: Genome) -> dict[str, str]:
    """Find the genome's name of chromosomes of an annotation that go by another there.

    Where the annotation holds their sequences, these decide. Else what `suggest_aliases` suggests counts where the
    lengths that both state are equal and no gene begins beyond the end.
    """
    names = [name for name in annotation.chromosomes if name not in genome.lengths]
    taken = genome.lengths.keys() & set(annotation.chromosomes)
    found: dict[str, str] = {}
    held: set[str] = set()
    for record in embedded_sequences(annotation.path) if names and annotation.format == "GFF3" else ():
        ours, length = unquote(record.name), len(record.sequence)
        held.add(ours)
        same = [name for name in genome.names if name not in taken and genome.lengths[name] == length]
        if ours in names and same:
            codes = encode(record.sequence, f"{annotation.path}: {ours}")
            same = [name for name in same if np.array_equal(genome.chromosome(name), codes)]
            if len(same) == 1:
                found[ours] = same[0]
    free = [each for each in genome.chromosomes if each.name not in taken | set(found.values())]
    last: dict[str, int] = {}
    for place in (place for gene in annotation.genes for place in gene.places):
        last[place.chrom] = max(last.get(place.chrom, 0), place.start)
    for ours, theirs in suggest_aliases(annotation, free).items():
        length = genome.lengths[theirs]
        fits = annotation.chromosome_lengths.get(ours, length) == length and last[ours] < length
        if ours in names and ours not in held and fits:
            found[ours] = theirs
    if len(names) == len(annotation.chromosomes) == len(genome.names) == 1 and not found and not held:
        (ours,), (theirs,), length = names, genome.names, genome.lengths[genome.names[0]]
        if ours not in annotation.chromosome_lengths and _COVERED * length <= last[ours] < length:
            found[ours] = theirs
    return {name: found[name] for name in names if name in found}


def suggest_aliases(annotation: Annotation, chromosomes: list[Chromosome]) -> dict[str, str]:
    """Suggest pairs (annotation name, genome name) that are very likely the same chromosome.

    By name without `chr`, database, version suffix and the like, by the chromosome names that FASTA descriptions
    and region rows give, and by Roman or Arabic numbers; else by stated length when that is unique in both files.
    """
    names = annotation.chromosomes
    ours: list[list[str]] = [names, [annotation.chromosome_labels.get(name, name) for name in names]]
    theirs = [[c.name for c in chromosomes], [_label(c) for c in chromosomes]]
    attempts = [
        ([form(x) for x in left], [form(x) for x in right])
        for form in (_plain, lambda name: _ROMAN.get(_plain(name).upper(), _plain(name)))
        for left in ours
        for right in theirs
    ]
    lengths = [str(annotation.chromosome_lengths.get(name, "")) for name in names]
    attempts.append((lengths, [str(c.length) for c in chromosomes]))
    suggested: dict[str, str] = {}
    for left, right in attempts:
        for name, text in zip(names, left, strict=True):
            if text and left.count(text) == right.count(text) == 1:
                partner = chromosomes[right.index(text)].name
                if partner not in suggested.values():
                    suggested.setdefault(name, partner)
    return {name: suggested[name] for name in names if name in suggested}


def _label(chromosome: Chromosome) -> str:
    """The name that a FASTA description gives; of a part of a chromosome, and without one, that of its header."""
    text = chromosome.description
    match = (
        None if _PART_OF_CHROMOSOME.search(text) else _IN_DESCRIPTION.search(text) or _ORGANELLE.search(text)
    )
    return match[1] if match else chromosome.name


def _plain(name: str) -> str:
    for pattern in _ACCESSIONS:
        if match := pattern.search(name):
            name = match[1]
    bare = _VERSION.sub("", _PREFIX.sub("", name)).lower()
    return _ORGANELLES.get(bare, bare.lstrip("0"))
