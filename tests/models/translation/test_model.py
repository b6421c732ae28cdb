"""Translation models: steps are the same as the whole target, padding changes nothing, maps are right."""

import itertools
import math

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.choices import AttentionScore
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.translation.config import Architecture, Cell, Encoder, TranslationModelConfig
from bioattn.models.translation.model import STEEPNESS, Distances, Translator, attention_sites
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.vocabulary import CLS, EOS, PAD, SPECIAL
from bioattn.store.schema import AttentionOptions

VARIANTS = [
    {"architecture": Architecture.RECURRENT},
    {"architecture": Architecture.RECURRENT, "cell": Cell.LSTM, "layers": 1},
    *(
        {"architecture": Architecture.RECURRENT_ATTENTION, "score": score, "cell": cell}
        for score, cell in zip(AttentionScore, itertools.cycle(Cell), strict=False)
    ),
    {"architecture": Architecture.RECURRENT_ATTENTION, "input_feeding": True, "reach": 0, "layers": 1},
    {"architecture": Architecture.RECURRENT_ATTENTION, "encoder": Encoder.CONV},
    {"architecture": Architecture.TRANSFORMER},
]


@pytest.fixture(params=VARIANTS, ids=lambda each: "-".join(map(str, each.values())))
def model(request):
    torch.manual_seed(0)
    alphabets = {"source_alphabet": PairAlphabet.PROTEIN, "target_alphabet": PairAlphabet.CODON}
    config = TranslationModelConfig(
        **{"channels": 16, "num_heads": 2, "reach": 2, **alphabets, **request.param}
    )
    model = Translator(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model


def tokens(rows, length, highest, seed=0):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(len(SPECIAL), highest, (rows, length - 2), generator=generator)
    return torch.cat([torch.full((rows, 1), CLS), words, torch.full((rows, 1), EOS)], 1)


@torch.no_grad()
def test_steps_give_what_the_whole_target_gives(model):
    source_BS, prefix_BT = tokens(3, 8, 25), tokens(3, 6, 69, 1)
    whole = model(source_BS, prefix_BT)
    state = model.begin(source_BS)
    parts = [model.advance(prefix_BT[:, :2], state)]
    parts += [model.advance(prefix_BT[:, place : place + 1], state) for place in range(2, 6)]
    assert torch.allclose(whole, torch.cat(parts, 1), atol=1e-5)


@torch.no_grad()
def test_rows_of_a_state_go_on_alone(model):
    source_BS, prefix_BT = tokens(3, 8, 25), tokens(3, 6, 69, 1)
    state = model.begin(source_BS)
    model.advance(prefix_BT[:, :3], state)
    rows = torch.tensor([2, 0, 2])
    after = model.advance(prefix_BT[rows, 3:], state.chosen(rows))
    assert torch.allclose(after, model(source_BS, prefix_BT)[rows, 3:], atol=1e-5)


@torch.no_grad()
def test_padding_changes_nothing(model):
    source_BS, prefix_BT = tokens(2, 8, 25), tokens(2, 6, 69, 1)
    short = torch.cat([source_BS[1:, :4], torch.full((1, 1), EOS)], 1)
    padded = torch.cat([source_BS[:1], torch.cat([short, torch.full((1, 3), PAD)], 1)])
    together, alone = model(padded, prefix_BT), model(short, prefix_BT[1:])
    assert torch.allclose(together[1:], alone, atol=1e-5)


@torch.no_grad()
def test_a_step_does_not_see_later_targets(model):
    source_BS, prefix_BT = tokens(1, 8, 25), tokens(1, 6, 69, 1)
    other_BT = prefix_BT.clone()
    other_BT[0, 4] = len(SPECIAL)
    assert torch.equal(model(source_BS, prefix_BT)[:, :4], model(source_BS, other_BT)[:, :4])


@torch.no_grad()
def test_maps_are_heard_whole_and_sum_to_one(model):
    source_BS, prefix_BT = tokens(2, 8, 25), tokens(2, 6, 69, 1)
    receiver = BatchReceiver(AttentionOptions())
    with capture(["*"], receiver):
        heard = model(source_BS, prefix_BT)
    assert torch.allclose(heard, model(source_BS, prefix_BT), atol=1e-5)
    arrays = receiver.take()
    assert {path.removeprefix("sites/") for path in arrays} == set(attention_sites(model))
    for path, own in arrays.items():
        rows, keys = (8, 8) if "encoder" in path else (6, 6 if "decoder" in path else 8)
        assert own["weights"].shape == (2, 2, rows, keys)
        assert np.allclose(own["weights"].sum(-1), 1, atol=1e-5)


def test_distances_count_from_both_ends_of_the_source():
    """Against plain loops."""
    torch.manual_seed(0)
    layer = Distances(2, 3, of_source=True)
    torch.nn.init.normal_(layer.start_RH)
    torch.nn.init.normal_(layer.end_RH)
    known_BS = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    found = layer(2, 4, known_BS).detach()
    for row, head, query, key in itertools.product(range(2), range(2), range(4), range(7)):
        length, step = (7, 5)[row], query + 2
        start = min(3, max(-3, step - key)) + 3
        end = min(3, max(-3, step - (length - 1 - key))) + 3
        wanted = STEEPNESS * math.log(1 + length) * (layer.start_RH[start, head] + layer.end_RH[end, head])
        assert found[row, head, query, key] == pytest.approx(wanted.item())
