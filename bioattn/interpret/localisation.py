"""Scores of promoter maps, and of predictions, against a truth table: do maps lie on the planted motifs?

The protocol follows Koo & Ploenzke (2021, 10.1038/s42256-020-00291-x): bases of causal sites are positive, all
others negative, and each promoter is ranked by itself. A *pair* is a promoter and a treatment; it is positive when
the promoter holds a causal site of the treatment. Weights are means over heads, queries and (if several) hops; of
contributions the sizes of the sums over heads count, scaled to sum 1 (`bioattn.interpret.promoter_maps`).

Of positive pairs (columns of `LocalisationReport.positives`, each the mean over pairs):

- `auroc`, `auprc`: bases of causal sites against all other bases, upsampled as chosen (Gaussian by default);
- `auroc_nearest`, `auprc_nearest`: the same with each bin's weight shared equally by its bases;
- `ceiling_auroc`, `ceiling_auprc`: the same for perfect attention to bins, upsampled as chosen. Perfect means that
  a bin's weight is its share of the causal bases. Over all places of one 8-bp motif in 400 bp, Gaussian, that is
  an AUPRC of 0.98 with 8-bp bins and 0.70 with 16-bp bins (nearest: 0.71 and 0.43). With bins wider than the
  motif it is not the largest value possible: equal weight on both bins that a motif touches says more;
- `top_bin`: share of pairs whose bin of largest weight shares a base with a causal site; `top_bin_chance`: share
  of bins that do;
- `top_5_bins`: share of pairs whose every causal site (both halves of a pair of motifs) shares a base with one of
  the five bins of largest weight;
- `decoy_auroc`: bases of causal sites against bases of decoys; `planted_auroc`: against all other planted bases
  (decoys and the motifs of other treatments);
- `wrong_auroc`, `wrong_auprc`: control; the maps of (up to five) other treatments, cyclically the next ones,
  against this treatment's causal bases;
- `mass_causal`, `mass_decoy`, `mass_other`, `mass_background`, `mass_sink`: where the weight lies: causal sites,
  decoys, other planted sites, unplanted bases, and what the row lacks to 1 (a key that stands for "nowhere");
- `entropy`: of the bins' weights scaled to sum 1, over ln(bins); 1 is uniform.

Of negative pairs (`LocalisationReport.negatives`): the masses, `entropy`, and `top_weight`, the weight of the
largest bin.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, Task
from bioattn.errors import BioattnError
from bioattn.interpret.choices import ScoreAttention, ScoredGenes, Upsampling
from bioattn.interpret.position_maps import bin_sums, covered_bases, running_sums
from bioattn.interpret.promoter_maps import PromoterMaps, attention_maps, chosen_quantity
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.response_metrics import auroc, average_precision, per_treatment
from bioattn.simulate.truth import CAUSAL, DECOY, PlantedSite, noise_free_responses, read_truth
from bioattn.store.reader import open_attention
from bioattn.system.progress import SILENT, Progress
from bioattn.text import listed, table_text

LOGGER = logging.getLogger("bioattn")
BLOCK_BYTES = 1 << 26
COVERED_SHARE = 0.9
"""Planted sites end at the window's end unless the windows are not the simulated ones."""


