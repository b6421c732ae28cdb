"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

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


@pytest.fixture(autouse=True)
def _private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep genome indexes made by tests out of the user's cache."""
    monkeypatch.setenv("BIOATTN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
