"""Scripts for ChimeraX and PyMOL that colour a painted structure and draw lines between residues."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bioattn.formats.bfactors import ResidueKey
from bioattn.interpret.choices import ScriptFormat
from bioattn.io.files import text_output
from bioattn.structures.chain import BLANK_CHAIN

_COLOUR = "D55E00"


class ResidueLine(NamedTuple):
    """A line from CA to CA."""

    first: ResidueKey
    second: ResidueKey
    weight: float
    """As a share of the largest, 0..1; decides the width."""


def write_script(path: Path, format: ScriptFormat, structure: Path, lines: Sequence[ResidueLine]) -> None:
    """Write a script that opens `structure`, which lies in the same folder, and draws `lines`.

    Commands are those of the ChimeraX user guide (open, color byattribute, pbond) and of the PyMOL reference
    (load, spectrum, distance). ChimeraX takes its model 1, so the script is for a new session; it opens files from
    the folder of the script, PyMOL from where it runs.

    Raises: BioattnError when the script cannot be written.
    """
    commands = _chimerax if format is ScriptFormat.CXC else _pymol
    with text_output(path) as file:
        file.writelines(command + "\n" for command in commands(structure.name, lines))


def _chimerax(structure: str, lines: Sequence[ResidueLine]) -> Iterator[str]:
    yield f'open "{structure}" maxModels 1'
    yield "hide #1 atoms\nshow #1 cartoons\ncolor #1 gray"
    yield "color byattribute bfactor #1 & @@bfactor>=0 palette white:blue range 0,100"
    for line in lines:
        ends = " ".join(_chimerax_atom(key) for key in (line.first, line.second))
        yield f"pbond {ends} color #{_COLOUR} radius {0.05 + 0.4 * line.weight:.3f} dashes 0 name attention"


def _chimerax_atom(key: ResidueKey) -> str:
    chain = "" if key.chain == BLANK_CHAIN else f"/{key.chain}"
    return f"#1{chain}:{key.number}{key.insertion_code}@CA"


def _pymol(structure: str, lines: Sequence[ResidueLine]) -> Iterator[str]:
    yield f'load "{structure}", painted\nhide everything, painted\nshow cartoon, painted\ncolor gray70, painted'
    yield "spectrum b, white_blue, painted and b > -0.5, minimum=0, maximum=100"
    yield f"set dash_color, 0x{_COLOUR}\nset dash_gap, 0"
    for number, line in enumerate(lines, start=1):
        ends = ", ".join(_pymol_atom(key) for key in (line.first, line.second))
        yield f"distance attention_{number}, {ends}, label=0"
        yield f"set dash_width, {0.5 + 6 * line.weight:.2f}, attention_{number}"


def _pymol_atom(key: ResidueKey) -> str:
    chain = "''" if key.chain == BLANK_CHAIN else key.chain
    residue = f"{key.number}{key.insertion_code}".replace("-", "\\-")
    return f"first (painted and chain {chain} and resi {residue} and name CA)"
