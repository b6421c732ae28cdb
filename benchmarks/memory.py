"""Differentiable memories: a Turing machine on copies far beyond the trained lengths.

    python benchmarks/memory.py copies --seeds 0 1 2 3 4 -o copies.md

`copies`: wrong bases of the likeliest outputs, of a Turing machine and an LSTM of about as many weights, trained
on pairs of at most 20 bases.
"""

import argparse
import tempfile
import time
from pathlib import Path

from planted import step
from translation import CPU, wrong_share

from bioattn.models.translation.folder import load_translator

SETTINGS = Path(__file__).parents[1] / "data" / "settings"
MACHINES = {
    "Turing machine": (
        "--architecture",
        "turing-machine",
        "--config",
        str(SETTINGS / "translation-turing.toml"),
    ),
    "LSTM": (
        "--architecture",
        "recurrent",
        "--cell",
        "lstm",
        "--channels",
        "72",
        "--layers",
        "1",
        "--steps",
        "1600",
    ),
}
LENGTHS = (20, 120, 1000)


def copies(folder: Path, seed: int) -> list[str]:
    """A row for each task and model."""
    rows = []
    for task in ("copy", "reverse-complement"):
        pairs, dataset = folder / task, folder / f"{task}.dataset.h5"
        made = ("--task", task, "--pairs", "5000", "--seed", str(seed), "-o", str(pairs))
        step(["simulate", "translation", *made], show=False)
        dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
        step(["prepare", "translation", str(pairs), *dna, "-o", str(dataset)], show=False)
        for name, words in MACHINES.items():
            began, model = time.process_time(), folder / f"{task}-{name}"
            train = ("train", "translation", str(dataset), *words, "--seed", str(seed), "-o", str(model))
            step([*train], show=False)
            minutes = (time.process_time() - began) / 60
            weights = sum(each.numel() for each in load_translator(model, CPU).model.parameters())
            shares = [f"{wrong_share(model, task, length, seed):.2%}" for length in LENGTHS]
            rows.append(f"| {task} | {name} ({weights:,}) | {seed} | {' | '.join(shares)} | {minutes:.2f} |")
    return rows


def main() -> None:
    """Measure, and write a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("copies",))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", "-o", type=Path, required=True)
    arguments = parser.parse_args()
    wrong = " | ".join(f"wrong at {length}" for length in LENGTHS)
    rows = [f"| task | model (weights) | seed | {wrong} | CPU minutes |", "| --- " * 7 + "|"]
    for seed in arguments.seeds:
        with tempfile.TemporaryDirectory() as folder:
            rows += copies(Path(folder), seed)
        arguments.output.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
