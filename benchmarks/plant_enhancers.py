"""Light against dark in plant enhancers (Jores et al. 2024): fragments never seen together, and mutation maps.

    BIOATTN_SHARED=../shared python benchmarks/plant_enhancers.py combinations --seeds 0 1 2
    BIOATTN_SHARED=../shared python benchmarks/plant_enhancers.py maps --seeds 0

combinations: enhancers of one to three fragments. A fifth of the pairs of fragments is held out with every
construct that holds one of them, a tenth more for validation; r of dark, light and light - dark, beside a ridge on
fragments and their places. Interval: resampling held-out pairs.

maps: every variant of two enhancers. Positions are cut into blocks of 20; a seventh of the blocks is held out at a
time, with all variants in them, in both segments of an enhancer, and in 5 bases on either side. Spearman of
predicted and measured light - dark, mean of the substitutions at a position, beside a Gaussian over the positions
that are left (the best of four widths). Interval of the difference: resampling blocks.
"""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from common import SHARED, bootstrap, report_by_seed, run
from common import options as command_line
from scipy.stats import spearmanr

import bioattn
from bioattn.formats.fasta import read_fasta

DATA = SHARED / "data" / "plant_enhancers"
CONDITIONS = ["dark", "light"]
FRAGMENTS = ["fragment3", "fragment2", "fragment1"]
SETTINGS = {
    "combinations": """[model]
position_bias = "treatment"
stem = "both"
kmer = 5
kmer_dropout = 0.3
[training]
epochs = 60
patience = 30
""",
    "maps": """[model]
position_bias = "treatment"
[training]
epochs = 8
""",
}
BLOCK, FLANK, FOLDS = 20, 5, 7
Correlation: TypeAlias = Callable[[np.ndarray, np.ndarray], float]


def train_and_predict(
    folder: Path, task: str, sides: pd.Series, responses: pd.DataFrame, seed: int
) -> pd.DataFrame:
    """Predict every sequence with a model trained on those of `sides` (train, validation, test)."""
    responses.loc[sides.index].to_csv(folder / "responses.tsv", sep="\t")
    sides.rename("split").rename_axis("gene").to_csv(folder / "split.tsv", sep="\t")
    (folder / "settings.toml").write_text(SETTINGS[task])
    fasta, dataset, model = folder / "sequences.fa", folder / "x.dataset.h5", folder / f"model{seed}"
    tables = (folder / "responses.tsv", "--split-table", folder / "split.tsv")
    run("prepare", "dataset", fasta, *tables, "-o", dataset, "-q")
    options = ("-c", folder / "settings.toml", "--seed", seed, "--no-baselines", "--force", "-q")
    run("train", "promoter", dataset, "-o", model, *options)
    return bioattn.load_model(model).predict(fasta)


def copy_sequences(name: str, folder: Path) -> None:
    records = read_fasta(DATA / name)
    (folder / "sequences.fa").write_text("".join(f">{r.name}\n{r.sequence}\n" for r in records))


def interval(statistic: Callable[[np.ndarray], float], clusters: np.ndarray) -> str:
    """95 % interval of a statistic of row numbers, whole clusters resampled."""
    rows = [np.flatnonzero(clusters == cluster) for cluster in np.unique(clusters)]
    drawn = lambda chosen: statistic(np.concatenate([rows[i] for i in chosen]))  # noqa: E731
    low, high = bootstrap(drawn, len(rows), 1000)
    return f"{low:.3f} to {high:.3f}"


def gain(
    correlation: Correlation, model: np.ndarray, simple: np.ndarray, measured: np.ndarray, rows: np.ndarray
) -> float:
    """How much better the model correlates than a simple model, on some rows."""
    return correlation(model[rows], measured[rows]) - correlation(simple[rows], measured[rows])


