"""Which genes ids mean, and transcription units: the genes of an operon, which no split parts."""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import not_there
from bioattn.errors import BioattnError
from bioattn.formats.genes import STRANDS, Gene
from bioattn.formats.tables import open_table
from bioattn.io.files import read_lines
from bioattn.text import listed, quoted

if TYPE_CHECKING:
    import pandas as pd

    from bioattn.promoters.promoter_fasta import Promoter

_PREFIX = re.compile("^(gene|transcript)[-:]", re.IGNORECASE)
_SUFFIX = re.compile(r"(\.\d+|_T\d{3}|_mRNA)$", re.IGNORECASE)
"""Version or isoform of an id; maize and Ensembl's yeast write transcripts as G_T001 and G_mRNA."""
NO_PROMOTER = "no promoter of this name"


def choose_genes(
    values: Sequence[str], known: "GeneNames | Sequence[str]", source: Path, option: str = "--genes"
) -> list[str]:
    """List the ids that `values` name, each once, in the order given.

    values: ids or common names, or names of text files with one per line (the first column of a table; blank lines
    and lines starting with `#` are passed over). A value that is both is a gene. known: the genes there are.
    source: the file that holds them, for messages.

    Raises: BioattnError for a value that is neither, with the nearest ids, for a common name of several genes, and
    naming the line of an unknown id.
    """
    genes = known if isinstance(known, GeneNames) else GeneNames(known)
    chosen: dict[str, None] = {}
    for where, name in _named(values, genes):
        ids = genes.ids_of(name)
        what = "gene" if where else "gene, and no file has this name"
        said = f"{where}: gene" if where else option
        if not ids:
            raise not_there(said, name, source, what, [*genes.ids, *filter(None, genes.names)])
        if len(ids) > 1:
            raise BioattnError(f"{said} {name!r}: is the name of {listed(ids)} in {source}; give an id")
        chosen[ids[0]] = None
    return list(chosen)


def find_genes(values: Sequence[str], known: "GeneNames") -> tuple[list[str], list[str]]:
    """The ids that `values` name as in `choose_genes`, each once: those that are known, and the other names."""
    named = {name: known.ids_of(name) for _, name in _named(values, known)}
    found = dict.fromkeys(gene for ids in named.values() for gene in ids)
    return list(found), [name for name, ids in named.items() if not ids]


def _named(values: Sequence[str], known: "GeneNames") -> Iterator[tuple[str, str]]:
    """File and line ("" for a value that is no file), and id. Raises: BioattnError for a file without an id."""
    for value in values:
        if known.ids_of(value) or not os.path.isfile(value):  # noqa: PTH113 - a name too long for a file is no file
            yield "", value
            continue
        empty = True
        for number, line in read_lines(Path(value)):
            if line.strip() and not line.startswith("#"):
                empty = False
                yield f"{value}:{number}", line.split("\t")[0].strip()
        if empty:
            raise BioattnError(f"{value}: holds no gene id")


