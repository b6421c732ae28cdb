"""Several processes learn of families what one does, and go on with what another number began."""

import json
import signal

import pytest

from bioattn_cli.main import main
from tests.training.runs import EVOFORMER, assert_same_curves, write_settings


@pytest.fixture
def words(contact_dataset, tmp_path):
    """Of a run with so many families a step into a folder of that name."""

    def make(families, name):
        stages = {"families_per_step": families, "simulated_steps": 2, "simulated_families": 2}
        training = EVOFORMER["training"] | {"steps_per_round": 3, **stages}
        settings = write_settings(tmp_path / f"settings{families}.toml", EVOFORMER["model"], training)
        output = ["-o", str(tmp_path / name), "-c", str(settings)]
        return ["evoformer", str(contact_dataset), *output, "--steps", "4", "--threads", "1"]

    return make


def assert_same_training(one, other):
    assert_same_curves(one, other, "training_loss", "validation_P@L")
    assert len((one / "history.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("families", [3, 1], ids=["uneven", "idle"])
def test_processes_learn_what_one_does(words, tmp_path, train_together, families):
    """The one validation family is judged by the first process alone."""
    assert main(["train", *words(families, "one"), "-q"]) == 0
    together = train_together(words(families, "two"))
    assert together.exit_codes() == [0, 0], together.errors()
    assert_same_training(tmp_path / "one", tmp_path / "two")
    said, silence = (log.read_text() for log in together.logs)
    assert silence == ""
    idle = "families_per_step is 1, so there is nothing to do for 1 of 2 processes; set it to a multiple of 2"
    assert (idle in said) == (families == 1)
    assert "weights of process" not in said
    assert json.loads((tmp_path / "bioattn-records/two.json").read_text())["processes"] == 2


def test_a_terminated_run_goes_on_in_one_process(words, tmp_path, train_together):
    assert main(["train", *words(2, "one"), "-q"]) == 0
    together = train_together(words(2, "two"), pause=0.3)
    together.send(signal.SIGTERM, 1, after=tmp_path / "two.partial" / "trainer_state.safetensors")
    assert together.exit_codes() == [143, 143]
    (sentence,) = together.errors()
    assert "and saved; go on with --resume" in sentence
    state = tmp_path / "two.partial"
    assert [path.name for path in state.iterdir()] == ["trainer_state.safetensors"]
    assert main(["train", *words(2, "two"), "--resume", "-q"]) == 0
    assert_same_training(tmp_path / "one", tmp_path / "two")
