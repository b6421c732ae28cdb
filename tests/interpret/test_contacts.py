"""Contacts from attention: planted in one head, found by the regression, exported as RR and as a table."""

import json
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from bioattn.alignments.alphabet import RESIDUES
from bioattn.alignments.contact_dataset import ContactProtein, write_contact_dataset
from bioattn.choices import TEST, TRAIN, Reduction
from bioattn.errors import BioattnError
from bioattn.interpret.contacts import (
    ContactRegression,
    export_contacts,
    fit_contacts,
    fit_sparse_logistic,
    head_maps,
    mean_map,
    predict_contacts,
    read_regression,
    write_regression,
)
from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from bioattn.structures.contacts import contacts
from tests.making import bioattn, compact_walk
from tests.result_files import aligned, write_alignments

HEADS, ROWS = 3, 4
LETTERS = 2 * RESIDUES
SITES = [
    *(alignment_site("evoformer", block, "msa_row", HEADS) for block in (0, 1)),
    alignment_site("evoformer", 0, "msa_column", HEADS),
    alignment_site("extra_msa", 0, "msa_row", HEADS),
]
TELLING = ("evoformer.01.msa_row", 2)
"""The head that looks at contacts; the others look anywhere."""
UNSEEN = {"b": {5, 11}, "c": {5, 11}}
"""Match columns that the model leaves out."""
PROTEINS = {"a": (40, TRAIN), "b": (30, TRAIN), "c": (36, TEST), "d": (25, TEST)}


class Files(NamedTuple):
    attention: Path
    dataset: Path
    proteins: dict[str, ContactProtein]


def fold(length, seed):
    """A compact walk, the last two residues unknown."""
    points = compact_walk(length, seed)
    points[-2:] = np.nan
    return points


def protein(name):
    length, split = PROTEINS[name]
    aatype = (np.arange(length) % 20).astype(np.int32)
    return ContactProtein(
        id=name,
        group=f"group of {name}",
        split=split,
        chain="A",
        msa=np.tile(aatype.astype(np.uint8), (2, 1)),
        deletions=csr_array((2, length), dtype=np.int32),
        aatype=aatype,
        cb=fold(length, seed=ord(name)),
        residue_numbers=["" if place >= length - 2 else str(place + 1) for place in range(length)],
    )


def seen(name):
    return tuple(column for column in range(PROTEINS[name][0]) if column not in UNSEEN.get(name, set()))


def row_maps(name, site, seed):
    """(ROWS, HEADS, R, R) weights: noise, popular residues, and contacts in the telling head."""
    length = PROTEINS[name][0]
    random = np.random.default_rng([seed, ord(site[11]), len(site)])
    logits = random.normal(size=(ROWS, HEADS, length, length)) + 2 * random.normal(size=(length,))
    if site == TELLING[0]:
        near = contacts(fold(length, seed=ord(name)))
        logits[:, TELLING[1]] += 3 * np.where(random.random(near.shape) < 0.8, near, 0)
    weights = np.exp(logits)[..., seen(name), :][..., seen(name)]
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def write_attention(path, reduce=Reduction.MEAN_ROWS, *, names=tuple(PROTEINS), model="a" * 64, sites=SITES):
    samples = [
        aligned(name, "".join(LETTERS[place] for place in seen(name)), ROWS, seen(name), PROTEINS[name][0])
        for name in names
    ]

    def make(site, shape, number):
        if site.axes[-1].kind != "residue":
            return {"weights": np.full(shape, 1 / shape[-1], dtype=np.float32)}
        whole = row_maps(names[number], site.name, number)
        return {"weights": whole if reduce is Reduction.NONE else whole.mean(0)}

    write_alignments(path, sites, samples, make, AttentionOptions(reduce=reduce), model)
    return path


@pytest.fixture
def files(tmp_path):
    proteins = {name: protein(name) for name in PROTEINS}
    dataset = tmp_path / "x.dataset.h5"
    write_contact_dataset(dataset, proteins.values(), {})
    return Files(write_attention(tmp_path / "attention.h5"), dataset, proteins)


