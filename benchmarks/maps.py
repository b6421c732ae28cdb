"""Which settings make the maps of `cross` better, and at what price: planted truth, seed by seed.

    python benchmarks/maps.py --seeds 0 1 2 3 4 -o maps.md
    python benchmarks/maps.py --seeds 20 --settings default sink entropy exponential

Simulation, training and scores are those of benchmarks/planted.py (standard set). Every trained model is exported
twice, as it is and with `--phases`, and asked by in-silico mutagenesis (ISM): the size of what each base
contributes, as it is and smoothed like attention (a bin's box and its Gaussian), is scored as attention is, on the
first --ism test promoters; the ratio is that of attention on the same promoters.
"""

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from planted import BIN_WIDTH, prepare, score, step, train, write_test_promoters
from scipy.ndimage import gaussian_filter1d, uniform_filter1d

from bioattn.errors import BioattnError
from bioattn.interpret.attribution.methods import Mutagenesis, contributions
from bioattn.interpret.maps.upsampling import upsample
from bioattn.interpret.planted.localisation import ALL, PlantedMap, row_average_precision
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training.batches import centred_windows
from bioattn.promoters.dataset import TEST, read_dataset
from bioattn.simulate.truth import read_truth
from bioattn.store.reader import open_attention

SETTINGS = {
    "default": "",
    "random first filters": '[training]\nfirst_filters = "random"\n',
    "sink": "[model]\nsink = true\n",
    "entropy": "[training]\nattention_entropy = 0.03\n",
    "exponential": '[model]\nactivation = "exponential"\n',
    "one head": "[model]\nnum_heads = 1\nhead_channels = 64\n",
    "bins of 4": "[model]\npool = 4\nvalue_kernel = 9\n",
}
COLUMNS = {
    "r": "prediction r",
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "fine_auroc": "AUROC, phases",
    "fine_auprc": "AUPRC, phases",
    "top_bin": "top bin",
    "entropy": "entropy",
    "ism": "ISM AUPRC",
    "ism_smooth": "ISM smoothed",
    "ratio": "phases ÷ ISM",
    "ratio_smooth": "phases ÷ ISM smoothed",
    "cpu": "training, CPU s",
}
BATCH = 256