def indexed_sites(
    sites: Sequence[PlantedSite], gene_ids: Sequence[str], treatments: Sequence[str], length: int
) -> pd.DataFrame:
    """The planted sites of promoters with windows of one length, in the order of the promoters.

    A promoter that the truth table does not name holds nothing planted. Returns the columns row (of `gene_ids`),
    treatment (number, -1 for none), causal, decoy, start and end.

    Raises: BioattnError when truth and promoters, or truth and treatments, have no name in common, or when a site
    reaches beyond the window.
    """
    genes = {gene_id: number for number, gene_id in enumerate(gene_ids)}
    numbers = {treatment: number for number, treatment in enumerate(treatments)}
    known = [site for site in sites if site.gene_id in genes]
    if not known:
        raise BioattnError(
            f"none of the promoters ({listed(gene_ids)}) is in the truth table "
            f"({listed([site.gene_id for site in sites])}); is it the truth of these promoters?"
        )
    if not any(site.treatment in numbers for site in sites):
        named = listed(list(dict.fromkeys(site.treatment for site in sites if site.treatment)))
        raise BioattnError(f"none of the treatments ({listed(treatments)}) is in the truth table ({named})")
    beyond = next((site for site in known if site.end > length), None)
    if beyond is not None:
        raise BioattnError(
            f"{beyond.gene_id}: {beyond.motif} at {beyond.start}-{beyond.end} reaches beyond the window of "
            f"{length:,} bases; prepare the promoters with the --upstream they were simulated for"
        )
    table = pd.DataFrame(
        {
            "row": [genes[site.gene_id] for site in known],
            "treatment": [numbers.get(site.treatment, -1) for site in known],
            "causal": [site.role == CAUSAL for site in known],
            "decoy": [site.role == DECOY for site in known],
            "start": [site.start for site in known],
            "end": [site.end for site in known],
        }
    )
    return table.sort_values("row", kind="stable")


