"""Versions and extras: as pyproject.toml has them, and when a library is old, broken or missing."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from bioattn.system.doctor import software
from bioattn.system.doctor.diagnosis import Status
from bioattn.system.doctor.software import (
    EXTRAS,
    LEAST_PYTHON,
    REQUIRED,
    Library,
    extra_diagnoses,
    software_diagnoses,
)

PROJECT = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())["project"]


def requirement(library: Library) -> str:
    return f"{library.distribution}>={'.'.join(str(part) for part in library.least)}"


def test_the_tables_say_what_the_project_requires() -> None:
    assert sorted(map(requirement, REQUIRED)) == sorted(PROJECT["dependencies"])
    of_developers = {"test", "dev", "fuzz"}
    extras = {
        name: needs for name, needs in PROJECT["optional-dependencies"].items() if name not in of_developers
    }
    assert {extra.name: [requirement(extra.library)] for extra in EXTRAS} == extras
    assert PROJECT["requires-python"] == f">={'.'.join(map(str, LEAST_PYTHON))}"


def test_versions_are_those_of_the_libraries() -> None:
    found = {diagnosis.name: diagnosis for diagnosis in software_diagnoses()}
    for library in REQUIRED:
        assert found[library.distribution].value == metadata.version(library.distribution)
    import h5py

    assert found["HDF5"].value == h5py.version.hdf5_version
    assert all(diagnosis.status is Status.OK for diagnosis in found.values())


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that imports look into first."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brokenlib.py").write_text("raise OSError('libGL.so.1: cannot open shared object file')")
    (tmp_path / "needslib.py").write_text("import a_module_that_is_not_there")
    (tmp_path / "oldlib.py").write_text("")
    info = tmp_path / "oldlib-1.9.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: oldlib\nVersion: 1.9.2\n")
    return tmp_path


def test_a_needed_library_that_fails_is_an_error(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert old.text == "1.9.2, older than the 1.10 that bioattn needs"
    assert old.advice == "pip install --upgrade oldlib"
    assert good.status is Status.OK


def test_extras_that_are_missing_or_broken(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extras = [
        software.Extra(name, Library(name, name, (1,)), "something")
        for name in ("nowherelib", "brokenlib", "needslib")
    ]
    monkeypatch.setattr(software, "EXTRAS", extras)
    missing, wrong, needs = extra_diagnoses()
    assert (missing.status, missing.advice) == (Status.ABSENT, "pip install 'bioattn[nowherelib]'")
    assert wrong.status is needs.status is Status.WARNING
    assert "a_module_that_is_not_there" in needs.text
    for name in ("brokenlib", "needslib", "oldlib"):
        sys.modules.pop(name, None)