class GeneNames:
    """Promoters by id and by common name."""

    def __init__(self, ids: Sequence[str], names: Sequence[str] = ()) -> None:
        """names: common names in the order of `ids`, "" where there is none; empty: none is known."""
        self.ids, self.names = ids, names
        self._known_ids = frozenset(ids)
        self.by_name: dict[str, list[int]] = {}
        """Promoters of a name in lower case."""
        for index, name in enumerate(names):
            if name:
                self.by_name.setdefault(name.lower(), []).append(index)
        self._spellings: dict[str, str] = {}
        """Ids, and those without suffix, by themselves in lower case; "" where they differ in case alone."""
        for name in dict.fromkeys([*ids, *(_SUFFIX.sub("", name) for name in ids)]):
            self._spellings[name.lower()] = "" if name.lower() in self._spellings else name

    @classmethod
    def of(cls, promoters: "Sequence[Promoter]") -> "GeneNames":
        return cls([promoter.gene_id for promoter in promoters], [promoter.name for promoter in promoters])

    @classmethod
    def in_samples(cls, samples: "pd.DataFrame") -> "GeneNames":
        """Of the table of samples of a result."""
        return cls([str(gene) for gene in samples.index], list(samples.get("name", ())))

    def shown(self, gene: str) -> str:
        """An id with its common name."""
        name = dict(zip(self.ids, self.names, strict=False)).get(gene)
        return f"{gene} ({name})" if name else gene

    def ids_of(self, name: str) -> list[str]:
        """The id itself, or those of a common name."""
        name = self._spelled(name)
        return [name] if name in self._known_ids else [self.ids[i] for i in self._named(name)]

    def id_of(self, name: str) -> str:
        """The id of a gene that alone has this name; else the name as it is."""
        ids = self.ids_of(name)
        return ids[0] if len(ids) == 1 else name

    def _named(self, name: str) -> list[int]:
        """Promoters of a common name, in the same case of letters where there are some (fly: Dl and dl)."""
        found = self.by_name.get(name.lower(), [])
        return [index for index in found if self.names[index] == name] or found

    def _spelled(self, name: str) -> str:
        """A name as ids are spelled: without `gene:`, and in their case of letters.

        Of names joined by `|` (StringTie's prepDE, GENCODE) the first that is known.
        """
        if name in self._known_ids or name.lower() in self.by_name:
            return name
        name = next(filter(self._is_known, name.split("|")), name)
        bare = _PREFIX.sub("", name)
        stem = _SUFFIX.sub("", bare)
        return (
            self._spellings.get(bare.lower())
            or (self._spellings.get(stem.lower()) or stem) + bare[len(stem) :]
        )

    def share(self, cells: Collection[str]) -> float:
        """The share of cells that look like ids or names of promoters."""
        known = sum(any(map(self._is_known, cell.split("|"))) for cell in cells)
        return known / max(1, len(cells))

    def _is_known(self, name: str) -> bool:
        bare = _PREFIX.sub("", name).lower()
        return bare in self._spellings or _SUFFIX.sub("", bare) in self._spellings or bare in self.by_name

    def match(self, ids: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
        """Find promoters as `match_ids` does and, for what is no id, by common name; in any case of letters.

        A name of several promoters finds none of them.
        """
        names = [self._spelled(name) for name in ids]
        promoter, reasons = match_ids(self.ids, names)
        exact = set(promoter[promoter >= 0].tolist())
        for index, name in enumerate(names):
            of_name = self._named(name) if reasons[index] == NO_PROMOTER else []
            if len(of_name) > 1:
                reasons[index] = "several promoters have this name"
            elif of_name and of_name[0] in exact:
                reasons[index] = "another row has the id of the promoter"
            elif of_name:
                promoter[index], reasons[index] = of_name[0], ""
        return promoter, reasons


def match_ids(promoter_ids: Sequence[str], ids: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Find the promoter of each of `ids`, exactly or, only where that cannot be wrong, without `.N` suffixes.

    - An id that is a promoter's is that promoter's.
    - `G.1` finds the promoter `G`; so may `G.2`: isoforms of one gene.
    - `G` finds the promoter `G.1` when it is the only one of `G`.
    - `G.1` finds the promoter `G.2` (another release) only if suffixes are versions throughout: neither side has
      two ids that differ in the suffix alone. Names such as F54D5.1 and F54D5.2 are different genes.

    Returns indices of promoters, -1 where there is none, and why there is none ("" where there is one).
    """
    exact = {name: index for index, name in enumerate(promoter_ids)}
    by_stem: dict[str, list[int]] = defaultdict(list)
    for index, name in enumerate(promoter_ids):
        by_stem[_SUFFIX.sub("", name)].append(index)
    stems = [_SUFFIX.sub("", name) for name in ids]
    versions = all(len(group) == 1 for group in by_stem.values()) and len(set(stems)) == len(set(ids))
    promoter = np.full(len(ids), -1, dtype=np.int64)
    reasons = [NO_PROMOTER] * len(ids)
    for index, (name, stem) in enumerate(zip(ids, stems, strict=True)):
        candidates = by_stem.get(stem, []) if name == stem or versions else []
        place = exact.get(name, exact.get(stem, candidates[0] if len(candidates) == 1 else -1))
        if place >= 0:
            promoter[index], reasons[index] = place, ""
        elif candidates:
            reasons[index] = "several promoters differ from this name in the suffix alone"
    named_exactly = {exact[name] for name in ids if name in exact}
    for index, name in enumerate(ids):
        if name not in exact and promoter[index] in named_exactly:
            promoter[index], reasons[index] = -1, "another row names the promoter exactly"
    return promoter, reasons


def read_units(genes: Sequence[Gene], operons: str) -> dict[str, str]:
    """The transcription unit of each gene that shares one, named by a gene of it.

    operons: the largest number of bases between neighbours on one strand that are of one unit (genes that overlap
    are, genes on the other strand do not count; a gene with several places or without a strand has no unit), or a
    table with the columns `gene` and `unit`. Units of the table that share a gene are one.
    """
    units: list[list[str]] = []
    if operons.isdecimal():
        last, reached = ("", ""), 0
        usable = [gene for gene in genes if not gene.problem and gene.place.strand in STRANDS]
        for gene in sorted(usable, key=lambda gene: (gene.place.chrom, gene.place.strand, gene.place.start)):
            strand = (gene.place.chrom, gene.place.strand)
            if strand != last or gene.place.start - reached > int(operons):
                units.append([])
                reached = 0
            units[-1].append(gene.gene_id)
            last, reached = strand, max(reached, gene.place.end)
        units = [unit for unit in units if len(unit) > 1]
    else:
        reader = open_table(Path(operons))
        named_in, unit_in = reader.column("gene", "--operons"), reader.column("unit", "--operons")
        members: dict[str, list[str]] = {}
        annotated = GeneNames([each.gene_id for each in genes], [each.name for each in genes])
        for _, cells in reader.rows():
            members.setdefault(cells[unit_in], []).append(annotated.id_of(cells[named_in]))
        units = list(members.values())
        known, named = [gene.gene_id for gene in genes], [name for unit in units for name in unit]
        if not set(known) & set(named):
            raise BioattnError(
                f"--operons: none of the genes of {operons} ({quoted(named, 3)}) is in the annotation "
                f"({quoted(known, 3)})"
            )
    names: dict[str, str] = {}
    for together in units:
        joined = {names[name] for name in together if name in names}
        earlier = [name for name, unit_name in names.items() if unit_name in joined]
        names |= dict.fromkeys([*together, *earlier], together[0])
    return names
