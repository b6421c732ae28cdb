"""How good are the simple models that stand beside a promoter network, and how long do they take?

    BIOATTN_SHARED=../shared python benchmarks/simple_models.py --work DIR
    BIOATTN_SHARED=../shared python benchmarks/simple_models.py --work DIR --sets ecoli-mpra

Nothing is drawn at random but the tenth of the measured E. coli promoters that is held out. All settings are
chosen on validation promoters. The gain is over the component ridge: 95 % intervals, paired over test promoters.
"""

import time
from pathlib import Path

import never_below
import numpy as np
from common import options as command_line
from common import table

from bioattn.models.promoter.training.baselines import default_baselines
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.response_metrics import interval, median_pearson, resampled

SETS = ("ecoli-mpra", "ecoli", "yeast-xii-xvi", "yeast-coding", "plant-core")


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        dataset = read_dataset(never_below.SETS[name](options.work))
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
