"""Is a model trained without any setting ever below a simple model? Real sets, small ones, and noisy ones.

    BIOATTN_SHARED=../shared python benchmarks/never_below.py --work DIR
    BIOATTN_SHARED=../shared python benchmarks/never_below.py --work DIR --sets ecoli yeast-1500

Each set is trained as a user would, `bioattn train promoter DATA -o MODEL`. Finished models in DIR are not trained
again. Small sets are random genes of yeast; noise is normal, in standard deviations of each condition.
"""

import dataclasses
import json
from pathlib import Path

import numpy as np
from common import SHARED, run
from common import options as command_line
from plant_core import prepare
from yeast_data import build_dataset

from bioattn.promoters.dataset import read_dataset, write_dataset

DEMO = Path(__file__).resolve().parent.parent / "data" / "demo"
GENE_FIELDS = ("gene_ids", "chrom", "start", "end", "strand", "codes", "targets", "gene_split")


def ecoli(work: Path) -> Path:
    """16 samples of a phage infection, windows −300..+100, blocks held out."""
    data, fasta, path = SHARED / "data" / "ecoli", work / "ecoli.fa", work / "ecoli.dataset.h5"
    genome = data / "GCF_000005845.2_ASM584v2_genomic"
    window = "--upstream 300 --downstream 100 --flank 30 -q"
    run(f"prepare promoters {genome}.fna.gz {genome}.gff.gz -o {fasta} {window}")
    responses = data / "phage_log_tpm.csv.gz"
    run(f"prepare dataset {fasta} {responses} -o {path} --split block --standardize treatment -q")
    return path


def plant_core(work: Path) -> Path:
    """Core promoters in two expression systems, the shared split."""
    (work / "plant").mkdir(exist_ok=True)
    return prepare(work / "plant")[1]


def demo(work: Path) -> Path:
    """Planted motifs, four treatments."""
    fasta, path = work / "demo.fa", work / "demo.dataset.h5"
    window = "--upstream 400 --downstream 0 -q"
    run(f"prepare promoters {DEMO}/genome.fa.gz {DEMO}/annotation.gff3.gz -o {fasta} {window}")
    run(f"prepare dataset {fasta} {DEMO}/responses.tsv.gz -o {path} -q")
    return path


def yeast(work: Path, variant: str, genes: int = 0, noise: float = 0.0) -> Path:
    """Gasch 2000; genes: how many are kept, 0 for all."""
    path = build_dataset(SHARED, work, "upstream", variant)
    if not genes and not noise:
        return path
    dataset, random = read_dataset(path), np.random.default_rng(0)
    targets = dataset.targets
    if noise:
        targets = targets + noise * np.nanstd(targets, axis=0) * random.standard_normal(targets.shape)
    kept = np.arange(dataset.num_genes)
    if genes:
        kept = np.sort(random.choice(kept, genes, replace=False))
    changed = dataclasses.replace(dataset, targets=targets.astype(np.float32))
    columns = {name: getattr(changed, name) for name in GENE_FIELDS}
    picked = {
        name: [each[i] for i in kept] if isinstance(each, list) else each[kept]
        for name, each in columns.items()
    }
    smaller = work / f"yeast-{variant}-{genes}-{noise:g}.dataset.h5"
    write_dataset(smaller, dataclasses.replace(changed, **picked))
    return smaller


SETS = {
    "ecoli": ecoli,
    "plant-core": plant_core,
    "demo": demo,
    "yeast": lambda work: yeast(work, "arrays"),
    "yeast-noise": lambda work: yeast(work, "arrays", noise=3.0),
    "yeast-1500": lambda work: yeast(work, "arrays", genes=1500),
    "yeast-groups": lambda work: yeast(work, "groups"),
    "yeast-groups-1500": lambda work: yeast(work, "groups", genes=1500),
}


def row(name: str, work: Path, seed: int) -> str:
    """Train where there is no model yet; a line of the table."""
    folder = work / f"{name}-{seed}"
    if not folder.exists():
        run(f"train promoter {SETS[name](work)} -o {folder} --seed {seed}")
    record = json.loads((folder / "training.json").read_text())
    beside = record["comparison"]
    low, high = beside["gain_interval"]
    cells = (
        name,
        record["settings"],
        f"{record['best_epoch']} of {record['epochs_trained']}",
        f"{beside['simple_model']} {beside['simple_model_figure']:.3f}",
        f"{beside['model_figure']:.3f}",
        f"{low:+.3f} to {high:+.3f}",
        "**yes**" if beside["below_simple_model"] else "no",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and models")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    print("| set | settings | epoch kept | best simple model, r | model, r | difference | below |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in options.sets:
        print(row(name, options.work, options.seed), flush=True)


if __name__ == "__main__":
    main()
