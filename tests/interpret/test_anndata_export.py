"""AnnData files, read back by anndata and compared with what the attention file and the table hold."""

import json
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest

from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.windows import promoter_samples
from tests.making import bioattn
from tests.result_files import aligned, cross_site, promoter_layout, write_alignments, write_promoters

EDGES = (0, 4, *range(12, 61, 8))
GENES, TREATMENTS = ["g0", "g1", "g2", "g3"], ["heat", "a/b", "cold 4 °C"]
COLUMNS = (0, 2, 3, 5)


def export(*words):
    return bioattn("export", "arrays", *words, "-q")


@pytest.fixture
def promoters(tmp_path):
    """Two sites of two heads; the last gene has no place."""
    random = np.random.default_rng(0)
    sites = [cross_site(EDGES, 2, f"promoter.cross.{hop}", field=20) for hop in (0, 1)]
    weights = {site.name: random.dirichlet(np.ones(8), (4, 3, 2)).astype(np.float32) for site in sites}
    places = promoter_samples(
        GENES, [*3 * ["chrI"], ""], [0, 100, 200, -1], [60, 160, 260, -1], ["+", "-", "+", "."]
    )
    layout = promoter_layout(sites, TREATMENTS, 60, downstream=10)
    predictions = random.normal(size=(4, 3)).astype(np.float32)
    write_promoters(tmp_path / "attention.h5", layout, places, weights, predictions)
    return tmp_path / "attention.h5"


@pytest.fixture
def alignment(tmp_path):
    random = np.random.default_rng(1)
    sites = [alignment_site("evoformer", block, "msa_row", 2) for block in (0, 1)]
    samples = [aligned(name, "MKTA", 2, COLUMNS, 6, input_sha256="ab") for name in ("one", "two")]

    def make(_site, shape, _number):
        return {"weights": random.dirichlet(np.ones(4), shape[:-1]).astype(np.float32)}

    write_alignments(tmp_path / "alignment.h5", sites, samples, make)
    return tmp_path / "alignment.h5"


def test_maps_of_promoters_are_those_of_the_file(promoters, tmp_path):
    assert export(promoters, "-o", tmp_path / "x.h5ad") == 0
    data = anndata.read_h5ad(tmp_path / "x.h5ad")
    with h5py.File(promoters) as file:
        weights = np.stack([file[f"sites/promoter.cross.{hop}/weights"][:] for hop in (0, 1)])
        predictions = file["predictions/values"][:]
    np.testing.assert_array_equal(data.X, predictions)
    assert (list(data.obs_names), list(data.var_names)) == (GENES, TREATMENTS)
    assert data.obs.iloc[1].tolist() == ["chrI", 100, 160, "-", ""]
    assert list(data.obsm) == ["attention:a|b", "attention:cold 4 °C", "attention:heat"]
    for number, key in enumerate(data.var["attention"]):
        np.testing.assert_allclose(data.obsm[key], weights[:, :, number].mean(axis=(0, 2)), rtol=1e-6)
    known = data.uns["bioattn"]
    assert [*known["bin_start"], 60] == [0, *known["bin_end"]] == list(EDGES)
    assert (known["downstream"], known["window_length"], known["receptive_field"]) == (10, 60, 20)
    assert list(known["sites"]) == ["promoter.cross.0", "promoter.cross.1"]


def test_what_is_chosen_and_that_bytes_repeat(promoters, tmp_path, capsys):
    words = ["--treatment", "heat", "--genes", "g3", "--genes", "g1", "--sites", "*.1", "--heads", "1"]
    for name in ("one.h5ad", "two.h5ad"):
        assert export(promoters, "-o", tmp_path / name, *words) == 0
    assert (tmp_path / "one.h5ad").read_bytes() == (tmp_path / "two.h5ad").read_bytes()
    data = anndata.read_h5ad(tmp_path / "one.h5ad")
    with h5py.File(promoters) as file:
        expected = file["sites/promoter.cross.1/weights"][:][[1, 3], 0, 1]
    np.testing.assert_array_equal(data.obsm["attention:heat"], expected)
    assert (list(data.obs_names), data.shape, list(data.uns["bioattn"]["heads"])) == (
        ["g1", "g3"],
        (2, 1),
        [1],
    )
    assert json.loads((tmp_path / "bioattn-records/one.h5ad.json").read_text())["maps"] == 1
    assert bioattn("inspect", tmp_path / "one.h5ad", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["kind"] == "anndata"
    assert bioattn("validate", tmp_path / "one.h5ad", "-q") == 0


def test_predictions_are_those_of_the_table(tmp_path):
    table = pd.DataFrame([[0.5, np.nan], [1 / 3, -2.0]], index=["g1", "g2"], columns=["heat", "cold"])
    table.to_csv(tmp_path / "p.tsv", sep="\t", index_label="gene_id")
    assert (
        export(tmp_path / "p.tsv", "-o", tmp_path / "x.h5ad", "--treatment", "cold", "--treatment", "heat")
        == 0
    )
    data = anndata.read_h5ad(tmp_path / "x.h5ad")
    pd.testing.assert_frame_equal(data.to_df(), table[["cold", "heat"]], check_names=False)
    assert data.uns["bioattn"]["content"] == "predictions"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("attention.h5 -o x.h5", "is no attribution file"),
        ("alignment.h5 -o x.h5ad", "holds attention over alignments; one over promoters is needed"),
        ("p.tsv -o x.h5ad --heads 0", "holds predictions; --sites, --heads"),
        ("twice.tsv -o x.h5ad", "twice.tsv: gene 'g1' is named twice"),
        ("words.tsv -o x.h5ad", "words.tsv:2"),
    ],
)
def test_bad_input_is_one_sentence(promoters, alignment, tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    Path("p.tsv").write_text("gene_id\theat\ng1\t1\n")
    Path("twice.tsv").write_text("gene_id\theat\ng1\t1\ng1\t2\n")
    Path("words.tsv").write_text("gene_id\theat\ng1\thot\n")
    assert export(*words.split()) in (1, 2)
    error = capsys.readouterr().err
    assert sentence in error
    assert "Traceback" not in error
    assert not list(tmp_path.glob("x.*"))
