"""Contenders that take turns: processes that are started once and measured one after another, again and again."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measured_process import one_thread


class Contender:
    """A process that runs `SCRIPT --serve NAME …`, which calls `serve`."""

    def __init__(self, python: Path | str, script: str, *words: object) -> None:
        """Raises: RuntimeError with the last line that it said when it does not start."""
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [str(python), script, "--serve", *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**one_thread(), "KERAS_BACKEND": "torch"},
        )
        answer = self._answer()
        if "ready" not in answer:
            self._log.seek(0)
            raise RuntimeError((self._log.read().strip().splitlines() or ["it ended without a word"])[-1])
        self.ready = answer["ready"]

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        lines = (
            line for line in self._process.stdout if line.startswith("{")
        )  # some libraries print on import
        return json.loads(next(lines, "{}"))

    def turn(self) -> float:
        """The figure of one turn."""
        print("go", file=self._process.stdin, flush=True)
        return float(self._answer()["figure"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()


def serve(turn: Callable[[], float], ready: object = True) -> None:
    """Be a contender: answer every line on standard input with the figure of one turn."""
    print(json.dumps({"ready": ready}), flush=True)
    for _ in sys.stdin:
        print(json.dumps({"figure": turn()}), flush=True)


def interleaved(contenders: dict[str, Contender], turns: int) -> dict[str, list[float]]:
    """The figures of all turns, which the contenders take one after another; ends them."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(turns):
        for name, contender in contenders.items():
            figures[name].append(contender.turn())
    for contender in contenders.values():
        contender.close()
    return figures
