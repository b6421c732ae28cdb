"""A promoter model and the treatments it is asked for: codes in, responses out, and fast mutants.

Shape suffixes: B promoters, L bases, T treatments, M mutants.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bioattn.attention.multi_head import WIDENING
from bioattn.models.promoter.config import Stem
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.mutants.cross_mutants import CrossMutants
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

MAX_BATCH = 256
BATCH_BYTES = 1 << 24
"""What the widest tensor of a batch may take."""
MAX_MUTANTS = 64
MUTANT_BYTES = 1 << 23
"""The same for a batch of mutants; larger batches leave the cache and gain nothing."""


@dataclass(frozen=True, slots=True)
class PromoterPredictor:
    """A model and some treatments, on the model's device."""

    runner: "LoadedPromoterModel"
    treatments: TreatmentBatch

    @property
    def names(self) -> tuple[str, ...]:
        return self.treatments.names

    @property
    def batch_size(self) -> int:
        """Promoters per forward pass, so that no tensor of it is large."""
        config = self.runner.config
        per_treatment = max(config.num_heads * config.num_bins, config.channels, config.hidden_channels)
        widest = max(2 * config.length * config.channels, self.treatments.size * per_treatment)
        return max(1, min(MAX_BATCH, BATCH_BYTES // (4 * widest)))

    @property
    def mutant_batch_size(self) -> int:
        """Mutants per forward pass, from the shape of the model."""
        config, num_treatments = self.runner.config, self.treatments.size
        wide = max(config.channels, config.hidden_channels, config.num_heads * config.head_channels)
        if config.stem == Stem.TRANSFORMER:
            wide = max(wide, WIDENING * config.channels, config.num_heads * config.num_bins)
        match config.conditioning:
            case "concat":
                first = config.length * config.concat_channels[0]
                widest = max(first, num_treatments * max(config.concat_hidden))
            case "cross":
                # Of the bins only those near a mutation are at hand where few keys change (`cross_mutants`).
                few = config.attention_score == "dot" and config.hops == 1 and not config.stem_sites
                by_treatment = max(config.num_heads * (32 if few else config.num_bins), wide)
                if config.attention_score == "additive":
                    by_treatment = max(
                        by_treatment, config.num_bins * config.num_heads * config.head_channels
                    )
                widest = max(config.num_bins * wide, num_treatments * by_treatment)
            case _:
                widest = config.num_bins * wide * num_treatments
        return max(1, min(MAX_MUTANTS, MUTANT_BYTES // (4 * widest)))

    def digest(self) -> str:
        digest = hashlib.sha256("\0".join(self.names).encode())
        for tensor in self.treatments[1:]:
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def chosen(self, tasks: Sequence[int]) -> "PromoterPredictor":
        return PromoterPredictor(
            self.runner, self.treatments.rows(self.treatments.index_T.new_tensor(list(tasks)))
        )

    def forward(self, codes_BL: Tensor, letters_BLA: Tensor | None = None) -> Tensor:
        """Responses (B, T), logits of a binary model; `letters_BLA` as `PromoterModel.forward` has `bases_BL4`."""
        responses_BT: Tensor = self.runner.model(codes_BL, self.treatments, letters_BLA)
        return responses_BT

    def fast_mutants(self, batch_size: int) -> "PromoterMutants | None":
        """All single mutants with less work than a forward pass for each: of `cross` models."""
        network = self.runner.model.network
        if not isinstance(network, CrossModel) or not network.stem.is_local:
            return None
        with torch.inference_mode():
            mutants = CrossMutants(network, self.treatments, batch_size)
        return PromoterMutants(self.runner.model, self.treatments, mutants)


@dataclass(frozen=True, slots=True)
class PromoterMutants:
    """Single mutants of promoters through a `cross` model, in response units."""

    model: PromoterModel
    treatments: TreatmentBatch
    mutants: CrossMutants

    def answers(self, codes_L: Tensor, position_M: Tensor, base_M: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """As `CrossMutants.answers`, in response units."""
        for rows, answer_MT in self.mutants.answers(codes_L, position_M, base_M):
            yield rows, self.model.in_response_units(answer_MT, self.treatments)
