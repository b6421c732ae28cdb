"""How numbers and names read in messages."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

MIN_HEADING = 12
"""Letters in a line of a heading that is longer than its column."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 and C1 but for tab and line feed, line separators, and what changes the direction of text."""
_LONG_WORD = re.compile(r"\S{1001,}")


def printable(text: str) -> str:
    """Text whose control characters and reading directions a terminal cannot obey: `\\x1b` for an escape.

    Names in files are anybody's: they must not clear a screen, fake a line or turn letters around. Line breaks and
    tabs stay.

    >>> printable("gene\\x1b[2J\\u202ekrad")
    'gene\\\\x1b[2J\\\\u202ekrad'
    """
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def shortened(text: str) -> str:
    """A message without the middle of words of more than 1,000 letters, and of all beyond 4,000.

    Names in files are anybody's, and damage makes names of a megabyte.

    >>> shortened("gene " + "x" * 5000 + "y occurs twice")
    'gene xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…xxxxxxxxxy occurs twice'
    """
    text = _LONG_WORD.sub(lambda found: f"{found[0][:50]}…{found[0][-10:]}", text)
    return text if len(text) <= 4000 else f"{text[:3000]} … {text[-900:]}"


def human_bytes(number: int) -> str:
    """A size for people, in powers of 1000, as disks are sold.

    >>> human_bytes(999), human_bytes(1_234_567)
    ('999 bytes', '1.23 MB')
    """
    size = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def table_text(rows: Sequence[Sequence[str]], aligned: bool) -> str:
    """Lines of a table below its headings: separated by tabs, or in columns, the first one to the left and the
    others to the right, where long headings take several lines.

    >>> table_text([["", "r"], ["heat", "0.8"]], aligned=False)
    '\\tr\\nheat\\t0.8'
    >>> print(table_text([["", "median r", "n"], ["heat", "0.8", "12"]], aligned=True))
          median r   n
    heat       0.8  12
    """
    if not aligned:
        return "\n".join("\t".join(row) for row in rows)
    headings, *body = rows
    wrapped = [
        textwrap.wrap(heading, max(MIN_HEADING, *(len(row[column]) for row in body)), break_long_words=False)
        or [""]
        for column, heading in enumerate(headings)
    ]
    height = max(len(lines) for lines in wrapped)
    columns = [[""] * (height - len(lines)) + lines for lines in wrapped]
    columns = [[*lines, *(row[number] for row in body)] for number, lines in enumerate(columns)]
    padded = []
    for number, cells in enumerate(columns):
        width = max(len(cell) for cell in cells)
        padded.append([cell.rjust(width) if number else cell.ljust(width) for cell in cells])
    return "\n".join("  ".join(cells).rstrip() for cells in zip(*padded, strict=True))


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> [duration(seconds) for seconds in (0.25, 14.4, 59.7, 189, 7500)]
    ['0.2 s', '14 s', '1 min', '3 min 9 s', '2 h 5 min']
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    parts = [(minutes, "min"), (rest, "s")]
    if minutes >= 60:
        parts = [(minutes // 60, "h"), (minutes % 60, "min")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number)


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural takes an s.

    >>> counted(1, "gene"), counted(2345, "gene"), counted(2, "family"), counted(2, "array")
    ('1 gene', '2,345 genes', '2 families', '2 arrays')
    """
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeou" else f"{noun}s"
    return f"{number:,} {noun}"


def percentage(share: float, decimals: int = 0) -> str:
    """A share with a space before its sign, as the SI writes it.

    >>> percentage(0.9), percentage(0.00042, 1)
    ('90 %', '0.0 %')
    """
    return f"{100 * share:.{decimals}f} %"


def some(names: Sequence[str], limit: int = 8) -> list[str] | dict[str, Any]:
    """All names as JSON shows them, or how many and the first ones.

    >>> some("abc"), some("abc", 2)
    (['a', 'b', 'c'], {'count': 3, 'first': ['a', 'b']})
    """
    return list(names) if len(names) <= limit else {"count": len(names), "first": list(names[:limit])}


def listed(names: Sequence[str], limit: int = 5) -> str:
    """The first names, and how many more there are.

    >>> listed(["a", "b", "c"], limit=2), listed(["a", "b"])
    ('a, b and 1 more', 'a, b')
    """
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit:,} more"


def quoted(names: Sequence[str], limit: int = 5) -> str:
    """The first names in quotes, and how many more there are.

    >>> quoted(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    return listed([repr(str(name)) for name in names], limit)


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first row is the header.

    >>> markdown_table([["a", "b"], ["1", "2"]])
    ['| a | b |', '| --- | --- |', '| 1 | 2 |']
    """
    header, *body = rows
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *body)]
