"""Clustal alignments of any program, with or without consensus lines and counts."""

import re

from bioattn.errors import FormatError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_blocks import BlockLine, join_blocks
from bioattn.formats.alignment_rows import read_columns

HEADER = re.compile(
    rb"(CLUSTAL|MUSCLE|PROBCONS|MSAPROBS|KALIGN)\b|.*multiple sequence alignment", re.IGNORECASE
)
_CONSENSUS = b" \t*:."


def parse_clustal(source: str, data: bytes) -> Alignment:
    """Read a Clustal file: a header line, then blocks of `name letters [count]`.

    Consensus lines and counts are passed over.

    Raises: FormatError naming the line for a missing header, a line that is neither row nor consensus, blocks
    that do not fit and rows that do not fit each other.
    """
    blocks: list[list[BlockLine]] = [[]]
    started = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not started:
            started = bool(HEADER.match(line))
            if line.strip() and not started:
                raise FormatError(
                    f"{source}:{number}: a Clustal file starts with a line such as 'CLUSTAL W (1.83)'"
                )
        elif line[:1] in b" \t" and not line.translate(None, _CONSENSUS):
            if not line.strip() and blocks[-1]:
                blocks.append([])
        else:
            words = line.decode("utf-8").split()
            if len(words) not in (2, 3) or (len(words) == 3 and not words[2].isdecimal()):
                raise FormatError(
                    f"{source}:{number}: a Clustal row is 'name letters' and perhaps a count, the line is "
                    f"{line.decode('utf-8').strip()[:60]!r}"
                )
            blocks[-1].append(BlockLine(number, words[0], words[1].encode("utf-8")))
    raw, _ = join_blocks(source, [block for block in blocks if block])
    return read_columns(raw)
