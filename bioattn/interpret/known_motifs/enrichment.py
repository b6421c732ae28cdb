"""Tests whether a signal lies on known motifs in the conditions to which they should respond.

`docs/known-motifs.md` defines the effect of a motif, when a pair passes, and the columns of the table. The matched
background is that of `site_differences`, shuffled motifs are those of `site_sets`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.interpret.known_motifs.expected_motifs import (
    LEAST_PROMOTERS,
    Direction,
    ExpectedPair,
    ExpectedSites,
)
from bioattn.interpret.known_motifs.position_signals import PositionSignal
from bioattn.interpret.known_motifs.site_differences import SiteDifferences, site_differences
from bioattn.system.progress import SILENT, Progress

LEVEL = 0.05
RESAMPLES = 1000
LEAST_SHUFFLED = 20
"""With fewer shuffled motifs no share of at most `LEVEL` is possible, so a pair is left open."""
BACKGROUND, ALL_TREATMENTS = "background", "treatments"
"""What a row's effect is against, unless another condition."""
COLUMNS = (
    *("signal", "factor", "matched_by", "condition_group", "direction", "against", "promoters", "sites"),
    *("effect", "low", "high", "p_value", "q_value", "shuffled", "shuffled_mean", "shuffled_sd"),
    *("shuffled_p_value", "shuffled_significant", "shuffled_passing", "passed"),
)


class Quantity(NamedTuple):
    """What is scored: the signal of a condition, alone or less that of another."""

    condition: str
    against: str = BACKGROUND


def mixing(
    quantities: Sequence[Quantity], groups: dict[str, list[str]], treatments: Sequence[str]
) -> NDArray[np.float64]:
    """Weights (Q, T) of the treatments in each quantity. groups: the treatments of each condition, averaged."""
    place = {name: number for number, name in enumerate(treatments)}
    means = {name: np.zeros(len(treatments)) for name in groups}
    for name, members in groups.items():
        for member in members:
            means[name][place[member]] = 1 / len(members)
    means[ALL_TREATMENTS] = np.mean([means[name] for name in groups], axis=0)
    means[BACKGROUND] = np.zeros(len(treatments))
    return np.array([means[each.condition] - means[each.against] for each in quantities])


def score_pairs(
    signal: PositionSignal,
    codes: NDArray[np.uint8],
    pairs: Sequence[ExpectedPair],
    located: Sequence[ExpectedSites],
    groups: dict[str, list[str]],
    contrasts: Sequence[tuple[str, str]] = (),
    *,
    seed: int = 0,
    progress: Progress = SILENT,
) -> pd.DataFrame:
    """One row per pair and comparison, columns `COLUMNS`; the module's docstring says what they mean.

    codes: (promoters, L) of the signal's promoters. located: the sites of each pair. groups: treatments of each
    condition; pairs whose condition is not among them are left out. contrasts: (condition, other condition).
    `passed` is None where a pair could not be judged.
    """
    rows: list[tuple[ExpectedPair, ExpectedSites, Quantity]] = []
    for pair, sites in zip(pairs, located, strict=True):
        if pair.condition not in groups:
            continue
        others = [other for condition, other in contrasts if condition == pair.condition]
        rows += [
            (pair, sites, Quantity(pair.condition, against))
            for against in (BACKGROUND, ALL_TREATMENTS, *others)
        ]
    quantities = list(dict.fromkeys(quantity for _, _, quantity in rows))
    entries = list({id(sites): sites for _, sites, _ in rows}.values())
    scored = site_differences(signal, codes, entries, mixing(quantities, groups, signal.treatments), progress)
    scores = dict(zip(map(id, entries), scored, strict=True))
    cells = [
        {
            "signal": signal.name,
            **_effect(pair, sites, quantity, scores[id(sites)], quantities.index(quantity), seed),
        }
        for pair, sites, quantity in rows
    ]
    table = pd.DataFrame(cells, columns=list(COLUMNS))
    for _, same in table.groupby("against"):
        table.loc[same.index, "q_value"] = benjamini_hochberg(same["p_value"].to_numpy(dtype=np.float64))
    judged = [
        _judgement(
            pair.direction,
            quantity.against,
            float(row["effect"]),
            float(row["q_value"]),
            scores[id(sites)],
            quantities.index(quantity),
            signed=signal.signed,
        )
        for (pair, sites, quantity), (_, row) in zip(rows, table.iterrows(), strict=True)
    ]
    verdicts = pd.DataFrame(judged, columns=list(COLUMNS[-4:]), index=table.index).astype({"passed": object})
    return table.assign(**{str(name): column for name, column in verdicts.items()})