def pearson_r(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def rank_r(x: np.ndarray, y: np.ndarray) -> float:
    return float(spearmanr(x, y).statistic)


def combinations(folder: Path, seed: int) -> list[dict[str, object]]:
    """r on constructs with a held-out pair of fragments: the model, and a ridge on fragments by place."""
    copy_sequences("combinations.fa.gz", folder)
    table = pd.read_csv(DATA / "combinations.tsv.gz", sep="\t").set_index("name")
    held_by = [
        set(itertools.combinations(sorted(name for name in row if isinstance(name, str)), 2))
        for row in table[FRAGMENTS].to_numpy().tolist()
    ]
    pairs = sorted(set().union(*held_by))
    order = np.random.default_rng(seed).permutation(len(pairs))
    fifth, tenth = len(pairs) // 5, len(pairs) // 10
    test = {pairs[i] for i in order[:fifth]}
    validation = {pairs[i] for i in order[fifth : fifth + tenth]}
    side = ["test" if own & test else "validation" if own & validation else "train" for own in held_by]
    sides = pd.Series(side, table.index)
    predicted = train_and_predict(folder, "combinations", sides, table[CONDITIONS], seed).loc[table.index]
    measured = table[CONDITIONS]
    places = pd.get_dummies(table[FRAGMENTS]).to_numpy(float)
    train = (sides != "test").to_numpy()  # the ridge has nothing to choose: validation is training
    mean = measured[train].mean()
    gram = places[train].T @ places[train] + np.eye(places.shape[1])
    weights = np.linalg.solve(gram, places[train].T @ (measured[train] - mean))
    additive = pd.DataFrame(places @ weights, table.index, CONDITIONS) + mean
    clusters = np.array([str(min(own & test)) for own in itertools.compress(held_by, ~train)])
    rows: list[dict[str, object]] = []
    contrast = {}
    for name, found in (("fragments by place", additive), ("bioattn", predicted)):
        found, truth = found[~train], measured[~train]
        contrast[name] = (
            (found["light"] - found["dark"]).to_numpy(),
            (truth["light"] - truth["dark"]).to_numpy(),
        )
        figures = [pearson_r(found[c], truth[c]) for c in CONDITIONS]
        row = dict(zip(CONDITIONS, figures, strict=True))
        rows.append({"seed": seed, "model": name, **row, "light - dark": pearson_r(*contrast[name])})

    (simple, truth), (model, _) = contrast.values()
    return [
        *rows[:1],
        {**rows[1], "gain, 95 %": interval(partial(gain, pearson_r, model, simple, truth), clusters)},
    ]


def maps(folder: Path, seed: int) -> list[dict[str, object]]:
    """Spearman of predicted and measured maps at held-out positions, segment by segment."""
    copy_sequences("variants.fa.gz", folder)
    table = pd.read_csv(DATA / "variants.tsv.gz", sep="\t").set_index("variant")
    responses = pd.read_csv(DATA / "responses.tsv.gz", sep="\t").set_index("variant")[CONDITIONS]
    position = table["position"].to_numpy()
    block = (position - 1) // BLOCK
    predicted = pd.DataFrame(np.nan, table.index, CONDITIONS)
    for fold in range(FOLDS):
        held = block % FOLDS == fold
        flank = ((position - 1 - FLANK) // BLOCK % FOLDS == fold) | (
            (position - 1 + FLANK) // BLOCK % FOLDS == fold
        )
        side = np.where(held, "test", np.where(block % FOLDS == (fold + 3) % FOLDS, "validation", "train"))
        sides = pd.Series(side, table.index)[held | ~flank]
        predicted[held] = train_and_predict(folder, "maps", sides, responses, seed).loc[table.index][held]
    rows: list[dict[str, object]] = []
    chosen = table["type"] == "substitution"
    names = ["enhancer", "segment", "position"]
    columns = pd.concat([table[names], predicted.add_prefix("predicted "), responses], axis=1)[chosen]
    for (enhancer, segment), of_one in columns.groupby(names[:2]):
        means = of_one.groupby("position").mean(numeric_only=True).reset_index()
        measured = (means["light"] - means["dark"]).to_numpy()
        model = (means["predicted light"] - means["predicted dark"]).to_numpy()
        places = means["position"].to_numpy()
        smooth = max(
            (smoothed(places, measured, width) for width in (5, 10, 20, 40)),
            key=lambda m: rank_r(m, measured),
        )
        blocks = (places - 1) // BLOCK
        row: dict[str, object] = {
            "seed": seed,
            "segment": f"{enhancer} {segment}",
            "smoothing": rank_r(smooth, measured),
        }
        row["bioattn"] = rank_r(model, measured)
        row["gain, 95 %"] = interval(partial(gain, rank_r, model, smooth, measured), blocks)
        for condition, other in itertools.product(CONDITIONS, repeat=2):
            row[f"{condition} map on {other}"] = rank_r(means[f"predicted {condition}"], means[other])
        rows.append(row)
    return rows


def smoothed(places: np.ndarray, measured: np.ndarray, width: float) -> np.ndarray:
    """Each position's Gaussian mean over the positions that its fold leaves."""
    block = (places - 1) // BLOCK
    found = np.empty(len(places))
    for at in range(len(places)):
        own = places[block % FOLDS == block[at] % FOLDS]
        left = np.abs(places[:, None] - own).min(axis=1) > FLANK
        found[at] = np.average(
            measured[left], weights=np.exp(-(((places[left] - places[at]) / width) ** 2) / 2)
        )
    return found


if __name__ == "__main__":
    parser = command_line(__doc__, seeds=(0, 1, 2))
    parser.add_argument("part", choices=["combinations", "maps"])
    arguments = parser.parse_args()
    part = {"combinations": combinations, "maps": maps}[arguments.part]
    report_by_seed(part, arguments.seeds, arguments.output)
