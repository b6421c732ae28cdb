"""The yeast benchmark's inputs: Gasch 2000 as responses and treatments that `bioattn prepare` reads.

The five `control` arrays are dropped. The hs-2 and dtt-2 series were hybridised against another reference than
the rest, so the mean of their own time-0 arrays is subtracted from them (which are not near zero: SD 0.6 to 0.75).
"""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pandas as pd
from commands import run

from bioattn.promoters.dataset import TEST, TRAIN, PromoterDataset, read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable

TEST_CHROMOSOMES = {
    "iv-xv": ("BK006938.2", "BK006948.2"),
    # Their genes were training genes while settings were found, so no score of theirs was ever in view.
    "xii-xvi": ("BK006945.2", "BK006949.2"),
}
VALIDATION_CHROMOSOMES = ("BK006941.2", "BK006943.2")  # VII, X
WINDOWS = {"upstream": (600, 0), "coding": (800, 200), "near": (256, 0)}
"""Bases before and after the start codon."""
FLANK = 50
SERIES_WITH_OWN_REFERENCE = ("(hs-2)", "(dtt-2)")

AGENTS = {
    "heat": "temperature shift",
    "cold": "temperature shift",
    "mild_heat": "temperature shift",
    "temperature_steady": "steady temperature",
    "H2O2": "hydrogen peroxide",
    "carbon": "carbon source",
    "sorbitol": "osmotic shift",
    "hypo_osmotic": "osmotic shift",
    "MSN2_overexpression": "overexpression",
    "MSN4_overexpression": "overexpression",
    "YAP1_overexpression": "overexpression",
}
"""Agent by the longest matching start of the group's name; other groups are their own agent."""
OSMOTIC = {
    "mild_heat_osmotic": "sorbitol throughout",
    "mild_heat_hypoosmotic": "sorbitol removed",
    "sorbitol": "sorbitol added",
    "hypo_osmotic": "sorbitol removed",
}
STRAINS = {
    "msn2msn4_mutant": "msn2 msn4",
    "yap1_mutant": "yap1",
    "strain_wt": "DBY7286",
    "MSN2_overexpression": "MSN2 overexpressed",
    "MSN4_overexpression": "MSN4 overexpressed",
    "YAP1_overexpression": "YAP1 overexpressed",
}
MOLECULES = {
    "H2O2": "hydrogen_peroxide",
    "DTT": "dithiothreitol",
    "menadione": "menadione",
    "diamide": "diamide",
    "sorbitol": "sorbitol",
    **{
        f"carbon_{name}": name
        for name in ("ethanol", "fructose", "galactose", "glucose", "mannose", "raffinose", "sucrose")
    },
}
"""What was added, by the start of the group's name: ids of smiles/treatment_smiles.tsv."""
TEMPERATURES = {
    "heat_shock_25_37": (25, 37),
    "heat_shock_30_37": (30, 37),
    "cold_shift_37_25": (37, 25),
    "mild_heat": (29, 33),
}
HELD_OUT_GROUPS = (
    "heat_shock_30_37",
    "heat_shock_var_37",
    "H2O2_msn2msn4_mutant",
    "heat_yap1_mutant",
    "temperature_steady_ct1",
)
"""Whole groups whose agent and strain each occur in another group, so that their features can be read."""


