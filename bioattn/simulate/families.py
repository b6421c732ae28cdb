"""Simulated protein families with known contacts, written with the truth (`docs/formats/simulation.md`).

A family is a Potts model (Weigt et al. 2009) whose couplings stand at the contacts of a fold, evolved from one
root sequence by Gibbs updates while its lineages split. What is planted is therefore known exactly, and what a
tree adds to it, sequences that resemble each other by descent, is there as well.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from Bio.Data.PDBData import protein_letters_1to3
from numpy.typing import NDArray

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import write_a3m
from bioattn.formats.structure_file import CHAIN, StructureResidue, write_pdb
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.io.settings import require
from bioattn.simulate.description import FAMILIES_FORMAT, INDEX
from bioattn.structures.chain import read_chain
from bioattn.system.progress import SILENT, Progress, watched
from bioattn.text import counted

HELIX_RISE, HELIX_RADIUS, HELIX_TURN = 1.5, 3.3, np.deg2rad(100)
"""Å per residue, Å from the axis to C-beta, radians per residue."""
STRAND_RISE, STRAND_OFFSET = 3.3, 1.5
"""Å per residue, Å by which C-betas alternate above and below the sheet."""
STRAND_SPACING, HELIX_SPACING, LAYER_SPACING = 4.8, 9.5, 10.0
"""Å between neighbours within a sheet, within a layer of helices, and between layers."""
ATTEMPTS = 2000
"""Folds that are generated for one of the length asked for."""
LOOP_STEP = 3.3
"""Å a loop covers per residue."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One generated chain."""

    positions: NDArray[np.float64]
    """C-beta positions (R, 3) in Å."""
    structure: str
    """One letter per residue: H helix, E strand, C loop."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A place for one helix or strand; its axis runs along y, tilted with x as in twisted sheets."""

    kind: str
    x: float
    z: float


def generate_fold(random: np.random.Generator, *, min_length: int = 50, max_length: int = 130) -> Fold:
    """A random fold of `min_length` to `max_length` residues: layers of strands and helices in one of five
    arrangements, visited in an order that prefers neighbours.

    Raises: SettingsError when folds do not become so long.
    """
    longest = 0
    for _ in range(ATTEMPTS):
        points, letters = _chain(_slots(random), random)
        longest = max(longest, len(letters))
        if min_length <= len(letters):
            keep = min(len(letters), max_length)
            return Fold(points[:keep], "".join(letters[:keep]))
    raise SettingsError(
        f"--length {min_length}:{max_length} cannot be met: the longest of {ATTEMPTS} generated folds has "
        f"{longest} residues; ask for shorter ones"
    )


def _slots(random: np.random.Generator) -> list[_Slot]:
    strands, helices = int(random.integers(3, 7)), int(random.integers(2, 5))
    sheet = [_Slot("E", STRAND_SPACING * (k - (strands - 1) / 2), 0.0) for k in range(strands)]
    layer = [_Slot("H", HELIX_SPACING * (k - (helices - 1) / 2), LAYER_SPACING) for k in range(helices)]
    match random.integers(5):
        case 0:
            return [*layer, *(_Slot("H", s.x + HELIX_SPACING / 2, 1.5) for s in layer[: helices - 1])]
        case 1:
            return [*sheet, *(_Slot("E", s.x, LAYER_SPACING) for s in sheet[: max(2, strands - 1)])]
        case 2:
            return [*sheet, *layer]
        case 3:
            return [*sheet, *layer[:2], *(_Slot("H", s.x, -LAYER_SPACING) for s in layer[:2])]
        case _:
            return [*sheet, _Slot("H", float(random.normal(0, 3)), LAYER_SPACING)]


def _chain(left: list[_Slot], random: np.random.Generator) -> tuple[NDArray[np.float64], list[str]]:
    """C-beta points and structure letters along a chain that visits all slots."""
    order = [left.pop(int(random.integers(len(left))))]
    while left:
        distance = np.array([np.hypot(s.x - order[-1].x, s.z - order[-1].z) for s in left])
        chance = np.exp(-(distance - distance.min()) / 4.0)
        order.append(left.pop(int(random.choice(len(left), p=chance / chance.sum()))))
    points: list[NDArray[np.float64]] = []
    letters: list[str] = []
    up = bool(random.integers(2))
    twist = random.normal(-0.06, 0.02)
    end: NDArray[np.float64] | None = None
    heading = np.zeros(3)
    for slot in order:
        element, start, stop, direction = _element(slot, up, twist, random)
        if end is not None:
            # A loop is a curve that leaves and arrives along the axes of its neighbours.
            gap = float(np.linalg.norm(start - end))
            length = max(2, int(np.ceil(gap / LOOP_STEP)) - 1) + int(random.integers(0, 4))
            bend = 2.0 + LOOP_STEP * length / 3
            t = (np.arange(1, length + 1) / (length + 1))[:, None]
            one, two = end + bend * heading, start - bend * direction
            curve = (1 - t) ** 3 * end + 3 * t * (1 - t) ** 2 * one + 3 * t**2 * (1 - t) * two + t**3 * start
            points.append(curve + random.normal(0, 1.0, curve.shape))
            letters += "C" * length
        points.append(element)
        letters += slot.kind * len(element)
        end, heading = stop, direction
        up = not up if random.random() < 0.92 else up
    return np.concatenate(points), letters


