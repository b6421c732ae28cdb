"""Every family trains on two processes as on one; `promoter` and `evoformer` have further tests of their own."""

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bioattn_cli.main import main
from tests.conftest import made_once
from tests.training.conftest import TrainingProcesses
from tests.training.runs import EVOFORMER, assert_same_curves, write_settings

TINY = Path(__file__).parents[2] / "data" / "settings" / "phyloformer-tiny.toml"


def run(*words: object) -> None:
    assert main([*map(str, words), "-q"]) == 0


def sequences(folder: Path) -> Path:
    random = np.random.default_rng(0)
    letters = ("".join(random.choice(list("ACDEFGHIKL"), 30)) for _ in range(40))
    (folder / "s.fa").write_text("".join(f">s{number}\n{each}\n" for number, each in enumerate(letters)))
    (folder / "t.tsv").write_text("id\ty\n" + "".join(f"s{n}\t{random.normal():.3f}\n" for n in range(40)))
    run("prepare", "language", folder / "s.fa", "--alphabet", "protein", "-o", folder / "x.h5")
    return folder / "x.h5"


def pairs(folder: Path) -> Path:
    run("simulate", "translation", "--task", "copy", "--pairs", 40, "--longest", 10, "-o", folder / "made")
    dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
    run("prepare", "translation", folder / "made", *dna, "-o", folder / "x.h5")
    return folder / "x.h5"


def promoters(folder: Path) -> Path:
    random = np.random.default_rng(0)
    lines, rows = [], ["gene\theat\tcold"]
    for gene in range(60):
        letters = "".join(random.choice(list("ACGT"), 24))
        lines.append(f">g{gene} chr{gene % 6}:{gene * 50}-{gene * 50 + 24}(+)\n{letters}\n")
        rows.append(f"g{gene}\t{gene % 2}\t{gene % 3 % 2}")
    (folder / "p.fa").write_text("".join(lines))
    (folder / "r.tsv").write_text("\n".join(rows))
    sides = ("--holdout", "validation=chr4", "--holdout", "test=chr5", "--task", "binary", "--threshold", 0.5)
    run("prepare", "dataset", folder / "p.fa", folder / "r.tsv", "-o", folder / "x.h5", *sides)
    return folder / "x.h5"


def molecules(folder: Path) -> Path:
    run("simulate", "molecules", "--molecules", 60, "-o", folder / "made")
    table = folder / "made" / "molecules.tsv"
    run("prepare", "molecules", table, "--split", "random", "-o", folder / "x.h5")
    return folder / "x.h5"


def trees(folder: Path) -> Path:
    run("simulate", "trees", "--count", 10, "--sequences", 4, "--sites", 20, "-o", folder / "made")
    return folder / "made" / "PAIRS.tsv"


def stories(folder: Path) -> Path:
    words = ("--task", "cascade", "--genes", 8, "--shortest", 4, "--longest", 6, "--pairs", 60)
    run("simulate", "translation", *words, "-o", folder / "made")
    return folder / "made"


SMALL = ("model.layers=1", "model.channels=16", "model.num_heads=2")
SMALL += ("model.hidden_channels=16", "model.context=32")
FAMILIES: dict[str, tuple[str, Callable[[Path], Path], tuple[str, ...]]] = {
    "language": ("language", sequences, SMALL),
    "fine-tuning": ("language", sequences, SMALL),
    "translation": ("translation", pairs, ("model.channels=16", "model.num_heads=1")),
    "diffusion": ("diffusion", promoters, ("model.channels=16", "model.stages=1")),
    "molecule": ("molecule", molecules, (*SMALL[1:2], "model.slots=16", "model.radius=1", "model.dropout=0")),
    "phyloformer": ("phyloformer", trees, (str(TINY),)),
    "memory": ("memory", stories, ()),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_two_processes_learn_what_one_does(
    name: str, tmp_path: Path, train_together: Callable[..., TrainingProcesses]
):
    family, prepare, chosen = FAMILIES[name]
    words = [family, str(prepare(tmp_path)), "--steps", "4", "--threads", "1"]
    if name == "fine-tuning":
        words += ["--targets", str(tmp_path / "t.tsv")]
    words += [word for each in chosen for word in ("-c", each)]
    run("train", *words, "-o", tmp_path / "one")
    together = train_together([*words, "-o", str(tmp_path / "two")])
    assert together.exit_codes() == [0, 0], together.errors()
    assert_same_curves(tmp_path / "one", tmp_path / "two", "training_loss")


@pytest.fixture
def words(contact_dataset, tmp_path):
    """Of a run with so many families a step into a folder."""

    def make(families, output):
        stages = {"families_per_step": families, "simulated_steps": 2, "simulated_families": 2}
        training = EVOFORMER["training"] | {"steps_per_round": 3, **stages}
        settings = write_settings(tmp_path / f"settings{families}.toml", EVOFORMER["model"], training)
        output = ["-o", str(output), "-c", str(settings)]
        return ["evoformer", str(contact_dataset), *output, "--steps", "4", "--threads", "1"]

    return make


@pytest.fixture
def alone(words, tmp_path_factory):
    """The model of one process with so many families a step, trained once."""

    def model(families):
        train = lambda folder: run("train", *words(families, folder / "m"))  # noqa: E731
        return made_once(tmp_path_factory, f"alone{families}", train) / "m"

    return model


def assert_same_training(one, other):
    assert_same_curves(one, other, "training_loss", "validation_P@L")
    assert len((one / "history.csv").read_text().splitlines()) == 4


@pytest.mark.parametrize("families", [3, 1], ids=["uneven", "idle"])
def test_processes_learn_what_one_does(words, alone, tmp_path, train_together, families):
    """The one validation family is judged by the first process alone."""
    together = train_together(words(families, tmp_path / "two"))
    assert together.exit_codes() == [0, 0], together.errors()
    assert_same_training(alone(families), tmp_path / "two")
    said, silence = (log.read_text() for log in together.logs)
    assert silence == ""
    idle = "families_per_step is 1, so there is nothing to do for 1 of 2 processes; set it to a multiple of 2"
    assert (idle in said) == (families == 1)
    assert "weights of process" not in said
    assert json.loads((tmp_path / "bioattn-records/two.json").read_text())["processes"] == 2


def test_a_terminated_run_goes_on_in_one_process(words, alone, tmp_path, train_together):
    together = train_together(words(3, tmp_path / "two"), pause=0.1)
    together.send(signal.SIGTERM, 1, after=tmp_path / "two.partial" / "trainer_state.safetensors")
    assert together.exit_codes() == [143, 143]
    (sentence,) = together.errors()
    assert "and saved; go on with --resume" in sentence
    state = tmp_path / "two.partial"
    assert [path.name for path in state.iterdir()] == ["trainer_state.safetensors"]
    assert main(["train", *words(3, tmp_path / "two"), "--resume", "-q"]) == 0
    assert_same_training(alone(3), tmp_path / "two")
