"""Attention maps between residues, head by head, and what each says of contacts.

Shape suffix R: the match columns that the model saw.
"""

import re
from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.couplings import average_product_correction
from bioattn.interpret.maps.alignment_maps import head_map
from bioattn.report.gene_maps import pack_bytes
from bioattn.store.choices import Reduction
from bioattn.store.reader import Attention
from bioattn.structures.contacts import MIN_SEPARATION, contact_scores

_SITE = re.compile(r"(?P<stack>[a-z_]+)\.(?P<block>\d+)\.(?P<kind>[a-z_]+)\Z")
_KINDS = {
    "msa_row": "row attention",
    "triangle_starting": "triangle attention, starting node",
    "triangle_ending": "triangle attention, ending node",
}
_STACKS = {"evoformer": "", "extra_msa": " (extra MSA)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSource:
    """One head of one site whose queries and keys are residues."""

    site: str
    kind: str
    block: int
    head: int | None
    """None where the file holds something made of all heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnHead(HeadSource):
    """One head's map, packed."""

    map: str
    """(R, R) square roots of weights, queries first, in 255ths of the largest; deflated, base64."""
    largest: float
    agreement: float | None
    """Pearson r of the symmetrised, corrected map with the predicted contacts, over pairs at least 6 apart."""
    precision: float | None
    """Of its L best pairs against the structure."""


def list_heads(attention: Attention) -> list[HeadSource]:
    """All maps of residues, row attention first."""
    found = []
    for info in attention.sites.values():
        if info.kind("key") != "residue":
            continue
        if info.reduce != Reduction.TOP_K and not {"query", "key"} <= set(info.dims):
            continue
        name = _SITE.match(info.name)
        if name is None:
            kind, block = info.name.rpartition(".")[0], int(info.name.rpartition(".")[2] or 0)
        else:
            kind = _KINDS.get(name["kind"], name["kind"]) + _STACKS.get(name["stack"], f" ({name['stack']})")
            block = int(name["block"])
        heads: list[int | None] = list(info.heads) if "head" in info.dims else [None]
        found += [HeadSource(site=info.name, kind=kind, block=block, head=head) for head in heads]
    order = list(_KINDS.values())
    return sorted(
        found,
        key=lambda each: (
            order.index(each.kind) if each.kind in order else len(order),
            each.kind,
            each.block,
            -1 if each.head is None else each.head,
        ),
    )


def list_hidden(attention: Attention) -> dict[str, int]:
    """How many sites are not drawn, as their maps are not between residues, by the last part of their names."""
    drawn = {source.site for source in list_heads(attention)}
    return dict(Counter(name.rpartition(".")[2] for name in attention.sites if name not in drawn))


def draw_heads(
    attention: Attention,
    sample: str,
    sources: list[HeadSource],
    contact_RR: NDArray[np.floating] | None,
    cb_R: NDArray[np.floating] | None,
    *,
    room: int,
) -> list[DrawnHead]:
    """The heads whose maps fit into `room` bytes, in the order of `sources`.

    Where not all fit, those whose pairs are contacts most often stay (with a structure), or those most like the
    predicted contacts. One map is in memory at a time.
    """
    judged = []
    for number, source in enumerate(sources):
        map_RR = head_map(attention, attention.sites[source.site], sample, source.head)
        judged.append((number, *_judged(map_RR, contact_RR, cb_R)))
    best_first = sorted(
        judged, key=lambda each: (-(each[2] if each[2] is not None else each[1] or 0.0), each[0])
    )
    drawn: dict[int, DrawnHead] = {}
    for number, agreement, precision in best_first:
        source = sources[number]
        map_RR = head_map(attention, attention.sites[source.site], sample, source.head)
        largest = float(map_RR.max(initial=0.0))
        text = pack_bytes(np.sqrt(np.maximum(map_RR, 0) / (largest or 1.0)) * 255)
        room -= len(text)
        if room < 0 and drawn:
            break
        drawn[number] = DrawnHead(
            **asdict(source),
            map=text,
            largest=float(f"{largest:.6g}"),
            agreement=agreement,
            precision=precision,
        )
    return [drawn[number] for number in sorted(drawn)]


def _judged(
    map_RR: NDArray[np.float64], contact_RR: NDArray[np.floating] | None, cb_R: NDArray[np.floating] | None
) -> tuple[float | None, float | None]:
    corrected = average_product_correction(map_RR + map_RR.T)
    agreement = precision = None
    far = np.triu_indices(len(corrected), k=MIN_SEPARATION)
    if contact_RR is not None and len(far[0]) > 2:
        one, other = corrected[far], np.asarray(contact_RR, np.float64)[far]
        if one.std() > 0 and other.std() > 0:
            agreement = round(float(np.corrcoef(one, other)[0, 1]), 4)
    if cb_R is not None:
        found = contact_scores(corrected, cb_R).precision_l
        precision = round(found, 4) if np.isfinite(found) else None
    return agreement, precision
