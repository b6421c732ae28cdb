"""The arithmetic behind docs/scale.md: operations against what torch counts."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import scale_estimates
from benchmarks.evoformer_plain import PlainBlock
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.stacks import EvoformerBlock
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import named_treatments


@pytest.mark.parametrize(("rows", "residues"), [(8, 24), (40, 16)])
def test_operations_of_a_block(rows, residues):
    config = EvoformerConfig()
    msa = torch.randn(rows, residues, config.msa_channels)
    pair = torch.randn(residues, residues, config.pair_channels)
    block = PlainBlock(EvoformerBlock(config, 0))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        block(msa, pair, torch.ones(rows, residues), torch.ones(residues, residues))
    assert scale_estimates.block_flops(rows, residues) == pytest.approx(counter.get_total_flops(), rel=0.03)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("treatments", [1, 40])
def test_operations_of_a_promoter(treatments, training):
    table = named_treatments([f"t{number}" for number in range(treatments)])
    vocabulary = TreatmentVocabulary.learn(table, encoding=TreatmentEncoding.ID, unconditional=True)
    model = PromoterModel(PromoterModelConfig(length=400), vocabulary).train(training)
    codes = torch.randint(0, 4, (16, 400), dtype=torch.uint8)
    with torch.set_grad_enabled(training), FlopCounterMode(display=False) as counter:
        answer = model(codes, vocabulary.encode(table))
        if training:
            answer.sum().backward()
    counted = counter.get_total_flops() / 16
    assert scale_estimates.promoter_flops(400, treatments, training=training) == pytest.approx(
        counted, rel=0.15
    )
