"""Several processes learn what one does, whatever their number, and end together when something happens to one."""

import csv
import os
import signal
import subprocess

import numpy as np
import pytest

from bioattn_cli.main import main
from tests.training.runs import assert_same_curves

SMALL = "channels = 16\nkernel = 7\npool = 4\nhidden_channels = 32\nhead_channels = 8\nnum_heads = 2\n"
CONCAT = 'conditioning = "concat"\nconcat_pools = [4, 4]\nconcat_hidden = [32, 16, 8]\n'


def settings(folder, model="", training="", name="settings.toml"):
    path = folder / name
    common = "learning_rate = 0.005\n" + ("" if training.startswith("batch_size") else "batch_size = 48\n")
    path.write_text(f"[model]\n{SMALL}{model}\n[training]\n{common}{training}\n")
    return path


def words(dataset, output, config, epochs=2):
    options = ["-c", str(config), "--epochs", str(epochs), "--no-baselines", "--no-check", "--threads", "1"]
    return ["promoter", str(dataset), "-o", str(output), *options]


def losses(model):
    """Epochs × (training, validation loss)."""
    rows = list(csv.DictReader((model / "history.csv").open()))
    return np.array([[float(row["training_loss"]), float(row["validation_loss"])] for row in rows])


def assert_same_training(one, other):
    assert_same_curves(one, other, "training_loss", "validation_loss")


@pytest.fixture(scope="module")
def undisturbed(dataset_path, tmp_path_factory):
    """The model of one process with the plain settings."""
    folder = tmp_path_factory.mktemp("one")
    assert main(["train", *words(dataset_path, folder / "one", settings(folder), 3), "-q"]) == 0
    return folder / "one"


@pytest.mark.parametrize(
    ("model", "training"),
    [
        ('conditioning = "film"', "treatments_per_step = 2\nreverse_complement = true"),
        ('conditioning = "cross-all"', "micro_batch_size = 10"),
        ('readout = "shared"\nstem = "kmer"\nkmer = 4', "warm_start = true"),
    ],
    ids=["sampled", "micro-batches", "kmer-warm"],
)
def test_processes_learn_what_one_does(dataset_path, tmp_path, train_together, model, training):
    """300 genes, of whose cells one in twenty has no target, with dropout and shifts."""
    config = settings(tmp_path, model, training)
    alone = settings(tmp_path, model, "" if "micro" in training else training, "alone.toml")
    assert main(["train", *words(dataset_path, tmp_path / "one", alone), "-q"]) == 0
    together = train_together(words(dataset_path, tmp_path / "more", config))
    assert together.exit_codes() == [0, 0], together.errors()
    assert_same_training(tmp_path / "one", tmp_path / "more")
    said, silence = (log.read_text() for log in together.logs)
    assert silence == ""
    assert "in each of 2 processes" in said
    assert "weights of process" not in said


def test_more_processes_than_promoters_of_a_step(tiny_path, tmp_path, train_together):
    # So many steps that rounding grows; one bias for all treatments keeps it below what is compared.
    config = settings(tmp_path, 'position_bias = "shared"', "batch_size = 2\ntreatments_per_step = 1")
    assert main(["train", *words(tiny_path, tmp_path / "one", config), "-q"]) == 0
    together = train_together(words(tiny_path, tmp_path / "more", config), 3)
    assert together.exit_codes() == [0, 0, 0], together.errors()
    assert_same_training(tmp_path / "one", tmp_path / "more")
    assert "batch_size is 2, so there is nothing to do for 1 of 3 processes" in together.logs[0].read_text()


def test_accumulation_learns_what_whole_batches_do(tiny_path, tmp_path):
    for name, training in (("whole", ""), ("parts", "micro_batch_size = 17")):
        config = settings(tmp_path, "", training)
        assert main(["train", *words(tiny_path, tmp_path / name, config), "-q"]) == 0
    assert_same_training(tmp_path / "whole", tmp_path / "parts")
    # It is how the work is cut, so the record and what is refused with --resume do not speak of it.
    records = [(tmp_path / name / "training.json").read_text() for name in ("whole", "parts")]
    assert "micro_batch_size" not in records[1]
    assert main(["train", *words(tiny_path, tmp_path / "whole", config), "-q", "--resume"]) == 0


