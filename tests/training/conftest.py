"""Starting several processes that train together as torchrun does."""

import os
import socket
import subprocess
import time

import pytest

from tests.training.evoformer.conftest import contact_dataset, one_thread  # noqa: F401 - for tests of both families
from tests.training.promoter.conftest import dataset_path  # noqa: F401

_PROGRAM = """
import datetime, os, sys, time
log, pause, timeout, *words = sys.argv[1:]
open(log + ".pid", "w").write(str(os.getpid()))
from bioattn.training import distributed
distributed.TIMEOUT = datetime.timedelta(seconds=float(timeout))
at_once = distributed.Processes.sum_gradients
def slow(*arguments):
    time.sleep(float(pause))
    return at_once(*arguments)
distributed.Processes.sum_gradients = slow
sys.argv = ["bioattn", *words]
from bioattn_cli.main import main
sys.exit(main())
"""
"""The program, with its number in a file, another patience, and a pause in every step for faults."""


class TrainingProcesses:
    """Processes of one run and what they said."""

    def __init__(self, python, folder, words, *, pause=0.0, timeout=120.0):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.logs = [folder / f"log{rank}" for rank in range(len(words))]
        self.members = []
        for rank, (log, own) in enumerate(zip(self.logs, words, strict=True)):
            places = {
                "RANK": rank,
                "WORLD_SIZE": len(words),
                "LOCAL_RANK": rank,
                "LOCAL_WORLD_SIZE": len(words),
                "MASTER_PORT": port,
            }
            environment = {name: str(value) for name, value in places.items()} | {"MASTER_ADDR": "127.0.0.1"}
            command = [python, "-c", _PROGRAM, log, str(pause), str(timeout), *own]
            with log.open("w") as said:
                member = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | environment)
            self.members.append(member)

    def exit_codes(self):
        """Wait for all; whoever does not end in a minute is killed and has None."""
        codes: list[int | None] = []
        for member in self.members:
            try:
                codes.append(member.wait(60))
            except subprocess.TimeoutExpired:
                codes.append(None)
                member.kill()
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
        os.kill(int(self.logs[rank].with_suffix(".pid").read_text()), number)


@pytest.fixture
def train_together(tmp_path, python):
    """Start `count` processes of `bioattn train` with the same words, and `extra` ones by rank."""

    def start(words, count=2, *, extra=None, **options):
        each = [["train", *words, *(extra or {}).get(rank, ())] for rank in range(count)]
        return TrainingProcesses(python, tmp_path, each, **options)

    return start
