"""Promoter sequences as FASTA: the id is the gene id, the description says where the window lies.

`>YAL068C BK006935.2:1969-2969(-) flank=10 downstream=200 name=PAU8`: the window is 0-based and half-open, counted
along the chromosome and WITHOUT the flanks; the sequence runs 5'->3' in the direction of the gene and has `flank`
more bases on both sides. Position 0 of the gene is the first of the window's last `downstream` bases. Every word
after the id can be left out. A window padded beyond a chromosome's end keeps its full extent, so its start can be
negative.
"""

import re
import string
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.fasta import format_record, read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.io.files import text_output

_LOCATION = re.compile(r"(?P<chrom>\S+):(?P<start>-?\d{1,15})-(?P<end>-?\d{1,15})\((?P<strand>[-+.])\)")
_BASES = re.compile(r"(flank|downstream)=(\d{1,15})")
_SAFE = "".join(set(string.punctuation) - {"%"})
_WORDS = re.compile(r"(unit|name)=(\S+)")


class Promoter(NamedTuple):
    """One promoter window and its sequence; what the FASTA does not give is "", `.`, -1 or None."""

    gene_id: str
    chrom: str
    start: int
    """0-based along the chromosome, half-open, without flanks."""
    end: int
    strand: str
    flank: int
    """Extra bases on each side of the window in `codes`."""
    codes: NDArray[np.uint8]
    """Sequence codes 5'->3' in the direction of the gene, shape (length + 2 * flank,)."""
    downstream: int | None = None
    """Bases of the window from position 0 of the gene on."""
    unit: str = ""
    name: str = ""


def read_promoters(path: Path) -> Iterator[Promoter]:
    """Yield the promoters of a FASTA file one at a time (plain, gzip, bgzip or xz).

    FASTA of any origin is accepted: without a location, chrom is "", start and end are -1 and strand is ".".
    """
    for record in read_fasta(path):
        if not record.sequence:
            raise FormatError(f"{path}:{record.line}: record {record.name!r} has no sequence")
        where = f"{path}:{record.line}: record {record.name!r}"
        yield described_promoter(record.name, record.description, encode(record.sequence, where), where)


def described_promoter(gene_id: str, description: str, codes: NDArray[np.uint8], where: str) -> Promoter:
    """The promoter that an id, a description and a sequence of FASTA tell of. where: for messages."""
    words = description.split()
    location = _LOCATION.fullmatch(words[0]) if words else None
    more = {match[1]: unquote(match[2]) for match in map(_WORDS.fullmatch, words) if match}
    unit, name = more.get("unit", ""), more.get("name", "")
    said = {match[1]: int(match[2]) for match in map(_BASES.fullmatch, reversed(words)) if match}
    flank, downstream = said.get("flank", 0), said.get("downstream")
    length = codes.size - 2 * flank
    if location is None:
        place = ("", -1, -1, ".")
    else:
        start, end = int(location["start"]), int(location["end"])
        place = (location["chrom"], start, end, location["strand"])
        if end - start != length:
            raise FormatError(
                f"{where} has {codes.size:,} bases but its location "
                f"{words[0]} with flank {flank} has {end - start + 2 * flank:,}"
            )
    if length < max(1, downstream or 0):
        raise FormatError(
            f"{where} has a window of {length:,} bases and {downstream or 0:,} of them downstream"
        )
    return Promoter(gene_id, *place, flank, codes, downstream, unit, name)


def write_promoters(path: Path, promoters: Iterable[Promoter]) -> None:
    """Write promoters whole or not at all; a `.gz` name gives gzip."""
    with text_output(path) as file:
        for promoter in promoters:
            file.write(format_promoter(promoter))


def format_promoter(promoter: Promoter) -> str:
    """The FASTA text of one promoter."""
    description = ""
    if promoter.chrom:
        description = f"{promoter.chrom}:{promoter.start}-{promoter.end}({promoter.strand})"
        if promoter.flank:
            description += f" flank={promoter.flank}"
        if promoter.downstream is not None:
            description += f" downstream={promoter.downstream}"
        if promoter.unit:
            description += f" unit={quote(promoter.unit, safe=_SAFE)}"
        if promoter.name:
            description += f" name={quote(promoter.name, safe=_SAFE)}"
    return format_record(promoter.gene_id, description, decode(promoter.codes))


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
