"""HTML and SVG as text, with everything that is not markup escaped: names in the data are never trusted."""

import html
import json
import re
from collections.abc import Iterable
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
