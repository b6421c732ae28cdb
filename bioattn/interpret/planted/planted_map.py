"""The planted sites of some promoters as masks over their bases."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.simulate.truth import CAUSAL, DECOY, PlantedSite


class PlantedMap:
    """Truth of promoters in a given order, all seen through one window.

    A promoter that the truth table does not name holds nothing planted.
    """

    def __init__(
        self, sites: Sequence[PlantedSite], gene_ids: Sequence[str], treatments: Sequence[str], length: int
    ) -> None:
        """Index `sites` by promoter and treatment.

        Raises: BioattnError when truth and promoters, or truth and treatments, have no name in common, or when a
        site reaches beyond the window.
        """
        genes = {gene_id: number for number, gene_id in enumerate(gene_ids)}
        numbers = {treatment: number for number, treatment in enumerate(treatments)}
        known = [site for site in sites if site.gene_id in genes]
        if not known:
            raise BioattnError(
                f"none of the promoters ({_first(gene_ids)}) is in the truth table "
                f"({_first([site.gene_id for site in sites])}); is it the truth of these promoters?"
            )
        if not any(site.treatment in numbers for site in sites):
            named = list(dict.fromkeys(site.treatment for site in sites if site.treatment))
            raise BioattnError(
                f"none of the treatments ({_first(treatments)}) is in the truth table ({_first(named)})"
            )
        beyond = next((site for site in known if site.end > length), None)
        if beyond is not None:
            raise BioattnError(
                f"{beyond.gene_id}: {beyond.motif} at {beyond.start}-{beyond.end} reaches beyond the window of "
                f"{length:,} bases; prepare the promoters with the --upstream they were simulated for"
            )
        self.length = length
        self.treatments = list(treatments)
        self.covered = max(site.end for site in known)
        """Largest end of a site; far less than `length` when the windows are not the simulated ones."""
        known.sort(key=lambda site: genes[site.gene_id])
        self._gene = np.array([genes[site.gene_id] for site in known])
        self._treatment = np.array([numbers.get(site.treatment, -1) for site in known])
        self._causal = np.array([site.role == CAUSAL for site in known])
        self._decoy = np.array([site.role == DECOY for site in known])
        self._start = np.array([site.start for site in known])
        self._end = np.array([site.end for site in known])

    def block(self, first: int, last: int) -> "PlantedBlock":
        """The promoters `first` to `last` (exclusive) of the order given."""
        low, high = np.searchsorted(self._gene, [first, last])
        part = slice(int(low), int(high))
        return PlantedBlock(
            rows=last - first,
            length=self.length,
            row=self._gene[part] - first,
            treatment=self._treatment[part],
            causal=self._causal[part],
            decoy=self._decoy[part],
            start=self._start[part],
            end=self._end[part],
        )


class PlantedBlock:
    """Sites of a few promoters (rows), with masks made on demand."""

    def __init__(
        self,
        *,
        rows: int,
        length: int,
        row: NDArray[np.int64],
        treatment: NDArray[np.int64],
        causal: NDArray[np.bool_],
        decoy: NDArray[np.bool_],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
    ) -> None:
        self._rows, self._length = rows, length
        self._row, self._treatment, self._start, self._end = row, treatment, start, end
        self._causal_site = causal
        self.planted = self._paint(np.ones(row.size, dtype=np.bool_))
        """Bases of any planted site, shape (rows, length)."""
        self.decoys = self._paint(decoy)
        """Bases of decoys, shape (rows, length)."""

    def causal(self, treatment: int) -> NDArray[np.bool_]:
        """Bases of the sites that give the response to a treatment (its number), shape (rows, length)."""
        return self._paint(self._causal_site & (self._treatment == treatment))

    def all_touched(self, treatment: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether every causal site of a treatment shares a base with `chosen` (rows, length): shape (rows,)."""
        sites = np.flatnonzero(self._causal_site & (self._treatment == treatment))
        running = np.concatenate([np.zeros((self._rows, 1), int), np.cumsum(chosen, axis=1)], axis=1)
        row = self._row[sites]
        missed = running[row, self._end[sites]] == running[row, self._start[sites]]
        misses = np.bincount(row[missed], minlength=self._rows)
        return np.asarray(misses == 0)

    def _paint(self, sites: NDArray[np.bool_]) -> NDArray[np.bool_]:
        depth = np.zeros((self._rows, self._length + 1), dtype=np.int32)
        np.add.at(depth, (self._row[sites], self._start[sites]), 1)
        np.add.at(depth, (self._row[sites], self._end[sites]), -1)
        painted: NDArray[np.bool_] = np.cumsum(depth, axis=1)[:, :-1] > 0
        return painted


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
