"""Promoter models on real yeast: how much of the response to 168 stresses promoters tell, and to which model.

    python benchmarks/yeast.py --work DIR                      # everything; hours on two cores
    python benchmarks/yeast.py --work DIR --rows baselines     # a minute
    python benchmarks/yeast.py --work DIR --rows cross cross-shared concat --seeds 0 1 2
    python benchmarks/yeast.py --work DIR --window coding --rows baselines cross
    python benchmarks/yeast.py --work DIR --tables-only        # what is there, trained before

S. cerevisiae R64 and Gasch et al. 2000 from the shared data (BIOATTN_SHARED). Test chromosomes IV and XV (or, with
--test xii-xvi, two that no setting was found with), validation VII and X. The row `cross` and its controls
(cross-shared: one query for all treatments; cross-position: weights by distance alone; cross-uniform: all
positions alike; cross-kmer: its k-mers without filters), cross-own-bias (each treatment has a position bias of its
own), cross-shared-readout (one reader for all treatments) and its control cross-shared-readout-one-map (one map,
too) train with data/settings/small-noisy.toml. Every
finished row is kept in DIR as predictions, so an interrupted benchmark goes on, and the tables (Markdown, on
stdout) show all rows that are there. Columns, with 95 % intervals over genes:

(a) median over arrays of Pearson r over genes
(b) the same after the training PC1 is taken out of truth and prediction
(c) median over genes of Pearson r over arrays
(d) AUROC and AUPRC of |log2 fold change| > 1, median over arrays
"""

import argparse
import json
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd
from common import DATA, SHARED, run
from common import options as command_line
from yeast_data import TEST_CHROMOSOMES, WINDOWS, build_dataset, dataset_folder
from yeast_tables import print_held_out, print_tables

import bioattn
from bioattn.choices import TRAIN
from bioattn.io.files import sha256_of
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge, default_baselines
from bioattn.models.promoter.training.evaluation import feature_distances, nearest_treatments
from bioattn.promoters.dataset import PromoterDataset, read_dataset


class NeuralRow(NamedTuple):
    """A model to train: on which dataset, with which settings."""

    variant: str
    model: Mapping[str, object]
    training: Mapping[str, object] = MappingProxyType({})
    settings: str | None = "small-noisy.toml"
    """A file of data/settings that comes first; what is given here replaces its values."""

    def tables(self) -> dict[str, dict[str, object]]:
        """The tables [model] and [training] of its settings."""
        text = (
            "" if self.settings is None else (DATA / "settings" / self.settings).read_text(encoding="utf-8")
        )
        first = tomllib.loads(text)
        given = {"model": self.model, "training": self.training}
        return {name: {**first.get(name, {}), **values} for name, values in given.items()}


KMER_STEM = MappingProxyType({"stem": "kmer", "channels": 64, "num_heads": 4})
CONV_STEM = MappingProxyType({"dropout": 0.3})
CONV_TRAINING = MappingProxyType({"learning_rate": 5e-3, "epochs": 15})
CONCAT_TRAINING = MappingProxyType(
    # Published: no unconditional token. The rate is the best of 3e-4, 1e-3 and 3e-3 on validation genes.
    {"learning_rate": 3e-3, "epochs": 20, "unconditional_probability": 0.0, "treatments_per_step": 32}
)
TRUNK_TRAINING = MappingProxyType({"epochs": 20})

