"""From a report to one HTML file: sections of markup, the style sheet and the scripts, and a policy that lets the
browser run these and load nothing."""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from string import Template

from bioattn import __version__
from bioattn.io.files import text_output
from bioattn.report.collection import Report
from bioattn.report.markup import Markup, data_block, element, escape, join
from bioattn.report.payload import page_data
from bioattn.report.promoter_sections import motifs_section, promoters_section, similarity_section
from bioattn.report.sections import (
    accuracy_section,
    alignments_section,
    check_section,
    inputs_section,
    summary_section,
    table_sections,
    training_section,
)

SCRIPTS = ("core.js", "tracks.js", "promoters.js", "similarity.js", "alignments.js")
"""In the order in which they are run, as one."""


def write_page(path: Path, report: Report) -> None:
    """Write the page whole or not at all. Raises: BioattnError when the file cannot be written."""
    text = render_page(report)
    with text_output(path) as file:
        file.write(text)


def render_page(report: Report) -> str:
    """The page: the same report gives the same text."""
    sections = [
        summary_section(report),
        promoters_section(report),
        alignments_section(report),
        check_section(report),
        accuracy_section(report),
        similarity_section(report),
        motifs_section(report),
        *table_sections(report),
        training_section(report),
        inputs_section(report),
    ]
    shown = [section for section in sections if section is not None]
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
        data=data_block("report-data", page_data(report)),
    )


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, sent or embedded; of styles and scripts those with these digests alone are used."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_digest(script)}",
            f"style-src {_digest(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _resource(name: str) -> Markup:
    """A file of `templates/`."""
    return Markup((files("bioattn.report") / "templates" / name).read_text(encoding="utf-8"))
