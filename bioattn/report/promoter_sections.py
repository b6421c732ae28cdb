"""The sections on promoters: places for the browser and the heatmap, and the motifs."""

from bioattn.report.charts import logo
from bioattn.report.collection import Report
from bioattn.report.markup import Markup, Section, details, element, join, note, row, section, table
from bioattn.text import counted, listed
from bioattn.views.motif_export import FoundMotif, MotifResults

SURE = 0.05
"""A larger q-value is no finding."""


def promoters_section(report: Report) -> Section | None:
    """A place for the browser of promoters."""
    browser = report.browser
    if browser is None:
        return None
    return section(
        "promoters",
        "Promoters",
        note(f"Asked for, but not in the attention file: {listed(browser.absent, 20)}.")
        if browser.absent
        else None,
        note(browser.chosen_by),
        element("div", id="promoter-browser", class_="app"),
        element(
            "noscript",
            element("p", "The browser of promoters needs JavaScript; nothing is loaded from anywhere."),
        ),
    )


def similarity_section(report: Report) -> Section | None:
    """A place for the heatmap of treatments."""
    browser = report.browser
    if browser is None or len(browser.sites[0].treatments) < 2:
        return None
    return section(
        "treatments",
        "How alike treatments are",
        element("div", id="similarity", class_="app"),
        element("noscript", element("p", "The heatmap needs JavaScript.")),
    )


def motifs_section(report: Report) -> Section | None:
    """Motifs found in attended windows."""
    motifs = report.motifs
    if motifs is None:
        return None
    more = motifs.num_motifs - len(motifs.motifs)
    found = [motif for motif in motifs.motifs if motif.source != "filter"]
    filters = [motif for motif in motifs.motifs if motif.source == "filter"]
    return section(
        "motifs",
        "Motifs",
        note(
            "Found in the windows that attention or attribution singles out; letters are as high as their "
            "information in bits." + (f" {more:,} more motifs are in the export only." if more else "")
        ),
        element("div", *(_motif_card(motif, motifs) for motif in found), class_="cards")
        if found
        else element("p", "No motif was found in them.", class_="muted"),
        details(
            f"What the first layer's filters respond to ({counted(len(filters), 'motif')})",
            element("div", *(_motif_card(motif, motifs) for motif in filters), class_="cards"),
            opened=not found,
        )
        if filters
        else None,
        _treatment_motifs(motifs),
    )


def _motif_card(motif: FoundMotif, results: MotifResults) -> Markup:
    facts = [motif.source]
    if motif.seqlets is not None:
        facts.append(counted(motif.seqlets, "seqlet"))
    if motif.bits is not None:
        facts.append(f"{motif.bits:.1f} bits")
    match = None
    if motif.match:
        q = "" if motif.match_q_value is None else f" (q = {motif.match_q_value:.2g})"
        if (motif.match_q_value or 0) <= SURE:
            match = element("p", "resembles ", element("strong", motif.match), q)
        else:
            match = element("p", "resembles none of the database; closest ", motif.match, q, class_="muted")
    gains = sorted(
        (
            each
            for each in results.treatments
            if each.motif == motif.name
            and each.ratio is not None
            and each.ratio > 1
            and (each.q_value is None or each.q_value <= SURE)
        ),
        key=lambda each: (-(each.ratio or 0), each.treatment),
    )
    named = join((join([element("b", each.treatment), f" ×{each.ratio:.2f}"]) for each in gains[:3]), ", ")
    return element(
        "article",
        element("h3", motif.name),
        logo(motif.probabilities, f"Logo of {motif.name}: {motif.consensus}")
        if motif.probabilities is not None
        else element("p", element("code", motif.consensus)),
        element("p", ", ".join(facts), class_="muted"),
        match,
        element("p", "gains attention in ", named, f" and {len(gains) - 3} more" if len(gains) > 3 else None)
        if gains
        else None,
        class_="card",
    )


def _treatment_motifs(results: MotifResults) -> Markup | None:
    if not results.treatments:
        return None
    shown = {motif.name for motif in results.motifs}
    by_treatment: dict[str, list[Markup]] = {}
    for each in sorted(results.treatments, key=lambda entry: -(entry.ratio or 0.0)):
        cells = by_treatment.setdefault(each.treatment, [])
        if each.motif not in shown or each.ratio is None or len(cells) >= 6:
            continue
        sure = each.q_value is not None and each.q_value <= SURE
        cells.append(
            element(
                "span",
                f"{each.motif} ×{each.ratio:.2f}",
                class_="chip sure" if sure else "chip",
                title=f"against {each.reference or 'its reference'}"
                + ("" if each.q_value is None else f", q = {each.q_value:.2g}"),
            )
        )
    rows = [
        row(name, element("td", join(by_treatment[name], " "), class_="words"))
        for name in dict.fromkeys(each.treatment for each in results.treatments)
    ]
    references = sorted({each.reference for each in results.treatments if each.reference})
    return details(
        f"Treatment by treatment ({counted(len(rows), 'treatment')})",
        note(
            "Share of attention on a motif, relative to the reference"
            + (f" ({', '.join(references[:3])}{', …' if len(references) > 3 else ''})" if references else "")
            + "; framed where q ≤ 0.05."
        ),
        table(rows, tall=True),
        opened=len(rows) <= 12,
    )
