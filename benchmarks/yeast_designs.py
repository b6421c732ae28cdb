"""Yeast promoters designed for heat shock: known motifs, a held-out oracle and 6-mers beside simple designs.

    BIOATTN_SHARED=../shared python benchmarks/yeast_designs.py WORK --settings data/settings/diffusion-yeast.toml

Group means of Gasch et al. 2000 (benchmarks/yeast_data.py), 256 bases upstream of start codons; the model knows
three of them: heat shock, amino acid starvation, galactose. Four levels of response, of which the highest is
asked for. The oracle is a ridge on 6-mers of validation and test promoters, of which the diffusion model sees none
of the latter and only chooses a round by the former; scores are in standard deviations of those of training
promoters, which the oracle has not seen, so that training responders stand for real ones there. Real responders:
test promoters of the upper quarter. Motifs stand in data/yeast/expected_motif_condition.tsv of the shared data;
sites of Hsf1's matrix (p <= 1e-4) are counted, too. Off-target: Gcn4, Yap1, Rpn4 and Gal4; heat shock shuts off
genes with PAC and RRPE. Shares have Wilson's intervals.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import SHARED, options, run
from scipy import stats
from yeast_data import build_dataset

from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.formats.fasta import read_fasta
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import encode
from bioattn.inference.runner import with_ability
from bioattn.interpret.design_oracles import KmerOracle, kmer_distance, nearest
from bioattn.interpret.motifs.expected_motifs import parse_consensus
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.models.family import load_runner
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.simulate.motifs import MarkovBackground

HEAT, *OTHERS = TREATMENTS = ("heat_shock_25_37", "aa_starvation", "carbon_galactose")
STRE, HSE = "AGGGG", "GAAnnTTCnnGAA|TTCnnGAAnnTTC"
OFF_TARGET = "TGACTC|TTACTAA|GGTGGCAAA|CGG(n11)CCG"
CLASSIFIER = Path(__file__).resolve().parent.parent / "data/settings/promoter-masked.toml"
SHUT_OFF = "GATGAG|TGAAAAATTT"


def prepare(work: Path) -> Path:
    """The dataset in which only `TREATMENTS` are for training."""
    path = work / "yeast.dataset.h5"
    if not path.exists():
        groups = read_dataset(build_dataset(SHARED, work, "near", "groups"))
        split = np.where(np.isin(groups.treatments.names, TREATMENTS), TRAIN, TEST).astype(np.uint8)
        # Without flanks: windows that are moved in training would hold the start of the gene.
        inner = np.ascontiguousarray(groups.codes[:, groups.flank : groups.flank + groups.length])
        write_dataset(path, dataclasses.replace(groups, treatment_split=split, codes=inner, flank=0))
    return path


def sites(codes: np.ndarray, consensus: str) -> np.ndarray:
    """How many sites each sequence has, on both strands."""
    found = np.zeros(len(codes), int)
    for pattern in parse_consensus(consensus):
        windows = np.lib.stride_tricks.sliding_window_view(codes, len(pattern), axis=1)
        strands = {each.tobytes(): each for each in (pattern, pattern[::-1, ::-1])}
        for allowed in strands.values():
            or_unknown = np.pad(allowed, ((0, 0), (0, 1)))
            found += or_unknown[np.arange(len(pattern)), windows].all(-1).sum(1)
    return found


def pasted(rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    """Two STREs and an HSE written in, on a random strand each, without overlap."""
    codes = codes.copy()
    for row in codes:
        words = [parse_consensus(text)[0] for text in (STRE, STRE, HSE)]
        free = row.size - sum(map(len, words))
        shift = 0
        for start, number in zip(np.sort(rng.integers(free + 1, size=3)), rng.permutation(3), strict=True):
            word = words[number] if rng.random() < 0.5 else words[number][::-1, ::-1]
            place = row[start + shift : start + shift + len(word)]
            place[:] = np.where(word.all(1), place, word.argmax(1))
            shift += len(word)
    return codes


def trained(dataset: Path, model: Path, settings: Path, seed: int) -> Any:
    """The diffusion model, trained where it is not there."""
    if not model.exists():
        run(f"train diffusion {dataset} -o {model} -c {settings} --seed {seed} -t 1 --resume")
    return with_ability(load_runner(model, torch.device("cpu")), "designs", "write designs")


def share(holders: np.ndarray) -> str:
    """Percentage with Wilson's interval."""
    interval = stats.binomtest(int(holders.sum()), len(holders)).proportion_ci(method="wilson")
    return f"{holders.mean():.1%} [{interval.low:.1%}, {interval.high:.1%}]"


