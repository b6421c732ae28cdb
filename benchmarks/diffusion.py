"""Designs of diffusion models held against planted truth.

    BIOATTN_SHARED=../shared python benchmarks/diffusion.py WORK --settings data/settings/diffusion-planted.toml

Planted truth: yeast upstream windows of 200 bp; each of four treatments is on with probability 0.35, and then the
window holds its grammar: motif A, a gap of 4 to 12 bp, motif B, 10 bp each, 10 % of the bases substituted. A
design has the grammar of a treatment right when both motifs stand in it with at most 2 mismatches each, in order
and with such a gap. Chromosomes IV and XV are held out for tests, VII and X for validation. PLANTED_LENGTH and
PLANTED_TREATMENTS in the environment make a smaller trial.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import torch
from common import SHARED, options, run
from scipy import stats

from bioattn.choices import TEST, TRAIN
from bioattn.formats.fasta import FastaRecord, read_fasta, write_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.interpret.design_oracles import KmerOracle, baseline_designs, kmer_distance, nearest
from bioattn.models.family import load_runner
from bioattn.promoters.dataset import read_dataset
from bioattn.simulate.motifs import MarkovBackground, separated_consensuses

TREATMENTS = ("heat", "cold", "salt", "acid")[: int(os.environ.get("PLANTED_TREATMENTS", 4))]
LENGTH, WIDTH, GAPS = int(os.environ.get("PLANTED_LENGTH", 200)), 10, range(4, 13)
ON, SUBSTITUTED, MISMATCHES = 0.35, 0.1, 2


def grammar_motifs(seed: int) -> np.ndarray:
    """Motifs A and B of every treatment, codes (4, 2, 10)."""
    consensuses, _ = separated_consensuses(np.random.default_rng([seed, 1]), [WIDTH] * 2 * len(TREATMENTS))
    return np.stack(consensuses).reshape(len(TREATMENTS), 2, WIDTH)


def plant(rng: np.random.Generator, codes: np.ndarray, motifs: np.ndarray, on: np.ndarray) -> list[tuple]:
    """Write the grammar of every treatment that is on into one window, without overlap; (treatment, start of A,
    start of B) of each."""
    chosen = rng.permutation(np.flatnonzero(on))
    gaps = rng.choice(GAPS, len(chosen))
    free = LENGTH - int((2 * WIDTH + gaps).sum())
    starts = np.sort(rng.integers(free + 1, size=len(chosen)))
    placed, shift = [], 0
    for treatment, gap, start in zip(chosen, gaps, starts, strict=True):
        first = int(start) + shift
        second = first + WIDTH + int(gap)
        for place, motif in zip((first, second), motifs[treatment], strict=True):
            other = (motif + rng.integers(1, 4, WIDTH)) % 4
            codes[place : place + WIDTH] = np.where(rng.random(WIDTH) < SUBSTITUTED, other, motif)
        shift += 2 * WIDTH + int(gap)
        placed.append((TREATMENTS[treatment], first, second))
    return placed


def matches(codes: np.ndarray, motif: np.ndarray) -> np.ndarray:
    """Where a motif stands with at most `MISMATCHES`, bool (sequences, places)."""
    windows = np.lib.stride_tricks.sliding_window_view(codes, WIDTH, axis=1)
    return (windows != motif).sum(-1) <= MISMATCHES


def has_grammar(codes: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Whether each sequence has A, a gap of 4 to 12, and B."""
    first, second = (matches(codes, motif) for motif in pair)
    return np.any([(first[:, : -WIDTH - gap] & second[:, WIDTH + gap :]).any(1) for gap in GAPS], axis=0)


