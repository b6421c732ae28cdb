"""A pruned model gives what the whole one gives with those heads silenced, and keeps their numbers."""

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.measures import masked_heads
from bioattn.choices import PositionEncoding
from bioattn.models.promoter.config import (
    Conditioning,
    PromoterModelConfig,
    QuerySource,
    Stem,
    TreatmentEncoding,
)
from bioattn.models.promoter.heads import pruned
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import named_treatments

TABLE = named_treatments(["a", "b", "c"])
VOCABULARY = TreatmentVocabulary.learn(TABLE, encoding=TreatmentEncoding.ID, unconditional=True)
SMALL = {"length": 50, "channels": 16, "kernel": 5, "pool": 4, "hidden_channels": 8, "head_channels": 3}
SHAPES = {
    "cross": {"num_heads": 4, "sink": True},
    "two hops": {"num_heads": 3, "hops": 2, "attention_score": "gaussian"},
    "additive": {"num_heads": 3, "attention_score": "additive", "position_bias": "none"},
    "shared readout": {"num_heads": 4, "readout": "shared", "sink": True},
    "transformer": {"num_heads": 3, "stem": Stem.TRANSFORMER, "position": PositionEncoding.LEARNED},
    "shared": {"num_heads": 3, "attention_query": QuerySource.SHARED},
    "cross-all": {"num_heads": 3, "conditioning": Conditioning.CROSS_ALL, "attention_score": "additive"},
}


def make(shape, seed=0, **more):
    torch.manual_seed(seed)
    model = PromoterModel([PromoterModelConfig(**SMALL, **SHAPES[shape], **more)], VOCABULARY)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("position_bias_HP", "sink_key_HD", "width_HD")):
                parameter.normal_()
            elif name.endswith("attention.project_output.weight"):  # zero before training
                parameter.normal_(std=0.5)
    return model.eval()


@pytest.fixture
def codes():
    return torch.from_numpy(np.random.default_rng(0).integers(0, 5, (6, 50)).astype(np.uint8))


class Recorder:
    def __init__(self):
        self.weights = {}

    def receive(self, site, weights, value_weighted, tile=None):
        axis = site.dims.index("head")
        self.weights[site.name] = dict(zip(site.heads, weights.unbind(axis), strict=True))


def answers(model, codes):
    recorder = Recorder()
    with torch.inference_mode(), capture(["*"], recorder):
        return model(codes, VOCABULARY.encode(TABLE)), recorder.weights


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_masked_model(shape, codes):
    model = make(shape)
    sites = attention_sites(model)
    keep = {name: [2] if number else [0, 2] for number, name in enumerate(sites)}
    masks = {
        name: torch.tensor([float(head in keep[name]) for head in site.heads]) for name, site in sites.items()
    }
    with masked_heads(model, masks):
        expected, expected_weights = answers(model, codes)
    whole, _ = answers(model, codes)
    smaller = pruned(model, VOCABULARY, keep)
    found, found_weights = answers(smaller, codes)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    assert float((whole - expected).abs().max()) > 1e-3, "the heads that went made no difference"
    for name, heads in keep.items():
        assert list(found_weights[name]) == heads
        for head in heads:
            torch.testing.assert_close(
                found_weights[name][head], expected_weights[name][head], atol=1e-6, rtol=1e-5
            )
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())


def test_heads_keep_their_numbers_when_pruned_again(codes):
    model = make("cross")
    once = pruned(model, VOCABULARY, {"promoter.cross.0": [1, 2, 3]})
    twice = pruned(once, VOCABULARY, {"promoter.cross.0": [3, 1]})
    assert attention_sites(twice)["promoter.cross.0"].heads == (1, 3)
    found, _ = answers(twice, codes)
    expected, _ = answers(pruned(model, VOCABULARY, {"promoter.cross.0": [1, 3]}), codes)
    assert torch.equal(found, expected)
