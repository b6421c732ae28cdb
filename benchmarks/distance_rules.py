"""Rules of distance: does a model learn that a motif acts within 150 bases of the start only?

    python benchmarks/distance_rules.py --seeds 0 1 2 -o distance-rules.md

3,000 random promoters of 400 bases; two motifs act with opposite signs in two treatments. One treatment answers
to the first motif anywhere, one within 150 bases of position 0 only, one beyond only. On the held-out tenth: the
difference between promoters with the motif near and far, predicted over true, and r of each treatment.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import bioattn
from bioattn_cli.main import main

LENGTH, NEAR, GENES = 400, 150, 3000
MOTIFS = {"A": "TGACGTCA", "B": "CACGTGGC", "C": "GGATTACC"}
MODELS = {
    "shared bias": (),
    "a bias of each treatment": ("--position-bias", "treatment"),
    "the same, shared readout": ("--position-bias", "treatment", "--readout", "shared"),
}


def simulate(folder: Path, seed: int) -> pd.DataFrame:
    """Write promoters.fa and responses.tsv; returns the middle of motif A in each promoter, NaN without it."""
    random = np.random.default_rng(seed)
    records, rows, middles = [], [], []
    for number in range(GENES):
        letters = random.choice(list("ACGT"), LENGTH)
        places: dict[str, int] = {}
        for name, motif in MOTIFS.items():
            if random.random() < 0.5:
                free = [p for p in range(LENGTH - 8) if all(abs(p - other) > 8 for other in places.values())]
                places[name] = int(random.choice(free))
                letters[places[name] : places[name] + 8] = list(motif)
        a, b, c = (name in places for name in MOTIFS)
        middle = places.get("A", np.nan) + 4
        near = a and LENGTH - middle <= NEAR
        effects = np.array([2 * a, 2 * near, 2 * (a and not near), 2 * b - 1.5 * c, 1.5 * c - 2 * b])
        rows.append(effects + 0.5 * random.normal() + 0.5 * random.normal(size=5))
        middles.append(middle)
        start = 1000 * number
        where = f"chr{number % 10}:{start}-{start + LENGTH}(+) downstream=0"
        records.append(f">g{number} {where}\n{''.join(letters)}\n")
    (folder / "promoters.fa").write_text("".join(records))
    names = pd.Index([f"g{number}" for number in range(GENES)], name="gene_id")
    responses = pd.DataFrame(rows, names, ["anywhere", "near", "far", "B - C", "C - B"])
    responses.to_csv(folder / "responses.tsv", sep="\t")
    return responses.assign(middle=middles)


def run(*words: object) -> None:
    """A command of the program."""
    if main([str(word) for word in words]) != 0:
        raise SystemExit(f"bioattn {' '.join(map(str, words))} failed")


def measure(folder: Path, seed: int, epochs: int) -> list[dict[str, object]]:
    """Train every model; one row of figures each."""
    truth = simulate(folder, seed)
    fasta, dataset = folder / "promoters.fa", folder / "x.dataset.h5"
    sides = ("--holdout", "validation=chr8", "--holdout", "test=chr9")
    run("prepare", "dataset", fasta, folder / "responses.tsv", *sides, "-o", dataset, "-q")
    data = bioattn.open(dataset)
    test = [gene for gene, side in zip(data.gene_ids, data.gene_split, strict=True) if side == 2]
    truth = truth.loc[test]
    near = LENGTH - truth["middle"] <= NEAR
    far = LENGTH - truth["middle"] > NEAR
    rows = []
    for name, options in MODELS.items():
        model = folder / name.replace(" ", "_")
        training = ("--epochs", epochs, "--seed", seed, "--no-baselines", "-q")
        run("train", "promoter", dataset, "-o", model, *training, *options)
        predicted = bioattn.load_model(model).predict(fasta).loc[test]
        row: dict[str, object] = {"seed": seed, "model": name}
        for treatment in ("near", "far"):
            true = truth.loc[near, treatment].mean() - truth.loc[far, treatment].mean()
            own = predicted.loc[near, treatment].mean() - predicted.loc[far, treatment].mean()
            row[f"contrast, {treatment}"] = own / true
        for treatment in predicted.columns:
            row[f"r, {treatment}"] = np.corrcoef(predicted[treatment], truth[treatment])[0, 1]
        rows.append(row)
    return rows


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
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    figures: list[dict[str, object]] = []
    for each in arguments.seeds:
        with tempfile.TemporaryDirectory() as scratch:
            figures += measure(Path(scratch), each, arguments.epochs)
    report(figures, arguments.output)
