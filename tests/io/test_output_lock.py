"""Two runs on one output: the second is told, nothing is lost, and locks leave nothing behind."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bioattn.errors import BioattnError
from bioattn.io import output_lock
from bioattn.io.files import atomic_output, text_output
from bioattn.io.folders import atomic_folder
from bioattn.io.output_lock import lock_output, reserve_output
from bioattn_cli.main import main

REPOSITORY = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from bioattn.io.files import atomic_output

with atomic_output(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    print("holding", flush=True)
    sys.stdin.read()
    temporary.write_text("whole")
"""


def hold(output):
    """Another process that is writing `output`, until its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    return process


def test_the_second_process_is_told_which_the_first_is_and_the_first_goes_on(tmp_path):
    output = tmp_path / "out.tsv"
    output.write_text("earlier")
    process = hold(output)
    with pytest.raises(BioattnError) as refused, text_output(output):
        raise AssertionError("both write")
    assert str(refused.value) == (
        f"{output}: another run is writing this output (process {process.pid} on {socket.gethostname()}); wait "
        "for it to end, or choose another name"
    )
    assert output.read_text() == "earlier"
    process.communicate("")
    assert process.returncode == 0
    assert output.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [output]


def test_a_killed_process_holds_nothing_and_the_next_clears_up_after_it(tmp_path):
    output = tmp_path / "out.tsv"
    process = hold(output)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert {path.name for path in tmp_path.iterdir()} == {f".tmp-{process.pid}-out.tsv", ".out.tsv.lock"}
    with text_output(output) as file:
        file.write("next")
    assert output.read_text() == "next"
    assert list(tmp_path.iterdir()) == [output]


def test_another_way_to_the_same_file_is_the_same_output(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with lock_output(tmp_path / "real" / "a"):
        with (
            pytest.raises(BioattnError, match="another run is writing"),
            lock_output(tmp_path / "link" / "a"),
        ):
            pass
        with lock_output(tmp_path / "real" / "b"):
            pass


def test_a_command_hands_its_lock_to_its_writer_and_to_one_at_a_time(tmp_path):
    output = tmp_path / "folder"
    with reserve_output(output):
        for _ in range(2):
            with atomic_folder(output, {"a"}) as partial, text_output(partial / "a") as file:
                file.write("content")
                with pytest.raises(BioattnError, match="another run is writing"), lock_output(output):
                    pass
                assert not list(partial.glob(".*.lock"))
    assert list(tmp_path.iterdir()) == [output]
    assert list(output.iterdir()) == [output / "a"]


def test_many_writers_of_one_output_take_turns_and_no_lock_is_left(tmp_path):
    """The lock file is removed by each holder, while others wait to open it: only one may hold at any moment."""
    counter, output = tmp_path / "counter", tmp_path / "out"
    counter.write_text("0")
    code = f"""
import sys
from pathlib import Path
from bioattn.errors import BioattnError
from bioattn.io.output_lock import lock_output
done = 0
counter = Path({str(counter)!r})
while done < 60:
    try:
        with lock_output(Path({str(output)!r})):
            number = int(counter.read_text())
            counter.write_text(str(number + 1))
            done += 1
    except BioattnError:
        pass
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    processes = [subprocess.Popen([sys.executable, "-c", code], env=environment) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert counter.read_text() == "180"
    assert list(tmp_path.iterdir()) == [counter]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_does_not_stop_the_work(number, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with text_output(tmp_path / "out") as file:
        file.write("content")
        assert not (tmp_path / ".out.lock").exists()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["content"]


def test_no_locks_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(output_lock, "fcntl", None)
    with text_output(tmp_path / "out") as file:
        file.write("content")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_files_of_other_people_stay_as_they_are(tmp_path):
    output, lock = tmp_path / "out", tmp_path / ".out.lock"
    lock.write_text("my notes on locks\n")
    with text_output(output) as file:
        file.write("content")
    assert lock.read_text() == "my notes on locks\n"
    lock.unlink()
    target = tmp_path / "target"
    target.write_text("")
    lock.symlink_to(target)
    with text_output(output) as file:
        file.write("content")
    assert lock.is_symlink()
    assert target.read_text() == ""


def test_a_lock_of_another_machine_does_not_cost_its_temporary_file(tmp_path):
    """Its process number says nothing here, and there are file systems whose locks end at the machine."""
    output = tmp_path / "out"
    theirs = tmp_path / ".tmp-4711-out"
    theirs.write_text("half")
    (tmp_path / ".out.lock").write_text("process 4711 on elsewhere.example\n")
    with lock_output(output):
        assert theirs.exists()
    (tmp_path / ".out.lock").write_text(f"process 4711 on {socket.gethostname()}\n")
    with lock_output(output):
        assert not theirs.exists()


def test_no_lock_where_there_is_no_file_to_make(tmp_path):
    for path in (Path("/dev/null"), Path("-"), tmp_path / "missing" / "out", tmp_path / ("x" * 255)):
        with reserve_output(path), lock_output(path):
            pass
    assert not list(tmp_path.iterdir())
    assert not Path("/dev/.null.lock").exists()


def test_caches_may_be_made_by_several_at_once(tmp_path):
    with atomic_output(tmp_path / "index", lock=False) as one:
        one.write_text("index")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 4711)
            with atomic_output(tmp_path / "index", lock=False) as other:
                other.write_text("index")
        assert one != other
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_commands_hold_their_output_from_the_beginning(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = hold(Path("report.html"))
    assert main(["report", "no-such-file", "-o", "report.html"]) == 1
    assert "another run is writing this output" in capsys.readouterr().err
    process.communicate("")
    assert main(["report", "no-such-file", "-o", "report.html"]) == 1
    assert "no such file" in capsys.readouterr().err
    assert Path("report.html").read_text() == "whole"


def test_a_child_that_lives_on_does_not_keep_the_lock(tmp_path):
    """Worker processes inherit descriptors when they are forked."""
    release = threading.Event()
    with lock_output(tmp_path / "out"):
        child = os.fork()
        if child == 0:
            release.wait(10)
            os._exit(0)
    try:
        with lock_output(tmp_path / "out"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_everything_a_killed_writer_left_goes_with_its_lock(tmp_path):
    """What it nested, put beside its temporary file or wrote as a record; nothing of other outputs."""
    output = tmp_path / "out.fa"
    first = ".tmp-4711-out.fa"
    mine = [first, f".tmp-4711-{first}", f"{first}.codes", f"{first}.run.json"]
    theirs = [".tmp-4711-other", ".tmp-4712-out.fa", "out.fa.bak"]
    for name in [*mine, *theirs]:
        (tmp_path / name).touch()
    (tmp_path / ".out.fa.lock").write_text(f"process 4711 on {socket.gethostname()}\n")
    with lock_output(output):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(theirs)
