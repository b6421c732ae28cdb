"""Contacts from maps of language models, through the command line, against plain loops and scikit-learn."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.models.language.config import Shape
from bioattn.models.language.model import LanguageModel
from bioattn.sequences.choices import Alphabet
from bioattn.store.reader import open_attention
from tests.making import bioattn, shaken
from tests.models.language.made_models import make_model, saved

FAMILIES = Path(__file__).parents[3] / "data" / "families"
NAMES = [f"simulated00000{number}" for number in range(3)]
STRENGTH = 0.5


def write_model(path, shape=Shape.ENCODER):
    """A model of proteins whose maps are far from uniform."""
    torch.manual_seed(1)
    config = replace(make_model(shape).config, alphabet=Alphabet.PROTEIN, context=80)
    model = shaken(LanguageModel(config))
    saved(path, model)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three sequences with their structures, two to fit on, and the maps of an encoder."""
    folder = tmp_path_factory.mktemp("contacts")
    rows = ["id\tmsa\tstructure\tchain\tsplit"]
    for name, split in zip(NAMES, ("train", "train", "test"), strict=True):
        query = (FAMILIES / "msa" / f"{name}.a3m").read_text().split("\n")[1]
        (folder / f"{name}.fa").write_text(f">{name}\n{query}\n")
        rows.append(f"{name}\t{name}.fa\t{FAMILIES / 'structure' / name}.pdb\tA\t{split}")
    (folder / "pairs.tsv").write_text("\n".join(rows) + "\n")
    (folder / "all.fa").write_text("".join((folder / f"{name}.fa").read_text() for name in NAMES))
    write_model(folder / "model")
    assert bioattn("prepare", "contacts", folder / "pairs.tsv", "-o", folder / "x.dataset.h5") == 0
    assert bioattn("export", "attention", folder / "model", folder / "all.fa", "-o", folder / "x.h5") == 0
    return folder


def plain_maps(path, name, stack="encoder"):
    """Of every layer and head, the corrected map by loops."""
    found = []
    with open_attention(path) as file:
        for layer, head in np.ndindex(2, 2):
            weights = file.weights(f"language.{stack}.{layer}", sample=name, head=head).astype(float)
            size = len(weights) - 2
            both = np.array(
                [
                    [weights[i + 1, j + 1] + weights[j + 1, i + 1] if i != j else 0.0 for j in range(size)]
                    for i in range(size)
                ]
            )
            shares = [sum(row) / (size - 1) for row in both]
            mean = sum(shares) / size
            found.append(
                [[both[i, j] - shares[i] * shares[j] / mean for j in range(size)] for i in range(size)]
            )
    return np.array(found)


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_a_regression_fitted_on_sequences_and_structures(folder, monkeypatch):
    monkeypatch.setattr("bioattn.interpret.contacts.INVERSE_STRENGTH", STRENGTH)
    fit = ("--fit", folder / "x.dataset.h5", "-o", folder / "heads.json")
    assert bioattn("export", "contacts", folder / "x.h5", *fit) == 0
    dataset = open_contact_dataset(folder / "x.dataset.h5")
    features, labels = [], []
    for number, name in enumerate(NAMES[:2]):
        maps, cb = plain_maps(folder / "x.h5", name), dataset.protein(number).cb
        for i in range(len(cb)):
            for j in range(i + 6, len(cb)):
                distance = np.linalg.norm(cb[i] - cb[j])
                if not np.isnan(distance):
                    features.append(maps[:, i, j])
                    labels.append(distance < 8)
    features = np.array(features)
    scale = features.std(axis=0)
    reference = LogisticRegression(
        l1_ratio=1.0, solver="saga", C=STRENGTH, tol=1e-6, max_iter=5000, random_state=0
    ).fit(features / scale, labels)
    fitted = json.loads((folder / "heads.json").read_text())
    weights = np.concatenate([fitted["weights"][f"language.encoder.{layer}"] for layer in range(2)])
    assert np.abs(reference.coef_).max() > 0.05
    np.testing.assert_allclose(weights * scale, reference.coef_[0], atol=3e-3)
    assert fitted["intercept"] == pytest.approx(reference.intercept_[0], abs=3e-3)
    assert fitted["proteins"] == NAMES[:2]

    known = ("--regression", folder / "heads.json")
    for output in ("c.tsv", "c.rr"):
        command = ("export", "contacts", folder / "x.h5", *known, "--sample", NAMES[2])
        assert bioattn(*command, "-o", folder / output) == 0
    logits = fitted["intercept"] + np.tensordot(weights, plain_maps(folder / "x.h5", NAMES[2]), 1)
    query = (folder / f"{NAMES[2]}.fa").read_text().split("\n")[1]
    rows = table(folder / "c.tsv")
    assert len(rows) == (len(query) - 6) * (len(query) - 5) // 2
    for row in rows:
        i, j = int(row["column_i"]) - 1, int(row["column_j"]) - 1
        assert (row["letter_i"], row["letter_j"]) == (query[i], query[j])
        assert float(row["probability"]) == pytest.approx(1 / (1 + np.exp(-logits[i, j])), abs=1e-5)
    assert query in (folder / "c.rr").read_text().replace("\n", "")
    assert bioattn("validate", folder / "x.h5") == 0
