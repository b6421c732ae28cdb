"""What designs were asked for, as it stands in their FASTA descriptions."""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote


class DesignRequest(NamedTuple):
    """Treatments that a design is to respond to, those that it is not to, and what else was said."""

    on: tuple[str, ...]
    off: tuple[str, ...]
    said: dict[str, str]
    """By name: guidance, steps, seed, model."""

    def __str__(self) -> str:
        return " and ".join([*self.on, *(f"not {name}" for name in self.off)]) or "no treatment"


def describe_request(on: Sequence[str], off: Sequence[str], **said: object) -> str:
    """The description of a design: treatments with letters that FASTA keeps, then `name=value` each.

    >>> describe_request(["heat shock"], [], guidance=2.0, seed=1)
    'treatment=heat%20shock not= guidance=2.0 seed=1'
    """
    lists = {"treatment": on, "not": off}
    words = [f"{name}={','.join(quote(each, safe='') for each in names)}" for name, names in lists.items()]
    return " ".join([*words, *(f"{name}={value}" for name, value in said.items())])


def read_request(description: str) -> DesignRequest | None:
    """What `describe_request` wrote; None for another description.

    >>> read_request("treatment=heat%20shock not= seed=1")
    DesignRequest(on=('heat shock',), off=(), said={'seed': '1'})
    """
    words = dict(word.split("=", 1) for word in description.split() if "=" in word)
    if not {"treatment", "not"} <= words.keys():
        return None
    on, off = (
        tuple(unquote(each) for each in words.pop(name).split(",") if each) for name in ("treatment", "not")
    )
    return DesignRequest(on, off, words)
