"""`bioattn doctor` through the front door."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bioattn import __version__
from bioattn.system.doctor import examine, storage
from bioattn.system.doctor.diagnosis import Diagnosis, Status
from bioattn_cli.main import main

ROOT = Path(__file__).resolve().parents[3]


def test_text_and_json_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path), "--json"]) == 0
    said = capsys.readouterr()
    content = json.loads(said.out)
    assert (content["format"], content["bioattn_version"]) == ("bioattn-doctor", __version__)
    assert content["verdict"] in ("ok", "warning")
    names = [(diagnosis["topic"], diagnosis["name"]) for diagnosis in content["findings"]]
    assert len(set(names)) == len(names)
    assert {topic for topic, _ in names} == {"versions", "device", "threads", "memory", "files", "extras"}
    assert main(["doctor", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for diagnosis in content["findings"]:
        # What is free may differ a moment later.
        assert diagnosis["name"] in text
        if diagnosis["topic"] not in ("memory", "files"):
            assert diagnosis["text"] in text
        assert bool(diagnosis["advice"]) >= (diagnosis["verdict"] in ("warning", "error"))
    assert said.err == ""
    assert list(tmp_path.iterdir()) == []


def test_what_is_broken_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Diagnosis(
        topic="files", name="HDF5", text="no", status=Status.ERROR, advice="another file system"
    )
    monkeypatch.setattr(storage, "hdf5_diagnosis", lambda _: broken)
    assert main(["doctor", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "\nX HDF5 " in text
    assert "-> another file system" in text
    assert "1 thing broken (X)" in text


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path / "nowhere")]) == 1
    assert f"{tmp_path / 'nowhere'}: no such folder" in capsys.readouterr().err


def test_warnings_alone_are_no_failure() -> None:
    assert examine.overall([]) is Status.OK
    of = {status: Diagnosis(topic="files", name=status, text="", status=status) for status in Status}
    assert examine.overall([of[Status.ABSENT], of[Status.OK]]) is Status.OK
    assert examine.overall([of[Status.WARNING], of[Status.ABSENT]]) is Status.WARNING
    assert examine.overall([of[Status.ERROR], of[Status.WARNING]]) is Status.ERROR


def test_a_python_without_torch_is_told_apart_from_a_crash(tmp_path: Path) -> None:
    """Doctor is for the installation that does not work: every import may fail."""
    (tmp_path / "torch.py").write_text("raise OSError('libtorch_cpu.so: cannot open shared object file')")
    (tmp_path / "h5py.py").write_text("raise ImportError('libhdf5.so: cannot open shared object file')")
    script = "import sys; from bioattn_cli.main import main; sys.exit(main(['doctor', sys.argv[1]]))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}:{ROOT / 'cli'}", "BIOATTN_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "torch cannot be imported (libtorch_cpu.so" in done.stdout
    assert "h5py cannot be imported (libhdf5.so" in done.stdout
