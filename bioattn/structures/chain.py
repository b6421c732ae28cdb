"""One protein chain of a PDB or mmCIF file: residues, residue numbers, coordinates.

What is read: the first model; chain ids and residue numbers as the authors gave them (mmCIF: `auth_asym_id`,
`auth_seq_id`); of alternative locations, and of several kinds of amino acid at one place, the one with the highest
occupancy. Modified and D amino acids (MSE, DAL and their like) count as their parents. Residues without a CA atom,
waters and ligands are left out; HETATM residues belong to a chain that they have a peptide bond to. Copies of a
molecule that only TER, segments or numbers that start again tell apart are separate chains.

Not by Biopython's parsers: they join such copies into one chain, and refuse mmCIF without optional columns.
"""

import io
import logging
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from Bio.Align import PairwiseAligner, substitution_matrices
from Bio.Data.PDBData import protein_letters_3to1, protein_letters_3to1_extended
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.structure_file import AUTHOR_KEY, atom_column, is_mmcif, read_block, residue_number
from bioattn.io.files import decompression_errors, open_bytes
from bioattn.structures.ideal_geometry import ATOM37
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")
BLANK_CHAIN = "_"
"""Name of a chain without an id, in PDB files whose column 22 is empty."""
UNKNOWN_LETTER = "X"

# Missing from Biopython's table: rare and ambiguous residues, protonation states of simulations.
_LETTER_OF = protein_letters_3to1_extended | {"SEC": "U", "PYL": "O", "ASX": "B", "GLX": "Z"}
_LETTER_OF |= dict.fromkeys(("HID", "HIE", "HIP", "HSD", "HSE", "HSP"), "H") | {"CYX": "C", "CYM": "C"}
_LETTER_OF |= {"ASH": "D", "GLH": "E", "LYN": "K", "LSN": "K", "ARN": "R", "TYM": "Y", "AS4": "D", "GL4": "E"}
_D_NAMES = "DAL DAR DSG DAS DCY DGN DGL DHI DIL DLE DLY MED DPN DPR DSN DTH DTR DTY DVA"
_LETTER_OF |= dict(zip(_D_NAMES.split(), "ARNDCQEHILKMFPSTWYV", strict=True))
_PEPTIDE_BOND, _CA_STEP = 2.0, 4.5
"""Largest distances of C and N, and of the CA, of bonded residues, in ångström; 1.33 and 3.8 are usual."""
# What parsers let through on files that only begin well.
_PARSER_ERRORS = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, StopIteration)
_SLOT_OF = {name: slot for slot, name in enumerate(ATOM37)}
_RENAMED = {("MSE", "SE"): "SD", ("ILE", "CD"): "CD1"}  # CHARMM and GROMACS write CD


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
    """(L, 3) ångström: CB; CA of glycine and where CB is missing."""
    bfactors: NDArray[np.float32]
    """(L,) of the CA atoms; pLDDT in predicted structures."""
    atom37: NDArray[np.float32]
    """(L, 37, 3) ångström: the heavy atoms by name (`ATOM37`), NaN where the file has none; the selenium of
    selenomethionine stands for the sulphur."""
    num_missing_cb: int
    """Residues other than glycine whose CB is not in the file."""
    method: str = ""
    """How the structure was found, such as `x-ray diffraction`; empty where the file does not say."""
    label: str = ""
    """Its id in the file, which copies share."""
    atoms: frozenset[int] | None = None
    """Numbers of its molecule's atoms among all of the model, from 0; None where no other molecule has its id."""

    def __len__(self) -> int:
        return len(self.letters)


