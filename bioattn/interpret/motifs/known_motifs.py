"""Whether a signal lies on known motifs in the conditions to which they should respond: from result files and a
table of expected pairs to the table of `bioattn explain motifs`.

`docs/known-motifs.md` defines the effect of a motif, when a pair passes, and the columns of the table. The matched
background is that of `site_differences`, shuffled motifs are those of `expected_motifs`.
"""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.formats.tables import open_table, refuse_duplicate_columns, write_table
from bioattn.interpret.choices import ExplainMotifs, KnownMotifSettings
from bioattn.interpret.motifs.expected_motifs import (
    LEAST_PROMOTERS,
    Direction,
    ExpectedPair,
    ExpectedSites,
    locate,
    read_expected,
)
from bioattn.interpret.motifs.site_differences import SiteDifferences, require_same, site_differences
from bioattn.interpret.motifs.use import benjamini_hochberg
from bioattn.interpret.promoter_maps import (
    PromoterMaps,
    Quantity,
    attention_maps,
    attribution_maps,
    codes_of_genes,
    open_results,
)
from bioattn.models.running import Running, RunReport
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.store.attribution import Attribution
from bioattn.store.reader import Attention
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, percentage, quoted

LOGGER = logging.getLogger("bioattn")
GROUP_COLUMN = "group"
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


class ScoredCondition(NamedTuple):
    """What is scored: the signal of a condition, alone or less that of another."""

    condition: str
    against: str = BACKGROUND


