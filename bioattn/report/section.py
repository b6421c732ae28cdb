"""What sections of a page are made of."""

from dataclasses import dataclass

from bioattn.report.markup import Child, Markup, element

SIGNS = {"good": "✓", "bad": "✗", "open": "?", "plain": "•"}
SIGN_WORDS = {"good": "good", "bad": "bad", "open": "not known", "plain": "note"}


@dataclass(frozen=True, slots=True)
class Section:
    """One section."""

    identifier: str
    title: str
    markup: Markup


def section(identifier: str, title: str, *children: Child) -> Section:
    """A section under a heading that says its name to screen readers too."""
    markup = element(
        "section",
        element("h2", title, id=f"{identifier}-title"),
        *children,
        id=identifier,
        aria_labelledby=f"{identifier}-title",
    )
    return Section(identifier, title, markup)


def note(*children: Child) -> Markup:
    """A paragraph of small print."""
    return element("p", *children, class_="note")


def figure_text(value: float | None) -> str:
    """A figure of a table; a dash where it could not be computed."""
    return "–" if value is None else f"{value:.3f}"
