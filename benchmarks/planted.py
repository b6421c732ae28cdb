"""Planted truth: does the attention of `cross` lie on the motifs that were planted?

    python benchmarks/planted.py --seeds 0 1 2 3 4 -o planted.md

For every set and seed it runs the commands a user would (they are printed), in one process: simulate → prepare →
train → export → score, and scores the promoters of the test chromosome. Beside it stands a scanner that is told
the motifs (`motif_scanner.py`): what could be known. Controls, scored alike: the same model
with random weights; a model trained on responses shuffled between promoters; the maps of other treatments. The
scores are defined in `bioattn.interpret.planted.localisation`.
"""

import argparse
import contextlib
import json
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from motif_scanner import scanner_attention

from bioattn.errors import BioattnError
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.planted.attention_score import score_attention_and_predictions
from bioattn.interpret.planted.localisation import ALL, LocalisationReport, LocalisationScorer
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.inference.run import run_promoters
from bioattn.models.promoter.model import PromoterModel
from bioattn.promoters.dataset import TEST, read_dataset, write_dataset
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.simulate.promoters import SimulatedPromoters, simulate_promoters, simulation_settings
from bioattn_cli.main import main

LENGTHS = {"standard": 400, "hard": 1000}
BIN_WIDTH = 8
"""Bases of a bin of the model, unless --config says otherwise."""
CEILING_WIDTHS = (8, 16)
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
    value_weighted: LocalisationReport
    scanner: LocalisationReport
    prediction: float
    """Agreement of predictions and responses on the test promoters, mean over treatments."""
    ceilings: pd.DataFrame
    """What bins of `CEILING_WIDTHS` bases allow; see `ceilings`."""
    controls: dict[str, LocalisationReport]
    seconds: dict[str, float]


def step(arguments: list[str], *, show: bool) -> None:
    """Run one command of bioattn; stop when it fails."""
    if show:
        print("    bioattn " + " ".join(arguments), flush=True)
    with contextlib.redirect_stdout(sys.stderr):  # the tables of train; ours are the only ones on stdout
        code = main([*arguments, "--quiet"])
    if code:
        raise SystemExit(f"bioattn {' '.join(arguments)} ended with {code}")


def prepare(folder: Path, difficulty: str, seed: int, options: argparse.Namespace, *, show: bool) -> None:
    """simulate → prepare promoters → prepare dataset, in `folder`."""
    sim = folder / "sim"
    simulate = ["simulate", "promoters", "-o", str(sim), "--difficulty", difficulty, "--seed", str(seed)]
    step([*simulate, "--genes", str(options.genes), "--task", options.task], show=show)
    inputs = [str(sim / "genome.fa"), str(sim / "annotation.gff3")]
    window = ["--upstream", str(LENGTHS[difficulty]), "--downstream", "0", "--flank", str(options.flank)]
    step(["prepare", "promoters", *inputs, *window, "-o", str(folder / "promoters.fa")], show=show)
    tables = [str(folder / "promoters.fa"), str(sim / "responses.tsv")]
    tables += ["--treatment-table", str(sim / "treatments.tsv"), "--task", options.task]
    split = ["--holdout", "validation=chr7", "--holdout", "test=chr8"]
    step(["prepare", "dataset", *tables, *split, "-o", str(folder / "planted.dataset.h5")], show=show)


def train(
    folder: Path, dataset: Path, name: str, seed: int, options: argparse.Namespace, *, show: bool
) -> Path:
    """Train `cross` with its defaults; only --epochs and --config come from the options."""
    arguments = ["train", "promoter", str(dataset), "-o", str(folder / name), "--seed", str(seed)]
    arguments += ["--conditioning", "cross", "--no-baselines"]
    if options.epochs:
        arguments += ["--epochs", str(options.epochs)]
    if options.config:
        arguments += ["--config", str(options.config)]
    if options.threads:
        arguments += ["--threads", str(options.threads)]
    step(arguments, show=show)
    return folder / name


def write_test_promoters(folder: Path) -> Path:
    """The promoters of the test split alone, so that little attention is exported."""
    dataset = read_dataset(folder / "planted.dataset.h5")
    wanted = {dataset.gene_ids[gene] for gene in dataset.genes_in(TEST)}
    records = (folder / "promoters.fa").read_text().split(">")[1:]
    kept = [record for record in records if record.split(maxsplit=1)[0] in wanted]
    path = folder / "test.fa"
    path.write_text("".join(f">{record}" for record in kept))
    return path


