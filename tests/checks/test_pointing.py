"""Deletion, insertion and mutagenesis against plain loops; planted maps that point well, badly and backwards."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from bioattn.attention.capture import capture
from bioattn.checks import thresholds
from bioattn.checks.deletion import (
    Effects,
    Pairs,
    Replacement,
    map_spearman,
    mean_ignoring_nan,
    measure_effects,
    pairs_that_stand_out,
    top_bins,
)
from bioattn.checks.engine import draw_names
from bioattn.checks.pointing import check_pointing, mutation_effects, predictions_of
from bioattn.checks.promoters import draw_sample, known_bins, predict, read_maps, read_weights
from bioattn.inference.promoter_windows import hold_promoters
from bioattn.interpret.promoter_maps import Quantity, maps_in_memory
from tests.checks.conftest import probe_of
from tests.result_files import Heard


def one_prediction(model, codes_L, treatment):
    """By a call of the model for one promoter alone."""
    with torch.inference_mode():
        answer = model.model(
            torch.from_numpy(codes_L[None].copy()), model.encode_treatments(model.treatments)
        )
    return float(answer[0, treatment])


@pytest.fixture
def replacement(make_model, codes):
    model = make_model()
    return Replacement(
        predictions=partial(predictions_of, model.predictor()),
        codes_BL=codes,
        known_BP=known_bins(codes, model.config.bin_edges),
        edges=model.config.bin_edges,
    )


def test_maps_are_means_over_heads_and_their_entropy(make_model, codes):
    model = make_model(hops=2, sink=True, pool=7)  # the first bin is shorter
    maps = read_weights(model.predictor(), codes)
    spreads, edges = maps.spreads(), model.config.bin_edges
    heard = Heard()
    predict(model.predictor(), codes, capture(["*"], heard))
    kept = {site.name: weights.double().numpy() for site, weights, _ in heard.received}
    mean = np.mean([weights.mean(1) for weights in kept.values()], axis=0)
    np.testing.assert_allclose(maps.mean(), mean, atol=1e-6)
    for spread in spreads:
        entropies, sinks = [], []
        for promoter in range(len(codes)):
            for treatment in range(4):
                row = kept[spread.site][promoter, spread.head, treatment]
                shares = row[row > 0] / row.sum()
                known = sum((codes[promoter, start:end] < 4).any() for start, end in pairwise(edges))
                entropies.append(-(shares * np.log(shares)).sum() / np.log(known))
                sinks.append(1 - row.sum())
        assert spread.entropy == pytest.approx(np.mean(entropies), abs=1e-5)
        assert spread.sink == pytest.approx(np.mean(sinks), abs=1e-5)
    assert len(spreads) == 4


def test_contributions_are_judged_where_a_model_has_them(make_model, codes):
    model = make_model(readout="shared", pool=7)
    maps = read_maps(model.predictor(), codes)
    assert maps.quantity is Quantity.CONTRIBUTIONS
    # They add up to the prediction, but for a constant of the treatment.
    rest_BT = predict(model.predictor(), codes) - maps.block(slice(None)).sum(axis=2)
    np.testing.assert_allclose(rest_BT, np.tile(rest_BT[0], (len(codes), 1)), atol=1e-5)
    weights = read_maps(model.predictor(), codes, weights=True)
    assert weights.quantity is Quantity.ATTENTION
    np.testing.assert_allclose(
        weights.block(slice(None)), read_weights(model.predictor(), codes).mean(), atol=1e-7
    )


def test_pairs_are_those_farthest_from_the_mean():
    predictions = np.array([[0.0, 1.0], [5.0, 1.0], [-4.0, 1.0], [0.1, 1.0], [0.3, 1.0], [-0.2, 1.0]])
    pairs = pairs_that_stand_out(predictions)
    assert pairs.sample_N.tolist() == [1, 2, 4] or pairs.sample_N.tolist() == [1, 2, 5]
    assert pairs.task_N.tolist() == [0, 0, 0]  # the second treatment says the same of all
    np.testing.assert_allclose(np.abs(pairs.scale_N), 1 / predictions[:, 0].std())
    assert np.sign(pairs.scale_N[:2]).tolist() == [1, -1]


def test_deletion_and_insertion_by_hand(replacement, codes):
    edges, model = replacement.edges, replacement.predictions.args[0].runner
    scores = np.random.default_rng(1).random((3, len(edges) - 1))
    background = np.random.default_rng(2).integers(0, 4, codes.shape, dtype=np.uint8)
    pairs = Pairs(np.array([0, 1, 5]), np.array([2, 0, 2]), np.ones(3))
    deleted = replacement.mixed(pairs, scores, 0.3, background, codes)
    inserted = replacement.mixed(pairs, scores, 0.3, codes, background)
    for row, (promoter, treatment) in enumerate([(0, 2), (1, 0), (5, 2)]):
        known = [p for p in range(10) if (codes[promoter, edges[p] : edges[p + 1]] < 4).any()]
        number = max(1, int(0.3 * len(known) + 0.5))
        top = sorted(known, key=lambda p, r=row: -scores[r, p])[:number]
        without, alone = codes[promoter].copy(), background[promoter].copy()
        for p in top:
            without[edges[p] : edges[p + 1]] = background[promoter, edges[p] : edges[p + 1]]
            alone[edges[p] : edges[p + 1]] = codes[promoter, edges[p] : edges[p + 1]]
        assert deleted[row] == pytest.approx(one_prediction(model, without, treatment), abs=1e-5)
        assert inserted[row] == pytest.approx(one_prediction(model, alone, treatment), abs=1e-5)


def test_effects_are_shares_of_the_whole_and_intervals_draw_promoters():
    pairs = Pairs(np.array([0, 0, 2]), np.array([0, 1, 0]), np.ones(3))
    moved = {
        "everything": np.array([4.0, 2.0, 2.0]),
        "own": np.array([3.0, 1.0, 2.0]),
        "random": np.array([1.0, 0.0, 0.0]),
    }
    effects = Effects(pairs=pairs, moved=moved, number=3)
    assert effects.value("own") == 6 / 8
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 1.0, 0.0], [0.0, 3.0, 0.0]])
    np.testing.assert_allclose(effects.share_gained("own", "random")(weights), [5 / 8, 3 / 6, np.nan])
    np.testing.assert_allclose(effects.recovered("random", "own")(weights), [0, 0, np.nan])


def test_curves_begin_where_deletion_is_judged_and_end_with_everything(replacement, codes):
    pairs = pairs_that_stand_out(predict(replacement.predictions.args[0], codes))
    scores = np.random.default_rng(0).random((len(pairs.sample_N), 10))
    background = np.random.default_rng(2).integers(0, 4, codes.shape, dtype=np.uint8)
    probe = probe_of(replacement.predictions.args[0].runner, codes)
    effects = measure_effects(probe, replacement, pairs, {"own": scores}, [background] * 2, curves=True)
    np.testing.assert_array_equal(effects.moved["own"], effects.moved["deletion own 0.1"])
    for way in ("deletion", "insertion"):
        for name in ("own", "random"):
            np.testing.assert_array_equal(effects.moved[f"{way} {name} 1.0"], effects.moved["everything"])
    before = predict(replacement.predictions.args[0], codes)[pairs.sample_N, pairs.task_N]
    empty = predict(replacement.predictions.args[0], background)[pairs.sample_N, pairs.task_N]
    np.testing.assert_allclose(effects.moved["everything"], 2 * pairs.scale_N * (before - empty), atol=1e-5)


def test_mutation_effects_by_loops(make_model, codes):
    model = make_model()
    edges = model.config.bin_edges
    found = mutation_effects(probe_of(model, codes), model.predictor(), codes[:3], edges)
    for promoter in range(3):
        for treatment in (0, 3):
            for p in (0, 4, 9):
                total = 0.0
                for position in range(edges[p], edges[p + 1]):
                    present = codes[promoter, position]
                    for base in set(range(4)) - {int(present)} if present < 4 else ():
                        mutant = codes[promoter].copy()
                        mutant[position] = base
                        before = one_prediction(model, codes[promoter], treatment)
                        total += abs(one_prediction(model, mutant, treatment) - before) / 3
                assert found[promoter, treatment, p] == pytest.approx(total, abs=1e-4)


def pointing(model, codes, maps_BTP, quantity=Quantity.ATTENTION):
    """The measures and curves of planted maps."""
    edges, probe = model.config.bin_edges, probe_of(model, codes)
    maps = maps_in_memory(maps_BTP, probe.names, np.array(edges), quantity=quantity)
    check_pointing(probe, maps)
    return probe.measures, probe.curves


def test_planted_maps_are_told_apart(make_model, codes):
    model = make_model(kernel=9, reader="hidden")  # its top tenth works alone, too
    effects = mutation_effects(
        probe_of(model, codes), model.predictor(), codes, model.config.bin_edges
    ).astype(np.float32)
    good, curves = pointing(model, codes, effects)
    assert good.value("deletion_against_mutagenesis") == pytest.approx(1)
    assert good.value("deletion") > thresholds.POINTED
    signs = np.random.default_rng(0).choice((-1, 1), effects.shape)
    signed, _ = pointing(model, codes, effects * signs, Quantity.CONTRIBUTIONS)
    assert [each.value for each in signed.values()] == [each.value for each in good.values()]
    assert good.value("deletion_of_other_treatments") == pytest.approx(1)
    backwards, _ = pointing(model, codes, effects.max() - effects)
    assert backwards.passed("deletion") is False
    assert backwards.passed("deletion_against_mutagenesis") is False
    one_for_all, _ = pointing(model, codes, np.repeat(effects.mean(1, keepdims=True), 4, axis=1))
    assert one_for_all.value("deletion_of_other_treatments") == 0
    assert one_for_all.passed("deletion_of_other_treatments") is False
    assert curves["deletion"].fraction == [0.0, 0.04, 0.1, 0.2, 0.35, 0.5, 1.0]
    for curve in curves.values():
        assert curve.top[0] == 0
        assert curve.top[-1] == curve.random[-1] == 1
        assert curve.top[2] > curve.random[2]


def test_a_constant_model_has_nothing_to_point_at(make_model, codes):
    model = make_model()
    with torch.no_grad():
        for parameter in model.model.members[0].network.readout.parameters():
            parameter.zero_()
    measures, curves = pointing(model, codes, np.ones((25, 4, 10), np.float32))
    assert curves == {}
    assert "deletion" not in measures
    assert "the same of every promoter" in measures.skipped["deletion"]


def test_samples_prefer_held_out_promoters_and_keep_file_order(tmp_path):
    path = tmp_path / "promoters.fa"
    rng = np.random.default_rng(0)
    path.write_text("".join(f">g{n}\n{''.join(rng.choice(list('ACGT'), 30))}\n" for n in range(60)))
    source = hold_promoters(path, 40)
    everything = draw_sample(source, 100, seed=0)
    assert everything.ids == [f"g{n}" for n in range(60)]
    assert not everything.held_out
    assert (everything.codes[:, :10] == 4).all()
    held_out = {f"g{n}" for n in range(0, 60, 2)}
    some = draw_sample(source, 25, seed=0, held_out=held_out)
    assert some.held_out
    assert set(some.ids) <= held_out
    assert len(some.ids) == 25
    assert some.ids == sorted(some.ids, key=lambda name: int(name[1:]))
    assert draw_sample(source, 25, seed=1, held_out=held_out).ids != some.ids
    assert not draw_sample(source, 25, seed=0, held_out={"g1", "g2"}).held_out  # too few of them


def test_treatments_are_drawn_in_their_order():
    names = [f"t{n}" for n in range(20)]
    drawn = draw_names(names, 5, seed=0)
    assert len(drawn) == 5
    assert drawn == sorted(drawn, key=names.index)
    assert draw_names(names, 5, seed=1) != drawn
    assert draw_names(names, 30, seed=0) == names


# --- similarity of maps, against scipy and plain loops ---

PROMOTERS, TREATMENTS, BINS = 6, 3, 12


@pytest.fixture
def maps():
    """Two maps, some ties, and promoters of three lengths."""
    first, second = np.random.default_rng(0).integers(0, 6, (2, PROMOTERS, TREATMENTS, BINS)).astype(float)
    known = np.ones((PROMOTERS, BINS), bool)
    known[1, :4] = known[2, :10] = known[4, :4] = False
    first[3, 1] = 2.0  # a flat map
    return first, second, known


def test_spearman_is_scipys_on_the_known_bins(maps):
    first, second, known = maps
    found = map_spearman(first, second, known)
    for promoter in range(PROMOTERS):
        for treatment in range(TREATMENTS):
            bins = known[promoter]
            if bins.sum() < 3 or (promoter, treatment) == (3, 1):
                assert np.isnan(found[promoter, treatment])
                continue
            expected = spearmanr(
                first[promoter, treatment, bins], second[promoter, treatment, bins]
            ).statistic
            assert found[promoter, treatment] == pytest.approx(expected, abs=1e-12)


def test_unknown_bins_are_no_top():
    scores, known = np.array([3.0, 9.0, 3.0, 5.0]), np.array([True, False, True, True])
    np.testing.assert_array_equal(top_bins(scores, known, 0.5), [True, False, False, True])
    np.testing.assert_array_equal(top_bins(scores, known, 1.0), known)


def test_mean_without_nan():
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    np.testing.assert_array_equal(mean_ignoring_nan(values, axis=1), [2.0, np.nan])