NEURAL_ROWS = {
    "cross": NeuralRow("arrays", {}),
    "cross-shared": NeuralRow("arrays", {"attention_query": "shared"}),
    "cross-position": NeuralRow("arrays", {"attention_query": "position"}),
    "cross-uniform": NeuralRow("arrays", {"attention_query": "uniform"}),
    "cross-own-bias": NeuralRow("arrays", {"position_bias": "treatment"}),
    "cross-shared-readout": NeuralRow("arrays", {"readout": "shared"}),
    "cross-shared-readout-one-map": NeuralRow(
        "arrays",
        {"readout": "shared", "attention_query": "shared", "position_bias": "shared"},
        {"warm_start": False},
    ),
    "concat": NeuralRow("arrays", {"conditioning": "concat"}, CONCAT_TRAINING, settings=None),
    "cross-kmer": NeuralRow("arrays", KMER_STEM),
    "cross-conv": NeuralRow("arrays", CONV_STEM, CONV_TRAINING, settings=None),
    "groups-cross": NeuralRow("groups", {}),
    "groups-cross-shared": NeuralRow("groups", {"attention_query": "shared"}),
    "groups-cross-own-bias": NeuralRow("groups", {"position_bias": "treatment"}),
    "groups-cross-shared-readout": NeuralRow("groups", {"readout": "shared"}),
    "groups-concat": NeuralRow("groups", {"conditioning": "concat"}, CONCAT_TRAINING, settings=None),
    "groups-cross-conv": NeuralRow("groups", CONV_STEM, CONV_TRAINING, settings=None),
    "groups-film": NeuralRow("groups", {"conditioning": "film"}, TRUNK_TRAINING, settings=None),
    "groups-cross-all": NeuralRow("groups", {"conditioning": "cross-all"}, TRUNK_TRAINING, settings=None),
    "times-cross": NeuralRow("held-out-times", {"treatment_encoder": "features"}),
    "held-groups-cross": NeuralRow("held-out-groups", {"treatment_encoder": "features"}),
    "times-kernel": NeuralRow("held-out-times", {"treatment_encoder": "kernel"}),
    "held-groups-kernel": NeuralRow("held-out-groups", {"treatment_encoder": "kernel"}),
    "times-molecule": NeuralRow("held-out-times-molecules", {"treatment_encoder": "molecule"}),
    "times-molecule-kernel": NeuralRow("held-out-times-molecules", {"treatment_encoder": "kernel"}),
    "held-groups-molecule": NeuralRow("held-out-groups-molecules", {"treatment_encoder": "molecule"}),
    "held-groups-molecule-kernel": NeuralRow("held-out-groups-molecules", {"treatment_encoder": "kernel"}),
}
"""Every neural row; those of one variant share a table."""
BASELINE_ROWS = {
    "baselines": "arrays",
    "groups-baselines": "groups",
    "times-nearest": "held-out-times",
    "held-groups-nearest": "held-out-groups",
}
VARIANT_TITLES = {
    "arrays": "168 arrays",
    "groups": "35 group means (36 groups less the controls)",
    "held-out-times": "held-out time points",
    "held-out-groups": "held-out groups",
    "held-out-times-molecules": "held-out time points, with molecules",
    "held-out-groups-molecules": "held-out groups, with molecules",
}


def main() -> None:
    given = parse_options()
    if not (SHARED / "data" / "yeast").is_dir():
        raise SystemExit(f"no yeast data under {SHARED}; set BIOATTN_SHARED")
    for row in [] if given.tables_only else given.rows:
        variant = BASELINE_ROWS[row] if row in BASELINE_ROWS else NEURAL_ROWS[row].variant
        path = build_dataset(SHARED, given.work, given.window, variant, given.test)
        if row in BASELINE_ROWS:
            fit_baselines(path, results_folder(path), variant)
        else:
            for seed in given.seeds:
                train_row(row, seed, path, given)
    for variant, title in VARIANT_TITLES.items():
        path = dataset_folder(given.work, given.window, given.test) / f"{variant}.dataset.h5"
        if path.exists() and any(results_folder(path).glob("*.npz")):
            dataset = read_dataset(path)
            rows = read_rows(results_folder(path), dataset)
            upstream, downstream = WINDOWS[given.window]
            heading = f"Yeast, −{upstream}..{f'+{downstream}' if downstream else 0}, {title}"
            if given.test != "iv-xv":
                heading += f", test chromosomes {given.test.upper().replace('-', ' and ')}"
            printer = print_held_out if variant.startswith("held-out") else print_tables
            printer(heading, dataset, rows, given.resamples)


