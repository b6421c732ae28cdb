"""One map over positions from the attention sites of a promoter model: which sites, averaged over what.

Shapes: B promoters, T treatments, K keys (bins of positions).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import matching_sites, not_there
from bioattn.errors import BioattnError
from bioattn.store.reader import AttentionFile, SiteInfo
from bioattn.text import quoted


def choose_position_sites(attention: AttentionFile, patterns: Sequence[str] | None = None) -> list[SiteInfo]:
    """Sites matching shell patterns (None = all) whose keys are positions; all have the same bins.

    Where some tell treatments apart, only those; else where some have one query for all positions, only those.

    Raises: BioattnError when a pattern matches no site, there is no such site or bins differ.
    """
    if attention.over_alignments:
        raise BioattnError(f"{attention.path}: holds attention over alignments; one over promoters is needed")
    names = matching_sites(patterns or ["*"], attention.sites, attention.path)
    infos = [attention.sites[name] for name in names]
    with_positions = [info for info in infos if info.key_edges is not None and "key" in info.dims]
    if not with_positions:
        raise BioattnError(
            f"{attention.path}: at no site of {quoted(names)} are positions looked at; choose others with --sites"
        )
    treatments = [info for info in with_positions if "treatment" in info.dims]
    chosen = treatments or [info for info in with_positions if "query" not in info.dims] or with_positions
    first = chosen[0]
    for info in chosen[1:]:
        if not np.array_equal(info.key_edges, first.key_edges):  # type: ignore[arg-type]
            raise BioattnError(
                f"{attention.path}: sites {first.name} and {info.name} have different bins; "
                "choose one of them with --sites"
            )
    return chosen


def require_heads(attention: AttentionFile, sites: Sequence[SiteInfo], heads: Sequence[int]) -> None:
    """Raises: BioattnError when a head is not kept at one of the sites, or heads were reduced away."""
    for info in sites:
        if "head" not in info.dims:
            raise BioattnError(
                f"{attention.path}: site {info.name} holds {info.reduce.value} only; leave --heads out, or export "
                "attention without --reduce"
            )
        for head in heads:
            if head not in info.heads:
                raise not_there("--heads", head, f"site {info.name} of {attention.path}", "head", info.heads)


def mean_map(
    attention: AttentionFile,
    info: SiteInfo,
    genes: slice,
    *,
    treatment: str | None = None,
    heads: Sequence[int] | None = None,
    value_weighted: bool = False,
) -> NDArray[np.float64]:
    """Weights of some promoters at one site, averaged over heads and queries: (B, T, K).

    genes: sample numbers. treatment: one of them, then T is 1; None = all of the file. A site without a treatment
    axis says the same for every treatment. heads: the model's head numbers to average, None = all kept.
    value_weighted: weights times the norm of the value vector, each row scaled to sum 1.

    Raises: BioattnError for a treatment or value-weighted attention that the site does not hold.
    """
    tells_apart = "treatment" in info.dims
    weights = attention.weights(
        info.name,
        gene=genes,
        treatment=[treatment] if tells_apart and treatment is not None else None,
        value_weighted=value_weighted,
    )
    if heads is not None:
        weights = weights.take([info.heads.index(head) for head in heads], axis=info.dims.index("head"))
    averaged = tuple(axis for axis, dim in enumerate(info.dims) if dim in ("head", "query"))
    maps: NDArray[np.float64] = weights.astype(np.float64).mean(axis=averaged)
    if not tells_apart:
        number = len(attention.treatments) if treatment is None else 1
        maps = np.broadcast_to(maps[:, None], (len(maps), number, maps.shape[-1]))
    if value_weighted:
        maps = maps / np.maximum(maps.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
    return maps
