"""What sections of a page are made of."""

from collections.abc import Iterable
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


def table(
    rows: Iterable[Child],
    names: Iterable[str] = (),
    *,
    label: str | None = None,
    class_: str | None = None,
    tall: bool = False,
) -> Markup:
    """A table that scrolls by itself: rows of cells below the names of its columns; label: for screen readers."""
    head = [element("th", name) for name in names]
    return element(
        "div",
        element(
            "table",
            element("thead", element("tr", *head)) if head else None,
            element("tbody", *rows),
            class_=class_,
        ),
        class_="scroll tall" if tall else "scroll",
        tabindex=0,
        role=None if label is None else "region",
        aria_label=label,
    )


def figure_text(value: float | None) -> str:
    """A figure of a table; a dash where it could not be computed."""
    return "–" if value is None else f"{value:.3f}"
