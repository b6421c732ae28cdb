"""Promoter models on real yeast: how much of the response to 168 stresses promoters tell, and to which model.

    python benchmarks/yeast.py --work DIR                      # everything; hours on two cores
    python benchmarks/yeast.py --work DIR --rows baselines     # a minute
    python benchmarks/yeast.py --work DIR --rows cross,cross-shared,concat --seeds 0,1,2
    python benchmarks/yeast.py --work DIR --window coding --rows baselines,cross
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
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from yeast_data import TEST_CHROMOSOMES, WINDOWS, build_dataset, dataset_folder
from yeast_tables import print_held_out, print_tables

from bioattn.io.config_file import build, read_toml
from bioattn.io.files import sha256_of
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge, default_baselines
from bioattn.models.promoter.training.config import TrainingConfig
from bioattn.models.promoter.training.evaluation import nearest_treatment
from bioattn.promoters.dataset import PromoterDataset, read_dataset

REPOSITORY = Path(__file__).resolve().parent.parent
SETTINGS = REPOSITORY / "data" / "settings"


class NeuralRow(NamedTuple):
    """A model to train: on which dataset, with which settings."""

    variant: str
    model: Mapping[str, object]
    training: Mapping[str, object] = MappingProxyType({})
    settings: str | None = "small-noisy.toml"
    """A file of data/settings that comes first; what is given here replaces its values."""

    def model_settings(self) -> dict[str, object]:
        """Fields of the model's configuration."""
        return {**self._table("model"), **self.model}

    def training_config(self, **given: object) -> TrainingConfig:
        """The training configuration; `given` comes last."""
        values = {**self._table("training"), **self.training, **given}
        return build(TrainingConfig, values, self.settings or "settings of the row")

    def _table(self, name: str) -> dict[str, object]:
        return {} if self.settings is None else read_toml(SETTINGS / self.settings).get(name, {})


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
    options = parse_options()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    shared = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
    if not (shared / "data" / "yeast").is_dir():
        raise SystemExit(f"no yeast data under {shared}; set BIOATTN_SHARED")
    for row in [] if options.tables_only else options.rows:
        variant = BASELINE_ROWS[row] if row in BASELINE_ROWS else NEURAL_ROWS[row].variant
        path = build_dataset(shared, options.work, options.window, variant, options.test)
        if row in BASELINE_ROWS:
            fit_baselines(path, results_folder(path), variant)
        else:
            for seed in options.seeds:
                train_row(row, seed, path, options)
    for variant, title in VARIANT_TITLES.items():
        path = dataset_folder(options.work, options.window, options.test) / f"{variant}.dataset.h5"
        if path.exists() and any(results_folder(path).glob("*.npz")):
            dataset = read_dataset(path)
            rows = read_rows(results_folder(path), dataset)
            upstream, downstream = WINDOWS[options.window]
            heading = f"Yeast, −{upstream}..{f'+{downstream}' if downstream else 0}, {title}"
            if options.test != "iv-xv":
                heading += f", test chromosomes {options.test.upper().replace('-', ' and ')}"
            printer = print_held_out if variant.startswith("held-out") else print_tables
            printer(heading, dataset, rows, options.resamples)


