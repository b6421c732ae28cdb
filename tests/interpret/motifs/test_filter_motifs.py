"""Filters whose weights are known become the motifs they were made of."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.interpret.motifs.export import filter_motifs
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, Stem
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import ConvStem
from bioattn.promoters.treatments import TreatmentTable
from tests.making import untrained_model

LENGTH = 120
SITE = "TGACCGTA"


def loaded(**settings):
    config = PromoterModelConfig(length=LENGTH, channels=4, head_channels=4, num_heads=1, **settings)
    table = TreatmentTable(frame=pd.DataFrame(index=["one", "two"]))
    return untrained_model(config, table)


@pytest.fixture
def codes():
    """Promoters with the site, on both strands; every tenth has one base of it replaced."""
    rng = np.random.default_rng(0)
    made = rng.integers(0, 4, size=(300, LENGTH)).astype(np.uint8)
    for row in range(300):
        site = encode(SITE)
        if row % 10 == 0:
            site[2] = (site[2] + 1) % 4
        made[row, 50:58] = reverse_complement(site) if row % 3 == 0 else site
    made[5, :30] = 4
    return made


def filter_of(word, width):
    weights = torch.zeros(4, width)
    for place, base in enumerate(encode(word)):
        weights[:, place + 2] = -1.0
        weights[base, place + 2] = 1.0
    return weights


@pytest.mark.parametrize("conditioning", [Conditioning.CROSS, Conditioning.FILM, Conditioning.CONCAT])
def test_a_filter_becomes_what_it_matches(codes, conditioning):
    model = loaded(
        conditioning=conditioning, concat_channels=(4, 4), concat_kernels=(13, 3), concat_pools=(4, 4)
    )
    first = (
        next((module.convolution for module in model.model.modules() if isinstance(module, ConvStem)), None)
        or model.model.members[0].network.sequence[0]
    )
    with torch.no_grad():
        first.weight.zero_()
        first.bias.fill_(-3.0)
        first.weight[1] = filter_of(SITE, first.weight.shape[-1])
    (motif,) = filter_motifs(model, codes)
    assert motif.name == "filter_1"
    # Excited by 5 (8 matches less 3); a site with one base replaced (3) still counts, with two (1) it does not.
    assert motif.consensus in {SITE, decode(reverse_complement(encode(SITE)))}
    matches = []
    for row in codes:
        for start in range(LENGTH - 7):
            site = row[start : start + 8]
            # `concat` does not look at the other strand.
            turned = [] if conditioning is Conditioning.CONCAT else [reverse_complement(site)]
            for read in (site, *turned):
                if int((read == encode(SITE)).sum()) >= 7 and 2 <= start < LENGTH - 20:
                    matches.append(read)
    assert motif.sites == pytest.approx(len(matches), rel=0.1)
    share = np.mean([read[2] == encode(SITE)[2] for read in matches])
    assert motif.probabilities[2 if motif.consensus == SITE else 5].max() == pytest.approx(share, abs=0.03)


def test_of_k_mers_and_filters_the_filters_are_shown(codes):
    model = loaded(stem=Stem.BOTH)
    stem = next(module for module in model.model.modules() if isinstance(module, ConvStem))
    with torch.no_grad():
        stem.convolution.weight[0] = filter_of(SITE, stem.convolution.weight.shape[-1])
    motifs = filter_motifs(model, codes)
    assert "filter_0" in {motif.name for motif in motifs}
    with pytest.raises(BioattnError, match="--model: has no filters in its first layer"):
        filter_motifs(loaded(stem=Stem.KMER), codes)


def test_filters_of_several_networks_have_names_of_their_own(codes):
    model = loaded()
    two = replace(model, model=PromoterModel.mean([model.model, loaded().model], model.vocabulary))
    names = [name for name, _ in two.first_layer_matches(codes)]
    assert len(set(names)) == len(names) == 2 * len(list(model.first_layer_matches(codes)))
