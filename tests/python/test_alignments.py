"""MSA/pair models in Python against what the command writes."""

import h5py
import numpy as np
import pandas as pd
import pytest

import bioattn
from bioattn.errors import BioattnError
from tests.making import bioattn as command

pytestmark = pytest.mark.filterwarnings("ignore:.*effective sequences", "ignore:.*no common signal")


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    """Simulated alignments, a model that has learnt next to nothing, and a prediction."""
    folder = tmp_path_factory.mktemp("proteins")
    depth = ("--depth", "20:24", "--length", "30:32")
    assert command("simulate", "msa", "-o", folder / "sim", "--families", 2, *depth) == 0
    assert command("prepare", "contacts", folder / "sim" / "PAIRS.tsv", "-o", folder / "set.h5") == 0
    config = folder / "small.toml"
    config.write_text("[training]\ncrop = 16\n")
    model = folder / "model"
    assert command("train", "evoformer", folder / "set.h5", "-o", model, "--steps", 1, "-c", config) == 0
    alignment = next(iter(sorted((folder / "sim" / "msa").iterdir())))
    (folder / "family.a3m").write_bytes(alignment.read_bytes())
    run = ("run", "evoformer", folder / "family.a3m", "--model", model)
    assert command(*run, "-o", folder / "out", "--attention", folder / "attention.h5") == 0
    return folder


@pytest.fixture(scope="module")
def model(proteins):
    return bioattn.load_model(proteins / "model", device="cpu", threads=1)


@pytest.fixture(scope="module")
def rows(proteins):
    alignment = bioattn.open(proteins / "family.a3m")
    return {name: alignment.row_with_insertions(row) for row, name in enumerate(alignment.names)}


def test_contacts_are_those_of_the_command(proteins, model, rows, tmp_path, monkeypatch):
    written = pd.read_csv(proteins / "out" / "contacts.tsv", sep="\t")
    monkeypatch.chdir(tmp_path)
    for name in ("family", "family.afa"):  # letters alone, as a sequence has them
        (tmp_path / name).write_bytes((proteins / "family.a3m").read_bytes())
    for inputs in ("family", "family.afa", rows, bioattn.open(proteins / "family.a3m")):
        pd.testing.assert_frame_equal(model.predict(inputs), written, check_dtype=False)
    several = model.predict(proteins / "sim" / "msa", recycles=0, max_msa_clusters=8)
    assert set(several.index.get_level_values(0)) == {p.stem for p in (proteins / "sim" / "msa").iterdir()}
    (arrays,) = model.arrays(rows, representations="pair").values()
    best = written.iloc[0]
    pair = int(best["column_i"]) - 1, int(best["column_j"]) - 1
    assert arrays.contact_probability[pair] == pytest.approx(best["probability"], abs=1e-5)
    assert [*arrays.representations] == ["pair"]
    assert "contact_probability (31, 31), expected_distance (31, 31), pair (31, 31, " in repr(arrays)


def test_attention_is_that_of_the_command(proteins, model, rows, tmp_path):
    maps = model.attention(
        proteins / "family.a3m", sites=["evoformer.*.msa_row", "evoformer.*.triangle_starting"]
    )
    expected = [site for site in model.sites if site.endswith(("msa_row", "triangle_starting"))]
    assert [*maps.sites] == sorted(site for site in expected if "extra" not in site)
    maps.save(tmp_path / "saved.h5")
    assert command("validate", tmp_path / "saved.h5") == 0
    with h5py.File(proteins / "attention.h5") as file, bioattn.open(tmp_path / "saved.h5") as saved:
        for site in maps.sites:
            labelled = maps.to_xarray(site)
            np.testing.assert_allclose(labelled, file[f"sites/{site}/s0000000/weights"], atol=1e-6)
            np.testing.assert_array_equal(labelled, saved.array(site))
            letters = maps.samples["query"].iloc[0]
            numbered = [f"{letter}{number}" for number, letter in enumerate(letters, start=1)]
            assert labelled["query"].values.tolist() == numbered
        pd.testing.assert_frame_equal(saved.samples, maps.samples)
    assert maps.row_names(maps.samples.index[0])[0] == next(iter(rows))
    with pytest.raises(BioattnError, match="holds attention over alignments; one over promoters is needed"):
        maps.at_bases()
    with pytest.raises(BioattnError, match=r"holds several sites; name one: evoformer\.00"):
        maps.array()


def test_a_model_is_saved_whole(proteins, model, tmp_path):
    model.predict(proteins / "family.a3m", precision="bf16")
    model.save(tmp_path / "model")
    assert command("validate", tmp_path / "model") == 0
    again = bioattn.load_model(tmp_path / "model")
    pd.testing.assert_frame_equal(
        again.predict(proteins / "family.a3m"), model.predict(proteins / "family.a3m")
    )


def test_python_warns_and_refuses(model):
    with pytest.warns(UserWarning, match="one distinct row only"):
        model.predict(["MKVLAAGHEWKKRT"])
    with pytest.raises(BioattnError, match="has no recycling"):
        model.predict(["MKVLAAGHEWKKRT"], recycles=2)


def test_a_check_of_rows_is_that_of_their_file(proteins, model, rows):
    of_file, of_rows = (model.check(inputs, samples=20) for inputs in (proteins / "family.a3m", rows))
    assert of_file.measures
    one, other = (repr((each.measures, each.skipped)) for each in (of_rows, of_file))  # some are NaN
    assert one == other