def mixing(
    quantities: Sequence[ScoredCondition], groups: dict[str, list[str]], treatments: Sequence[str]
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
    maps: Sequence[PromoterMaps],
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

    maps: of files over the same promoters. codes: (promoters, L) of these. located: the sites of each pair.
    groups: treatments of each condition; pairs whose condition is not among them are left out. contrasts:
    (condition, other condition).
    `passed` is None where a pair could not be judged.
    """
    rows: list[tuple[ExpectedPair, ExpectedSites, ScoredCondition]] = []
    for pair, sites in zip(pairs, located, strict=True):
        if pair.condition not in groups:
            continue
        others = [other for condition, other in contrasts if condition == pair.condition]
        rows += [
            (pair, sites, ScoredCondition(pair.condition, against))
            for against in (BACKGROUND, ALL_TREATMENTS, *others)
        ]
    quantities = list(dict.fromkeys(quantity for _, _, quantity in rows))
    entries = list({id(sites): sites for _, sites, _ in rows}.values())
    scored = site_differences(maps, codes, entries, mixing(quantities, groups, maps[0].treatments), progress)
    scores = dict(zip(map(id, entries), scored, strict=True))
    cells = [
        {
            "signal": str(maps[0].quantity),
            **_effect(pair, sites, quantity, scores[id(sites)], quantities.index(quantity), seed),
        }
        for pair, sites, quantity in rows
    ]
    table = pd.DataFrame(cells, columns=list(COLUMNS))
    for _, same in table.groupby("against"):
        table.loc[same.index, "q_value"] = benjamini_hochberg(same["p_value"].to_numpy(dtype=np.float64))
    judged = [
        _judgement(pair, row, scores[id(sites)], quantities.index(quantity), signed=maps[0].signed)
        for (pair, sites, quantity), (_, row) in zip(rows, table.iterrows(), strict=True)
    ]
    verdicts = pd.DataFrame(judged, columns=list(COLUMNS[-4:]), index=table.index).astype({"passed": object})
    return table.assign(**{str(name): column for name, column in verdicts.items()})


def _effect(
    pair: ExpectedPair,
    located: ExpectedSites,
    quantity: ScoredCondition,
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
    pair: ExpectedPair, row: pd.Series, scores: SiteDifferences, column: int, *, signed: bool
) -> dict[str, object]:
    """The comparison with shuffled motifs; empty where a pair cannot be judged. row: cells as of `_effect`."""
    effect, effects = float(row["effect"]), scores.mean[:, column]
    if np.isnan(effect) or len(effects) < LEAST_SHUFFLED:
        return {}
    variances = scores.squares[:, column] / np.maximum(scores.count, 1) - effects**2
    shuffled_p_values = _p_values(effects, variances, scores.count)
    wanted = pair.direction if signed or pair.direction == "none" else "up"
    everyone = np.append(effects, effect)
    shares = _shares(everyone, wanted, signed=signed)
    answers = np.append(shuffled_p_values, float(row["q_value"])) <= LEVEL
    if wanted == "up" or not signed:
        answers &= everyone > 0
    elif wanted == "down":
        answers &= everyone < 0
    passing = answers & (shares <= LEVEL)
    # No answer to a condition may well differ from the answers to others: nothing is expected there.
    judged = wanted != "none" or row["against"] == BACKGROUND
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


class SignalSummary(NamedTuple):
    """Counts over the rows of one signal."""

    signal: str
    expected: int
    """Pairs of which an answer is expected, and that could be judged."""
    expected_passed: int
    none: int
    none_passed: int
    specific: int
    """Expected pairs that also pass against the mean of all treatments."""
    open: int
    shuffled_passing: float | None
    """Mean over the judged pairs of the share of shuffled motifs that would pass; None without any."""


def summaries(table: pd.DataFrame) -> list[SignalSummary]:
    """Summarise each signal, in their order."""
    found = []
    pair = ["factor", "matched_by", "condition_group", "direction"]
    for name, rows in table.groupby("signal", sort=False):
        of_pairs = rows[rows["against"] == BACKGROUND]
        judged = of_pairs[of_pairs["passed"].notna()]
        none = judged["direction"].str.startswith("none")
        passed = judged["passed"].astype(bool)
        # eq: `passed` may be None.
        relative = rows[(rows["against"] == ALL_TREATMENTS) & rows["passed"].eq(True)]
        specific = set(map(tuple, relative[pair].to_numpy()))
        shuffled = float(judged["shuffled_passing"].astype(float).mean()) if len(judged) else None
        summary = SignalSummary(
            signal=str(name),
            expected=int((~none).sum()),
            expected_passed=int((~none & passed).sum()),
            none=int(none.sum()),
            none_passed=int((none & passed).sum()),
            specific=sum(tuple(row) in specific for row in judged[~none & passed][pair].to_numpy()),
            open=len(of_pairs) - len(judged),
            shuffled_passing=shuffled,
        )
        found.append(summary)
    return found


def explain_motifs(given: ExplainMotifs, running: Running) -> RunReport:
    """Score files at the motifs of a table, and write what is found. Raises: as `score_known_motifs`."""
    table, promoters, missing = score_known_motifs(given, running.progress)
    write_known_motifs(given.output, table)
    signals = summaries(table)
    return RunReport(
        *(
            f"{each.signal}: {each.expected_passed} of {counted(each.expected, 'expected pair')} found, "
            f"{each.specific} of them also against the mean of all treatments; {each.none_passed} of {each.none} "
            f"that should be silent are; {percentage(each.shuffled_passing or 0, 1)} of shuffled motifs pass"
            for each in signals
        ),
        f"wrote {given.output}: {counted(len(table), 'row')} over {counted(promoters, 'promoter')}",
        promoters=promoters,
        missing_conditions=missing,
        signals=[each._asdict() for each in signals],
    )


def score_known_motifs(
    given: ExplainMotifs, progress: Progress = SILENT
) -> tuple[pd.DataFrame, int, list[str]]:
    """The table of scores, the number of promoters, and conditions that no treatment belongs to.

    Raises: BioattnError for files that do not belong together, FormatError for damaged ones, SettingsError for
    contrasts of unknown conditions.
    """
    settings, results = given.settings, given.results
    pairs = read_expected(given.expected)
    database = None if given.motif_database is None else read_meme(given.motif_database)
    with ExitStack() as opened:
        files = [opened.enter_context(open_results(path)) for path in results]
        attention = [file for file in files if isinstance(file, Attention)]
        attribution = [file for file in files if isinstance(file, Attribution)]
        if not files:
            raise BioattnError("no result to score; give attention or attribution files")
        signals = _signals(attention, attribution, settings)
        if attribution:
            codes = attribution[0].sequences()
        elif given.promoters is not None:
            codes = codes_of_genes(given.promoters, attention[0], attention[0].samples)
        else:
            raise BioattnError(
                "attention files hold no sequences; give the FASTA they were made from with --promoters"
            )
        if settings.genes:
            names = GeneNames.in_samples(signals[0][0].samples)
            wanted = set(choose_genes(settings.genes, names, results[0]))
            codes = codes.copy()
            codes[[name not in wanted for name in signals[0][0].genes]] = UNKNOWN
        groups = _groups(signals[0][0].treatments, given.treatment_groups)
        missing = list(dict.fromkeys(pair.condition for pair in pairs if pair.condition not in groups))
        _report_missing(missing, pairs, groups, given.expected)
        contrasts = [_contrast(text, groups) for text in settings.contrasts]
        located = locate(pairs, codes, database, settings, progress)
        tables = [
            score_pairs(
                signal, codes, pairs, located, groups, contrasts, seed=settings.seed, progress=progress
            )
            for signal in signals
        ]
    promoters = int((codes < UNKNOWN).any(axis=1).sum())
    return pd.concat(tables, ignore_index=True), promoters, missing


def write_known_motifs(path: Path, table: pd.DataFrame) -> None:
    """Write the table as TSV, numbers with five digits; `passed` is yes, no or empty."""
    shown = table.copy()
    shown["passed"] = shown["passed"].map({True: "yes", False: "no"})
    write_table(path, shown, "%.5g")


def _signals(
    attention: list[Attention], attribution: list[Attribution], settings: KnownMotifSettings
) -> list[list[PromoterMaps]]:
    """Make the signals: attention; value-weighted and contributions where every file has them; attribution."""
    require_same("promoters", [(file.path, list(file.samples.index)) for file in (*attention, *attribution)])
    weights = [attention_maps(file, settings.sites, settings.heads, Quantity.ATTENTION) for file in attention]
    for maps in weights:
        if not maps.tells_apart:
            raise BioattnError(f"{maps.path}: its attention does not tell treatments apart")
    signals = [weights] if weights else []
    for quantity, held in (
        (Quantity.VALUE_WEIGHTED, lambda sites: all(info.has_value_weighted for info in sites)),
        (Quantity.CONTRIBUTIONS, lambda sites: any(info.has_contributions for info in sites)),
    ):
        of_files = [
            [file.sites[site.name] for site in maps.sites]
            for file, maps in zip(attention, weights, strict=True)
        ]
        if of_files and all(map(held, of_files)):
            signals.append(
                [attention_maps(file, settings.sites, settings.heads, quantity) for file in attention]
            )
    if attribution:
        signals.append([attribution_maps(file) for file in attribution])
    every = [maps for signal in signals for maps in signal]
    require_same("treatments", [(maps.path, maps.treatments) for maps in every])
    return signals


def _groups(treatments: Sequence[str], path: Path | None) -> dict[str, list[str]]:
    """List the treatments of each condition; without a table every treatment is a condition."""
    if path is None:
        return {name: [name] for name in treatments}
    table = open_table(path)
    refuse_duplicate_columns(table)
    if GROUP_COLUMN not in table.header[1:]:
        raise FormatError(
            f"{path}: has no column {GROUP_COLUMN!r} behind the first, which names treatments; it has "
            f"{quoted(table.header)}"
        )
    column = table.header.index(GROUP_COLUMN)
    known, groups = set(treatments), dict[str, list[str]]()
    for _, cells in table.rows():
        if cells[0] in known and cells[column]:
            groups.setdefault(cells[column], []).append(cells[0])
    if not groups:
        raise BioattnError(
            f"{path}: its first column names none of the treatments, which are {quoted(treatments)}"
        )
    return groups


def _report_missing(
    missing: list[str], pairs: Sequence[ExpectedPair], groups: dict[str, list[str]], expected: Path
) -> None:
    if len(missing) == len({pair.condition for pair in pairs}):
        raise BioattnError(
            f"{expected}: none of its conditions ({quoted(missing)}) is a treatment of the results, which are "
            f"{quoted(list(groups))}; name treatments or give --treatment-groups"
        )
    if missing:
        number = sum(pair.condition in missing for pair in pairs)
        LOGGER.warning(f"{counted(number, 'pair')} not scored, no treatment of the name: {quoted(missing)}")


def _contrast(text: str, groups: dict[str, list[str]]) -> tuple[str, str]:
    """Parse a contrast of two conditions, whose names may contain colons."""
    parts = text.split(":")
    for cut in range(1, len(parts)):
        first, second = ":".join(parts[:cut]), ":".join(parts[cut:])
        if first in groups and second in groups and first != second:
            return first, second
    kind = BioattnError if ":" in text.strip(":") else SettingsError  # alone it is a contrast of nothing
    raise kind(
        f"--contrast {text}: give two different conditions as CONDITION:OTHER, of {quoted(list(groups))}"
    )
