"""Small inputs, and commands that run in processes of their own, to be killed or short of disk."""

import hashlib
import resource
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bioattn.training.state import STATE_FILES
from bioattn_cli.main import main
from tests.conftest import REPOSITORY

TINY = REPOSITORY / "data" / "tiny"


@dataclass(frozen=True)
class Kind:
    """A command that writes one kind of result, `out`; `{i}` in it stands for the folder of inputs."""

    line: str
    other: str
    """Options with which it writes another result."""
    output: str = "out"


KINDS = {
    "HDF5": Kind("export attention {i}/model {i}/promoters.fa -o out.h5", "--treatment treatment2", "out.h5"),
    "table": Kind("run promoter {i}/model {i}/promoters.fa -o out.tsv", "--treatment treatment2", "out.tsv"),
    "folder": Kind("export tracks {i}/attention.h5 -o out --force", "--treatment treatment2"),
    "training": Kind("train promoter {i}/x.dataset.h5 -o out --epochs 3 --no-baselines --force", "--seed 5"),
}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory):
    """A folder with promoters, a dataset, a model and its attention."""
    folder = tmp_path_factory.mktemp("inputs")
    for line in (
        f"prepare promoters {TINY}/genome.fa {TINY}/annotation.gff3 --upstream 120 --downstream 0 --flank 8 "
        "-o {i}/promoters.fa",
        f"prepare dataset {{i}}/promoters.fa {TINY}/responses.tsv -o {{i}}/x.dataset.h5",
        "train promoter {i}/x.dataset.h5 -o {i}/model --epochs 2 --no-baselines",
        "export attention {i}/model {i}/promoters.fa -o {i}/attention.h5",
    ):
        assert main([*line.replace("{i}", str(folder)).split(), "-q"]) == 0
    return folder


class Program:
    """`bioattn` in a folder."""

    def __init__(self, program: Path, folder: Path, inputs: Path) -> None:
        self.program, self.folder, self.inputs = program, folder, inputs

    def start(self, line: str, file_size: int = resource.RLIM_INFINITY) -> "subprocess.Popen[str]":
        """Start a command. file_size: bytes that it may write to one file."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        return subprocess.Popen(
            [self.program, *line.replace("{i}", str(self.inputs)).split(), "-q"],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, hard)),
        )

    def run(self, line: str, file_size: int = resource.RLIM_INFINITY) -> tuple[int, str]:
        """Exit code of a command, and what it said on stderr."""
        process = self.start(line, file_size)
        said = process.communicate(timeout=120)[1]
        return process.returncode, said

    def contents(self, output: str) -> dict[str, str]:
        """SHA-256 of each file of a result.

        Not of records of runs, which tell the time, nor of states of a training: they go after its folder has its
        name, so that a kill between the two leaves them there.
        """
        result = self.folder / output
        paths = result.rglob("*") if result.is_dir() else [result] if result.exists() else []
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
            if path.is_file() and path.parent.name != "bioattn-records" and not path.match(STATE_FILES)
        }

    def others(self, output: str) -> set[str]:
        """What else lies in the folder."""
        return {path.name for path in self.folder.iterdir()} - {output, "bioattn-records"}


@pytest.fixture
def program(bioattn_folder, inputs, tmp_path):
    """`bioattn` in an empty folder."""
    (tmp_path / "work").mkdir()
    return Program(bioattn_folder / "bioattn", tmp_path / "work", inputs)
