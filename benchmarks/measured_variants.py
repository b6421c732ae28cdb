"""Do maps predict effects of mutations? `explain check --variants` on plant enhancers (Jores et al. 2024).

    BIOATTN_SHARED=../shared python benchmarks/measured_variants.py --folds 0 1 2 --folder variants-run

Four segments of 169 bp, nearly all single-base variants of each measured in dark and light. A fold holds out every
third block of 20 positions with all its variants; those within 5 bases of it are left out. The model sees the
others, and the check compares its maps with the substitutions held out in the three segments that have a signal.
"""

import argparse
import gzip
import json
import os
import re
from pathlib import Path

import pandas as pd
from planted_rules import run

DATA = Path(os.environ.get("BIOATTN_SHARED", "../shared")) / "data" / "plant_enhancers"
LENGTH, BLOCK, FLANK = 169, 20, 5
TREATMENTS = ["dark", "light"]
SILENT = "Cab-1_5p"
"""The segment without a signal."""
SETTINGS = '[model]\nsink = true\nreadout = "shared"\nposition_bias = "treatment"\n'


def read_variants() -> pd.DataFrame:
    """Every variant no longer than its segment, with its sequence, segment, position from 0 and responses."""
    records = gzip.decompress((DATA / "variants.fa.gz").read_bytes()).decode()[1:].split("\n>")
    sequences = pd.Series(dict(record.split("\n", 1) for record in records)).str.replace("\n", "")
    table = pd.read_csv(DATA / "variants.tsv.gz", sep="\t", index_col="variant")
    table = table.join(pd.read_csv(DATA / "responses.tsv.gz", sep="\t", index_col="variant"))
    table["sequence"], table["segment"] = sequences, table.enhancer + "_" + table.segment
    first = table[table.type == "substitution"].groupby("segment").position.min()
    table["position"] -= table.segment.map(first)
    return table[table.sequence.str.len() <= LENGTH].astype({"position": int})


def wild_types(variants: pd.DataFrame) -> dict[str, str]:
    """The sequence of each segment, from one of its substitutions."""
    found = {}
    for name, row in variants[variants.type == "substitution"].groupby("segment").first().iterrows():
        variant = variants[(variants.segment == name) & (variants.type == "substitution")].index[0]
        base = re.search(r"([ACGT])>[ACGT]$", variant)[1]
        found[name] = row.sequence[: row.position] + base + row.sequence[row.position + 1 :]
    return found


def side(position: int, fold: int) -> str:
    """Test, train or validation; empty for what is near a block that is held out."""
    if position // BLOCK % 3 == fold:
        return "test"
    if any((position + step) // BLOCK % 3 == fold for step in (-FLANK, FLANK)):
        return ""
    return (
        "validation" if position // BLOCK % 3 == (fold + 1) % 3 and position % BLOCK in (9, 10) else "train"
    )


def measure(fold: int, folder: Path, epochs: int) -> dict[str, list[float]]:
    """Train without a fold, check; value and interval of each measure of variants."""
    folder.mkdir(parents=True, exist_ok=True)
    variants = read_variants()
    own = wild_types(variants)
    fasta = {f"{name}_WT": sequence for name, sequence in own.items()} | variants.sequence.to_dict()
    (folder / "p.fa").write_text("".join(f">{name}\n{sequence}\n" for name, sequence in fasta.items()))
    sides = variants.position.map(lambda position: side(position, fold))
    kept = variants[sides != ""]
    kept[TREATMENTS].to_csv(folder / "responses.tsv", sep="\t", index_label="gene")
    sides[kept.index].to_frame("split").to_csv(folder / "split.tsv", sep="\t", index_label="gene")
    held_out = variants[(sides == "test") & (variants.type == "substitution") & (variants.segment != SILENT)]
    table = held_out[TREATMENTS].assign(
        promoter=held_out.segment + "_WT",
        position=held_out.position + 1,
        alternative=held_out.index.str[-1],
    )
    table.to_csv(folder / "variants.tsv", sep="\t", index=False)
    (folder / "c.toml").write_text(SETTINGS)
    split = ("--split-table", folder / "split.tsv", "-q")
    dataset, model, check = folder / "x.dataset.h5", folder / "model", folder / "check.json"
    run("prepare", "dataset", folder / "p.fa", folder / "responses.tsv", "-o", dataset, *split)
    settings = ("-c", folder / "c.toml", "--epochs", epochs, "--no-baselines", "--force", "-q")
    run("train", "promoter", dataset, "-o", model, *settings)
    evidence = ("--dataset", dataset, "--variants", folder / "variants.tsv", "-q")
    run("explain", "check", model, folder / "p.fa", "-o", check, *evidence)
    measures = json.loads(check.read_text())["measures"]
    return {
        measure["name"]: [measure["value"], *measure["interval"]]
        for measure in measures
        if measure["name"].startswith(("skill", "variants"))
    }


def parse() -> argparse.Namespace:
    """Options of the script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2], choices=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--folder", type=Path, required=True, help="where data, models and checks are kept")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    for number in options.folds:
        for name, (value, low, high) in measure(
            number, options.folder / f"fold-{number}", options.epochs
        ).items():
            print(f"fold {number}  {name:34} {value:6.3f} ({low:.3f} to {high:.3f})", flush=True)
