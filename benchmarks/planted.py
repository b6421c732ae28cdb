"""Planted truth: does the attention of `cross` lie on the motifs that were planted?

    python benchmarks/planted.py --seeds 0 1 2 3 4 -o planted.md

For every set and seed it runs the commands a user would (they are printed), in one process: simulate → prepare →
train → export → score, and scores the promoters of the test chromosome. Beside it stands a scanner that is told
the motifs (`motif_scanner.py`): what could be known. Controls, scored alike: the same model
with random weights; a model trained on responses shuffled between promoters; the maps of other treatments. The
scores are defined in `bioattn.interpret.localisation`.
"""

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import options as command_line
from common import run, table
from motif_scanner import scanner_attention

from bioattn.choices import TEST
from bioattn.interpret.choices import ScoreAttention, Upsampling
from bioattn.interpret.localisation import (
    ALL,
    LocalisationReport,
    score_attention_and_predictions,
    score_maps,
)
from bioattn.interpret.promoter_maps import maps_in_memory
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.running import run_promoters
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.simulate.promoters import SimulatedPromoters, simulate_promoters, simulation_settings

LENGTHS = {"standard": 400, "hard": 1000}
CEILING_WIDTHS = (8, 16)
"""Bases of a bin; the first is that of the model, unless --config says otherwise."""
SIMPLE_UPSAMPLING = (Upsampling.NEAREST, Upsampling.GAUSSIAN)
"""The ways to bases that need no model: bins drawn here have no receptive field."""

ROWS = (
    ("auroc", "AUROC per position", "must ≥ 0.95, stretch 0.99 (hard: 0.90)"),
    ("auprc", "AUPRC per position", "must ≥ 0.70, stretch 0.90 (hard: 0.45)"),
    ("auroc_nearest", "AUROC, nearest upsampling", ""),
    ("auprc_nearest", "AUPRC, nearest upsampling", ""),
    ("ceiling_auroc", "ceiling AUROC (perfect attention to these bins)", ""),
    ("ceiling_auprc", "ceiling AUPRC", ""),
    ("top_bin", "top bin holds the motif", "≥ 0.90"),
    ("top_bin_chance", "— by chance", ""),
    ("top_5_bins", "top 5 bins hold all causal motifs", "hard: 0.70"),
    ("decoy_auroc", "causal motif against decoys, AUROC", "≥ 0.95"),
    ("planted_auroc", "causal motif against all other planted motifs, AUROC", "≥ 0.95"),
    ("mass_causal", "share of attention on causal motifs", ""),
    ("entropy", "entropy (1 = uniform)", ""),
)


@dataclass(frozen=True)
class SeedResult:
    """Scores of one seed on one set."""

    report: LocalisationReport
    weights: LocalisationReport
    scanner: LocalisationReport
    prediction: float
    """Agreement of predictions and responses on the test promoters, mean over treatments."""
    ceilings: pd.DataFrame
    """AUROC and AUPRC of perfect attention and of the scanner, by width of the bins and upsampling."""
    controls: dict[str, LocalisationReport]
    seconds: float


def prepare(
    folder: Path, difficulty: str, seed: int, genes: int, task: str = "regression", flank: int = 20
) -> None:
    """simulate → prepare promoters → prepare dataset, in `folder`."""
    sim, fasta, dataset = folder / "sim", folder / "promoters.fa", folder / "planted.dataset.h5"
    sizes = f"--difficulty {difficulty} --seed {seed} --genes {genes} --task {task}"
    run(f"simulate promoters -o {sim} {sizes} -q", show=True)
    window = f"--upstream {LENGTHS[difficulty]} --downstream 0 --flank {flank}"
    run(f"prepare promoters {sim}/genome.fa {sim}/annotation.gff3 {window} -o {fasta} -q", show=True)
    sides = "--holdout validation=chr7 --holdout test=chr8"
    tables = f"{fasta} {sim}/responses.tsv --treatment-table {sim}/treatments.tsv --task {task}"
    run(f"prepare dataset {tables} {sides} -o {dataset} -q", show=True)


def train(dataset: Path, model: Path, seed: int, given: argparse.Namespace) -> Path:
    """Train `cross` with its defaults; only --epochs, --config and --threads come from the options."""
    words = [
        word
        for name in ("epochs", "config", "threads")
        if (value := getattr(given, name)) is not None
        for word in (f"--{name}", value)
    ]
    settings = f"--seed {seed} --conditioning cross --no-baselines -q"
    run(f"train promoter {dataset} -o {model} {settings}", *words, show=True)
    return model


def write_test_promoters(folder: Path) -> Path:
    """The promoters of the test split alone, so that little attention is exported."""
    dataset = read_dataset(folder / "planted.dataset.h5")
    wanted = {dataset.gene_ids[gene] for gene in dataset.genes_in(TEST)}
    records = (folder / "promoters.fa").read_text().split(">")[1:]
    kept = [record for record in records if record.split(maxsplit=1)[0] in wanted]
    path = folder / "test.fa"
    path.write_text("".join(f">{record}" for record in kept))
    return path


