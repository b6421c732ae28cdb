"""Starting several processes that train together as torchrun does, forked from a server that has torch loaded."""

import multiprocessing
import os
import socket
import time

import pytest

from tests.conftest import REPOSITORY
from tests.training.evoformer.conftest import contact_dataset, one_thread  # noqa: F401 - for tests of both families
from tests.training.promoter.conftest import dataset_path  # noqa: F401

_MODELS = REPOSITORY / "bioattn" / "models"
_MODULES = [
    "pytest",
    "torch._dynamo",  # which the first optimiser imports
    "typer._adapters",  # pydantic
    *(f"bioattn_cli.commands.{path.stem}" for path in (REPOSITORY / "cli/bioattn_cli/commands").glob("*.py")),
    *(f"bioattn.models.{path.name}.family" for path in _MODELS.iterdir() if (path / "family.py").is_file()),
    "bioattn.training.run",
    "bioattn.models.promoter.training.task",
    "bioattn.models.evoformer.training_task",
]
_PROGRAM = """
import datetime, os, sys, time
os.environ.update(environment)
log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
os.dup2(log, 1)
os.dup2(log, 2)
from bioattn.training import distributed
distributed.TIMEOUT = datetime.timedelta(seconds=timeout)
at_once = distributed.Processes.sum_gradients
def slow(*arguments):
    time.sleep(pause)
    return at_once(*arguments)
distributed.Processes.sum_gradients = slow
sys.argv = ["bioattn", *words]
from bioattn_cli.main import main
sys.exit(main())
"""
"""The program, with its messages in a file, another patience, and a pause in every step for faults."""


class TrainingProcesses:
    """Processes of one run and what they said."""

    def __init__(self, folder, words, *, pause=0.0, timeout=120.0):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_MODULES)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.logs = [folder / f"log{rank}" for rank in range(len(words))]
        self.members = []
        for rank, own in enumerate(words):
            places = {
                "RANK": rank,
                "WORLD_SIZE": len(words),
                "LOCAL_RANK": rank,
                "LOCAL_WORLD_SIZE": len(words),
            }
            environment = {name: str(value) for name, value in places.items()}
            environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
            given = {"environment": environment, "log": str(self.logs[rank]), "words": list(own)}
            given |= {"pause": pause, "timeout": timeout}
            self.members.append(context.Process(target=exec, args=(_PROGRAM, given)))
            self.members[-1].start()

    def exit_codes(self):
        """Wait for all; whoever does not end in a minute is killed and has None."""
        codes: list[int | None] = []
        for member in self.members:
            member.join(60)
            codes.append(member.exitcode)
            if member.exitcode is None:
                member.kill()
                member.join()
        return codes

    def errors(self):
        """All that all said which is an error of ours, a stop that saved, or a traceback."""
        lines = [line for log in self.logs if log.exists() for line in log.read_text().splitlines()]
        return [line for line in lines if line.startswith(("bioattn: ", "Traceback"))]

    def send(self, number, rank, after):
        """Send a signal to one, once the file `after` is there."""
        end = time.monotonic() + 60
        while not after.exists() and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(self.members[rank].pid, number)


@pytest.fixture
def train_together(tmp_path):
    """Start `count` processes of `bioattn train` with the same words, and `extra` ones by rank."""

    def start(words, count=2, *, extra=None, **options):
        each = [["train", *words, *(extra or {}).get(rank, ())] for rank in range(count)]
        return TrainingProcesses(tmp_path, each, **options)

    return start
