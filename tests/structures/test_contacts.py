"""Contacts and their precision against loops and against figures published with the shared pairs."""

import csv
import math

import numpy as np
import pytest

from bioattn.structures.contacts import (
    ContactScores,
    contact_scores,
    contacts,
    distances,
    known_pairs,
    mean_scores,
)


def test_contacts_equal_a_plain_loop():
    random = np.random.default_rng(2)
    cb = random.normal(0, 6, (30, 3))
    cb[[4, 17]] = np.nan
    found, judged, apart = contacts(cb), known_pairs(cb), distances(cb)
    for i in range(30):
        for j in range(30):
            known = not (math.isnan(cb[i, 0]) or math.isnan(cb[j, 0]))
            away = math.dist(cb[i], cb[j]) if known else math.nan
            assert judged[i, j] == (known and abs(i - j) >= 6)
            assert found[i, j] == (known and abs(i - j) >= 6 and away < 8)
            assert math.isnan(apart[i, j]) == (not known)
            if known:
                assert abs(apart[i, j] - away) < 1e-5
    assert found.any()


def test_contact_counts_of_the_shared_pairs(shared):
    """INDEX.tsv counts separation over the mapped residues, so gaps in the mapping are closed up here."""
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as index:
        for pair in csv.DictReader(index, delimiter="\t"):
            with (folder / pair["mapping"]).open() as mapping:
                rows = list(csv.DictReader(mapping, delimiter="\t"))
            cb = np.array([[float(row[f"cb_{axis}"]) for axis in "xyz"] for row in rows])
            assert contacts(cb).sum() // 2 == int(pair["n_contacts_sep6_8A"]), pair["id"]


def loop_precision(scores, cb, number_of):
    pairs = []
    for i in range(len(cb)):
        for j in range(i + 6, len(cb)):
            if not (np.isnan(cb[i]).any() or np.isnan(cb[j]).any()):
                pairs.append((-scores[i][j], i, j, math.dist(cb[i], cb[j]) < 8))
    pairs.sort()
    best = pairs[: number_of(sum(not np.isnan(place).any() for place in cb))]
    return sum(near for *_, near in best) / len(best)


def test_precision_is_that_of_loops():
    random = np.random.default_rng(0)
    cb = random.normal(0, 8, (40, 3))
    cb[[3, 17, 18]] = np.nan
    scores = random.normal(size=(40, 40)).round(1)
    scores = scores + scores.T
    found = contact_scores(scores, cb)
    assert found.precision_l5 == pytest.approx(loop_precision(scores, cb, lambda length: length // 5))
    assert found.precision_l == pytest.approx(loop_precision(scores, cb, lambda length: length))


def test_nothing_to_judge_is_not_a_number_and_left_out_of_means():
    none = contact_scores(np.zeros((5, 5)), np.zeros((5, 3)))
    assert math.isnan(none.precision_l)
    one = ContactScores(precision_l5=0.5, precision_l=0.25)
    assert mean_scores([none, one]) == one


def test_shared_pairs_reach_what_was_measured(shared):
    """Mean-field DCA and mutual information of the Pfam pairs, measured apart: 0.77/0.50 and 0.62/0.42."""
    from bioattn.models.evoformer.training_families import (
        MEAN_FIELD,
        MUTUAL_INFORMATION,
        TrainingFamily,
        coupling_scores,
    )

    names = ["PF00542_1CTF_A", "PF00018_2O9S_A", "PF00240_2BWF_A", "PF00013_1WVN_A", "PF08666_1UCS_A"]
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as file:
        published = {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}
    families = [TrainingFamily(shared_protein(folder, published[name])) for name in names]
    scores = [coupling_scores(family) for family in families]
    ours = mean_scores([each[MUTUAL_INFORMATION] for each in scores])
    theirs = [float(published[name]["apc_mi_P@L"]) for name in names]
    assert ours.precision_l == pytest.approx(np.mean(theirs), abs=0.06)
    direct = mean_scores([each[MEAN_FIELD] for each in scores])
    assert direct.precision_l5 > 0.7


def shared_protein(folder, row):
    from bioattn.alignments.contact_dataset import TRAIN, ContactProtein
    from bioattn.alignments.input_features import encode_alignment
    from bioattn.formats.alignment_file import read_alignment
    from bioattn.structures.chain import read_chain
    from bioattn.structures.column_mapping import read_mapping

    alignment = read_alignment(folder / row["msa"])
    chain = read_chain(folder / row["structure"], row["chain"])
    mapping = read_mapping(folder / row["mapping"], chain, alignment.num_columns)
    encoded = encode_alignment(alignment)
    return ContactProtein(
        id=row["id"],
        group=row["id"],
        split=TRAIN,
        chain=row["chain"],
        msa=encoded.msa,
        deletions=encoded.deletions,
        aatype=encoded.aatype,
        cb=mapping.column_cb(chain, alignment.num_columns),
        residue_numbers=[""] * alignment.num_columns,
    )
