"""Folders with a record: the same bytes again, replaced on --force alone, and known to inspect and validate."""

import json

import numpy as np
import pytest

from bioattn.store.windows import promoter_samples
from tests.making import bioattn
from tests.result_files import cross_site, promoter_layout, write_attribution, write_promoters

NUMBER, LENGTH = 60, 120
TREATMENTS = ["control", "heat"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Attention and attribution of the same promoters."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (NUMBER, LENGTH), dtype=np.uint8)
    starts = 1000 * np.arange(NUMBER)
    names = [f"G{number}" for number in range(NUMBER)]
    samples = promoter_samples(names, ["chr1"] * NUMBER, starts, starts + LENGTH, ["+", "-"] * (NUMBER // 2))
    values = rng.normal(size=(NUMBER, 2, LENGTH, 4)).astype(np.float32)
    values -= values.mean(-1, keepdims=True)
    predictions = np.zeros((NUMBER, 2), np.float32)
    write_attribution(folder / "explain.h5", samples, codes, values, predictions, TREATMENTS)
    site = cross_site(tuple(range(0, LENGTH + 1, 8)))
    layout = promoter_layout([site], TREATMENTS, LENGTH)
    weights = rng.dirichlet(np.ones(15), (NUMBER, 2, 2)).astype(np.float32)
    write_promoters(folder / "attention.h5", layout, samples, {site.name: weights})
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "source", "kind", "record", "table"),
    [
        ("tracks", "attention.h5", "tracks", "tracks.json", "heat.genes.tsv"),
        ("motifs", "explain.h5", "motifs", "motifs.json", "edges.tsv"),
        ("arrays", "explain.h5", "attribution-arrays", "arrays.json", "genes.tsv"),
    ],
)
def test_a_folder_with_a_record(results, tmp_path, capsys, command, source, kind, record, table):
    def export(output, *options):
        return bioattn("export", command, results / source, "-o", output, "-q", *options)

    folder = tmp_path / "one"
    assert export(folder) == export(tmp_path / "two") == 0
    assert contents(folder) == contents(tmp_path / "two")
    assert {record, table} <= set(contents(folder))
    assert bioattn("inspect", folder, "--json") == 0
    assert json.loads(capsys.readouterr().out)["kind"] == kind
    assert bioattn("validate", folder, "-q") == 0

    assert export(folder) == 1
    assert "exists already" in capsys.readouterr().err
    assert export(folder, "--force", "--treatment", "heat") == 0
    assert not list(folder.glob("control*"))  # files of the earlier treatments are gone
    assert bioattn("validate", folder, "-q") == 0

    (folder / "notes.txt").write_text("years of work")
    assert export(folder, "--force") == 1
    assert "holds notes.txt, which bioattn did not write" in capsys.readouterr().err
    assert (folder / "notes.txt").read_text() == "years of work"

    (folder / table).unlink()
    capsys.readouterr()
    assert bioattn("validate", folder, "-q") == 1
    assert f"{table} is missing, which {record} names" in capsys.readouterr().out
