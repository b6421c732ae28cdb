"""Rules beyond "motif present": near or far from the gene, two motifs needed, opposite signs.

    python benchmarks/planted_rules.py --seeds 0 1 2 -o planted-rules.md

`simulate promoters`, `prepare` and `train` as a user would. For every rule: the share of it that the predictions
for held-out promoters have (slope of predicted on true contrast, `rule_shares`), and the mean r over treatments.
First row: the simple model that is best on the validation promoters.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from common import options, report_by_seed, run

import bioattn
from bioattn.interpret.localisation import rule_shares
from bioattn.models.promoter.training.baselines import best_simple, default_baselines
from bioattn.simulate.truth import read_truth

TREATMENTS = ("anywhere", "near", "far", "opposite", "opposite, other way", "pair")
# substitution_rate=0: nobody can tell a motif with a substitution from one by chance
SIMULATION = "--genes 4000 --near 1 --far 1 --opposites 1 --pairs 1 -c simulation.substitution_rate=0"
OWN_BIAS = 'position_bias = "treatment"\n'
SHARED = OWN_BIAS + 'readout = "shared"\n'
MODELS = {
    "own readout": "",
    "own readout, own bias": OWN_BIAS,
    "shared readout, own bias": SHARED,
    "shared readout, own bias, 2 hops": SHARED + "hops = 2\nsink = true\n",
    "shared hidden readout, own bias": SHARED + 'reader = "hidden"\nsink = true\n',
}
"""Settings of `[model]`."""


def measure(folder: Path, seed: int, epochs: int, chosen: list[str]) -> list[dict[str, object]]:
    """Simulate once, train every model; one row of figures each."""
    sim, fasta, dataset = folder / "sim", folder / "promoters.fa", folder / "x.dataset.h5"
    run(f"simulate promoters {SIMULATION} -q", "-o", sim, "--seed", seed)
    window = "--upstream 400 --downstream 0 --flank 20"
    run(f"prepare promoters {sim}/genome.fa {sim}/annotation.gff3 {window} -o {fasta} -q")
    sides = "--holdout validation=chr7 --holdout test=chr8"
    run(f"prepare dataset {fasta} {sim}/responses.tsv {sides} -o {dataset} -q")
    data = bioattn.open(dataset)
    test = data.gene_split == 2
    measured = pd.DataFrame(data.targets, data.gene_ids, data.treatments.names)[test]
    truth = read_truth(sim / "truth.tsv")
    simple = best_simple(default_baselines(data), data.task)
    assert simple is not None
    predictions = {simple.name: measured * 0 + simple.predictions[test]}
    for name in chosen:
        model = folder / name.replace(" ", "_")
        (folder / "settings.toml").write_text(f"[model]\n{MODELS[name]}")
        settings = f"-c {folder}/settings.toml --epochs {epochs} --seed {seed} --no-baselines -q"
        run(f"train promoter {dataset} {settings} -o", model)
        predictions[name] = bioattn.load_model(model).predict(fasta).loc[measured.index]
    return [
        {"seed": seed, "model": name}
        | dict(zip(TREATMENTS, rule_shares(truth, predicted), strict=False))
        | {"mean r": np.mean([np.corrcoef(predicted[t], measured[t])[0, 1] for t in measured])}
        for name, predicted in predictions.items()
    ]


if __name__ == "__main__":
    parser = options(__doc__, seeds=(0, 1, 2))
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    given = parser.parse_args()
    report_by_seed(
        lambda folder, seed: measure(folder, seed, given.epochs, given.models), given.seeds, given.output
    )
