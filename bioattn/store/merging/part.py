"""One part of a sharded run, and how parts of its kind are put together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

from bioattn.store.shard_record import ShardRecord
from bioattn.system.progress import Progress


@dataclass(frozen=True, slots=True)
class Part:
    """One part, opened and looked at."""

    path: Path
    kind: "MergeKind"
    record: ShardRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeTask:
    """Parts, all there and in order, and what is to be made of them."""

    parts: Sequence[Part]
    output: Path | TextIO
    """An open text file for kinds that are text alone."""
    force: bool
    """Whether an existing folder is replaced."""
    progress: Progress
    check: Callable[[], None]
    """To be called now and then; raises Interrupted when the user has asked to stop."""

    @property
    def path(self) -> Path:
        """The output of kinds that are not text."""
        assert isinstance(self.output, Path)
        return self.output


class Merged(NamedTuple):
    """What is in the whole."""

    inputs: int
    """Promoters or alignments in it."""
    failed: dict[str, str] = {}  # noqa: RUF012 - never written to
    """Inputs without a result by name, and why, where the parts say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeKind:
    """What can be in parts."""

    title: str
    """What a part holds, in words."""
    merge: Callable[[MergeTask], Merged] = field(compare=False)
    """Write the whole. Raises: FormatError naming a part that is damaged; BioattnError when the disk is full."""
    is_folder: bool = False
    is_text: bool = False
    """Whether the whole may go to standard output."""
