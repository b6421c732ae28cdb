"""Controls are trained as the model was, but for one thing, once, and used again."""

import signal
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bioattn.errors import Interrupted
from bioattn.models.promoter.controls import (
    Control,
    control_settings,
    controls_wanted,
    read_training_record,
    train_control,
)
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.model import PromoterModel
from bioattn.system.progress import SILENT
from bioattn.system.signals import StopRequest
from tests.training.promoter.conftest import make_dataset, write_dataset
from tests.training.runs import CPU, train

MODEL = {"channels": 8, "kernel": 7, "num_heads": 2, "head_channels": 4, "hidden_channels": 8, "hops": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
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


@dataclass(frozen=True)
class Own:
    """A model and the record of its training."""

    model: Any
    record: Any

    def control(self, name, step, dataset, folder, *, stop=None):
        evidence = SimpleNamespace(dataset=dataset, controls=folder)
        probe = SimpleNamespace(evidence=evidence, progress=SILENT, stop=stop or StopRequest())
        return train_control(self.model, self.record, name, step, probe)


@pytest.fixture
def own(trained):
    return Own(
        load_promoter_model(trained / "model", CPU), read_training_record(trained / "model", "regression")
    )


def test_one_thing_differs(trained, own, tmp_path):
    dataset, folder = trained / "small.dataset.h5", tmp_path / "controls"
    for control, changed in (
        (Control.UNIFORM, {"attention_query": "uniform"}),
        (Control.SHARED, {"attention_query": "shared", "position_bias": "shared"}),
        (Control.GAIN, {"attention_query": "gain", "sink": True, "position_bias": "shared"}),
        (Control.POSITION, {"attention_query": "position"}),
        (Control.QUERY, {"position_bias": "shared"}),
        (Control.SEED, {}),
    ):
        other = own.control(control, 2, dataset, folder)
        assert asdict(other.config) == {**asdict(own.model.config), **changed}
        (made,) = folder.glob(f"{control}-*")
        record = read_training_record(made, "regression")
        seed = 5 if control is Control.SEED else 3
        assert record.networks == [replace(own.record.networks[0], seed=seed)]
        assert record.dataset_sha256 == own.record.dataset_sha256
        assert other.reference == "b"
        before = (made / "model.safetensors").stat().st_mtime_ns
        assert own.control(control, 2, dataset, folder).sha256 == other.sha256
        assert (made / "model.safetensors").stat().st_mtime_ns == before


def test_another_model_gets_controls_of_its_own(own):
    def name(training, control, step):
        return control_settings(
            training.model, training.record, control, step, Path("d"), Path("folder")
        ).output.name

    def trained_with(**changes):
        changed = replace(own.record.networks[0], **changes)
        return replace(own, record=replace(own.record, networks=[changed]))

    assert name(trained_with(epochs=3), Control.UNIFORM, 1) != name(own, Control.UNIFORM, 1)
    assert name(own, Control.SEED, 1) != name(own, Control.SEED, 2)
    # A seed of the control does not depend on whose it is: seed 3 + 2 is seed 4 + 1.
    assert name(trained_with(seed=4), Control.SEED, 1) == name(own, Control.SEED, 2)


def test_an_interrupted_control_goes_on(trained, own, tmp_path):
    dataset, folder = trained / "small.dataset.h5", tmp_path / "controls"
    stop = StopRequest()
    stop.signal = signal.SIGTERM
    with pytest.raises(Interrupted, match="repeat the command to go on"):
        own.control(Control.UNIFORM, 0, dataset, folder, stop=stop)
    assert [path.name[-8:] for path in folder.iterdir()] == [".partial"]
    resumed = own.control(Control.UNIFORM, 0, dataset, folder)
    whole = own.control(Control.UNIFORM, 0, dataset, tmp_path / "other")
    assert resumed.sha256 == whole.sha256


def test_which_controls_say_something(own):
    assert controls_wanted(own.model, 2) == [
        (Control.UNIFORM, 0),
        (Control.SHARED, 0),
        (Control.GAIN, 0),
        (Control.POSITION, 0),
        (Control.QUERY, 0),
        (Control.SEED, 1),
        (Control.SEED, 2),
    ]
    model = own.model
    shared = replace(
        model, model=type(model.model)([replace(model.config, attention_query="shared")], model.vocabulary)
    )
    assert controls_wanted(shared, 0) == [(Control.UNIFORM, 0)]
    settings = control_settings(own.model, own.record, Control.QUERY, 0, Path("d"), Path("folder"))
    control = settings.networks[0]["model"]
    assert (control["attention_query"], control["position_bias"]) == ("treatment", "shared")
    config = replace(model.config, position_bias="shared")
    common = replace(model, model=type(model.model)([config], model.vocabulary))
    assert (Control.QUERY, 0) not in controls_wanted(common, 0)


def test_a_control_of_a_mean_keeps_its_ridges(own):
    """A mean of two networks and a ridge: the two retrained ones get the ridge beside them, at a third."""
    vocabulary, network = own.model.vocabulary, own.model.model
    batch = own.model.encode_treatments(own.model.treatments)
    config = replace(own.model.config, conditioning="ridge", hops=1, ridge_blocks=((3, 1, 1, 0),))
    torch.manual_seed(0)
    ridge = PromoterModel([config], vocabulary).eval()
    ridge.members[0].network.blocks[0].weight_S.fill_(1.0)
    ridge.members[0].network.blocks[0].added_XT.normal_()
    other = PromoterModel([own.model.config], vocabulary).eval()
    for model in (ridge, other):  # all answer in the same units
        model.members[0].response_sd_T.copy_(network.members[0].response_sd_T)
    whole = PromoterModel.mean([network, other, ridge], vocabulary)
    retrained = PromoterModel.mean([other, other], vocabulary)
    codes = torch.randint(4, (7, own.model.length), dtype=torch.uint8)
    with torch.no_grad():
        control = PromoterModel.beside(retrained, whole, vocabulary)(codes, batch)
        expected = (2 * other(codes, batch) + ridge(codes, batch)) / 3
        alone = PromoterModel.beside(other, network, vocabulary)
    torch.testing.assert_close(control, expected, atol=1e-5, rtol=1e-4)
    assert alone is other
