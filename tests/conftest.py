"""Fixtures shared by all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import ForkedProgram

# Tensors of the tests are small: a second thread costs more than it gives. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data and golden files, named by BIOATTN_SHARED; its tests skip without it."""
    folder = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
    if not (folder / "data" / "README.md").is_file():
        pytest.skip(f"no shared data at {folder} (set BIOATTN_SHARED)")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks() -> Iterator[None]:
    """No test pulls the plug, and what is killed loses nothing that it has written."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep genome indexes made by tests out of the user's cache."""
    monkeypatch.setenv("BIOATTN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="session")
def bioattn_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH with `bioattn`, which is a process of its own but takes no seconds to start."""
    folder = tmp_path_factory.mktemp("programs")
    with ForkedProgram(folder / "bioattn", "bioattn_cli.main:main", ["bioattn.*", "bioattn_cli.*"]):
        yield folder


@pytest.fixture(scope="session")
def snakemake_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same with `snakemake`, of the environment of its own."""
    python = REPOSITORY / ".venv-snakemake" / "bin" / "python"
    if not python.is_file():
        pytest.skip("no Snakemake: make install-snakemake")
    folder = tmp_path_factory.mktemp("programs")
    own = ("cli", "api", "report.html_reporter", "storage", "profiles", "assets")
    others = ("smart_open", "yte", "requests", "docutils.core", "jsonschema")
    modules = [*(f"snakemake.{name}" for name in own), *others]
    with ForkedProgram(folder / "snakemake", "snakemake.cli:main", modules, str(python)):
        yield folder
