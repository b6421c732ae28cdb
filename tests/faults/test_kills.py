"""Twenty kills while results of four kinds are replaced, and disks that fill: the old result or the new one."""

import shutil
import signal
import time

import pytest

from tests.faults.conftest import KINDS

MOMENTS = (0.2, 0.6, 0.9)
"""Parts of the time that the command takes."""
CHANGES = (1, 3)
"""Changes of the names in the folder."""


def wait(process, folder, moment=None, changes=None):
    """Wait for a moment (in s), or until names in the folder have changed so often, or the process has ended."""
    end, before = time.monotonic() + (30 if moment is None else moment), set(folder.iterdir())
    while time.monotonic() < end and process.poll() is None:
        if changes and (now := set(folder.iterdir())) != before:
            before, changes = now, changes - 1
            if not changes:
                return
        time.sleep(0 if changes else 0.005)


@pytest.mark.parametrize("name", KINDS)
def test_a_kill_leaves_the_old_result_or_the_new_one(name, program):
    kind = KINDS[name]
    began = time.monotonic()
    assert program.run(kind.line) == (0, "")
    seconds = time.monotonic() - began
    new = program.contents(kind.output)
    assert program.run(f"{kind.line} {kind.other}") == (0, "")
    old = program.contents(kind.output)
    assert new
    assert old != new
    kept = program.folder.with_name("kept")
    program.folder.rename(kept)
    killed = 0
    strikes = [{"moment": part * seconds} for part in MOMENTS] + [{"changes": number} for number in CHANGES]
    for strike in strikes:
        shutil.rmtree(program.folder, ignore_errors=True)
        shutil.copytree(kept, program.folder)
        process = program.start(kind.line)
        wait(process, program.folder, **strike)
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        assert program.contents(kind.output) in (old, new)
    assert killed
    assert program.run(kind.line) == (0, "")
    assert program.contents(kind.output) == new
    assert all(name.startswith(".tmp-") for name in program.others(kind.output))


def test_a_killed_training_goes_on(program):
    line = KINDS["training"].line.replace("--force", "--resume")
    process = program.start(line)
    wait(process, program.folder, changes=1)
    state = program.folder / "out.partial" / "trainer_state.safetensors"
    while not state.exists() and process.poll() is None:
        time.sleep(0)
    process.kill()
    process.communicate()
    assert program.run(line) == (0, "")
    resumed = program.contents("out")
    shutil.rmtree(program.folder / "out")
    assert program.run(line) == (0, "")
    assert program.contents("out")["out/model.safetensors"] == resumed["out/model.safetensors"]


@pytest.mark.parametrize("name", KINDS)
def test_a_full_disk_is_one_sentence(name, program):
    """Of files that may grow no further, which is EFBIG in place of ENOSPC."""
    kind = KINDS[name]
    assert program.run(kind.line) == (0, "")
    result = program.folder / kind.output
    files = [path for path in (result, *result.rglob("*")) if path.is_file()]
    largest = max(path.stat().st_size for path in files)
    assert program.run(f"{kind.line} {kind.other}") == (0, "")
    old = program.contents(kind.output)
    status, said = program.run(kind.line, file_size=largest // 2)
    assert status == 1, said
    assert said.count("bioattn: error: ") == len(said.splitlines()) == 1
    assert program.contents(kind.output) == old
