"""Writing the contact dataset (`bioattn.alignments.contact_dataset` reads it), one protein in memory at a time."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bioattn import __version__
from bioattn.alignments.contact_dataset import (
    CONTACT_DATASET_FORMAT,
    CONTACT_DATASET_VERSION,
    ContactProtein,
    attributes_digest,
    protein_folder,
    protein_problem,
)
from bioattn.errors import BioattnError
from bioattn.formats.checked_arrays import canonical_json, encode_text, put_array
from bioattn.io.seal import stream_sealed


def write_contact_dataset(path: Path, proteins: Iterable[ContactProtein], metadata: dict[str, Any]) -> int:
    """Write proteins as they come, one in memory at a time; the same proteins give the same bytes.

    metadata may be filled while the proteins are made: it is written last. Returns how many were written.

    Raises: BioattnError when there is no protein, an id comes twice or the file cannot be written; then nothing is
    left.
    """
    attributes = {
        "format": CONTACT_DATASET_FORMAT,
        "format_version": CONTACT_DATASET_VERSION,
        "generated_by": f"bioattn {__version__}",
    }
    ids: list[str] = []
    groups: list[str] = []
    chains: list[str] = []
    figures: list[tuple[int, int, int, int]] = []
    with stream_sealed(path) as file:
        for protein in proteins:
            problem = protein_problem(protein)
            if problem is None and protein.id in ids:
                problem = "the id comes twice"
            if problem is not None:
                raise BioattnError(f"contact dataset: protein {protein.id!r}: {problem}")
            _put_protein(file, len(ids), protein)
            ids.append(protein.id)
            groups.append(protein.group)
            chains.append(protein.chain)
            figures.append((protein.split, protein.num_rows, protein.num_columns, int(protein.mapped.sum())))
        if not ids:
            raise BioattnError(f"{path}: there is no protein to write")
        put_array(file, "proteins/id", encode_text(ids))
        put_array(file, "proteins/group", encode_text(groups))
        table = np.array(figures, "<i8")
        put_array(file, "proteins/split", table[:, 0].astype(np.uint8))
        put_array(file, "proteins/chain", encode_text(chains))
        for column, name in enumerate(("num_rows", "num_columns", "num_mapped"), start=1):
            put_array(file, f"proteins/{name}", np.ascontiguousarray(table[:, column]))
        put_array(file, "metadata", encode_text([canonical_json(metadata)]))
        for name, value in attributes.items():
            file.attrs[name] = value
        file.attrs["attributes_sha256"] = attributes_digest(attributes)
    return len(ids)


def _put_protein(file: h5py.File, index: int, protein: ContactProtein) -> None:
    folder = protein_folder(index)
    found = protein.deletions.tocoo()
    places = np.stack([found.row, found.col, found.data], axis=1).astype("<i4")
    put_array(file, f"{folder}/residues", protein.msa)
    put_array(file, f"{folder}/deletions", places[np.lexsort((places[:, 1], places[:, 0]))])
    put_array(file, f"{folder}/aatype", protein.aatype.astype(np.uint8))
    put_array(file, f"{folder}/cb", protein.cb.astype("<f4"))
    put_array(file, f"{folder}/residue_number", encode_text(protein.residue_numbers))
