"""Effects against loops, and pairs whose answer is planted."""

import numpy as np
import pytest
from scipy import stats

from bioattn.formats.nucleotides import encode
from bioattn.interpret.choices import KnownMotifSettings
from bioattn.interpret.motifs import site_differences as site_differences_module
from bioattn.interpret.motifs.expected_motifs import ExpectedPair, ExpectedSites, locate
from bioattn.interpret.motifs.known_motifs import (
    ALL_TREATMENTS,
    BACKGROUND,
    ScoredCondition,
    mixing,
    score_pairs,
)
from bioattn.interpret.motifs.site_differences import (
    POSITION_STEP,
    MatchedBackground,
    site_differences,
    window_sums,
)
from bioattn.interpret.promoter_maps import Quantity, maps_in_memory
from bioattn.system.progress import Progress

LENGTH, NUMBER = 120, 400
TREATMENTS = ["heat", "heat 2", "cold"]
WORDS = {"up": "TGACTCA", "down": "GATGAGC", "silent": "CGTACTG"}


def known_signal(values_BTL, *, signed):
    """Maps of a signal: contributions of bases, or attention whose logarithm it is."""
    quantity = Quantity.CONTRIBUTIONS if signed else Quantity.ATTENTION
    values = values_BTL if signed else 2.0**values_BTL / LENGTH
    return [maps_in_memory(values, TREATMENTS, np.arange(LENGTH + 1), quantity=quantity)]


@pytest.fixture(autouse=True)
def _blocks_that_do_not_divide_evenly(monkeypatch):
    monkeypatch.setattr(site_differences_module, "BLOCK_BYTES", 77 * 8 * 6 * LENGTH)


def pair(word, condition, direction, factor="factor"):
    return ExpectedPair(
        line=2,
        factor=factor,
        matrices=(),
        consensus=WORDS.get(word, word),
        condition=condition,
        direction=direction,  # type: ignore[arg-type]
        remark="",
    )


@pytest.fixture(scope="module")
def planted():
    """Promoters of which half hold each word, and a signal that knows `up` and `down` in heat alone.

    The signal also follows position, G+C and chance, which the background must take away.
    """
    rng = np.random.default_rng(0)
    codes = rng.choice(4, p=[0.3, 0.2, 0.2, 0.3], size=(NUMBER, LENGTH)).astype(np.uint8)
    sites = np.zeros((NUMBER, 1, LENGTH))
    for number, (name, word) in enumerate(WORDS.items()):
        for row in np.flatnonzero(rng.random(NUMBER) < 0.5):
            start = int(rng.integers(10, 30)) + 35 * number
            codes[row, start : start + len(word)] = encode(word)
            sites[row, 0, start : start + len(word)] = {"up": 1, "down": -1, "silent": 0}[name]
    strong = np.isin(codes, (1, 2))[:, None]
    values = rng.normal(size=(NUMBER, 3, LENGTH)) + np.linspace(-3, 3, LENGTH) + 1.5 * strong
    values[:, :2] += sites
    return codes, values


PAIRS = [
    pair("up", "heat", "up"),
    pair("down", "heat", "down"),
    pair("silent", "heat", "none"),
    pair("up", "cold", "none"),
    pair("silent", "heat", "up"),
    pair("up", "heat", "down"),
    pair("up", "heat", "none"),
]
GROUPS = {"heat": ["heat", "heat 2"], "cold": ["cold"]}


@pytest.fixture(scope="module")
def located(planted):
    return locate(PAIRS, planted[0], None, KnownMotifSettings(num_shuffled=40))


def test_signed_signals_find_what_was_planted(planted, located):
    codes, values = planted
    signal = known_signal(values, signed=True)
    table = score_pairs(signal, codes, PAIRS, located, GROUPS, [("heat", "cold")])
    plain = table[table["against"] == BACKGROUND]
    assert plain["passed"].tolist() == [True, True, True, True, False, False, False]
    up, down, silent = plain["effect"].iloc[:3]
    assert up == pytest.approx(7.0, abs=0.6)  # one unit at each of seven bases
    assert down == pytest.approx(-7.0, abs=0.6)
    assert abs(silent) < 0.6
    assert (plain["shuffled_passing"] <= 0.05).all()
    assert (plain["low"] < plain["effect"]).all()
    assert (plain["effect"] < plain["high"]).all()
    relative = table[table["against"] == ALL_TREATMENTS]
    # heat less the mean of heat and cold is half of the difference
    assert relative["effect"].iloc[0] == pytest.approx(3.5, abs=0.5)
    contrast = table[table["against"] == "cold"]
    assert len(contrast) == sum(each.condition == "heat" for each in PAIRS)
    assert contrast["effect"].iloc[0] == pytest.approx(7.0, abs=0.9)
    assert contrast["passed"].iloc[0]


def test_unsigned_signals_need_more_than_the_background(planted, located):
    codes, values = planted
    table = score_pairs(known_signal(values, signed=False), codes, PAIRS, located, GROUPS)
    plain = table[table["against"] == BACKGROUND]
    # `down` gets less than the background; whatever direction was expected, that is not lying on it.
    assert plain["passed"].tolist() == [True, False, True, True, False, True, False]
    assert plain["effect"].iloc[0] == pytest.approx(1.0, abs=0.1)