@pytest.mark.parametrize("reduce", [Reduction.MEAN_ROWS, Reduction.NONE])
def test_maps_are_symmetric_and_lose_what_residues_share(tmp_path, reduce):
    """Plain loops over pairs; only row attention over the clustered MSA is a feature."""
    path = write_attention(tmp_path / "attention.h5", reduce, names=("d",))
    whole = row_maps("d", "evoformer.00.msa_row", 0).mean(axis=0, dtype=np.float64)
    with open_attention(path) as attention:
        maps = {(site, head): found for site, head, found in head_maps(attention, "d")}
    assert list(maps) == [(f"evoformer.0{block}.msa_row", head) for block in (0, 1) for head in range(HEADS)]
    both = whole[1] + whole[1].T
    pairs = [(i, j) for i in range(25) for j in range(25) if i != j]
    mean = sum(both[i, j] for i, j in pairs) / len(pairs)
    share = [sum(both[i, j] for j in range(25) if j != i) / 24 for i in range(25)]
    for i, j in pairs:
        expected = both[i, j] - share[i] * share[j] / mean
        assert maps["evoformer.00.msa_row", 1][i, j] == pytest.approx(expected, abs=1e-7)


def test_the_telling_head_is_found_and_works_on_other_proteins(files, tmp_path):
    regression, report = fit_contacts(files.attention, files.dataset)
    assert regression.proteins == ["a", "b"]
    weights = np.array([regression.weights[site.name] for site in SITES[:2]])
    assert np.unravel_index(np.abs(weights).argmax(), weights.shape) == (1, TELLING[1])
    others = np.delete(weights.ravel(), HEADS + TELLING[1])
    assert np.abs(others).max() < weights[1, TELLING[1]] / 5
    assert report.num_held_out == 2
    assert report.held_out["P@L/5"] > 0.8
    with open_attention(files.attention) as attention:
        found = predict_contacts(attention, "c", regression)
        untaught = mean_map(attention, "c")
    near = contacts(files.proteins["c"].cb)[np.ix_(seen("c"), seen("c"))]
    # Chances are calibrated: as many contacts as they say, roughly, and more than the untaught mean ranks high.
    judged = np.triu(np.subtract.outer(seen("c"), seen("c")) <= -6)
    judged[:, -2:] = False
    expected = found[judged].sum()
    assert expected == pytest.approx(near[judged].sum(), rel=0.5)
    best = np.argsort(-found[judged])[:10]
    assert near[judged][best].sum() >= near[judged][np.argsort(-untaught[judged])[:10]].sum()
    again, _ = fit_contacts(files.attention, files.dataset)
    write_regression(tmp_path / "a.json", regression)
    write_regression(tmp_path / "b.json", again)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert read_regression(tmp_path / "a.json") == regression


def test_a_regression_of_another_model_or_of_other_heads_is_refused(files, tmp_path):
    regression, _ = fit_contacts(files.attention, files.dataset)
    other = write_attention(tmp_path / "other.h5", model="b" * 64)
    with open_attention(other) as attention, pytest.raises(BioattnError, match="of another model"):
        predict_contacts(attention, "a", regression)
    fewer = write_attention(tmp_path / "fewer.h5", sites=SITES[:1])
    words = r"other sites or heads .*\(1 sites, the regression 2\)"
    with open_attention(fewer) as attention, pytest.raises(BioattnError, match=words):
        predict_contacts(attention, "a", regression)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reduce": Reduction.MAX_ROWS}, "was reduced with max-rows; contacts need mean-rows"),
        ({"sites": SITES[2:3]}, "holds no row attention"),
        ({"names": ("c",)}, "holds no protein of the training split"),
    ],
)
def test_attention_that_says_nothing_of_contacts_is_refused(files, tmp_path, options, words):
    path = write_attention(tmp_path / "other.h5", **options)
    with pytest.raises(BioattnError, match=words):
        fit_contacts(path, files.dataset)


def test_another_target_is_refused(files, tmp_path):
    turned = replace(files.proteins["a"], aatype=files.proteins["a"].aatype[::-1].copy())
    write_contact_dataset(tmp_path / "other.dataset.h5", [files.proteins["c"], turned], {})
    with pytest.raises(BioattnError, match=r"'a' has 40 columns there, 40 in .*, or another target row"):
        fit_contacts(files.attention, tmp_path / "other.dataset.h5")


