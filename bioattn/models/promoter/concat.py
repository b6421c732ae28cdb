"""`concat`: two convolutions, flattened, joined with the treatment, and an MLP (FUN-PROSE, Nambiar et al. 2023).

It has no attention map; it is the baseline that attention must beat.
Shape suffixes: B promoters, T treatments, L bases, C channels, G treatment features, H hidden channels.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.promoter.batch_part import PromoterDropout
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.stem import one_hot
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary


class ConcatModel(nn.Module):
    """The architecture of FUN-PROSE; with a numeric table (expression of all transcription factors), its model."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        first, second = config.concat_channels
        pools = config.concat_pools
        self.sequence = nn.Sequential(
            nn.Conv1d(4, first, config.concat_kernels[0], padding=config.concat_kernels[0] // 2),
            nn.MaxPool1d(pools[0]),
            nn.ReLU(),
            PromoterDropout(config.concat_dropout),
            nn.BatchNorm1d(first),
            nn.Conv1d(first, second, config.concat_kernels[1], padding=config.concat_kernels[1] // 2),
            nn.MaxPool1d(pools[1]),
            nn.ReLU(),
            nn.BatchNorm1d(second),
            nn.Flatten(),
        )
        flat = second * (config.length // pools[0] // pools[1])
        self.by_id = config.treatment_encoder is TreatmentEncoding.ID
        self.category_sizes = [len(values) + 1 for values in vocabulary.categories.values()]
        features = (
            len(vocabulary.names) if self.by_id else sum(self.category_sizes) + 2 * len(vocabulary.numbers)
        )
        self.unconditional_G = nn.Parameter(torch.zeros(features)) if config.unconditional else None
        self.condition = nn.Sequential(nn.Linear(features, config.concat_condition_channels), nn.ELU())
        widths = config.concat_hidden
        # The first fused layer acts on the concatenation; as a sum of two products it is the same layer, and
        # each promoter and each treatment passes through it once instead of once per pair.
        self.fuse_sequence = nn.Linear(flat, widths[0])
        self.fuse_condition = nn.Linear(config.concat_condition_channels, widths[0], bias=False)
        self.fused = nn.Sequential(
            nn.BatchNorm1d(widths[0]),
            nn.ELU(),
            nn.Linear(widths[0], widths[1]),
            nn.BatchNorm1d(widths[1]),
            nn.ELU(),
            nn.Linear(widths[1], widths[2]),
            nn.BatchNorm1d(widths[2]),
            nn.ELU(),
            nn.Linear(widths[2], 1),
        )

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); `bases_BL4` (B, L, 4) replace the codes."""
        bases_B4L = (
            one_hot(codes_BL, self.fuse_sequence.weight.dtype)
            if bases_BL4 is None
            else bases_BL4.transpose(1, 2)
        )
        sequence_BC = self.sequence(bases_B4L)
        condition_TC = self.condition(self._features(treatments))
        fused_BTH = self.fuse_sequence(sequence_BC).unsqueeze(1) + self.fuse_condition(condition_TC)
        answer_BT: Tensor = self.fused(fused_BTH.flatten(0, 1)).view(fused_BTH.shape[:2])
        return answer_BT

    def _features(self, treatments: TreatmentBatch) -> Tensor:
        """One-hot ids, or one-hot categories beside numbers and whether they are known: (T, G)."""
        if self.by_id:
            size = self.condition[0].in_features
            features_TG = F.one_hot(treatments.index_T.clamp(min=0), size).float()  # type: ignore[arg-type]
        else:
            categories = [
                F.one_hot(treatments.categories_TF[:, f], size).float()
                for f, size in enumerate(self.category_sizes)
            ]
            features_TG = torch.cat([*categories, treatments.numbers_TN, treatments.present_TN], dim=-1)
        if self.unconditional_G is not None:
            features_TG = torch.where(treatments.unconditional_T[:, None], self.unconditional_G, features_TG)
        return features_TG
