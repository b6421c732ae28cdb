"""Rules beyond "motif present": near or far from the gene, two motifs needed, opposite signs.

    python benchmarks/planted_rules.py --seeds 0 1 2 -o planted-rules.md

`simulate promoters`, `prepare` and `train` as a user would. For every rule: the share of it that the predictions
for held-out promoters have (slope of predicted on true contrast, `rule_shares`), and the mean r over treatments.
First row: the simple model that is best on the validation promoters.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import bioattn
from bioattn.interpret.planted.attention_score import rule_shares
from bioattn.models.promoter.training.baselines import BaselineData, default_baselines
from bioattn.simulate.truth import read_truth
from bioattn_cli.main import main

TREATMENTS = ("anywhere", "near", "far", "opposite", "opposite, other way", "pair")
SIMULATION = (
    *("--genes", 4000, "--near", 1, "--far", 1, "--opposites", 1, "--pairs", 1),
    *("--substitution-rate", 0),  # nobody can tell a motif with a substitution from one by chance
)
OWN_BIAS = 'position_bias = "treatment"\n'
SHARED = OWN_BIAS + 'readout = "shared"\n'
MODELS = {
    "own readout": "",
    "own readout, own bias": OWN_BIAS,
    "shared readout, own bias": SHARED,
    "shared readout, own bias, 2 hops": SHARED + "hops = 2\nsink = true\n",
    "shared hidden readout, own bias": SHARED + 'reader = "hidden"\nsink = true\n',
}
"""Settings of `[model]`."""


def run(*words: object) -> None:
    """A command of the program."""
    if main([str(word) for word in words]) != 0:
        raise SystemExit(f"bioattn {' '.join(map(str, words))} failed")


def measure(folder: Path, seed: int, epochs: int, chosen: list[str]) -> list[dict[str, object]]:
    """Simulate once, train every model; one row of figures each."""
    sim, fasta, dataset = folder / "sim", folder / "promoters.fa", folder / "x.dataset.h5"
    run("simulate", "promoters", "-o", sim, *SIMULATION, "--seed", seed, "-q")
    window = ("--upstream", 400, "--downstream", 0, "--flank", 20)
    run("prepare", "promoters", sim / "genome.fa", sim / "annotation.gff3", *window, "-o", fasta, "-q")
    sides = ("--holdout", "validation=chr7", "--holdout", "test=chr8")
    run("prepare", "dataset", fasta, sim / "responses.tsv", *sides, "-o", dataset, "-q")
    data = bioattn.open(dataset)
    test = data.gene_split == 2
    measured = pd.DataFrame(data.targets, data.gene_ids, data.treatments.names)[test]
    truth = read_truth(sim / "truth.tsv")
    fitted = BaselineData(data)
    simple = max(
        default_baselines(data), key=lambda row: fitted.validation_score(row.predictions[fitted.validation])
    )
    predictions = {simple.name: measured * 0 + simple.predictions[test]}
    for name in chosen:
        model = folder / name.replace(" ", "_")
        (folder / "settings.toml").write_text(f"[model]\n{MODELS[name]}")
        training = (
            "-c",
            folder / "settings.toml",
            "--epochs",
            epochs,
            "--seed",
            seed,
            "--no-baselines",
            "-q",
        )
        run("train", "promoter", dataset, "-o", model, *training)
        predictions[name] = bioattn.load_model(model).predict(fasta).loc[measured.index]
    return [
        {"seed": seed, "model": name}
        | dict(zip(TREATMENTS, rule_shares(truth, predicted), strict=False))
        | {"mean r": np.mean([np.corrcoef(predicted[t], measured[t])[0, 1] for t in measured])}
        for name, predicted in predictions.items()
    ]


def report(rows: list[dict[str, object]], output: Path | None) -> None:
    """Print the figures as a Markdown table, and write it if an output is named."""
    frame = pd.DataFrame(rows)
    lines = ["| " + " | ".join(frame.columns) + " |", "|" + " --- |" * len(frame.columns)]
    for values in frame.itertuples(index=False):
        cells = [f"{value:.3f}" if isinstance(value, float) else str(value) for value in values]
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if output is not None:
        output.write_text(text, encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    figures: list[dict[str, object]] = []
    for each in arguments.seeds:
        with tempfile.TemporaryDirectory() as scratch:
            figures += measure(Path(scratch), each, arguments.epochs, arguments.models)
    report(figures, arguments.output)
