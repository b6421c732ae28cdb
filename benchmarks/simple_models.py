"""How good are the simple models that stand beside a promoter network, and how long do they take?

    BIOATTN_SHARED=../shared python benchmarks/simple_models.py --work DIR
    BIOATTN_SHARED=../shared python benchmarks/simple_models.py --work DIR --sets ecoli-mpra

Nothing is drawn at random but the tenth of the measured E. coli promoters that is held out. All settings are
chosen on validation promoters. The gain is over the component ridge: 95 % intervals, paired over test promoters.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd
from common import SHARED, table
from common import options as command_line
from never_below import ecoli, plant_core
from yeast_data import build_dataset

from bioattn.models.promoter.training.baselines import default_baselines
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.promoters.response_metrics import interval, median_pearson, resampled
from bioattn.promoters.treatments import TreatmentTable


def ecoli_mpra(_work: Path) -> PromoterDataset:
    """13,118 measured promoters, log2 of RNA/DNA in LB; a tenth held out, of the rest a fifth for validation."""
    measured = pd.read_csv(SHARED / "data" / "ecoli_mpra" / "train.tsv.gz", sep="\t")
    number = len(measured)
    split = np.zeros(number, np.uint8)
    split[np.random.default_rng(1).random(number) < 0.1] = 2
    rest = np.random.default_rng(0).permutation(np.flatnonzero(split == 0))
    split[rest[: len(rest) // 5]] = 1
    letters = np.stack([np.frombuffer(sequence.encode(), np.uint8) for sequence in measured.sequence])
    return PromoterDataset(
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


SETS = {
    "ecoli-mpra": ecoli_mpra,
    "ecoli-phage": lambda work: read_dataset(ecoli(work)),
    "yeast": lambda work: read_dataset(build_dataset(SHARED, work, "upstream", "arrays", "xii-xvi")),
    "yeast-coding": lambda work: read_dataset(build_dataset(SHARED, work, "coding", "arrays", "xii-xvi")),
    "plant-core": lambda work: read_dataset(plant_core(work)),
}


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        dataset = SETS[name](options.work)
        began = time.process_time()
        rows = default_baselines(dataset)
        seconds = time.process_time() - began
        test = dataset.genes_in(2)
        truth_GT = dataset.targets[test]
        draws = {
            row.name: resampled(median_pearson(truth_GT, row.predictions[test]), len(test)) for row in rows
        }
        lines = []
        for row in rows:
            gain = interval(draws[row.name] - draws["component ridge"])
            cells = [f"{side.get('pearson', np.nan):.3f}" for side in (row.validation, row.test)]
            specific = f"{row.test.get('specific_pearson', np.nan):.3f}"
            lines.append([row.name, row.choice, *cells, specific, f"{gain.low:+.3f} to {gain.high:+.3f}"])
        print(f"\n## {name}: {dataset!r}, {seconds:.0f} s of CPU time\n")
        heading = ["model", "chosen", "validation, median r", "test, median r", "without PC1", "gain"]
        print(table(heading, lines), flush=True)


if __name__ == "__main__":
    main()
