"""The pages of docs/formats: the trees and columns they list are those of the files, the lines they show run."""

import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from bioattn.alignments.choices import ContactSettings
from bioattn.alignments.contact_dataset import ContactProtein, write_contact_dataset
from bioattn.models.evoformer.sites import alignment_sample, alignment_site
from bioattn.promoters.dataset import PromoterDataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.windows import promoter_samples
from tests.docs.conftest import page_text, run_python, snippets
from tests.result_files import (
    cross_site,
    promoter_layout,
    write_alignments,
    write_attribution,
    write_promoters,
)

GENES = ["other", "GENE", "third"]
PLACES = np.array([0, 1000, 2000])
ROW = "evoformer.00.msa_row"
Maps = dict[tuple[str, int], np.ndarray]
"""By site and number of the alignment."""


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def weights():
    """Of an attention.h5 over promoters in the current folder."""
    site = cross_site(range(0, 101, 10), field=24)
    weights = np.random.default_rng(0).random((3, 2, 2, 10)).astype(np.float32)
    weights /= weights.sum(-1, keepdims=True)
    samples = promoter_samples(GENES, ["chrI"] * 3, PLACES, PLACES + 100, ["-"] * 3)
    layout = promoter_layout([site], ["control", "TREATMENT"], 100)
    write_promoters(Path("attention.h5"), layout, samples, {site.name: weights})
    return weights


def test_attention_over_promoters(weights):
    with_h5py, with_xarray, with_bioattn = map(run_python, snippets("read-attention")[:3])
    np.testing.assert_array_equal(with_h5py["weights"], weights[1, 1])
    np.testing.assert_array_equal(with_h5py["edges"], range(0, 101, 10))
    np.testing.assert_allclose(with_xarray["profile"], weights[1, 1].mean(0), rtol=1e-6)
    assert float(with_xarray["best"]) == 10 * weights[1, 1].mean(0).argmax() + 5
    assert with_bioattn["profile"].sizes == {"position": 100}
    assert float(with_bioattn["profile"].sum()) == pytest.approx(weights[1, 1].mean(0).sum(), rel=1e-5)


@pytest.fixture(scope="module")
def run_r():
    """Runs a snippet of R; returns its first two weights."""
    if shutil.which("Rscript") is None:
        pytest.skip("no R here")
    run = partial(subprocess.run, capture_output=True, text=True)
    if run(["Rscript", "-e", "library(rhdf5)"]).returncode:
        pytest.skip("no rhdf5 here")

    def run_snippet(code):
        done = run(["Rscript", "-e", code + "cat('first', weights[1], weights[2])"])
        return [float(word) for word in done.stdout.split("first")[1].split()]

    return run_snippet


def test_promoters_in_r(weights, run_r):
    code = re.findall(r"```r\n(.*?)```", page_text("read-attention"), flags=re.DOTALL)[0]
    assert run_r(code) == pytest.approx(weights[1, 1, 0, :2], rel=1e-5)


def test_alignments_in_r(maps, run_r):
    code = re.findall(r"```r\n(.*?)```", page_text("read-attention"), flags=re.DOTALL)[1]
    assert run_r(code) == pytest.approx(maps[ROW, 0][0, 0, :2], rel=1e-5)


@pytest.fixture
def maps():
    """The row maps of each alignment of an attention.h5 in the current folder."""
    sites = [
        alignment_site("evoformer", 0, "msa_row", 4),
        alignment_site("evoformer", 0, "msa_column", 4),
        alignment_site("evoformer", 0, "triangle_starting", 2),
    ]
    samples = [
        alignment_sample(id="1UBQ", query="MQIFVK", rows=3, extra_rows=1, input_sha256="0" * 64),
        alignment_sample(id="other", query="ACDEFGHI", rows=2, extra_rows=1, input_sha256="1" * 64),
    ]
    random = np.random.default_rng(0)
    maps: Maps = {}

    def make(site, shape, number):
        weights = random.random(shape).astype(np.float32)
        weights /= weights.sum(-1, keepdims=True)
        maps[site.name, number] = weights
        return {"weights": weights}

    write_alignments(Path("attention.h5"), sites, samples, make)
    return maps


def test_attention_over_alignments(maps):
    with_h5py, with_xarray = map(run_python, snippets("read-attention")[3:])
    np.testing.assert_array_equal(with_h5py["weights"], maps[ROW, 0][2])
    assert with_h5py["query"] == "MQIFVK"
    np.testing.assert_array_equal(with_xarray["head"], maps[ROW, 0][2])
    best = [f"{'MQIFVK'[place]}{place + 1}" for place in maps[ROW, 0][2].argmax(-1)]
    assert with_xarray["best"].values.tolist() == best