def run_setting(folder: Path, name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Train with one setting and score its maps."""
    config = folder / f"{name}.toml"
    config.write_text(SETTINGS[name])
    options.config = config
    began = os.times()
    model = train(folder, folder / "planted.dataset.h5", name, seed, options, show=False)
    ended = os.times()
    promoters = write_test_promoters(folder)
    export = ["export", "attention", str(model), str(promoters), "-o"]
    step([*export, str(folder / "plain.h5")], show=False)
    pool = load_promoter_model(model, torch.device("cpu")).config.pool
    step([*export, str(folder / "fine.h5"), "--phases", str(min(options.phases, pool))], show=False)
    plain, predictions = score(folder, folder / "plain.h5")
    fine, _ = score(folder, folder / "fine.h5")
    found = {
        "r": float(predictions.loc[ALL, predictions.columns[0]]),
        "auroc": float(plain.positives.loc[ALL, "auroc"]),
        "auprc": float(plain.positives.loc[ALL, "auprc"]),
        "fine_auroc": float(fine.positives.loc[ALL, "auroc"]),
        "fine_auprc": float(fine.positives.loc[ALL, "auprc"]),
        "top_bin": float(plain.positives.loc[ALL, "top_bin"]),
        "entropy": float(plain.positives.loc[ALL, "entropy"]),
        "cpu": ended.user - began.user,
    }
    return found | (mutagenesis_scores(folder, model, options.ism) if options.ism else {})


def mutagenesis_scores(folder: Path, model: Path, number: int) -> dict[str, float]:
    """AUPRC of ISM on the first `number` test promoters, and attention with phases over it."""
    loaded = load_promoter_model(model, torch.device("cpu"))
    dataset = read_dataset(folder / "planted.dataset.h5")
    genes = dataset.genes_in(TEST)[:number]
    names = list(loaded.treatments.names)
    codes = centred_windows(dataset, genes).numpy()
    runner = Mutagenesis(loaded.predictor(), batch_size=BATCH, reuse_trunk=False)
    size = np.abs(contributions(runner(codes).values_BTLA, codes))
    smooth = gaussian_filter1d(uniform_filter1d(size, BIN_WIDTH, axis=-1), BIN_WIDTH / 2, axis=-1)
    ids = [dataset.gene_ids[gene] for gene in genes]
    with open_attention(folder / "fine.h5") as attention:
        (site,) = attention.sites.values()
        rows = [attention.samples.index.get_loc(gene) for gene in ids]
        weights = attention.weights(site.name)[rows].mean(axis=site.dims.index("head"))
        maps = np.stack(
            [upsample(weights[:, t], site.key_edges, loaded.length, "gaussian") for t in range(len(names))],
            axis=1,
        )
    truth = PlantedMap(read_truth(folder / "sim" / "truth.tsv"), ids, names, loaded.length).block(0, len(ids))
    scores = {}
    for name, values in (("ism", size), ("ism_smooth", smooth), ("same", maps)):
        by_treatment = []
        for number_of_treatment in range(len(names)):
            causal = truth.causal(number_of_treatment)
            rows_with = causal.any(axis=1)
            by_treatment.append(
                row_average_precision(values[rows_with, number_of_treatment], causal[rows_with])
            )
        scores[name] = float(np.concatenate(by_treatment).mean())
    same = scores.pop("same")
    return scores | {"ratio": same / scores["ism"], "ratio_smooth": same / scores["ism_smooth"]}


def tables(results: dict[tuple[str, int], dict[str, float]]) -> str:
    """Means over seeds, differences from the first setting seed by seed, and every seed."""
    frame = pd.DataFrame.from_dict(results, orient="index")
    frame.index = pd.MultiIndex.from_tuples(frame.index, names=["setting", "seed"])
    columns = [name for name in COLUMNS if name in frame]
    header = (
        "| {} | " + " | ".join(COLUMNS[name] for name in columns) + " |\n|" + " --- |" * (len(columns) + 1)
    )
    settings = list(dict.fromkeys(frame.index.get_level_values("setting")))
    lines = [header.format("setting (mean over seeds)")]
    for setting in settings:
        means = frame.loc[setting].mean()
        lines.append(f"| {setting} | " + " | ".join(shown(name, means[name]) for name in columns) + " |")
    for setting in settings[1:]:
        both = frame.loc[setting].index.intersection(frame.loc[settings[0]].index)
        difference = frame.loc[setting].loc[both] - frame.loc[settings[0]].loc[both]
        cells = [
            f"{difference[name].mean():+.3f} ({difference[name].min():+.3f}..{difference[name].max():+.3f})"
            for name in columns
        ]
        lines.append(f"| {setting} less {settings[0]}, paired | " + " | ".join(cells) + " |")
    lines += ["", header.format("setting, seed")]
    for (setting, seed), row in frame.iterrows():
        lines.append(
            f"| {setting}, {seed} | " + " | ".join(shown(name, row[name]) for name in columns) + " |"
        )
    return "\n".join(lines) + "\n"


def shown(name: str, value: float) -> str:
    """Seconds as whole numbers, everything else to three decimals."""
    return f"{value:.0f}" if name == "cpu" else f"{value:.3f}"


def parse_options() -> argparse.Namespace:
    """Options of the script; those of planted.py that its functions want are set to the standard set's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--phases", type=int, default=4, help="of the second export")
    parser.add_argument("--ism", type=int, default=100, metavar="N", help="test promoters for ISM; 0 = none")
    parser.add_argument("--genes", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, help="also write the tables here")
    options = parser.parse_args()
    options.task, options.flank = "regression", 20
    return options


def run() -> None:
    """Run every seed and setting, print the tables."""
    options = parse_options()
    heading = (
        f"Command: `python benchmarks/maps.py {' '.join(sys.argv[1:])}`\n"
        f"({platform.machine()}, {options.threads} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()})\n"
    )
    results: dict[tuple[str, int], dict[str, float]] = {}
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(prefix="maps-") as folder:
            prepare(Path(folder), "standard", seed, options, show=False)
            for setting in options.settings:
                results[setting, seed] = run_setting(Path(folder), setting, seed, options)
                figures = {name: round(value, 3) for name, value in results[setting, seed].items()}
                print(f"seed {seed}, {setting}: {figures}", file=sys.stderr, flush=True)
                if options.output is not None:  # after every model: a long run may be cut short
                    options.output.write_text(f"{heading}\n{tables(results)}")
    print(f"{heading}\n{tables(results)}")


if __name__ == "__main__":
    try:
        run()
    except BioattnError as error:
        raise SystemExit(f"maps.py: {error}") from error
