"""The sequence dataset: letters of all records and the segments of each side of the split, in one HDF5 file.

The schema is written down in `docs/formats/other-datasets.md`. Letters
are one array that is mapped into memory, so that a dataset may be larger than memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES
from bioattn.io.dataset_file import DatasetKind, put_metadata
from bioattn.io.hdf5 import hdf5_file, put_array
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import Vocabulary

SEQUENCE_DATASET = DatasetKind(
    name="sequence dataset", format="bioattn-sequence-dataset", version=1, command="bioattn prepare language"
)


@dataclass(frozen=True, slots=True)
class Segments:
    """Parts of records, S of them; 0-based and half-open."""

    record: NDArray[np.int64]
    """Numbers of the records."""
    start: NDArray[np.int64]
    """First letter, from the start of the record."""
    end: NDArray[np.int64]
    split: NDArray[np.uint8]
    """TRAIN, VALIDATION or TEST."""


@dataclass(frozen=True, slots=True, eq=False)
class SequenceDataset:
    path: Path
    vocabulary: Vocabulary
    ids: list[str]
    """R unique names of records."""
    offsets: NDArray[np.int64]
    """(R + 1,): record i is `codes[offsets[i]:offsets[i + 1]]`."""
    codes: NDArray[np.uint8]
    """All letters (`Vocabulary.encode`), mapped into memory."""
    segments: Segments
    metadata: dict[str, Any]
    """What made the dataset; JSON types only."""

    def segments_in(self, split: int) -> NDArray[np.int64]:
        """Numbers of the segments on one side of the split."""
        return np.flatnonzero(self.segments.split == split)

    def segment(self, number: int) -> NDArray[np.uint8]:
        first = self.offsets[self.segments.record[number]]
        return self.codes[first + self.segments.start[number] : first + self.segments.end[number]]

    def record(self, number: int) -> NDArray[np.uint8]:
        return self.codes[self.offsets[number] : self.offsets[number + 1]]

    def letters_in(self, split: int) -> int:
        chosen = self.segments.split == split
        return int((self.segments.end - self.segments.start)[chosen].sum())


def write_sequence_dataset(
    path: Path,
    vocabulary: Vocabulary,
    ids: Sequence[str],
    codes: Sequence[NDArray[np.uint8]],
    segments: Segments,
    metadata: dict[str, Any],
) -> None:
    """Write the letters of records; the same input gives the same bytes."""
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in codes], dtype=np.int64)]).astype("<i8")
    with hdf5_file(path) as file:
        put_array(file, "records/id", list(ids))
        put_array(file, "records/offset", offsets)
        # Neither chunks nor compression: the bytes are mapped into memory as they lie.
        file.create_dataset("letters/codes", data=np.concatenate(codes), track_times=False)
        for name in ("record", "start", "end"):
            put_array(file, f"segments/{name}", getattr(segments, name).astype("<i8"))
        put_array(file, "segments/split", segments.split)
        put_metadata(file, metadata)
        SEQUENCE_DATASET.write_attributes(file, alphabet=str(vocabulary.alphabet), kmer=vocabulary.kmer)


def open_sequence_dataset(path: Path) -> SequenceDataset:
    """Open a dataset and read all but the letters."""
    with SEQUENCE_DATASET.open(path) as arrays:
        node, attributes = arrays.file["letters/codes"], arrays.attributes
        return SequenceDataset(
            path=path,
            vocabulary=Vocabulary(Alphabet(attributes["alphabet"]), int(attributes["kmer"])),
            ids=arrays.text("records/id"),
            offsets=arrays.get("records/offset", "i8"),
            codes=np.memmap(path, np.uint8, "r", offset=node.id.get_offset(), shape=node.shape),
            segments=Segments(
                record=arrays.get("segments/record", "i8"),
                start=arrays.get("segments/start", "i8"),
                end=arrays.get("segments/end", "i8"),
                split=arrays.get("segments/split", "u1"),
            ),
            metadata=arrays.metadata(),
        )


def describe_sequence_dataset(path: Path) -> dict[str, Any]:
    """The main figures for `bioattn inspect`. Raises: FormatError when it is damaged."""
    dataset = open_sequence_dataset(path)
    return {
        "alphabet": str(dataset.vocabulary.alphabet),
        "kmer": dataset.vocabulary.kmer,
        "tokens": len(dataset.vocabulary.tokens),
        "records": len(dataset.ids),
        "letters": len(dataset.codes),
        "letters_per_split": {name: dataset.letters_in(side) for side, name in enumerate(SPLIT_NAMES)},
        "leakage": dataset.metadata.get("leakage"),
    }