def test_attribution():
    random = np.random.default_rng(0)
    values = random.random((3, 2, 20, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    sequence = random.integers(0, 4, (3, 20), dtype=np.uint8)
    predictions = random.random((3, 2)).astype(np.float32)
    samples = promoter_samples(GENES, ["chrI"] * 3, PLACES, PLACES + 20, ["-"] * 3)
    write_attribution(Path("explain.h5"), samples, sequence, values, predictions, ["control", "TREATMENT"])
    with_h5py, with_xarray, with_bioattn = map(run_python, snippets("formats/attribution"))
    np.testing.assert_array_equal(with_h5py["values"], values[1, 1])
    np.testing.assert_array_equal(with_h5py["codes"], sequence[1])
    assert int(with_xarray["strongest"]) == np.abs(values[1, 1]).max(-1).argmax()
    np.testing.assert_array_equal(with_xarray["gene"]["sequence"], sequence[1])
    with_xarray["attribution"].close()
    np.testing.assert_array_equal(with_bioattn["values"], values[[1, 0], 1])
    wanted = np.take_along_axis(values[1], sequence[1][None, :, None].repeat(2, 0), axis=-1)
    np.testing.assert_array_equal(with_bioattn["contributions"], wanted[..., 0])
    assert with_bioattn["predictions"].loc["GENE", "control"] == predictions[1, 0]


def objects(path):
    """Names of the arrays of an HDF5 file, and `attribute NAME` of those of its root."""
    with h5py.File(path) as file:
        found = {f"attribute {name}" for name in file.attrs}
        file.visititems(lambda name, node: found.add("/" + name) if isinstance(node, h5py.Dataset) else None)
    return found


def described(tree):
    """What the table of a tree lists; names after the first may leave out its folder."""
    found: set[str] = set()
    for line in tree.splitlines():
        names = re.findall(r"`([\w/]+)`", line.split("|")[1]) if line.startswith("| `/") else []
        if "attribute" in line.partition("|")[2].split("|")[0]:
            found |= {f"attribute {name}" for name in names if name != "/"}
        elif names:
            folder = names[0].rsplit("/", 1)[0]
            found |= {name if name.startswith("/") else f"{folder}/{name}" for name in names}
    return found


def test_dataset():
    index = pd.Index(["control", "TREATMENT"], dtype=object, name="treatment")
    dataset = PromoterDataset(
        gene_ids=GENES,
        chrom=["I"] * 3,
        start=np.array([0, 100, 200]),
        end=np.array([50, 150, 250]),
        strand=["+", "-", "+"],
        codes=np.random.default_rng(0).integers(0, 5, (3, 50)).astype(np.uint8),
        flank=0,
        targets=np.arange(6, dtype=np.float32).reshape(3, 2),
        treatments=TreatmentTable(pd.DataFrame({"dose": [0.0, 1.0]}, index=index)),
        gene_split=np.array([0, 1, 2], np.uint8),
        treatment_split=np.zeros(2, np.uint8),
        task="regression",
        metadata={"leakage": []},
        target_mean=np.zeros(2),
        target_sd=np.ones(2),
    )
    write_dataset(Path("x.dataset.h5"), dataset)
    with_h5py, with_bioattn = map(run_python, snippets("formats/dataset"))
    assert with_h5py["response"] == dataset.targets[1, 1]
    np.testing.assert_array_equal(with_h5py["codes"], dataset.codes[1])
    assert with_h5py["test"].tolist() == [False, False, True]
    np.testing.assert_array_equal(with_bioattn["test_targets"], dataset.targets[2:])
    assert list(with_bioattn["features"]["dose"]) == [0, 1]
    assert with_bioattn["leakage"] == []
    tree = page_text("formats/dataset").split("## Tree")[1].split("\n## ")[0]
    assert objects("x.dataset.h5") == described(tree)


def test_contact_dataset():
    """Also the tree is that of a file."""
    random = np.random.default_rng(0)
    columns = 20
    cb = random.normal(0, 5, (columns, 3)).astype(np.float32)
    cb[2] = np.nan
    protein = ContactProtein(
        id="ID",
        group="family",
        split=0,
        chain="A",
        msa=random.integers(0, 22, (6, columns)).astype(np.uint8),
        deletions=csr_array(np.eye(6, columns, dtype=np.int32)),
        aatype=np.zeros(columns, np.int32),
        cb=cb,
        residue_numbers=["" if index == 2 else str(index) for index in range(columns)],
    )
    settings = ContactSettings()
    metadata = {name: getattr(settings, name) for name in settings.__slots__} | {"grouping": "given"}
    write_contact_dataset(Path("x.dataset.h5"), [protein], metadata)
    with_h5py, with_bioattn = map(run_python, snippets("formats/contact-dataset"))
    np.testing.assert_array_equal(with_h5py["rows"], protein.msa)
    distance, touching = np.asarray(with_h5py["distance"]), np.asarray(with_bioattn["touching"])
    assert np.isnan(distance[2]).all()
    assert (with_bioattn["depth"], with_bioattn["families"]) == (6, {"family"})
    for i in range(columns):
        for j in range(columns):
            apart = np.linalg.norm(cb[i] - cb[j])
            np.testing.assert_allclose(distance[i, j], apart, rtol=1e-5)
            assert touching[i, j] == (apart < 8 and abs(i - j) >= 6)
    text = page_text("formats/contact-dataset")
    found = {name.replace("000000", "NNNNNN") for name in objects("x.dataset.h5")}
    assert found == described(text.split("## Tree")[1].split("## What goes in")[0])


def test_alignments():
    Path("family.sto").write_text("# STOCKHOLM 1.0\nq M-K.V\nb MAKlV\n//\n")
    names: dict[str, object] = {}
    for snippet in snippets("formats/alignments"):
        exec(snippet, names)
    alignment, centred = names["alignment"], names["centred"]
    assert [alignment.row(0), alignment.row(1)] == ["M-KV", "MAKV"]
    assert alignment.insertions == [{}, {3: "l"}]
    assert [centred.row_with_insertions(0), centred.row_with_insertions(1)] == ["MKV", "MaKlV"]


FAMILY = "".join(
    f">sp|P6990{i}|HB{i}_X/1-6\nMK{letter}L-{'AG'[i % 2]}\n" for i, letter in enumerate("AVILMF", 1)
)


def test_preparing_an_alignment_in_python():
    # The content decides what a file is, whatever its name.
    Path("family.sto.gz").write_text(FAMILY)
    (snippet,) = snippets("formats/msa")
    assert len(run_python(snippet)["weights"]) > 1
    assert Path("family.a3m").read_text().startswith(">sp|P69905|HB5_X/1-6\nMKMLG\n")