def parse_options() -> argparse.Namespace:
    """Command line of the benchmark."""
    every_row = [*BASELINE_ROWS, *NEURAL_ROWS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and finished rows")
    parser.add_argument(
        "--rows", default=",".join(every_row), help=f"comma-separated, of: {', '.join(every_row)}"
    )
    parser.add_argument("--seeds", default="0,1,2", help="comma-separated seeds of the neural rows")
    parser.add_argument("--window", choices=sorted(WINDOWS), default="upstream")
    parser.add_argument("--test", choices=sorted(TEST_CHROMOSOMES), default="iv-xv", help="test chromosomes")
    parser.add_argument("--epochs", type=int, help="epochs at most (default: those of the row's settings)")
    parser.add_argument("--device", default="cpu", help="torch device of the neural rows")
    parser.add_argument("--threads", type=int, help="CPU threads (default: all that are granted)")
    parser.add_argument("--resamples", type=int, default=1000, help="bootstrap resamples of the test genes")
    parser.add_argument("--tables-only", action="store_true", help="train nothing, print what is there")
    options = parser.parse_args()
    options.rows = options.rows.split(",")
    options.seeds = [int(seed) for seed in options.seeds.split(",")]
    unknown = sorted(set(options.rows) - set(every_row))
    if unknown:
        parser.error(f"unknown rows {', '.join(unknown)}; choose from {', '.join(every_row)}")
    return options


def results_folder(dataset_path: Path) -> Path:
    """Where the rows of one dataset are kept; another dataset (other bytes) has another folder."""
    name = dataset_path.name.removesuffix(".dataset.h5")
    folder = dataset_path.parent / f"{name}-{sha256_of(dataset_path)[:12]}"
    folder.mkdir(exist_ok=True)
    return folder


def save_row(
    folder: Path, name: str, seed: int | None, predictions: np.ndarray, note: str, settings: str = ""
) -> None:
    """Keep predictions (genes × treatments, response units) under the row's name."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in name)
    path = folder / f"{slug}{'' if seed is None else f'.seed{seed}'}.npz"
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, predictions=predictions.astype(np.float32), name=name, note=note, settings=settings)
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
            for by in ("features", "responses"):
                nearest = nearest_treatment(dataset, base, by=by)
                save_row(folder, nearest.name, None, in_log2(dataset, nearest.predictions), base.name)
    elif not any(folder.glob("training-mean.npz")):
        for row in default_baselines(dataset):
            save_row(folder, row.name, None, in_log2(dataset, row.predictions), row.choice)
    print(f"{variant}: simple models, {time.perf_counter() - started:.0f} s", file=sys.stderr)


def is_done(path: Path, settings: str) -> bool:
    """Whether a row is there and was trained with these settings (a changed default trains it again)."""
    if not path.exists():
        return False
    with np.load(path) as content:
        return str(content["settings"]) == settings


def train_row(row: str, seed: int, dataset_path: Path, options: argparse.Namespace) -> None:
    """Train one model as `bioattn train promoter` does and keep its predictions."""
    import torch

    from bioattn.models.promoter.family import FAMILY, PromoterTrainingSettings
    from bioattn.models.promoter.folder import load_promoter_model
    from bioattn.models.promoter.training.data import model_config
    from bioattn.models.promoter.training.evaluation import predict_responses
    from bioattn.system.device import set_threads
    from bioattn.training.run import train

    started = time.perf_counter()
    set_threads(options.threads)
    folder, dataset = results_folder(dataset_path), read_dataset(dataset_path)
    epochs = {} if options.epochs is None else {"epochs": options.epochs}
    model, training = NEURAL_ROWS[row].model_settings(), NEURAL_ROWS[row].training_config(seed=seed, **epochs)
    shape = model_config(dataset, model, training)
    settings = json.dumps([asdict(shape), asdict(training)], sort_keys=True)
    if is_done(folder / f"{row}.seed{seed}.npz", settings):
        return
    output = folder / f"{row}.seed{seed}.model"
    device = torch.device(options.device)
    run = PromoterTrainingSettings(
        dataset=dataset_path,
        output=output,
        model=model,
        training=asdict(training),
        baselines=False,
        force=True,
    )
    train(FAMILY, run, device=device)
    loaded = load_promoter_model(output, device)
    held_out = np.flatnonzero(dataset.treatment_split != 0)
    treatments = held_out if len(held_out) else np.arange(dataset.num_treatments)
    genes = np.arange(dataset.num_genes)
    answers = predict_responses(loaded.model, dataset, loaded.vocabulary, genes, treatments, device)
    save_row(
        folder, row, seed, answers, "" if options.epochs is None else f"{options.epochs} epochs", settings
    )
    print(f"{row}, seed {seed}: {time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
