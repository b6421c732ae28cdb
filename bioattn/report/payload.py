"""What the scripts of a page are given: one JSON object, large arrays deflated and in base64."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from bioattn.report.alignment_pages import AlignmentPage
from bioattn.report.collection import Report
from bioattn.report.packed_maps import STEPS, as_text, pack, quantised
from bioattn.report.promoter_browser import BrowserGene, PromoterBrowser

MEAN_PROMOTER = "(mean of all promoters)"
MAX_CLUSTERED = 1500
"""Treatments up to which they are put in the order of a tree; beyond it they stay in the file's."""


def page_data(report: Report) -> dict[str, Any]:
    """The JSON of a report."""
    return {
        "promoters": None if report.browser is None else _promoters(report.browser),
        "similarity": None if report.browser is None else _similarity(report.browser),
        "alignments": [_alignment(page) for page in report.pages],
    }


def _promoters(browser: PromoterBrowser) -> dict[str, Any]:
    mean = {
        "id": MEAN_PROMOTER,
        "maps": as_text(pack([quantised(site.profile_THK) for site in browser.sites])),
    }
    return {
        "length": browser.window_length,
        "task": browser.task,
        "treatments": browser.treatments,
        "steps": STEPS,
        "sites": [
            {
                "name": site.name,
                "treatments": site.treatments,
                "heads": site.heads,
                "edges": site.key_edges.tolist(),
                "receptiveField": site.receptive_field,
            }
            for site in browser.sites
        ],
        "attribution": None
        if browser.attribution_method is None
        else {"method": browser.attribution_method, "treatments": browser.attribution_treatments},
        "mean": mean,
        "genes": [_gene(gene, browser.treatments) for gene in browser.genes],
        # Names of fields once, not five thousand times.
        "lines": [[line.id, line.name, line.treatment, line.predicted, line.peak] for line in browser.lines]
        if len(browser.lines) > len(browser.genes)
        else [],
    }


def _gene(gene: BrowserGene, treatments: list[str]) -> dict[str, Any]:
    number = {name: place for place, name in enumerate(treatments)}
    window = gene.window
    return {
        "id": gene.id,
        "name": gene.name,
        "window": [window.chrom, window.start, window.end, window.strand],
        "split": gene.split,
        "sequence": gene.sequence,
        "predicted": gene.predicted,
        "measured": gene.measured,
        "neighbours": [
            [each.start, each.end, each.label, int(each.same_strand), int(each.own)]
            for each in gene.neighbours
        ],
        "hits": [
            [hit.motif, hit.start, hit.end, hit.strand, float(f"{hit.p_value:.2g}")] for hit in gene.hits
        ],
        "attended": [
            [number[site.treatment], site.motif, site.start, site.end]
            for site in gene.attended
            if site.treatment in number
        ],
        "attribution": gene.has_attribution,
        "maps": gene.maps,
    }


def _similarity(browser: PromoterBrowser) -> dict[str, Any] | None:
    site = browser.sites[0]
    if len(site.treatments) < 2:
        return None
    matrices = [
        (
            "Attention, less the profile all promoters share",
            "Correlation of two treatments' maps over all promoters and bins, after each treatment's mean map is "
            "taken off.",
            site.specific_similarity_TT,
        ),
        (
            "Attention as it is",
            "Correlation of two treatments' maps over all promoters and bins.",
            site.similarity_TT,
        ),
    ]
    same = site.treatments == browser.treatments
    if same and browser.prediction_similarity_TT is not None:
        matrices.append(
            (
                "Predicted responses",
                "Correlation of predicted responses over promoters.",
                browser.prediction_similarity_TT,
            )
        )
    if same and browser.measured_similarity_TT is not None:
        matrices.append(
            (
                "Measured responses",
                "Correlation of measured responses over promoters.",
                browser.measured_similarity_TT,
            )
        )
    return {
        "names": site.treatments,
        "matrices": [
            {
                "title": title,
                "about": about,
                "order": cluster_order(values).tolist(),
                "values": _deflated(np.rint((values + 1) * 127)),
            }
            for title, about, values in matrices
        ],
    }


def cluster_order(similarity_TT: NDArray[np.float64]) -> NDArray[np.int64]:
    """Treatments in the order of a tree's leaves (average linkage of 1 − r, neighbours as alike as can be)."""
    size = len(similarity_TT)
    if size < 3 or size > MAX_CLUSTERED:
        return np.arange(size)
    distance = np.clip(1 - (similarity_TT + similarity_TT.T) / 2, 0, 2)
    np.fill_diagonal(distance, 0)
    condensed = squareform(distance, checks=False)
    tree = linkage(condensed, "average")
    order: NDArray[np.int64] = leaves_list(optimal_leaf_ordering(tree, condensed)).astype(np.int64)
    return order


def _alignment(page: AlignmentPage) -> dict[str, Any]:
    return {
        "id": page.id,
        "sequence": page.sequence,
        "columns": page.columns,
        "rowNames": page.row_names,
        "rows": page.rows,
        "numRows": page.num_rows,
        "truthSource": page.truth_source,
        "contact": page.contact,
        "distance": page.distance,
        "truth": page.truth,
        "heads": [
            {
                "site": head.site,
                "kind": head.kind,
                "block": head.block,
                "head": head.head,
                "map": head.map,
                "largest": float(f"{head.largest:.6g}"),
                "agreement": _rounded(head.agreement),
                "precision": _rounded(head.precision),
            }
            for head in page.heads
        ],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _deflated(values: NDArray[np.floating]) -> str:
    return base64.b64encode(zlib.compress(values.astype(np.uint8).tobytes(), 9)).decode("ascii")
