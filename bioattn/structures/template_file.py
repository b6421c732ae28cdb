"""Files of templates: known structures laid on the residues of a query (`docs/formats/templates.md`)."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bioattn import __version__
from bioattn.errors import FormatError
from bioattn.io.files import sha256_of
from bioattn.io.hdf5_input import open_hdf5, other_format, strings, text_attribute
from bioattn.io.hdf5_output import hdf5_file, put_values, set_attribute
from bioattn.structures.ideal_geometry import ATOM37

TEMPLATES_FORMAT = "bioattn-templates"
FORMAT_VERSION = 1
NOT_ALIGNED = 21
"""`aatype` of a residue of the query that no residue of the template is aligned to."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Templates:
    """T structures on the R residues of one query, the best first."""

    query: str
    letters: str
    """(R,) residues of the query."""
    names: list[str]
    """(T,) `FILE_CHAIN`."""
    coverage: NDArray[np.float64]
    """(T,) part of the query's residues that are aligned."""
    identity: NDArray[np.float64]
    """(T,) part of the aligned residues that are equal."""
    residue_numbers: list[list[str]]
    """(T, R) author's number and insertion code of the aligned residue, "" where there is none."""
    aatype: NDArray[np.int8]
    """(T, R) the template's residue in model order, 20 = unknown, 21 = none aligned."""
    atom37: NDArray[np.float32]
    """(T, R, 37, 3) ångström, 0 where an atom is not there."""
    atom37_mask: NDArray[np.uint8]
    """(T, R, 37) 1 = the atom is there."""
    sha256: str = ""
    """Of the file; empty where there is none yet."""


def write_templates(path: Path, templates: Templates) -> None:
    """Write the file whole or not at all. Raises: BioattnError when it cannot be written."""
    with hdf5_file(path) as file:
        for name, value in (
            ("format", TEMPLATES_FORMAT),
            ("format_version", FORMAT_VERSION),
            ("generated_by", f"bioattn {__version__}"),
            ("query", templates.query),
            ("sequence", templates.letters),
        ):
            set_attribute(file, name, value)
        for name, values, words in (
            ("name", templates.names, "structure and chain"),
            ("coverage", templates.coverage, "part of the query's residues that are aligned"),
            ("identity", templates.identity, "part of the aligned residues that are equal"),
            ("residue_number", templates.residue_numbers, "aligned residue of the template"),
            ("aatype", templates.aatype, "residue of the template, ARNDCQEGHILKMFPSTWYVX, 21 = none"),
            ("atom_position", templates.atom37, "Å"),
            ("atom_mask", templates.atom37_mask, "1 where the atom is there"),
        ):
            set_attribute(put_values(file, name, values), "long_name", words)


def read_templates(path: Path) -> Templates:
    """Read a file of `write_templates`.

    Raises: FormatError when it is another file, of another version, damaged, or its arrays do not fit each other.
    """
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
        if kind != TEMPLATES_FORMAT:
            raise other_format(path, "file of `bioattn prepare templates`", kind, TEMPLATES_FORMAT)
        if (version := int(file.attrs.get("format_version", 0))) != FORMAT_VERSION:
            raise FormatError(f"{path}: has format version {version}, this bioattn reads {FORMAT_VERSION}")
        found = Templates(
            query=text_attribute(file, "query") or "",
            letters=text_attribute(file, "sequence") or "",
            names=strings(file["name"]),
            **{name: file[name][()] for name in ("coverage", "identity", "aatype")},
            residue_numbers=file["residue_number"].asstr()[()].tolist(),
            atom37=file["atom_position"][()].astype(np.float32),
            atom37_mask=file["atom_mask"][()],
            sha256=sha256_of(path),
        )
    shape = (len(found.names), len(found.letters), len(ATOM37))
    if (
        (found.aatype.shape, found.atom37.shape, found.atom37_mask.shape) != (shape[:2], (*shape, 3), shape)
        or not ((found.aatype >= 0) & (found.aatype <= NOT_ALIGNED)).all()
        or not np.isfinite(found.atom37).all()
    ):
        raise FormatError(f"{path}: its arrays do not fit each other; prepare the templates again")
    return found
