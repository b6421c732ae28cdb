"""Held-out inner points of 14 yeast time series (Gasch et al. 2000), from the other points of their series.

    BIOATTN_SHARED=../shared python benchmarks/response_curves.py

Times are log2(minutes + 5); of each series the genes that were measured throughout. The width is chosen by
leave-one-out over all series without the held-out point. RMSE over genes and points of a series, mean over series;
intervals resample genes.
"""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from bioattn.interpret.response_curve import (
    WIDTHS,
    CurveSettings,
    Series,
    kernel_weights,
    left_out,
    mean_error,
    read_series,
    smoothed,
)

YEAST = Path(os.environ.get("BIOATTN_SHARED", "../shared")) / "data" / "yeast"
RESAMPLES = 1000


def without(series, row):
    kept = np.arange(len(series.treatments)) != row
    names = [name for name, keep in zip(series.treatments, kept, strict=True) if keep]
    return Series(series.name, names, series.raw_ND[kept], series.places_ND[kept], series.responses_NG[kept])


def error(series, width, linear):
    """The leave-one-out error of a series."""
    return mean_error([series], partial(left_out, width_D=width, linear=linear))


def kernel(all_series, linear):
    """Squared errors of the inner points of each series, (points, genes) each."""
    widths = WIDTHS * max(float(np.ptp(each.places_ND)) for each in all_series)
    errors = np.array([[error(each, np.array([width]), linear) for width in widths] for each in all_series])
    found = []
    for place, each in enumerate(all_series):
        squared = []
        for row in range(1, len(each.treatments) - 1):
            rest = without(each, row)
            own = np.array([error(rest, np.array([width]), linear) for width in widths])
            width = widths[np.argmin(np.delete(errors, place, 0).sum(0) + own)]
            weights = kernel_weights(
                rest.places_ND, each.places_ND[row, None], np.array([width]), linear=linear
            )
            squared.append(np.square(smoothed(weights, rest.responses_NG)[0] - each.responses_NG[row]))
        found.append(np.array(squared))
    return found


def simple(all_series, answer):
    found = []
    for each in all_series:
        inner = range(1, len(each.treatments) - 1)
        found.append(np.array([np.square(answer(each, row) - each.responses_NG[row]) for row in inner]))
    return found


def between(series, row):
    before, here, after = series.places_ND[row - 1 : row + 2, 0]
    low, high = series.responses_NG[row - 1], series.responses_NG[row + 1]
    return low + (high - low) * (here - before) / (after - before)


def nearest(series, row):
    before, here, after = series.places_ND[row - 1 : row + 2, 0]
    return series.responses_NG[row - 1 if here - before < after - here else row + 1]


def mean_rmse(squared, weights_G):
    """The mean over series, genes counted as `weights_G` says."""
    rows = [np.nanmean(each, axis=0) for each in squared]
    known = [np.isfinite(row) for row in rows]
    return np.mean(
        [np.sqrt(np.average(r[k], weights=weights_G[k])) for r, k in zip(rows, known, strict=True)]
    )


if __name__ == "__main__":
    conditions = pd.read_csv(YEAST / "gasch2000_conditions.tsv", sep="\t", index_col=0)
    path = Path("conditions.tsv")
    conditions.drop(columns="index").to_csv(path, sep="\t")
    settings = CurveSettings(along=("minutes",), series="treatment", offset=5.0)
    series, genes, _, _ = read_series(YEAST / "gasch2000_log2ratio.tsv.gz", path, settings)
    path.unlink()
    series = [each for each in series if len(set(each.places_ND[:, 0])) >= 5]
    for each in series:
        each.responses_NG[:, ~np.isfinite(each.responses_NG).all(0)] = np.nan
    print(f"{len(series)} series, {sum(len(each.treatments) - 2 for each in series)} inner points")
    found = {
        "nearest": simple(series, nearest),
        "linear in log time": simple(series, between),
        "Nadaraya-Watson, width by leave-one-out": kernel(series, linear=False),
        "local linear, width by leave-one-out": kernel(series, linear=True),
    }
    generator = np.random.default_rng(0)
    draws = generator.multinomial(len(genes), np.full(len(genes), 1 / len(genes)), size=RESAMPLES).astype(
        float
    )
    line = np.array([mean_rmse(found["linear in log time"], weights) for weights in draws])
    for name, squared in found.items():
        resampled = np.array([mean_rmse(squared, weights) for weights in draws])
        low, high = np.quantile(resampled - line, (0.025, 0.975))
        value = mean_rmse(squared, np.ones(len(genes)))
        print(f"| {name} | {value:.4f} | {low:+.4f} to {high:+.4f} |")
