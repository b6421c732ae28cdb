"""Contacts against a plain loop and against the counts published with the shared pairs."""

import csv
import math
from pathlib import Path

import numpy as np

from bioattn.structures.contacts import contacts, distances, known_pairs


def test_contacts_equal_a_plain_loop() -> None:
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


def test_contact_counts_of_the_shared_pairs(shared: Path) -> None:
    """INDEX.tsv counts separation over the mapped residues, so gaps in the mapping are closed up here."""
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as index:
        for pair in csv.DictReader(index, delimiter="\t"):
            with (folder / pair["mapping"]).open() as mapping:
                rows = list(csv.DictReader(mapping, delimiter="\t"))
            cb = np.array([[float(row[f"cb_{axis}"]) for axis in "xyz"] for row in rows])
            assert contacts(cb).sum() // 2 == int(pair["n_contacts_sep6_8A"]), pair["id"]