def read_fasta_names(path: Path) -> list[str]:
    """Gene ids of a promoter FASTA."""
    return [promoter.gene_id for promoter in read_promoters(path)]


def score(
    folder: Path, attention: Path, *, value_weighted: bool = False
) -> tuple[LocalisationReport, pd.DataFrame]:
    """Score one attention file on the test split."""
    report, predictions = score_attention_and_predictions(
        attention,
        folder / "sim" / "truth.tsv",
        dataset=folder / "planted.dataset.h5",
        split="test",
        value_weighted=value_weighted,
    )
    assert predictions is not None  # a dataset was given
    return report, predictions


def random_weights(folder: Path, model: Path, promoters: Path, seed: int) -> Path:
    """Attention of the same model before any training."""
    loaded = load_promoter_model(model, torch.device("cpu"))
    torch.manual_seed(seed + 1_000)
    untrained = PromoterModel(loaded.config, loaded.vocabulary).eval()
    path = folder / "random.attention.h5"
    run_promoters(replace(loaded, model=untrained), promoters, treatments=loaded.treatments, attention=path)
    return path


def simulated_again(difficulty: str, seed: int, options: argparse.Namespace) -> SimulatedPromoters:
    """What `simulate` wrote, with the motifs that no file of the user's shows."""
    return simulate_promoters(
        simulation_settings(difficulty, genes=options.genes, seed=seed, task=options.task)
    )