def score(folder: Path, attention: Path, *, weights: bool = False) -> tuple[LocalisationReport, pd.DataFrame]:
    given = ScoreAttention(
        attention=attention,
        truth=folder / "sim" / "truth.tsv",
        dataset=folder / "planted.dataset.h5",
        weights=weights,
    )
    report, predictions = score_attention_and_predictions(given)
    assert predictions is not None  # a dataset was given
    return report, predictions


def random_weights(folder: Path, model: Path, promoters: Path, seed: int) -> Path:
    """Attention of the same model before any training."""
    loaded = load_promoter_model(model, torch.device("cpu"))
    torch.manual_seed(seed + 1_000)
    untrained = PromoterModel([loaded.config], loaded.vocabulary).eval()
    path = folder / "random.attention.h5"
    run_promoters(replace(loaded, model=untrained), promoters, treatments=loaded.treatments, attention=path)
    return path


def scanner(
    simulated: SimulatedPromoters, genes: set[str], width: int, method: Upsampling = Upsampling.GAUSSIAN
) -> LocalisationReport:
    """Scores of a reader that knows the motifs, on the same promoters and bins of `width` bases."""
    rows = [row for row, gene_id in enumerate(simulated.gene_ids) if gene_id in genes]
    motifs = {motif.name: motif for motif in simulated.motifs}
    length = simulated.settings.length
    # As in the model, bins end at the anchor and the first may be shorter.
    edges = [0, *range(length - width * (-(-length // width) - 1), length + 1, width)]
    needed = [[motifs[name] for name in rule.motifs] for rule in simulated.rules]
    maps = maps_in_memory(
        scanner_attention(simulated.codes[rows], needed, edges),
        [rule.treatment for rule in simulated.rules],
        np.array(edges),
        genes=[simulated.gene_ids[row] for row in rows],
    )
    return score_maps(maps, simulated.sites, upsampling=method)


def ceilings(simulated: SimulatedPromoters, genes: set[str]) -> pd.DataFrame:
    """What the width of the bins and the way to bases allow."""
    names = ["ceiling_auroc", "ceiling_auprc", "auroc", "auprc"]
    rows = {
        (f"{width} bp", str(method)): scanner(simulated, genes, width, method).positives.loc[ALL, names]
        for width in CEILING_WIDTHS
        for method in SIMPLE_UPSAMPLING
    }
    return pd.DataFrame.from_dict(rows, orient="index").astype(float)


def shuffled_labels(folder: Path, seed: int) -> Path:
    """The dataset with each treatment's responses shuffled between promoters, all splits alike."""
    dataset = read_dataset(folder / "planted.dataset.h5")
    targets = np.random.default_rng(seed).permuted(dataset.targets, axis=0)
    path = folder / "shuffled.dataset.h5"
    write_dataset(path, replace(dataset, targets=targets))
    return path


def run_seed(
    folder: Path, difficulty: str, seed: int, given: argparse.Namespace, *, shuffle: bool
) -> SeedResult:
    began = time.monotonic()
    prepare(folder, difficulty, seed, given.genes, given.task, given.flank)
    model = train(folder / "planted.dataset.h5", folder / "model", seed, given)
    promoters, attention = write_test_promoters(folder), folder / "attention.h5"
    phases = f"--phases {given.phases}"
    run(f"export attention {model} {promoters} -o {attention} {phases} -q", show=True)
    report, predictions = score(folder, attention)
    controls = {"random weights": score(folder, random_weights(folder, model, promoters, seed))[0]}
    if shuffle:
        other = train(shuffled_labels(folder, seed), folder / "shuffled", seed, given)
        run(f"export attention {other} {promoters} -o {folder}/shuffled.h5 -q")
        controls["shuffled labels"] = score(folder, folder / "shuffled.h5")[0]
    genes = {record.split(maxsplit=1)[0] for record in promoters.read_text().split(">")[1:]}
    # What `simulate` wrote, with the motifs that no file of the user's shows.
    simulated = simulate_promoters(
        simulation_settings(difficulty, genes=given.genes, seed=seed, task=given.task)
    )
    return SeedResult(
        report=report,
        weights=score(folder, attention, weights=True)[0],
        scanner=scanner(simulated, genes, CEILING_WIDTHS[0]),
        prediction=float(predictions.loc[ALL, predictions.columns[0]]),
        ceilings=ceilings(simulated, genes),
        controls=controls,
        seconds=time.monotonic() - began,
    )


def values(reports: list[LocalisationReport], name: str, treatment: str = ALL) -> list[float]:
    return [float(report.positives.loc[treatment, name]) for report in reports]


def markdown(difficulty: str, results: dict[int, SeedResult], given: argparse.Namespace) -> Iterator[str]:
    """The tables of one set: means over seeds unless a heading says otherwise."""
    seeds = list(results.values())
    reports, first = [seed.report for seed in seeds], seeds[0].report
    yield (
        f"### Planted motifs, {difficulty} set\n\n{given.genes:,} promoters of {LENGTHS[difficulty]:,} bp, "
        f"{given.task}, {first.bins} bins; {first.genes:,} test promoters per seed, "
        f"{sum(values(reports, 'pairs')):,.0f} promoter × treatment pairs in all; "
        f"seeds {' '.join(map(str, results))}; "
        f"{np.mean([seed.seconds for seed in seeds]):.0f} s a seed.\n"
    )
    metric = "AUROC" if given.task == "binary" else "Pearson r"
    predictions = [seed.prediction for seed in seeds]
    rows: list[list[object]] = [
        [f"prediction, {metric} (mean over treatments)", np.mean(predictions), min(predictions), "", ""]
    ]
    for name, label, aim in ROWS:
        own, known = values(reports, name), values([seed.scanner for seed in seeds], name)
        rows.append([label, np.mean(own), min(own), np.mean(known), aim])
    for name in ("auroc", "auprc"):
        own = values([seed.weights for seed in seeds], name)
        rows.append([f"attention weights, {name.upper()}", np.mean(own), min(own), "", ""])
    yield table(["measure (test promoters)", "mean", "worst seed", "knowing the motifs", "aim"], rows)

    names = ("auroc", "auprc", "top_bin", "top_5_bins", "decoy_auroc")
    yield table(
        ["seed", "prediction", *names, "worst treatment's AUROC"],
        (
            [
                seed,
                result.prediction,
                *(values([result.report], name)[0] for name in names),
                float(result.report.positives["auroc"].drop(ALL).min()),
            ]
            for seed, result in results.items()
        ),
    )
    bins = pd.concat([seed.ceilings for seed in seeds]).groupby(level=[0, 1]).mean()
    heading = ["perfect attention, AUROC", "AUPRC", "knowing the motifs, AUROC", "AUPRC"]
    yield table(
        ["bins of", "upsampling", *heading],
        ([*at, *row] for at, row in zip(bins.index, bins.values, strict=True)),
    )
    yield table(["control", "seeds", "AUROC", "highest", "AUPRC", "highest"], control_rows(results))
    masses = ("mass_causal", "mass_decoy", "mass_other", "mass_background", "mass_sink", "entropy")
    rows = []
    for label, kind in (("promoters with the motif", "positives"), ("promoters without it", "negatives")):
        tables = [getattr(report, kind) for report in reports]
        known = [[float(each.loc[ALL, name]) for each in tables if name in each] for name in masses]
        rows.append([label, *(np.mean(each) if each else "–" for each in known)])
    yield table(["share of attention on", *(name.removeprefix("mass_") for name in masses)], rows)
    yield table(
        ["treatment", *names[:4]],
        (
            [treatment, *(np.mean(values(reports, name, treatment)) for name in names[:4])]
            for treatment in first.positives.index.drop(ALL)
        ),
    )


def control_rows(results: dict[int, SeedResult]) -> Iterator[list[object]]:
    """Controls: mean and highest over the seeds that ran them (aim: AUROC ≤ 0.65)."""
    for control in next(iter(results.values())).controls:
        ran = {
            seed: result.controls[control] for seed, result in results.items() if control in result.controls
        }
        both = [values(list(ran.values()), name) for name in ("auroc", "auprc")]
        yield [control, " ".join(map(str, ran)), *(f(each) for each in both for f in (np.mean, max))]
    reports = [result.report for result in results.values()]
    both = [values(reports, name) for name in ("wrong_auroc", "wrong_auprc")]
    seeds = " ".join(map(str, results))
    yield ["wrong treatment's map", seeds, *(f(each) for each in both for f in (np.mean, max))]


def parse_options() -> argparse.Namespace:
    parser = command_line(__doc__, seeds=(0, 1, 2, 3, 4))
    parser.add_argument("--sets", nargs="+", choices=sorted(LENGTHS), default=["standard", "hard"])
    parser.add_argument("--genes", type=int, default=6000)
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--flank", type=int, default=20, help="bases stored on both sides, for random shifts")
    parser.add_argument("--phases", type=int, default=1, help="of the export")
    parser.add_argument("--epochs", type=int, help="of training [default: the command's]")
    parser.add_argument("--config", type=Path, help="TOML of `bioattn train promoter`")
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--shuffled", type=int, metavar="N", help="run that control on the first N seeds alone"
    )
    return parser.parse_args()


def main() -> None:
    given = parse_options()
    text = (
        f"Command: `python benchmarks/planted.py {' '.join(sys.argv[1:])}`\n({platform.machine()}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()})\n\n"
    )
    for difficulty in given.sets:
        results: dict[int, SeedResult] = {}
        for seed in given.seeds:
            with tempfile.TemporaryDirectory(prefix="planted-") as folder:
                shuffle = given.shuffled is None or len(results) < given.shuffled
                results[seed] = run_seed(Path(folder), difficulty, seed, given, shuffle=shuffle)
            summary = {
                name: values([results[seed].report], name)[0] for name in ("auroc", "auprc", "top_bin")
            }
            print(f"{difficulty} seed {seed}: {json.dumps(summary)}", flush=True)
            tables = "\n".join(markdown(difficulty, results, given))
            if given.output is not None:  # after every seed: a run of an hour may be cut short
                given.output.write_text(text + tables)
        text += tables + "\n"
        print("\n" + tables, flush=True)


if __name__ == "__main__":
    main()
