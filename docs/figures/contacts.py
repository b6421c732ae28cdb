"""Draw predicted beside planted contacts of a simulated family, and the row attention behind them: contacts.png.

    bioattn run evoformer data/families/msa/simulated000000.a3m --model data/models/evoformer-contacts \\
        -o out --attention out.h5 --sites 'evoformer.*.msa_row'
    python docs/figures/contacts.py out out.h5

The family is the first one of data/families, not picked by eye. Needs `pip install -e '.[plot]'`.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.interpret.attention_contacts import head_maps
from bioattn.store import open_attention

mpl.use("Agg")

import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parent
FAMILY = "simulated000000"
TRUTH = FOLDER.parents[1] / "data" / "families" / "contacts" / f"{FAMILY}.tsv"
MIN_SEPARATION = 6


def pairs_below(table: pd.DataFrame, column: str, length: int) -> NDArray[np.float64]:
    """(R, R) with the values of `column` at i > j; 0 elsewhere."""
    values = np.zeros((length, length))
    values[table["column_j"] - 1, table["column_i"] - 1] = table[column]
    return values


def draw(prediction: Path, attention: Path, output: Path) -> None:
    """Left: probabilities below the diagonal, planted contacts above. Right: every head's map."""
    predicted = pd.read_csv(prediction / "contacts.tsv", sep="\t")
    truth = pd.read_csv(TRUTH, sep="\t").assign(contact=1.0)
    truth = truth[truth["column_j"] - truth["column_i"] >= MIN_SEPARATION]
    with open_attention(attention) as file:
        (sample,) = file.samples.index
        length = int(file.samples["length"].loc[sample])
        maps = list(head_maps(file, sample))
    planted = pairs_below(truth, "contact", length)
    best = predicted.head(length)
    found = int((planted[best["column_j"] - 1, best["column_i"] - 1] > 0).sum())

    plt.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans", "axes.linewidth": 0.6})
    sites = list(dict.fromkeys(head.site for head in maps))
    heads = len(maps) // len(sites)
    figure = plt.figure(figsize=(9.6, 4.1), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.35))
    axis = left.subplots()
    both = pairs_below(predicted, "probability", length) + 0.55 * planted.T
    edges = (0.5, length + 0.5, length + 0.5, 0.5)  # columns count from 1
    axis.imshow(both, cmap="Greys", vmin=0, vmax=1, extent=edges)
    axis.axline((0.5, 0.5), slope=1, color="black", linewidth=0.6)
    axis.set_title(
        f"Below: predicted contacts. Above: the {len(truth)} planted ones.\n"
        f"Of the {length} likeliest pairs {found} are planted.",
        fontsize=9,
        loc="left",
    )
    axis.set_xlabel("match column")
    axis.set_ylabel("match column")
    grid = right.subplots(len(sites), heads, squeeze=False)
    limit = np.quantile(np.abs([head.map_RR for head in maps]), 0.998)
    for axis, head in zip(grid.flat, maps, strict=True):
        axis.imshow(head.map_RR, cmap="PuOr_r", vmin=-limit, vmax=limit)
        axis.set_title(f"{head.site.removesuffix('.msa_row')}, head {head.head}", fontsize=8)
        axis.set_xticks([])
        axis.set_yticks([])
    right.suptitle("Row attention, mean over rows, symmetrised and corrected (APC)", fontsize=9)
    # No clock or program version in the file, so that the same input gives the same bytes.
    figure.savefig(output, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), FOLDER / "contacts.png")
