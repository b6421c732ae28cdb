"""From SMILES and SDF to cleaned molecules, by RDKit (extra `chem`).

What cleaning does: of several fragments those go that are counter-ions of drugs or hold no carbon; of others the
largest is kept when it has at least twice the heavy atoms of each other one, else the record is a mixture and
refused; what holds no carbon at all is kept whole; charges are neutralised where protons can do it; stereo centres
of racemates count as not given; metals in a kept fragment, and molecules of too many heavy atoms, are refused.
Every change is a note.
"""

import itertools
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import TableReader, is_missing, is_number, open_table
from bioattn.io.files import read_lines
from bioattn.molecules.graphs import ELEMENTS, FINGERPRINT_BITS, Molecule
from bioattn.system.progress import SILENT, Progress

MAX_ATOMS = 200
"""Heavy atoms of a molecule at most; larger ones are macromolecules."""
MAX_SMILES = 20 * MAX_ATOMS
"""Letters of a SMILES that are read at most: a long one is refused before RDKit works on it."""
_NON_METALS = frozenset(("H", *"BCNOFPSI", "Si", "Cl", "As", "Se", "Br", "Te"))
_CHIRALITY = {"R": 1, "S": 2}
_COUNTER_IONS = """
    OC=O CC(=O)O CCC(=O)O OC(=O)C(F)(F)F OC(=O)C(=O)O OC(=O)CC(=O)O OC(=O)CCC(=O)O OC(=O)C=CC(=O)O OC(=O)CCCC(=O)O
    OC(=O)CCCCC(=O)O CC(O)C(=O)O OCC(=O)O OC(=O)CC(O)C(=O)O OC(=O)C(O)C(O)C(=O)O OC(=O)CC(O)(CC(=O)O)C(=O)O
    OCC(O)C(O)C(O)C(O)C(=O)O OC(=O)C1OC(O)C(O)C(O)C1O OCC(O)C(O)C(O)C(O)C(O)C(=O)O OC(=O)c1ccccc1 OC(=O)c1ccccc1O
    OC(=O)C(O)c1ccccc1 OC(=O)CNC(=O)c1ccccc1 OC(=O)c1ccc2ccccc2c1O OC(=O)c1cc2ccccc2c(Cc2c3ccccc3cc(C(=O)O)c2O)c1O
    OC(=O)C1CCC(=O)N1 Cc1ccc(S(=O)(=O)O)cc1 CS(=O)(=O)O CCS(=O)(=O)O OCCS(=O)(=O)O OS(=O)(=O)C(F)(F)F
    OS(=O)(=O)c1ccccc1 OS(=O)(=O)CCS(=O)(=O)O OS(=O)(=O)c1ccc2ccccc2c1 OS(=O)(=O)c1cccc2c(S(=O)(=O)O)cccc12
    CC1(C)C2CCC1(CS(=O)(=O)O)C(=O)C2 OS(=O)(=O)NC1CCCCC1 COS(=O)(=O)O Oc1c(N(=O)=O)cc(N(=O)=O)cc1N(=O)=O
    NC(CC(=O)O)C(=O)O NC(CCC(=O)O)C(=O)O NCCCCC(N)C(=O)O NC(N)=NCCCC(N)C(=O)O
    CNCC(O)C(O)C(O)C(O)CO NC(CO)(CO)CO NCCO OCCNCCO OCCN(CCO)CCO C[N+](C)(C)CCO NCCN CCN(CC)CC CCNCC CN(C)CCO
    C1CCC(NC2CCCCC2)CC1 C1CNCCN1 C(CNCc1ccccc1)NCc1ccccc1
    CO CCO CC(C)O CS(C)=O CN(C)C=O CC(C)=O CC#N CCOC(C)=O C1CCOC1 C1COCCO1 ClCCl ClC(Cl)Cl
"""
"""SMILES of acids and bases that make salts of drugs (Stahl & Wermuth, Handbook of Pharmaceutical Salts), last of
solvents; without stereo, as salts are named without it now and then."""


class MoleculeError(BioattnError):
    """Why a molecule cannot be used, without its name."""


