"""Fixtures shared by all tests."""

import fcntl
import gc
import os
import sys
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.programs import BIOATTN, ForkServer

collect_ignore = ["models/toy"]
"""A family that is imported as `bioattn.models.toy` only (`test_family.py`)."""

# How long an example takes says how busy the machine is, and nothing about the code. A commit is tested with the
# same examples each time; EXAMPLES=1000 draws more of them, and others.
settings.register_profile(
    "tests",
    deadline=None,
    max_examples=int(os.environ.get("EXAMPLES", "25")),
    derandomize="EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("tests")

# Looking for garbage after every 700 objects takes one second of twelve.
gc.set_threshold(50_000, 10, 10)

# Tensors of the tests are small: a second thread costs more than it gives. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):
    """Without `-m gpu` tests see no GPU: what they expect, the CPU computes."""
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Docstrings of tests hold no examples, and to look for them takes a second of each process."""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """The CPU, and CUDA where there is one."""
    import torch

    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)


REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and golden files, named by BIOATTN_SHARED; its tests skip without it."""
    folder = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data" / "README.md").is_file():
        pytest.skip(f"no shared data at {folder} (set BIOATTN_SHARED)")
    return folder


def made_once(tmp_path_factory, name, make):
    """A folder that `make` has filled, once for all processes that run tests. Nobody writes into it later."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / f"made-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = folder.with_suffix(".making")
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder


@pytest.fixture(autouse=True)
def _one_thread():
    """Sums in one order, and no threads that cost more than they give, whatever ran before."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _private_cache(tmp_path_factory, monkeypatch):
    """Keep genome indexes made by tests out of the user's cache."""
    monkeypatch.setenv("BIOATTN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def programs(tmp_path_factory, name, modules, functions, python=sys.executable):
    """A folder for the PATH with programs that call `functions`, by name; one server for all that run tests."""
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()

    def make(folder):
        server = ForkServer(modules, owner, python)
        for program, function in functions.items():
            server.program(folder / program, function)

    return made_once(tmp_path_factory, name, make)


@pytest.fixture(scope="session")
def bioattn_folder(tmp_path_factory):
    """A folder for the PATH with `bioattn` and `python`: processes of their own that take no seconds to start."""
    functions = {"bioattn": "bioattn_cli.main:main", "python": "__main__:python"}
    return programs(tmp_path_factory, "bioattn", BIOATTN, functions)


@pytest.fixture(scope="session")
def python(bioattn_folder):
    """What takes `-c CODE` and `-m MODULE` as Python does, with all of bioattn imported."""
    return str(bioattn_folder / "python")


@pytest.fixture(scope="session")
def snakemake_folder(tmp_path_factory):
    """The same with `snakemake`, of the environment of its own."""
    python = REPOSITORY / ".venv-snakemake" / "bin" / "python"
    if not python.is_file():
        pytest.skip("no Snakemake: make install-snakemake")
    own = ("cli", "api", "report.html_reporter", "storage", "profiles", "assets")
    others = ("smart_open", "yte", "requests", "docutils.core", "jsonschema")
    modules = [*(f"snakemake.{name}" for name in own), *others]
    return programs(tmp_path_factory, "snakemake", modules, {"snakemake": "snakemake.cli:main"}, str(python))
