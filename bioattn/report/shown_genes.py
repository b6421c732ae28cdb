"""Which promoters a page shows first: those that answer to a treatment most specifically, and as measured."""

import itertools

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


def agreeing(
    predicted_GT: NDArray[np.float64], measured_GT: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Sizes of specific parts of predictions, as far as they were measured: the smaller of both sizes where both
    have one sign, and hardly anything elsewhere, but for ties in the order of the predictions.

    measured_GT: responses; None: sizes of predictions alone.
    """
    sizes_GT = np.abs(predicted_GT)
    if measured_GT is None:
        return sizes_GT
    truth_GT = specific_part(measured_GT)
    both_GT = np.where(predicted_GT * truth_GT > 0, np.minimum(sizes_GT, np.abs(truth_GT)), 0.0)
    return np.asarray(both_GT + 1e-6 * sizes_GT)


def ranked_genes(specific: NDArray[np.float64], unseen: NDArray[np.bool_]) -> list[int]:
    """All genes, those worth showing first: the treatments take turns, each naming the gene that responds to it
    most specifically; every second turn of a treatment is for genes that the model was not trained on, while
    there are.

    specific: (genes, treatments), how specific the response to a treatment is. unseen: (genes,) whether a gene
    was held out.
    """
    num_genes, num_treatments = specific.shape
    orders = [np.argsort(-specific[:, t], kind="stable") for t in range(num_treatments)]
    queues = [(iter(order[unseen[order]].tolist()), iter(order.tolist())) for order in orders]
    taken: dict[int, None] = {}
    turn = 0
    while len(taken) < num_genes:
        for held_out, everyone in queues:
            waiting = itertools.chain(held_out if turn % 2 == 0 else (), everyone)
            gene = next((gene for gene in waiting if gene not in taken), None)
            if gene is not None:
                taken[gene] = None
        turn += 1
    return list(taken)
