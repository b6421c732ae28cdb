"""The families a run learns from: those of a contact dataset, with their sequence weights, and simulated ones."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bioattn.alignments.alphabet import GAP, RESIDUES
from bioattn.alignments.contact_dataset import TRAIN, ContactProtein
from bioattn.alignments.couplings import column_states, covariance_features
from bioattn.alignments.input_features import column_profile
from bioattn.alignments.weights import sequence_weights
from bioattn.errors import BioattnError
from bioattn.models.evoformer.training.config import MOSTLY_GAPS
from bioattn.simulate.families import simulate_family
from bioattn.system.progress import NoProgress, Progress

_LETTERS = np.frombuffer((RESIDUES + "X-").encode(), np.uint8)


@dataclass(eq=False)
class TrainingFamily:
    """A protein of a contact dataset and what is computed once for all its samples."""

    protein: ContactProtein

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """(S,) sequence weights at 80 % identity."""
        return sequence_weights(_LETTERS[self.protein.msa], threads=1)

    @cached_property
    def profile(self) -> NDArray[np.float32]:
        """(R, 22) share of each class in each column."""
        return column_profile(self.protein.msa)

    @cached_property
    def columns(self) -> NDArray[np.intp]:
        """The columns a model sees when the first row is the target: C of R."""
        return target_columns(self.protein.msa, 0)

    @cached_property
    def covariance(self) -> NDArray[np.float32]:
        """(C, C, 3) covariance features of `columns`, over all rows."""
        return covariance_features(column_states(self.protein.msa[:, self.columns]), self.weights)

    def covariance_of(self, columns: NDArray[np.integer]) -> NDArray[np.float32]:
        """The covariance features of some of `columns`."""
        places = np.searchsorted(self.columns, columns)
        return np.ascontiguousarray(self.covariance[np.ix_(places, places)])


def target_columns(msa: NDArray[np.uint8], target: int) -> NDArray[np.intp]:
    """Columns where row `target` has a residue, or most rows have."""
    return np.flatnonzero((msa[target] != GAP) | ((msa == GAP).mean(axis=0) < MOSTLY_GAPS))


class SimulatedFamilies:
    """Simulated families by number; each is a function of (seed, number) and made when first asked for."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed = seed
        self.number = number
        self._made: dict[int, TrainingFamily] = {}

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> TrainingFamily:
        if index not in self._made:
            self._made[index] = TrainingFamily(simulated_protein(self.seed, index))
        return self._made[index]


def simulated_protein(seed: int, number: int) -> ContactProtein:
    """Simulated family `number` in the form of a contact dataset."""
    family = simulate_family(np.random.default_rng([seed, number]))
    gap_state = len(RESIDUES)
    msa = np.where(family.states == gap_state, GAP, family.states).astype(np.uint8)
    name = f"simulated{number:06d}"
    return ContactProtein(
        id=name,
        group=name,
        split=TRAIN,
        chain="A",
        msa=msa,
        deletions=csr_array(np.zeros(msa.shape, np.int32)),
        aatype=msa[0].astype(np.int32),
        cb=family.positions.astype(np.float32),
        residue_numbers=[str(column + 1) for column in range(msa.shape[1])],
    )


def load_families(
    proteins: Iterable[ContactProtein], total: int, *, covariance: bool, progress: Progress | None = None
) -> list[TrainingFamily]:
    """Families with their weights, and with `covariance` their features, computed.

    Raises: BioattnError naming a protein that no pair of columns with known distance is left of.
    """
    progress = progress or NoProgress()
    families = []
    progress.begin("reading families", total)
    for protein in proteins:
        family = TrainingFamily(protein)
        if int(protein.mapped.sum()) < 2:
            raise BioattnError(
                f"protein {protein.id!r}: fewer than two columns have a residue in the structure"
            )
        _ = family.weights
        if covariance:
            _ = family.covariance
        families.append(family)
        progress.advance()
    progress.end()
    return families
