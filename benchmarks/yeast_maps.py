"""Does anything that might make maps better lift treatment-specific attention above one shared query, on yeast?

    python benchmarks/yeast_maps.py --work DIR
    python benchmarks/yeast_maps.py --work DIR --variant arrays --seeds 0 --settings "as it is" sink

Every setting is trained twice, with a question per treatment and with one for all (`attention_query = "shared"`),
on the data and splits of benchmarks/yeast.py. Judged on the VALIDATION chromosomes alone, as settings are
compared: (a) median over treatments of Pearson r over genes, (b) the same after the training PC1 is taken out,
with paired 95 % intervals over genes of the difference. Answers stay in DIR, so an interrupted run goes on.
"""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from yeast import CONV_STEM, CONV_TRAINING, NeuralRow, results_folder
from yeast_data import build_dataset
from yeast_statistics import median_specific_pearson

from bioattn.models.promoter.family import FAMILY, PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training.evaluation import predict_responses
from bioattn.promoters.dataset import TRAIN, VALIDATION, PromoterDataset, read_dataset
from bioattn.promoters.response_metrics import (
    fit_shared_axis,
    interval,
    median_pearson,
    resampled,
)
from bioattn.training.run import train

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_QUESTION = MappingProxyType({"attention_query": "shared"})
SETTINGS = {
    "as it is": NeuralRow("groups", {}),
    "sink": NeuralRow("groups", {"sink": True}),
    "entropy": NeuralRow("groups", {}, {"attention_entropy": 0.03}),
    "sink, entropy": NeuralRow("groups", {"sink": True}, {"attention_entropy": 0.03}),
    "conv": NeuralRow("groups", CONV_STEM, CONV_TRAINING, settings=None),
    "conv, exponential": NeuralRow(
        "groups", {**CONV_STEM, "activation": "exponential"}, CONV_TRAINING, settings=None
    ),
    "no warm start": NeuralRow("groups", {}, {"warm_start": False}),
}
"""`small-noisy.toml` with a change, or the default convolutional stem with its filters started from k-mers."""


def validation_answers(
    dataset_path: Path, dataset: PromoterDataset, name: str, query: str, seed: int
) -> np.ndarray:
    """Answers for the validation genes, in dataset units; trained unless they are there."""
    slug = "".join(letter if letter.isalnum() else "-" for letter in f"{name} {query}")
    path = results_folder(dataset_path) / f"maps-{slug}.seed{seed}.npy"
    if path.exists():
        return np.load(path)
    row = SETTINGS[name]
    model = {**row.model_settings(), **(SHARED_QUESTION if query == "shared" else {})}
    output = path.with_suffix(".model")
    settings = PromoterTrainingSettings(
        dataset=dataset_path,
        output=output,
        model=model,
        training=asdict(row.training_config(seed=seed)),
        baselines=False,
        force=True,
    )
    train(FAMILY, settings, device=torch.device("cpu"))
    loaded = load_promoter_model(output, torch.device("cpu"))
    treatments = np.arange(dataset.num_treatments)
    genes = dataset.genes_in(VALIDATION)
    responses = predict_responses(
        loaded.model, dataset, loaded.vocabulary, genes, treatments, torch.device("cpu")
    )
    answers = (responses - dataset.target_mean) / dataset.target_sd
    np.save(path, answers.astype(np.float32))
    return answers


def run() -> None:
    """Train what is missing and print one line per setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="folder of the datasets and answers")
    parser.add_argument("--variant", choices=("groups", "arrays"), default="groups")
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--resamples", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
    path = build_dataset(shared, options.work, "upstream", options.variant)
    dataset = read_dataset(path)
    genes = dataset.genes_in(VALIDATION)
    axis = fit_shared_axis(dataset.targets[dataset.genes_in(TRAIN)])
    truth = dataset.targets[genes].astype(np.float64)
    print(f"{len(genes):,} validation genes × {dataset.num_treatments} treatments, seeds {options.seeds}\n")
    print(
        "| setting | own query (a) | (b) | shared query (a) | (b) | Δ(a), 95 % | Δ(b), 95 % |\n"
        "| --- |" + " ---: |" * 6,
        flush=True,
    )
    for name in options.settings:
        values: dict[str, list[np.ndarray]] = {}
        for query in ("treatment", "shared"):
            answers = [
                validation_answers(path, dataset, name, query, seed).astype(np.float64)
                for seed in options.seeds
            ]
            for column, statistic in (
                ("a", median_pearson),
                ("b", lambda truth, answer: median_specific_pearson(truth, answer, axis)),
            ):
                found = [resampled(statistic(truth, each), len(genes), options.resamples) for each in answers]
                values.setdefault(column, []).append(np.mean(found, axis=0))
        points = [values[column][place][0] for place in (0, 1) for column in ("a", "b")]
        differences = [interval(values[column][0] - values[column][1]) for column in ("a", "b")]
        cells = [f"{point:.3f}" for point in points]
        cells += [f"{each.value:+.3f} [{each.low:+.3f}, {each.high:+.3f}]" for each in differences]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    run()
