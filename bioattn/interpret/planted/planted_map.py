"""The planted sites of some promoters as masks over their bases."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.simulate.truth import CAUSAL, DECOY, PlantedSite
from bioattn.text import first_names


class PlantedMap:
    """The planted sites of promoters in a given order, with windows of one length.

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
                f"none of the promoters ({first_names(gene_ids)}) is in the truth table "
                f"({first_names([site.gene_id for site in sites])}); is it the truth of these promoters?"
            )
        if not any(site.treatment in numbers for site in sites):
            named = list(dict.fromkeys(site.treatment for site in sites if site.treatment))
            raise BioattnError(
                f"none of the treatments ({first_names(treatments)}) is in the truth table ({first_names(named)})"
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
        self._sites = pd.DataFrame(
            {
                "row": [genes[site.gene_id] for site in known],
                "treatment": [numbers.get(site.treatment, -1) for site in known],
                "causal": [site.role == CAUSAL for site in known],
                "decoy": [site.role == DECOY for site in known],
                "start": [site.start for site in known],
                "end": [site.end for site in known],
            }
        )

    def block(self, first: int, last: int) -> "PlantedBlock":
        """The promoters `first` to `last` (exclusive) of the order given."""
        low, high = np.searchsorted(self._sites["row"], [first, last])
        sites = self._sites.iloc[low:high]
        return PlantedBlock(sites.assign(row=sites["row"] - first), last - first, self.length)


class PlantedBlock:
    """Sites of a few promoters (rows), with masks made on demand."""

    def __init__(self, sites: pd.DataFrame, rows: int, length: int) -> None:
        """sites: columns row, treatment (number, -1 for none), causal, decoy, start and end."""
        self._sites, self._rows, self._length = sites, rows, length
        self.planted = self._paint(sites)
        """Bases of any planted site, shape (rows, length)."""
        self.decoys = self._paint(sites[sites["decoy"]])
        """Bases of decoys, shape (rows, length)."""

    def causal(self, treatment: int) -> NDArray[np.bool_]:
        """Bases of the sites that give the response to a treatment (its number), shape (rows, length)."""
        return self._paint(self._causal(treatment))

    def all_touched(self, treatment: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether every causal site of a treatment shares a base with `chosen` (rows, length): shape (rows,)."""
        sites = self._causal(treatment)
        running = np.concatenate([np.zeros((self._rows, 1), int), np.cumsum(chosen, axis=1)], axis=1)
        row = sites["row"].to_numpy()
        missed = running[row, sites["end"]] == running[row, sites["start"]]
        misses = np.bincount(row[missed], minlength=self._rows)
        return np.asarray(misses == 0)

    def _causal(self, treatment: int) -> pd.DataFrame:
        return self._sites[self._sites["causal"] & (self._sites["treatment"] == treatment)]

    def _paint(self, sites: pd.DataFrame) -> NDArray[np.bool_]:
        depth = np.zeros((self._rows, self._length + 1), dtype=np.int32)
        np.add.at(depth, (sites["row"], sites["start"]), 1)
        np.add.at(depth, (sites["row"], sites["end"]), -1)
        painted: NDArray[np.bool_] = np.cumsum(depth, axis=1)[:, :-1] > 0
        return painted
