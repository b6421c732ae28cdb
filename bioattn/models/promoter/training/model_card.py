"""The README.md of a model folder: what the model is, what it was trained on, and what it reaches."""

from pathlib import Path
from typing import Any

from bioattn.io.files import text_output
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.training.evaluation import Evaluation
from bioattn.promoters.dataset import PromoterDataset

FIGURES = {
    "regression": {
        "pearson": "median r",
        "specific_pearson": "median r, shared response out",
        "gene_pearson": "r per gene",
    },
    "binary": {"auroc": "AUROC", "auprc": "AUPRC"},
}
"""Which figures a table shows, and their headings."""


def figures_table(evaluation: Evaluation) -> list[list[str]]:
    """Header and rows of the comparison with the simple models, as text."""
    figures = FIGURES[evaluation.task]
    header = ["predictor", "cells", *figures.values()]
    body = [
        [row.name, row.cells, *(f"{row.figures[key]:.3f}" if key in row.figures else "" for key in figures)]
        for row in evaluation.rows
    ]
    return [header, *body]


def write_model_card(
    path: Path,
    config: PromoterModelConfig,
    dataset: PromoterDataset,
    record: dict[str, Any],
    evaluation: Evaluation,
) -> None:
    """Write the card atomically."""
    header, *body = figures_table(evaluation)
    table = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *body)]
    lines = [
        "---",
        "library_name: bioattn",
        f"tags: [promoter, {config.conditioning}, attention]",
        "---",
        f"# Promoter model, {config.conditioning}",
        "",
        f"Predicts the response of a promoter ({config.length} bases, 5'→3', anchored at its right end) "
        f"to each of {dataset.num_treatments} treatments ({dataset.task}).",
        "",
        f"- Data: `{record['dataset']['file']}`, {dataset.num_genes} promoters, "
        f"SHA-256 `{record['dataset']['sha256']}`",
        f"- Treatments are known by {config.treatment_encoder}; settings in `config.json` and `training.json`.",
        f"- Trained for {record['epochs_trained']} epochs, weights of epoch {record['best_epoch']}, "
        f"seed {record['training']['seed']}, bioattn {record['versions']['bioattn']}.",
        *_pruning(record),
        "",
        "Figures on the held-out cells of this one split and seed, beside simple models fitted on the same split:",
        "",
        *table,
        "",
        "Attention says where the model looked, not that it was right to; compare it with what is known.",
    ]
    with text_output(path) as file:
        file.write("\n".join(lines) + "\n")


def _pruning(record: dict[str, Any]) -> list[str]:
    """What was taken out of the model after training, if anything."""
    if "pruned" not in record:
        return []
    heads = "; ".join(
        f"{site} {', '.join(map(str, left))}" for site, left in record["pruned"]["heads"].items()
    )
    return [
        f"- Attention heads left by pruning: {heads}; whole model's weights `{record['pruned']['from']}`."
    ]
