"""The contact dataset: alignments and the structures of their columns in one HDF5 file, enough to train from.

The schema is written down in `docs/formats/contact-dataset.md`. Proteins are written and read one at a time, so a
dataset may be larger than memory.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.alignments.alphabet import GAP, UNKNOWN, msa_codes
from bioattn.alignments.input_features import EncodedAlignment, column_profile
from bioattn.choices import SPLIT_NAMES, TRAIN
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import looks_like_nucleotides
from bioattn.formats.alignment_file import find_parser, parse_psicov, parse_records, read_alignment
from bioattn.io.dataset_file import DatasetArrays, DatasetKind, put_metadata
from bioattn.io.files import read_json
from bioattn.io.hdf5 import damage_named, hdf5_file, put_array
from bioattn.text import quoted, some

CONTACT_DATASET = DatasetKind(
    name="contact dataset", format="bioattn-contact-dataset", version=2, command="bioattn prepare contacts"
)
_FOLDER = "alignments/{:06d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContactProtein:
    """One alignment and the coordinates of its columns; S rows, R match columns."""

    id: str
    group: str
    """Family; proteins of one group must not be parted by a split."""
    split: int
    """TRAIN, VALIDATION or TEST."""
    chain: str
    """Author's chain id in the structure, `_` = blank."""
    msa: NDArray[np.uint8]
    """(S, R): 0..21 (`bioattn.alignments.alphabet`), no row twice, the file's first row first."""
    deletions: csr_array
    """(S, R) int32, sparse: letters inserted before each column."""
    aatype: NDArray[np.int32]
    """(R,): the first row, 0..20; unknown where it has a gap."""
    cb: NDArray[np.float32]
    """(R, 3) ångström: CB, CA of glycine; NaN where the structure has no residue for the column."""
    residue_numbers: list[str]
    """(R,): author's residue number with its insertion code (`184A`), "" where there is no residue."""

    @property
    def num_rows(self) -> int:
        """S."""
        return int(self.msa.shape[0])

    @property
    def num_columns(self) -> int:
        """R."""
        return int(self.msa.shape[1])

    @property
    def mapped(self) -> NDArray[np.bool_]:
        """(R,): columns with a residue in the structure."""
        present: NDArray[np.bool_] = ~np.isnan(self.cb.sum(axis=1))
        return present

    def encoded(self) -> EncodedAlignment:
        """The alignment as `sample_input_features` takes it."""
        return EncodedAlignment(
            aatype=self.aatype, msa=self.msa, deletions=self.deletions, profile=column_profile(self.msa)
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ContactDataset:
    """An opened dataset: the table of all P proteins, and a way to read one. Made by `open_contact_dataset`.

    ids: unique names. splits: (P,), TRAIN, VALIDATION or TEST. num_rows, num_columns, num_mapped: (P,), S and R of
    each, and its columns with a residue in the structure. metadata: settings the dataset was made with, as JSON.
    """

    path: Path
    ids: list[str]
    groups: list[str]
    splits: NDArray[np.uint8]
    chains: list[str]
    num_rows: NDArray[np.int64]
    num_columns: NDArray[np.int64]
    num_mapped: NDArray[np.int64]
    metadata: dict[str, Any]

    def __repr__(self) -> str:
        return f"<{len(self):,} proteins with alignments and contacts: {quoted(self.ids)}>"

    def __len__(self) -> int:
        return len(self.ids)

    def index(self, protein_id: str) -> int:
        """Index of a protein. Raises: BioattnError when there is none of that name."""
        if protein_id not in self.ids:
            raise BioattnError(f"{self.path}: has no protein {protein_id!r}; it has {quoted(self.ids)}")
        return self.ids.index(protein_id)

    def proteins_in(self, split: int) -> NDArray[np.int64]:
        """Indices of the proteins on one side of the split (TRAIN, VALIDATION or TEST)."""
        return np.flatnonzero(self.splits == split)

    def protein(self, index: int) -> ContactProtein:
        """Read one protein.

        Raises: FormatError naming the array that is missing or of another type, or the protein of impossible
        content.
        """
        with damage_named(self.path), h5py.File(self.path, "r") as file:
            arrays, folder = DatasetArrays(self.path, file), _FOLDER.format(index)
            msa = arrays.get(f"{folder}/residues", "u1")
            shape = (int(self.num_rows[index]), int(self.num_columns[index]))
            if msa.shape != shape:
                raise FormatError(
                    f"{self.path}: /{folder}/residues has shape {msa.shape}, the table says {shape}"
                )
            places = arrays.get(f"{folder}/deletions", "i4")
            protein = ContactProtein(
                id=self.ids[index],
                group=self.groups[index],
                split=int(self.splits[index]),
                chain=self.chains[index],
                msa=msa,
                deletions=csr_array((places[:, 2], (places[:, 0], places[:, 1])), shape=shape),
                aatype=arrays.get(f"{folder}/aatype", "u1").astype(np.int32),
                cb=arrays.get(f"{folder}/cb", "f4"),
                residue_numbers=arrays.text(f"{folder}/residue_number"),
            )
        if problem := _protein_problem(protein):
            raise FormatError(f"{self.path}: protein {protein.id!r}: {problem}; make the dataset again")
        return protein


def open_contact_dataset(path: Path) -> ContactDataset:
    """Open a dataset and read the table of its proteins.

    Raises: FormatError naming what is wrong: not a contact dataset, another version, truncated, edited, or the
    array that changed after it was written.
    """
    with CONTACT_DATASET.open(path) as arrays:
        dataset = ContactDataset(
            path=path,
            ids=arrays.text("proteins/id"),
            groups=arrays.text("proteins/group"),
            splits=arrays.get("proteins/split", "u1"),
            chains=arrays.text("proteins/chain"),
            num_rows=arrays.get("proteins/num_rows", "i8"),
            num_columns=arrays.get("proteins/num_columns", "i8"),
            num_mapped=arrays.get("proteins/num_mapped", "i8"),
            metadata=arrays.metadata(),
        )
    if parted := split_groups(dataset.groups, dataset.splits):
        raise FormatError(f"{path}: the split parts groups: {quoted(parted)}; make the dataset again")
    return dataset


def write_contact_dataset(path: Path, proteins: Iterable[ContactProtein], metadata: dict[str, Any]) -> int:
    """Write proteins as they come, one in memory at a time; the same proteins give the same bytes.

    metadata may be filled while the proteins are made: it is written last. Returns how many were written.

    Raises: BioattnError when there is no protein, an id comes twice or the file cannot be written; then nothing is
    left.
    """
    texts: dict[str, tuple[str, str]] = {}
    numbers: list[tuple[int, int, int, int]] = []
    with hdf5_file(path) as file:
        for protein in proteins:
            problem = _protein_problem(protein)
            if problem is None and protein.id in texts:
                problem = "the id comes twice"
            if problem is not None:
                raise BioattnError(f"contact dataset: protein {protein.id!r}: {problem}")
            folder, sparse = _FOLDER.format(len(texts)), protein.deletions.tocoo()
            places = np.stack([sparse.row, sparse.col, sparse.data], axis=1).astype("<i4")
            put_array(file, f"{folder}/residues", protein.msa)
            put_array(file, f"{folder}/deletions", places[np.lexsort((places[:, 1], places[:, 0]))])
            put_array(file, f"{folder}/aatype", protein.aatype.astype(np.uint8))
            put_array(file, f"{folder}/cb", protein.cb.astype("<f4"))
            put_array(file, f"{folder}/residue_number", protein.residue_numbers)
            texts[protein.id] = protein.group, protein.chain
            numbers.append((protein.split, len(protein.msa), protein.num_columns, int(protein.mapped.sum())))
        if not texts:
            raise BioattnError(f"{path}: there is no protein to write")
        put_array(file, "proteins/id", list(texts))
        put_array(file, "proteins/group", [group for group, _ in texts.values()])
        table = np.array(numbers, "<i8")
        put_array(file, "proteins/split", table[:, 0].astype(np.uint8))
        put_array(file, "proteins/chain", [chain for _, chain in texts.values()])
        for column, name in enumerate(("num_rows", "num_columns", "num_mapped"), start=1):
            put_array(file, f"proteins/{name}", np.ascontiguousarray(table[:, column]))
        put_metadata(file, metadata)
        CONTACT_DATASET.write_attributes(file)
    return len(texts)


def validate_contact_dataset(path: Path) -> list[str]:
    """Read every array of a contact dataset. Returns the problems, a sentence each; empty when it is valid."""
    try:
        dataset = open_contact_dataset(path)
    except BioattnError as error:
        return [str(error)]
    findings = []
    for index in range(len(dataset)):
        try:
            dataset.protein(index)
        except BioattnError as error:
            findings.append(str(error))
    if not len(dataset.proteins_in(TRAIN)):
        findings.append(f"{path}: no protein is in the training split")
    return findings


def split_groups(groups: Iterable[str], splits: Iterable[int]) -> list[str]:
    """List the groups whose proteins stand on more than one side of the split."""
    sides: dict[str, set[int]] = {}
    for group, split in zip(groups, splits, strict=True):
        sides.setdefault(group, set()).add(int(split))
    return [group for group, found in sides.items() if len(found) > 1]


def _protein_problem(protein: ContactProtein) -> str | None:
    """What a protein holds that none may hold, in words; None when it is good."""
    columns = protein.num_columns
    if protein.msa.max(initial=0) > GAP:
        return f"residue codes reach {protein.msa.max()}, 0 to {GAP} are defined"
    if protein.aatype.shape != (columns,) or not 0 <= protein.aatype.min() <= protein.aatype.max() <= UNKNOWN:
        return f"aatype must be {columns} codes of 0 to {UNKNOWN}"
    if protein.cb.shape != (columns, 3) or len(protein.residue_numbers) != columns:
        return f"coordinates and residue numbers must be given for {columns} columns"
    return None if protein.mapped.any() else "no column has a residue in the structure"


_NUCLEOTIDES = b"ACGTUNRYSWKMBDHV"
_FOREIGN_PART = 0.1
"""DNA with a larger part of letters that mean no nucleotide is taken for protein."""
_STATISTICS = ("query", "depth", "columns", "neff", "median_query_identity", "warnings")


def looks_like_alignment(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a protein alignment, and not of promoters."""
    try:
        parser = find_parser("", head) if head.strip() else parse_psicov
    except FormatError:
        return False
    if parser is not parse_records:
        return parser is not parse_psicov  # any words are
    letters = b"".join(line for line in head.upper().splitlines() if not line.startswith((b">", b"#", b";")))
    letters = bytes(letter for letter in letters if ord("A") <= letter <= ord("Z"))
    return len(letters.translate(None, _NUCLEOTIDES)) > _FOREIGN_PART * len(letters)


def describe_alignment(path: Path) -> dict[str, Any]:
    """Size and gaps of an alignment, its first row. Raises: FormatError as `read_alignment`."""
    alignment = read_alignment(path)
    residues = int((msa_codes(alignment.residues) < UNKNOWN).sum())
    return {
        "rows": alignment.num_rows,
        "columns": alignment.num_columns,
        "letters": "DNA or RNA (models read proteins)" if looks_like_nucleotides(alignment) else "protein",
        "first_row": alignment.names[0],
        "gaps": f"{100 * (1 - residues / alignment.residues.size):.3g} %",
        "inserted_letters": sum(len(text) for row in alignment.insertions for text in row.values()),
    }


def describe_statistics(path: Path) -> dict[str, Any]:
    """The main entries of a statistics file. Raises: FormatError when they are not there."""
    content = read_json(path)
    missing = [name for name in _STATISTICS if name not in content]
    if missing:
        raise FormatError(f"{path}: statistics of an alignment without {', '.join(missing)}")
    return {name: content[name] for name in _STATISTICS}


def describe_contact_dataset(path: Path) -> dict[str, Any]:
    """The main figures of a contact dataset. Raises: FormatError when it is damaged."""
    dataset = open_contact_dataset(path)
    return {
        "proteins": some(dataset.ids),
        "groups": len(set(dataset.groups)),
        "proteins_per_split": {name: len(dataset.proteins_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        "rows": {"fewest": int(dataset.num_rows.min()), "most": int(dataset.num_rows.max())},
        "columns": {"fewest": int(dataset.num_columns.min()), "most": int(dataset.num_columns.max())},
        "mapped_columns": int(dataset.num_mapped.sum()),
        "settings": dataset.metadata,
    }
