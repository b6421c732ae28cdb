"""Molecule models beside what knows fingerprints alone: drugs × gut bacteria, solubility, planted substructures.

    BIOATTN_SHARED=../shared python benchmarks/molecules.py maier-valid --seeds 0 1 2
    BIOATTN_SHARED=../shared python benchmarks/molecules.py maier-folds --seeds 0 1 2
    BIOATTN_SHARED=../shared python benchmarks/molecules.py delaney-scaffold --seeds 0 1 2
    BIOATTN_SHARED=../shared python benchmarks/molecules.py delaney-random --seeds 0 1 2
    python benchmarks/molecules.py planted --seeds 0 1 2

Five folds (SHA-1 of the Murcko scaffold, without rings and for random folds of the molecule's name, mod 5) are
predicted one after the other by models of the other four, and judged together. `ensemble`: the mean prediction of
all seeds.
"""

import hashlib
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import SHARED, bioattn, options, run

from bioattn.figures.molecule import read_coloured_molecule
from bioattn.models.molecule.family import FAMILY, MoleculeTraining
from bioattn.models.molecule.run import load_molecule_model
from bioattn.molecules.dataset import open_molecule_dataset
from bioattn.molecules.similarity import NadarayaWatson, TanimotoProcess
from bioattn.promoters.response_metrics import auroc, average_precision, estimate, mean_squared_error
from bioattn.store.reader import open_attention
from bioattn.training.run import train

CPU = torch.device("cpu")
DATA = SHARED / "data" / "molecules"
PLANTED = """[model]
gaussian_process = false
radius = 2
channels = 24
slots = 32
hidden = 0
[training]
steps = 200
learning_rate = 1e-2
average_decay = 0.9
"""


def fold_of(text):
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % 5


def prepared(what, work):
    """The table, options of its measured values, and the audit by molecule."""
    table, responses, split = DATA / "delaney.tsv.gz", [], []
    if what == "maier":
        table = DATA / "maier_drugs.tsv.gz"
        responses, split = ["--responses", DATA / "maier_inhibition.tsv.gz"], ["--split-table", table]
    bioattn("prepare molecules", table, "-o", work / f"{what}.dataset.h5", *responses, *split)
    audit = pd.read_csv(work / f"{what}.dataset.audit.tsv", sep="\t", index_col=0, keep_default_na=False)
    return table, responses, audit[audit["status"] == "kept"]


def forest(dataset, known, asked):
    """A random forest on nine descriptors (RDKit, scikit-learn)."""
    from rdkit.Chem import Descriptors, MolFromSmiles, rdMolDescriptors
    from sklearn.ensemble import RandomForestRegressor

    describe = (
        Descriptors.MolWt,
        Descriptors.MolLogP,
        Descriptors.TPSA,
        rdMolDescriptors.CalcNumHBD,
        rdMolDescriptors.CalcNumHBA,
        rdMolDescriptors.CalcNumRotatableBonds,
        rdMolDescriptors.CalcNumAromaticRings,
        rdMolDescriptors.CalcNumRings,
        Descriptors.HeavyAtomCount,
    )
    molecules = [MolFromSmiles(smiles) for smiles in dataset.molecules.smiles]
    values = np.array([[each(molecule) for each in describe] for molecule in molecules])
    fitted = RandomForestRegressor(500, random_state=0).fit(values[known], dataset.targets_NT[known, 0])
    return fitted.predict(values[asked])[:, None]


def held_out(what, sides, work, encoder, seed):
    """Names, truth and predictions of the molecules on the test side of `sides`, by model."""
    table, responses, _ = prepared(what, work)
    pd.Series(sides, name="split").rename_axis("molecule").to_csv(work / "split.tsv", sep="\t")
    path = work / "x.dataset.h5"
    bioattn("prepare molecules", table, "-o", path, *responses, "--split-table", work / "split.tsv")
    dataset = open_molecule_dataset(path)
    known, asked = dataset.side(0), dataset.side(2)
    bits, targets = dataset.molecules.fingerprints, dataset.targets_NT.astype(float)
    found = {
        "Nadaraya-Watson": NadarayaWatson(bits[known], targets[known]).predict(bits[asked]),
        "Nadaraya-Watson, exp(12 T)": NadarayaWatson(bits[known], targets[known], 12.0).predict(bits[asked]),
        "Gaussian process": TanimotoProcess(bits[known], targets[known]).predict(bits[asked]),
    }
    if what == "delaney":
        found["forest"] = forest(dataset, known, asked)
    began = time.process_time()
    settings = MoleculeTraining(
        dataset=path, output=work / "model", force=True, model={"encoder": encoder}, training={"seed": seed}
    )
    train(FAMILY, settings, device=CPU)
    loaded = load_molecule_model(work / "model", CPU)
    batches = [asked[first : first + 64] for first in range(0, len(asked), 64)]
    found[encoder] = np.concatenate([loaded.predict(dataset.molecules, rows) for rows in batches])
    print(f"  seed {seed}: {time.process_time() - began:.0f} CPU s", flush=True)
    return [dataset.molecules.ids[row] for row in asked], targets[asked], found


