"""Scores of held-out families, beside the couplings that need no training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bioattn.alignments.couplings import (
    LIGHT_PSEUDOCOUNT,
    average_product_correction,
    column_states,
    coupling_norms,
    mean_field_couplings,
    mutual_information,
    pair_frequencies,
)
from bioattn.models.evoformer.input_settings import InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.families import TrainingFamily
from bioattn.models.evoformer.training.prediction import score_family
from bioattn.structures.contact_metrics import ContactScores, contact_scores, mean_scores
from bioattn.system.progress import Progress

MODEL, MUTUAL_INFORMATION, MEAN_FIELD = "this model", "APC mutual information", "mean-field DCA"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyScores:
    """One held-out family under each predictor."""

    id: str
    split: str
    num_rows: int
    num_mapped: int
    scores: dict[str, ContactScores]
    """By predictor."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "id": self.id,
            "split": self.split,
            "rows": self.num_rows,
            "mapped_columns": self.num_mapped,
            **{name: each.as_figures() for name, each in self.scores.items()},
        }


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All held-out families."""

    families: list[FamilyScores]

    def tables(self) -> list[list[list[str]]]:
        """Mean precisions of each predictor by split; no table without held-out families."""
        rows = [
            [split, name, str(number), f"{mean.precision_l5:.3f}", f"{mean.precision_l:.3f}"]
            for split in ("validation", "test")
            for name, number, mean in mean_table(self.families, split)
        ]
        return [[["split", "predictor", "families", "P@L/5", "P@L"], *rows]] if rows else []

    def to_json(self) -> list[dict[str, Any]]:
        """Plain JSON."""
        return [each.to_json() for each in self.families]


def evaluate_families(
    model: EvoformerModel,
    families: Sequence[TrainingFamily],
    settings: InputSettings,
    split: str,
    progress: Progress,
) -> list[FamilyScores]:
    """Score each family with the model, APC mutual information and mean-field DCA."""
    progress.begin(f"scoring {split} families", len(families))
    found = []
    for family in families:
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
        progress.advance()
    progress.end()
    return found


def coupling_scores(family: TrainingFamily) -> dict[str, ContactScores]:
    """Both couplings on the columns the model sees, with sequence weights."""
    columns = family.columns
    frequencies = pair_frequencies(column_states(family.protein.msa[:, columns]), family.weights)
    maps = {
        MUTUAL_INFORMATION: mutual_information(*frequencies, pseudocount=LIGHT_PSEUDOCOUNT),
        MEAN_FIELD: coupling_norms(mean_field_couplings(*frequencies)),
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
