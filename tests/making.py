"""What tests of several rooms make: small models without training, and calls of the command line."""

from typing import Any

import torch

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import TreatmentTable
from bioattn_cli.main import main


def bioattn(*words: object) -> int:
    """Run a command in this process; returns its exit code."""
    return main([str(word) for word in words])


def untrained_model(
    config: PromoterModelConfig,
    table: TreatmentTable,
    *,
    task: str = "regression",
    seed: int = 0,
    spread: float = 0.0,
) -> LoadedPromoterModel:
    """A promoter model in memory. spread: standard deviation of what is added to every parameter."""
    vocabulary = TreatmentVocabulary.learn(
        table, encoding=config.treatment_encoder, unconditional=config.unconditional
    )
    torch.manual_seed(seed)
    model = PromoterModel([config], vocabulary)
    if spread:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += spread * torch.randn_like(parameter)
    return LoadedPromoterModel(
        model=model.eval(),
        vocabulary=vocabulary,
        treatments=table,
        task=task,  # type: ignore[arg-type]
        reference=None,
        device=torch.device("cpu"),
        sha256="0" * 64,
    )


def small_evoformer(**changes: Any) -> EvoformerConfig:
    """An MSA/pair model of one block and one extra-MSA block, of whose sizes few are alike."""
    return EvoformerConfig(
        **{
            "msa_channels": 8,
            "pair_channels": 6,
            "extra_msa_channels": 4,
            "single_channels": 5,
            "msa_heads": 2,
            "pair_heads": 3,
            "extra_msa_heads": 2,
            "outer_product_channels": 3,
            "triangle_multiplication_channels": 7,
            "num_blocks": 1,
            "num_extra_msa_blocks": 1,
            "structure_module": None,
            **changes,
        }
    )
