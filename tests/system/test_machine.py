"""Devices, threads, memory and shards of a process, and what `bioattn doctor` says of them."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest
import torch

from bioattn.errors import SettingsError
from bioattn.system import doctor, memory
from bioattn.system.device import describe_device, granted_cores, granted_threads, set_threads
from bioattn.system.memory import free_memory
from bioattn.system.shard import parse_shard
from bioattn_cli.main import main
from tests.conftest import REPOSITORY


def test_threads_granted_by_the_environment(monkeypatch):
    before = torch.get_num_threads()
    try:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert set_threads(None) == 1
        assert describe_device(torch.device("cpu")) == "cpu (1 thread)"
        assert set_threads(2) == 2
        assert describe_device(torch.device("cpu")) == "cpu (2 threads)"
        for text in ("", "0", "many", "100000"):
            monkeypatch.setenv("OMP_NUM_THREADS", text)
            assert 1 <= set_threads(None) < 100000
    finally:
        set_threads(before)


def test_linear_algebra_takes_the_threads_too():
    program = (
        "import numpy\n"
        "from threadpoolctl import threadpool_info\n"
        "from bioattn.system.device import set_threads\n"
        "def taken(): return {each['num_threads'] for each in threadpool_info() if each['user_api'] == 'blas'}\n"
        "set_threads(1)\n"
        "import scipy.linalg\n"
        "assert taken() == {1}, taken()\n"
        "set_threads(2)\n"
        "assert taken() == {2}, taken()"
    )
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A folder in place of /sys/fs/cgroup, of which nothing says yet what groups this process is in."""
    monkeypatch.setattr(memory, "MOUNT", tmp_path)
    monkeypatch.setattr(memory, "MEMBERSHIP", tmp_path / "membership")
    return tmp_path


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)


def test_the_least_of_all_limits_counts(groups):
    whole = free_memory()
    if whole is None:
        pytest.skip("this system does not say how much memory is free")
    assert 0 < whole <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    stat = "anon 3000000\ninactive_file 1000000\n"
    write(groups, memory__max="9000000\n", memory__current="5000000\n", memory__stat=stat)
    assert free_memory() == 5_000_000
    assert memory.memory_limit() == 9_000_000
    (groups / "memory.max").write_text("max\n")
    assert free_memory() > 5_000_000
    assert memory.memory_limit() is None


def test_limits_of_the_groups_above_count(groups):
    """As a batch system without containers has it: the job's group has the limit, the step's below it none."""
    (groups / "membership").write_text("0::/slurm/job_1/step_0\n")
    stat = "inactive_file 0\n"
    job = groups / "slurm" / "job_1"
    write(job, memory__max="800", memory__current="300", memory__stat=stat, cpu__max="250000 100000")
    write(job / "step_0", memory__max="max", memory__current="200", memory__stat=stat, cpu__max="max 100000")
    write(groups / "slurm" / "job_2", memory__max="10", memory__current="1", memory__stat=stat)
    assert (memory.memory_limit(), memory.memory_left()) == (800, 500)
    assert memory.cpu_quota() == 2.5


def test_version_1_has_a_folder_for_each_controller(groups):
    (groups / "membership").write_text("5:cpu,cpuacct:/a\n4:memory:/a/b\n1:name=systemd:/\n0::/\n")
    stat = "total_inactive_file 5\n"
    names = {"memory__usage_in_bytes": "50", "memory__stat": stat}
    write(groups / "memory", memory__limit_in_bytes=str(2**63 - 4096), **names)
    assert memory.memory_limit() is None
    write(groups / "memory" / "a" / "b", memory__limit_in_bytes="100", **names)
    assert memory.memory_left() == 55
    write(groups / "cpu" / "a", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    assert memory.cpu_quota() is None
    write(groups / "cpu" / "a", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    assert memory.cpu_quota() == 0.5


def test_a_group_out_of_sight_leaves_the_mount(groups):
    """In a container the path of the group may be the host's."""
    (groups / "membership").write_text("0::/docker/0123\n")
    write(groups, cpu__max="150000 100000")
    assert memory.cpu_quota() == 1.5


def test_threads_are_those_that_quota_and_variable_grant(groups, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert granted_cores() == granted_threads() == 64
    write(groups, cpu__max="350000 100000")
    assert granted_cores() == granted_threads() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert (granted_cores(), granted_threads()) == (4, 3)
    for value in ("100", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert granted_threads() == 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ulimit -v is Linux's")
def test_ulimit_counts():
    code = "from bioattn.system.memory import free_memory; print(free_memory())"
    command = f"ulimit -v 2000000; exec '{sys.executable}' -c '{code}'"
    said = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout
    assert 0 < int(said) < 2_000_000 * 1024


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "0/8", "9/8", "1/0", "-1/8", "1/8/2", "a/b", "1.5/8", "1/8\n2", "+1/8", "٣/8"),
        "1/" + "9" * 5000,
    ],
)
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(SettingsError, match="such as 1/8"):
        parse_shard(text)


def diagnosed(name):
    (found,) = [diagnosis for diagnosis in doctor.examine() if diagnosis.name == name]
    return found


def test_text_and_json_say_the_same(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    diagnoses = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in diagnoses] == re.findall(r"^[ !X] (\S+(?: \S+)*)  ", text, re.MULTILINE)
    assert not any(one["broken"] for one in diagnoses)
    versions = {one["name"]: one["text"] for one in diagnoses if one["topic"] == "versions"}
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for requirement in declared["dependencies"]:
        package = re.split("[>=]", requirement)[0]
        assert versions[package] == metadata.version(package)


@pytest.mark.parametrize(
    ("error", "text"),
    [(ImportError("libx.so is absent\nat …"), r"\(libx.so is absent\)"), (ModuleNotFoundError(), "^not")],
)
def test_a_needed_package_that_fails_is_broken(monkeypatch, capsys, error, text):
    def import_module(name):
        if name in ("h5py", "matplotlib"):
            raise error

    monkeypatch.setattr(doctor, "import_module", import_module)
    assert re.search(text, diagnosed("h5py").text)
    assert diagnosed("h5py").broken
    assert not diagnosed("matplotlib").broken
    assert main(["doctor"]) == 1
    assert re.search(r"^X h5py ", capsys.readouterr().out, re.MULTILINE)


def test_a_python_without_torch_is_told_from_a_crash(tmp_path):
    for name in (
        "torch",
        "skbio",
        "anndata",
        "matplotlib",
        "tensorboard",
    ):  # to import the rest takes seconds
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('no {name} here')\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from bioattn_cli.main import main; sys.exit(main(['doctor']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert "no torch here" in done.stdout
    assert not done.stderr


@pytest.mark.parametrize(("difference", "broken"), [(1e-7, False), (3.0, True), (float("nan"), True)])
def test_a_device_that_computes_wrongly_is_broken(monkeypatch, difference, broken):
    monkeypatch.setattr(doctor, "_forward", lambda device: difference)
    assert diagnosed("forward pass").broken is broken


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_named_and_tried():
    assert diagnosed("auto").text.startswith("takes cuda (")
    assert not diagnosed("forward pass").broken
