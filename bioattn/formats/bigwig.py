"""Signal along chromosomes as bigWig: the same intervals as bedGraph, indexed, with summaries for zooming out.

The work is pybigtools', the optional dependency of the extra `genomics`.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError
from bioattn.files import atomic_output
from bioattn.formats.bedgraph import Intervals, checked_intervals


def has_bigwig() -> bool:
    """Whether bigWig can be written here."""
    try:
        require_bigwig("")
    except BioattnError:
        return False
    return True


def require_bigwig(what: str) -> Any:
    """The library that writes bigWig. what: who needs it, for the message. Raises: BioattnError without it."""
    try:
        import pybigtools
    except ImportError as error:
        raise BioattnError(
            f"{what} needs pybigtools, which is not installed: pip install 'bioattn[genomics]', or pip install "
            "pybigtools"
        ) from error
    return pybigtools


def write_bigwig(path: Path, lengths: Mapping[str, int], blocks: Iterable[Intervals]) -> int:
    """Write the intervals and return how many bases they cover; the file appears when it is complete.

    lengths: of the chromosomes. blocks: intervals in ascending order, all of a chromosome together; what the
    iterable raises leaves no file.

    Raises: BioattnError when pybigtools is missing or could not write; ValueError as `checked_intervals`, and for
    intervals beyond their chromosome or none at all.
    """
    library = require_bigwig("bigWig")
    source = _Source(checked_intervals(blocks), lengths)
    with atomic_output(path) as temporary:
        library.open(str(temporary), "w").write(dict(lengths), source.rows())
        # pybigtools prints what goes wrong, in it or in the iterable, and returns as if nothing had.
        if source.failure is not None:
            raise source.failure
        if not source.bases:
            raise ValueError(f"{path}: there is no interval to write")
        try:
            covered = library.open(str(temporary)).info()["summary"]["basesCovered"]
        except library.BBIReadError:
            covered = None
        if covered != source.bases:
            raise BioattnError(f"{path}: the bigWig could not be written whole; is the disk full?")
    return source.bases


class _Source:
    """The rows that pybigtools asks for; an error ends them and is kept."""

    def __init__(self, blocks: Iterator[Intervals], lengths: Mapping[str, int]) -> None:
        self._blocks = blocks
        self._lengths = lengths
        self.bases = 0
        self.failure: BaseException | None = None

    def rows(self) -> Iterator[tuple[str, int, int, float]]:
        """(chromosome, start, end, value) one at a time."""
        try:
            for block in self._blocks:
                if block.ends[-1] > self._lengths.get(block.chrom, 0):
                    raise ValueError(
                        f"{block.chrom}:{block.ends[-1]} lies beyond the chromosome's end at "
                        f"{self._lengths.get(block.chrom, 0)}"
                    )
                self.bases += int((block.ends - block.starts).sum())
                chrom = block.chrom
                for start, end, value in zip(
                    block.starts.tolist(), block.ends.tolist(), block.values.tolist(), strict=True
                ):
                    yield chrom, start, end, value
        except BaseException as error:  # noqa: BLE001 - raised again by `write_bigwig`
            self.failure = error
