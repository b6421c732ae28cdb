"""Which promoters a page shows in full when not all fit."""

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray


def specific_part(responses: NDArray[np.floating]) -> NDArray[np.float64]:
    """Responses (genes, treatments) in standard deviations of their treatment, less each gene's mean over
    treatments.

    What is missing counts as 0; with one treatment nothing is taken off.
    """
    values = np.asarray(responses, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0).sum(axis=0) / count
        deviation = np.sqrt(np.where(known, np.square(values - mean), 0).sum(axis=0) / count)
    z = np.where(known, (values - mean) / np.where(deviation > 0, deviation, 1.0), 0.0)
    return z - z.mean(axis=1, keepdims=True) if z.shape[1] > 1 else z


def ranked_genes(responses: NDArray[np.floating], unseen: NDArray[np.bool_]) -> list[int]:
    """All genes, those worth showing first: the treatments take turns, each naming the gene that responds to it
    most specifically; every second turn of a treatment is for genes that the model was not trained on, while
    there are.

    responses: (genes, treatments). unseen: (genes,) whether a gene was held out.
    """
    specific = np.abs(specific_part(responses))
    num_genes, num_treatments = specific.shape
    orders = [np.argsort(-specific[:, t], kind="stable") for t in range(num_treatments)]
    queues = [(_Queue(order[unseen[order]].tolist()), _Queue(order.tolist())) for order in orders]
    taken: dict[int, None] = {}
    turn = 0
    while len(taken) < num_genes and queues:
        before = len(taken)
        for held_out, everyone in queues:
            gene = held_out.next(taken) if turn % 2 == 0 else None
            gene = everyone.next(taken) if gene is None else gene
            if gene is not None:
                taken[gene] = None
        turn += 1
        if len(taken) == before:
            break
    return [*taken, *(gene for gene in range(num_genes) if gene not in taken)]


class _Queue:
    """A list read once, past what is taken."""

    def __init__(self, genes: Sequence[int]) -> None:
        self._genes = genes
        self._place = 0

    def next(self, taken: Container[int]) -> int | None:
        while self._place < len(self._genes):
            gene = self._genes[self._place]
            self._place += 1
            if gene not in taken:
                return gene
        return None
