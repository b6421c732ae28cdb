"""Translation models: codons of a host from proteins, and copies far beyond the trained lengths.

    BIOATTN_SHARED=… python benchmarks/translation.py codons ecoli --seed 0 -o codons.md
    python benchmarks/translation.py lengths --seed 0 -o lengths.md

`codons`: perplexity and accuracy of every test codon but the first and those of M and W, given the true prefix,
with the probabilities of the codons of a residue scaled to a sum of 1. `lengths`: wrong bases of the likeliest
output.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from Bio.Data import CodonTable
from planted import step

from bioattn.models.translation.folder import load_translator
from bioattn.models.translation.inference.search import Search, log_probabilities, translate
from bioattn.models.translation.running import PairTask
from bioattn.models.translation.simulation import simulated_pair
from bioattn.promoters.dataset import TEST
from bioattn.sequences.pairs import open_pair_dataset

DATA = {"ecoli": ("ecoli/K12_MG1655", 11), "yeast": ("yeast/R64_genbank", 1)}
"""Files and genetic code."""
MODELS = {
    "`recurrent-attention`": ("--architecture", "recurrent-attention", "--score", "dot"),
    "`recurrent`, LSTM": ("--architecture", "recurrent", "--cell", "lstm"),
    "`transformer`": ("--architecture", "transformer"),
}
CPU = torch.device("cpu")


def codons(folder: Path, host: str, words: Sequence[str]) -> list[str]:
    """A row for each model."""
    files, code = DATA[host]
    shared = Path(os.environ["BIOATTN_SHARED"]) / "data"
    pairs = [str(shared / f"{files}.{kind}.fa.gz") for kind in ("protein", "cds")]
    table = ("--split-table", str(shared / "splits" / f"codons_{host}.tsv.gz"), "--genetic-code", str(code))
    dataset = folder / "x.dataset.h5"
    step(["prepare", "translation", *pairs, *table, "-o", str(dataset)], show=False)
    rows = ["| model | perplexity | accuracy | codons | CPU minutes |", "| --- | --- | --- | --- | --- |"]
    for name, model in list(MODELS.items())[:2]:
        began = time.process_time()
        output = folder / str(len(rows))
        step(["train", "translation", str(dataset), "-o", str(output), *model, *words], show=True)
        minutes = (time.process_time() - began) / 60
        nats, right, number = codon_figures(dataset, output, code)
        figures = f"{math.exp(nats / number):.3f} | {right / number:.4f} | {number:,} | {minutes:.1f}"
        rows.append(f"| {name} | {figures} |")
    return rows


def codon_figures(dataset_path: Path, model: Path, genetic_code: int) -> tuple[float, int, int]:
    """Summed surprise in nats, hits and number of the test codons that count."""
    dataset, loaded = open_pair_dataset(dataset_path), load_translator(model, CPU)
    forward = CodonTable.unambiguous_dna_by_id[genetic_code].forward_table
    residue_of = np.array([forward.get(token, "") for token in dataset.target.tokens])
    nats, right, number = 0.0, 0, 0
    for pair in dataset.side(TEST):
        (likely_TV,) = log_probabilities(loaded, [pair])
        for place, codon in enumerate(pair.target.tolist()):
            residue = residue_of[codon]
            if place and residue not in ("", "M", "W"):
                own_V = np.where(residue_of == residue, likely_TV[place].numpy(), -np.inf)
                nats += float(np.logaddexp.reduce(own_V) - own_V[codon])
                right += int(own_V.argmax() == codon)
                number += 1
    return nats, right, number


def lengths(folder: Path, seed: int, words: Sequence[str]) -> list[str]:
    """A row for each task and model."""
    tested = (20, 120, 1000)
    rows = [
        f"| task, model | {' | '.join(f'wrong at {n}' for n in tested)} | CPU minutes |",
        "| --- " * 5 + "|",
    ]
    for task in (PairTask.COPY, PairTask.REVERSE_COMPLEMENT):
        pairs, dataset = folder / task, folder / f"{task}.dataset.h5"
        made = ("--task", str(task), "--pairs", "5000", "--seed", str(seed), "-o", str(pairs))
        step(["simulate", "translation", *made], show=False)
        dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
        step(["prepare", "translation", str(pairs), *dna, "-o", str(dataset)], show=False)
        for name, model in list(MODELS.items()):
            began = time.process_time()
            output = folder / f"{task}-{len(rows)}"
            step(["train", "translation", str(dataset), "-o", str(output), *model, *words], show=False)
            minutes = (time.process_time() - began) / 60
            shares = [f"{wrong_share(output, task, length, seed):.2%}" for length in tested]
            rows.append(f"| {task}, {name} | {' | '.join(shares)} | {minutes:.1f} |")
    return rows


def wrong_share(model: Path, task: PairTask, length: int, seed: int, number: int | None = None) -> float:
    """Share of the bases of targets that the likeliest outputs have not at their place."""
    loaded, generator = load_translator(model, CPU), np.random.default_rng([seed, length])
    number, wrong = number or max(4, 2400 // length), 0
    for _ in range(number):
        pair = simulated_pair(task, length, generator)
        source = loaded.model.source.tokenize(pair.source, "")
        found = translate(loaded, source, Search(longest=2 * length), "")[0]
        text = loaded.model.target.text(np.array(found.tokens, dtype=np.int64))
        right = sum(own == wanted for own, wanted in zip(text, pair.target, strict=False))
        wrong += max(len(text), length) - right
    return wrong / (number * length)


def main() -> None:
    """Measure, and write a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("codons", "lengths"))
    parser.add_argument("host", nargs="?", choices=list(DATA), default="ecoli")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--output", "-o", type=Path, required=True)
    arguments = parser.parse_args()
    words = ["--seed", str(arguments.seed), "--steps", str(arguments.steps)]
    words += ["--config", str(arguments.config)] if arguments.config else []
    with tempfile.TemporaryDirectory() as folder:
        if arguments.what == "codons":
            rows = codons(Path(folder), arguments.host, words)
        else:
            rows = lengths(Path(folder), arguments.seed, words)
    arguments.output.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
