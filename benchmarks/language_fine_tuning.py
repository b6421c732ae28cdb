"""Fine-tuned language models on the shared splits, beside linear models and the same network from random weights.

    BIOATTN_SHARED=../shared python benchmarks/language_fine_tuning.py yeast --folder runs --seeds 0 1 2

Rows: `yeast` (200 bp upstream against downstream of genes; pretrained on the chromosomes of its training
side), `donor` and `acceptor` (splice sites of Arabidopsis; pretrained on slices of Chr1 to Chr3), `gb1-two`,
`gb1-three` and `gb1-low` (fitness of GB1 at four sites; pretrained on proteins of yeast and E. coli and on the
rows of 38 alignments, gaps left out). Splits, and figures of other simple models, are in
../shared/data/splits/README.md. Prints a line for each model and seed: its figures, those of the linear model that
is best on the validation side, and the 95 % interval of the difference of the first ones; and for each seed what
the pretrained model gains over that from random weights, with the interval of 2,000 resamples of test sequences.
"""

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from common import SHARED, bootstrap, options, run

from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.fasta import read_fasta
from bioattn.promoters.response_metrics import average_precision, spearman

DATA = SHARED / "data"
PROTEINS = ("yeast/R64_genbank.protein.fa.gz", "ecoli/K12_MG1655.protein.fa.gz")
YEAST = "yeast/R64_genbank.genome.fa.gz"
PLANT = "arabidopsis/A.thaliana.1pct.fa.gz"
FLANK = 4
"""Residues of GB1 on either side of the outermost of the four sites; all others are the same in all variants."""


class Benchmark(NamedTuple):
    """Where a row's sequences are, and what its models are."""

    table: str
    alphabet: str
    pretrained_on: str
    holdout: tuple[str, ...]
    context: int
    model: str
    """Further lines of [model]."""


LETTERS = 'shape = "decoder"\nngram = 6\n'
PLACED_LETTERS = 'shape = "decoder"\npositions = "learned"\n'
PLACES = 'shape = "encoder"\npositions = "learned"\n'
ROWS = {
    "yeast": Benchmark(
        "splits/yeast_upstream_downstream.tsv.gz",
        "dna",
        YEAST,
        ("test=BK006938.2,BK006948.2", "validation=BK006941.2,BK006943.2"),
        202,
        LETTERS,
    ),
    "donor": Benchmark(
        "splits/splice_donor.tsv.gz", "dna", PLANT, ("test=Chr4,Chr5",), 58, PLACED_LETTERS + "ngram = 3\n"
    ),
    "acceptor": Benchmark(
        "splits/splice_acceptor.tsv.gz", "dna", PLANT, ("test=Chr4,Chr5",), 58, PLACED_LETTERS + "ngram = 5\n"
    ),
    **{
        f"gb1-{name}": Benchmark("variants/flip_gb1.tsv.gz", "protein", "proteins", (), 34, PLACES)
        for name in ("two", "three", "low")
    },
}
SPLIT_OF_GB1 = {"gb1-two": "two_vs_rest", "gb1-three": "three_vs_rest", "gb1-low": "low_vs_high"}


def examples(name: str) -> Iterator[tuple[str, str, str]]:
    """Sequence, side and target of each row."""
    lines = gzip.decompress((DATA / ROWS[name].table).read_bytes()).decode().splitlines()
    header, *rows = (line.split("\t") for line in lines)
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    if name in SPLIT_OF_GB1:
        varied = [
            place
            for place, letters in enumerate(zip(*(row["sequence"] for row in cells), strict=True))
            if len(set(letters)) > 1
        ]
        first, last = varied[0] - FLANK, varied[-1] + FLANK + 1
        for row in cells:
            if side := row[SPLIT_OF_GB1[name]]:
                yield row["sequence"][first:last], side, row["target"]
        return
    for row in cells:
        held_out = name != "yeast" and row["chrom"] == "Chr2" and row["split"] == "train"
        yield row["sequence"], "valid" if held_out else row["split"], row["label"]


def write_proteins(path: Path) -> None:
    """Proteins of two genomes, and the rows of all alignments without their gaps."""
    with path.open("w") as file:
        for name in PROTEINS:
            file.writelines(f">{each.name}\n{each.sequence}\n" for each in read_fasta(DATA / name))
        for source in sorted((DATA / "msa_structure/msa").iterdir()):
            alignment = read_alignment(source)
            rows = map(alignment.sequence, range(len(alignment.names)))
            file.writelines(f">{source.name}.{place}\n{row}\n" for place, row in enumerate(rows) if row)


def gain(folder: Path, fasta: Path, table: Path, pool: str, seed: int) -> str:
    """Figure of the pretrained model less that of the other on test sequences, and its 95 % interval."""
    test = pd.read_csv(table, sep="\t", index_col="id").query("split == 'test'")
    values, given = test["value"].to_numpy(float), []
    for start in ("pretrained", "random"):
        output = folder / f"{start}-{pool}-{seed}.tsv"
        run(f"run language {output.with_suffix('')} {fasta} -o {output} -q")
        column = pd.read_csv(output, sep="\t", index_col="id").iloc[:, -1]
        given.append(column[test.index].to_numpy(float))
    figure = average_precision if set(values) == {0.0, 1.0} else spearman

    def difference(rows: np.ndarray) -> float:
        ours, theirs = (np.ravel(figure(values[rows, None], each[rows, None]))[0] for each in given)
        return float(ours - theirs)

    low, high = bootstrap(difference, len(values))
    return f"{figure.__name__}: {difference(np.arange(len(values))):+.3f} [{low:+.3f}, {high:+.3f}]"