def _element(
    slot: _Slot, up: bool, twist: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Points of one helix or strand, both ends of its axis, and the direction in which the chain runs."""
    helix = slot.kind == "H"
    length = int(random.integers(9, 19)) if helix else int(random.integers(4, 10))
    rise = HELIX_RISE if helix else STRAND_RISE
    along = rise * (np.arange(length) - (length - 1) / 2)
    if helix:
        along += random.normal(0, 2)
        turn = HELIX_TURN * np.arange(length) + random.uniform(0, 2 * np.pi)
        side_x, side_z = HELIX_RADIUS * np.cos(turn), HELIX_RADIUS * np.sin(turn)
    else:
        along += STRAND_RISE * random.integers(-1, 2)
        # Neighbouring strands point the same way at the same height, so the side follows from the height.
        side = np.where(np.round(along / STRAND_RISE).astype(int) % 2 == 0, 1.0, -1.0)
        side_x, side_z = np.zeros(length), STRAND_OFFSET * side
    if not up:
        along, side_x, side_z = along[::-1], side_x[::-1], side_z[::-1]
    angle = twist * slot.x + random.normal(0, 0.15 if helix else 0.03)
    axis = np.array([0.0, np.cos(angle), np.sin(angle)])
    across = np.array([0.0, -np.sin(angle), np.cos(angle)])
    centre = np.array([slot.x, 0.0, slot.z]) + random.normal(0, [0.2, 0.0, 0.3])
    line = centre + along[:, None] * axis
    element = line + side_x[:, None] * np.array([1.0, 0.0, 0.0]) + side_z[:, None] * across
    return element + random.normal(0, 0.25, element.shape), line[0], line[-1], axis if up else -axis


LETTERS = "ARNDCQEGHILKMFPSTWYV"
"""States 0..19; 20 is the gap."""
GAP = 20
_HYDROPATHY = np.array(
    [1.8, -4.5, -3.5, -3.5, 2.5, -3.5, -3.5, -0.4, -3.2, 4.5, 3.8, -3.9, 1.9, 2.8, -1.6, -0.8, -0.7, -0.9, -1.3,
     4.2]
)  # fmt: skip
"""Kyte & Doolittle 1982."""
_CHARGE = np.array([0, 1, 0, -1, 0, 0, -1, 0, 0.3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
_VOLUME = np.array(
    [88.6, 173.4, 114.1, 111.1, 108.5, 143.8, 138.4, 60.1, 153.2, 166.7, 166.7, 168.6, 162.9, 189.9, 112.7, 89.0,
     116.1, 227.8, 193.6, 140.0]
)  # fmt: skip
"""Å³, Zamyatnin 1972."""
_COMMON = np.array(
    [8.3, 5.5, 4.1, 5.5, 1.4, 3.9, 6.7, 7.1, 2.3, 5.9, 9.7, 5.8, 2.4, 3.9, 4.7, 6.6, 5.3, 1.1, 2.9, 6.9]
)  # fmt: skip
"""Amino acids per 100 residues of Swiss-Prot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySettings:
    """How a family is drawn from a fold."""

    depth: int = 1000
    """Sequences."""
    strength: float = 1.0
    """Scale of the couplings."""
    field: float = 0.9
    """Standard deviation of the fields that make columns conserved."""
    generations: int = 10
    """Rounds in which the lineages double, at most."""
    sweeps: float = 6.0
    """Gibbs updates per site from the root to a leaf."""
    tips: float = 0.6
    """Share of these updates after the last split: 1 gives unrelated sequences."""
    gaps: float = 0.06
    """Expected share of gaps."""
    contact_distance: float = 8.0
    """Å between C-betas below which a pair is coupled."""
    min_separation: int = 3
    """Smallest distance in the chain of a coupled pair."""

    def __post_init__(self) -> None:
        require(self, ("depth", "generations", "min_separation"), lambda number: number >= 1, "be at least 1")
        sizes = ("strength", "field", "sweeps", "contact_distance")
        require(self, sizes, lambda size: size >= 0, "not be negative")
        require(self, ("tips",), lambda share: 0 <= share <= 1, "lie in [0, 1]")
        require(self, ("gaps",), lambda share: 0 <= share < 0.9, "lie in [0, 0.9)")


@dataclass(frozen=True, slots=True)
class PottsModel:
    """Fields and couplings; a state's log odds at a site are its field plus the couplings to its neighbours."""

    fields: NDArray[np.float64]
    """(R, 20)."""
    pairs: NDArray[np.int64]
    """(P, 2) coupled sites, i < j."""
    couplings: NDArray[np.float64]
    """(P, 20, 20): first axis the state at i."""

    def neighbours(self) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """List for each site its coupled sites (K,) and their couplings (K, state there, state here)."""
        of_site: list[tuple[list[int], list[NDArray[np.float64]]]] = [([], []) for _ in self.fields]
        for (i, j), coupling in zip(self.pairs, self.couplings, strict=True):
            of_site[i][0].append(int(j))
            of_site[i][1].append(coupling.T)
            of_site[j][0].append(int(i))
            of_site[j][1].append(coupling)
        return [
            (np.array(sites, np.int64), np.array(blocks).reshape(len(sites), 20, 20))
            for sites, blocks in of_site
        ]


def contact_pairs(
    positions: NDArray[np.floating], *, distance: float = 8.0, min_separation: int = 3
) -> NDArray[np.int64]:
    """Pairs (P, 2) of residues, i < j, closer than `distance` Å and at least `min_separation` apart in the chain.

    Positions that are NaN are near nothing.
    """
    gap = np.linalg.norm(positions[:, None] - positions[None], axis=-1)
    i, j = np.nonzero(np.triu(gap < distance, min_separation))
    return np.stack([i, j], axis=1)


def potts_model(
    positions: NDArray[np.floating], settings: FamilySettings, random: np.random.Generator
) -> PottsModel:
    """A Potts model on the contacts of a fold: couplings that favour hydrophobic neighbours, opposite charges and
    complementary sizes, each with a random part; fields that bury hydrophobic residues where there are many
    contacts."""
    pairs = contact_pairs(
        positions, distance=settings.contact_distance, min_separation=settings.min_separation
    )
    columns = len(positions)
    degree = np.bincount(pairs.ravel(), minlength=columns).astype(float)
    burial = (degree - degree.mean()) / max(degree.std(), 1e-6)
    hydropathy, volume = ((scale - scale.mean()) / scale.std() for scale in (_HYDROPATHY, _VOLUME))
    fields = (
        np.log(_COMMON / _COMMON.sum())
        + settings.field * 0.6 * burial[:, None] * hydropathy
        + settings.field * random.gamma(1.0, 1.0, (columns, 1)) * random.normal(0, 1, (columns, 20))
    )
    alike = np.stack(
        [np.outer(hydropathy, hydropathy), -2 * np.outer(_CHARGE, _CHARGE), -np.outer(volume, volume)]
    )
    shares = random.gamma(1.0, 1.0, (len(pairs), 3))
    blocks = 0.25 * np.einsum("pk,kab->pab", shares, alike) + random.normal(0, 0.45, (len(pairs), 20, 20))
    blocks -= blocks.mean(1, keepdims=True)
    blocks -= blocks.mean(2, keepdims=True)
    scale = settings.strength * random.gamma(2.0, 0.5, (len(pairs), 1, 1))
    return PottsModel(fields, pairs, scale * blocks)


def sample_family(
    model: PottsModel, settings: FamilySettings, random: np.random.Generator
) -> NDArray[np.uint8]:
    """Aligned states (depth, R), 0..19 and 20 for gaps; the first row has none.

    The number of lineages doubles, with random parents, until there are `depth`; between splits every lineage gets
    its share of Gibbs updates. Gaps are runs that lineages inherit.
    """
    columns = len(model.fields)
    neighbours = model.neighbours()
    states = random.choice(20, size=(1, columns), p=_COMMON / _COMMON.sum())
    gaps = np.zeros((1, columns), bool)
    for _ in range(30):
        _update(states, np.arange(columns), model, neighbours, random)
    shared = (1 - settings.tips) / max(1, settings.generations - 1)
    # A run of gaps is 5 columns long on average and there is one chance for it per generation.
    opening = settings.gaps * columns / 5 / settings.generations
    for generation in range(settings.generations):
        left = settings.generations - 1 - generation
        lineages = max(len(states), int(np.ceil(settings.depth / 2**left))) if left else settings.depth
        parents = random.integers(len(states), size=lineages)
        parents[: min(len(states), lineages)] = np.arange(min(len(states), lineages))
        states, gaps = states[parents], gaps[parents]
        updates = round(settings.sweeps * columns * (shared if left else settings.tips))
        _update(states, random.integers(columns, size=updates), model, neighbours, random)
        for row in np.flatnonzero(random.random(len(gaps)) < opening):
            first = int(random.integers(columns))
            last = first + int(random.geometric(0.2))
            # Near the ends they reach the end, as fragments do.
            at_end = random.random() < 0.3
            if at_end and first < columns / 4:
                first, last = 0, first
            elif at_end and first > 0.75 * columns:
                last = columns
            gaps[row, first:last] = True
    gaps[0] = False
    return np.where(gaps, GAP, states).astype(np.uint8)


def _update(
    states: NDArray[np.int64],
    sites: NDArray[np.int64],
    model: PottsModel,
    neighbours: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
    random: np.random.Generator,
) -> None:
    """Redraw each of `sites` in turn in every row, given the rest of the row (Gibbs sampling), in place."""
    for site in sites:
        near, blocks = neighbours[site]
        odds = np.broadcast_to(model.fields[site], (len(states), 20)).copy()
        for other, block in zip(near, blocks, strict=True):
            odds += block[states[:, other]]
        # The largest of log odds plus Gumbel noise is a draw from them.
        odds -= np.log(random.exponential(size=odds.shape))
        states[:, site] = odds.argmax(1)


@dataclass(frozen=True, slots=True)
class SimulatedFamily:
    """One family and its truth."""

    states: NDArray[np.uint8]
    """(S, R): 0..19 amino acids in the order of `LETTERS`, 20 gap; the first row has no gap."""
    positions: NDArray[np.float64]
    """(R, 3) C-beta positions in Å."""
    structure: str
    """One letter per column: H, E or C for generated folds, `-` where the fold was given."""
    model: PottsModel


DEPTHS = (300, 1500)
"""Sequences of a family, at least and at most; as likely to lie in one octave as in another."""


def random_settings(
    random: np.random.Generator, *, depths: tuple[int, int] = DEPTHS, strength: float | None = None
) -> FamilySettings:
    """Draw settings that vary as real families do: weak to strong couplings, conserved or not, related or not.

    strength: the scale of the couplings, where it is not to be drawn.
    """
    low, high = np.log(depths[0]), np.log(depths[1])
    return FamilySettings(
        depth=max(1, int(np.exp(random.uniform(low, high)))),
        strength=float(random.uniform(0.45, 1.05)) if strength is None else strength,
        field=float(random.uniform(0.5, 1.1)),
        gaps=float(random.uniform(0.01, 0.1)),
        tips=float(random.uniform(0.4, 0.8)),
    )


def simulate_family(
    random: np.random.Generator,
    *,
    positions: NDArray[np.floating] | None = None,
    settings: FamilySettings | None = None,
    lengths: tuple[int, int] = (50, 110),
) -> SimulatedFamily:
    """Simulate a family on the fold `positions` (R, 3), or on a generated one of `lengths` residues."""
    structure = "-" * len(positions) if positions is not None else ""
    if positions is None:
        longest = int(random.integers(lengths[0], lengths[1] + 1))
        fold = generate_fold(random, min_length=lengths[0], max_length=longest)
        positions, structure = fold.positions, fold.structure
    chosen = settings or random_settings(random)
    model = potts_model(positions, chosen, random)
    states = sample_family(model, chosen, random)
    return SimulatedFamily(states, np.asarray(positions, np.float64), structure, model)


PAIRS = "PAIRS.tsv"
_FOLDERS = {"msa": "a3m", "structure": "pdb", "contacts": "tsv"}
"""Folders of families' files, and how the names in them end."""
_TITLE = "SIMULATED BY BIOATTN: A FOLD WITH CA AND CB, NO MEASURED STRUCTURE"
_CA_TO_CB = 1.53
"""Å."""
_ASCII = np.frombuffer((LETTERS + "-").encode(), np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySimulation:
    """Settings of a simulation of families."""

    families: int
    folds: Sequence[tuple[str, NDArray[np.float32]]] = ()
    """Names and CB positions (R, 3) of given folds, taken in turn; empty: every fold is generated."""
    depths: tuple[int, int] = DEPTHS
    """Sequences of a family, at least and at most."""
    lengths: tuple[int, int] = (50, 110)
    """Residues of a generated fold."""
    strength: float | None = None
    """Scale of the couplings; None: drawn for each family."""
    seed: int = 0


def read_folds(paths: Sequence[Path]) -> list[tuple[str, NDArray[np.float32]]]:
    """Read name and CB positions of the chain in each file; `FILE:CHAIN` names a chain where there are several.

    Raises: BioattnError naming the file that cannot be used.
    """
    folds = []
    for path in paths:
        chain = None
        if not path.exists() and ":" in path.name:
            name, _, chain = path.name.rpartition(":")
            path = path.with_name(name)
        structure = read_chain(path, chain, chosen_by=f"as {path}:CHAIN")
        if len(structure.letters) < 20:
            raise BioattnError(f"{path}: has {counted(len(structure), 'residue')}; a fold needs at least 20")
        folds.append((path.name.split(".")[0], structure.cb))
    return folds


def write_families(
    folder: Path, simulation: FamilySimulation, *, force: bool = False, progress: Progress = SILENT
) -> int:
    """Simulate and write families one by one; the folder appears whole or not at all. Returns their number.

    Family k is a function of the seed and k: asking for more of them leaves the first ones as they were.

    Raises: SettingsError and BioattnError as `check_output_folder`, when the folder holds files that are not a
    simulation's, or when the disk is full.
    """
    check_output_folder(folder, force=force)
    rows: list[str] = ["id\tmsa\tstructure\tchain\tgroup\n"]
    settings = []
    with atomic_folder(folder, own_names(_FOLDERS)) as partial:
        for name in _FOLDERS:
            (partial / name).mkdir()
        for number in watched(progress, "simulating families", range(simulation.families)):
            random = np.random.default_rng([simulation.seed, number])
            name = group = f"simulated{number:06d}"
            positions = None
            if simulation.folds:
                group, positions = simulation.folds[number % len(simulation.folds)]
            chosen = random_settings(random, depths=simulation.depths, strength=simulation.strength)
            family = simulate_family(random, positions=positions, settings=chosen, lengths=simulation.lengths)
            names = [f"{name}_{row}" for row in range(len(family.states))]
            alignment = Alignment.plain(names, _ASCII[family.states])
            write_a3m(alignment, partial / "msa" / f"{name}.a3m")
            residues = _residues(alignment.row(0), family.positions)
            write_pdb(partial / "structure" / f"{name}.pdb", residues, _TITLE)
            distance = np.linalg.norm(family.positions[:, None] - family.positions[None], axis=-1)
            with text_output(partial / "contacts" / f"{name}.tsv") as file:
                file.write("column_i\tcolumn_j\tdistance\tcoupling_norm\n")
                for (i, j), coupling in zip(family.model.pairs, family.model.couplings, strict=True):
                    norm = np.linalg.norm(coupling)
                    file.write(f"{i + 1}\t{j + 1}\t{distance[i, j]:.3f}\t{norm:.4f}\n")
            rows.append(f"{name}\tmsa/{name}.a3m\tstructure/{name}.pdb\t{CHAIN}\t{group}\n")
            settings.append({"id": name, "group": group, "structure": family.structure, **asdict(chosen)})
        with text_output(partial / PAIRS) as file:
            file.writelines(rows)
        head = {"format": FAMILIES_FORMAT, "format_version": 1, "seed": simulation.seed}
        write_json(partial / INDEX, {**head, "families": settings})
    return simulation.families


def own_names(folders: Mapping[str, str]) -> set[str]:
    """Names of the files of a simulation. folders: by name how the names of the files in them end."""
    samples = (f"{name}/simulated[0-9]*.{end}" for name, end in folders.items())
    return {PAIRS, INDEX, *samples}


def _residues(letters: str, cb: NDArray[np.float64]) -> list[StructureResidue]:
    """Residues 1..R. CA stands one bond from CB towards the middle of the chain nearby."""
    middle = np.stack([cb[max(0, i - 2) : i + 3].mean(axis=0) for i in range(len(cb))])
    inward = middle - cb
    inward /= np.maximum(np.linalg.norm(inward, axis=1, keepdims=True), 1e-6)
    ca = cb + _CA_TO_CB * inward
    residues = []
    for number, (letter, first, second) in enumerate(zip(letters, ca.tolist(), cb.tolist(), strict=True)):
        # Of glycine CA counts as CB.
        atoms = {"CA": second} if letter == "G" else {"CA": first, "CB": second}
        name = protein_letters_1to3[letter].upper()
        residues.append(StructureResidue(name=name, number=number + 1, atoms=atoms, confidence=0.0))
    return residues