def require_rdkit() -> Any:
    """RDKit's module `Chem`. Raises: BioattnError saying what to install."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise BioattnError(
            "molecules are read by RDKit, which is not installed: pip install rdkit"
        ) from error
    return Chem


def read_molecule(text: str) -> Molecule:
    """The molecule of a SMILES, or of a block of an SDF file (several lines).

    Raises: MoleculeError saying what is wrong with it.
    """
    chem = require_rdkit()
    from rdkit import rdBase

    if not text.strip():
        raise MoleculeError("is empty")
    with rdBase.BlockLogs():
        if "\n" in text:
            mol = chem.MolFromMolBlock(text, sanitize=False, removeHs=False)
        elif len(text) > MAX_SMILES:
            raise MoleculeError(f"SMILES of {len(text):,} letters; {MAX_SMILES:,} are read at most")
        else:
            mol = chem.MolFromSmiles(text, sanitize=False)
        if mol is None:
            raise MoleculeError("is not valid SMILES" if "\n" not in text else "is not a valid MOL block")
        try:
            chem.SanitizeMol(mol)
        except ValueError as error:
            raise MoleculeError(str(error)) from error
        if "\n" in text:
            chem.AssignStereochemistryFrom3D(mol)
        # Of racemates (`|&1:1|` in CXSMILES, STERAC in MOL files) and where one of two is meant, one was drawn.
        for group in mol.GetStereoGroups():
            if group.GetGroupType() != chem.StereoGroupType.STEREO_ABSOLUTE:
                for atom in group.GetAtoms():
                    atom.SetChiralTag(chem.ChiralType.CHI_UNSPECIFIED)
        return _cleaned(chem, chem.RemoveHs(mol))


def _cleaned(chem: Any, mol: Any) -> Molecule:
    from rdkit.Chem import rdFingerprintGenerator
    from rdkit.Chem.Scaffolds import MurckoScaffold

    notes: list[str] = []
    mol = _largest_fragment(chem, mol, notes)
    if mol.GetNumHeavyAtoms() > MAX_ATOMS:
        raise MoleculeError(
            f"has {mol.GetNumHeavyAtoms():,} heavy atoms; macromolecules of more than {MAX_ATOMS} are left out"
        )
    if not mol.GetNumAtoms():
        raise MoleculeError("has no atoms")
    charge = chem.GetFormalCharge(mol)
    if _has_carbon(mol):
        metals = sorted({atom.GetSymbol() for atom in mol.GetAtoms()} - _NON_METALS)
        if "*" in metals:
            raise MoleculeError("holds *, which is no element")
        if metals:
            raise MoleculeError(f"holds {', '.join(metals)}; bonds of metals have no meaning here")
        neutral = _uncharger().uncharge(mol)
        # The anion of ferrocene has no such form.
        if chem.MolFromSmiles(chem.MolToSmiles(neutral)) is not None:
            mol = neutral
    left = chem.GetFormalCharge(mol)
    if charge or left:
        became = "" if charge == left else f" became {left:+d}" if left else " neutralised"
        notes.append(f"charge {charge:+d}{became}")
    smiles = chem.MolToSmiles(mol)
    mol = chem.MolFromSmiles(smiles)  # atoms in the order of the canonical SMILES
    centres = chem.FindMolChiralCenters(mol, includeUnassigned=True, useLegacyImplementation=True)
    unknown = sum(label == "?" for _, label in centres)
    if unknown:
        notes.append(f"{unknown} of {len(centres)} stereo centres not given")
    scaffold = chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(mol), isomericSmiles=False)
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=FINGERPRINT_BITS)
    bits = np.packbits(generator.GetFingerprintAsNumPy(mol)).tobytes()
    label = dict(centres)
    atoms = [
        (
            ELEMENTS.index(atom.GetSymbol()) if atom.GetSymbol() in ELEMENTS else 0,
            min(atom.GetDegree(), 5),
            min(atom.GetTotalNumHs(), 4),
            min(max(atom.GetFormalCharge(), -2), 2) + 2,
            atom.GetIsAromatic(),
            atom.IsInRing(),
            _CHIRALITY.get(label.get(atom.GetIdx(), ""), 0),
        )
        for atom in mol.GetAtoms()
    ]
    types = {chem.BondType.DOUBLE: 1, chem.BondType.TRIPLE: 2, chem.BondType.AROMATIC: 3}
    bonds = [
        (
            bond.GetBeginAtomIdx(),
            bond.GetEndAtomIdx(),
            types.get(bond.GetBondType(), 0) + 4 * bond.GetIsConjugated() + 8 * bond.IsInRing(),
        )
        for bond in mol.GetBonds()
    ]
    bonds_M3 = np.array(bonds, np.uint16).reshape(-1, 3)
    return Molecule(smiles, np.array(atoms, np.uint8), bonds_M3, bits, scaffold, tuple(notes))


def _largest_fragment(chem: Any, mol: Any, notes: list[str]) -> Any:
    """The fragment that is kept; all where none holds carbon."""
    fragments = {chem.MolToSmiles(each): each for each in chem.GetMolFrags(mol, asMols=True)}
    if len(fragments) < 2 or not _has_carbon(mol):
        kept = next(iter(fragments.values())) if len(fragments) == 1 else mol
        if kept.GetNumAtoms() < mol.GetNumAtoms():
            notes.append("one of several equal fragments kept")
        return kept
    carbon = {name: each for name, each in fragments.items() if _has_carbon(each)}
    ions = _neutral_counter_ions()
    drugs = {name: each for name, each in carbon.items() if _neutral_name(each) not in ions} or carbon
    (name, kept), *others = sorted(drugs.items(), key=lambda each: (-each[1].GetNumHeavyAtoms(), each[0]))
    if others and kept.GetNumHeavyAtoms() < 2 * others[0][1].GetNumHeavyAtoms():
        raise MoleculeError(f"is a mixture of {name} and {others[0][0]}; give one molecule")
    notes.append(f"salt or solvent removed: {'.'.join(sorted(fragments.keys() - {name}))}")
    return kept


@cache
def _neutral_counter_ions() -> frozenset[str]:
    chem = require_rdkit()
    return frozenset(_neutral_name(chem.MolFromSmiles(smiles)) for smiles in _COUNTER_IONS.split())


def _neutral_name(mol: Any) -> str:
    """SMILES without charges and stereo."""
    return str(require_rdkit().MolToSmiles(_uncharger().uncharge(mol), isomericSmiles=False))


@cache
def _uncharger() -> Any:
    """To make one takes RDKit longer than to use it."""
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.Uncharger()


def _has_carbon(mol: Any) -> bool:
    return any(atom.GetAtomicNum() == 6 for atom in mol.GetAtoms())


def atom_map(values_RA: NDArray[np.floating], smiles: str, *, centred: bool) -> NDArray[np.float64]:
    """One number per atom (A,) from one per radius and atom.

    What stands at an atom at radius r is spread evenly over the atoms up to r bonds away, which it knows.

    centred: first take away the mean over the atoms of each radius. What every atom contributes alike, such as the
    offset of values under a softmax, then marks no atom.
    """
    chem = require_rdkit()
    distance_AA = chem.GetDistanceMatrix(chem.MolFromSmiles(smiles))
    found_A = np.zeros(values_RA.shape[1])
    for radius, values_A in enumerate(values_RA.astype(np.float64)):
        near_AA = distance_AA <= radius
        found_A += near_AA / near_AA.sum(0) @ (values_A - values_A.mean() * centred)
    return found_A


def read_records(path: Path, smiles_column: str | None = None) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Name, SMILES or MOL block, and further columns of every record of a table, or an SDF, MOL or SMILES file.

    In a table one column names the molecules (`_name_column`); those without a name are called by their number.
    smiles_column: None = the one called `smiles`, in any case, else the only one with that word in its name.

    Raises: FormatError without such a column.
    """
    is_workbook = path.is_file() and zipfile.is_zipfile(path)
    start = [] if is_workbook else [line for _, line in itertools.islice(read_lines(path), _SDF_LOOK)]
    if any(line.startswith("M  END") or line.strip() == "$$$$" for line in start):
        yield from _sdf_records(path)
        return
    header = next((line for line in start if line.strip()), "")
    if smiles_column is None and "smiles" not in header.lower() and _is_smiles(header):
        for number, (_, line) in enumerate(read_lines(path), start=1):
            if match := _SMILES_LINE.match(line):
                yield match[2].split("\t")[0].strip() or f"molecule{number}", match[1], {}
        return
    reader = open_table(path)
    wanted = (smiles_column or "smiles").lower()
    names = [name for name in reader.header if name == smiles_column or name.lower() == wanted]
    alike = [name for name in reader.header if smiles_column is None and wanted in name.lower()]
    if not names and len(alike) != 1:
        reader.column(smiles_column or "smiles", "SMILES (call their column smiles, or give --smiles-column)")
    place = reader.header.index((names or alike)[0])
    named_by = _name_column(reader, place)
    for number, (_, cells) in enumerate(reader.rows(), start=1):
        others = {
            name: cell
            for each, (name, cell) in enumerate(zip(reader.header, cells, strict=True))
            if each not in (place, named_by)
        }
        yield (cells[named_by] if named_by is not None else "") or f"molecule{number}", cells[place], others


