"""Promoter models: invariants that must hold whatever the weights, and the arithmetic of their parts."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from bioattn.attention.capture import capture
from bioattn.errors import FormatError, SettingsError
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.io.settings import OPTIONS, build
from bioattn.models.promoter import layers as module
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.layers import best_match
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.mutant_bins import interpolation, smooth_rows
from bioattn.models.promoter.stem import KmerStem, one_hot
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import TreatmentTable

LENGTH = 52
SMALL = {"channels": 16, "kernel": 5, "pool": 8, "num_heads": 2, "head_channels": 8, "hidden_channels": 16}


def table():
    frame = pd.DataFrame(
        {
            "agent": ["salt", "salt", "acid", ""],
            "dose": ["0.5 M", "1 M", "3 mM", ""],
            "minutes": [10.0, 20.0, np.nan, 40.0],
        },
        index=pd.Index(["a", "b", "c", "d"]),
    )
    return TreatmentTable(frame=frame.astype({"agent": object, "dose": object}))


def make(encoding="id", **settings):
    config = build(
        PromoterModelConfig, {"length": LENGTH, "treatment_encoder": encoding, **SMALL, **settings}, "test"
    )
    vocabulary = TreatmentVocabulary.learn(
        table(), encoding=TreatmentEncoding(encoding), unconditional=config.unconditional
    )
    torch.manual_seed(0)
    model = PromoterModel([config], vocabulary).eval()
    return model, vocabulary, vocabulary.encode(table())


def codes(promoters=3, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 4, (promoters, LENGTH)).astype(np.uint8))


class Recorder:
    def __init__(self):
        self.received = {}

    def receive(self, site, weights, value_weighted, tile=None):
        self.received[site.name] = (site, weights, value_weighted)


SHAPES = [
    {"conditioning": "cross"},
    {"conditioning": "cross", "hops": 2, "sink": True},
    {"conditioning": "cross", "stem": "kmer"},
    {"conditioning": "cross", "stem": "both"},
    {"conditioning": "cross", "stem": "patch"},
    {"conditioning": "cross", "stem": "transformer"},
    {"conditioning": "cross", "stem": "transformer", "position": "learned", "readout": "shared"},
    {"conditioning": "cross", "attention_query": "shared"},
    {"conditioning": "cross", "position_bias": "treatment", "hops": 2},
    {"conditioning": "cross", "readout": "shared", "hops": 2, "sink": True},
    {"conditioning": "film"},
    {"conditioning": "cross-all"},
    {"conditioning": "concat", "concat_pools": [4, 4], "concat_hidden": [16, 8, 8]},
]
NAMES = [
    "cross",
    "hops-sink",
    "kmer",
    "both",
    "patch",
    "transformer",
    "transformer-shared-readout",
    "shared",
    "own-bias",
    "shared-readout",
    "film",
    "cross-all",
    "concat",
]


@pytest.mark.parametrize("encoding", ["id", "features"])
@pytest.mark.parametrize("settings", SHAPES, ids=NAMES)
def test_a_cell_does_not_depend_on_its_company(settings, encoding):
    """Each promoter and treatment alone gives what it gives in a batch with others."""
    model, vocabulary, batch = make(encoding, **settings)
    with torch.inference_mode():
        together = model(codes(), batch)
        assert together.shape == (3, 4)
        for t in range(4):
            row = vocabulary.encode(TreatmentTable(frame=table().frame.iloc[[t]]))
            for b in range(3):
                alone = model(codes()[b : b + 1], row)
                torch.testing.assert_close(alone[0, 0], together[b, t], atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("settings", SHAPES, ids=NAMES)
def test_many_treatments_answer_as_few_do(settings):
    """From some hundred treatments on attention goes another way: in pieces that stay in the cache."""
    model, _, known = make("id", length=400, **settings)
    many = known.rows(torch.arange(2000) % 4)
    random = np.random.default_rng(0).integers(0, 4, (3, 400)).astype(np.uint8)
    with torch.no_grad():
        few_BT = model(torch.from_numpy(random), known)
        many_BT = model(torch.from_numpy(random), many)
    np.testing.assert_allclose(many_BT.numpy(), few_BT.tile(1, 500).numpy(), atol=1e-5)


@pytest.mark.parametrize("settings", SHAPES, ids=NAMES)
def test_captured_maps_have_the_promised_axes_and_sums(settings, device):
    model, _, batch = make(**settings)
    model, batch, sequences = model.to(device), batch.to(device), codes().to(device)
    recorder = Recorder()
    with torch.inference_mode():
        fused = model(sequences, batch)
        with capture(["promoter.*"], recorder):
            explicit = model(sequences, batch)
    torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)
    assert set(recorder.received) == set(attention_sites(model))
    bins = model.config.num_bins
    for site, weights, _ in recorder.received.values():
        sizes = dict(zip(site.dims, weights.shape, strict=True))
        of_treatments = not site.name.startswith("promoter.stem.")
        assert (sizes["sample"], sizes["head"], sizes.get("treatment")) == (
            3,
            2,
            4 if of_treatments else None,
        )
        if not of_treatments:
            assert sizes["query"] == sizes["key"] == bins
            assert site.axis("query").edges == site.key_edges == model.config.bin_edges
        elif site.key_edges is not None:
            assert sizes["key"] == bins == len(site.key_edges) - 1
        else:
            assert sizes["query"] == bins == len(site.axis("query").edges) - 1
        total = weights.sum(-1)
        if site.null_key:
            assert (total < 1).all()
        else:
            torch.testing.assert_close(total, torch.ones_like(total), atol=1e-5, rtol=0)


@pytest.mark.parametrize("settings", SHAPES, ids=NAMES)
def test_a_training_step_on_every_device(settings, device):
    """Gradients reach every weight that the answers depend on, and one step lowers the loss."""
    model, _, batch = make(**settings)
    model, batch, sequences = model.to(device).train(), batch.to(device), codes(8).to(device)
    targets = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(2):
        torch.manual_seed(0)  # the same dropout in both passes
        loss = (model.members[0].network(sequences, batch) - targets).square().mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[1] < losses[0]
    idle = {name for name, weight in model.named_parameters() if weight.grad is None}
    assert all(".query." in name for name in idle), idle  # of the control with one shared query


def test_a_position_bias_of_the_treatment_is_a_curve_over_distance():
    """The same curve in windows of other lengths: straight between heights that stand 32 bases apart."""
    profiles = []
    for length in (100, 100 + 3 * 32):
        model, _, batch = make(
            length=length, position_bias="treatment", attention_query="position", num_heads=1, head_channels=8
        )
        network = model.members[0].network
        torch.nn.init.normal_(network.position_curve.heights.weight, generator=torch.manual_seed(1))
        with torch.no_grad():
            network.position_curve.heights.weight[5:] = 0
        recorder = Recorder()
        random = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (2, length)).astype(np.uint8))
        with torch.inference_mode(), capture(["*"], recorder):
            model(random, batch)
            heights_TK = network.position_curve.heights(network.treatment_encoder(batch)).numpy()
        weights = recorder.received["promoter.cross.0"][1][0, 0].numpy()
        edges = np.array(model.config.bin_edges)
        distance = length - (edges[:-1] + edges[1:]) / 2
        knots = 32 * np.arange(heights_TK.shape[1])
        bias = np.array([np.interp(distance, knots, heights_K) for heights_K in heights_TK])
        expected = np.exp(bias) / np.exp(bias).sum(-1, keepdims=True)
        np.testing.assert_allclose(weights, expected, rtol=1e-5)
        assert np.abs(np.diff(weights, axis=0)).max() > 0.01  # treatments differ
        profiles.append(bias[:, -3:])
    np.testing.assert_allclose(*profiles, rtol=1e-5)


def test_controls_ask_what_they_should():
    for query in ("shared", "position", "uniform"):
        model, _, batch = make(attention_query=query)
        if model.members[0].network.position_bias_HP is not None:
            torch.nn.init.normal_(model.members[0].network.position_bias_HP)
        recorder = Recorder()
        with torch.inference_mode(), capture(["*"], recorder):
            model(codes(), batch)
        weights = recorder.received["promoter.cross.0"][1]
        torch.testing.assert_close(weights, weights[:, :, :1].expand_as(weights))  # no treatment of its own
        across_promoters = (weights - weights[:1]).abs().max()
        assert (across_promoters < 1e-6) == (query != "shared")
        uniform = (weights - 1 / weights.shape[-1]).abs().max() < 1e-6
        assert bool(uniform) == (query == "uniform")


@pytest.mark.parametrize("stem", ["conv", "kmer"])
def test_filters_match_both_strands(stem):
    """One bin over the whole promoter: its features cannot tell a sequence from its reverse complement."""
    model, _, _ = make(stem=stem, pool=LENGTH)
    forward = codes(4)
    backward = torch.from_numpy(reverse_complement(forward.numpy()).copy())
    with torch.inference_mode():
        torch.testing.assert_close(
            model.members[0].network.stem(forward)[0],
            model.members[0].network.stem(backward)[0],
            atol=1e-4,
            rtol=1e-4,
        )
        model, _, _ = make(stem=stem, pool=LENGTH, both_strands=False)
        bins = [model.members[0].network.stem(strand)[0] for strand in (forward, backward)]
        assert not torch.allclose(*bins, atol=1e-2)


def test_bins_end_at_the_anchor():
    config = PromoterModelConfig(length=20, pool=8)
    assert config.bin_edges == (0, 4, 12, 20)
    assert config.num_bins == 3


def test_unknown_bins_get_no_attention():
    model, _, batch = make()
    sequence = codes(1)
    sequence[:, :28] = 4  # the first bin has 4 bases, the next three 8 each
    recorder = Recorder()
    with torch.inference_mode(), capture(["*"], recorder):
        answer = model(sequence, batch)
    weights = recorder.received["promoter.cross.0"][1]
    assert (weights[..., :4] == 0).all()
    assert (weights[..., 4:] > 0).all()
    with torch.inference_mode():
        nothing = model(torch.full((1, LENGTH), 4, dtype=torch.uint8), batch)
    assert torch.isfinite(nothing).all()
    assert torch.isfinite(answer).all()


def test_kmer_stem_sums_the_vectors_of_its_kmers():
    config = PromoterModelConfig(length=16, pool=8, stem="kmer", kmer=3, channels=5)  # type: ignore[arg-type]
    stem = KmerStem(config).eval()
    sequence = "ACGTNACGGATTACAG"
    bins, known = stem(torch.from_numpy(encode(sequence).copy())[None])
    expected = torch.zeros(2, 5)
    complement = str.maketrans("ACGT", "TGCA")
    columns = {}
    for letters in itertools.product("ACGT", repeat=3):
        word = "".join(letters)
        columns.setdefault(min(word, word[::-1].translate(complement)), len(columns))
    for start in range(len(sequence) - 2):
        k = sequence[start : start + 3]
        if "N" in k:
            continue
        canonical = min(k, k[::-1].translate(complement))
        expected[(start + 1) // 8] += stem.vectors.weight[columns[canonical]]
    torch.testing.assert_close(bins[0], expected)
    assert known.all()


def test_both_stems_share_the_channels():
    model, _, _ = make(stem="both")
    stem = model.members[0].network.stem
    bins, known = stem(codes())
    half = bins.shape[-1] // 2
    for part, alone in ((bins[..., :half], stem.kmers), (bins[..., half:], stem.filters)):
        features, known_alone = alone(codes())
        torch.testing.assert_close(part, features)
        torch.testing.assert_close(known, known_alone)
    stem = make(stem="both", channels=10)[0].members[0].network.stem  # halves of an odd size
    assert stem(codes())[0].shape[-1] == 10
    with pytest.raises(FormatError, match="channels is 15; it must be even for stem = both"):
        make(stem="both", channels=15)


class TestVocabulary:
    def test_doses_are_scaled_within_agent_and_unit(self):
        vocabulary = TreatmentVocabulary.learn(
            table(), encoding=TreatmentEncoding.FEATURES, unconditional=True
        )
        batch = vocabulary.encode(table())
        dose = [scale.column for scale in vocabulary.numbers].index("dose")
        scale = vocabulary.numbers[dose]
        assert scale.largest == {"salt|mM": 1000.0, "acid|mM": 3.0}
        raw = (batch.numbers_TN[:, dose] * scale.sd + scale.mean).tolist()
        assert raw[:3] == pytest.approx([0.5, 1.0, 1.0])
        assert batch.present_TN[:, dose].tolist() == [1, 1, 1, 0]
        other = table().frame.assign(dose=np.array(["500 mM", "1e6 uM", "3 mM", ""], dtype=object))
        assert torch.equal(vocabulary.encode(TreatmentTable(other)).numbers_TN, batch.numbers_TN)

    def test_times_of_different_units_are_minutes_whatever_the_agent(self):
        columns = {"agent": ["salt", "acid", "acid"], "time": ["30 s", "1.5 min", "2 h"]}
        frame = pd.DataFrame(columns, index=pd.Index(["a", "b", "c"]), dtype=object)
        vocabulary = TreatmentVocabulary.learn(
            TreatmentTable(frame), encoding=TreatmentEncoding.FEATURES, unconditional=False
        )
        (scale,) = vocabulary.numbers
        assert scale.largest == {"|min": 120.0}
        raw = vocabulary.encode(TreatmentTable(frame)).numbers_TN[:, 0] * scale.sd + scale.mean
        raw = raw.expm1() if scale.log else raw
        assert raw.tolist() == pytest.approx([0.5 / 120, 1.5 / 120, 1.0], rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"conditioning": "cross-all", "num_tokens": 0}, "over a single key softmax is 1 everywhere"),
        ({"kernal": 5}, "unknown setting 'kernal'; did you mean kernel"),
        (
            {"conditioning": "attention"},
            "conditioning is 'attention'; choose from concat, film, cross, cross-all",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        build(PromoterModelConfig, {"length": LENGTH, **settings}, OPTIONS)


@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize(
    ("promoters", "bins", "pool", "kernel", "filters"), [(5, 6, 8, 15, 7), (1, 1, 4, 1, 1), (19, 3, 5, 7, 4)]
)
def test_matches_and_gradients_are_those_of_convolution_and_amax(
    promoters, bins, pool, kernel, filters, coded, monkeypatch
):
    monkeypatch.setattr(module, "PROMOTERS_AT_ONCE", 4)
    torch.manual_seed(0)
    codes = torch.randint(0, 5, (promoters, bins * pool), dtype=torch.uint8)  # with N
    codes[0, : 2 * pool] = 0  # a run of A: equal matches share the gradient
    bases = one_hot(codes)
    weight = torch.randn(filters, 4, kernel, requires_grad=True)
    upstream = torch.randn(promoters, bins, filters)

    ours = best_match(bases.transpose(1, 2), weight, pool, codes if coded else None)
    (our_gradient,) = torch.autograd.grad((ours * upstream).sum(), weight)

    matches = F.conv1d(bases, weight, padding=kernel // 2)
    theirs = matches.unflatten(-1, (bins, pool)).amax(-1).transpose(1, 2)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    # Equal matches differ in the last bit between two summation orders, and then do not share: compare the
    # gradient where they agree on what is best.
    plain = codes.clone()
    plain[0] = torch.randint(0, 4, (bins * pool,), dtype=torch.uint8)
    assert our_gradient.shape == weight.shape
    bases = one_hot(plain)
    ours = best_match(bases.transpose(1, 2), weight, pool, plain if coded else None)
    (ours,) = torch.autograd.grad((ours * upstream).sum(), weight)
    matches = F.conv1d(bases.double(), weight.double(), padding=kernel // 2)
    loss = (matches.unflatten(-1, (bins, pool)).amax(-1).transpose(1, 2) * upstream).sum()
    (theirs,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_smooth_function_follows_from_few_of_its_values():
    random = np.random.default_rng(0)
    variables = random.normal(0, 0.02, (300, 4)) + 0.3
    rows = smooth_rows(variables)
    assert rows.mean() > 0.9
    variables = variables[rows]
    slopes = random.uniform(-1, 1, (50, 4))

    nodes, weights = interpolation(variables)

    values = np.exp(variables @ slopes.T)
    assert len(nodes) < len(variables) / 2
    assert np.abs(weights).max() < 10
    np.testing.assert_allclose(weights @ values[nodes], values, rtol=2e-6)


def test_one_point_needs_one_node():
    nodes, weights = interpolation(np.full((5, 4), 0.1))
    assert len(nodes) == 1
    np.testing.assert_allclose(weights, np.ones((5, 1)))


def test_what_is_far_from_the_rest_is_not_smooth():
    variables = np.zeros((20, 4))
    variables[3, 1] = 0.5
    assert smooth_rows(variables).tolist() == [row != 3 for row in range(20)]
