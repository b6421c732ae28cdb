"""The sections that open and close a page, and the place for the pages of proteins."""

from bioattn.report.collection import Report
from bioattn.report.markup import Markup, element
from bioattn.report.section import SIGN_WORDS, SIGNS, Section, figure_text, note, section, table
from bioattn.store.kinds import ResultTable
from bioattn.text import counted


def summary_section(report: Report) -> Section:
    """What was asked and found."""
    asked = (
        element("ul", *(element("li", text) for text in report.asked), class_="asked")
        if report.asked
        else None
    )
    found = [
        element(
            "li",
            element("span", SIGNS[each.tone], class_="sign", role="img", aria_label=SIGN_WORDS[each.tone]),
            element("div", element("strong", each.topic), element("p", each.text)),
            class_=f"finding {each.tone}",
        )
        for each in report.found
    ]
    return section(
        "summary",
        "In short",
        element("h3", "What was asked") if asked is not None else None,
        asked,
        element("h3", "What was found"),
        element("ul", *found, class_="findings")
        if found
        else element("p", "The inputs given hold no results to speak of.", class_="muted"),
    )


def alignments_section(report: Report) -> Section | None:
    """A place for the pages of alignments."""
    if not report.pages:
        return None
    left = ""
    if report.left_out:
        shown = ", ".join(report.left_out[:10]) + (", …" if len(report.left_out) > 10 else "")
        left = f" {counted(len(report.left_out), 'protein')} without a page: {shown}."
    maps = sum(len(page.heads) for page in report.pages)
    of_all = sum(page.num_heads for page in report.pages)
    kept = (
        ""
        if maps == of_all
        else f" {maps:,} of {of_all:,} attention maps are in this page, those that say most of contacts."
    )
    return section(
        "proteins",
        "Proteins: contacts, alignment, attention",
        note(
            "Point at a pair in any map, or move with the arrow keys: its two columns are marked in the alignment "
            f"and the same pair in every other map.{kept}{left}"
        ),
        element("div", id="alignment-browser", class_="app"),
        element("noscript", element("p", "The maps need JavaScript.")),
    )


def table_sections(report: Report) -> list[Section]:
    """A section for each result of which the page has a table."""
    return [
        section(f"result-{number}", each.title, _result_table(each))
        for number, each in enumerate(report.tables, start=1)
        if each.rows
    ]


def _result_table(result: ResultTable) -> Markup:
    rows = [element("tr", *(element("td", _cell(value)) for value in row)) for row in result.rows]
    return table(rows, result.columns, label=result.title)


def _cell(value: str | int | float | None) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else figure_text(value)


def inputs_section(report: Report) -> Section:
    """Of what the page was made."""
    rows = [
        element(
            "tr",
            element("th", source.name, scope="row"),
            element("td", source.kind, class_="words"),
            element(
                "td", "; ".join(f"{name} {value}" for name, value in source.figures), class_="words muted"
            ),
        )
        for source in report.sources
    ]
    settings = "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.settings.items())
    return section(
        "inputs",
        "Made from",
        table(rows),
        element("p", element("strong", "Model: "), settings, class_="muted") if settings else None,
        note(
            "This page is one file: it loads nothing, sends nothing, and the same inputs give the same bytes. "
            "Attention is drawn in steps of 1/63 of a row's largest weight; the attention file has exact values."
        ),
    )
