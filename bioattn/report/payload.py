"""What the scripts of a page are given: one JSON object, large arrays deflated and in base64."""

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from bioattn.report.collection import Report
from bioattn.report.packed_maps import STEPS, as_text, pack, pack_bytes, quantised
from bioattn.report.promoter_browser import PromoterBrowser

MEAN_PROMOTER = "(mean of all promoters)"
MAX_CLUSTERED = 1500
"""Treatments up to which they are put in the order of a tree; beyond it they stay in the file's."""


def page_data(report: Report) -> dict[str, Any]:
    """The JSON of a report."""
    return {
        "promoters": None if report.browser is None else _promoters(report.browser),
        "similarity": None if report.browser is None else _similarity(report.browser),
        "alignments": [page.data() for page in report.pages],
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
        "contributions": browser.contributions,
        "mean": mean,
        "genes": [asdict(gene) for gene in browser.genes],
        # Names of fields once, not five thousand times.
        "lines": browser.lines if len(browser.lines) > len(browser.genes) else [],
    }


def _similarity(browser: PromoterBrowser) -> dict[str, Any] | None:
    site = browser.sites[0]
    if len(site.treatments) < 2:
        return None
    matrices = [
        (
            "Attention without the shared profile",
            "Correlation of two treatments' maps over all promoters and bins, without the profile that all "
            "promoters share (each treatment's mean map).",
            site.specific_similarity_TT,
        ),
        (
            "Attention as it is",
            "Correlation of two treatments' maps over all promoters and bins.",
            site.similarity_TT,
        ),
    ]
    for kind, similarity_TT in (
        ("predicted", browser.prediction_similarity_TT),
        ("measured", browser.measured_similarity_TT),
    ):
        if similarity_TT is not None and site.treatments == browser.treatments:
            about = f"Correlation of {kind} responses over promoters."
            matrices.append((f"{kind.capitalize()} responses", about, similarity_TT))
    return {
        "names": site.treatments,
        "matrices": [
            {
                "title": title,
                "about": about,
                "order": cluster_order(values).tolist(),
                "values": pack_bytes((values + 1) * 127),
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