def settings(path: Path, model: str, training: str) -> Path:
    path.write_text(f"[model]\n{model}[training]\n{training}")
    return path


def prepare(name: str, folder: Path) -> tuple[Path, Path, Path]:
    """Sequences, targets and dataset of a row, made where they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    fasta, table, dataset = folder / "x.fa", folder / "x.tsv", folder / "x.dataset.h5"
    if not dataset.exists():
        rows = list(examples(name))
        fasta.write_text("".join(f">s{number}\n{each[0]}\n" for number, each in enumerate(rows)))
        cells = (f"s{number}\t{side}\t{target}\n" for number, (_, side, target) in enumerate(rows))
        table.write_text("id\tsplit\tvalue\n" + "".join(cells))
        words = f"--split-table {table} --alphabet {ROWS[name].alphabet} -q"
        run(f"prepare language {fasta} -o {dataset} {words}")
    return fasta, table, dataset


def pretrain(row: Benchmark, folder: Path, shape: str, seed: int, given: argparse.Namespace) -> Path:
    """A model of the sequences that the row does not hold out, trained where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    base, dataset = folder / f"base{seed}", folder / "genome.dataset.h5"
    if base.exists() or not given.pretraining_steps:
        return base
    if not dataset.exists():
        source = DATA / row.pretrained_on
        if row.alphabet == "protein":
            source = folder / "proteins.fa"
            write_proteins(source)
        holdouts = [word for each in row.holdout for word in ("--holdout", each)]
        run(f"prepare language {source} -o {dataset} --alphabet {row.alphabet} --split record -q", *holdouts)
    steps = f"steps = {given.pretraining_steps}\nsteps_per_round = 100\nvalidation_windows = 32\n"
    steps += f"batch_size = {given.pretraining_batch}\nlearning_rate = 2e-3\n"
    config = settings(folder / "base.toml", shape, steps)
    run(f"train language {dataset} -o {base} --config {config} --seed {seed} --no-baselines -q")
    return base


def main() -> None:
    parser = options(__doc__, seeds=(0,), output=False)
    parser.add_argument("row", choices=ROWS)
    parser.add_argument("--folder", type=Path, required=True, help="where models are kept")
    parser.add_argument("--pools", nargs="+", default=["mean"], help="mean, cls, varying")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--pretraining-steps", type=int, default=300)
    parser.add_argument("--pretraining-batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=6, help="validations; 1: the last weights are kept")
    parser.add_argument("--training", default="", help="further lines of [training], separated by ;")
    parser.add_argument("--no-baselines", action="store_true")
    given = parser.parse_args()
    row, folder = ROWS[given.row], given.folder / given.row
    fasta, table, dataset = prepare(given.row, folder)
    shape = f"layers = {given.layers}\nchannels = {given.channels}\nnum_heads = 4\n"
    shape += f"hidden_channels = {2 * given.channels}\ncontext = {row.context}\n{row.model}"
    training = f"steps = {given.steps}\nsteps_per_round = {max(1, given.steps // given.rounds)}\n"
    training += given.training.replace(";", "\n") + "\n"
    simple = ["--no-baselines"] if given.no_baselines else []
    for seed in given.seeds:
        base = pretrain(row, given.folder / given.row.split("-")[0], shape, seed, given)
        for pool in given.pools:
            for start in ("random", "pretrained") if base.exists() else ("random",):
                output, begin = (
                    folder / f"{start}-{pool}-{seed}",
                    [] if start == "random" else ["--from", base],
                )
                model = f"{'' if begin else shape}dropout = {given.dropout}\n"
                config = settings(folder / "tuned.toml", model, f'{training}pool = "{pool}"\n')
                words = f"--targets {table} --config {config} --seed {seed} -q"
                run(f"train language {dataset} -o {output} {words}", *begin, *simple)
                print(f"{given.row}\tseed {seed}\t{start}, {pool}\t{figures_of(output)}", flush=True)
            if base.exists():
                gained = gain(folder, fasta, table, pool, seed)
                print(f"{given.row}\tseed {seed}\tgain by pretraining, {gained}")


def figures_of(model: Path) -> str:
    """Test figures of a model, those of the best linear model, and the interval of the difference."""
    record = json.loads((model / "training.json").read_text())
    figures = {
        each["name"]: " ".join(f"{value:.3f}" for value in list(each.values())[3:])
        for each in record["evaluation"]
        if each["side"] == "test"
    }
    if record["comparison"] is None:
        return f"{figures['this model']}\t-"
    low, high = record["comparison"]["gain_interval"]
    best = record["comparison"]["simple_model"]
    return f"{figures['this model']}\t{best} {figures[best]}\t{low:+.3f} to {high:+.3f}"


if __name__ == "__main__":
    main()