_SMILES_LINE = re.compile(r"\s*(\S+(?:\s+\|[^|]*\|)?)\s*(.*)")
"""SMILES, perhaps with CXSMILES, and a name."""
MEASURED = re.compile(
    r"[<>=~≤≥≈\s]*[+-]?(\d[\d.,]*|\.\d+)([eE][+-]?\d+)?\s*(%|[pnuµμm]?[Mg]\S*|\s\S{1,6}|[±(].*)?$"
)
"""A cell that tells a measured value: perhaps beyond the range of the assay (`>10`), or with its unit or error."""
_NUMBERING = re.compile(
    r"^$|(?i:^|[^a-z])(?i:id|num|number|no\.?|index|idx|name|unnamed: 0|#)$|(ID|Id|Name)$"
)
"""Headers of columns, also of whole numbers, that name molecules."""


def _is_smiles(line: str) -> bool:
    chem = require_rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return any(chem.MolFromSmiles(word, sanitize=False) is not None for word in line.split()[:1])


def _name_column(reader: TableReader, smiles: int) -> int | None:
    """The first other column of words that differ, or of whole numbers that do and stand before the SMILES.

    Decimal numbers and classes (`0`, `1`) are values. Words may repeat where no column's differ.
    """
    for share in (1.0, 0.5):
        for place, header in enumerate(reader.header):
            cells = [cells[place] for _, cells in reader.sample]
            known = {cell for cell in cells if not is_missing(cell)}
            if place == smiles or not known or len(known) < share * len(cells):
                continue
            words = sum(not is_number(cell) for cell in known)
            measured = (
                (0 < words < len(known) and place > smiles)
                or any(cell[0] in "<>=~≤≥" for cell in known)
                or all(map(MEASURED.match, known))
            )
            numbered = place < smiles or _NUMBERING.search(header) is not None
            if (words and not measured) or (share == 1 and numbered and all(map(str.isdecimal, known))):
                return place
    return None


