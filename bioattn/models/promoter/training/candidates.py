"""Of networks and the best simple model, the mean that validation genes call for."""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bioattn.models.promoter.training.ridge import Matrix

Figures: TypeAlias = Callable[[Matrix, NDArray[np.int64]], Mapping[str, float]]

LARGE_SHARE = 0.75
"""Of the simple model in a mean, tried beside an equal one."""
RESAMPLES = 50
"""Of the validation genes, for the standard error of a gain."""
CHOSEN_BY = ("pearson", "specific_pearson", "auroc")
"""Figures of `summarise`."""


def score(figures: Mapping[str, float]) -> float:
    """What the choice goes by: the mean of the figures that `CHOSEN_BY` names.

    The median r alone would leave out a member that adds what differs between treatments alone.
    """
    return float(np.mean([figures[name] for name in CHOSEN_BY if name in figures]))


class Candidate(NamedTuple):
    """A mean of networks and the best simple model."""

    predicted_GT: Matrix
    figures: Mapping[str, float]
    """On validation genes."""
    networks: tuple[str, ...]
    share: float
    """Of the simple model."""
    simple: str

    def __str__(self) -> str:
        networks = " and ".join(self.networks)
        if self.share:
            return f"{1 - self.share:.0%} {networks} with {self.share:.0%} {self.simple}"
        return f"{networks} alone" if len(self.networks) == 1 else f"mean of {networks}"


def candidates(
    networks: Mapping[str, Matrix], simple: tuple[str, Matrix] | None, figures: Figures
) -> list[Candidate]:
    """All means that hold a network, with the figures of each: the first network alone comes first.

    networks: predictions (validation genes, treatments) by name. simple: name and predictions of the simple model,
    where it can be a member. figures: predictions of some validation genes, and their rows → figures.
    """
    found, every = [], np.arange(len(next(iter(networks.values()))))
    for size in range(1, len(networks) + 1):
        for names in combinations(networks, size):
            mean_GT = np.mean([networks[name] for name in names], axis=0)
            found.append(Candidate(mean_GT, figures(mean_GT, every), names, 0.0, ""))
            if simple is not None:
                name, simple_GT = simple
                for share in (1 / (size + 1), LARGE_SHARE):
                    mixed_GT = (1 - share) * mean_GT + share * simple_GT
                    found.append(Candidate(mixed_GT, figures(mixed_GT, every), names, share, name))
    return found


def kept(
    found: Sequence[Candidate], simple: tuple[str, Matrix] | None, figures: Figures, seed: int
) -> Candidate:
    """The best candidate where it is better than the usual one beyond two standard errors, or where the simple
    model is better than the usual one; else the usual one.

    The usual one is the network alone, where there is only one, and else the equal mean of all members: what is
    best on a few hundred genes may be so by chance, and members of different kinds make up for one another. The
    simple model chose its settings on these very genes, so those that have more of it look better here than they
    are: they are tried only where the simple model is better than the usual one.
    """
    usual = max(found, key=lambda each: len(each.networks) + bool(each.share))
    if len(usual.networks) == 1:
        usual = found[0]
    below = simple is not None and score(figures(simple[1], np.arange(len(simple[1])))) > score(usual.figures)
    tried = found if below else [each for each in found if each.share <= usual.share]
    best = max(tried, key=lambda each: score(each.figures))
    if below or best is usual:
        return best
    genes, random = len(best.predicted_GT), np.random.default_rng(seed)
    gains = []
    for _ in range(RESAMPLES):
        rows = random.integers(genes, size=genes)
        gains.append(
            score(figures(best.predicted_GT[rows], rows)) - score(figures(usual.predicted_GT[rows], rows))
        )
    return best if score(best.figures) - score(usual.figures) > 2 * np.std(gains) else usual
