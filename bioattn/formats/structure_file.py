"""PDB and mmCIF files: what readers and painters see alike, and what is written: a predicted chain with pLDDT as
B-factor, and other B-factors in a given file.

PDB: wwPDB format 3.3, whose fields are fixed-width: what does not fit is refused. mmCIF: PDBx/mmCIF and ModelCIF.
A residue without atoms, `UNK`, stands in the sequence (SEQRES) only.

B-factors: columns 61-66 of ATOM and HETATM records of PDB, the column `B_iso_or_equiv` of `_atom_site` of mmCIF,
added where it is absent; all else is kept, but categories of mmCIF are written anew by Biopython, without
comments. Atoms go by the author's chain, residue number and insertion code.
"""

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from Bio.PDB.MMCIF2Dict import MMCIF2Dict

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.files import atomic_output, decompression_errors, open_bytes, text_output

_BLOCK = re.compile(r"^[ \t\ufeff]*(data_)", re.MULTILINE | re.IGNORECASE)
AUTHOR_KEY = (("auth_asym_id", "label_asym_id"), ("auth_seq_id", "label_seq_id"), ("pdbx_PDB_ins_code",))
"""Chain, number and insertion code of the authors, or what stands for them."""


def residue_number(text: str) -> int:
    """A residue's number; numbers of four characters from 10,000 are hybrid-36 (cci.lbl.gov/hybrid_36).

    >>> [residue_number(text) for text in ("-5", "A000", "a000")]
    [-5, 10000, 1223056]

    Raises: ValueError for what is neither.
    """
    if len(text) == 4 and text[0].isalpha() and text.isalnum() and (text.isupper() or text.islower()):
        return int(text, 36) + 10**4 + (-10 if text.isupper() else 16) * 36**3
    return int(text)


def is_mmcif(text: str) -> bool:
    """Whether text is mmCIF rather than PDB."""
    return "\n_atom_site." in text or _BLOCK.match(text.lstrip("\ufeff \t\r\n#")) is not None


def read_block(text: str) -> tuple[dict[str, Any], int, int]:
    """The items of the first data block with atoms, and where in the text it begins and ends.

    Biopython's reader takes later blocks for more of the first. Raises: ValueError and others, as
    it does, for what is damaged.
    """
    starts = [match.start(1) for match in _BLOCK.finditer(text)] or [0]
    blocks = list(zip(starts, [*starts[1:], len(text)], strict=True))
    begin, end = next((block for block in blocks if "_atom_site." in text[slice(*block)]), blocks[0])
    return MMCIF2Dict(io.StringIO("data_" + text[begin + len("data_") : end])), begin, end


def atom_column(block: dict[str, Any], names: Sequence[str], *, needed: bool = False) -> list[str]:
    """An item of every atom, that of the first name that has a value; "" where none has.

    Raises: KeyError where it is `needed` and the block has none of the names; IndexError where a row ends early.
    """
    columns = [block[f"_atom_site.{name}"] for name in names if f"_atom_site.{name}" in block]
    if needed and not columns:
        raise KeyError(f"_atom_site.{names[0]}")
    cells = [""] * len(block["_atom_site.Cartn_x"])
    for column in columns:
        if len(column) != len(cells):
            raise IndexError("an atom has fewer values than columns")
        cells = [a or ("" if b in (".", "?") else b) for a, b in zip(cells, column, strict=True)]
    return cells


# --- a predicted chain ---

CHAIN = "A"


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureResidue:
    """One residue of a predicted chain."""

    name: str
    """Three-letter name, `UNK` for an unknown residue."""
    number: int
    """Residue number, as in `auth_seq_id`; unique in its chain."""
    atoms: Mapping[str, tuple[float, float, float]]
    """Å by PDB atom name, in the order they are written; the name begins with the element's one letter."""
    confidence: float
    """pLDDT, 0..100; written as B-factor."""


_SEQRES_RESIDUES = 13
_LARGEST_SERIAL = 99_999
_LARGEST_SEQRES = 9_999
_NUMBERS = range(-999, 10_000)
_COORDINATES = (-999.9995, 9999.9995)
PREDICTED = "PREDICTED BY BIOATTN; THE B-FACTOR IS THE PLDDT, 0 TO 100"


class PdbRoomError(BioattnError):
    """The PDB format has no room for a chain; mmCIF has."""