def test_names_and_choices_that_make_no_sense(files, tmp_path):
    regression = ContactRegression(
        model_sha256="a" * 64,
        weights={site.name: [0.0] * HEADS for site in SITES[:2]},
        intercept=0.0,
        proteins=[],
        inverse_strength=1.0,
    )
    for name, choices, words in (
        ("x.txt", {}, r"end its name in \.rr"),
        ("x.rr", {}, "RR holds probabilities, which need --regression"),
        ("x.rr", {"regression": regression}, r"RR holds one alignment and .* has 4; .* --sample \(a, b"),
    ):
        with pytest.raises(BioattnError, match=words):
            export_contacts(files.attention, tmp_path / name, **choices)
    with pytest.raises(BioattnError, match="holds no such alignment; it holds 'a', 'b', 'c', 'd'"):
        export_contacts(files.attention, tmp_path / "x.tsv", sample="x")
    assert not list(tmp_path.glob("x.*sv")) + list(tmp_path.glob("x.rr"))


def test_through_the_front_door(files, tmp_path, capsys):
    heads, rr, table, untaught = (tmp_path / name for name in ("h.json", "c.rr", "c.tsv", "mean.tsv"))
    attention = str(files.attention)
    assert bioattn("export", "contacts", attention, "--fit", files.dataset, "-o", heads) == 0
    said = capsys.readouterr().err
    assert "fitted on 2 proteins" in said
    assert "on 2 proteins of other splits" in said
    assert (
        json.loads((tmp_path / "bioattn-records/h.json.json").read_text())["precision"]["held_out"]["P@L/5"]
        > 0.8
    )
    assert inspect_file(heads).figures["heads"] == 2 * HEADS
    assert validate_file(heads) == []
    assert bioattn("export", "contacts", attention, "--regression", heads, "--sample", "c", "-o", rr) == 0
    assert bioattn("export", "contacts", attention, "--regression", heads, "-o", table) == 0
    assert bioattn("export", "contacts", attention, "-o", untaught) == 0
    lines = [line.split() for line in rr.read_text().splitlines() if line[0].isdigit()]
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0] == ["sample", "column_i", "column_j", "letter_i", "letter_j", "probability"]
    pairs = [(i, j) for i in seen("c") for j in seen("c") if j - i >= 6]
    of_c = [row for row in rows if row[0] == "c"]
    assert sorted((int(row[1]) - 1, int(row[2]) - 1) for row in of_c) == pairs
    assert all((LETTERS[int(row[1]) - 1], LETTERS[int(row[2]) - 1]) == (row[3], row[4]) for row in of_c)
    chances = [float(row[5]) for row in of_c]
    assert chances == sorted(chances, reverse=True)
    chance_of = {(row[1], row[2]): float(row[5]) for row in of_c}
    assert len(lines) == len(pairs)
    for i, j, low, high, chance in lines:
        assert (low, high) == ("0", "8")
        assert chance_of[i, j] == pytest.approx(float(chance), abs=1e-5)
    sequence = "".join(line for line in rr.read_text().splitlines() if line[0].isupper() and " " not in line)
    assert sequence == "".join(LETTERS[i] if i in seen("c") else "-" for i in range(36)) + "END"
    near = contacts(files.proteins["c"].cb)
    assert np.mean([near[int(i) - 1, int(j) - 1] for i, j, *_ in lines[:6]]) > 0.8
    assert untaught.read_text().splitlines()[0].endswith("\tscore")
    both = ["--fit", files.dataset, "--regression", heads]
    code = bioattn("export", "contacts", attention, *both, "-o", tmp_path / "both.tsv")
    assert code == 2
    assert "--fit makes a regression and goes with neither" in capsys.readouterr().err


def problem(number, width, seed):
    """Correlated features, of which four matter, and labels of which some tenths are true."""
    random = np.random.default_rng(seed)
    shared = random.normal(size=(number, 3)) @ random.normal(size=(3, width))
    features = (0.7 * shared + random.normal(size=(number, width))).astype(np.float32)
    logits = features[:, :4] @ random.normal(size=4) * 2 - 3
    return features, random.random(number) < 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize(("number", "width", "inverse_strength"), [(500, 8, 0.15), (600, 20, 5.0)])
def test_the_weights_are_those_of_scikit_learn(number, width, inverse_strength):
    features, labels = problem(number, width, seed=width)
    weights, intercept = fit_sparse_logistic(features, labels, inverse_strength)
    reference = LogisticRegression(
        l1_ratio=1.0, solver="saga", C=inverse_strength, tol=1e-8, max_iter=20_000, random_state=0
    ).fit(features.astype(np.float64), labels)
    np.testing.assert_allclose(weights, reference.coef_[0], atol=2e-3)
    assert intercept == pytest.approx(reference.intercept_[0], abs=2e-3)
