"""Is a model trained without any setting ever below a simple model? Real sets, small ones, and noisy ones.

    BIOATTN_SHARED=../shared python benchmarks/never_below.py --work DIR
    BIOATTN_SHARED=../shared python benchmarks/never_below.py --work DIR --sets ecoli yeast-1500

Each set is trained as a user would, `bioattn train promoter DATA -o MODEL`, on one thread. Finished models in DIR
are not trained again. Small sets are random genes of yeast; noise is normal, in standard deviations of each
condition.
"""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import SHARED, run, table
from common import options as command_line
from plant_core import prepare
from yeast_data import build_dataset

from bioattn.promoters.dataset import PromoterDataset, read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable

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


def ecoli_mpra(work: Path) -> Path:
    """13,118 measured promoters, log2 of RNA/DNA in LB; a tenth held out, of the rest a fifth for validation."""
    measured = pd.read_csv(SHARED / "data" / "ecoli_mpra" / "train.tsv.gz", sep="\t")
    number = len(measured)
    split = np.zeros(number, np.uint8)
    split[np.random.default_rng(1).random(number) < 0.1] = 2
    rest = np.random.default_rng(0).permutation(np.flatnonzero(split == 0))
    split[rest[: len(rest) // 5]] = 1
    letters = np.stack([np.frombuffer(sequence.encode(), np.uint8) for sequence in measured.sequence])
    dataset = PromoterDataset(
        gene_ids=[f"p{row}" for row in range(number)],
        chrom=[""] * number,
        start=np.full(number, -1),
        end=np.full(number, -1),
        strand=["."] * number,
        codes=np.select([letters == ord(base) for base in "ACGT"], range(4), 4).astype(np.uint8),
        flank=0,
        targets=np.log2(measured.expression.clip(lower=0.02)).to_numpy(np.float32)[:, None],
        treatments=TreatmentTable(pd.DataFrame(index=pd.Index(["LB"], dtype=object))),
        gene_split=split,
        treatment_split=np.zeros(1, np.uint8),
        task="regression",
        metadata={"downstream": 30},
    )
    write_dataset(work / "ecoli-mpra.dataset.h5", dataset)
    return work / "ecoli-mpra.dataset.h5"


def yeast_five(work: Path) -> Path:
    """Means of five groups of arrays, 500 bases before the coding sequence, split by homology."""
    data, five, path = (
        SHARED / "data" / "yeast",
        SHARED / "trials" / "maps" / "yeast_five",
        work / "y5.dataset.h5",
    )
    genome = f"{data}/R64_ensembl.genome.fa.gz {data}/R64_ensembl96.gtf.gz"
    window = "--anchor cds --upstream 500 --downstream 0 --flank 30 -q"
    run(f"prepare promoters {genome} -o {work}/y5.fa {window}")
    responses = f"{five}.tsv --treatment-table {five}.treatments.tsv --standardize treatment"
    run(f"prepare dataset {work}/y5.fa {responses} -o {path} -q")
    return path


SETS = {
    "ecoli": ecoli,
    "ecoli-mpra": ecoli_mpra,
    "plant-core": plant_core,
    "demo": demo,
    "yeast": lambda work: yeast(work, "arrays"),
    "yeast-xii-xvi": lambda work: build_dataset(SHARED, work, "upstream", "arrays", "xii-xvi"),
    "yeast-coding": lambda work: build_dataset(SHARED, work, "coding", "arrays", "xii-xvi"),
    "yeast-five": yeast_five,
    "yeast-noise": lambda work: yeast(work, "arrays", noise=3.0),
    "yeast-1500": lambda work: yeast(work, "arrays", genes=1500),
    "yeast-groups": lambda work: yeast(work, "groups"),
    "yeast-groups-1500": lambda work: yeast(work, "groups", genes=1500),
}


def row(name: str, work: Path, seed: int) -> list[str]:
    """Train where there is no model yet; a line of the table."""
    folder, seconds = work / f"{name}-{seed}", ""
    if not folder.exists():
        before = time.process_time()
        run(f"train promoter {SETS[name](work)} -o {folder} --seed {seed} --threads 1")
        after = time.process_time()
        seconds = f"{after - before:.0f}"
    record = json.loads((folder / "training.json").read_text())
    beside = record["comparison"]
    rows = {
        each["name"].partition(" (")[0]: each
        for each in record["evaluation"]["rows"]
        if each["cells"] == "test genes"
    }
    figures = [
        f"{rows[of]['pearson']:.3f} ({rows[of].get('specific_pearson', np.nan):.3f})"
        for of in (beside["simple_model"], "this model")
    ]
    low, high = beside["gain_interval"]
    below = "**yes**" if beside["below_simple_model"] else "no"
    kept = record["settings"].partition(":")[0]
    gain = f"{low:+.3f} to {high:+.3f}"
    return [
        name,
        str(seed),
        kept,
        beside["simple_model"],
        *figures,
        gain,
        below,
        seconds,
        record["evaluation"]["check"],
    ]


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and models")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    heading = ["set", "seed", "kept", "best simple model", "its r (without PC1)", "model, r (without PC1)"]
    heading += ["difference", "below", "CPU s", "quick check"]
    print(table(heading, [row(name, options.work, seed) for name in options.sets for seed in options.seeds]))


if __name__ == "__main__":
    main()
