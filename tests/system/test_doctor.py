"""`bioattn doctor`: through the front door, and what it says of libraries, devices and folders."""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bioattn import __version__
from bioattn.system import cgroups as control_group
from bioattn.system.doctor import compute, examine, software, storage
from bioattn.system.doctor.compute import device_diagnoses, memory_diagnoses, thread_diagnoses
from bioattn.system.doctor.diagnosis import Diagnosis, Status
from bioattn.system.doctor.software import (
    EXTRAS,
    LEAST_PYTHON,
    REQUIRED,
    Library,
    extra_diagnoses,
    software_diagnoses,
)
from bioattn.system.doctor.storage import handle_diagnosis, hdf5_diagnosis, lock_diagnosis, storage_diagnoses
from bioattn_cli.main import main

ROOT = Path(__file__).resolve().parents[2]


def test_text_and_json_say_the_same(tmp_path, capsys):
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


def test_what_is_broken_is_exit_code_1(tmp_path, monkeypatch, capsys):
    broken = Diagnosis(
        topic="files", name="HDF5", text="no", status=Status.ERROR, advice="another file system"
    )
    monkeypatch.setattr(storage, "hdf5_diagnosis", lambda _: broken)
    assert main(["doctor", str(tmp_path)]) == 1
    text = capsys.readouterr().out
    assert "\nX HDF5 " in text
    assert "-> another file system" in text
    assert "1 thing broken (X)" in text


def test_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["doctor", str(tmp_path / "nowhere")]) == 1
    assert f"{tmp_path / 'nowhere'}: no such folder" in capsys.readouterr().err


def test_warnings_alone_are_no_failure():
    assert examine.overall([]) is Status.OK
    of = {status: Diagnosis(topic="files", name=status, text="", status=status) for status in Status}
    assert examine.overall([of[Status.ABSENT], of[Status.OK]]) is Status.OK
    assert examine.overall([of[Status.WARNING], of[Status.ABSENT]]) is Status.WARNING
    assert examine.overall([of[Status.ERROR], of[Status.WARNING]]) is Status.ERROR


def test_a_python_without_torch_is_told_apart_from_a_crash(tmp_path):
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


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirement(library):
    return f"{library.distribution}>={'.'.join(str(part) for part in library.least)}"


def test_the_tables_say_what_the_project_requires():
    assert sorted(map(requirement, REQUIRED)) == sorted(PROJECT["dependencies"])
    of_developers = {"test", "dev", "fuzz", "all"}
    extras = {
        name: needs for name, needs in PROJECT["optional-dependencies"].items() if name not in of_developers
    }
    assert {library.extra: [requirement(library)] for library in EXTRAS} == extras
    assert PROJECT["optional-dependencies"]["all"] == [f"bioattn[{','.join(sorted(extras))}]"]
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, LEAST_PYTHON))}"


def test_versions_are_those_of_the_libraries():
    found = {diagnosis.name: diagnosis for diagnosis in software_diagnoses()}
    for library in REQUIRED:
        assert found[library.distribution].value == metadata.version(library.distribution)
    import h5py

    assert found["HDF5"].value == h5py.version.hdf5_version
    assert all(diagnosis.status is Status.OK for diagnosis in found.values())


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A folder of modules that imports look into first."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brokenlib.py").write_text("raise OSError('libGL.so.1: cannot open shared object file')")
    (tmp_path / "needslib.py").write_text("import a_module_that_is_not_there")
    (tmp_path / "oldlib.py").write_text("")
    info = tmp_path / "oldlib-1.9.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oldlib\nVersion: 1.9.2\n")
    return tmp_path


