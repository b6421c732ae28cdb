"""The README.md of a model folder: what the model is, what it was trained on, and what it reaches."""

from collections.abc import Mapping
from typing import Any

from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.training.evaluation import Evaluation
from bioattn.promoters.dataset import PromoterDataset
from bioattn.text import markdown_table


def card_lines(
    config: PromoterModelConfig,
    dataset: PromoterDataset,
    record: Mapping[str, Any],
    evaluation: Evaluation,
) -> list[str]:
    """The lines of the card. record: the training record."""
    return [
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
        *markdown_table(evaluation.comparison()),
        "",
        "Attention says where the model looked, not that it was right to; compare it with what is known.",
    ]


def _pruning(record: Mapping[str, Any]) -> list[str]:
    """What was taken out of the model after training, if anything."""
    if "pruned" not in record:
        return []
    heads = "; ".join(
        f"{site} {', '.join(map(str, left))}" for site, left in record["pruned"]["heads"].items()
    )
    return [
        f"- Attention heads left by pruning: {heads}; whole model's weights `{record['pruned']['from']}`."
    ]
