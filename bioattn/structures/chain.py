"""One protein chain of a PDB or mmCIF file: residues, residue numbers, coordinates.

What is read: the first model; chain ids and residue numbers as the authors gave them (mmCIF: `auth_asym_id`,
`auth_seq_id`); of alternative locations the one with the highest occupancy. Modified amino acids (MSE and its
like) count as their parents. Residues without a CA atom, waters and ligands are left out.
"""

import io
import math
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from Bio.Align import PairwiseAligner, substitution_matrices
from Bio.Data.PDBData import protein_letters_3to1, protein_letters_3to1_extended
from Bio.PDB.Chain import Chain as BioChain
from Bio.PDB.MMCIFParser import MMCIFParser
from Bio.PDB.Model import Model
from Bio.PDB.PDBExceptions import PDBConstructionException, PDBException
from Bio.PDB.PDBParser import PDBParser
from Bio.PDB.Residue import DisorderedResidue, Residue
from numpy.typing import NDArray

from bioattn.choices import MissingCb
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import decompression_errors, open_bytes
from bioattn.structures.ideal_geometry import ATOM37
from bioattn.text import counted, quoted

BLANK_CHAIN = "_"
"""Name of a chain without an id, in PDB files whose column 22 is empty."""
UNKNOWN_LETTER = "X"

# Selenocysteine and pyrrolysine are missing from Biopython's table, as are the ambiguous residues.
_LETTER_OF = protein_letters_3to1_extended | {"SEC": "U", "PYL": "O", "ASX": "B", "GLX": "Z"}
# What Biopython's parsers let through on files that only begin well.
_PARSER_ERRORS = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, StopIteration)
# CB of an ideal residue from its backbone: coefficients of (CA-N)x(C-CA), CA-N and C-CA.
_SLOT_OF = {name: slot for slot, name in enumerate(ATOM37)}
_VIRTUAL_CB = (-0.58273431, 0.56802827, -0.54067466)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """L residues in the order of the file."""

    name: str
    """The author's chain id, `_` where it is blank."""
    letters: str
    """L one-letter codes, U and O among them; X where a residue is no known amino acid and has no known parent."""
    residue_names: list[str]
    """L three-letter names as in the file."""
    numbers: list[int]
    """L residue numbers of the author; they need not ascend and may be negative."""
    insertion_codes: list[str]
    """L insertion codes, "" where there is none."""
    ca: NDArray[np.float32]
    """(L, 3) ångström."""
    cb: NDArray[np.float32]
    """(L, 3) ångström: CB; CA of glycine; where CB is missing, what `read_chain` was told to put there."""
    bfactors: NDArray[np.float32]
    """(L,) of the CA atoms; pLDDT in predicted structures."""
    atom37: NDArray[np.float32]
    """(L, 37, 3) ångström: the heavy atoms by name (`ATOM37`), NaN where the file has none; the selenium of
    selenomethionine stands for the sulphur."""
    num_missing_cb: int
    """Residues other than glycine whose CB is not in the file."""
    method: str = ""
    """How the structure was found, such as `x-ray diffraction`; empty where the file does not say."""

    def __len__(self) -> int:
        return len(self.letters)


def read_chain(
    path: Path,
    chain: str | None = None,
    *,
    missing_cb: MissingCb = MissingCb.CA,
    chosen_by: str = "with --chain",
) -> Chain:
    """Read one chain of a PDB or mmCIF file, plain, gzip or xz; which of the two is found by content.

    chain: the author's id, `_` for the blank one; None takes the only protein chain. chosen_by: where the user
    gives it, for the message.

    Raises: BioattnError naming the chains there are when `chain` is not one of them, has no amino acids, or is
    needed to choose; FormatError when the file is neither PDB nor mmCIF or is damaged.
    """
    model = _first_model(path)
    proteins = {_name(each): residues for each in model if (residues := _amino_acids(each))}
    known = quoted(list(proteins), limit=10) if proteins else "none"
    if chain is None:
        if len(proteins) != 1:
            raise BioattnError(
                f"{path}: holds {counted(len(proteins), 'protein chain')} ({known}); "
                f"name the one that is meant, {chosen_by}"
                if proteins
                else f"{path}: holds no protein chain with CA atoms"
            )
        chain = next(iter(proteins))
    chain = chain.strip() or BLANK_CHAIN
    if chain not in proteins:
        if chain in {_name(each) for each in model}:
            raise BioattnError(f"{path}: chain {chain!r} has no amino acids; protein chains: {known}")
        raise BioattnError(f"{path}: there is no chain {chain!r}; protein chains: {known}")
    return _chain(path, chain, proteins[chain], missing_cb)


def read_chains(path: Path) -> list[Chain]:
    """All protein chains of the first model, in the file's order; otherwise as `read_chain`."""
    return [
        _chain(path, _name(found), residues, MissingCb.CA)
        for found in _first_model(path)
        if (residues := _amino_acids(found))
    ]


def scorable(letters: str) -> str:
    """One-letter codes that a substitution matrix holds: U, O and J are replaced by similar residues.

    >>> scorable("MUOJ")
    'MCKL'
    """
    return letters.translate(str.maketrans("UOJ", "CKL"))


@cache
def protein_aligner(mode: str, opening: float, *, free_ends: bool = False) -> PairwiseAligner:
    """An aligner with BLOSUM62 of sequences that are `scorable`.

    mode: `local` or `global`. opening: score of the first residue of a gap; each further one scores -1, those at
    free ends 0.
    """
    aligner = PairwiseAligner(mode=mode)
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")
    aligner.open_gap_score, aligner.extend_gap_score = opening, -1
    if free_ends:
        aligner.end_gap_score = 0
    return aligner