def judged(binary, truth, predictions):
    def statistic(weights):
        if binary:
            areas = (auroc(truth, predictions, weights), average_precision(truth, predictions, weights))
            return [np.nanmean(each, axis=1) for each in areas]
        return [np.nanmean(np.sqrt(mean_squared_error(truth, predictions, weights)), axis=1)]

    cells = []
    for place in range(2 if binary else 1):
        found = estimate(lambda weights, place=place: statistic(weights)[place], len(truth), 200)
        cells.append(f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]")
    return cells


def compare(what, how, encoder, seeds):
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _, _, audit = prepared(what, work)
        if how == "valid":
            folds = [audit["split"].map({"train": "train", "validation": "test"}).to_dict()]
        else:
            names = audit.index.to_series()
            groups = names if how == "random" else audit["scaffold"].where(audit["scaffold"] != "", names)
            number = groups.map(fold_of)
            folds = [
                number.map(lambda each, k=k: "test" if each == k else "train").to_dict() for k in range(5)
            ]
        truth, pooled = None, {}
        for seed in seeds:
            parts = [held_out(what, sides, work, encoder, seed) for sides in folds]
            truth = np.concatenate([part[1] for part in parts])
            for name in parts[0][2]:
                values = np.concatenate([part[2][name] for part in parts])
                pooled[f"{name}, seed {seed}" if name == encoder else name] = values
        own = [values for name, values in pooled.items() if name.startswith(f"{encoder}, seed")]
        pooled[f"{encoder}, ensemble"] = np.mean(own, axis=0)
        for name, values in pooled.items():
            print(
                f"| {what}-{how} | {name} | " + " | ".join(judged(what == "maier", truth, values)) + " |",
                flush=True,
            )


def planted(encoder, seeds):
    """AUROC of the atoms of the planted substructure in held-out molecules."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            table, dataset = work / "made" / "molecules.tsv", work / "x.dataset.h5"
            run(f"simulate molecules -o {work}/made --seed {seed} -q")
            run(f"prepare molecules {table} --split random -o {dataset} -q")
            (work / "c.toml").write_text(PLANTED)
            began = time.process_time()
            words = f"--encoder {encoder} -c {work}/c.toml --seed {seed} -q"
            run(f"train molecule {dataset} -o {work}/model {words}")
            seconds = time.process_time() - began
            run(f"export attention {work}/model {table} -o {work}/a.h5 -q")
            results = json.loads((work / "model" / "training.json").read_text())["evaluation"]
            truth = pd.read_csv(work / "made" / "truth.tsv", sep="\t", index_col=0, keep_default_na=False)[
                "atoms"
            ]
            opened = open_molecule_dataset(dataset)
            names = [opened.molecules.ids[row] for row in opened.side(2)]
            areas = {}
            with open_attention(work / "a.h5") as file:
                for by in [False, True] if encoder == "attention" else [False]:
                    for name in (name for name in names if truth[name]):
                        values = read_coloured_molecule(file, sample=name, by_attention=by).values
                        labels = np.zeros(len(values))
                        labels[np.array(truth[name].split(","), int) - 1] = 1
                        kind = "attention" if by else "contributions"
                        areas.setdefault(kind, []).append(auroc(labels[:, None], values[:, None])[0, 0])
            rmse = [row["rmse"] for row in results if row["side"] == "test"]
            cells = ", ".join(f"{kind} {np.mean(each):.3f} ({len(each)})" for kind, each in areas.items())
            row = f"| planted | {encoder}, seed {seed} | atoms: {cells} | test RMSE, NW, GP: {rmse} |"
            print(f"{row} {seconds:.0f} CPU s |", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = options(__doc__, seeds=(0,), output=False)
    parser.add_argument("what")
    parser.add_argument("--encoder", default="fingerprint")
    arguments = parser.parse_args()
    what, _, how = arguments.what.partition("-")
    if what == "planted":
        planted(arguments.encoder, arguments.seeds)
    else:
        compare(what, how, arguments.encoder, arguments.seeds)