def write_pdb(path: Path, residues: Sequence[StructureResidue], title: str = PREDICTED) -> None:
    """Write one chain, `A`, atomically. title: at most 70 characters that say what this is.

    Raises: PdbRoomError when residues or atoms are more, or numbers or coordinates larger, than the format has
    room for; BioattnError when the file cannot be written.
    """
    num_atoms = sum(len(residue.atoms) for residue in residues)
    # TER takes a serial number too.
    if num_atoms + 1 > _LARGEST_SERIAL or len(residues) > _LARGEST_SEQRES:
        raise PdbRoomError(
            f"{path}: {len(residues):,} residues with {num_atoms:,} atoms are more than the PDB format has room "
            "for; write mmCIF"
        )
    for residue in residues:
        where = f"{path}: residue {residue.name} {residue.number}"
        if residue.number not in _NUMBERS:
            raise PdbRoomError(f"{where}: the PDB format has no room for its number; write mmCIF")
        least, most = _COORDINATES
        if any(not least < value < most for position in residue.atoms.values() for value in position):
            raise PdbRoomError(f"{where}: the PDB format has no room for its coordinates; write mmCIF")
    with text_output(path) as file:
        file.writelines(f"{line:<80}\n" for line in _pdb_lines(residues, title))


def _pdb_lines(residues: Sequence[StructureResidue], title: str) -> Iterator[str]:
    yield f"TITLE     {title}"
    for start in range(0, len(residues), _SEQRES_RESIDUES):
        names = " ".join(residue.name for residue in residues[start : start + _SEQRES_RESIDUES])
        yield f"SEQRES{start // _SEQRES_RESIDUES + 1:>4} {CHAIN}{len(residues):>5}  {names}"
    serial = 0
    last = None
    for residue in residues:
        for atom, (x, y, z) in residue.atoms.items():
            serial += 1
            last = residue
            # A one-letter element stands in column 14, so a name of up to three letters begins there.
            yield (
                f"ATOM  {serial:>5} {f' {atom}':<4} {residue.name:>3} {CHAIN}{residue.number:>4}    "
                f"{x:8.3f}{y:8.3f}{z:8.3f}{1:6.2f}{residue.confidence:6.2f}          {atom[0]:>2}"
            )
    if last is not None:
        yield f"TER   {serial + 1:>5}      {last.name:>3} {CHAIN}{last.number:>4}"
    yield "END"


Value = str | int


def write_mmcif(path: Path, residues: Sequence[StructureResidue], *, name: str) -> None:
    """Write one chain, `A`, atomically; name: of the data block (characters that may not stand there become `_`).

    Raises: BioattnError when the file cannot be written.
    """
    block = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name) or "model"
    with text_output(path) as file:
        file.writelines(line + "\n" for line in _mmcif_lines(block, residues))


def _mmcif_lines(block: str, residues: Sequence[StructureResidue]) -> Iterator[str]:
    numbered = list(enumerate(residues, start=1))
    yield f"data_{block}"
    yield f"_entry.id {block}"
    yield from _loop("entity", "id type src_method", [(1, "polymer", "man")])
    yield from _loop(
        "entity_poly",
        "entity_id type nstd_linkage nstd_monomer pdbx_strand_id",
        [(1, "'polypeptide(L)'", "no", "no", CHAIN)],
    )
    yield from _loop(
        "entity_poly_seq",
        "entity_id num mon_id hetero",
        ((1, place, residue.name, "n") for place, residue in numbered),
    )
    yield from _loop("struct_asym", "id entity_id", [(CHAIN, 1)])
    yield from _loop(
        "pdbx_poly_seq_scheme",
        "asym_id entity_id seq_id mon_id pdb_seq_num pdb_strand_id pdb_ins_code hetero",
        ((CHAIN, 1, place, each.name, each.number, CHAIN, ".", "n") for place, each in numbered),
    )
    yield from _loop(
        "ma_qa_metric", "id name type mode", [(1, "pLDDT", "pLDDT", "global"), (2, "pLDDT", "pLDDT", "local")]
    )
    if residues:
        mean = sum(residue.confidence for residue in residues) / len(residues)
        yield from _loop(
            "ma_qa_metric_global", "ordinal_id model_id metric_id metric_value", [(1, 1, 1, f"{mean:.2f}")]
        )
    yield from _loop(
        "ma_qa_metric_local",
        "ordinal_id model_id label_asym_id label_seq_id label_comp_id metric_id metric_value",
        ((place, 1, CHAIN, place, each.name, 2, f"{each.confidence:.2f}") for place, each in numbered),
    )
    yield from _loop(
        "atom_site",
        "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_entity_id "
        "label_seq_id pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy B_iso_or_equiv "
        "auth_seq_id auth_comp_id auth_asym_id auth_atom_id pdbx_PDB_model_num",
        _atoms(residues),
    )


def _atoms(residues: Sequence[StructureResidue]) -> Iterator[tuple[Value, ...]]:
    serial = 0
    for place, residue in enumerate(residues, start=1):
        for atom, (x, y, z) in residue.atoms.items():
            serial += 1
            yield (
                *("ATOM", serial, atom[0], atom, ".", residue.name, CHAIN, 1, place, "?"),
                *(f"{x:.3f}", f"{y:.3f}", f"{z:.3f}", "1.00", f"{residue.confidence:.2f}"),
                *(residue.number, residue.name, CHAIN, atom, 1),
            )


