"""The maps of an alignment's attention, query × key, head by head or their mean."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import matching_sites, not_there, require_names
from bioattn.errors import BioattnError
from bioattn.store.choices import Reduction
from bioattn.store.reader import Attention, SiteInfo
from bioattn.structures.contacts import MIN_SEPARATION
from bioattn.text import quoted

ROW_SITES = "*.msa_row"


def choose_sites(attention: Attention, patterns: Sequence[str] | None = None) -> list[SiteInfo]:
    """The sites whose names match one of the shell patterns; None = row attention, or all where there is none.

    Row attention over the extra MSA counts only where there is no other.

    Raises: BioattnError for a pattern that matches none.
    """
    if patterns:
        return [attention.sites[name] for name in matching_sites(patterns, attention.sites, attention.path)]
    rows = [info for info in attention.sites.values() if fnmatchcase(info.name, ROW_SITES)]
    own = [info for info in rows if not info.name.startswith("extra_msa.")]
    return own or rows or list(attention.sites.values())


def require_heads_somewhere(
    attention: Attention, sites: Sequence[SiteInfo], heads: Sequence[int] | None
) -> None:
    """Raises: BioattnError for a head that none of the sites has; sites may have different numbers of heads."""
    known = sorted({head for info in sites if "head" in info.dims for head in info.heads})
    for head in heads or ():
        if head not in known:
            raise not_there("--heads", head, attention.path, "head", known)


def choose_maps(
    attention: Attention, patterns: Sequence[str] | None, heads: Sequence[int] | None
) -> list[tuple[SiteInfo, list[int | None]]]:
    """The sites as of `choose_sites`, each with its heads among `heads` (None = all), in the file's order; [None]
    where a site holds something made of all heads.

    Raises: BioattnError for a pattern that matches no site, or a head that none of the sites has.
    """
    sites = choose_sites(attention, patterns)
    require_heads_somewhere(attention, sites, heads)
    return [
        (
            info,
            [head for head in info.heads if heads is None or head in heads]
            if "head" in info.dims
            else [None],
        )
        for info in sites
    ]


def head_map(attention: Attention, info: SiteInfo, sample: str, head: int | None) -> NDArray[np.float64]:
    """(Q, K) of one head, the mean over rows (or outer residues) where the file holds each.

    Raises: BioattnError when the site has no queries.
    """
    if "query" not in info.dims:
        raise BioattnError(
            f"{attention.path}: site {info.name} has one query for all, so there is no map of it; choose others "
            "with --sites"
        )
    weights = attention.weights(info.name, sample=sample, head=head).astype(np.float64)
    outer = [dim for dim in info.dims if dim not in ("sample", "head", "query", "key", "rank")]
    if info.reduce == Reduction.TOP_K:
        places = attention.key_index(info.name, sample=sample, head=head)
        size = weights.shape[-2]
        dense = np.zeros((*weights.shape[:-1], size))
        np.put_along_axis(dense, places.astype(np.intp), weights, axis=-1)
        weights = dense
    return weights.mean(axis=tuple(range(len(outer)))) if outer else weights


def only_sample(attention: Attention, sample: str | None, over: Sequence[str] = ("alignments",)) -> str:
    """The alignment, or whatever the file may be over, that is meant.

    Raises: BioattnError when it is not there or could be any of several.
    """
    if attention.inputs not in over:
        raise BioattnError(
            f"{attention.path}: holds attention over {attention.inputs}; one over {' or '.join(over)} is needed"
        )
    names = [str(name) for name in attention.samples.index]
    if sample is None and len(names) == 1:
        return names[0]
    if sample is None:
        raise BioattnError(
            f"{attention.path}: holds {len(names):,} {attention.inputs}; choose with --sample ({quoted(names)})"
        )
    require_names("--sample", [sample], names, attention.path, attention.inputs.removesuffix("s"))
    return sample


def mean_residue_map(
    attention: Attention,
    sample: str,
    *,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
) -> NDArray[np.float64]:
    """(R, R) attention of residues to residues, the mean over sites, their heads and rows; one map in memory.

    heads: of every site that has them; None = all.

    Raises: BioattnError when a site looks from sequence to sequence, and for sites or heads that are not there.
    """
    length = int(attention.samples["length"].loc[sample])
    total, number = np.zeros((length, length)), 0
    for info, own in choose_maps(attention, sites, heads):
        if info.kind("key") != "residue":
            raise BioattnError(
                f"{attention.path}: site {info.name} looks from sequence to sequence, not at residues; choose "
                f"others with --sites, such as {ROW_SITES!r}"
            )
        for head in own:
            total += head_map(attention, info, sample, head)
            number += 1
    return total / number


def strongest_pairs(
    map_RR: NDArray[np.float64], number: int, min_separation: int = MIN_SEPARATION
) -> list[tuple[int, int, float]]:
    """The pairs of places i < j with most attention, both directions averaged, in falling order.

    min_separation: least j - i. Pairs without attention are left out; of equal ones the first come first.
    """
    first, second = np.triu_indices(len(map_RR), k=min_separation)
    weights = (map_RR[first, second] + map_RR[second, first]) / 2
    order = np.argsort(-weights, kind="stable")[:number]
    return [(int(first[k]), int(second[k]), float(weights[k])) for k in order if weights[k] > 0]
