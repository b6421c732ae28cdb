"""Commands that are killed, run under faults of the machine, or get damaged files: short for `make torture`.

The long one kills every command before every step on the file system, and runs it under every fault.
"""

import signal
from pathlib import Path

import pytest

from tests.faults.commands import BY_NAME
from tests.faults.flip_bits import KINDS, Flips
from tests.faults.forked import Forks
from tests.faults.matrix import FAULTS, can_mount, cases_of, run_case
from tests.faults.torture import Torture


@pytest.fixture(scope="module")
def torture(python, tmp_path_factory):
    scratch: Path = tmp_path_factory.mktemp("faults")
    with Forks(scratch, python) as forks:
        yield Torture(forks, scratch)


STEPS = [  # those at which something was lost once, or a name changes hands
    ("simulate promoters", 9, True),
    ("prepare promoters", 9, False),
    ("train promoter", 3, False),
    ("train promoter", -5, True),
    ("run promoter", 8, False),
    ("run promoter", -8, True),
    ("export tracks", -4, True),
    ("merge, folders", -4, True),
]


@pytest.mark.parametrize(("name", "step", "replacing"), STEPS)
def test_killed_at_a_step_on_the_file_system(name, step, replacing, torture):
    command = BY_NAME[name]
    at_step = step % torture.undisturbed(command).outcome.steps
    strike = torture.strike(command, at_step=at_step, replacing=replacing)
    assert strike.status == -signal.SIGKILL
    assert not strike.problems


@pytest.mark.parametrize(("name", "part"), [("run promoter", 0.5), ("report", 0.4)])
def test_killed_at_a_moment(name, part, torture):
    command = BY_NAME[name]
    moment = part * torture.undisturbed(command).outcome.seconds
    assert not torture.strike(command, after=moment, replacing=True).problems


@pytest.mark.parametrize(
    ("name", "number"), [("prepare dataset", signal.SIGTERM), ("export motifs", signal.SIGINT)]
)
def test_stopped_in_the_middle(name, number, torture):
    command = BY_NAME[name]
    at_step = torture.undisturbed(command).outcome.steps // 2
    strike = torture.strike(command, number=number, at_step=at_step)
    assert not strike.problems


SHORT = {
    "disk full": ["run promoter"],
    "file size limit": ["merge"],
    "read-only output": ["report"],
    "another run": ["run promoter"],
    "file handles": ["export tracks"],
    "memory": ["prepare contacts"],
    "input changed": ["simulate score"],
    "clock": ["prepare msa"],
    "stdout closed": ["simulate score"],
    "stdout full": ["simulate score"],
    "stdout without reader": ["simulate score"],
    "stderr closed": ["export tracks"],
    "stderr full": ["prepare msa"],
    "stderr without reader": ["prepare msa"],
    "stdin closed": ["prepare msa"],
    "environment": ["prepare promoters"],
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_lost(fault, torture):
    if fault.needs_root and not can_mount():
        pytest.skip("only root can make a small disk")
    for name in SHORT[fault.name]:
        command = BY_NAME[name]
        cases = cases_of(torture, fault, command)
        for case, run in cases[:: max(1, len(cases) // 3)]:
            result = run_case(torture, fault, command, case, run)
            assert not result.problems, f"{name}, {case}"


PLACES = 7
"""Of each kind."""


@pytest.fixture(scope="module")
def flips(torture, tmp_path_factory):
    """Files of every kind."""
    return Flips(torture.forks, tmp_path_factory.mktemp("flips"), torture.inputs)


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_refused_or_changes_nothing(flips, name):
    tally = flips.run_kind(name, PLACES)
    assert not tally.problems, tally.examples
    assert tally.places == tally.refused + tally.same == PLACES
    if not KINDS[name].path.endswith("model"):  # whose README and record of training are nobody's input
        assert tally.refused == PLACES
        assert tally.named == (PLACES if KINDS[name].inspected else 0)
