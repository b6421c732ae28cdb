"""Of networks and the best simple model, the mean that is best on validation genes."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np

from bioattn.models.promoter.training.ridge import Matrix

LARGE_SHARE = 0.75
"""Of the simple model in a mean, tried beside an equal one."""
CHOSEN_BY = ("pearson", "specific_pearson", "auroc")
"""Figures of `summarise`."""


class Candidate(NamedTuple):
    """A mean of networks and the best simple model."""

    figures: Mapping[str, float]
    """On validation genes."""
    networks: tuple[str, ...]
    share: float
    """Of the simple model."""
    simple: str

    @property
    def score(self) -> float:
        """What the choice goes by: the mean of the figures that `CHOSEN_BY` names.

        The median r alone would leave out a member that adds what differs between treatments alone.
        """
        return float(np.mean([self.figures[name] for name in CHOSEN_BY if name in self.figures]))

    def __str__(self) -> str:
        networks = " and ".join(self.networks)
        if self.share:
            return f"{1 - self.share:.0%} {networks} with {self.share:.0%} {self.simple}"
        return f"{networks} alone" if len(self.networks) == 1 else f"mean of {networks}"


def candidates(
    networks: Mapping[str, Matrix],
    simple: tuple[str, Matrix] | None,
    figures: Callable[[Matrix], Mapping[str, float]],
) -> list[Candidate]:
    """All means that hold a network, with the figures of each: the first network alone comes first.

    networks: predictions (validation genes, treatments) by name. simple: name and predictions of the simple model,
    where it can be a member. figures: those of predictions.
    """
    found = []
    for size in range(1, len(networks) + 1):
        for names in combinations(networks, size):
            mean_GT = np.mean([networks[name] for name in names], axis=0)
            found.append(Candidate(figures(mean_GT), names, 0.0, ""))
            if simple is not None:
                name, simple_GT = simple
                for share in (1 / (size + 1), LARGE_SHARE):
                    mixed_GT = (1 - share) * mean_GT + share * simple_GT
                    found.append(Candidate(figures(mixed_GT), names, share, name))
    return found