def by_classifier(
    dataset: Path, writer: Path, work: Path, seed: int, number: int, guidance: float, steps: int
) -> np.ndarray:
    """Designs that a promoter model of the same training promoters with masked bases guides."""
    model, designs = work / f"promoter-masked.{seed}.model", work / "guided.fa"
    if not model.exists():
        words = ("-c", CLASSIFIER, "--seed", seed, "-t", 1, "--no-baselines")
        run("train", "promoter", dataset, "-o", model, *words)
    words = ("--treatment", HEAT, "--classifier", model, "--guidance", guidance, "--force")
    run(
        "generate", "promoters", writer, *words, "-n", number, "--steps", steps, "--seed", seed, "-o", designs
    )
    return np.stack([encode(record.sequence) for record in read_fasta(designs)])


def measure(given: argparse.Namespace) -> None:
    """Train where there is no model, write designs, print a table."""
    work, settings, seed, steps = given.work, given.settings, given.seed, given.steps
    work.mkdir(parents=True, exist_ok=True)
    path = prepare(work)
    runner = trained(path, work / f"{settings.stem}.{seed}.model", settings, seed)
    data = read_dataset(path)
    column = data.treatments.names.index(HEAT)
    heat = data.targets[:, column].astype(float)
    train, test = data.genes_in(TRAIN), data.genes_in(TEST)
    held = np.concatenate([data.genes_in(VALIDATION), test])
    oracle = KmerOracle(data.codes[held], heat[held, None])
    known = oracle.scores(data.codes[train])[:, 0]
    there = np.isfinite(heat[train])
    r = np.corrcoef(known[there], heat[train][there])[0, 1]
    print(f"oracle of heat shock: r {r:.3f} on {there.sum():,} training promoters")
    above = heat > np.nanquantile(heat[train], 0.75)
    limit = np.quantile(nearest(data.codes[test], data.codes[train]), 0.99)
    rng = np.random.default_rng(seed)
    responders = rng.permutation(test[above[test]])
    number = min(given.number, len(responders))
    real, alike = data.codes[responders[:number]], data.codes[train[above[train]]]
    floor = kmer_distance(real, alike, 6)
    background = base_composition(data.codes[train])
    motifs = read_meme(SHARED / "data/motifs/JASPAR2024_CORE_fungi.meme").motifs
    hsf1 = [each for each in motifs if each.name == "MA0319.2"]
    header = ["designs", "n", "STRE", "two STREs", "HSE", "Hsf1's matrix", "off-target", "PAC or RRPE"]
    print("|", " | ".join([*header, "heat shock, sd", "6-mers", "near"]), "|")

    def show(name: str, codes: np.ndarray, unseen: np.ndarray | None = None) -> None:
        """unseen: training promoters for the oracle, which has seen `codes`."""
        judge = oracle.scores(codes if unseen is None else unseen)[:, 0]
        judge = (judge - known.mean()) / known.std()
        hits = find_motif_hits(codes, hsf1, background=background, p_value=1e-4)
        stre = sites(codes, STRE)
        cells = [
            *(share(each) for each in (stre > 0, stre > 1, sites(codes, HSE) > 0)),
            share(np.isin(np.arange(len(codes)), hits["row"])),
            *(share(sites(codes, text) > 0) for text in (OFF_TARGET, SHUT_OFF)),
            f"{judge.mean():.2f} ± {1.96 * judge.std() / len(judge) ** 0.5:.2f}",
            f"{kmer_distance(codes[:number], alike, 6) / floor:.3f}",
            f"{(nearest(codes, data.codes[train]) > limit).mean():.3f}",
        ]
        print("|", " | ".join([name, str(len(codes)), *cells]), "|", flush=True)

    show("real responders", real, alike)
    show("real test promoters", data.codes[rng.permutation(test)[:number]], data.codes[train])
    chain = MarkovBackground.fitted(data.codes[train], 3).sample(rng, number, data.length)
    show("Markov chain of order 3", chain)
    show("the same, two STREs and an HSE pasted", pasted(rng, chain))
    for guidance in given.guidance:
        for name, off in (("heat shock", []), ("heat shock, not the others", OTHERS)):
            codes = runner.designs([HEAT], off, number, guidance=guidance, steps=steps, seed=seed)
            show(f"{name}, W = {guidance:g}", codes)
    for guidance in given.classifier_guidance:
        codes = by_classifier(path, runner.path, work, seed, number, guidance, steps)
        show(f"heat shock by the promoter model, W = {guidance:g}", codes)
    show("no treatment", runner.designs([], [], number, guidance=0, steps=steps, seed=seed))


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = options(__doc__, output=False)
    parser.add_argument("work", type=Path)
    parser.add_argument("--settings", type=Path, required=True, help="TOML of `train diffusion`")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", "--number", type=int, default=200)
    parser.add_argument("--guidance", type=float, nargs="*", default=[1.0, 3.0])
    parser.add_argument("--classifier-guidance", type=float, nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=64)
    given = parser.parse_args()
    measure(given)
