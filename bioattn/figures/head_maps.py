"""Maps of every head: treatment × position for promoters, query × key by layer for an alignment.

Shape suffixes: T treatments, K bins, Q queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.couplings import average_product_correction
from bioattn.errors import SettingsError
from bioattn.figures.treatment_maps import TreatmentMaps
from bioattn.interpret.maps.alignment_maps import choose_sites, head_map, only_sample, require_heads_somewhere
from bioattn.store.reader import AttentionFile
from bioattn.text import quoted

_KINDS = {"residue": "residue", "msa_row": "sequence", "extra_msa_row": "sequence"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadPanel:
    """The map of one head."""

    site: str
    head: str
    values: NDArray[np.float64]
    """(Q, K); of promoters (T, K)."""
    effective_keys: float
    """Mean effective number of keys of a row: 2 to the power of its entropy in bits. NaN for corrected maps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGrid:
    """Panels by site, in the file's order, heads of a site side by side."""

    panels: list[HeadPanel]
    title: str
    query_label: str
    key_label: str
    query_names: list[str] | None = None
    """Names of the rows: treatments, for promoters."""
    key_edges: NDArray[np.int64] | None = None
    """Bin edges in bases, for promoters; None = keys are counted from 1."""
    zero: int | None = None
    corrected: bool = False
    """Whether maps are symmetrised and corrected, so that they have both signs."""

    @property
    def sites(self) -> list[str]:
        """Names of the sites, in order."""
        return list(dict.fromkeys(panel.site for panel in self.panels))


def promoter_head_grid(maps: TreatmentMaps, *, title: str, zero: int | None = None) -> HeadGrid:
    """A panel per head: treatments × bins, in multiples of uniform attention per base."""
    scale_K = maps.window_length / np.diff(maps.key_edges)
    panels = []
    for head, weights_TK in zip(maps.heads, maps.weights_HTK, strict=True):
        site, _, number = head.rpartition(" ")
        panels.append(
            HeadPanel(
                site=site,
                head=number,
                values=weights_TK * scale_K,
                effective_keys=effective_keys(weights_TK),
            )
        )
    return HeadGrid(
        panels=panels,
        title=title,
        query_label="treatment",
        key_label="position in the window, bases"
        if zero is None
        else "position from the start of the gene, bases",
        query_names=maps.treatments,
        key_edges=maps.key_edges,
        zero=zero,
    )


def alignment_head_grid(
    attention: AttentionFile,
    sample: str | None = None,
    *,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    corrected: bool = False,
) -> HeadGrid:
    """A panel per site and head of one alignment: query × key, the mean over rows where the file holds each.

    sample: None takes the only one. sites: shell patterns; None = row attention, or all sites without it.
    corrected: maps are symmetrised, and what a residue shares with all others is removed, as for contacts.

    Raises: BioattnError for what the file does not hold; SettingsError for sites of different keys, or none.
    """
    sample = only_sample(attention, sample)
    chosen = choose_sites(attention, sites)
    require_heads_somewhere(attention, chosen, heads)
    kinds = {_KINDS[info.kind("key")] for info in chosen}
    if len(kinds) > 1:
        raise SettingsError(
            f"--sites: {quoted([info.name for info in chosen])} look at residues and at sequences; choose one kind"
        )
    panels = []
    for info in chosen:
        for head in info.heads if "head" in info.dims else [None]:
            if head is not None and heads is not None and head not in heads:
                continue
            values = head_map(attention, info, sample, head)
            effective = effective_keys(values)
            if corrected:
                if kinds != {"residue"}:
                    raise SettingsError("--corrected is for maps between residues")
                values = average_product_correction(values + values.T)
            name = str(info.reduce).replace("-", " over ") if head is None else str(head)
            panels.append(
                HeadPanel(
                    site=info.name,
                    head=name,
                    values=values,
                    effective_keys=float("nan") if corrected else effective,
                )
            )
    kind = kinds.pop()
    return HeadGrid(
        panels=panels, title=sample, query_label=f"query {kind}", key_label=f"key {kind}", corrected=corrected
    )


def effective_keys(weights: NDArray[np.float64]) -> float:
    """2 to the power of the entropy in bits, the mean over rows (..., K); rows are normalised first."""
    total = weights.sum(axis=-1, keepdims=True)
    shares = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return float(np.exp2(-(shares * logs).sum(axis=-1)).mean())
