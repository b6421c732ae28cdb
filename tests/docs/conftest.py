"""Running what the pages say, and the program that writes their tables of settings."""

import importlib.util
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RunBash = Callable[..., str]


def run_python(code: str) -> dict[str, Any]:
    """Run the Python of a page in the current folder; returns its names."""
    names: dict[str, Any] = {}
    exec(compile(code, "page", "exec"), names)
    return names


@pytest.fixture(scope="session")
def run_bash(bioattn_folder: Path) -> RunBash:
    """Run commands in a folder beside `data`; returns stdout, or with `everything` stderr too."""

    def run(code: str, folder: Path, *, everything: bool = False, **variables: str) -> str:
        if not (folder / "data").exists():
            (folder / "data").symlink_to(ROOT / "data")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder,
            env={**os.environ, "PATH": f"{bioattn_folder}{os.pathsep}{os.environ['PATH']}", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if everything else subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def settings_tables() -> ModuleType:
    """docs/settings_tables.py."""
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "docs" / "settings_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