def _loop(category: str, items: str, rows: Iterable[Sequence[Value]]) -> Iterator[str]:
    """A table with the columns `items`, apart by blanks; nothing where it has no rows, which mmCIF forbids."""
    for number, row in enumerate(rows):
        if number == 0:
            yield "#"
            yield "loop_"
            yield from (f"_{category}.{item}" for item in items.split())
        yield " ".join(map(str, row))


# --- B-factors of a given file ---

PDB_SUFFIXES = (".pdb", ".ent")
MMCIF_SUFFIXES = (".cif", ".mmcif")
WITHOUT_VALUE = -1.0
"""B-factor of the atoms of residues that have none; what is painted is 0 or more."""


class ResidueKey(NamedTuple):
    """A residue as the authors name it."""

    chain: str
    """`_` for the blank chain."""
    number: int
    insertion_code: str
    """ "" where there is none."""


def write_bfactors(
    source: Path, output: Path, values: Mapping[ResidueKey, float], atoms: Collection[int] | None = None
) -> int:
    """Copy the structure `source` to `output` with these B-factors; returns how many atoms got one of them.

    values: -99 to 999 by residue; atoms of other residues get `WITHOUT_VALUE`. All models are painted alike. A
    packed source (gzip, xz) is written plain. atoms: numbers, in a model from 0, of those that are painted, where
    copies share a chain's name; None = all.

    Raises: BioattnError when the output's name says another format than the source has; FormatError when the
    source is neither PDB nor mmCIF, or its mmCIF has no atoms.
    """
    with open_bytes(source) as raw, decompression_errors(source):
        content = raw.read()
    text = content.decode("utf-8", "replace")
    mmcif = is_mmcif(text)
    require_structure_name(output, is_mmcif=mmcif)
    painted = 0

    def value_of(place: int, chain: str, number: str, code: str) -> float:
        nonlocal painted
        try:
            if atoms is not None and place not in atoms:
                return WITHOUT_VALUE
            value = values.get(ResidueKey(chain.strip() or "_", residue_number(number.strip()), code.strip()))
        except ValueError:  # waters may have no number
            value = None
        painted += value is not None
        return WITHOUT_VALUE if value is None else value

    content = _mmcif(source, text, value_of) if mmcif else b"".join(_pdb(content, value_of))
    with atomic_output(output) as temporary:
        temporary.write_bytes(content)
    return painted


def require_structure_name(output: Path, *, is_mmcif: bool | None = None) -> None:
    """Check the name of a structure file.

    Raises: SettingsError when it ends in neither .pdb nor .cif; BioattnError when the source has the other format.
    """
    suffix = output.suffix.lower()
    if suffix not in (*PDB_SUFFIXES, *MMCIF_SUFFIXES):
        raise SettingsError(f"--output {output}: end its name in .pdb or .cif, as that of the structure")
    if is_mmcif is not None and (suffix in MMCIF_SUFFIXES) != is_mmcif:
        has = "mmCIF; end the name in .cif" if is_mmcif else "PDB; end the name in .pdb"
        raise BioattnError(f"--output {output}: the structure is {has}, formats are not converted")


def _pdb(content: bytes, value_of: Callable[[int, str, str, str], float]) -> Iterator[bytes]:
    place = 0
    for line in content.splitlines(keepends=True):
        if line.startswith((b"ATOM  ", b"HETATM")):
            text = line.rstrip(b"\r\n")
            residue = text[21:27].decode("ascii", "replace")
            value = b"%6.2f" % value_of(place, residue[:1], residue[1:5], residue[5:])
            place += 1
            line = text[:60].ljust(60) + value + text[66:] + line[len(text) :]
        elif line.startswith(b"MODEL "):
            place = 0
        yield line


def _mmcif(source: Path, text: str, value_of: Callable[[int, str, str, str], float]) -> bytes:
    from Bio.PDB.mmcifio import MMCIFIO

    writer, painted = MMCIFIO(), io.StringIO()
    try:
        block, begin, end = read_block(text)
        *keys, models = (atom_column(block, names) for names in (*AUTHOR_KEY, ["pdbx_PDB_model_num"]))
        places = [place - models.index(model) for place, model in enumerate(models)]
        bfactors = [f"{value_of(*key):.2f}" for key in zip(places, *keys, strict=True)]
        # Biopython cannot write a value without letters.
        written = {name: [cell or "?" for cell in cells] for name, cells in block.items() if name != "data_"}
        writer.set_dict(block | written | {"_atom_site.B_iso_or_equiv": bfactors})
        writer.save(painted)
    except (ValueError, LookupError) as error:
        raise FormatError(f"{source}: cannot be read as mmCIF ({error}); fetch the file again") from error
    return (text[:begin] + painted.getvalue() + text[end:]).encode()