def test_batch_normalisation_keeps_one_set_of_statistics(dataset_path, tmp_path, train_together):
    """Each process normalises by its share of the batch: not what one process learns, but the same in all."""
    together = train_together(words(dataset_path, tmp_path / "m", settings(tmp_path, CONCAT)))
    assert together.exit_codes() == [0, 0], together.errors()
    assert "weights of process" not in together.logs[0].read_text()
    assert losses(tmp_path / "m")[-1, 0] < losses(tmp_path / "m")[0, 0]


@pytest.mark.parametrize(
    ("number", "rank", "codes", "next_count"),
    [(signal.SIGKILL, 1, [1, -9], 1), (signal.SIGINT, 0, [130, 130], 3)],
    ids=["second-killed", "first-interrupted"],
)
def test_what_ends_one_ends_all_and_another_number_goes_on(
    dataset_path, undisturbed, tmp_path, train_together, number, rank, codes, next_count
):
    command = words(dataset_path, tmp_path / "m", settings(tmp_path), 3)
    together = train_together(command, pause=0.05)
    state = tmp_path / "m.partial" / "trainer_state.safetensors"
    together.send(number, rank, after=state)
    assert together.exit_codes() == codes
    killed = number == signal.SIGKILL
    (sentence,) = together.errors()
    assert ("another process of this run ended" if killed else "and saved") in sentence
    assert "go on with --resume" in sentence
    assert not (tmp_path / "m").exists()
    if next_count == 1:
        assert main(["train", *command, "--resume", "-q"]) == 0
    else:
        resumed = train_together([*command, "--resume"], next_count)
        assert resumed.exit_codes() == [0] * next_count, resumed.errors()
    assert_same_training(undisturbed, tmp_path / "m")
    assert not (tmp_path / "m.partial").exists()


def test_a_process_that_stands_still_is_not_waited_for_long(dataset_path, tmp_path, train_together):
    together = train_together(
        words(dataset_path, tmp_path / "m", settings(tmp_path), 3), pause=0.05, timeout=4.0
    )
    state = tmp_path / "m.partial" / "trainer_state.safetensors"
    together.send(signal.SIGSTOP, 1, after=state)
    together.members[0].wait(60)
    together.members[1].kill()
    assert together.exit_codes() == [1, -9]
    (sentence,) = together.errors()
    assert "another process of this run did not answer for 4 seconds; go on with --resume" in sentence


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (
            {1: ("-c", "missing.toml")},
            ["another process of this run ended", "process 1: missing.toml: no such"],
        ),
        (
            dict.fromkeys((0, 1), ("-c", "missing.toml")),
            ["error: missing.toml: no such", "process 1: missing.toml: no such"],
        ),
        ({1: ("--seed", "5")}, ["another process of this run ended", "process 1: other data or settings"]),
    ],
    ids=["second", "both", "other-seed"],
)
def test_who_fails_says_why(dataset_path, tmp_path, train_together, change, sentences):
    command = words(dataset_path, tmp_path / "m", settings(tmp_path))
    together = train_together(command, extra=change)
    codes = together.exit_codes()
    assert all(codes), codes
    assert codes[min(change)] == 1
    for said, sentence in zip(together.errors(), sentences, strict=True):
        assert sentence in said
    assert not list(tmp_path.glob("m*"))


@pytest.mark.slow
def test_two_nodes_of_torchrun(dataset_path, undisturbed, tmp_path, bioattn_folder, python):
    """Two launchers on this machine stand for two machines; each starts one process."""
    port = 20000 + os.getpid() % 20000
    launcher = [python, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bioattn"]
    launcher += ["--no-python", bioattn_folder / "bioattn", "train"]
    launcher += words(dataset_path, tmp_path / "two", settings(tmp_path), 3)
    nodes = [
        subprocess.Popen(launcher, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [node.communicate(timeout=120) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert_same_training(undisturbed, tmp_path / "two")
    # One of the two has the first process, which alone prints.
    assert sorted(bool(output) for output, _ in outputs) == [False, True]