def test_a_needed_library_that_fails_is_an_error(broken, monkeypatch):
    monkeypatch.setattr(
        software,
        "REQUIRED",
        (
            Library("brokenlib", "brokenlib", (1,)),
            Library("oldlib", "oldlib", (1, 10)),
            Library("oldlib", "oldlib", (1, 9)),
        ),
    )
    wrong, old, good = [
        diagnosis for diagnosis in software_diagnoses() if re.match("brokenlib|oldlib", diagnosis.name)
    ]
    assert wrong.status is old.status is Status.ERROR
    assert wrong.text == "brokenlib cannot be imported (libGL.so.1: cannot open shared object file)"
    assert old.text == "1.9.2; 1.10 or later is needed"
    assert old.advice == "pip install --upgrade oldlib"
    assert good.status is Status.OK


def test_extras_that_are_missing_or_broken(broken, monkeypatch):
    extras = [
        Library(name, name, (1,), name, "something") for name in ("nowherelib", "brokenlib", "needslib")
    ]
    monkeypatch.setattr(software, "EXTRAS", extras)
    missing, wrong, needs = extra_diagnoses()
    assert (missing.status, missing.advice) == (Status.ABSENT, "pip install nowherelib")
    assert wrong.status is needs.status is Status.WARNING
    assert "a_module_that_is_not_there" in needs.text
    for name in ("brokenlib", "needslib", "oldlib"):
        sys.modules.pop(name, None)


def of(diagnoses, name):
    (found,) = [diagnosis for diagnosis in diagnoses if diagnosis.name == name]
    return found


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """A torch built for CUDA, and no driver until its file is written."""
    driver = tmp_path / "driver"
    monkeypatch.setattr(compute, "_NVIDIA_DRIVER", driver)
    monkeypatch.setattr(compute, "_AMD_DRIVER", tmp_path / "kfd")
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    return SimpleNamespace(driver=driver)


def test_a_build_for_the_cpu_says_so(gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.ABSENT
    assert "build for the CPU" in cuda.text
    gpu.driver.write_text("")
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.WARNING
    assert "there is a GPU driver" in cuda.text


def test_a_build_for_cuda_without_a_gpu_says_why(gpu, monkeypatch):
    cuda = of(device_diagnoses(), "CUDA")
    assert (cuda.status, cuda.value) == (Status.WARNING, 0)
    assert "built for CUDA 12.6: there is no GPU driver" in cuda.text
    gpu.driver.write_text("")
    assert "the driver is there but offers no device" in of(device_diagnoses(), "CUDA").text

    def warns():
        import warnings

        warnings.warn("The NVIDIA driver on your\n system is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", warns)
    assert "The NVIDIA driver on your system is too old" in of(device_diagnoses(), "CUDA").text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is '', which hides every GPU" in of(device_diagnoses(), "CUDA").text


def test_a_gpu_that_does_not_compute_is_an_error(gpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8 * 10**9)
    )
    ones = torch.ones

    def no_kernel(*size, device):
        raise RuntimeError("CUDA error: no kernel image is available\nmore")

    monkeypatch.setattr(torch, "ones", no_kernel)
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.ERROR
    assert cuda.text == "GPU 0 is there but does not compute (CUDA error: no kernel image is available)"

    monkeypatch.setattr(torch, "ones", lambda *size, device: ones(*size))
    diagnoses = list(device_diagnoses())
    assert of(diagnoses, "CUDA").text == "Old GPU (8 GB); torch is built for CUDA 12.6"
    assert of(diagnoses, "--device auto").value == "cuda"


@pytest.mark.gpu
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_gpu_is_named():
    assert torch.cuda.get_device_name(0) in of(device_diagnoses(), "CUDA").text


