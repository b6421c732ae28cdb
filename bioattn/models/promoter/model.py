"""A promoter model of any conditioning, the units it answers in, and the attention sites it has."""

import torch
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite
from bioattn.models.promoter.concat import ConcatModel
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.ridge_model import RidgeModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.models.promoter.trunk import TrunkModel


class PromoterModel(nn.Module):
    """Predicts the responses of promoters to treatments.

    The network works in standard units; `response_mean_T` and `response_sd_T` of each training treatment turn
    its answers into the units of the responses. A treatment that was not in training gets their means.
    """

    response_mean_T: Tensor
    response_sd_T: Tensor

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        self.config = config
        self.network: ConcatModel | CrossModel | RidgeModel | TrunkModel
        match config.conditioning:
            case Conditioning.CONCAT:
                self.network = ConcatModel(config, vocabulary)
            case Conditioning.CROSS:
                self.network = CrossModel(config, vocabulary)
            case Conditioning.FILM | Conditioning.CROSS_ALL:
                self.network = TrunkModel(config, vocabulary)
            case Conditioning.RIDGE:
                self.network = RidgeModel(config, vocabulary)
        self.register_buffer("response_mean_T", torch.zeros(len(vocabulary.names)))
        self.register_buffer("response_sd_T", torch.ones(len(vocabulary.names)))

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """uint8 codes (B, length) and T treatments → float32 (B, T): responses, or logits for a binary task.

        bases_BL4: (B, length, 4), read instead of the codes' one-hot bases and differentiable; the codes still say
        where there is a base at all.
        """
        return self.in_response_units(self.standardised(codes_BL, treatments, bases_BL4), treatments)

    def in_response_units(self, answer_BT: Tensor, treatments: TreatmentBatch) -> Tensor:
        """Answers in standard units → float32 responses, or logits for a binary task."""
        mean_T, sd_T = self.response_units(treatments)
        return answer_BT.float() * sd_T + mean_T

    def response_units(self, treatments: TreatmentBatch) -> tuple[Tensor, Tensor]:
        """Mean (T,) and standard deviation (T,) of the responses that answers in standard units stand for."""
        known_T = treatments.index_T >= 0
        index_T = treatments.index_T.clamp(min=0)
        mean_T = torch.where(known_T, self.response_mean_T[index_T], self.response_mean_T.mean())
        sd_T = torch.where(known_T, self.response_sd_T[index_T], self.response_sd_T.mean())
        return mean_T, sd_T

    def standardised(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """As `forward`, in standard units, in which models are trained."""
        answer_BT: Tensor = self.network(codes_BL, treatments, bases_BL4)
        return answer_BT


def make_promoter_model(config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> PromoterModel:
    """An untrained model; its first weights depend on torch's random state."""
    return PromoterModel(config, vocabulary)


def attention_sites(model: nn.Module) -> dict[str, AttentionSite]:
    """Every attention site of a model by name, in the order of its modules."""
    return {
        module.site.name: module.site for module in model.modules() if isinstance(module, MultiHeadAttention)
    }
