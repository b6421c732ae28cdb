"""From a report to one HTML file: sections of markup, the style sheet and the scripts, and a policy that lets the
browser run these and load nothing.

The scripts are given one JSON object, large arrays deflated and in base64.
"""

import base64
import hashlib
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

from bioattn import __version__
from bioattn.io.files import text_output
from bioattn.report import sections
from bioattn.report.collection import Report
from bioattn.report.gene_maps import STEPS, as_text, pack, pack_bytes, quantised
from bioattn.report.markup import Markup, data_block, element, escape, join
from bioattn.report.promoter_browser import PromoterBrowser

MEAN_PROMOTER = "(mean of all promoters)"
MAX_CLUSTERED = 1500
"""Treatments up to which they are put in the order of a tree; beyond it they stay in the file's."""


def _promoters(browser: PromoterBrowser) -> dict[str, Any]:
    maps = as_text(pack([quantised(site.profile_THK) for site in browser.sites]))
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
        "mean": {"id": MEAN_PROMOTER, "maps": maps},
        "genes": [asdict(gene) for gene in browser.genes],
        # Names of fields once, not five thousand times.
        "lines": browser.lines if len(browser.lines) > len(browser.genes) else [],
    }


def _similarity(browser: PromoterBrowser) -> dict[str, Any] | None:
    site = browser.sites[0]
    if len(site.treatments) < 2:
        return None
    about = "Correlation of two treatments' maps over all promoters and bins"
    without = f"{about}, without the profile that all promoters share (each treatment's mean map)."
    matrices = [
        ("Attention without the shared profile", without, site.specific_similarity_TT),
        ("Attention as it is", f"{about}.", site.similarity_TT),
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
    return leaves_list(optimal_leaf_ordering(tree, condensed)).astype(np.int64)


SCRIPTS = ("core.js", "tracks.js", "promoters.js", "similarity.js", "alignments.js")
"""In the order in which they are run, as one."""


def write_page(path: Path, report: Report) -> None:
    """Write the page whole or not at all. Raises: BioattnError when the file cannot be written."""
    text = render_page(report)
    with text_output(path) as file:
        file.write(text)


def render_page(report: Report) -> str:
    """The page: the same report gives the same text."""
    parts = [
        sections.summary_section(report),
        sections.promoters_section(report),
        sections.alignments_section(report),
        sections.check_section(report),
        sections.accuracy_section(report),
        sections.similarity_section(report),
        sections.motifs_section(report),
        *sections.table_sections(report),
        sections.training_section(report),
        sections.inputs_section(report),
    ]
    data = {
        "promoters": None if report.browser is None else _promoters(report.browser),
        "similarity": None if report.browser is None else _similarity(report.browser),
        "alignments": [page.data() for page in report.pages],
    }
    shown = [section for section in parts if section is not None]
    style = _resource("report.css")
    script = "\n".join(_resource(name) for name in SCRIPTS)
    return Template(_resource("page.html")).substitute(
        policy=escape(_policy(style, script)),
        title=escape(f"{report.title}: {report.headline}" if report.headline else report.title),
        generator=escape(f"bioattn {__version__}"),
        style=style,
        script=script,
        navigation=join(element("a", section.title, href=f"#{section.identifier}") for section in shown),
        content=join(section.markup for section in shown),
        data=data_block("report-data", data),
    )


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, sent or embedded; of styles and scripts those with these digests alone are used."""
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, style)]
    script_digest, style_digest = (base64.b64encode(digest).decode() for digest in digests)
    return (
        f"default-src 'none'; script-src 'sha256-{script_digest}'; style-src 'sha256-{style_digest}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _resource(name: str) -> Markup:
    return Markup((files("bioattn.report") / "templates" / name).read_text(encoding="utf-8"))