class PlantedBlock:
    """Sites of a few promoters (rows), with masks made on demand."""

    def __init__(self, sites: pd.DataFrame, rows: int, length: int) -> None:
        """sites: columns as of `indexed_sites`."""
        self._sites, self._shape = sites, (rows, length)
        self.planted = self._paint(sites)
        """Bases of any planted site, shape (rows, length)."""
        self.decoys = self._paint(sites[sites["decoy"]])
        """Bases of decoys, shape (rows, length)."""

    def causal(self, treatment: int) -> NDArray[np.bool_]:
        """Bases of the sites that give the response to a treatment (its number), shape (rows, length)."""
        return self._paint(self._causal(treatment))

    def all_touched(self, treatment: int, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether every causal site of a treatment shares a base with `chosen` (rows, length): shape (rows,)."""
        sites, running = self._causal(treatment), running_sums(chosen)
        row = sites["row"].to_numpy()
        missed = running[row, sites["end"]] == running[row, sites["start"]]
        misses = np.bincount(row[missed], minlength=self._shape[0])
        return np.asarray(misses == 0)

    def _causal(self, treatment: int) -> pd.DataFrame:
        return self._sites[self._sites["causal"] & (self._sites["treatment"] == treatment)]

    def _paint(self, sites: pd.DataFrame) -> NDArray[np.bool_]:
        return covered_bases(sites["row"], sites["start"], sites["end"], self._shape)


ALL = "all"
"""Row of the reports that is the mean over all pairs."""

TOP_BINS = 5
WRONG_TREATMENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalisationReport:
    """Results of `score_maps`; the module's docstring defines the columns."""

    genes: int
    window_length: int
    bins: int
    quantity: str
    upsampling: Upsampling
    positives: pd.DataFrame
    """Index: treatments, then `all`; `pairs` counts pairs, the rest are means over them."""
    negatives: pd.DataFrame
    """The same for promoters without the treatment's motif."""

    def to_json(self) -> dict[str, Any]:
        """Plain data; a mean over nothing is null."""
        return asdict(self) | {"positives": plain(self.positives), "negatives": plain(self.negatives)}


def score_maps(
    maps: PromoterMaps,
    truth: Sequence[PlantedSite],
    *,
    upsampling: Upsampling = Upsampling.GAUSSIAN,
    progress: Progress = SILENT,
) -> LocalisationReport:
    """Score maps block by block, so that a genome's worth need not be in memory at once.

    Raises: BioattnError when truth and maps do not belong together (`indexed_sites`).
    """
    sites = indexed_sites(truth, maps.genes, maps.treatments, maps.window_length)
    covered = int(sites["end"].max())
    if covered < COVERED_SHARE * maps.window_length:
        LOGGER.warning(
            f"{maps.path}: planted sites end at base {covered:,} of windows of {maps.window_length:,}; "
            "were the promoters prepared with another --upstream than they were simulated for?"
        )
    positives: dict[str, list[pd.DataFrame]] = {name: [] for name in maps.treatments}
    negatives: dict[str, list[pd.DataFrame]] = {name: [] for name in maps.treatments}
    heads = max(len(site.heads) for site in maps.sites)
    step = max(1, BLOCK_BYTES // (4 * heads * len(maps.treatments) * len(maps.widths)))
    progress.begin("score", len(maps.samples))
    for first in range(0, len(maps.samples), step):
        part = slice(first, min(first + step, len(maps.samples)))
        low, high = np.searchsorted(sites["row"], [part.start, part.stop])
        here = sites.iloc[low:high].assign(row=sites["row"].iloc[low:high] - first)
        block = PlantedBlock(here, part.stop - part.start, maps.window_length)
        weights = maps.shares(maps.block(part))
        if not np.isfinite(weights).all():
            raise BioattnError("the maps hold values that are not finite numbers")
        for number, treatment in enumerate(maps.treatments):
            rows = np.asarray(block.causal(number).any(axis=1))
            if rows.any():
                positives[treatment].append(_positives(maps, upsampling, weights, block, number, rows))
            if not rows.all():
                negatives[treatment].append(_negatives(maps, weights[~rows, number], block, ~rows))
        progress.advance(part.stop - part.start)
    progress.end()
    return LocalisationReport(
        genes=len(maps.samples),
        window_length=maps.window_length,
        bins=len(maps.widths),
        quantity=str(maps.quantity),
        upsampling=upsampling,
        positives=_means(positives, maps.treatments),
        negatives=_means(negatives, maps.treatments),
    )


def _positives(
    maps: PromoterMaps,
    upsampling: Upsampling,
    weights: NDArray[np.floating],
    block: PlantedBlock,
    number: int,
    rows: NDArray[np.bool_],
) -> pd.DataFrame:
    """Scores of a treatment in the promoters `rows` that hold a causal site of it. weights: (n, treatments, K)."""
    own, causal = weights[rows, number].astype(np.float64), block.causal(number)[rows]
    decoys, others = block.decoys[rows], block.planted[rows] & ~causal
    nearest, causal_in_bin = maps.bases(own, Upsampling.NEAREST), bin_sums(causal, maps.key_edges)
    # Sites in bases that no bin covers leave nothing to attend to; perfect attention is then uniform.
    total = causal_in_bin.sum(axis=1, keepdims=True)
    perfect = np.divide(causal_in_bin, total, out=np.ones_like(causal_in_bin), where=total > 0)
    bases, ceiling = (maps.bases(each, upsampling) for each in (own, perfect))
    holds = causal_in_bin > 0
    chosen = np.zeros(weights[:, number].shape)
    best = np.argsort(-own, axis=1, kind="stable")[:, :TOP_BINS]
    chosen[np.flatnonzero(rows)[:, None], best] = 1
    touched = block.all_touched(number, maps.bases(chosen, Upsampling.NEAREST) > 0)
    scores = {
        "auroc": row_auroc(bases, causal),
        "auprc": row_average_precision(bases, causal),
        "auroc_nearest": row_auroc(nearest, causal),
        "auprc_nearest": row_average_precision(nearest, causal),
        "ceiling_auroc": row_auroc(ceiling, causal),
        "ceiling_auprc": row_average_precision(ceiling, causal),
        "top_bin": holds[np.arange(len(own)), own.argmax(axis=1)],
        "top_bin_chance": holds.mean(axis=1),
        "top_5_bins": touched[rows],
        "decoy_auroc": row_auroc(bases, causal, decoys & ~causal),
        "planted_auroc": row_auroc(bases, causal, others),
        **_masses(nearest, own, causal, decoys, others & ~decoys),
        "entropy": _entropy(own),
    }
    count = len(maps.treatments)
    following = [(number + step) % count for step in range(1, min(WRONG_TREATMENTS, count - 1) + 1)]
    if following:
        wrong = [maps.bases(weights[rows, other], upsampling) for other in following]
        scores["wrong_auroc"] = np.mean([row_auroc(each, causal) for each in wrong], axis=0)
        scores["wrong_auprc"] = np.mean([row_average_precision(each, causal) for each in wrong], axis=0)
    return pd.DataFrame(scores).astype(np.float64)


def _negatives(
    maps: PromoterMaps, own: NDArray[np.floating], block: PlantedBlock, rows: NDArray[np.bool_]
) -> pd.DataFrame:
    """Scores of one treatment, weights (n, K), in the promoters `rows` that hold no causal site of it."""
    nearest, decoys = maps.bases(own, Upsampling.NEAREST), block.decoys[rows]
    scores = {
        **_masses(nearest, own, np.zeros_like(decoys), decoys, block.planted[rows] & ~decoys),
        "entropy": _entropy(own),
        "top_weight": own.max(axis=1),
    }
    return pd.DataFrame(scores).astype(np.float64)


def _means(scores: dict[str, list[pd.DataFrame]], treatments: Sequence[str]) -> pd.DataFrame:
    """Means over pairs, per treatment and over all; NaN values do not count."""
    parts = {name: pd.concat(blocks) for name, blocks in scores.items() if blocks}
    if not parts:
        return pd.DataFrame({"pairs": 0}, index=[*treatments, ALL])
    parts[ALL] = pd.concat(parts.values())
    table = pd.DataFrame({name: part.mean() for name, part in parts.items()}).T
    table.insert(0, "pairs", pd.Series({name: len(part) for name, part in parts.items()}))
    return table.reindex([*treatments, ALL]).fillna({"pairs": 0}).astype({"pairs": int})


def _masses(
    nearest: NDArray[np.float64],
    weights: NDArray[np.floating],
    causal: NDArray[np.bool_],
    decoys: NDArray[np.bool_],
    others: NDArray[np.bool_],
) -> dict[str, NDArray[np.float64]]:
    """Weight on causal sites, decoys, other planted sites (masks without overlap), elsewhere and on the sink."""
    on_causal, on_decoys, on_others = ((nearest * mask).sum(axis=1) for mask in (causal, decoys, others))
    return {
        "mass_causal": on_causal,
        "mass_decoy": on_decoys,
        "mass_other": on_others,
        "mass_background": nearest.sum(axis=1) - on_causal - on_decoys - on_others,
        "mass_sink": np.clip(1 - weights.sum(axis=1, dtype=np.float64), 0, None),
    }


def _entropy(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """Entropy of each row over the logarithm of its length; NaN for a row of zeros or a single bin."""
    total = weights.sum(axis=1, keepdims=True, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = weights / total
        terms = np.where(shares > 0, shares * np.log(shares), 0.0)
        scaled: NDArray[np.float64] = -terms.sum(axis=1) / np.log(weights.shape[1])
    return np.where(total[:, 0] > 0, scaled, np.nan)


def plain(table: pd.DataFrame) -> dict[str, dict[str, float | int | None]]:
    """A table of scores as plain data, row by row: six decimals, null for NaN, `pairs` as whole numbers."""
    rows: dict[str, dict[str, float | int | None]] = {}
    for name, row in table.to_dict(orient="index").items():
        rows[str(name)] = {str(key): None if np.isnan(cell) else round(cell, 6) for key, cell in row.items()}
    return rows


def row_auroc(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], negative: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Area under the ROC curve of every row, shape (rows,); ties count one half; NaN without both classes.

    scores, positive, negative: (rows, columns). `negative` says which columns count against the positive ones (by
    default all others); columns that are neither are left out.
    """
    labels = positive.astype(np.float64)
    if negative is not None:
        labels[~(positive | negative)] = np.nan
    return np.asarray(auroc(labels.T, scores.T)[0])


def row_average_precision(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Average precision of every row, shape (rows,), as in scikit-learn; NaN without both classes."""
    return np.asarray(average_precision(positive.T.astype(np.float64), scores.T)[0])


def score_attention_and_predictions(
    given: ScoreAttention, progress: Progress = SILENT
) -> tuple[LocalisationReport, pd.DataFrame | None]:
    """Score an attention file against a truth table, and with a dataset also the predictions it holds.

    Of a dataset only genes of the chosen split are scored, and the second result is `score_predictions` of them,
    with the column `rule_share` (`rule_shares`). Several sites are averaged and must share their bins; one without
    a treatment axis counts for every treatment. Contributions are scored where the file has them (sums over heads
    and sites; their sizes, each row scaled to sum 1) unless `weights` are asked for; weights times the norm of the
    value are scaled to sum 1, too.

    Raises: BioattnError when no attention site, promoter or treatment fits; FormatError for a damaged file.
    """
    sites_planted = read_truth(given.truth)
    genes: set[str] = set()
    predictions: pd.DataFrame | None = None
    if given.dataset is not None:
        data, split = read_dataset(given.dataset), given.split or ScoredGenes.TEST
        names = np.array(data.gene_ids, dtype=object)
        if split is not ScoredGenes.ALL:
            names = names[data.gene_split == SPLIT_NAMES.index(split)]
        genes = set(names.tolist())
        if not genes:
            raise BioattnError(
                f"{given.dataset}: no gene is in the {split} split; choose another with --split"
            )
        responses = pd.DataFrame(data.targets, index=data.gene_ids, columns=data.treatments.names)
    with open_attention(given.attention) as file:
        quantity = chosen_quantity(weights=given.weights, value_weighted=given.value_weighted)
        maps = attention_maps(file, given.sites or ("*",), quantity=quantity)
        if genes:
            predicted = file.predictions()
            predicted = predicted[predicted.index.isin(genes)]
            predictions = score_predictions(predicted, responses)
            predictions["rule_share"] = rule_shares(sites_planted, predicted)
            maps = maps.chosen([gene for gene in maps.genes if gene in genes])
        return score_maps(maps, sites_planted, progress=progress), predictions


def score_predictions(predictions: pd.DataFrame, responses: pd.DataFrame) -> pd.DataFrame:
    """How well predictions (genes × treatments) agree with responses, per treatment and as the mean (`all`).

    Columns as `training.promoter.metrics.per_treatment`: those of a binary task when every response is 0, 1 or
    missing, of regression otherwise. Only genes and treatments that both tables name are used.

    Raises: BioattnError when they have no gene or no treatment in common.
    """
    shared = [gene for gene in predictions.index if gene in responses.index]
    treatments = [name for name in predictions.columns if name in responses.columns]
    if not shared or not treatments:
        what = "gene" if not shared else "treatment"
        raise BioattnError(f"predictions and responses have no {what} in common")
    truth = responses.loc[shared, treatments].to_numpy(dtype=np.float64)
    values = truth[~np.isnan(truth)]
    task = Task.BINARY if np.isin(values, (0.0, 1.0)).all() else Task.REGRESSION
    scores = per_treatment(truth, predictions.loc[shared, treatments].to_numpy(dtype=np.float64), task)
    table = pd.DataFrame(scores, index=treatments)
    table.loc[ALL] = table.mean(axis=0)
    return table


def rule_shares(truth: Sequence[PlantedSite], predictions: pd.DataFrame) -> pd.Series:
    """How much of each treatment's planted rule is in predictions (genes × treatments): 0 nothing, 1 all.

    The slope of predicted on noise-free responses. Where these do not follow from which motifs a promoter holds
    alone, only the remainder counts: with rules of distance the difference between near and far motifs, with pairs
    what both halves do beyond the sum of either, none of which a sum over motifs can predict. NaN where the truth
    table has no effects, or they do not vary over the promoters.

    Returns one share per treatment, and their mean (`all`).
    """
    genes, treatments = list(predictions.index), list(predictions.columns)
    true = noise_free_responses(truth, genes, treatments)
    rows = {gene: row for row, gene in enumerate(genes)}
    shares = {}
    for number, treatment in enumerate(treatments):
        sites = [site for site in truth if site.treatment == treatment and site.gene_id in rows]
        motifs = sorted({site.motif for site in sites})
        holds = np.ones((len(genes), 1 + len(motifs)))
        holds[:, 1:] = 0
        for site in sites:
            holds[rows[site.gene_id], 1 + motifs.index(site.motif)] = 1
        varying = true[:, number] - true[:, number].mean()
        remainder = varying - holds @ np.linalg.lstsq(holds, varying)[0]
        rule = remainder if np.abs(remainder).max() > 1e-6 * np.abs(varying).max() else varying
        size = rule @ rule
        shares[treatment] = rule @ predictions[treatment].to_numpy() / size if size else np.nan
    return pd.Series(shares | {ALL: pd.Series(shares).mean()})


MEASURES = (
    ("top_bin", "promoters whose highest peak is on the motif, share"),
    ("top_5_bins", "promoters with the motif in one of the 5 highest bins, share"),
    ("mass_causal", "{quantity} on the motif, share"),
    ("auroc", "AUROC of {quantity} per base, motif against all others"),
    ("decoy_auroc", "the same against bases of decoys"),
    ("planted_auroc", "the same against bases of other planted motifs"),
    ("wrong_auroc", "the same with other treatments' maps (control)"),
    ("auprc", "AUPRC of {quantity} per base"),
    ("ceiling_auprc", "the same of perfect {quantity} in these bins"),
    ("entropy", "entropy of {quantity} (1 = spread evenly)"),
)
"""Figures of the promoters that hold the motif of a treatment, means over promoters."""
PLACES = (
    ("mass_causal", "motif of the treatment"),
    ("mass_decoy", "decoys"),
    ("mass_other", "other planted motifs"),
    ("mass_background", "elsewhere"),
    ("mass_sink", "no position"),
)


def localisation_text(
    report: LocalisationReport, predictions: pd.DataFrame | None = None, *, aligned: bool = True
) -> str:
    """A table of figures by treatment and over all, then on what the maps lie.

    predictions: how well responses are predicted; its first column is a row of the table. aligned: columns in line
    as on a terminal, else separated by tabs.
    """
    scores, quantity = report.to_json(), report.quantity
    positives, negatives = scores["positives"], scores["negatives"]
    pairs = [f"{row['pairs']:,}" for row in positives.values()]
    rows = [["", *positives], ["promoters with the motif of the treatment", *pairs]]
    rows += [
        [title.format(quantity=quantity), *(_number(row[name]) for row in positives.values())]
        for name, title in MEASURES
        if name in positives[ALL]
    ]
    if predictions is not None:
        metric = str(predictions.columns[0])
        title = f"{'r' if metric == 'pearson' else metric} of predicted with measured responses"
        rows.append([title, *(_number(predictions[metric].get(name)) for name in positives)])
        if predictions["rule_share"].notna().any():
            title = "share of the planted rule predicted"
            rows.append([title, *(_number(predictions["rule_share"].get(name)) for name in positives)])
    places = [[f"share of {quantity} on", *(title for _, title in PLACES)]]
    for label, row in (("with the motif", positives[ALL]), ("without it", negatives[ALL])):
        places.append([f"promoters {label}", *(_number(row.get(name)) for name, _ in PLACES)])
    title = f"{report.genes:,} promoters of {report.window_length:,} bases, {quantity} in {report.bins} bins"
    return f"{title}\n\n{table_text(rows, aligned)}\n\n{table_text(places, aligned)}\n"


def _number(value: float | None) -> str:
    """Three decimals, `-` for a mean over nothing."""
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"
