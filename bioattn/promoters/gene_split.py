"""The gene split of a dataset, and the leakage between its sides."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.promoters.choices import DatasetSettings, Split
from bioattn.promoters.dataset import SPLIT_NAMES, TRAIN
from bioattn.promoters.genes import GeneNames
from bioattn.promoters.homology import (
    DEFAULT_K,
    MIN_SHARE,
    Leakage,
    Links,
    group_labels,
    measure_leakage,
    overlap_links,
    promoter_links,
    protein_links,
)
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.promoters.splits import (
    DEFAULT_BLOCK,
    MIN_CHROMOSOMES,
    Holdout,
    block_groups,
    split_by_chromosome,
    split_by_group,
    split_by_table,
)
from bioattn.text import counted, percentage, quoted

LOGGER = logging.getLogger("bioattn")


class GeneSplit(NamedTuple):
    """The side of each gene, how the split was made (plain JSON) and the leakage between the sides."""

    sides: NDArray[np.uint8]
    description: dict[str, Any]
    leakage: list[Leakage]
    unit_notes: Mapping[str, str]
    """What the audit says of genes that share a transcription unit, by gene id."""


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
    units, notes = np.unique(first_of_unit, return_inverse=True)[1], unit_notes(promoters)
    if notes:
        description["transcription_units"] = _report_units(units)
    if kind is None and table is None:
        LOGGER.info("all genes are in training; only treatments are held out")
        return GeneSplit(np.full(len(chrom), TRAIN, dtype=np.uint8), description, [], notes)
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
    return GeneSplit(sides, description, leakage, notes)


def _report_units(units: NDArray[np.int64]) -> dict[str, int]:
    """Log and count the transcription units of several genes. units: the unit of each gene."""
    sizes = np.bincount(units)
    shared = sizes[sizes > 1]
    figures = {"units": len(shared), "genes": int(shared.sum()), "largest": int(sizes.max())}
    LOGGER.info(
        f"{figures['genes']:,} of {len(units):,} genes lie in {figures['units']:,} transcription units "
        f"of several genes, the largest of {figures['largest']:,}; {figures['genes'] - figures['units']:,} are "
        "not the first of theirs, so their windows may hold no promoter; they are kept, and the audit tells them"
    )
    return figures


def _kind(settings: DatasetSettings, holdouts: Sequence[Holdout], chrom: Sequence[str]) -> Split | None:
    """The gene split that was asked for; None when only treatments are held out."""
    gene_splits = [split for split in settings.splits if split is not Split.TREATMENT]
    if gene_splits:
        return gene_splits[0]
    if settings.splits:
        return None
    holdouts = [holdout for holdout in holdouts if holdout.values]
    if holdouts:  # names are chromosomes; fractions need groups that can be cut anywhere
        kind = Split.HOMOLOGY if all(holdout.is_fraction for holdout in holdouts) else Split.CHROMOSOME
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


def unit_notes(promoters: Sequence[Promoter]) -> dict[str, str]:
    """What the audit says of each gene that shares its transcription unit: which gene is the most upstream one."""
    members: dict[str, list[Promoter]] = {}
    for promoter in promoters:
        members.setdefault(promoter.unit, []).append(promoter)
    members.pop("", None)
    notes: dict[str, str] = {}
    for unit in members.values():
        first = min(unit, key=lambda p: -p.end if p.strand == "-" else p.start)
        if len(unit) > 1:
            notes |= {p.gene_id: f"in the transcription unit of {first.gene_id}" for p in unit}
            notes[first.gene_id] = f"first of a transcription unit of {len(unit)}"
    return notes
