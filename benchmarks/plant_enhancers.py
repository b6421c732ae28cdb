"""Light against dark in plant enhancers (Jores et al. 2024): fragments never seen together, and mutation maps.

    BIOATTN_SHARED=../shared python benchmarks/plant_enhancers.py combinations --seeds 0 1 2
    BIOATTN_SHARED=../shared python benchmarks/plant_enhancers.py maps --seeds 0

combinations: enhancers of one to three fragments. A fifth of the pairs of fragments is held out with every
construct that holds one of them, a tenth more for validation; r of dark, light and light - dark, beside a ridge on
fragments and their places. Interval: resampling held-out pairs.

maps: the variants of an enhancer are held out; training sees those of the other one and all combinations, in
which fragments of both stand. No setting. Spearman of light - dark, mean of the substitutions at a position,
predicted less that of the wild type; beside it a ridge on 4-mers of both strands, fitted to the same sequences.
Interval of the difference: resampling blocks of 20 positions.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from common import SHARED, bootstrap, report_by_seed, run
from common import options as command_line
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV

import bioattn
from bioattn.formats.fasta import read_fasta

DATA = SHARED / "data" / "plant_enhancers"
CONDITIONS = ["dark", "light"]
FRAGMENTS = ["fragment3", "fragment2", "fragment1"]
COMBINATIONS = """[model]
position_bias = "treatment"
stem = "both"
kmer = 5
kmer_dropout = 0.3
[training]
epochs = 60
patience = 30
"""
BLOCK = 20
Correlation: TypeAlias = Callable[[np.ndarray, np.ndarray], float]


def train_and_predict(
    folder: Path, settings: str, sequences: pd.Series, sides: pd.Series, responses: pd.DataFrame, seed: int
) -> pd.DataFrame:
    """Predict every sequence with a model trained on those of `sides` (train, validation, test)."""
    (folder / "sequences.fa").write_text("".join(f">{name}\n{s}\n" for name, s in sequences.items()))
    responses.loc[sides.index].to_csv(folder / "responses.tsv", sep="\t")
    sides.rename("split").rename_axis("gene").to_csv(folder / "split.tsv", sep="\t")
    (folder / "settings.toml").write_text(settings)
    fasta, dataset, model = folder / "sequences.fa", folder / "x.dataset.h5", folder / f"model{seed}"
    tables = (folder / "responses.tsv", "--split-table", folder / "split.tsv")
    run("prepare", "dataset", fasta, *tables, "-o", dataset, "-q")
    own = ("-c", folder / "settings.toml", "--no-baselines") if settings else ()
    run("train", "promoter", dataset, "-o", model, *own, "--seed", seed, "--force", "-q")
    return bioattn.load_model(model).predict(fasta)


def read_sequences(*names: str) -> pd.Series:
    records = [record for name in names for record in read_fasta(DATA / f"{name}.fa.gz")]
    return pd.Series({record.name: record.sequence for record in records})


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
    sequences = read_sequences("combinations")
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
    predicted = train_and_predict(folder, COMBINATIONS, sequences, sides, table[CONDITIONS], seed)
    predicted, measured = predicted.loc[table.index], table[CONDITIONS]
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
    """Spearman of predicted and measured maps of an enhancer whose variants were held out, segment by segment."""
    sequences = read_sequences("combinations", "variants")
    table = pd.read_csv(DATA / "variants.tsv.gz", sep="\t").set_index("variant")
    measured = pd.concat(
        [pd.read_csv(DATA / f"{n}.tsv.gz", sep="\t", index_col=0) for n in ("responses", "combinations")]
    )[CONDITIONS].dropna()
    truth = pd.read_csv(DATA / "position_truth.tsv.gz", sep="\t")
    rows: list[dict[str, object]] = []
    for held in sorted(set(table["enhancer"])):
        of_held = table[table["enhancer"] == held]
        known = measured[~measured.index.isin(of_held.index)]
        # Validation: blocks of positions of the other enhancer, and every seventh combination.
        block = ((table["position"] - 1) // BLOCK % 5 == 2).reindex(known.index)
        turn = pd.Series(np.arange(len(known)) % 7 == 0, known.index)
        side = block.where(block.notna(), turn).map({True: "validation", False: "train"})
        wild = {name: wild_type(sequences, part) for name, part in of_held.groupby("segment")}
        asked = pd.concat([sequences[of_held.index], pd.Series(wild)])
        chosen = pd.concat([sequences[known.index], asked])
        models = {
            "4-mer ridge": four_mers(sequences[known.index], known, table, asked),
            "bioattn": train_and_predict(folder, "", chosen, side, measured, seed).loc[asked.index],
        }
        for segment, part in of_held[of_held["type"] == "substitution"].groupby("segment"):
            real = truth[(truth["enhancer"] == held) & (truth["segment"] == segment)].set_index("position")
            wanted, contrast = (real["light"] - real["dark"]).to_numpy(), {}
            for name, each in models.items():
                found = (each.loc[part.index] - each.loc[segment]).groupby(part["position"]).mean()
                contrast[name] = (found["light"] - found["dark"]).to_numpy()
            row = {name: rank_r(each, wanted) for name, each in contrast.items()}
            difference = partial(gain, rank_r, contrast["bioattn"], contrast["4-mer ridge"], wanted)
            blocks = (real.index.to_numpy() - 1) // BLOCK
            named = {"seed": seed, "segment": f"{held} {segment}", **row}
            rows.append({**named, "gain, 95 %": interval(difference, blocks)})
    return rows


def wild_type(sequences: pd.Series, variants: pd.DataFrame) -> str:
    """The sequence of a segment: the commonest base of its substitutions at each place."""
    letters = np.array([list(s) for s in sequences[variants.index[variants["type"] == "substitution"]]])
    return "".join(pd.DataFrame(letters).mode().iloc[0])


def four_mers(
    known: pd.Series, measured: pd.DataFrame, table: pd.DataFrame, asked: pd.Series
) -> pd.DataFrame:
    """A ridge on counts of 4-mers of both strands; a mean for each segment, one for combinations."""
    other = str.maketrans("ACGT", "TGCA")
    every = pd.concat([known, asked])
    words = [[s[i : i + 4] for i in range(len(s) - 3)] for s in every]
    tallies = [Counter(min(word, word[::-1].translate(other)) for word in each) for each in words]
    counts = pd.DataFrame(tallies, every.index).fillna(0.0)
    source = table["enhancer"].str.cat(table["segment"]).reindex(known.index).fillna("combination")
    features = counts.loc[known.index]
    centred = features - features.groupby(source).transform("mean")
    wanted = measured - measured.groupby(source).transform("mean")
    ridge = RidgeCV(np.logspace(-1, 4, 11), fit_intercept=False).fit(centred, wanted)
    return pd.DataFrame(ridge.predict(counts.loc[asked.index]), asked.index, CONDITIONS)


if __name__ == "__main__":
    parser = command_line(__doc__, seeds=(0, 1, 2))
    parser.add_argument("part", choices=["combinations", "maps"])
    arguments = parser.parse_args()
    part = {"combinations": combinations, "maps": maps}[arguments.part]
    report_by_seed(part, arguments.seeds, arguments.output)