def has_motif(codes: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """How many of the two motifs of a treatment a sequence has, whatever their order, as a share."""
    return np.mean([matches(codes, motif).any(1) for motif in pair], axis=0)


def prepare_planted(folder: Path, seed: int) -> Path:
    """The dataset, with promoters.fa and truth.tsv beside it, made where it is not there."""
    dataset = folder / "planted.dataset.h5"
    if dataset.exists():
        return dataset
    folder.mkdir(parents=True, exist_ok=True)
    genome, genes = SHARED / "data/yeast/R64_genbank.genome.fa.gz", SHARED / "data/yeast/R64_genbank.gff3.gz"
    window = ("--anchor", "cds", "--upstream", LENGTH, "--downstream", 0, "--biotype", "protein_coding")
    run("prepare", "promoters", genome, genes, "-o", folder / "yeast.fa", *window, "-q")
    rng, motifs = np.random.default_rng(seed), grammar_motifs(seed)
    records, rows, truth = [], [], []
    for record in read_fasta(folder / "yeast.fa"):
        codes = encode(record.sequence)
        on = rng.random(len(TREATMENTS)) < ON
        truth += [(record.name, *each) for each in plant(rng, codes, motifs, on)]
        records.append(FastaRecord(record.name, record.description, decode(codes)))
        rows.append((record.name, *on.astype(int)))
    write_fasta(folder / "promoters.fa", records)
    table = pd.DataFrame(rows, columns=["gene", *TREATMENTS])
    table.to_csv(folder / "responses.tsv", sep="\t", index=False)
    columns = ["gene", "treatment", "first", "second"]
    pd.DataFrame(truth, columns=columns).to_csv(folder / "truth.tsv", sep="\t", index=False)
    sides = (
        *("--holdout", "test=BK006938.2,BK006948.2"),  # IV and XV
        *("--holdout", "validation=BK006941.2,BK006943.2"),  # VII and X
    )
    task = ("--task", "binary", "--threshold", 0.5, "--direction", "up")
    files = (folder / "promoters.fa", folder / "responses.tsv")
    run("prepare", "dataset", *files, "-o", dataset, *task, *sides, "-q")
    return dataset


def requests(targets: np.ndarray) -> dict[tuple[bool, ...], int]:
    """How many promoters there are of every combination of treatments."""
    kinds, counts = np.unique(targets > 0.5, axis=0, return_counts=True)
    return {tuple(kind.tolist()): int(count) for kind, count in zip(kinds, counts, strict=True)}


def by_request(
    wanted: dict[tuple[bool, ...], int], write: Callable[[list[str], list[str], int], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Designs of every combination, and what was asked for, (designs, 4)."""
    codes, on = [], []
    for kind, number in wanted.items():
        named = [
            [name for name, is_on in zip(TREATMENTS, kind, strict=True) if is_on == side]
            for side in (True, False)
        ]
        codes.append(write(*named, number))
        on.append(np.tile(kind, (number, 1)))
    return np.concatenate(codes), np.concatenate(on)


def grammar_figures(codes: np.ndarray, on: np.ndarray, motifs: np.ndarray) -> tuple[float, float]:
    """Share of the asked treatments whose grammar is right, and of motifs of the others that are there."""
    right = np.stack([has_grammar(codes, pair) for pair in motifs], 1)
    there = np.stack([has_motif(codes, pair) for pair in motifs], 1)
    return float(right[on].mean()), float(there[~on].mean())


def pasted_truth(
    rng: np.random.Generator, train: np.ndarray, on: np.ndarray, motifs: np.ndarray
) -> np.ndarray:
    """A Markov chain with the true grammars written in."""
    codes = MarkovBackground.fitted(train, 3).sample(rng, len(on), LENGTH)
    for row, kind in zip(codes, on, strict=True):
        plant(rng, row, motifs, kind)
    return codes


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
    """Chance that a positive is above a negative, ties half."""
    ranks = stats.rankdata(np.concatenate([positive, negative]))[: len(positive)]
    return float((ranks.sum() / len(positive) - (len(positive) + 1) / 2) / len(negative))


def map_figures(folder: Path, model: Path, test: list[str], number: int) -> dict[str, float]:
    """AUROC per base of the effect map and of each site's weights: own motif against bases of no motif, and
    against motifs of other treatments; promoters of the test chromosomes."""
    chosen = set(test[:number])
    records = [each for each in read_fasta(folder / "promoters.fa") if each.name in chosen]
    write_fasta(folder / "shown.fa", records)
    run("export", "attention", model, folder / "shown.fa", "-o", folder / "maps.h5", "-q", "-t", 1)
    truth = pd.read_csv(folder / "truth.tsv", sep="\t")
    rows = {each.name: number for number, each in enumerate(records)}
    held = np.zeros((len(records), len(TREATMENTS), LENGTH), bool)
    for gene, treatment, *places in truth[truth["gene"].isin(rows)].itertuples(index=False):
        for place in places:
            held[rows[gene], TREATMENTS.index(treatment), place : place + WIDTH] = True
    none = ~held.any(1)
    with h5py.File(folder / "maps.h5") as file:
        maps = {"effect map": file["effect/values"][:, :, :3].mean(2)}
        for name, site in file["sites"].items():
            weights = site["weights"][:, :3].mean((1, 2))[..., :-1].transpose(0, 2, 1)
            width = -(-LENGTH // weights.shape[2])
            maps[name] = weights.repeat(width, 2)[:, :, :LENGTH]
    figures = {}
    for name, values in maps.items():
        own, other, away = [], [], []
        for number in range(len(TREATMENTS)):
            others = np.delete(held, number, 1).any(1) & ~held[:, number]
            with_it = held[:, number].any(1)[:, None]
            own.append(values[:, number][held[:, number]])
            other.append(values[:, number][others & with_it])
            away.append(values[:, number][none & with_it])
        own_all = np.concatenate(own)
        figures[f"{name}, own motif"] = auroc(own_all, np.concatenate(away))
        figures[f"{name}, against others"] = auroc(own_all, np.concatenate(other))
    return figures


def measure_planted(
    folder: Path, seed: int, settings: Path, number: int, guidances: list[float], steps: int
) -> None:
    dataset = prepare_planted(folder, seed)
    data, motifs = read_dataset(dataset), grammar_motifs(seed)
    model = folder / f"{settings.stem}.model"
    began = time.process_time()
    if not model.exists():
        run("train", "diffusion", dataset, "-o", model, "-c", settings, "--seed", seed, "-t", 1, "--resume")
        print(f"training: {time.process_time() - began:.0f} CPU s", flush=True)
    runner = load_runner(model, torch.device("cpu"))
    rng = np.random.default_rng(seed)
    test = rng.permutation(data.genes_in(TEST))
    chosen, train = test[:number], data.genes_in(TRAIN)
    on_real = data.targets[test] > 0.5
    real = grammar_figures(data.codes[test], on_real, motifs)
    print(f"real test promoters: right {real[0]:.3f}, off {real[1]:.3f}")
    floor = kmer_distance(data.codes[chosen], data.codes[train], 6)
    limit = np.quantile(nearest(data.codes[test], data.codes[train]), 0.99)
    half = min(len(train), len(test))
    guide = KmerOracle(data.codes[train[:half]], data.targets[train[:half]].astype(float))
    judge = KmerOracle(data.codes[test[:half]], data.targets[test[:half]].astype(float))

    def show(name: str, codes: np.ndarray, on: np.ndarray) -> None:
        right, off = grammar_figures(codes, on, motifs)
        gains = []
        for oracle, unseen in ((guide, test), (judge, train)):
            scores = oracle.scores(data.codes[unseen])
            gains.append(((oracle.scores(codes) - scores.mean(0)) / scores.std(0) * (2 * on - 1)).mean())
        near = (nearest(codes, data.codes[train]) > limit).mean()
        distance = kmer_distance(codes, data.codes[train], 6) / floor
        print(
            f"| {name} | {right / real[0]:.3f} | {off / real[1]:.3f} | {distance:.3f} | "
            f"{gains[0] / gains[1]:.3f} | {near:.3f} | {right:.3f} | {off:.3f} |",
            flush=True,
        )

    print("| designs | grammar over real | off over real | 6-mers | guide/judge | near | right | off |")
    wanted = requests(data.targets[chosen])
    for guidance in guidances:
        began_sampling = time.process_time()
        codes, on = by_request(
            wanted,
            lambda yes, no, count, w=guidance: runner.designs(
                yes, no, count, guidance=w, steps=steps, seed=seed
            ),
        )
        speed = len(codes) / (time.process_time() - began_sampling)
        show(f"{settings.stem}, W = {guidance:g}, {steps} steps ({speed:.2f} a core-second)", codes, on)
    on = data.targets[chosen] > 0.5
    chain = MarkovBackground.fitted(data.codes[train], 3)
    show("Markov chain of order 3", chain.sample(rng, number, LENGTH), on)
    show("the same, true grammars pasted", pasted_truth(rng, data.codes[train], on, motifs), on)
    show("held-out real promoters", data.codes[chosen], on)
    kind = np.arange(len(TREATMENTS)) == 0
    climbed = baseline_designs(data.codes[train], 64, guide, 2.0 * kind - 1, seed)
    for name in ("hill-climbing", "genetic algorithm"):
        show(name, climbed[name], np.tile(kind, (64, 1)))
    names = [data.gene_ids[row] for row in test]
    for name, value in map_figures(folder, model, names, 96).items():
        print(f"{name}: AUROC {value:.3f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = options(__doc__, output=False)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--settings", type=Path, required=True, help="TOML of `train diffusion`")
    parser.add_argument("-n", "--number", type=int, default=200)
    parser.add_argument("--guidance", type=float, nargs="+", default=[0.0, 2.0])
    parser.add_argument("--steps", type=int, default=64)
    given = parser.parse_args()
    measure_planted(given.work, given.seed, given.settings, given.number, given.guidance, given.steps)
