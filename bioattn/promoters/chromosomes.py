"""Which chromosome of a genome each chromosome of an annotation is."""

import re
from collections.abc import Iterable
from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.genes import Annotation
from bioattn.formats.genome import Chromosome, Genome
from bioattn.io.files import read_lines
from bioattn.text import first_names

_PREFIX = re.compile(r"^(chromosome|chrom|chr)[_-]?", re.IGNORECASE)
_VERSION = re.compile(r"\.\d+$")
_IN_DESCRIPTION = re.compile(r"\bchromosome[ :]+(?:[\w.-]+:)?(\w+)", re.IGNORECASE)
_ROMAN_TENS, _ROMAN_ONES = ("", "X", "XX"), ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")
_ROMAN = {
    tens + ones: str(10 * ten + one)
    for ten, tens in enumerate(_ROMAN_TENS)
    for one, ones in enumerate(_ROMAN_ONES)
}
_MITOCHONDRIAL = {"m", "mt", "mito", "mtdna", "mitochondrion", "chrm"}


def read_aliases(path: Path) -> list[tuple[str, str]]:
    """Read pairs of names of the same chromosome: two tab-separated columns; `#` starts a comment line.

    Raises: FormatError naming the line when a row has not two columns.
    """
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


def match_chromosomes(
    annotation: Annotation, genome: Genome, fasta: Path, aliases: Iterable[tuple[str, str]] = ()
) -> dict[str, str]:
    """Find the genome's name of each chromosome of an annotation.

    A name the genome has stands for itself; else an alias pair, in either order, leads to one.

    Raises: BioattnError when an alias leads to two chromosomes, and when no name agrees: the message shows the
    first names of both files and, where lengths or names tell, the aliases to write.
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
                f"{first_names(targets)}; leave one pair"
            )
        if targets:
            matched[name] = targets[0]
    if not matched:
        suggested = suggest_aliases(annotation, genome.chromosomes)
        hint = ""
        if suggested:
            shown = ", ".join(f"{ours} = {theirs}" for ours, theirs in list(suggested.items())[:3])
            hint = f"; {shown}{', …' if len(suggested) > 3 else ''} seem to be the same"
        raise BioattnError(
            f"no chromosome name agrees: {annotation.path} has {first_names(annotation.chromosomes)} and {fasta} "
            f"has {first_names(genome.names)}{hint}; write both names of each, tab-separated, in a file for "
            "--chromosome-aliases"
        )
    return matched


def suggest_aliases(annotation: Annotation, chromosomes: list[Chromosome]) -> dict[str, str]:
    """Suggest pairs (annotation name, genome name) that are very likely the same chromosome.

    By stated length when that is unique in both files, else by name without `chr`, version suffix and the like, by
    the chromosome names that FASTA descriptions and region rows give, and by Roman or Arabic numbers.
    """
    names, found = annotation.chromosomes, [_IN_DESCRIPTION.search(c.description) for c in chromosomes]
    ours: list[list[str]] = [names, [annotation.chromosome_labels.get(name, name) for name in names]]
    theirs = [
        [c.name for c in chromosomes],
        [match[1] if match else c.name for c, match in zip(chromosomes, found, strict=True)],
    ]
    lengths = [str(annotation.chromosome_lengths.get(name, "")) for name in names]
    attempts = [(lengths, [str(c.length) for c in chromosomes])]
    for form in (_plain, _numbered):
        attempts += [([form(x) for x in left], [form(x) for x in right]) for left in ours for right in theirs]
    suggested: dict[str, str] = {}
    for left, right in attempts:
        for name, text in zip(names, left, strict=True):
            if text and left.count(text) == right.count(text) == 1:
                partner = chromosomes[right.index(text)].name
                if partner not in suggested.values():
                    suggested.setdefault(name, partner)
    return {name: suggested[name] for name in names if name in suggested}


def _plain(name: str) -> str:
    bare = _VERSION.sub("", _PREFIX.sub("", name)).lower()
    return "mt" if bare in _MITOCHONDRIAL else bare.lstrip("0")


def _numbered(name: str) -> str:
    bare = _plain(name)
    return _ROMAN.get(bare.upper(), bare)
