"""Stems on planted motifs: how well each predicts, where the attention of `cross` lies, and what an epoch costs.

    python benchmarks/stems.py --seed 0 -o stems.md

The standard set of `planted.py`, and its scores on the promoters of the test chromosome. First the encoder
of `pretrained` learns to restore masked bases of the training promoters.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from commands import run
from planted import prepare, score, write_test_promoters
from tables import options

from bioattn.interpret.planted.localisation import ALL
from bioattn.promoters.dataset import read_dataset
from bioattn.store.training_record import COMPARISON, HISTORY, read_training_record

PRETRAINED = ("--stem", "pretrained", "--encoder", "{folder}/encoder")
MODELS = {
    "`conv` (default)": ("--stem", "conv"),
    "`kmer`": ("--stem", "kmer"),
    "`both`": ("--stem", "both"),
    "`patch`": ("--stem", "patch"),
    "`transformer`, rotary (default)": ("--stem", "transformer"),
    "`transformer`, sinusoidal": ("--stem", "transformer", "--position", "sinusoidal"),
    "`transformer`, learned": ("--stem", "transformer", "--position", "learned"),
    "`transformer`, no positions": ("--stem", "transformer", "--position", "none"),
    "`conv`, shared readout": ("--stem", "conv", "--readout", "shared"),
    "`transformer`, shared readout": ("--stem", "transformer", "--readout", "shared"),
    "`pretrained`, frozen": PRETRAINED,
    "`pretrained`, trained too": (*PRETRAINED, "--config", "{folder}/trained-too.toml"),
}
ENCODER = """[model]
layers = 2
channels = 64
num_heads = 4
hidden_channels = 128
context = 442
[training]
steps = 1000
learning_rate = 2e-3
"""
HEADING = [
    "| stem | median r | AUROC | AUPRC | top bin holds the motif | epochs | CPU seconds per epoch |",
    "| --- | --- | --- | --- | --- | --- | --- |",
]


def train(folder: Path, name: str, *words: object) -> dict[str, Any]:
    """Train a model; returns its record."""
    run(f"train promoter {folder}/planted.dataset.h5 -o {folder}/{name} --threads 1 -q", *words, show=True)
    return read_training_record(folder / name)


def pretrain(folder: Path) -> None:
    """Train the encoder of `pretrained` on the training promoters, once."""
    if (folder / "encoder").exists():
        return
    data = read_dataset(folder / "planted.dataset.h5")
    sides = zip(data.gene_ids, data.gene_split, strict=True)
    rows = [f"{gene}\t{('train', 'validation', 'test')[side]}\n" for gene, side in sides]
    (folder / "split.tsv").write_text("gene\tsplit\n" + "".join(rows))
    (folder / "encoder.toml").write_text(ENCODER)
    (folder / "trained-too.toml").write_text("[model]\ntrain_encoder = true\n")
    dataset, split = folder / "language.dataset.h5", folder / "split.tsv"
    run(f"prepare language {folder}/promoters.fa --split-table {split} -o {dataset} -q", show=True)
    run(f"train language {dataset} -o {folder}/encoder -c {folder}/encoder.toml --threads 1 -q", show=True)


def measure(folder: Path, promoters: Path, name: str, *words: object) -> str:
    """Train one model and score its maps: a row of the table."""
    attention = folder / f"{name}.h5"
    began = time.process_time()
    record = train(folder, name, *words, "--no-baselines")
    epochs = len((folder / name / HISTORY).read_text().splitlines()) - 1
    seconds = (time.process_time() - began) / epochs
    (r,) = [row["pearson"] for row in record["evaluation"]["rows"] if row["cells"] == "test genes"]
    run(f"export attention {folder}/{name} {promoters} -o {attention} --sites promoter.cross.* -q")
    scores = score(folder, attention)[0].positives.loc[ALL]
    figures = [r, scores["auroc"], scores["auprc"], scores["top_bin"]]
    return " | ".join([*(f"{float(figure):.3f}" for figure in figures), str(epochs), f"{seconds:.1f}"])


def main() -> None:
    """Train and score every model, print the table."""
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--genes", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--only", type=int, nargs="*", help="rows of the table, from 0 [default: all]")
    given = parser.parse_args()
    lines = list(HEADING)
    with tempfile.TemporaryDirectory(prefix="stems-") as temporary:
        folder = Path(temporary)
        prepare(folder, "standard", given.seed, given.genes)
        promoters = write_test_promoters(folder)
        best = train(folder, "simple", "--epochs", 1, "--seed", given.seed)[COMPARISON]
        lines.append(f"| {best['simple_model']} | {best['simple_model_figure']:.3f} | – | – | – | – | – |")
        print("\n".join(lines), flush=True)
        for number, (label, words) in enumerate(MODELS.items()):
            if given.only is None or number in given.only:
                if "pretrained" in words:
                    pretrain(folder)
                filled = [word.format(folder=folder) for word in words]
                more = ("--seed", given.seed, "--epochs", given.epochs)
                lines.append(f"| {label} | {measure(folder, promoters, f'model{number}', *filled, *more)} |")
                print(lines[-1], flush=True)
                if given.output is not None:  # after every model: a run of an hour may be cut short
                    given.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
