"""Scores of held-out families, beside the couplings that need no training, and the model card that tells them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.alignments.couplings import (
    LIGHT_PSEUDOCOUNT,
    average_product_correction,
    column_states,
    mean_field_norms,
    mutual_information,
    pair_frequencies,
)
from bioattn.models.evoformer.config import InputSettings
from bioattn.models.evoformer.heads import contact_probabilities
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training_samples import TrainingFamily
from bioattn.store.training_record import Comparison
from bioattn.structures.contacts import ContactScores, contact_scores, mean_scores
from bioattn.system.progress import Progress, watched
from bioattn.text import counted, duration, markdown_table


def predict_contacts(
    model: EvoformerModel, family: TrainingFamily, settings: InputSettings
) -> NDArray[np.float32]:
    """Contact probabilities (C, C) of the columns `family.columns`, row 1 as target, the mean over draws."""
    inputs = family.inputs(settings, covariance=bool(model.config.pair_features))
    device = next(model.parameters()).device
    total = np.zeros((len(family.columns), len(family.columns)), np.float32)
    for number in range(inputs.settings.num_samples):
        with torch.no_grad():
            logits = model(inputs.sample(0, number).to(device)).distogram_logits
        assert logits is not None
        total += contact_probabilities(logits).cpu().numpy() / inputs.settings.num_samples
    return total


def score_family(model: EvoformerModel, family: TrainingFamily, settings: InputSettings) -> ContactScores:
    return contact_scores(predict_contacts(model, family, settings), family.protein.cb, family.columns)


MODEL, MUTUAL_INFORMATION, MEAN_FIELD = "this model", "APC mutual information", "mean-field DCA"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScores:
    id: str
    split: str
    num_rows: int
    num_mapped: int
    scores: dict[str, ContactScores]
    """By predictor."""

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "split": self.split,
            "rows": self.num_rows,
            "mapped_columns": self.num_mapped,
            **{name: each.as_figures() for name, each in self.scores.items()},
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    families: list[FamilyScores]

    def tables(self) -> list[list[list[str]]]:
        """Mean precisions of each predictor by split; no table without held-out families."""
        rows = [
            [split, name, str(number), f"{mean.precision_l5:.3f}", f"{mean.precision_l:.3f}"]
            for split in ("validation", "test")
            for name, number, mean in mean_table(self.families, split)
        ]
        return [[["split", "predictor", "families", "P@L/5", "P@L"], *rows]] if rows else []

    def comparison(self) -> Comparison | None:
        """The model's P@L beside that of the coupling that is better on the validation families."""
        means = {
            split: {name: mean.precision_l for name, _, mean in mean_table(self.families, split)}
            for split in ("test", "validation")
        }
        split = next((split for split, found in means.items() if found), None)
        if split is None:
            return None
        chosen_by = means["validation"] or means["test"]
        best = max((MUTUAL_INFORMATION, MEAN_FIELD), key=lambda name: chosen_by[name])
        return Comparison(f"{split} families", "P@L", means[split][MODEL], best, means[split][best])

    def to_json(self) -> list[dict[str, Any]]:
        return [each.to_json() for each in self.families]


def evaluate_families(
    model: EvoformerModel,
    families: Sequence[TrainingFamily],
    settings: InputSettings,
    split: str,
    progress: Progress,
) -> list[FamilyScores]:
    """Score each family with the model, APC mutual information and mean-field DCA."""
    began = time.monotonic()
    found = []
    for family in watched(progress, f"scoring {split} families", families):
        scores = {MODEL: score_family(model, family, settings), **coupling_scores(family)}
        found.append(
            FamilyScores(
                id=family.protein.id,
                split=split,
                num_rows=family.protein.num_rows,
                num_mapped=int(family.protein.mapped.sum()),
                scores=scores,
            )
        )
    if families:
        progress.note(
            f"{split} scored, {counted(len(families), 'family')} by this model and two couplings, in "
            f"{duration(time.monotonic() - began)}"
        )
    return found


def coupling_scores(family: TrainingFamily) -> dict[str, ContactScores]:
    columns = family.columns
    frequencies = pair_frequencies(column_states(family.protein.msa[:, columns]), family.weights)
    maps = {
        MUTUAL_INFORMATION: mutual_information(*frequencies, pseudocount=LIGHT_PSEUDOCOUNT),
        MEAN_FIELD: mean_field_norms(*frequencies),
    }
    return {
        name: contact_scores(average_product_correction(each), family.protein.cb, columns)
        for name, each in maps.items()
    }


def mean_table(scores: Sequence[FamilyScores], split: str) -> list[tuple[str, int, ContactScores]]:
    """Predictor, number of families and mean scores, one line per predictor."""
    chosen = [each for each in scores if each.split == split]
    names = list(chosen[0].scores) if chosen else []
    return [(name, len(chosen), mean_scores([each.scores[name] for each in chosen])) for name in names]


def card_lines(model: EvoformerModel, record: Mapping[str, Any], evaluation: Evaluation) -> list[str]:
    """The lines of the card. record: the training record."""
    config, training, families = model.config, record["training"], record["families"]
    source = "alignment and covariance features" if config.pair_features else "alignment alone"
    attention = "uniform (a control)" if config.uniform_msa_attention else "learnt"
    product = "outer product " + (
        "centred (covariances)" if config.centred_outer_product else "as in AlphaFold 2"
    )
    if config.tied_row_heads:
        product = f"{config.tied_row_heads} maps tied over rows in place of the outer product"
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
        f"{product}; distogram and masked-MSA heads, no structure module.",
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
        comparison = evaluation.comparison()
        below = comparison is not None and comparison.below
        note = [] if comparison is None or not below else ["", f"Note: {comparison.sentence()}."]
        return [*lines, best, "", *markdown_table(table), *note]
    return [*lines, "No family was held out: this folder alone does not say how good the model is."]