def scanner(
    simulated: SimulatedPromoters, genes: set[str], width: int, method: Upsampling = Upsampling.GAUSSIAN
) -> LocalisationReport:
    """Scores of a reader that knows the motifs, on the same promoters and bins of `width` bases."""
    rows = [row for row, gene_id in enumerate(simulated.gene_ids) if gene_id in genes]
    motifs = {motif.name: motif for motif in simulated.motifs}
    length = simulated.settings.length
    # As in the model, bins end at the anchor and the first may be shorter.
    edges = [0, *range(length - width * (-(-length // width) - 1), length + 1, width)]
    scorer = LocalisationScorer(
        simulated.sites,
        gene_ids=[simulated.gene_ids[row] for row in rows],
        treatments=[rule.treatment for rule in simulated.rules],
        key_edges=edges,
        window_length=length,
        upsampling=method,
    )
    needed = [[motifs[name] for name in rule.motifs] for rule in simulated.rules]
    scorer.add(scanner_attention(simulated.codes[rows], needed, edges))
    return scorer.report()


def ceilings(simulated: SimulatedPromoters, genes: set[str]) -> pd.DataFrame:
    """Per width of the bins: AUROC and AUPRC of perfect attention and of the scanner, either upsampling."""
    rows = {}
    for width in CEILING_WIDTHS:
        row = {}
        for method in SIMPLE_UPSAMPLING:
            scores = scanner(simulated, genes, width, method).positives.loc[ALL]
            for name in ("ceiling_auroc", "ceiling_auprc", "auroc", "auprc"):
                row[f"{method} {name}"] = float(scores[name])
        rows[width] = row
    return pd.DataFrame.from_dict(rows, orient="index")


def shuffled_labels(folder: Path, seed: int) -> Path:
    """The dataset with each treatment's responses shuffled between promoters, all splits alike."""
    dataset = read_dataset(folder / "planted.dataset.h5")
    targets = np.random.default_rng(seed).permuted(dataset.targets, axis=0)
    path = folder / "shuffled.dataset.h5"
    write_dataset(path, replace(dataset, targets=targets))
    return path


def run_seed(
    folder: Path, difficulty: str, seed: int, options: argparse.Namespace, *, show: bool, shuffle: bool
) -> SeedResult:
    """The whole job and its controls for one seed."""
    seconds = {}
    began = time.monotonic()
    prepare(folder, difficulty, seed, options, show=show)
    seconds["prepare"] = time.monotonic() - began
    began = time.monotonic()
    model = train(folder, folder / "planted.dataset.h5", "model", seed, options, show=show)
    seconds["train"] = time.monotonic() - began
    began = time.monotonic()
    promoters = write_test_promoters(folder)
    attention = folder / "attention.h5"
    export = ["export", "attention", str(model), str(promoters), "-o", str(attention), "--value-weighted"]
    step(export, show=show)
    report, predictions = score(folder, attention)
    weighted, _ = score(folder, attention, value_weighted=True)
    seconds["export and score"] = time.monotonic() - began
    began = time.monotonic()
    controls = {"random weights": score(folder, random_weights(folder, model, promoters, seed))[0]}
    if shuffle:
        other = train(folder, shuffled_labels(folder, seed), "shuffled", seed, options, show=False)
        control = folder / "shuffled.attention.h5"
        step(["export", "attention", str(other), str(promoters), "-o", str(control)], show=False)
        controls["shuffled labels"] = score(folder, control)[0]
    seconds["controls"] = time.monotonic() - began
    genes = set(read_fasta_names(promoters))
    simulated = simulated_again(difficulty, seed, options)
    agreement = predictions.loc[ALL, predictions.columns[0]]
    return SeedResult(
        report=report,
        value_weighted=weighted,
        scanner=scanner(simulated, genes, BIN_WIDTH),
        prediction=float(agreement),
        ceilings=ceilings(simulated, genes),
        controls=controls,
        seconds=seconds,
    )


def spread(values: list[float], *, worst: str = "min") -> tuple[str, str]:
    """Mean and worst over seeds, as text."""
    bad = min(values) if worst == "min" else max(values)
    return f"{np.mean(values):.3f}", f"{bad:.3f}"


def markdown(difficulty: str, results: dict[int, SeedResult], options: argparse.Namespace) -> str:
    """The tables of one set."""
    first = next(iter(results.values()))
    metric = "AUROC" if options.task == "binary" else "Pearson r"
    pairs = sum(int(result.report.positives.loc[ALL, "pairs"]) for result in results.values())
    lines = [
        f"### Planted motifs, {difficulty} set",
        "",
        f"{options.genes:,} promoters of {LENGTHS[difficulty]:,} bp, {options.task}, {first.report.bins} bins; "
        f"{first.report.genes:,} test promoters per seed, {pairs:,} promoter × treatment pairs in all; "
        f"seeds {' '.join(map(str, results))}.",
        "",
        "| measure (test promoters) | mean | worst seed | knowing the motifs | aim |",
        "| --- | --- | --- | --- | --- |",
        "| prediction, {} (mean over treatments) | {} | {} | | |".format(
            metric, *spread([result.prediction for result in results.values()])
        ),
    ]
    for name, label, aim in ROWS:
        values = [float(result.report.positives.loc[ALL, name]) for result in results.values()]
        known, _ = spread([float(result.scanner.positives.loc[ALL, name]) for result in results.values()])
        lines.append("| {} | {} | {} | {} | {} |".format(label, *spread(values), known, aim))
    for name, label in (("auroc", "AUROC"), ("auprc", "AUPRC")):
        values = [float(result.value_weighted.positives.loc[ALL, name]) for result in results.values()]
        lines.append("| value-weighted attention, {} | {} | {} | | |".format(label, *spread(values)))
    lines += seed_lines(results)
    lines += ceiling_lines(results)
    lines += control_lines(results)
    lines += mass_lines(results)
    lines += treatment_lines(results)
    total = {name: np.mean([r.seconds[name] for r in results.values()]) for name in first.seconds}
    lines += [
        "",
        "Seconds per seed: " + ", ".join(f"{name} {value:.0f}" for name, value in total.items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def seed_lines(results: dict[int, SeedResult]) -> list[str]:
    """One line per seed, with its worst treatment: a motif that was not found shows there."""
    lines = [
        "",
        "| seed | prediction | AUROC | AUPRC | top bin | top 5 bins | vs decoys | worst treatment's AUROC |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for seed, result in results.items():
        table = result.report.positives
        names = ("auroc", "auprc", "top_bin", "top_5_bins", "decoy_auroc")
        cells = [result.prediction, *(float(table.loc[ALL, name]) for name in names)]
        cells.append(float(table["auroc"].drop(ALL).min()))
        lines.append(f"| {seed} | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    return lines


def ceiling_lines(results: dict[int, SeedResult]) -> list[str]:
    """What the width of the bins allows, means over seeds."""
    table = pd.concat([result.ceilings for result in results.values()]).groupby(level=0).mean()
    lines = [
        "",
        "| bins of | upsampling | perfect attention, AUROC | AUPRC | knowing the motifs, AUROC | AUPRC |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for width, row in table.iterrows():
        for method in SIMPLE_UPSAMPLING:
            names = ("ceiling_auroc", "ceiling_auprc", "auroc", "auprc")
            cells = " | ".join(f"{row[f'{method} {name}']:.3f}" for name in names)
            lines.append(f"| {width} bp | {method} | {cells} |")
    return lines


def control_lines(results: dict[int, SeedResult]) -> list[str]:
    """Controls: mean and highest over the seeds that ran them."""
    lines = [
        "",
        "| control | seeds | AUROC | highest | AUPRC | highest | aim |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for control in next(iter(results.values())).controls:
        ran = [seed for seed, result in results.items() if control in result.controls]
        reports = [results[seed].controls[control].positives.loc[ALL] for seed in ran]
        cells = [
            cell
            for name in ("auroc", "auprc")
            for cell in spread([float(r[name]) for r in reports], worst="max")
        ]
        seeds = " ".join(map(str, ran))
        lines.append(f"| {control} | {seeds} | " + " | ".join(cells) + " | AUROC ≤ 0.65 |")
    reports = [result.report.positives.loc[ALL] for result in results.values()]
    cells = [
        cell
        for name in ("wrong_auroc", "wrong_auprc")
        for cell in spread([float(r[name]) for r in reports], worst="max")
    ]
    seeds = " ".join(map(str, results))
    return [*lines, f"| wrong treatment's map | {seeds} | " + " | ".join(cells) + " | AUROC ≤ 0.65 |"]


def mass_lines(results: dict[int, SeedResult]) -> list[str]:
    """Where the weight lies, with and without the motif; means over seeds."""
    names = ("mass_causal", "mass_decoy", "mass_other", "mass_background", "mass_sink", "entropy")
    lines = [
        "",
        "| share of attention on | causal motif | decoys | other motifs | background | sink | entropy |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for label, attribute in (
        ("promoters with the motif", "positives"),
        ("promoters without it", "negatives"),
    ):
        cells = []
        for name in names:
            values = [getattr(result.report, attribute).get(name) for result in results.values()]
            known = [float(column[ALL]) for column in values if column is not None]
            cells.append(f"{np.mean(known):.3f}" if known else "–")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def treatment_lines(results: dict[int, SeedResult]) -> list[str]:
    """Per treatment (its rank in the set), means over seeds: treatments with a pair of motifs stand last."""
    lines = ["", "| treatment | AUROC | AUPRC | top bin | top 5 bins |", "| --- | --- | --- | --- | --- |"]
    tables = [result.report.positives for result in results.values()]
    for treatment in tables[0].index.drop(ALL):
        cells = [
            f"{np.mean([table.loc[treatment, name] for table in tables]):.3f}"
            for name in ("auroc", "auprc", "top_bin", "top_5_bins")
        ]
        lines.append(f"| {treatment} | " + " | ".join(cells) + " |")
    return lines


def parse_options() -> argparse.Namespace:
    """Options of the script."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--sets", nargs="+", choices=sorted(LENGTHS), default=["standard", "hard"])
    parser.add_argument("--genes", type=int, default=6000)
    parser.add_argument("--task", choices=("regression", "binary"), default="regression")
    parser.add_argument("--flank", type=int, default=20, help="bases stored on both sides, for random shifts")
    parser.add_argument("--epochs", type=int, help="of training [default: the command's]")
    parser.add_argument("--config", type=Path, help="TOML of `bioattn train promoter`")
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--shuffled", type=int, metavar="N", help="run that control on the first N seeds only [default: all]"
    )
    parser.add_argument("-o", "--output", type=Path, help="also write the tables here")
    return parser.parse_args()


def run() -> None:
    """Run every set and seed, print the tables."""
    options = parse_options()
    text = [
        "Command: `python benchmarks/planted.py " + " ".join(sys.argv[1:]) + "`",
        f"({platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}, "
        f"Python {platform.python_version()})\n",
    ]
    for difficulty in options.sets:
        results: dict[int, SeedResult] = {}
        for seed in options.seeds:
            with tempfile.TemporaryDirectory(prefix="planted-") as folder:
                shuffle = options.shuffled is None or len(results) < options.shuffled
                show = not results
                results[seed] = run_seed(Path(folder), difficulty, seed, options, show=show, shuffle=shuffle)
            positives = results[seed].report.positives.loc[ALL]
            summary = {name: round(float(positives[name]), 3) for name in ("auroc", "auprc", "top_bin")}
            seconds = {name: round(value) for name, value in results[seed].seconds.items()}
            print(f"{difficulty} seed {seed}: {json.dumps(summary)} {json.dumps(seconds)}", flush=True)
            tables = markdown(difficulty, results, options)
            if options.output is not None:  # after every seed: a run of an hour may be cut short
                options.output.write_text("\n".join([*text, tables]))
        text.append(tables)
        print("\n" + tables, flush=True)


if __name__ == "__main__":
    try:
        run()
    except BioattnError as error:
        raise SystemExit(f"planted.py: {error}") from error
