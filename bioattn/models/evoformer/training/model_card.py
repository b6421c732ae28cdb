"""The README.md of a model folder: what the model is, what it was trained on, and what it reaches."""

from collections.abc import Mapping
from typing import Any

from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.evaluation import Evaluation
from bioattn.text import markdown_table


def card_lines(model: EvoformerModel, record: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """The lines of the card. record: the training record."""
    config, training, families = model.config, record["training"], record["families"]
    source = "alignment and covariance features" if config.pair_features else "alignment alone"
    attention = "uniform (a control)" if config.uniform_msa_attention else "learnt"
    product = "centred (covariances)" if config.centred_outer_product else "as in AlphaFold 2"
    excluded = record["dataset"]["excluded"]
    lines = [
        "---",
        "library_name: bioattn",
        "tags: [evoformer, msa, contacts, distogram]",
        "---",
        "# MSA/pair model for contacts",
        "",
        f"Predicts distances between residues from the {source}.",
        "",
        f"- {config.num_extra_msa_blocks} extra-MSA and {config.num_blocks} Evoformer blocks, "
        f"{config.msa_channels} MSA and {config.pair_channels} pair channels, "
        f"{sum(p.numel() for p in model.parameters()):,} weights; MSA attention {attention}, "
        f"outer product {product}; distogram and masked-MSA heads, no structure module.",
        f"- Data: `{record['dataset']['file']}`, {families['train']} training families, "
        f"SHA-256 `{record['dataset']['sha256']}`"
        + (f"; left out: {', '.join(excluded)}" if excluded else ""),
        f"- {training['simulated_steps']:,} steps on simulated families, {training['steps']:,} on the dataset, "
        f"seed {training['seed']}, bioattn {record['versions']['bioattn']}; settings in `config.json` and "
        "`training.json`.",
        f"- Trained with {training['max_msa_clusters']} MSA clusters and {training['max_extra_msa']} extra rows.",
        "",
    ]
    for table in evaluation.tables():
        best = "Precision of the best L/5 and L pairs (CB < 8 Å, 6 or more columns apart), means:"
        return [*lines, best, "", *markdown_table(table)]
    return [*lines, "No family was held out: this folder alone does not say how good the model is."]