def parse_options() -> argparse.Namespace:
    every = [*BASELINE_ROWS, *NEURAL_ROWS]
    parser = command_line(__doc__, seeds=(0, 1, 2), output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and finished rows")
    parser.add_argument("--rows", nargs="+", choices=every, default=every, metavar="ROW")
    parser.add_argument("--window", choices=sorted(WINDOWS), default="upstream")
    parser.add_argument("--test", choices=sorted(TEST_CHROMOSOMES), default="iv-xv", help="test chromosomes")
    parser.add_argument("--epochs", type=int, help="epochs at most (default: those of the row's settings)")
    parser.add_argument("--device", default="cpu", help="torch device of the neural rows")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap resamples of the test genes")
    parser.add_argument("--tables-only", action="store_true", help="train nothing, print what is there")
    return parser.parse_args()


def results_folder(dataset_path: Path) -> Path:
    """Where the rows of one dataset are kept; another dataset (other bytes) has another folder."""
    name = dataset_path.name.removesuffix(".dataset.h5")
    folder = dataset_path.parent / f"{name}-{sha256_of(dataset_path)[:12]}"
    folder.mkdir(exist_ok=True)
    return folder


def save_row(folder: Path, name: str, seed: int | None, predictions: np.ndarray, note: str) -> None:
    """Keep predictions (genes × treatments, response units) under the row's name."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name)
    path = folder / f"{slug}{'' if seed is None else f'.seed{seed}'}.npz"
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, predictions=predictions.astype(np.float32), name=name, note=note)
    temporary.replace(path)


def read_rows(folder: Path, dataset: PromoterDataset) -> dict[str, list[np.ndarray]]:
    """Predictions in dataset units by row (with its note): one array per seed."""
    rows: dict[str, list[np.ndarray]] = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as content:
            note = str(content["note"])
            name = f"{content['name']}" + (f" ({note})" if note else "")
            rows.setdefault(name, []).append(standardised(dataset, content["predictions"]))
    return rows


def standardised(dataset: PromoterDataset, responses: np.ndarray) -> np.ndarray:
    """Responses (log2) in the dataset's units; the treatments are those of training or all."""
    columns = columns_of(dataset, responses)
    return (responses - dataset.target_mean[columns]) / dataset.target_sd[columns]


def in_log2(dataset: PromoterDataset, values: np.ndarray) -> np.ndarray:
    """The way back."""
    columns = columns_of(dataset, values)
    return values * dataset.target_sd[columns] + dataset.target_mean[columns]


def columns_of(dataset: PromoterDataset, table: np.ndarray) -> np.ndarray:
    """The treatments a table of predictions is about: held-out ones where there are any."""
    held_out = np.flatnonzero(dataset.treatment_split != 0)
    columns = held_out if len(held_out) else np.arange(dataset.num_treatments)
    if table.shape[1] != len(columns):
        raise SystemExit(f"a saved row has {table.shape[1]} treatments, {len(columns)} are asked for")
    return columns


def fit_baselines(dataset_path: Path, folder: Path, variant: str) -> None:
    """The simple models of a dataset, or the nearest treatments of held-out ones."""
    started = time.perf_counter()
    dataset = read_dataset(dataset_path)
    if variant.startswith("held-out"):
        if not any(folder.glob("nearest*.npz")):
            base = component_ridge(BaselineData(dataset))
            measured = pd.DataFrame(dataset.targets[dataset.genes_in(TRAIN)])
            distances = {
                "features": feature_distances(dataset.treatments),
                "responses": 1.0 - measured.corr().fillna(-1.0).to_numpy(),
            }
            for by, distance_TT in distances.items():
                _, predictions = nearest_treatments(dataset, base, distance_TT)
                save_row(folder, f"nearest treatment by {by}", None, in_log2(dataset, predictions), base.name)
    elif not any(folder.glob("training-mean.npz")):
        for row in default_baselines(dataset):
            save_row(folder, row.name, None, in_log2(dataset, row.predictions), row.choice)
    print(f"{variant}: simple models, {time.perf_counter() - started:.0f} s", file=sys.stderr)


def train_row(row: str, seed: int, dataset_path: Path, given: argparse.Namespace) -> None:
    """Train one model and keep its predictions, unless a model of these settings is there."""
    started = time.perf_counter()
    folder, dataset = results_folder(dataset_path), read_dataset(dataset_path)
    model, config = folder / f"{row}.seed{seed}.model", folder / f"{row}.seed{seed}.toml"
    tables = NEURAL_ROWS[row].tables()
    tables["training"] |= {} if given.epochs is None else {"epochs": given.epochs}
    text = "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for name, values in tables.items()
    )
    if model.exists() and config.read_text() == text:
        return
    config.write_text(text)
    running = f"--device {given.device} --threads {given.threads} --no-baselines --force -q"
    run(f"train promoter {dataset_path} -o {model} -c {config} --seed {seed} {running}")
    words: dict[str, object] = {}
    held_out = dataset.treatments.frame[dataset.treatment_split != 0]
    if len(held_out):
        words = {"treatment_table": folder / "held-out.tsv"}
        held_out.to_csv(folder / "held-out.tsv", sep="\t", index_label="treatment")
    answers = bioattn.load_model(model, device=given.device).predict(
        dataset_path.parent / "promoters.fa", **words
    )
    note = "" if given.epochs is None else f"{given.epochs} epochs"
    save_row(folder, row, seed, answers.loc[dataset.gene_ids].to_numpy(), note)
    print(f"{row}, seed {seed}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