def gasch_responses(yeast: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Log2 ratios (genes × 168 arrays) and the conditions table of these arrays, both indexed by array name."""
    responses = pd.read_csv(yeast / "gasch2000_log2ratio.tsv.gz", sep="\t", index_col=0)
    conditions = pd.read_csv(yeast / "gasch2000_conditions.tsv", sep="\t", index_col=0)
    if list(responses.columns) != list(conditions.index):
        raise SystemExit("gasch2000_conditions.tsv and gasch2000_log2ratio.tsv.gz name different arrays")
    control = conditions["group"] == "control"
    for series in SERIES_WITH_OWN_REFERENCE:
        in_series = conditions["treatment"].str.contains(series, regex=False)
        baseline = responses.loc[:, in_series & control].mean(axis=1)
        responses.loc[:, in_series & ~control] = responses.loc[:, in_series & ~control].sub(baseline, axis=0)
    return responses.loc[:, ~control], conditions.loc[~control]


def treatment_features(conditions: pd.DataFrame) -> pd.DataFrame:
    """What was done, per array: agent, strain, osmotic change, carbon source, dose, temperatures, minutes."""
    rows = []
    for _, condition in conditions.iterrows():
        group = condition["group"]
        dose = condition["dose"] if isinstance(condition["dose"], str) else ""
        start, end = temperatures(group, dose)
        rows.append(
            {
                "agent": longest_prefix(AGENTS, group) or group,
                "strain": next((strain for part, strain in STRAINS.items() if part in group), "wild type"),
                "osmotic": OSMOTIC.get(group, "none"),
                "carbon": group.removeprefix("carbon_") if group.startswith("carbon_") else "glucose",
                "dose": "" if dose.endswith(" C") else dose,
                "start_celsius": start,
                "end_celsius": end,
                "minutes": condition["minutes"],
                "group": group,
            }
        )
    return pd.DataFrame(rows, index=pd.Index(conditions.index, name="treatment"))


def temperatures(group: str, dose: str) -> tuple[float, float]:
    """Start and end temperature in °C, NaN where the group does not say."""
    known = longest_prefix(TEMPERATURES, group)
    if known is not None:
        return known
    shift = re.fullmatch(r"(\d+)->(\d+) C", dose)
    if shift:
        return float(shift[1]), float(shift[2])
    steady = re.fullmatch(r"(\d+) C", dose)
    if steady and group.startswith("temperature_steady"):
        return float(steady[1]), float(steady[1])
    return (np.nan, float(steady[1])) if steady else (np.nan, np.nan)


def longest_prefix(values, name):
    """The value of the longest key that `name` starts with, or None."""
    keys = [key for key in values if name.startswith(key)]
    return values[max(keys, key=len)] if keys else None


def held_out_times(conditions: pd.DataFrame) -> list[str]:
    """Every third array inside each time course of five or more, never the first or last."""
    held_out = []
    for _, course in conditions.dropna(subset="minutes").groupby("treatment", sort=False):
        ordered = course.sort_values("minutes", kind="stable").index
        if course["minutes"].nunique() >= 5:
            held_out += list(ordered[2:-1:3])
    return held_out


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
    if variant.startswith("held-out"):
        arrays = read_dataset(build_dataset(shared, work, window, "arrays", test))
        _, conditions = gasch_responses(shared / "data" / "yeast")
        held_out = with_held_out(arrays, conditions, variant.removesuffix("-molecules"))
        if variant.endswith("-molecules"):
            known = pd.read_csv(shared / "data/smiles/treatment_smiles.tsv", sep="\t", index_col="id")[
                "smiles"
            ]
            names = [longest_prefix(MOLECULES, group) for group in conditions["group"]]
            smiles = ["" if name is None else known[name] for name in names]
            table = TreatmentTable(held_out.treatments.frame.assign(smiles=smiles))
            held_out = dataclasses.replace(held_out, treatments=table)
        write_dataset(path, held_out)
        return path
    responses, conditions = gasch_responses(shared / "data" / "yeast")
    features = treatment_features(conditions)
    if variant == "groups":
        # Per-group means; only what all arrays of a group share stays a feature.
        responses = responses.T.groupby(conditions["group"], sort=False).mean().T
        features = features.groupby("group", sort=False).first()[["agent", "strain", "osmotic", "carbon"]]
        features.index.name = "treatment"
    else:
        features = features.drop(columns="group")
    responses.to_csv(folder / f"{variant}.responses.tsv", sep="\t", index_label="gene")
    features.to_csv(folder / f"{variant}.treatments.tsv", sep="\t")
    prepare(shared / "data" / "yeast", folder, variant, path, *WINDOWS[window], TEST_CHROMOSOMES[test])
    return path


def dataset_folder(work: Path, window: str, test: str) -> Path:
    """Where the datasets of a window and a choice of test chromosomes stand."""
    return work / (window if test == "iv-xv" else f"{window}-{test}")


def with_held_out(dataset: PromoterDataset, conditions: pd.DataFrame, variant: str) -> PromoterDataset:
    """The dataset with time points or whole groups as test treatments."""
    if variant == "held-out-times":
        held_out = set(held_out_times(conditions))
    else:
        held_out = set(conditions.index[conditions["group"].isin(HELD_OUT_GROUPS)])
    split = np.array([TEST if name in held_out else TRAIN for name in dataset.treatments.names], np.uint8)
    return dataclasses.replace(dataset, treatment_split=split)


def prepare(
    yeast: Path,
    folder: Path,
    variant: str,
    output: Path,
    upstream: int,
    downstream: int,
    test: tuple[str, ...],
) -> None:
    """Run the two `bioattn prepare` commands a user would run."""
    promoters = folder / "promoters.fa"
    genome, annotation = yeast / "R64_genbank.genome.fa.gz", yeast / "R64_genbank.gff3.gz"
    responses, treatments = folder / f"{variant}.responses.tsv", folder / f"{variant}.treatments.tsv"
    if not promoters.exists():
        run(
            f"prepare promoters {genome} {annotation} -o {promoters} --upstream {upstream} "
            f"--downstream {downstream} --anchor cds --flank {FLANK} --biotype protein_coding "
            "--id-attribute locus_tag"
        )
    run(
        f"prepare dataset {promoters} {responses} -o {output} --treatment-table {treatments} --split chromosome "
        f"--holdout test={','.join(test)} --holdout validation={','.join(VALIDATION_CHROMOSOMES)} "
        "--standardize treatment"
    )
