"""HTML and SVG as text, with everything that is not markup escaped (names in the data are never trusted), and what
sections of a page are made of."""

import html
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_VOID = frozenset({"br", "img", "input", "link", "meta", "wbr"})
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*\Z")


class Markup(str):
    """Text that is markup already; only `element`, `join` and constants of ours make it."""

    __slots__ = ()


Child = Markup | str | int | None


def escape(text: object) -> Markup:
    """Text as it may stand between tags and inside quoted attributes; characters HTML forbids become U+FFFD."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_FORBIDDEN.sub("\ufffd", str(text))))


_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def join(children: Iterable[Child], between: str = "") -> Markup:
    """Several pieces after another; text among them is escaped."""
    return Markup(Markup(between).join(escape(child) for child in children if child is not None))


def element(tag: str, *children: Child, **attributes: Any) -> Markup:
    """`<tag attribute="…">children</tag>`; names may end in `_` (class_) and have `_` for `-`.

    An attribute of None or False is left out, True stands without a value. Raises: ValueError for names that are
    none and for event handlers, so that no text of the data can become either.

    >>> element("p", "a < b", class_="x")
    '<p class="x">a &lt; b</p>'
    """
    written = [tag]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")
        if not _NAME.match(name) or name.lower().startswith("on"):
            raise ValueError(f"{name!r} may not be an attribute")
        if value is None or value is False:
            continue
        written.append(name if value is True else f'{name}="{escape(value)}"')
    start = f"<{' '.join(written)}>"
    if tag in _VOID:
        return Markup(start)
    return Markup(f"{start}{join(children)}</{tag}>")


def data_block(identifier: str, content: Any) -> Markup:
    """JSON that scripts of the page read and browsers do not run; nothing in it can end the block."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


SIGNS = {"good": "✓", "bad": "✗", "open": "?", "plain": "•"}
SIGN_WORDS = {"good": "good", "bad": "bad", "open": "not known", "plain": "note"}


@dataclass(frozen=True, slots=True)
class Section:
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


def details(title: str, *children: Child, opened: bool = False) -> Markup:
    """A part that unfolds below its title."""
    return element("details", element("summary", title), *children, open=opened)


def row(name: str, *cells: Child, class_: str | None = None) -> Markup:
    """A row of a table under its name; a cell that is no `td` yet becomes one."""
    done = (
        each if str(each).startswith("<td") and isinstance(each, Markup) else element("td", each)
        for each in cells
    )
    return element("tr", element("th", name, scope="row"), *done, class_=class_)


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