def aligned_residues(
    aligner: PairwiseAligner, first: str, second: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the residues that the best alignment of two sequences aligns; none where nothing is alike."""
    alignments = aligner.align(first, second)
    blocks = alignments[0].aligned if alignments.score > 0 or aligner.mode == "global" else ([], [])
    in_first, in_second = (
        np.array([place for block in of_one for place in range(*block)], np.intp) for of_one in blocks
    )
    return in_first, in_second


def expected_alignments(first: str, second: str, *, opening: float) -> float:
    """How many local alignments of so high a score chance gives of two sequences (Karlin-Altschul).

    For BLOSUM62 with a cost of 11 for a gap and 1 for each of its residues (Altschul & Gish 1996).
    """
    score = protein_aligner("local", opening).score(first, second)
    return 0.041 * len(first) * len(second) * math.exp(-0.267 * score)


def virtual_cb(
    n: NDArray[np.floating], ca: NDArray[np.floating], c: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Ideal position of CB of an L-amino acid; arguments and result (..., 3) in ångström."""
    first, second = np.asarray(ca, np.float64) - n, np.asarray(c, np.float64) - ca
    across, along_first, along_second = _VIRTUAL_CB
    return across * np.cross(first, second) + along_first * first + along_second * second + ca


def _first_model(path: Path) -> Model:
    with open_bytes(path) as raw, decompression_errors(path):
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace").read()
    is_mmcif = text.lstrip("\ufeff \t\r\n#").startswith("data_") or "\n_atom_site." in text
    if not is_mmcif and not any(line.startswith(("ATOM", "HETATM")) for line in text.splitlines()):
        raise FormatError(f"{path}: holds no atoms; a PDB or mmCIF file is needed")
    parser: Any = MMCIFParser(QUIET=True) if is_mmcif else PDBParser(QUIET=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model: Model = next(iter(parser.get_structure("", io.StringIO(text))))
    except (PDBException, PDBConstructionException, *_PARSER_ERRORS) as error:
        kind = "mmCIF" if is_mmcif else "PDB"
        raise FormatError(
            f"{path}: cannot be read as {kind} ({_reason(error)}); fetch the file again"
        ) from error
    return model


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    if isinstance(error, IndexError):
        return "a line or row of atoms ends early"
    return " ".join(str(error).split()) or type(error).__name__


def _name(chain: BioChain) -> str:
    return str(chain.id).strip() or BLANK_CHAIN


def _amino_acids(chain: BioChain) -> list[Residue]:
    return [residue for residue in map(_likeliest, chain) if _is_amino_acid(residue)]


def _likeliest(residue: Residue | DisorderedResidue) -> Residue:
    """The amino acid with the highest occupancy, of a residue modelled as several (a point mutation)."""
    if not isinstance(residue, DisorderedResidue):
        return residue
    children: list[Residue] = residue.disordered_get_list()
    return max(
        children, key=lambda child: max((atom.get_occupancy() or 0) for atom in child.get_unpacked_list())
    )


def _is_amino_acid(residue: Residue) -> bool:
    if "CA" not in residue or residue["CA"].element not in ("C", ""):
        return False
    name = residue.get_resname().strip()
    if residue.id[0] == " ":
        return True
    # Amino acids among the ligands carry standard names; modified residues of the chain do not.
    return name in _LETTER_OF and name not in protein_letters_3to1


def _chain(path: Path, name: str, residues: list[Residue], missing_cb: MissingCb) -> Chain:
    names = [residue.get_resname().strip() for residue in residues]
    cb, missing = [], 0
    for residue, residue_name in zip(residues, names, strict=True):
        if "CB" in residue:
            cb.append(residue["CB"].coord)
        elif missing_cb == "virtual" and residue_name != "GLY" and "N" in residue and "C" in residue:
            cb.append(virtual_cb(residue["N"].coord, residue["CA"].coord, residue["C"].coord))
        else:
            cb.append(residue["CA"].coord)
        missing += "CB" not in residue and residue_name != "GLY"
    ca = [residue["CA"].coord for residue in residues]
    atom37 = np.full((len(residues), len(ATOM37), 3), np.nan, np.float32)
    for place, (residue, residue_name) in enumerate(zip(residues, names, strict=True)):
        for atom in residue:
            slot = _SLOT_OF.get("SD" if (residue_name, atom.name) == ("MSE", "SE") else atom.name)
            if slot is not None:
                atom37[place, slot] = atom.coord
    if not np.isfinite([ca, cb]).all():
        raise FormatError(f"{path}: chain {name!r} has coordinates that are no numbers; fetch the file again")
    return Chain(
        name=name,
        letters="".join(_LETTER_OF.get(found, UNKNOWN_LETTER) for found in names),
        residue_names=names,
        numbers=[int(residue.id[1]) for residue in residues],
        insertion_codes=[residue.id[2].strip() for residue in residues],
        ca=np.array(ca, np.float32),
        cb=np.array(cb, np.float32),
        bfactors=np.array([residue["CA"].get_bfactor() for residue in residues], np.float32),
        atom37=atom37,
        num_missing_cb=missing,
        method=_method(residues[0]),
    )


def _method(residue: Residue) -> str:
    structure: Any = residue.get_parent().get_parent().get_parent()
    found = str(structure.header.get("structure_method") or "").lower()
    return "" if found == "unknown" else found
