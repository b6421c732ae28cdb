"""A promoter model of any conditioning, and the attention sites it has."""

from torch import nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite
from bioattn.models.promoter.concat import ConcatModel
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.models.promoter.trunk import TrunkModel

PromoterModel = ConcatModel | CrossModel | TrunkModel
"""Called as `model(codes_BL, treatments)`: uint8 codes (B, length) and T treatments → float32 (B, T)."""


def make_promoter_model(config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> PromoterModel:
    """An untrained model; its first weights depend on torch's random state."""
    match config.conditioning:
        case Conditioning.CONCAT:
            return ConcatModel(config, vocabulary)
        case Conditioning.CROSS:
            return CrossModel(config, vocabulary)
        case Conditioning.FILM | Conditioning.CROSS_ALL:
            return TrunkModel(config, vocabulary)


def attention_sites(model: nn.Module) -> dict[str, AttentionSite]:
    """Every attention site of a model by name, in the order of its modules."""
    return {
        module.site.name: module.site for module in model.modules() if isinstance(module, MultiHeadAttention)
    }
