"""Translation models: steps are the same as the whole target, padding changes nothing, maps are right."""

import itertools
import math

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture, sites_of
from bioattn.choices import AttentionScore
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.translation.family import Architecture, Cell, Encoder, TranslationModelConfig
from bioattn.models.translation.model import STEEPNESS, Distances, Translator
from bioattn.sequences.choices import PairAlphabet
from bioattn.sequences.vocabulary import CLS, EOS, PAD, SPECIAL
from bioattn.store.schema import AttentionOptions
from tests.making import shaken

VARIANTS = [
    {"architecture": Architecture.RECURRENT},
    {"architecture": Architecture.RECURRENT, "cell": Cell.LSTM, "layers": 1},
    *(
        {"architecture": Architecture.RECURRENT_ATTENTION, "score": score, "cell": cell}
        for score, cell in zip(AttentionScore, itertools.cycle(Cell), strict=False)
    ),
    {"architecture": Architecture.RECURRENT_ATTENTION, "reach": 0, "layers": 1},
    {"architecture": Architecture.RECURRENT_ATTENTION, "encoder": Encoder.CONV},
    {"architecture": Architecture.RECURRENT, "encoder": Encoder.CONV, "aligned": True},
    {"architecture": Architecture.RECURRENT_ATTENTION, "cell": Cell.LSTM, "aligned": True},
    {"architecture": Architecture.TRANSFORMER},
    {"architecture": Architecture.TURING_MACHINE, "slots": 12, "slot_channels": 5},
    {"architecture": Architecture.TURING_MACHINE, "slots": 2, "cell": Cell.LSTM, "num_heads": 4},
]


@pytest.fixture(params=VARIANTS, ids=lambda each: "-".join(map(str, each.values())))
def model(request):
    torch.manual_seed(0)
    alphabets = {"source_alphabet": PairAlphabet.PROTEIN, "target_alphabet": PairAlphabet.CODON}
    config = TranslationModelConfig(
        **{"channels": 16, "num_heads": 2, "reach": 2, **alphabets, **request.param}
    )
    return shaken(Translator(config))


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
    assert {path.removeprefix("sites/") for path in arrays} == set(sites_of(model))
    lengths = model.lengths(8, 6)
    for name, site in sites_of(model).items():
        own = arrays[f"sites/{name}"]
        assert own["weights"].shape == (
            2,
            len(site.heads),
            *(lengths[axis.lengths] for axis in site.axes[2:]),
        )
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


@torch.no_grad()
def test_heads_address_slots_as_a_plain_loop_does():
    """By content, gate, move and sharpening (Graves et al. 2014, equations 5 to 9), then write and read."""
    config = TranslationModelConfig(
        source_alphabet=PairAlphabet.DNA,
        target_alphabet=PairAlphabet.DNA,
        architecture=Architecture.TURING_MACHINE,
        num_heads=2,
        channels=8,
        slots=7,
        slot_channels=3,
    )
    torch.manual_seed(0)
    machine = shaken(Translator(config).body, 1)
    source_BSC, slots = torch.randn(1, 3, 8), 7
    receiver = BatchReceiver(AttentionOptions())
    with capture(["*.source"], receiver):
        state = machine.begin(source_BSC, torch.ones(1, 3, dtype=torch.bool))
    heard = {path: each["weights"][0] for path, each in receiver.take().items()}
    memory = np.tile(machine.empty_D.numpy(), (slots, 1)).astype(float)
    weights = np.zeros((3, slots))
    weights[[0, 1, 2], [0, slots - 1, slots - 1]] = 1  # one that stays, one that goes on, the writer
    read = np.zeros(6)
    for step in range(3):
        inputs = np.concatenate([source_BSC[0, step].numpy(), read])
        hidden = np.tanh(machine.layer.weight.numpy() @ inputs + machine.layer.bias.numpy())
        layer = machine.address["source_tokens"]
        for head, flat in enumerate((layer.weight.numpy() @ hidden + layer.bias.numpy()).reshape(3, 9)):
            key, (strength, gate, sharpness), moves = flat[:3], flat[3:6], np.exp(flat[6:])
            cosines = memory @ key / np.linalg.norm(memory, axis=1) / np.linalg.norm(key)
            content = np.exp(np.log1p(np.exp(strength)) * cosines)
            share = 1 / (1 + np.exp(-gate))
            gated = share * content / content.sum() + (1 - share) * weights[head]
            moved = sum(moves[place] / moves.sum() * np.roll(gated, place - 1) for place in range(3))
            weights[head] = moved ** (1 + np.log1p(np.exp(sharpness)))
            weights[head] /= weights[head].sum()
        assert np.allclose(heard["sites/translation.read.source"][:, step], weights[:2], atol=1e-5)
        assert np.allclose(heard["sites/translation.write.source"][0, step], weights[2], atol=1e-5)
        erase, add = np.split(machine.change.weight.numpy() @ hidden + machine.change.bias.numpy(), 2)
        memory = memory * (1 - np.outer(weights[2], 1 / (1 + np.exp(-erase)))) + np.outer(weights[2], add)
        read = (weights[:2] @ memory).ravel()
    assert np.allclose(state.tensors["memory"][0], memory, atol=1e-5)
