"""Controls are trained as the model was, but for one thing, once, and used again."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError, FormatError, Interrupted, SettingsError
from bioattn.models.promoter.controls import (
    Control,
    ControlFolder,
    PromoterTraining,
    read_training_record,
)
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.system.signals import StopRequest
from tests.training.promoter.conftest import make_dataset, write_dataset
from tests.training.runs import CPU, train

MODEL = {"channels": 8, "kernel": 7, "num_heads": 2, "head_channels": 4, "hidden_channels": 8, "hops": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_dataset(folder / "small.dataset.h5", make_dataset(genes=200))
    job = PromoterTrainingSettings(
        dataset=folder / "small.dataset.h5",
        output=folder / "model",
        model=MODEL,
        training={"seed": 3, "epochs": 2, "learning_rate": 3e-3, "first_filters": "random"},
        reference="b",
        baselines=False,
    )
    torch.set_num_threads(1)
    train(job)
    return folder


@pytest.fixture
def kept(trained, tmp_path) -> ControlFolder:
    record = read_training_record(trained / "model")
    return ControlFolder(
        model=load_promoter_model(trained / "model", CPU),
        folder=tmp_path / "controls",
        dataset=trained / "small.dataset.h5",
        record=record,
    )


def test_one_thing_differs(trained, kept):
    own = load_promoter_model(trained / "model", CPU)
    own_record = read_training_record(trained / "model")
    for control, query in (
        (Control.UNIFORM, "uniform"),
        (Control.SHARED, "shared"),
        (Control.SEED, "treatment"),
    ):
        other = kept.retrained(control, step=2)
        assert asdict(other.config) == {**asdict(own.config), "attention_query": query}
        (folder,) = kept.folder.glob(f"{control}-*")
        record = read_training_record(folder)
        seed = 5 if control is Control.SEED else 3
        assert record.training == replace(own_record.training, seed=seed)
        assert record.dataset_sha256 == own_record.dataset_sha256
        assert other.reference == "b"
        before = (folder / "model.safetensors").stat().st_mtime_ns
        assert kept.retrained(control, step=2).sha256 == other.sha256
        assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_another_model_gets_controls_of_its_own(trained, kept):
    first = kept._settings(Control.UNIFORM, 1).output
    longer = replace(kept, record=replace(kept.record, training=replace(kept.record.training, epochs=3)))
    assert longer._settings(Control.UNIFORM, 1).output != first
    assert kept._settings(Control.SEED, 1).output != kept._settings(Control.SEED, 2).output
    # A seed of the control does not depend on whose it is: seed 3 + 2 is seed 4 + 1.
    later = replace(kept, record=replace(kept.record, training=replace(kept.record.training, seed=4)))
    assert later._settings(Control.SEED, 1).output == kept._settings(Control.SEED, 2).output


def test_an_interrupted_control_goes_on(trained, kept):
    stop = StopRequest()
    import signal

    stop.signal = signal.SIGTERM
    with pytest.raises(Interrupted, match="repeat the command to go on"):
        kept.retrained(Control.UNIFORM, stop=stop)
    assert [path.name[-8:] for path in kept.folder.iterdir()] == [".partial"]
    resumed = kept.retrained(Control.UNIFORM)
    whole = replace(kept, folder=kept.folder.with_name("other")).retrained(Control.UNIFORM)
    assert resumed.sha256 == whole.sha256


def test_which_controls_say_something(trained):
    own = load_promoter_model(trained / "model", CPU)
    assert PromoterTraining(own, None).controls_wanted(2) == [
        (Control.UNIFORM, 0),
        (Control.SHARED, 0),
        (Control.SEED, 1),
        (Control.SEED, 2),
    ]
    shared = replace(
        own, model=type(own.model)(replace(own.config, attention_query="shared"), own.vocabulary)
    )
    assert PromoterTraining(shared, None).controls_wanted(0) == [(Control.UNIFORM, 0)]


def test_records_that_are_not_whole(trained, kept, tmp_path):
    assert read_training_record(tmp_path) is None
    content = json.loads((trained / "model" / "training.json").read_text())
    del content["record_sha256"]  # as earlier versions wrote it
    del content["training"]
    (tmp_path / "training.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="incomplete"):
        read_training_record(tmp_path)
    content["training"] = {"epochs": "many"}
    (tmp_path / "training.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match="epochs"):
        read_training_record(tmp_path)


def test_folders_that_cannot_be_made(trained, kept, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="is a file"):
        replace(kept, folder=tmp_path / "file").retrained(Control.UNIFORM)
    with pytest.raises(BioattnError, match="cannot be made"):
        replace(kept, folder=tmp_path / "no" / "such").retrained(Control.UNIFORM)
