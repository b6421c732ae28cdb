"""Contacts from row attention beside those of the distogram head, on families held out; as Markdown.

    python benchmarks/attention_contacts.py MODEL FOLDER --dataset X.dataset.h5 -o WORK

MODEL is a folder of `bioattn train evoformer`; FOLDER holds the alignments of the contact dataset X, whose
training split the model may have learned from and whose other families it must not have seen. Row attention (mean
over rows) and distances are written by `run evoformer`; a regression over heads is fitted on the training split by
`export contacts --fit`. L: columns with a residue in the structure; pairs at least 6 columns apart.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from common import options, run, table

from bioattn.alignments.contact_dataset import TRAIN, open_contact_dataset
from bioattn.models.evoformer.training_families import TrainingFamily
from bioattn.structures.contacts import ContactScores, contact_scores, mean_scores


def scores(path: Path, column: str, family: TrainingFamily) -> ContactScores:
    """Scores of the pairs in a table of contacts."""
    predicted = pd.read_csv(path, sep="\t")
    places = {int(number) + 1: place for place, number in enumerate(family.columns)}
    values = np.full((len(places), len(places)), -np.inf)
    for i, j, value in predicted[["column_i", "column_j", column]].itertuples(index=False):
        if i in places and j in places:
            values[places[i], places[j]] = values[places[j], places[i]] = value
    return contact_scores(values, family.protein.cb, family.columns)


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("model", type=Path)
    parser.add_argument("alignments", type=Path)
    parser.add_argument("--dataset", type=Path, required=True)
    parser.add_argument("-o", "--work", type=Path, required=True)
    given = parser.parse_args()
    work = given.work
    work.mkdir(parents=True, exist_ok=True)
    (work / "mean.toml").write_text('[attention]\nreduce = "mean-rows"\n')
    maps, heads = work / "attention.h5", work / "heads.json"
    sites = f"--sites evoformer.*.msa_row -c {work}/mean.toml"
    output = f"-o {work}/run --attention {maps} {sites} --force -q"
    run(f"run evoformer {given.alignments} --model {given.model} {output}")
    run(f"export contacts {maps} --fit {given.dataset} -o {heads} -q")
    dataset = open_contact_dataset(given.dataset)
    found: dict[str, list[ContactScores]] = {}
    for family in (TrainingFamily(dataset.protein(index)) for index in range(len(dataset))):
        name = family.protein.id
        if family.protein.split == TRAIN:
            continue
        run(f"export contacts {maps} --sample {name} -o {work}/mean.tsv -q")
        run(f"export contacts {maps} --sample {name} --regression {heads} -o {work}/fitted.tsv -q")
        for title, path, column in (
            ("distogram head", work / "run" / name / "contacts.tsv", "probability"),
            ("row attention, L1 logistic regression", work / "fitted.tsv", "probability"),
            ("row attention, mean over heads", work / "mean.tsv", "score"),
        ):
            found.setdefault(title, []).append(scores(path, column, family))
    means = {title: mean_scores(each) for title, each in found.items()}
    rows = ([title, mean.precision_l5, mean.precision_l] for title, mean in means.items())
    number = len(next(iter(found.values()), []))
    print(table([f"{number} families held out", "P@L/5", "P@L"], rows))


if __name__ == "__main__":
    main()
