"""The yeast benchmark's inputs: Gasch 2000 as responses and treatments that `bioattn prepare` reads.

The five `control` arrays are dropped. The hs-2 and dtt-2 series were hybridised against another reference than
the rest, so the mean of their own time-0 arrays is subtracted from them (which are not near zero: SD 0.6 to 0.75).

`yeast_treatments.tsv` says for each of the 168 arrays what was done, as its name in the shared data tells it:
agent, strain, osmotic change, carbon source, dose, temperatures before and after (°C), minutes, and what molecule
was added. `held_out` names every third array inside time courses of five or more (`time`, never first or last),
and whole groups whose agent and strain each occur in another group (`group`).
"""

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
from common import run

from bioattn.choices import TEST, TRAIN
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable

TEST_CHROMOSOMES = {
    "iv-xv": ("BK006938.2", "BK006948.2"),
    # Their genes were training genes while settings were found, so no score of theirs was ever in view.
    "xii-xvi": ("BK006945.2", "BK006949.2"),
}
VALIDATION_CHROMOSOMES = ("BK006941.2", "BK006943.2")  # VII, X
WINDOWS = {"upstream": (600, 0), "coding": (800, 200), "near": (256, 0)}
"""Bases before and after the start codon."""
SERIES_WITH_OWN_REFERENCE = ("(hs-2)", "(dtt-2)")


def gasch_responses(yeast: Path) -> pd.DataFrame:
    """Log2 ratios, genes × 168 arrays."""
    responses = pd.read_csv(yeast / "gasch2000_log2ratio.tsv.gz", sep="\t", index_col=0)
    conditions = pd.read_csv(yeast / "gasch2000_conditions.tsv", sep="\t", index_col=0)
    if list(responses.columns) != list(conditions.index):
        raise SystemExit("gasch2000_conditions.tsv and gasch2000_log2ratio.tsv.gz name different arrays")
    control = conditions["group"] == "control"
    for series in SERIES_WITH_OWN_REFERENCE:
        in_series = conditions["treatment"].str.contains(series, regex=False)
        baseline = responses.loc[:, in_series & control].mean(axis=1)
        responses.loc[:, in_series & ~control] = responses.loc[:, in_series & ~control].sub(baseline, axis=0)
    return responses.loc[:, ~control]


def treatment_features() -> pd.DataFrame:
    """What was done, per array, with its group, molecule and side."""
    path = Path(__file__).with_name("yeast_treatments.tsv")
    return pd.read_csv(
        path,
        sep="\t",
        index_col="treatment",
        keep_default_na=False,
        na_values={"minutes": "", "start_celsius": "", "end_celsius": ""},
    )


def build_dataset(shared: Path, work: Path, window: str, variant: str, test: str = "iv-xv") -> Path:
    """The dataset file of a window and a variant, made by `bioattn prepare` where it does not exist yet.

    variant: `arrays` (168 arrays), `groups` (means of the 35 groups without controls), `held-out-times` and
    `held-out-groups` (the arrays, some kept out of training as treatments), these also with `-molecules` (a column
    smiles). test: a key of `TEST_CHROMOSOMES`.
    """
    folder = dataset_folder(work, window, test)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{variant}.dataset.h5"
    if path.exists():
        return path
    features = treatment_features()
    if variant.startswith("held-out"):
        arrays = read_dataset(build_dataset(shared, work, window, "arrays", test))
        kind = "time" if variant.startswith("held-out-times") else "group"
        split = np.where(features["held_out"] == kind, TEST, TRAIN).astype(np.uint8)
        table = arrays.treatments
        if variant.endswith("-molecules"):
            table = TreatmentTable(table.frame.assign(smiles=features["smiles"].to_numpy()))
        write_dataset(path, dataclasses.replace(arrays, treatments=table, treatment_split=split))
        return path
    responses = gasch_responses(shared / "data" / "yeast")
    told = features.drop(columns=["group", "smiles", "held_out"])
    if variant == "groups":
        # Per-group means; only what all arrays of a group share stays a feature.
        responses = responses.T.groupby(features["group"], sort=False).mean().T
        told = features.groupby("group", sort=False).first()[["agent", "strain", "osmotic", "carbon"]]
    responses.to_csv(folder / f"{variant}.responses.tsv", sep="\t", index_label="gene")
    told.to_csv(folder / f"{variant}.treatments.tsv", sep="\t", index_label="treatment")
    prepare(shared / "data" / "yeast", folder, variant, window, TEST_CHROMOSOMES[test])
    return path


def dataset_folder(work: Path, window: str, test: str) -> Path:
    """Where the datasets of a window and a choice of test chromosomes stand."""
    return work / (window if test == "iv-xv" else f"{window}-{test}")


def prepare(yeast: Path, folder: Path, variant: str, window: str, test: tuple[str, ...]) -> None:
    """Run the two `bioattn prepare` commands a user would run."""
    promoters, (upstream, downstream) = folder / "promoters.fa", WINDOWS[window]
    if not promoters.exists():
        run(
            f"prepare promoters {yeast}/R64_genbank.genome.fa.gz {yeast}/R64_genbank.gff3.gz -o {promoters} "
            f"--upstream {upstream} --downstream {downstream} --anchor cds --flank 50 --biotype protein_coding "
            "--id-attribute locus_tag"
        )
    run(
        f"prepare dataset {promoters} {folder}/{variant}.responses.tsv -o {folder}/{variant}.dataset.h5 "
        f"--treatment-table {folder}/{variant}.treatments.tsv --split chromosome --standardize treatment "
        f"--holdout test={','.join(test)} --holdout validation={','.join(VALIDATION_CHROMOSOMES)}"
    )