_SDF_LOOK = 3000
"""Lines by which an SDF file shows itself: more than a molecule of 999 atoms has."""


def _sdf_records(path: Path) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The records of an SDF file: its properties are the columns."""
    lines: list[str] = []
    number = 0
    for line_number, line in read_lines(path):
        if line.strip() != "$$$$":
            lines.append(line)
            continue
        number += 1
        end = next((place for place, each in enumerate(lines) if each.startswith("M  END")), None)
        if end is None:
            raise FormatError(f"{path}:{line_number}: record {number} has no line `M  END`")
        columns: dict[str, str] = {}
        for place, each in enumerate(lines[end:], start=end):
            if each.startswith(">") and "<" in each and place + 1 < len(lines):
                columns[each[each.index("<") + 1 : each.rindex(">")]] = lines[place + 1].strip()
        named_by = next((each for each in columns if _NUMBERING.search(each)), "")
        name = lines[0].strip() or columns.pop(named_by, "") or f"molecule{number}"
        yield name, "\n".join(lines[: end + 1]) + "\n", columns
        lines = []
    if number == 0 and [line for line in lines if line.strip()][-1].startswith("M  END"):  # a MOL file
        yield lines[0].strip() or "molecule1", "\n".join(lines) + "\n", {}
    elif any(line.strip() for line in lines):
        raise FormatError(f"{path}: the last record does not end in $$$$; the file is cut off")


class Record(NamedTuple):
    """What became of a record."""

    name: str
    molecule: Molecule | None
    """None where it was left out."""
    reason: str = ""
    """Why it was left out."""
    columns: Mapping[str, str] = MappingProxyType({})
    """Further cells of one that was kept."""


def clean_molecules(
    records: Iterable[tuple[str, str, Mapping[str, str]]],
    path: Path,
    progress: Progress = SILENT,
    *,
    unique: bool = True,
) -> Iterator[Record]:
    """Clean molecules, given as name, SMILES or MOL block, and further cells, one after another.

    path: for messages. unique: of records of one molecule keep the first. Of records of one name the first is
    always kept.

    Raises: BioattnError when no molecule can be used.
    """
    require_rdkit()
    names, first_of = set[str](), dict[int, str]()
    first = ""
    progress.begin("molecules", None)
    for name, text, columns in records:
        progress.advance(1)
        try:
            if name in names:
                raise MoleculeError("the name occurs above already")
            names.add(name)
            molecule = read_molecule(text)
            # 64 bits in place of SMILES, which take a hundred bytes.
            same = first_of.setdefault(hash(molecule.smiles), name)
            if same != name and unique:
                raise MoleculeError(f"is the same molecule as {same}, whose values are learned")
            yield Record(name, molecule, "", columns)
        except MoleculeError as error:
            first = first or f"; the first: {name} {error}"
            yield Record(name, None, str(error))
    progress.end()
    if not first_of:
        raise BioattnError(f"{path}: no molecule can be used{first}")
