"""Training, validation and test: by chromosome, by blocks of chromosomes, by homology, at random, by treatment;
and the leakage between the sides of genes."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import open_table
from bioattn.promoters.choices import DatasetSettings, Split
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.homology import (
    MIN_SHARE,
    Leakage,
    Links,
    group_labels,
    measure_leakage,
    overlap_links,
    promoter_links,
    protein_links,
)
from bioattn.promoters.kmers import DEFAULT_K
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.promoters.treatments import TreatmentTable
from bioattn.text import counted, percentage, quoted

LOGGER = logging.getLogger("bioattn")

DEFAULT_SHARE = 0.1
"""Part of the genes, or treatments, held out for validation and again for test when nothing is said."""

DEFAULT_BLOCK = 200_000
"""Bases of a block."""

MIN_CHROMOSOMES = 5
"""With fewer chromosomes than this the split is by homology unless --split says otherwise."""

TREATMENT_KEY = "treatment"
"""In a holdout, `treatment:NAME` names treatments; any other key is a column of the treatment table."""


class SplitWords(NamedTuple):
    """What messages call what is split: one, all of them in the input, and the split that takes names."""

    noun: str
    inputs: str
    by_name: str


GENES = SplitWords("gene", "promoters", "chromosome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdout:
    """What one side gets: `test=IV,XV` (genes), `test=0.1` (genes), `test=group:heat_shock` (treatments)."""

    side: int
    key: str | None
    """None: genes. Otherwise `treatment`, or a column of the treatment table."""
    text: str
    """The names or the fraction, as written."""

    values: list[str]
    """The names, cut at commas; empty for an empty side."""

    @property
    def fraction(self) -> float | None:
        """The fraction of the genes (`0.1`; 0 for an empty side); None for names, as chromosomes 1 or 10 have."""
        try:
            share = float(self.text or "0")
        except ValueError:
            return None
        return share if 0 <= share < 1 else None

    def __str__(self) -> str:
        key = "" if self.key is None else f"{self.key}:"
        return f"{SPLIT_NAMES[self.side]}={key}{','.join(self.values)}"


def parse_holdouts(texts: Sequence[str], with_treatments: bool) -> list[Holdout]:
    """Read `--holdout` values; one text may hold several, separated by blanks (`test=IV,XV validation=VII`).

    with_treatments: whether `KEY:NAMES` means treatments (a treatment split was asked for).

    >>> [(h.side, h.key, h.values) for h in parse_holdouts(["test=IV,XV validation=group:heat shock"], True)]
    [(2, None, ['IV', 'XV']), (1, 'group', ['heat shock'])]
    """
    holdouts = []
    for text in texts:
        for part in re.split(r"\s+(?=(?:test|validation)=)", text.strip()):
            side, equals, values = part.partition("=")
            if not equals or side not in SPLIT_NAMES[1:]:
                raise SettingsError(
                    f"--holdout {part!r}: write test=NAMES or validation=NAMES, such as --holdout test=IV,XV"
                )
            key, colon, names = values.partition(":")
            of_treatments = bool(with_treatments and colon)
            written = (names if of_treatments else values).strip()
            holdouts.append(
                Holdout(
                    side=SPLIT_NAMES.index(side),
                    key=key.strip() if of_treatments else None,
                    text=written,
                    values=[value.strip() for value in written.split(",") if value.strip()],
                )
            )
    return holdouts


def block_groups(
    chrom: Sequence[str],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    block_size: int,
    *together: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Block of each window: chromosomes are cut into blocks of `block_size` bases.

    start, end: windows with flanks, 0-based half-open, coordinates taken as linear. together: pairs of windows
    that must not be parted. These and windows that overlap, directly or by way of others, go to the block in which
    the first of them starts, so that blocks share no base.

    Raises: BioattnError when a promoter has no location.
    """
    if not all(chrom):
        raise BioattnError(
            "--split block: the promoters have no location (their FASTA gives none); use --split homology, or "
            "promoters made by `bioattn prepare promoters`"
        )
    clusters = group_labels(len(chrom), [overlap_links(chrom, start, end), *together])
    first = np.full(int(clusters.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, clusters, start)
    blocks = np.maximum(first[clusters], 0) // block_size
    number = np.unique(np.asarray(chrom), return_inverse=True)[1]
    groups: NDArray[np.int64] = np.unique(np.stack([number, blocks]), axis=1, return_inverse=True)[1].ravel()
    return groups


def read_split_table(path: Path) -> dict[str, int]:
    """The side of each gene from a table with the columns `gene` (or, failing that, the first) and `split`, or
    from the audit of a dataset. Sides are called train, validation (or valid, val) and test.
    """
    reader = open_table(path)
    is_audit = tuple(reader.header[:2]) == ("kind", "name")
    gene = reader.header.index("gene") if "gene" in reader.header else int(is_audit)
    split = reader.column("split", "--split-table")
    sides: dict[str, int] = {}
    for line, cells in reader.rows():
        if is_audit and (cells[0] != "gene" or not cells[split]):
            continue  # a treatment, or a gene that was left out
        side = parse_side(cells[split], f"{path}:{line}")
        if cells[gene] in sides:
            raise FormatError(f"{path}:{line}: the gene {cells[gene]!r} has a side already")
        sides[cells[gene]] = side
    return sides


def parse_side(text: str, where: str) -> int:
    """The side that train, validation (or valid, val) or test names."""
    names = {name: side for side, name in enumerate(SPLIT_NAMES)} | {"valid": VALIDATION, "val": VALIDATION}
    if text.lower() not in names:
        raise FormatError(f"{where}: the split is {text!r}; one of {', '.join(names)} is needed")
    return names[text.lower()]


def split_by_table(
    genes: Sequence[str], sides: Mapping[str, int], words: SplitWords = GENES
) -> NDArray[np.uint8]:
    """Side of each gene as a table says; it may hold others. Raises: BioattnError naming genes that it lacks."""
    absent = [gene for gene in genes if gene not in sides]
    if absent:
        raise BioattnError(
            f"--split-table: {len(absent):,} of {counted(len(genes), words.noun)} are not in the table: "
            f"{quoted(absent)}; add them, or leave them out of the {words.inputs}"
        )
    split = np.array([sides[gene] for gene in genes], dtype=np.uint8)
    if not (split == TRAIN).any():
        raise BioattnError(f"--split-table: no {words.noun} is left for training")
    return split


def split_by_chromosome(chrom: Sequence[str], holdouts: Sequence[Holdout], seed: int) -> NDArray[np.uint8]:
    """Side of each gene, whole chromosomes together.

    A side without a holdout gets about a tenth of the genes: a chromosome drawn at random among those not larger
    than that, then whichever brings the count nearest, as long as it comes nearer.

    Raises: BioattnError for unknown chromosomes (listing those there are), for one on two sides, and when no
    chromosome is left for training.
    """
    if not all(chrom):
        raise BioattnError(
            "--split chromosome: the promoters have no chromosome (their FASTA gives no location); "
            "use --split homology, promoters made by `bioattn prepare promoters`, or, to hold out treatments, "
            "--split treatment"
        )
    names, number, counts = np.unique(np.asarray(chrom), return_inverse=True, return_counts=True)
    known = [str(name) for name in names]
    side_of: dict[str, int] = {}
    for holdout in holdouts:
        unknown = [name for name in holdout.values if name not in known]
        if unknown:
            hint = " (treatments are held out with --split treatment)" if ":" in unknown[0] else ""
            raise BioattnError(
                f"--holdout {SPLIT_NAMES[holdout.side]}: no promoter lies on {quoted(unknown)}{hint}; "
                f"the chromosomes are {quoted(known, 40)}"
            )
        for name in holdout.values:
            if side_of.setdefault(name, holdout.side) != holdout.side:
                raise SettingsError(
                    f"--holdout: the chromosome {name!r} is named for both test and validation"
                )
    size = dict(zip(known, counts.tolist(), strict=True))
    generator = np.random.default_rng(seed)
    # `test=` (empty) says that a side is to stay empty.
    to_fill = [side for side in (TEST, VALIDATION) if side not in {holdout.side for holdout in holdouts}]
    for index, side in enumerate(to_fill):
        free = [name for name in known if name not in side_of]
        others = len(to_fill) - index  # the sides still to come, and training
        if len(free) <= others:
            raise BioattnError(
                f"--split chromosome: the promoters lie on {len(known)} chromosomes ({quoted(known)}), "
                f"which leaves none for {SPLIT_NAMES[side]}; use --split homology"
            )
        sizes = {name: size[name] for name in free}
        for name in _chromosomes_near(sizes, len(chrom) * DEFAULT_SHARE, len(free) - others, generator):
            side_of[name] = side
    if len(side_of) == len(known):
        raise BioattnError("--holdout: every chromosome is held out; none is left for training")
    return np.array([side_of.get(name, TRAIN) for name in known], dtype=np.uint8)[number]


def split_by_group(
    groups: NDArray[np.int64], holdouts: Sequence[Holdout], seed: int, name: str, words: SplitWords = GENES
) -> NDArray[np.uint8]:
    """Side of each gene, groups whole; a group of its own for every gene gives a random split.

    Holdouts are fractions (`test=0.1`). Groups come in random order and go to the test side, then validation, as
    long as they fit; groups larger than half a side (blocks: than a side) stay in training.

    Raises: SettingsError when a holdout is not a fraction, BioattnError when a side stays empty.
    """
    shares = {TEST: DEFAULT_SHARE, VALIDATION: DEFAULT_SHARE}
    for holdout in holdouts:
        share = holdout.fraction
        if share is None:
            raise SettingsError(
                f"--holdout {SPLIT_NAMES[holdout.side]}={holdout.text}: with --split {name} a fraction of the "
                f"{words.noun}s is needed, such as test=0.1; names need --split {words.by_name}"
            )
        shares[holdout.side] = share
    if sum(shares.values()) >= 1:
        raise SettingsError(
            f"--holdout: {sum(shares.values()):g} of the {words.noun}s held out leaves none for training"
        )
    sizes = np.bincount(groups)
    side_of = np.full(len(sizes), TRAIN, dtype=np.uint8)
    order = np.random.default_rng(seed).permutation(len(sizes))
    for side in (TEST, VALIDATION):
        wanted, got = round(shares[side] * len(groups)), 0
        largest = wanted if name == "block" else max(1, wanted // 2)
        for group in order:
            if side_of[group] == TRAIN and sizes[group] <= min(wanted - got, largest):
                side_of[group] = side
                got += int(sizes[group])
        if wanted and not got:
            units = {"homology": f"group of related {words.inputs}", "block": "block of a chromosome"}
            raise BioattnError(
                f"--split {name}: no {units.get(name, words.noun)} fits into {SPLIT_NAMES[side]} ({wanted:,} of "
                f"{len(groups):,} {words.noun}s; the smallest has {sizes.min():,}, the largest {sizes.max():,}); "
                f"{'give a smaller --block-size' if name == 'block' else f'split by {words.by_name}'}, or hold "
                "out a larger fraction"
            )
    return side_of[groups]


def split_treatments(table: TreatmentTable, holdouts: Sequence[Holdout], seed: int) -> NDArray[np.uint8]:
    """Side of each treatment.

    Holdouts with a key choose by name (`treatment:NAME,NAME`) or by a column of the table (`group:heat_shock`). A
    side without one gets a tenth of the treatments at random, when no side is given.

    Raises: BioattnError for unknown names, columns or values, for one on two sides, and when none is left to
    train on.
    """
    sides = np.full(len(table.names), TRAIN, dtype=np.uint8)
    for holdout in holdouts:
        chosen = _chosen_treatments(table, holdout)
        clash = [table.names[i] for i in np.flatnonzero(chosen) if sides[i] not in (TRAIN, holdout.side)]
        if clash:
            raise BioattnError(f"--holdout: {quoted(clash)} is held out for both test and validation")
        sides[chosen] = holdout.side
    if not holdouts:
        count = max(1, round(len(sides) * DEFAULT_SHARE))
        if len(sides) < 3:
            raise BioattnError(
                f"--split treatment: {len(sides)} treatments cannot be parted in three; hold out genes"
            )
        order = np.random.default_rng(seed).permutation(len(sides))
        sides[order[:count]], sides[order[count : 2 * count]] = TEST, VALIDATION
        LOGGER.warning(
            f"--split treatment holds out {count:,} + {count:,} single treatments at random; their near repeats "
            "may be in training: hold out whole groups with --holdout test=COLUMN:VALUE"
        )
    if not (sides == TRAIN).any():
        raise BioattnError("--holdout: every treatment is held out; none is left for training")
    return sides


def _chosen_treatments(table: TreatmentTable, holdout: Holdout) -> NDArray[np.bool_]:
    pools: list[tuple[str, list[str]]] = []
    if holdout.key == TREATMENT_KEY:
        pools.append(("treatment", table.names))
    if holdout.key in table.columns:
        cells = [f"{x:g}" if isinstance(x, float) else str(x) for x in table.frame[holdout.key]]
        pools.append((f"value of the column {holdout.key!r}", cells))
    if not pools:
        raise BioattnError(
            f"--holdout {SPLIT_NAMES[holdout.side]}={holdout.key}:…: {holdout.key!r} is neither 'treatment' nor a "
            f"column of the treatment table ({quoted(table.columns, 20) or 'none was given'})"
        )
    for _, pool in pools:
        # A name may itself hold commas (1,10-phenanthroline), so the whole is tried before its parts.
        values = [holdout.text] if holdout.text in pool else holdout.values
        if set(values) <= set(pool):
            return np.array([name in values for name in pool], dtype=np.bool_)
    what, pool = pools[-1]
    unknown = [value for value in holdout.values if value not in pool]
    raise BioattnError(
        f"--holdout {SPLIT_NAMES[holdout.side]}={holdout.key}:…: no {what} is {quoted(unknown)}; "
        f"there are {quoted(list(dict.fromkeys(pool)), 20)}"
    )


def _chromosomes_near(
    sizes: dict[str, int], wanted: float, most: int, generator: np.random.Generator
) -> list[str]:
    """At most `most` chromosomes whose genes add up to about `wanted`."""
    fitting = [name for name, size in sizes.items() if size <= wanted * 1.25]
    first = str(generator.choice(fitting)) if fitting else min(sizes, key=lambda name: (sizes[name], name))
    chosen, total = [first], sizes[first]
    while len(chosen) < most:
        free = [name for name in sizes if name not in chosen]
        best = min(free, key=lambda name: (abs(total + sizes[name] - wanted), name))
        if abs(total + sizes[best] - wanted) >= abs(total - wanted):
            break
        chosen.append(best)
        total += sizes[best]
    return chosen


class GeneSplit(NamedTuple):
    """The side of each gene, how the split was made (plain JSON) and the leakage between the sides."""

    sides: NDArray[np.uint8]
    description: dict[str, Any]
    leakage: list[Leakage]


def split_genes(
    promoters: Sequence[Promoter],
    codes: NDArray[np.uint8],
    settings: DatasetSettings,
    proteins: Mapping[str, str] | None = None,
    table: Mapping[str, int] | None = None,
) -> GeneSplit:
    """Split the genes as the settings say and measure the leakage between the sides.

    codes: (promoters, bases) with flanks, padded. proteins: by gene id; adds paralogues. table: the side of each
    gene, where the user gives it. No split parts a transcription unit (`Promoter.unit`).

    Raises: SettingsError when the settings do not fit; BioattnError when no protein belongs to a promoter, or when
    chromosomes or the table part a transcription unit.
    """
    chrom = [p.chrom for p in promoters]
    # Flanks are used by shifted training samples, so they count as part of the window here.
    start = np.array([p.start - p.flank for p in promoters], dtype=np.int64)
    end = np.array([p.end + p.flank for p in promoters], dtype=np.int64)
    holdouts = [holdout for holdout in settings.parsed_holdouts if holdout.key is None]
    kind = _kind(settings, holdouts, chrom) if table is None else None
    description: dict[str, Any] = {
        "genes": "table" if table is not None else None if kind is None else str(kind),
        "k": DEFAULT_K,
        "min_share": MIN_SHARE,
    }
    first: dict[str, int] = {}
    first_of_unit = np.array([first.setdefault(p.unit or f" {i}", i) for i, p in enumerate(promoters)])
    together = first_of_unit, np.arange(len(promoters))
    if kind is None and table is None:
        LOGGER.info("all genes are in training; only treatments are held out")
        return GeneSplit(np.full(len(chrom), TRAIN, dtype=np.uint8), description, [])
    paralogues = None if proteins is None else _paralogues(promoters, proteins)
    links = promoter_links(codes)
    if table is not None:
        known = GeneNames.of(promoters)
        sides = split_by_table(known.ids, {known.id_of(gene): side for gene, side in table.items()})
    elif kind is Split.CHROMOSOME:
        sides = split_by_chromosome(chrom, holdouts, settings.seed)
        description["chromosomes"] = {
            name: sorted({c for c, s in zip(chrom, sides, strict=True) if s == side})
            for side, name in enumerate(SPLIT_NAMES)
        }
        for name, chromosomes in description["chromosomes"].items():
            LOGGER.info(f"{name}: chromosomes {quoted(chromosomes, 20) or 'none'}")
    elif kind is Split.HOMOLOGY:
        pairs = [(links.first, links.second), overlap_links(chrom, start, end), together]
        if paralogues is not None:
            pairs.append((paralogues.first, paralogues.second))
        groups = group_labels(len(chrom), pairs)
        sizes = np.bincount(groups)
        description |= {
            "groups": len(sizes),
            "largest_group": int(sizes.max()),
            "proteins": proteins is not None,
        }
        LOGGER.info(
            f"homology: {counted(len(sizes), 'group')} of related promoters, "
            f"{int((sizes == 1).sum()):,} of them single, the largest of {sizes.max():,}"
        )
        sides = split_by_group(groups, holdouts, settings.seed, str(kind))
    elif kind is Split.BLOCK:
        size = settings.block_size or DEFAULT_BLOCK
        groups = block_groups(chrom, start, end, size, together)
        sizes = np.bincount(groups)
        description |= {"block_size": size, "blocks": len(sizes), "largest_block": int(sizes.max())}
        LOGGER.info(f"block: {len(sizes):,} blocks with promoters, the largest of {sizes.max():,}")
        sides = split_by_group(groups, holdouts, settings.seed, str(kind))
    else:
        units = np.unique(first_of_unit, return_inverse=True)[1]
        sides = split_by_group(units, holdouts, settings.seed, str(kind))
    for other, one in enumerate(first_of_unit.tolist()):
        if sides[one] != sides[other]:
            raise BioattnError(
                f"{promoters[one].gene_id!r} and {promoters[other].gene_id!r} are of one "
                f"transcription unit but in {SPLIT_NAMES[sides[one]]} and {SPLIT_NAMES[sides[other]]}; give a "
                "split that keeps them together, or make the promoters without --operons"
            )
    leakage = measure_leakage(sides, links, chrom, start, end, paralogues)
    for figure in leakage:
        LOGGER.info(figure.sentence())
    if kind is Split.RANDOM:
        shares = [f.shared_kmers for f in leakage if (f.side, f.against) == ("test", "train")]
        here = "".join(
            f" (here {percentage(share)} of test promoters share sequence with one)" for share in shares
        )
        LOGGER.warning(
            f"--split random does not keep test promoters apart from their relatives in training{here}, so scores "
            "come out too good; use --split homology or chromosome for figures you report"
        )
    return GeneSplit(sides, description, leakage)


def _kind(settings: DatasetSettings, holdouts: Sequence[Holdout], chrom: Sequence[str]) -> Split | None:
    """The gene split that was asked for; None when only treatments are held out."""
    gene_splits = [split for split in settings.splits if split is not Split.TREATMENT]
    if gene_splits:
        return gene_splits[0]
    if settings.splits:
        return None
    holdouts = [holdout for holdout in holdouts if holdout.values]
    if holdouts:  # names are chromosomes; fractions need groups that can be cut anywhere
        kind = Split.HOMOLOGY if all(holdout.fraction for holdout in holdouts) else Split.CHROMOSOME
    else:
        enough = all(chrom) and len(set(chrom)) >= MIN_CHROMOSOMES
        kind = Split.CHROMOSOME if enough else Split.HOMOLOGY
    LOGGER.info(f"splitting by {kind} (choose with --split)")
    return kind


def _paralogues(promoters: Sequence[Promoter], proteins: Mapping[str, str]) -> Links:
    """Links between promoters whose proteins are related; proteins find their genes as response ids do."""
    ids = [p.gene_id for p in promoters]
    names = list(proteins)
    promoter = GeneNames.of(promoters).match(names)[0]
    chosen = np.flatnonzero(promoter >= 0)
    if not chosen.size:
        raise BioattnError(
            f"--proteins: none of its names is a gene of the promoters: it has {quoted(names, 3)}, "
            f"the promoters {quoted(ids, 3)}"
        )
    gene = promoter[chosen]
    covered = len(set(gene.tolist()))
    if covered < len(ids):
        LOGGER.warning(f"--proteins: {len(ids) - covered:,} of {len(ids):,} genes have no protein there")
    links = protein_links([proteins[names[i]] for i in chosen])
    first, second = gene[links.first], gene[links.second]
    different = first != second
    return Links(first[different], second[different], links.share[different])
