"""What a file is: `inspect_file` looks at content, not at names, and gives its main figures."""

from pathlib import Path

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.rr import RR_START
from bioattn.io.files import decompression_errors, open_bytes
from bioattn.io.hdf5_input import HDF5_MAGIC
from bioattn.store.alignment_inspection import alignment_figures, looks_like_alignment
from bioattn.store.description import KINDS, Description, as_json, as_text, describe
from bioattn.store.folder_inspection import inspect_folder
from bioattn.store.hdf5_inspection import inspect_hdf5
from bioattn.store.model_inspection import inspect_parameters, looks_like_parameters
from bioattn.store.prediction_table import PART_START
from bioattn.store.text_inspection import (
    inspect_contacts,
    inspect_json,
    inspect_part,
    inspect_promoters,
    inspect_structure,
    inspect_table,
    looks_like_structure,
)

__all__ = ["KINDS", "Description", "as_json", "as_text", "inspect_file"]


def inspect_file(path: Path) -> Description:
    """What `path` is and its main figures.

    Raises: BioattnError when it cannot be read or is nothing that bioattn knows; FormatError when it is of a known
    kind but damaged.
    """
    if path.is_dir():
        return inspect_folder(path)
    if looks_like_parameters(path):
        return inspect_parameters(path)
    with open_bytes(path) as file, decompression_errors(path):
        head = file.read(4096)
    if head.startswith(HDF5_MAGIC):
        return inspect_hdf5(path)
    if not head.strip():
        raise FormatError(f"{path}: is empty")
    if head.startswith(PART_START.encode()):
        return inspect_part(path)
    if head.startswith(RR_START):
        return inspect_contacts(path)
    if looks_like_structure(head):
        return inspect_structure(path)
    if looks_like_alignment(head):
        return describe("alignment", **alignment_figures(path))
    if head.lstrip().startswith(b">"):
        return inspect_promoters(path)
    if head.lstrip().startswith((b"{", b"[")):
        return inspect_json(path)
    first_line = head.splitlines()[0]
    if b"\0" in head or not (b"\t" in first_line or b"," in first_line):
        raise BioattnError(f"{path}: is none of the files bioattn reads or writes")
    return inspect_table(path)
