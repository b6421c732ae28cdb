"""Every family trains on two processes as on one; `promoter` and `evoformer` have further tests of their own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bioattn_cli.main import main
from tests.training.conftest import TrainingProcesses
from tests.training.runs import assert_same_curves

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


SMALL = (
    "model.layers=1",
    "model.channels=16",
    "model.num_heads=2",
    "model.hidden_channels=16",
    "model.context=32",
)
FAMILIES: dict[str, tuple[str, Callable[[Path], Path], tuple[str, ...]]] = {
    "language": ("language", sequences, SMALL),
    "fine-tuning": ("language", sequences, SMALL),
    "translation": ("translation", pairs, ("model.channels=16", "model.num_heads=1")),
    "diffusion": ("diffusion", promoters, ("model.channels=16", "model.stages=1")),
    "molecule": (
        "molecule",
        molecules,
        ("model.channels=16", "model.slots=16", "model.radius=1", "model.dropout=0"),
    ),
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