def read_chain(path: Path, chain: str | None = None, *, chosen_by: str = "with --chain") -> Chain:
    """Read one chain of a PDB or mmCIF file, plain, gzip or xz; which of the two is found by content.

    chain: the author's id, `_` for the blank one; None takes the only protein chain. Of several molecules under
    one id the first is taken, with a warning; `A2` is the second of `A`.
    chosen_by: where the user gives it, for the message.

    Raises: BioattnError naming the chains there are when `chain` is not one of them, has no amino acids, or is
    needed to choose; FormatError when the file is neither PDB nor mmCIF or is damaged.
    """
    structure = _read_structure(path)
    proteins = structure.proteins
    known = quoted(list(proteins), limit=10) if proteins else "none"
    if chain is None:
        if len(structure.copies) != 1:
            raise BioattnError(
                f"{path}: holds {counted(len(proteins), 'protein chain')} ({known}); "
                f"name the one that is meant, {chosen_by}"
                if proteins
                else f"{path}: holds no protein chain with CA atoms"
            )
        chain = next(iter(proteins))
    chain = chain.strip() or BLANK_CHAIN
    if chain not in proteins:
        if chain in structure.chains:
            raise BioattnError(f"{path}: chain {chain!r} has no amino acids; protein chains: {known}")
        raise BioattnError(f"{path}: there is no chain {chain!r}; protein chains: {known}")
    if others := structure.copies.get(chain, [])[1:]:
        LOGGER.warning(
            f"{path}: several molecules are called {chain!r}; the first is taken, the others are "
            f"{quoted(others)}"
        )
    return _chain(path, chain, structure)


def read_chains(path: Path) -> list[Chain]:
    """All protein chains of the first model, in the file's order; otherwise as `read_chain`."""
    structure = _read_structure(path)
    return [_chain(path, name, structure) for name in structure.proteins]


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


