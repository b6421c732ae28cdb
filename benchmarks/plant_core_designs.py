"""Plant core promoters designed for one expression system, beside the designs of the paper (Jores et al. 2021).

    python benchmarks/plant_core_designs.py WORK --settings data/settings/diffusion-core.toml

The oracle is a ridge on the 5-mers of each third and the 4-mers of each half, fitted to the validation and test
promoters of the shared split, of which the diffusion model sees none of the latter and only chooses a round by the
former. Scores are in standard deviations of those of the training promoters, which the oracle has not seen, from
their mean. 6-mers: distance from the training promoters, and from those in the upper quarter for the system, over
that of equally many test promoters of the upper quarter. Published designs are those of the last round; their
ancestors may stand on any side.
"""

import argparse
import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from plant_core import DATA, prepare

from bioattn.formats.nucleotides import encode
from bioattn.inference.runner import DesignRunner, with_ability
from bioattn.interpret.designs.oracle import kmer_counts, kmer_distance, nearest
from bioattn.models.family import load_runner
from bioattn.promoters.dataset import TEST, TRAIN, VALIDATION, read_dataset
from bioattn.simulate.motifs import MarkovBackground

SYSTEMS = {"leaf": "tobacco_leaf", "proto": "maize_protoplast"}
PENALTIES = 10.0 ** np.arange(0, 5)


def features(codes: np.ndarray) -> np.ndarray:
    """Counts of 5-mers in thirds and of 4-mers in halves."""
    thirds, halves = (np.array_split(np.arange(codes.shape[1]), parts) for parts in (3, 2))
    counts = [kmer_counts(codes[:, part], 5) for part in thirds]
    return np.hstack(counts + [kmer_counts(codes[:, part], 4) for part in halves])


class Oracle:
    """A ridge for each system, its penalty by leave-one-out."""

    def __init__(self, codes: np.ndarray, targets: np.ndarray) -> None:
        self.weights = []
        for values in targets.T:
            known = np.isfinite(values)
            x = features(codes[known])
            x, y = x - x.mean(0), values[known] - values[known].mean()
            spread, vectors = np.linalg.eigh(x @ x.T)
            turned, found = vectors.T @ y, []
            for penalty in PENALTIES:
                shrunk = 1 / (np.maximum(spread, 0) + penalty)
                left = vectors @ (turned * shrunk)
                found.append((np.mean((left / (vectors**2 @ shrunk)) ** 2), left))
            self.weights.append(x.T @ min(found, key=lambda each: each[0])[1])

    def scores(self, codes: np.ndarray) -> np.ndarray:
        """(sequences, systems), up to a constant."""
        return features(codes) @ np.stack(self.weights, 1)


def trained(dataset: Path, model: Path, settings: Path, seed: int) -> DesignRunner:
    """The diffusion model, trained where it is not there."""
    if not model.exists():
        words = (
            "train",
            "diffusion",
            dataset,
            "-o",
            model,
            "-c",
            settings,
            "--seed",
            seed,
            "-t",
            1,
            "--resume",
        )
        subprocess.run([sys.executable, "-m", "bioattn_cli", *map(str, words)], check=True)
    return with_ability(load_runner(model, torch.device("cpu")), DesignRunner, "write designs")


def options(description: str | None, *, classifier: bool = False) -> argparse.Namespace:
    """Command line of a benchmark of designs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--settings", type=Path, required=True, help="TOML of `train diffusion`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", "--number", type=int, default=200)
    parser.add_argument("--guidance", type=float, nargs="*", default=[1.0, 3.0])
    parser.add_argument("--steps", type=int, default=64)
    if classifier:
        parser.add_argument("--classifier-guidance", type=float, nargs="*", default=[])
    return parser.parse_args()


def measure(work: Path, settings: Path, seed: int, number: int, guidances: list[float], steps: int) -> None:
    """Train where there is no model, write designs, print a table."""
    work.mkdir(parents=True, exist_ok=True)
    _, path = prepare(work)
    data = read_dataset(path)
    runner = trained(path, work / f"{settings.stem}.{seed}.model", settings, seed)
    train, held = data.genes_in(TRAIN), np.concatenate([data.genes_in(VALIDATION), data.genes_in(TEST)])
    order = [data.treatments.names.index(name) for name in SYSTEMS.values()]
    oracle = Oracle(data.codes[held], data.targets[held][:, order].astype(float))
    known = oracle.scores(data.codes[train])
    for place, name in enumerate(SYSTEMS):
        there = np.isfinite(data.targets[train, order[place]])
        r = np.corrcoef(known[there, place], data.targets[train[there], order[place]])[0, 1]
        print(f"oracle of {name}: r {r:.3f} on {there.sum():,} training promoters")
    rng = np.random.default_rng(seed)
    real = data.codes[rng.permutation(data.genes_in(TEST))[:number]]
    on = {
        name: data.targets[:, column] > np.nanquantile(data.targets[train, column], 0.75)
        for name, column in zip(SYSTEMS, order, strict=True)
    }
    alike = {name: data.codes[train[on[name][train]]] for name in SYSTEMS}
    limit = np.quantile(nearest(data.codes[data.genes_in(TEST)], data.codes[train]), 0.99)
    print(
        "| designs | for | leaf | protoplast | asked less other | 6-mers, all | 6-mers, upper quarter | near |"
    )

    def show(name: str, asked: str, codes: np.ndarray) -> None:
        scores = (oracle.scores(codes) - known.mean(0)) / known.std(0)
        other = scores[:, 0] - scores[:, 1] if asked == "leaf" else scores[:, 1] - scores[:, 0]
        error = 1.96 * other.std() / len(other) ** 0.5
        quarter = data.genes_in(TEST)[on[asked][data.genes_in(TEST)]][: len(codes)]
        distances = [
            kmer_distance(codes[: len(quarter)], others, 6) / kmer_distance(data.codes[quarter], others, 6)
            for others in (data.codes[train], alike[asked])
        ]
        near = (nearest(codes, data.codes[train]) > limit).mean()
        print(
            f"| {name} | {asked} | {scores[:, 0].mean():.2f} | {scores[:, 1].mean():.2f} | {other.mean():.2f} "
            f"± {error:.2f} | {distances[0]:.3f} | {distances[1]:.3f} | {near:.3f} |",
            flush=True,
        )

    published = pd.read_csv(DATA / "published_designs.tsv.gz", sep="\t")
    last = published[published["round"] == published["round"].max()]
    for asked, other in (("leaf", "proto"), ("proto", "leaf")):
        for guidance, off in itertools.product(guidances, ([], [SYSTEMS[other]])):
            codes = runner.designs([SYSTEMS[asked]], off, number, guidance=guidance, steps=steps, seed=seed)
            show(f"{settings.stem}, W = {guidance:g}{', the other off' if off else ''}", asked, codes)
        sequences = last[last["opt_for"] == asked]["sequence"]
        show("published", asked, np.stack([encode(sequence) for sequence in sequences]))
        show("held-out real promoters", asked, real)
        upper = data.genes_in(TEST)[on[asked][data.genes_in(TEST)]]
        show("the same, upper quarter for the system", asked, data.codes[upper[:number]])
        chain = MarkovBackground.fitted(data.codes[train], 3)
        show("Markov chain of order 3", asked, chain.sample(rng, number, real.shape[1]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = options(__doc__)
    measure(given.work, given.settings, given.seed, given.number, given.guidance, given.steps)
