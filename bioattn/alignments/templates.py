"""Templates: known structures laid on the residues of a query (`docs/formats/templates.md`), and making them.

Of each structure file the chain that is most like the query is taken, residue by residue.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import UNKNOWN, aatype_codes, msa_codes
from bioattn.alignments.choices import PrepareTemplates
from bioattn.alignments.rows import centre_on_query, find_name
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.alignment import require_proteins
from bioattn.formats.alignment_file import read_alignment
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.files import check_output, sha256_of
from bioattn.io.hdf5 import hdf5_file, put_array, set_attribute, strings, text_attribute
from bioattn.structures.chain import (
    Chain,
    align_chain,
    expected_alignments,
    protein_aligner,
    read_chains,
    scorable,
)
from bioattn.structures.ideal_geometry import ATOM37, BACKBONE
from bioattn.text import counted, percentage, quoted

TEMPLATES = DatasetKind(
    name="file of templates", format="bioattn-templates", version=1, command="bioattn prepare templates"
)
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
        TEMPLATES.write_attributes(file, query=templates.query, sequence=templates.letters)
        for name, values, words in (
            ("name", templates.names, "structure and chain"),
            ("coverage", templates.coverage, "part of the query's residues that are aligned"),
            ("identity", templates.identity, "part of the aligned residues that are equal"),
            ("residue_number", templates.residue_numbers, "aligned residue of the template"),
            ("aatype", templates.aatype, "residue of the template, ARNDCQEGHILKMFPSTWYVX, 21 = none"),
            ("atom_position", templates.atom37, "Å"),
            ("atom_mask", templates.atom37_mask, "1 where the atom is there"),
        ):
            set_attribute(put_array(file, name, values), "long_name", words)


def read_templates(path: Path) -> Templates:
    """Read a file of `write_templates`.

    Raises: FormatError when it is another file, of another version, damaged, or its arrays do not fit each other.
    """
    with TEMPLATES.open(path) as arrays:
        file = arrays.file
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


LOGGER = logging.getLogger("bioattn")

MAX_TEMPLATES = 4
"""AlphaFold's models were trained with four templates at most."""
MAX_EVALUE = 0.01
"""Of the local alignment of query and chain; a chain that is less alike is no template."""


class _Hit(NamedTuple):
    """A chain aligned to the query: pairs of a residue of the query (`places`) and one of the chain."""

    name: str
    chain: Chain
    places: NDArray[np.intp]
    residues: NDArray[np.intp]
    equal: int
    evalue: float

    def has_backbone(self) -> bool:
        """Whether an aligned residue has the atoms that templates need."""
        return bool(np.isfinite(self.chain.atom37[self.residues][:, BACKBONE]).all((1, 2)).any())


def prepare_templates(given: PrepareTemplates) -> Templates:
    """Write the templates of a query, the one with the most equal residues first.

    Raises: SettingsError for an output of another name than X.h5 or one that is an input; BioattnError when a file
    cannot be read, the query is no protein, or no structure is left.
    """
    query, structures, output, row = given.query, given.structures, given.output, given.row
    check_output(output, [query, *structures])
    if not output.name.endswith((".h5", ".hdf5")):
        raise SettingsError(f"--output {output}: templates are HDF5; end the name in .h5")
    alignment = read_alignment(query)
    if row is not None:
        number = find_name(alignment.names, row, str(query))
        alignment = centre_on_query(alignment, number, str(query))
    require_proteins(alignment, str(query))
    # Residues that stand in no match column are not among those of the query.
    name, letters = alignment.names[0], alignment.row(0).replace("-", "")
    if (aatype_codes(np.frombuffer(letters.encode(), np.uint8)) == UNKNOWN).all():
        raise BioattnError(f"{query}: the query, {name}, has no residue of a known kind")
    found = [_best_hit(path, letters) for path in structures]
    refused = [each for each in found if isinstance(each, str)]
    if len(refused) == len(found):
        raise BioattnError("; ".join(refused))
    hits = sorted((each for each in found if not isinstance(each, str)), key=lambda hit: -hit.equal)
    if len(hits) > MAX_TEMPLATES:
        names = quoted([hit.name for hit in hits[MAX_TEMPLATES:]])
        refused.append(f"{names}; the {MAX_TEMPLATES} with the most residues equal to the query's stay")
    for reason in refused:
        LOGGER.warning(f"left out: {reason}")
    templates = _laid_on(name, letters, hits[:MAX_TEMPLATES])
    for hit, coverage, identity in zip(hits, templates.coverage, templates.identity, strict=False):
        LOGGER.info(
            f"{hit.name}: {len(hit.places)} of {counted(len(letters), 'residue')} aligned (coverage "
            f"{percentage(coverage)}), identity {percentage(identity)}, E-value {hit.evalue:.1g}"
        )
    write_templates(output, templates)
    return templates


def _best_hit(path: Path, letters: str) -> _Hit | str:
    """The chain with the most equal residues, the first of several; or why there is none."""
    hits = [_aligned(path, chain, letters) for chain in read_chains(path)]
    if not hits:
        return f"{path}: has no protein chain with CA atoms"
    closest = min(hits, key=lambda hit: hit.evalue)
    if closest.evalue > MAX_EVALUE:
        return (
            f"{path}: no chain aligns to the query; the closest, chain {closest.chain.name}, has an E-value of "
            f"{closest.evalue:.1g} ({MAX_EVALUE:g} at most)"
        )
    alike = [hit for hit in hits if hit.evalue <= MAX_EVALUE]
    best = max(alike, key=lambda hit: (hit.has_backbone(), hit.equal))
    if not best.has_backbone():
        return f"{path}: chain {best.chain.name} has no residue with N, CA and C, which templates need"
    return best


def _aligned(path: Path, chain: Chain, letters: str) -> _Hit:
    places, residues = align_chain(protein_aligner("local", -12), letters, chain)
    return _Hit(
        name=f"{path.name.removesuffix('.gz').removesuffix('.xz').rpartition('.')[0] or path.name}_{chain.name}",
        chain=chain,
        places=places,
        residues=residues,
        equal=sum(letters[i] == chain.letters[j] for i, j in zip(places, residues, strict=True)),
        evalue=expected_alignments(scorable(letters), scorable(chain.letters), opening=-12),
    )


def _laid_on(name: str, letters: str, hits: Sequence[_Hit]) -> Templates:
    shape = (len(hits), len(letters))
    aatype = np.full(shape, NOT_ALIGNED, np.int8)
    atom37 = np.full((*shape, len(ATOM37), 3), np.nan, np.float32)
    numbers = [[""] * len(letters) for _ in hits]
    for number, (_, chain, places, residues, *_) in enumerate(hits):
        aatype[number, places] = msa_codes(np.frombuffer(chain.letters.encode(), np.uint8))[residues]
        atom37[number, places] = chain.atom37[residues]
        for place, residue in zip(places, residues, strict=True):
            numbers[number][place] = f"{chain.numbers[residue]}{chain.insertion_codes[residue]}"
    mask = np.asarray(np.isfinite(atom37).all(-1), np.uint8)
    aligned = np.array([len(hit.places) for hit in hits])
    return Templates(
        query=name,
        letters=letters,
        names=[hit.name for hit in hits],
        coverage=aligned / len(letters),
        identity=np.array([hit.equal for hit in hits]) / aligned,
        residue_numbers=numbers,
        aatype=aatype,
        atom37=np.nan_to_num(atom37 * mask[..., None]),
        atom37_mask=mask,
    )
