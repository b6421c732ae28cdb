"""How numbers and names read in messages."""

from collections.abc import Sequence


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


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural takes an s.

    >>> counted(1, "gene"), counted(2345, "gene")
    ('1 gene', '2,345 genes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quoted(names: Sequence[str], limit: int = 5) -> str:
    """The first names in quotes, and how many more there are.

    >>> quoted(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit:,} more"
