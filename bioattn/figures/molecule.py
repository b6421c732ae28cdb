"""Molecules with atoms coloured by attention, or by what they contribute to a prediction."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.choices import not_there, require_names
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import style
from bioattn.molecules.chemistry import atom_map, require_rdkit
from bioattn.store.reader import Attention

ATOM = "atom"
_ROOM = 0.8
"""Bond lengths around a drawing."""


class ColouredMolecule(NamedTuple):
    """A molecule and a number for each atom, in the order of the SMILES."""

    title: str
    smiles: str
    values: NDArray[np.float64]
    signed: bool
    """Whether they are contributions, which may be negative, or attention."""


def read_coloured_molecule(
    attention: Attention, *, sample: str | None = None, show: Sequence[str] = (), by_attention: bool = False
) -> ColouredMolecule:
    """The atoms of one molecule: the mean of attention over heads, or contributions, both by `atom_map`.

    sample: None = the first. show: the task whose contributions are drawn; none = the first.

    Raises: SettingsError for several tasks, or one with attention; BioattnError when the file holds other samples,
    no such sample or task, or no attention over atoms.
    """
    names = attention.samples.index.tolist()
    chosen = names[0] if sample is None else sample
    if chosen not in names:
        raise not_there("--sample", chosen, attention.path, "molecule", names)
    tasks, values_TRA = attention.atom_contributions(chosen)
    smiles = str(attention.samples.loc[chosen, "smiles"])
    if len(show) > (not by_attention):
        raise SettingsError("--show names one task of contributions; attention is the same for all tasks")
    if not by_attention:
        require_names("--show", show, tasks, attention.path, "task")
        place = tasks.index(show[0]) if show else 0
        values = atom_map(values_TRA[place], smiles, centred=True)
        return ColouredMolecule(f"{chosen}: contributions to {tasks[place]}", smiles, values, signed=True)
    infos = attention.sites.values()
    sites = [info.name for info in infos if info.kind(info.dims[-1]) == ATOM and "query" not in info.dims]
    if not sites:
        raise BioattnError(
            f"{attention.path}: no head attends to atoms, as those of a fingerprint attend to slots; "
            "draw contributions"
        )
    weights_RHA = attention.weights(sites[0], sample=chosen)
    if weights_RHA.ndim != 3:
        raise BioattnError(
            f"{attention.path}: attention was reduced when it was exported; export it without --reduce"
        )
    mean_A = atom_map(weights_RHA.mean(1), smiles, centred=False) / len(weights_RHA)
    return ColouredMolecule(f"{chosen}: attention, mean over heads", smiles, mean_A, signed=False)


@style.figure_style()
def draw_molecule(molecule: ColouredMolecule, width: float) -> Figure:
    """Bonds as lines, atoms as discs coloured by their values; carbon has no letter.

    width: millimetres. Raises: BioattnError without RDKit, which lays the molecule out.
    """
    chem = require_rdkit()
    from rdkit.Chem import rdDepictor

    mol = chem.MolFromSmiles(molecule.smiles)
    chem.Kekulize(mol)
    rdDepictor.Compute2DCoords(mol)
    places = np.array(mol.GetConformer().GetPositions())[:, :2]
    low, high = places.min(0) - _ROOM, places.max(0) + _ROOM
    height = min(width, 25 + (width - 15) * float((high - low)[1] / (high - low)[0]))
    figure = style.new_figure(width, height)
    axis = figure.subplots()
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axis.add_collection(LineCollection(_lines(mol, places), colors=style.GREY, linewidths=1.0, zorder=1))
    largest = float(np.abs(molecule.values).max()) or 1.0
    discs = axis.scatter(
        places[:, 0],
        places[:, 1],
        c=molecule.values,
        cmap=style.DIVERGING if molecule.signed else style.SEQUENTIAL,
        vmin=-largest if molecule.signed else 0.0,
        vmax=largest,
        s=110,
        zorder=2,
        edgecolors="none",
    )
    for atom, place in zip(mol.GetAtoms(), places, strict=True):
        if atom.GetSymbol() != "C" or atom.GetFormalCharge():
            charge = {0: "", 1: "+", -1: "−"}.get(atom.GetFormalCharge(), f"{atom.GetFormalCharge():+d}")
            axis.text(
                float(place[0]),
                float(place[1]),
                atom.GetSymbol() + charge,
                ha="center",
                va="center",
                fontsize=style.FONT_SIZE,
                bbox={"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7},
            )
    label = "contribution" if molecule.signed else "attention weight"
    style.colour_bar(figure, discs, axis, label, molecule.values, shrink=0.7)
    style.set_title(figure, molecule.title)
    return figure


def _lines(mol: "object", places: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    lines = []
    for bond in mol.GetBonds():  # type: ignore[attr-defined]
        ends = places[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
        along = ends[1] - ends[0]
        across = np.array([-along[1], along[0]]) / max(1e-9, float(np.hypot(*along)))
        number = int(bond.GetBondTypeAsDouble())
        lines += [ends + 0.2 * (each - (number - 1) / 2) * across for each in range(number)]
    return lines
