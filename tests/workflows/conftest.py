"""Snakemake, as a user of the workflows has it: in an environment of its own, with `bioattn` on the path."""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY as ROOT

WORKFLOWS = ROOT / "workflows" / "snakemake"


@dataclass(frozen=True)
class Snakemake:
    """A workflow and a folder to run it in."""

    snakefile: Path
    folder: Path
    programs: Sequence[Path]
    """Folders for the PATH with `snakemake` and `bioattn`."""

    def start(self, *arguments):
        """Start Snakemake as the leader of its own process group."""
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {
            "PATH": os.pathsep.join([*map(str, self.programs), environment["PATH"]]),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
        }
        return subprocess.Popen(
            [self.programs[0] / "snakemake", "--snakefile", self.snakefile, "--cores", "1", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments, fails=False):
        """What Snakemake says on its way to the end, good or, with `fails`, bad."""
        process = self.start(*arguments)
        try:
            said, _ = process.communicate()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        logs = "".join(path.read_text() for path in self.folder.glob("logs/**/*.log")) if not fails else ""
        assert (process.returncode != 0) == fails, said + logs
        return said

    def planned(self, *arguments):
        """How many jobs of each rule a dry run would start, `all` left out."""
        said = self.run("--dry-run", *arguments)
        if "Nothing to be done" in said:
            return Counter()
        planned = jobs(said)
        assert planned.pop("total") == planned.total()
        del planned["all"]
        return planned


def jobs(said):
    """Rules and numbers of jobs of a dry run."""
    _, _, table = said.rpartition("Job stats:\n")
    return Counter({rule: int(number) for rule, number in re.findall(r"^(\w+) +(\d+)$", table, re.MULTILINE)})


def finished(said):
    """How many jobs of each rule ended well, `all` left out."""
    return Counter(rule for rule in re.findall(r"Finished jobid: \d+ \(Rule: (\w+)\)", said) if rule != "all")


@pytest.fixture(scope="session")
def snakemake(snakemake_folder, bioattn_folder):
    """Makes a `Snakemake` of a workflow's name and a folder."""
    programs = (snakemake_folder, bioattn_folder)
    return lambda name, folder: Snakemake(WORKFLOWS / name / "workflow" / "Snakefile", folder, programs)
