"""A user's first hour: DESeq2 tables of symbols, a GenBank GFF3 and an Ensembl FASTA, from nothing to a verdict.

    BIOATTN_SHARED=../shared python benchmarks/first_hour.py --work DIR

Prints every line that the user sees, mistakes included, and the processor time of each command. The tables have
the shape of DESeq2's, made of the repeated arrays of yeast under five stresses.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
from common import SHARED
from common import options as command_line
from scipy import stats

YEAST = SHARED / "data" / "yeast"
GROUPS = {
    "heat": "heat_shock_25_37",
    "H2O2": "H2O2",
    "diamide": "diamide",
    "nitrogen": "nitrogen_depletion",
    "stationary": "stationary_phase",
}
ROAD = """
prepare promoters R64_ensembl.genome.fa.gz R64_genbank.gff3.gz -o promoters.fa
prepare promoters R64_ensembl.genome.fa.gz R64_genbank.gff3.gz -o promoters.fa --chromosome-aliases auto
prepare dataset promoters.fa heat.csv H2O2.csv diamide.csv nitrogen.csv stationary.csv -o stress.dataset.h5
train promoter stress.dataset.h5 -o model
run promoter model promoters.fa -o predicted.tsv
explain check model promoters.fa --dataset stress.dataset.h5 -o check.json
export attention model promoters.fa -o attention.h5
plot attention.h5 --gene HSP12 -o HSP12.png
report model stress.dataset.h5 attention.h5 promoters.fa check.json -o report.html
"""
"""The commands, in the order in which `--help` and what they print lead from one to the next."""


def write_contrasts(folder: Path) -> None:
    """A table by symbol for each stress; p from the standard error over arrays."""
    ratios = pd.read_csv(YEAST / "gasch2000_log2ratio.tsv.gz", sep="\t", index_col=0)
    conditions = pd.read_csv(YEAST / "gasch2000_conditions.tsv", sep="\t", index_col=0)
    names = pd.read_csv(
        YEAST / "R64_genbank.gff3.gz",
        sep="\t",
        comment="#",
        header=None,
        usecols=[2, 8],
        names=["type", "said"],
    )
    said = names.loc[names["type"] == "gene", "said"]
    ids, symbols = (said.str.extract(rf"{key}=([^;]+)")[0] for key in ("locus_tag", "Name"))
    for name, group in GROUPS.items():
        arrays = ratios.loc[:, (conditions["group"] == group).to_numpy()]
        table = pd.DataFrame({"log2FoldChange": arrays.mean(axis=1)})
        table["stat"] = table["log2FoldChange"] / arrays.sem(axis=1).clip(lower=0.05)
        table["padj"] = stats.false_discovery_control(2 * stats.norm.sf(table["stat"].abs().fillna(0)))
        table = table.rename(index=dict(zip(ids, symbols, strict=True)))
        table.rename_axis("symbol").to_csv(folder / f"{name}.csv")


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="an empty folder")
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    for name in ("R64_ensembl.genome.fa.gz", "R64_genbank.gff3.gz"):
        (work / name).symlink_to((YEAST / name).resolve())
    write_contrasts(work)
    for line in ROAD.strip().splitlines():
        print(f"\n$ bioattn {line}", flush=True)
        before = os.times()
        command = [sys.executable, "-m", "bioattn_cli", *shlex.split(line)]
        ended = subprocess.run(command, cwd=work, stderr=subprocess.STDOUT, check=False)
        took = sum(os.times()[2:4]) - sum(before[2:4])
        print(f"[exit {ended.returncode}, {took:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
