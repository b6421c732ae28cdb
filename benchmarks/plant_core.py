"""Two expression systems that need different sequence: plant core promoters (Jores et al. 2021), the shared split.

    BIOATTN_SHARED=../shared python benchmarks/plant_core.py --seeds 0 1 2 -o plant-core.md

On the test promoters, for each system: r of the response with its prediction, and their partial correlation given
the other system's prediction (what is specific). The strongest simple models are ridges on 5- and 4-mers in
windows: r 0.651 / 0.637, specific 0.612 / 0.614 (../shared/data/splits/README.md).
"""

import gzip
from pathlib import Path

import numpy as np
from common import SHARED, report_by_seed, run
from common import options as command_line

import bioattn

DATA = SHARED / "data" / "plant_core"
MODELS = {
    "own readout, one bias for both systems": 'position_bias = "shared"',
    "own readout (default)": "",
    "shared readout": 'readout = "shared"',
    "shared readout, keys see their neighbours": 'readout = "shared"\nkey_layers = 1',
}
"""The table [model] of the settings, by name."""


def partial_correlation(x: np.ndarray, y: np.ndarray, given: np.ndarray) -> float:
    """Of x and y, given a third variable."""
    xy, xg, yg = (np.corrcoef(*pair)[0, 1] for pair in ((x, y), (x, given), (y, given)))
    return float((xy - xg * yg) / np.sqrt((1 - xg**2) * (1 - yg**2)))


def accuracy(measured_GT: np.ndarray, predicted_GT: np.ndarray) -> list[tuple[float, float]]:
    """For each system r, and the partial correlation given the other system's prediction."""
    found = []
    for number, measured_G in enumerate(measured_GT.T):
        known = np.isfinite(measured_G)
        measured, own, other = measured_G[known], predicted_GT[known, number], predicted_GT[known, 1 - number]
        found.append((float(np.corrcoef(measured, own)[0, 1]), partial_correlation(measured, own, other)))
    return found


def prepare(folder: Path) -> tuple[Path, Path]:
    """The promoter FASTA and the dataset with the shared split, made where they are not there."""
    fasta, dataset = folder / "promoters.fa", folder / "x.dataset.h5"
    fasta.write_bytes(gzip.decompress((DATA / "promoters.fa.gz").read_bytes()))
    split = ("--split-table", DATA / "split.tsv.gz")
    if not dataset.exists():
        run("prepare", "dataset", fasta, DATA / "responses.tsv.gz", *split, "-o", dataset, "-q")
    return fasta, dataset


def train(folder: Path, dataset: Path, model: Path, name: str, epochs: int, seed: int) -> None:
    settings = folder / "settings.toml"
    settings.write_text(f"[model]\n{MODELS[name]}\n", encoding="utf-8")
    options = ("-c", settings, "--epochs", epochs, "--seed", seed, "--no-baselines", "-q")
    run("train", "promoter", dataset, "-o", model, *options)


def measure(folder: Path, seed: int, epochs: int, chosen: list[str]) -> list[dict[str, object]]:
    """Train the models; one row of figures each."""
    fasta, dataset = prepare(folder)
    data = bioattn.open(dataset)
    test = data.gene_split == 2
    genes = [gene for gene, held_out in zip(data.gene_ids, test, strict=True) if held_out]
    rows = []
    for name in chosen:
        model = folder / f"model{len(rows)}"
        train(folder, dataset, model, name, epochs, seed)
        predicted = bioattn.load_model(model).predict(fasta).loc[genes].to_numpy()
        row: dict[str, object] = {"seed": seed, "model": name}
        figures = accuracy(data.targets[test], predicted)
        for system, (r, specific) in zip(data.treatments.names, figures, strict=True):
            row |= {f"r, {system}": r, f"specific, {system}": specific}
        rows.append(row)
    return rows


if __name__ == "__main__":
    parser = command_line(__doc__, seeds=(0, 1, 2))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    arguments = parser.parse_args()
    chosen = arguments.epochs, arguments.models
    report_by_seed(lambda folder, seed: measure(folder, seed, *chosen), arguments.seeds, arguments.output)
