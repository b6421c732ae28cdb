"""Killed at any moment, a command leaves nothing half-made and goes on to the same bytes; the short version.

The long one, 200 kills at random moments and one before every step on the file system, is `make torture`.
"""

import signal

import pytest

from tests.faults.commands import BY_NAME
from tests.faults.torture import Torture

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
def test_killed_at_a_step_on_the_file_system(name: str, step: int, replacing: bool, torture: Torture) -> None:
    command = BY_NAME[name]
    at_step = step % torture.undisturbed(command).outcome.steps
    strike = torture.strike(command, at_step=at_step, replacing=replacing)
    assert strike.status == -signal.SIGKILL
    assert not strike.problems


@pytest.mark.parametrize(("name", "part"), [("run promoter", 0.5), ("report", 0.4)])
def test_killed_at_a_moment(name: str, part: float, torture: Torture) -> None:
    command = BY_NAME[name]
    moment = part * torture.undisturbed(command).outcome.seconds
    assert not torture.strike(command, after=moment, replacing=True).problems


@pytest.mark.parametrize(
    ("name", "number"), [("prepare dataset", signal.SIGTERM), ("export motifs", signal.SIGINT)]
)
def test_stopped_in_the_middle(name: str, number: int, torture: Torture) -> None:
    command = BY_NAME[name]
    at_step = torture.undisturbed(command).outcome.steps // 2
    strike = torture.strike(command, number=number, at_step=at_step)
    assert not strike.problems