@pytest.mark.parametrize(
    ("told", "status", "says"),
    [
        (None, Status.ABSENT, "not set: bioattn takes 4 threads"),
        ("1", Status.WARNING, "1: bioattn uses one of 4 cores"),
        ("2", Status.OK, "2"),
        ("4", Status.OK, "4"),
        ("5", Status.WARNING, "5: more threads than cores"),
        ("0", Status.WARNING, "'0', which is not a number of threads"),
        ("4,2", Status.WARNING, "'4,2', which is not a number of threads"),
    ],
)
def test_variables_that_hurt(told, status, says, monkeypatch, tmp_path):
    monkeypatch.setattr(control_group, "MOUNT", tmp_path)
    (tmp_path / "cpu.max").write_text("350000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    if told is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    diagnoses = list(thread_diagnoses())
    assert of(diagnoses, "cores").value == 4
    assert "CPU quota 3.5" in of(diagnoses, "cores").text
    variable = of(diagnoses, "OMP_NUM_THREADS")
    assert variable.status is status
    assert variable.text.startswith(says)


def test_other_variables_are_looked_at_when_set(monkeypatch):
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert "MKL_NUM_THREADS" not in {diagnosis.name for diagnosis in thread_diagnoses()}
    monkeypatch.setenv("MKL_NUM_THREADS", "100000")
    assert of(thread_diagnoses(), "MKL_NUM_THREADS").status is Status.WARNING


def test_a_container_short_of_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(control_group, "MOUNT", tmp_path)
    (tmp_path / "memory.max").write_text("900000000\n")
    (tmp_path / "memory.current").write_text("300000000\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    diagnoses = list(memory_diagnoses())
    assert of(diagnoses, "control group").value == 900_000_000
    free = of(diagnoses, "free")
    assert (free.value, free.status) == (600_000_000, Status.WARNING)


def test_a_good_folder(tmp_path):
    found = {diagnosis.name: diagnosis for diagnosis in storage_diagnoses(tmp_path)}
    assert {name: diagnosis.status for name, diagnosis in found.items()} == dict.fromkeys(
        ("folder", "locks", "HDF5", "cache", "open files"), Status.OK
    )
    assert found["cache"].value == os.environ["BIOATTN_CACHE"]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_files(tmp_path, monkeypatch):
    """Root may write anywhere, so the folder is one of the system's that takes none from anyone."""
    closed = Path("/proc") if os.geteuid() == 0 else tmp_path / "closed"
    if closed.parent == tmp_path:
        closed.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    if not closed.is_dir():
        pytest.skip("root may write anywhere here")
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("BIOATTN_CACHE", str(file / "cache"))
    folder, cache, *_ = storage_diagnoses(closed)
    assert (folder.name, folder.status) == ("folder", Status.WARNING)
    assert "cannot be written" in folder.text
    assert (cache.name, cache.status) == ("cache", Status.WARNING)
    assert "BIOATTN_CACHE" in cache.advice


@pytest.mark.skipif(storage.fcntl is None, reason="Windows has no advisory locks")
def test_file_systems_without_locks(tmp_path, monkeypatch):
    assert lock_diagnosis(tmp_path).value is True

    def refused(_descriptor, _operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(storage.fcntl, "flock", refused)
    none = lock_diagnosis(tmp_path)
    assert (none.value, none.status) == (False, Status.WARNING)
    assert "this file system has none (No locks available)" in none.text
    monkeypatch.setattr(storage.fcntl, "flock", lambda _descriptor, _operation: None)
    assert "are granted twice here" in lock_diagnosis(tmp_path).text
    monkeypatch.setattr(storage, "fcntl", None)
    assert "this system has none" in lock_diagnosis(tmp_path).text


def test_hdf5_that_cannot_lock(tmp_path, monkeypatch):
    import h5py

    def refused(*_):
        raise BlockingIOError(
            errno.EAGAIN, "Unable to synchronously open file (unable to lock file, errno = 11)"
        )

    monkeypatch.setattr(h5py, "File", refused)
    diagnosis = hdf5_diagnosis(tmp_path)
    assert diagnosis.status is Status.ERROR
    assert "unable to lock file" in diagnosis.text
    assert "HDF5_USE_FILE_LOCKING=FALSE" in diagnosis.advice
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "status"), [(-1, Status.OK), (1024, Status.OK), (128, Status.OK), (64, Status.WARNING)]
)
def test_few_file_handles(limit, status):
    assert handle_diagnosis(limit).status is status