def test_effects_are_those_of_a_loop(planted):
    codes, values = planted
    pairs = [pair("up", "cold", "none")]
    sites = locate(pairs, codes, None, KnownMotifSettings(num_shuffled=1))
    row = score_pairs(known_signal(values, signed=True), codes, pairs, sites, GROUPS).iloc[0]
    word, width = encode(WORDS["up"]), len(WORDS["up"])
    strong, sums = (
        np.lib.stride_tricks.sliding_window_view(each, width, axis=1).sum(-1)
        for each in (np.isin(codes, (1, 2)), values[:, 2])
    )
    found: dict[int, list[int]] = {}
    for promoter in range(NUMBER):
        for start in range(LENGTH - width + 1):
            window = codes[promoter, start : start + width]
            if np.array_equal(window, word) or np.array_equal(window, 3 - word[::-1]):
                found.setdefault(promoter, []).append(start)

    def stratum(promoter, start):
        return (LENGTH - start - width) // POSITION_STEP, int(strong[promoter, start])

    pools: dict[tuple[int, int], list[float]] = {}
    for promoter in range(NUMBER):
        for start in range(LENGTH - width + 1):
            if all(abs(start - site) >= width for site in found.get(promoter, [])):
                pools.setdefault(stratum(promoter, start), []).append(float(sums[promoter, start]))
    differences = [
        np.mean([sums[promoter, start] - np.mean(pools[stratum(promoter, start)]) for start in starts])
        for promoter, starts in found.items()
    ]
    assert min(len(pools[stratum(p, start)]) for p, starts in found.items() for start in starts) >= 20
    assert row["effect"] == pytest.approx(np.mean(differences))
    assert row["p_value"] == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)
    assert (row["promoters"], row["sites"]) == (len(found), sum(map(len, found.values())))


def test_shuffled_motifs_count_as_motifs_of_their_own(planted):
    codes, values = planted
    pairs = [pair("GATGA", "heat", "up")]
    (own,) = locate(pairs, codes, None, KnownMotifSettings(num_shuffled=25))
    signal = known_signal(values, signed=True)
    row = score_pairs(signal, codes, pairs, [own], GROUPS).iloc[0]
    (scores,) = site_differences(
        signal, codes, [own], mixing([ScoredCondition("heat")], GROUPS, TREATMENTS), Progress()
    )
    effects, significant = [], []
    for number, sites in enumerate(own.shuffled):
        alone = ExpectedSites(matched_by="", sites=own.sites, shuffled=[sites])
        (again,) = site_differences(
            signal, codes, [alone], mixing([ScoredCondition("heat")], GROUPS, TREATMENTS), Progress()
        )
        effects.append(again.mean[0, 0])
        assert scores.count[number] == sites.promoters
        errors = again.squares[0, 0] / sites.promoters - again.mean[0, 0] ** 2
        ratio = again.mean[0, 0] / np.sqrt(errors / (sites.promoters - 1))
        significant.append(ratio > 0 and 2 * stats.t.sf(ratio, sites.promoters - 1) <= 0.05)
    assert row["shuffled"] == len(effects) == 25
    assert row["shuffled_mean"] == pytest.approx(np.mean(effects))
    assert row["shuffled_sd"] == pytest.approx(np.std(effects))
    assert row["shuffled_significant"] == pytest.approx(np.mean(significant))
    beaten = sum(effect >= row["effect"] for effect in effects)
    assert row["shuffled_p_value"] == pytest.approx((beaten + 1) / 26)


def test_pairs_without_enough_sites_or_shuffles_stay_open(planted):
    codes, values = planted
    pairs = [pair("TGACTCATGACTCA", "heat", "up"), pair("up", "heat", "up"), pair("up", "sorbitol", "up")]
    sites = locate(pairs, codes, None, KnownMotifSettings(num_shuffled=10))
    table = score_pairs(known_signal(values, signed=True), codes, pairs, sites, GROUPS)
    assert table["passed"].isna().all()
    assert table["effect"].isna().tolist() == [True, True, False, False]
    assert set(table["condition_group"]) == {"heat"}  # nobody asked for sorbitol


def test_quantities_are_means_over_groups_and_differences():
    quantities = [
        ScoredCondition("heat"),
        ScoredCondition("cold", ALL_TREATMENTS),
        ScoredCondition("heat", "cold"),
    ]
    np.testing.assert_allclose(
        mixing(quantities, GROUPS, TREATMENTS), [[0.5, 0.5, 0], [-0.25, -0.25, 0.5], [0.5, 0.5, -1]]
    )


WIDTH, SHORT_LENGTH = 6, 53


def test_rare_compositions_borrow_from_their_neighbours():
    codes = np.zeros((30, SHORT_LENGTH), dtype=np.uint8)  # all A: no G or C anywhere
    codes[0, -WIDTH:] = 1
    background = MatchedBackground(WIDTH, SHORT_LENGTH, 1)
    values = np.ones((30, 1, SHORT_LENGTH))
    values[0, 0, -WIDTH:] = 7
    background.add(window_sums(values, WIDTH), background.strata(codes))
    lone = background.strata(codes)[0, -1]
    assert background.counts_S[lone] == 1
    # Its own window and those of fewer G and C, down to the many of none.
    assert WIDTH < background.means()[lone, 0] < 7 * WIDTH