def _effect(
    pair: ExpectedPair,
    located: ExpectedSites,
    quantity: Quantity,
    scores: SiteDifferences,
    column: int,
    seed: int,
) -> dict[str, object]:
    """The cells of a row but the q-value and the comparison with shuffled motifs."""
    cells: dict[str, object] = {
        "factor": pair.factor,
        "matched_by": located.matched_by,
        "condition_group": pair.condition,
        "direction": f"{pair.direction} ({pair.remark})" if pair.remark else pair.direction,
        "against": quantity.against,
        "promoters": located.sites.promoters,
        "sites": len(located.sites.rows),
        "shuffled": len(scores.count),
    }
    if located.sites.promoters >= LEAST_PROMOTERS:
        values = scores.own[:, column]
        low, high = interval(values, np.random.default_rng(seed))
        p_value = _p_values(values.mean(keepdims=True), values.var(keepdims=True), np.array([len(values)]))[0]
        cells |= {"effect": values.mean(), "low": low, "high": high, "p_value": p_value}
    if len(scores.count):
        effects = scores.mean[:, column]
        cells |= {"shuffled_mean": effects.mean(), "shuffled_sd": effects.std()}
    return cells


def _judgement(
    direction: Direction,
    against: str,
    effect: float,
    q_value: float,
    scores: SiteDifferences,
    column: int,
    *,
    signed: bool,
) -> dict[str, object]:
    """The comparison with shuffled motifs; empty where a pair cannot be judged."""
    effects = scores.mean[:, column]
    if np.isnan(effect) or len(effects) < LEAST_SHUFFLED:
        return {}
    variances = scores.squares[:, column] / np.maximum(scores.count, 1) - effects**2
    shuffled_p_values = _p_values(effects, variances, scores.count)
    wanted: Direction = direction
    if not signed:
        wanted = "none" if wanted == "none" else "up"
    everyone = np.append(effects, effect)
    shares = _shares(everyone, wanted, signed=signed)
    answers = np.append(shuffled_p_values, q_value) <= LEVEL
    if wanted == "up" or not signed:
        answers &= everyone > 0
    elif wanted == "down":
        answers &= everyone < 0
    passing = answers & (shares <= LEVEL)
    # No answer to a condition may well differ from the answers to others: nothing is expected there.
    judged = wanted != "none" or against == BACKGROUND
    return {
        "shuffled_p_value": float(shares[-1]),
        "shuffled_significant": float(answers[:-1].mean()),
        "shuffled_passing": float(passing[:-1].mean()),
        "passed": bool(passing[-1] != (wanted == "none")) if judged else None,
    }


def _shares(effects: NDArray[np.float64], wanted: Direction, *, signed: bool) -> NDArray[np.float64]:
    """For each effect the share of all, itself included, that is as large in the direction wanted."""
    above: NDArray[np.float64] = (effects[None] >= effects[:, None]).mean(axis=1)
    below: NDArray[np.float64] = (effects[None] <= effects[:, None]).mean(axis=1)
    if wanted == "up" or not signed:
        return above
    if wanted == "down":
        return below
    return np.asarray(np.minimum(1.0, 2 * np.minimum(above, below)))


def interval(values: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """95 % interval of the mean, from `RESAMPLES` resamples of the values."""
    number = len(values)
    draws = rng.multinomial(number, np.full(number, 1 / number), size=RESAMPLES)
    low, high = np.quantile(draws @ values / number, [0.025, 0.975])
    return float(low), float(high)


def _p_values(
    means: NDArray[np.float64], variances: NDArray[np.float64], counts: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Two-sided p-values of t-tests of means against 0; variances divided by the count."""
    degrees = np.maximum(counts - 1, 1)
    errors = np.sqrt(np.maximum(variances, 0) / degrees)
    ratios = np.divide(means, errors, out=np.full(means.shape, np.inf), where=errors > 0)
    ratios[(errors == 0) & (means == 0)] = 0
    return np.asarray(2 * stats.t.sf(np.abs(ratios), degrees))
