"""Held-out treatments whose features training never saw, and folders of runs that never began."""

import dataclasses
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bioattn.errors import BioattnError, SettingsError
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn.training.run import working_folder
from tests.training.runs import CPU, promoter_job, train


@pytest.fixture
def heard(caplog, monkeypatch):
    """What the library says to a user; commands stop its messages from reaching the root logger."""
    monkeypatch.setattr(logging.getLogger("bioattn"), "propagate", True)
    caplog.set_level(logging.INFO, logger="bioattn")
    return caplog


def features(dataset, output):
    return promoter_job(dataset, output, {"treatment_encoder": "features"}, epochs=1)


@pytest.fixture
def held_out_path(dataset_path, tmp_path):
    """Treatment `b` is held out, with an agent and a unit of dose of its own."""
    dataset = read_dataset(dataset_path)
    frame = dataset.treatments.frame.assign(dose=["1 mM", "37.5 C", "2.5 mM"]).astype({"dose": object})
    path = tmp_path / "held-out.dataset.h5"
    write_dataset(
        path,
        dataclasses.replace(
            dataset, treatments=TreatmentTable(frame), treatment_split=np.array([0, 2, 0], np.uint8)
        ),
    )
    return path


def test_unseen_features_of_held_out_treatments_count_as_missing(held_out_path, tmp_path, heard):
    evaluation = train(features(held_out_path, tmp_path / "m"))
    assert "test genes × test treatments" in {row.cells for row in evaluation.rows}
    # The agents of training do not differ, so they are no feature of the model.
    assert "treatment features: minutes (number, log), dose (dose in 1 scales)" in heard.text
    assert "held-out treatments have what training never saw (dose '37.5 C')" in heard.text
    loaded = load_promoter_model(tmp_path / "m", CPU)
    table = read_dataset(held_out_path).treatments.select(["b"])
    with pytest.raises(
        BioattnError, match=r"the dose '37.5 C', but training saw no dose of heat in C; known"
    ):
        loaded.encode_treatments(table)
    batch = loaded.vocabulary.encode(table, unseen_is_missing=True)
    assert batch.present_TN.tolist() == [[1, 0]]


def test_new_treatments_are_told_by_vectors_of_many_numbers(dataset_path, tmp_path):
    """Two hidden numbers of a treatment say how much two motifs count; the table has 60 mixtures of them."""
    dataset, random = read_dataset(dataset_path), np.random.default_rng(3)
    holds = np.nan_to_num(dataset.targets[:, :2] - 5)
    hidden = random.normal(size=(20, 2))
    mixed = hidden @ random.normal(size=(2, 60)) + random.normal(0, 0.3, (20, 60))
    names = [f"t{number}" for number in range(20)]
    frame = pd.DataFrame(mixed, index=pd.Index(names), columns=[f"regulator{n}" for n in range(60)])
    path = tmp_path / "vectors.dataset.h5"
    changed = dataclasses.replace(
        dataset,
        targets=(holds @ hidden.T).astype(np.float32),
        treatments=TreatmentTable(frame),
        treatment_split=np.repeat(np.array([0, 2], np.uint8), [16, 4]),
    )
    write_dataset(path, changed)
    settings = {"epochs": 20, "learning_rate": 1e-2, "max_shift": 2}
    job = promoter_job(path, tmp_path / "m", {"treatment_encoder": "features"}, **settings)
    evaluation = train(job)
    figures = {row.cells: row.figures for row in evaluation.rows if row.name == "this model"}
    assert figures["test genes × test treatments"]["pearson"] > 0.7


def test_tables_that_do_not_fit_the_model_are_reported(held_out_path, tmp_path, heard):
    train(features(held_out_path, tmp_path / "m"))
    loaded = load_promoter_model(tmp_path / "m", CPU)

    def ask(**columns):
        heard.clear()
        frame = pd.DataFrame(
            {
                name: pd.Series([value], dtype=float if name in ("minutes", "time") else object)
                for name, value in columns.items()
            }
        )
        table = TreatmentTable(frame.set_axis(pd.Index(["new"])))
        return loaded.encode_treatments(table).present_TN

    with pytest.raises(BioattnError, match=r"no column .* it has 'time', the model knows 'minutes', 'dose'"):
        ask(time=5.0)
    assert ask(time=5.0, dose="1 mM", agent="salt").tolist() == [[0, 1]]
    assert "lacks 'minutes', which count as unknown; its columns 'time' are not used" in heard.text
    assert ask(minutes=5.0, agent="salt", dose="1.2").tolist() == [[1, 0]]  # no dose of 1 in units of `.2`
    assert "doses that are no number with a unit count as unknown: '1.2'" in heard.text
    ask(minutes=5.0, agent="salt", dose="1.5e-1mM", lab="here")
    assert "does not use the columns 'lab'" in heard.text
    with pytest.raises(BioattnError, match=r"training saw no dose of salt in g; known are salt in mM$"):
        ask(minutes=5.0, agent="salt", dose="3 g")
    known = loaded.treatments.frame["minutes"]
    ask(minutes=known.max() + 0.5 * known.std(), agent="salt", dose="1 mM")
    assert "far outside" not in heard.text
    ask(minutes=known.max() + 2 * known.std(), agent="salt", dose="1 mM")
    assert "'new': minutes lies far outside what training saw" in heard.text
    heard.clear()
    loaded.encode_treatments(loaded.treatments)
    assert not heard.text


def claim(output, *, resume=False):
    """The folder that a run with --force works in."""
    with working_folder(output, resume=resume, force=True) as partial:
        return partial.name


def test_force_replaces_models_alone(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("results", "file"):
        with pytest.raises(BioattnError, match="is no model folder"):
            claim(tmp_path / name)
    for name in ("", ".", "-", ".."):
        with pytest.raises(SettingsError, match="name of a folder"):
            claim(Path(name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "results"]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("")
    assert claim(tmp_path / "model") == "model.partial"
    (tmp_path / "model.partial").mkdir()
    for folder in ("model", "model.partial"):
        mine = tmp_path / folder / "mine.txt"
        mine.write_text("mine")
        for resume in (False, True):
            with pytest.raises(
                BioattnError, match=rf"{folder}: holds mine\.txt, which bioattn did not write"
            ):
                claim(tmp_path / "model", resume=resume)
        mine.unlink()