def align_chain(
    aligner: PairwiseAligner, row: str, chain: Chain
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the residues of a sequence and of a chain that the best alignment aligns.

    Where the chain is broken, X stand for the residues that its numbers say are missing: else those at the edges
    of a gap, and whole pieces between long ones, go astray. Where that costs as much as a gap, long gaps are as
    cheap as short ones instead.
    """
    broken = np.linalg.norm(np.diff(chain.ca, axis=0), axis=1) > _CA_STEP
    missing = np.maximum(np.diff(chain.numbers), 1) - 1
    missing[~broken | (missing > len(row))] = 0
    lenient = copy(aligner)
    lenient.extend_internal_deletion_score = 0
    ways = [(aligner, missing), (lenient, np.zeros_like(missing))][: 1 + broken.any()]
    row, letters = scorable(row), np.array(list(scorable(chain.letters)))
    found = []
    for number, (way, filled) in enumerate(ways):
        places = np.arange(len(chain)) + np.append(0, filled.cumsum())
        text, residues = np.full(places[-1] + 1, UNKNOWN_LETTER), np.full(places[-1] + 1, -1)
        text[places], residues[places] = letters, np.arange(len(chain))
        in_row, in_chain = aligned_residues(way, row, "".join(text))
        in_row, in_chain = in_row[residues[in_chain] >= 0], residues[in_chain][residues[in_chain] >= 0]
        similar = sum(
            aligner.substitution_matrix[row[i], letters[j]] for i, j in zip(in_row, in_chain, strict=True)
        )
        found.append((similar - 11 * number, in_row, in_chain))
    _, in_row, in_chain = max(found, key=lambda each: each[0])
    return in_row, in_chain


def expected_alignments(first: str, second: str, *, opening: float) -> float:
    """How many local alignments of so high a score chance gives of two sequences (Karlin-Altschul); inf of none.

    For BLOSUM62 with a cost of 11 for a gap and 1 for each of its residues (Altschul & Gish 1996).
    """
    if not first or not second:
        return math.inf
    score = protein_aligner("local", opening).score(first, second)
    return 0.041 * len(first) * len(second) * math.exp(-0.267 * score)


class _Atom(NamedTuple):
    """One row of a file."""

    place: int
    """Its number among the model's."""
    segment: Hashable
    """Changes where the file says that a molecule ends."""
    chain: str
    number: int
    code: str
    residue: str
    is_hetero: bool
    name: str
    element: str
    altloc: str
    occupancy: float
    bfactor: float
    position: tuple[float, ...]


def _atom(place: int, segment: Hashable, cells: Sequence[str]) -> _Atom | None:
    """An atom of the cells of `_COLUMNS`, "" where there is no value; None of waters and ions without a number."""
    chain, text, code, residue, record, name, element, altloc, occupancy, bfactor, *position = cells
    residue = residue.upper()
    try:
        number = residue_number(text)
    except ValueError:
        if residue in _LETTER_OF:
            raise
        return None
    return _Atom(
        *(place, segment, chain, number, code, residue),
        *(record == "HETATM", name, element.upper(), altloc),
        *(float(occupancy or 1), float(bfactor or 0), tuple(map(float, position))),
    )


_COLUMNS = (
    ((21, 22), AUTHOR_KEY[0], False),
    ((22, 26), AUTHOR_KEY[1], True),
    ((26, 27), AUTHOR_KEY[2], False),
    ((17, 20), ("label_comp_id", "auth_comp_id"), True),
    ((0, 6), ("group_PDB",), False),
    ((12, 16), ("label_atom_id", "auth_atom_id"), True),
    ((76, 78), ("type_symbol",), False),
    ((16, 17), ("label_alt_id",), False),
    ((54, 60), ("occupancy",), False),
    ((60, 66), ("B_iso_or_equiv",), False),
    ((30, 38), ("Cartn_x",), True),
    ((38, 46), ("Cartn_y",), True),
    ((46, 54), ("Cartn_z",), True),
)
"""Columns of PDB; items of mmCIF's _atom_site, of which the first with a value counts; whether one is needed."""


class _Residue(NamedTuple):
    name: str
    number: int
    code: str
    atoms: dict[str, _Atom]


class _Structure(NamedTuple):
    proteins: dict[str, tuple[list[_Residue], "_Molecule"]]
    """Amino acids and all atoms by the name of their chain; further copies of a chain `A` are `A2`, `A3`."""
    copies: dict[str, list[str]]
    """Names of the proteins of each chain of the file."""
    chains: Counter[str]
    """Molecules of each, proteins or not."""
    method: str


def _read_structure(path: Path) -> _Structure:
    with open_bytes(path) as raw, decompression_errors(path):
        text = io.TextIOWrapper(raw, encoding="utf-8", errors="replace").read()
    mmcif = is_mmcif(text)
    if not mmcif and not any(line.startswith(("ATOM", "HETATM")) for line in text.splitlines()):
        raise FormatError(f"{path}: holds no atoms; a PDB or mmCIF file is needed")
    try:
        atoms, method = _mmcif_atoms(text) if mmcif else _pdb_atoms(text)
    except _PARSER_ERRORS as error:
        kind, reason = "mmCIF" if mmcif else "PDB", " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, KeyError):
            reason = f"it has no {error.args[0]}"
        elif isinstance(error, IndexError):
            reason = "a line or row of atoms ends early"
        raise FormatError(f"{path}: cannot be read as {kind} ({reason}); fetch the file again") from error
    molecules = _molecules(atoms)
    chains = Counter(_name(molecule.atoms[0].chain) for molecule in molecules)
    proteins: dict[str, tuple[list[_Residue], _Molecule]] = {}
    copies: dict[str, list[str]] = {}
    for molecule in molecules:
        residues = _amino_acids(molecule.atoms)
        if residues:
            name = first = _name(molecule.atoms[0].chain)
            number = len(copies.setdefault(first, []))
            while number and (name in proteins or name in chains):
                number += 1
                name = f"{first}{number}"
            copies[first].append(name)
            proteins[name] = residues, molecule
    return _Structure(proteins, copies, chains, "" if method in (".", "?") else method.lower())


def _pdb_atoms(text: str) -> tuple[list[_Atom], str]:
    """The atoms of the first model, and the method."""
    atoms: list[_Atom | None] = []
    method, molecule = "", 0
    for line in text.splitlines():
        record = line[:6].rstrip()
        if record in ("MODEL", "ENDMDL", "END") and atoms:
            break
        if record == "TER":
            molecule += 1
        elif record == "EXPDTA":
            method = method or line[10:].strip()
        elif record in ("ATOM", "HETATM"):
            cells = [line[start:end].strip() for (start, end), _, _ in _COLUMNS]
            # Simulations name chains in the columns of segments.
            atoms.append(_atom(len(atoms), (molecule, "" if cells[0] else line[72:76]), cells))
    return [atom for atom in atoms if atom is not None], method


def _mmcif_atoms(text: str) -> tuple[list[_Atom], str]:
    """The atoms of the first model, and the method. What optional columns and cells do not say is the default."""
    block, _, _ = read_block(text)
    models, segments = (atom_column(block, [name]) for name in ("pdbx_PDB_model_num", "label_asym_id"))
    columns = [atom_column(block, names, needed=needed) for _, names, needed in _COLUMNS]
    atoms = [
        _atom(place, segment, cells)
        for place, (model, segment, cells) in enumerate(
            zip(models, segments, zip(*columns, strict=True), strict=True)
        )
        if model == models[0]
    ]
    return [atom for atom in atoms if atom is not None], block.get("_exptl.method", [""])[0]


@dataclass(slots=True)
class _Molecule:
    """Atoms of a chain, or of one of the copies under its name."""

    atoms: list[_Atom]
    places: set[tuple[int, str]]
    names: set[tuple[int, str, str, str]]

    def is_followed_by_copy(self, run: "_Molecule") -> bool:
        """Whether atoms of the same chain are those of a further copy, of which the file says no more than that.

        Its numbers start again, or it repeats the sequence behind the end of this molecule. What goes on with
        another sequence is the chain behind a gap.
        """
        if self.places & run.places:
            return bool(self.names & run.names)  # else other locations of the same atoms
        words, before = _words(run.atoms), _words(self.atoms)
        return len(words) >= _FEWEST_WORDS and 2 * len(words & before) >= len(words)


def _molecules(atoms: Sequence[_Atom]) -> list[_Molecule]:
    runs: list[list[_Atom]] = []
    last_run: dict[str, list[_Atom]] = {}
    for atom in atoms:
        run = last_run.get(atom.chain)
        if run is None or atom.segment != run[-1].segment or atom.number < run[-1].number:
            run = last_run[atom.chain] = []
            runs.append(run)
        run.append(atom)
    molecules: list[_Molecule] = []
    last: dict[str, _Molecule] = {}
    for run in runs:
        here = _Molecule(
            run,
            {(atom.number, atom.code) for atom in run},
            {(atom.number, atom.code, atom.name, atom.altloc) for atom in run},
        )
        molecule = last.get(run[0].chain)
        if molecule is None or molecule.is_followed_by_copy(here):
            last[run[0].chain] = here
            molecules.append(here)
        else:
            molecule.atoms += run
            molecule.places |= here.places
            molecule.names |= here.names
    return molecules


_FEWEST_WORDS = 6


def _words(atoms: Sequence[_Atom]) -> set[tuple[str, str, str]]:
    names = [atom.residue for atom in atoms if atom.name == "CA"]
    return set(zip(names, names[1:], names[2:], strict=False))


def _name(chain: str) -> str:
    return chain.strip() or BLANK_CHAIN


def _amino_acids(atoms: Sequence[_Atom]) -> list[_Residue]:
    """In the file's order; of several kinds at one place (a point mutation) that of the highest occupancy."""
    kinds_of: dict[tuple[int, str], dict[tuple[str, bool], list[_Atom]]] = {}
    for atom in atoms:
        kinds = kinds_of.setdefault((atom.number, atom.code), {})
        kinds.setdefault((atom.residue, atom.is_hetero), []).append(atom)
    partners = {
        end: np.array([atom.position for atom in atoms if atom.name == other]).reshape(-1, 3)
        for end, other in ("CN", "NC")
    }
    residues = []
    for (number, code), kinds in kinds_of.items():
        # What has one location belongs to all kinds, whichever it is written with.
        shared = [atom for each in kinds.values() for atom in each if not atom.altloc]
        apart = {kind: [atom for atom in each if atom.altloc] or each for kind, each in kinds.items()}
        amino_acids = [
            kind
            for kind, each in apart.items()
            if _is_amino_acid(*kind, [*each, *shared] if each[0].altloc else each, partners)
        ]
        if amino_acids:
            likeliest = max(amino_acids, key=lambda kind: max(atom.occupancy for atom in apart[kind]))
            best: dict[str, _Atom] = {}
            for atom in kinds[likeliest]:
                if atom.name not in best or atom.occupancy > best[atom.name].occupancy:
                    best[atom.name] = atom
            if apart[likeliest][0].altloc:
                best = {atom.name: atom for atom in shared} | best
            residues.append(_Residue(likeliest[0], number, code, best))
    return residues


def _is_amino_acid(
    name: str, is_hetero: bool, atoms: Sequence[_Atom], partners: Mapping[str, NDArray[np.float64]]
) -> bool:
    """Whether atoms are a residue of a chain. partners: positions of all its N for `C`, of all its C for `N`."""
    is_standard = name in protein_letters_3to1
    # Calcium is called CA, too.
    if not any(
        atom.name == "CA" and (name in _LETTER_OF or (atom.element in ("C", "") and name != "CA"))
        for atom in atoms
    ):
        return False
    names = {atom.name for atom in atoms}
    if not is_hetero:
        # Lipids and caps have a CA, too; a trace has nothing else.
        return name in _LETTER_OF or {"N", "C"} <= names or names <= {"CA", "CB"}
    if not {"N", "C"} <= names:
        return name in _LETTER_OF and not is_standard
    # Ligands may be amino acids, modified ones too, but are bonded to none.
    return any(
        (np.linalg.norm(partners[atom.name] - atom.position, axis=1) < _PEPTIDE_BOND).any()
        for atom in atoms
        if atom.name in partners
    )


def _chain(path: Path, name: str, structure: _Structure) -> Chain:
    residues, molecule = structure.proteins[name]
    label = _name(molecule.atoms[0].chain)
    cb: list[NDArray[np.floating]] = []
    missing = 0
    atom37 = np.full((len(residues), len(ATOM37), 3), np.nan, np.float32)
    for place, residue in enumerate(residues):
        positions = {name: np.array(atom.position, np.float32) for name, atom in residue.atoms.items()}
        cb.append(positions.get("CB", positions["CA"]))
        missing += "CB" not in positions and residue.name != "GLY"
        for atom, position in positions.items():
            slot = _SLOT_OF.get(_RENAMED.get((residue.name, atom), atom))
            if slot is not None:
                atom37[place, slot] = position
    ca = [residue.atoms["CA"].position for residue in residues]
    if not np.isfinite(np.array([ca, cb])).all():
        raise FormatError(f"{path}: chain {name!r} has coordinates that are no numbers; fetch the file again")
    return Chain(
        name=name,
        letters="".join(_LETTER_OF.get(residue.name, UNKNOWN_LETTER) for residue in residues),
        residue_names=[residue.name for residue in residues],
        numbers=[residue.number for residue in residues],
        insertion_codes=[residue.code for residue in residues],
        ca=np.array(ca, np.float32),
        cb=np.array(cb, np.float32),
        bfactors=np.array([residue.atoms["CA"].bfactor for residue in residues], np.float32),
        atom37=atom37,
        num_missing_cb=missing,
        method=structure.method,
        label=label,
        atoms=frozenset(atom.place for atom in molecule.atoms) if structure.chains[label] > 1 else None,
    )
