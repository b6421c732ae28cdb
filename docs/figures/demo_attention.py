"""Draw attention by treatment along one promoter of the demo, with the planted motifs: demo_attention.png.

    make demo && python docs/figures/demo_attention.py demo-output/attention-0.h5

The promoter is not picked by eye: it is the first one on the test chromosome that holds the motifs of exactly
three of the four treatments, their starts at least 20 bases apart. Needs `pip install -e '.[plot]'`.
"""

import sys
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from bioattn.interpret.upsampling import upsample
from bioattn.simulate.truth import PlantedSite, read_truth
from bioattn.store import AttentionFile, open_attention

mpl.use("Agg")

import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parent
DEMO = FOLDER.parents[1] / "data" / "demo"
SITE = "promoter.cross.0"
TEST_CHROMOSOME = "chr8"
# Okabe & Ito: told apart with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "#8A8A8A"


def choose_promoter(attention: AttentionFile, truth: list[PlantedSite]) -> str:
    """The first test promoter with three separate causal motifs."""
    starts: dict[str, list[int]] = {}
    for site in truth:
        starts.setdefault(site.gene_id, [])
        if site.role == "causal":
            starts[site.gene_id].append(site.start)
    on_test = attention.samples.index[attention.samples["chrom"] == TEST_CHROMOSOME]
    return next(
        gene
        for gene in on_test
        if len(starts.get(gene, [])) == 3 and all(b - a >= 20 for a, b in pairwise(sorted(starts[gene])))
    )


def draw(path: Path, output: Path) -> None:
    """One row per treatment: its attention, its motif in colour, every other planted motif in grey."""
    truth = read_truth(DEMO / "truth.tsv.gz")
    responses = pd.read_csv(DEMO / "responses.tsv.gz", sep="\t", index_col="gene_id")
    with open_attention(path) as attention:
        gene = choose_promoter(attention, truth)
        info = attention.sites[SITE]
        edges = info.key_edges
        treatments = attention.treatments
        weights = {
            treatment: attention.weights(SITE, gene=gene, treatment=treatment).mean(axis=0)
            for treatment in treatments
        }
        predicted = attention.predictions().loc[gene]
    measured = responses.loc[gene]
    length = int(edges[-1])
    planted = [site for site in truth if site.gene_id == gene]
    maps = {name: upsample(row, edges, length, "gaussian") for name, row in weights.items()}
    top = 1.3 * max(values.max() for values in maps.values())

    plt.rcParams.update({"font.size": 10, "font.family": "DejaVu Sans", "axes.linewidth": 0.8})
    figure, axes = plt.subplots(len(treatments), 1, figsize=(8.4, 5.4), sharex=True, sharey=True)
    positions = np.arange(length) - length + 0.5
    for axis, treatment, colour in zip(axes, treatments, COLOURS, strict=True):
        axis.fill_between(positions, maps[treatment], color=colour, alpha=0.25, linewidth=0)
        axis.plot(positions, maps[treatment], color=colour, linewidth=1.6)
        for site in planted:
            own = site.treatment == treatment
            axis.axvspan(
                site.start - length,
                site.end - length,
                ymax=0.10,
                color=colour if own else GREY,
                alpha=1.0 if own else 0.55,
                linewidth=0,
            )
            if own:
                middle = max((site.start + site.end) / 2, 0.045 * length) - length
                arrow = "→" if site.strand == "+" else "←"
                axis.text(middle, top * 0.97, f"{site.motif} {arrow}", ha="center", va="top", color=colour)
                axis.vlines(
                    [site.start - length, site.end - length], 0, top * 0.8, color=colour, lw=0.8, ls=":"
                )
        if not any(site.treatment == treatment for site in planted):
            axis.text(
                -length / 2,
                top * 0.97,
                "(its motif is not in this promoter)",
                ha="center",
                va="top",
                color=GREY,
            )
        axis.text(
            1.012,
            0.5,
            f"measured {measured[treatment]:+.1f}\npredicted {predicted[treatment]:+.1f}".replace("-", "−"),
            transform=axis.transAxes,
            va="center",
            fontsize=9,
        )
        axis.set_ylabel(treatment, rotation=0, ha="right", va="center", color=colour, fontweight="bold")
        axis.set_yticks([])
        axis.set_ylim(0, top)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlim(-length, 0)
    axes[-1].set_xlabel("position before the gene, bases")
    axes[0].set_title(
        f"Where the model looks in promoter {gene} (a test promoter), by treatment.\n"
        "Bars: motifs that were planted, in colour for the treatment they act in, grey otherwise.",
        fontsize=10,
        loc="left",
        pad=12,
    )
    figure.tight_layout()
    # No clock or program version in the file, so that the same attention gives the same bytes.
    figure.savefig(output, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), FOLDER / "demo_attention.png")
