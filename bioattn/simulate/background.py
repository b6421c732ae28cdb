"""Background DNA: a Markov chain over A, C, G, T.

Two chains are given. `UNIFORM` draws every base alike. `YEAST_UPSTREAM` is of order 2 and holds the frequencies
counted in the 400 bp upstream of 5,982 protein-coding genes of *Saccharomyces cerevisiae* (R64), so that the
poly-A and poly-T runs of real promoters are there to mislead a model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BASES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkovBackground:
    """A Markov chain over the bases of DNA."""

    name: str
    """How reports call it."""
    order: int
    """Bases the next one depends on."""
    transitions: tuple[tuple[float, float, float, float], ...]
    """4**order rows: probability of A, C, G, T after each context, contexts in the order AA, AC, AG, AT, CA, …
    (the last letter of the context is the nearest one). Rows need not sum to 1 exactly."""

    def sample(self, rng: np.random.Generator, count: int, length: int) -> NDArray[np.uint8]:
        """Draw `count` independent sequences of `length` bases; uint8 codes, shape (count, length).

        Each sequence starts from `order` bases drawn alike that are thrown away after a run-in of 16 bases.
        """
        run_in = 16 if self.order else 0
        cumulative = np.cumsum(np.array(self.transitions), axis=1)
        cumulative /= cumulative[:, -1:]
        draws = rng.random((run_in + length, count))
        codes = np.empty((run_in + length, count), dtype=np.uint8)
        contexts = len(self.transitions)
        state = (rng.random(count) * contexts).astype(np.int64)
        for position, draw in enumerate(draws):
            base = (draw[:, None] >= cumulative[state, :-1]).sum(axis=1)
            codes[position] = base
            state = (state * BASES + base) % contexts
        return np.ascontiguousarray(codes[run_in:].T)


UNIFORM = MarkovBackground(name="uniform", order=0, transitions=((0.25, 0.25, 0.25, 0.25),))

YEAST_UPSTREAM = MarkovBackground(
    name="yeast upstream, order 2",
    order=2,
    transitions=(
        (0.411, 0.153, 0.194, 0.242),  # after AA
        (0.353, 0.182, 0.170, 0.295),
        (0.344, 0.201, 0.193, 0.261),
        (0.339, 0.172, 0.162, 0.327),
        (0.344, 0.179, 0.183, 0.294),  # after CA
        (0.321, 0.194, 0.163, 0.322),
        (0.290, 0.226, 0.190, 0.294),
        (0.236, 0.191, 0.191, 0.382),
        (0.408, 0.147, 0.188, 0.257),  # after GA
        (0.337, 0.192, 0.174, 0.296),
        (0.321, 0.216, 0.188, 0.274),
        (0.302, 0.160, 0.202, 0.336),
        (0.305, 0.182, 0.168, 0.345),  # after TA
        (0.318, 0.191, 0.153, 0.338),
        (0.306, 0.208, 0.191, 0.296),
        (0.214, 0.197, 0.174, 0.415),
    ),
)
