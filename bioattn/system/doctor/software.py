"""Versions: of bioattn, Python, the libraries it needs and those that give it more."""

import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from itertools import takewhile
from pathlib import Path

import bioattn
from bioattn.system.doctor.diagnosis import Diagnosis, Status


@dataclass(frozen=True, slots=True)
class Library:
    """A library under the name it is installed by, the name it is imported by, and the least version."""

    distribution: str
    module: str
    least: tuple[int, ...]
    extra: str = ""
    """Of an optional one: the extra of the package that brings it."""
    gives: str = ""


REQUIRED = (
    Library("torch", "torch", (2, 6)),
    Library("numpy", "numpy", (1, 26)),
    Library("h5py", "h5py", (3, 11)),
    Library("pandas", "pandas", (2, 2)),
    Library("scipy", "scipy", (1, 12)),
    Library("threadpoolctl", "threadpoolctl", (3, 5)),
    Library("biopython", "Bio", (1, 83)),
    Library("pyfaidx", "pyfaidx", (0, 8, 1)),
    Library("safetensors", "safetensors", (0, 4, 5)),
    Library("rich", "rich", (13, 7)),
    Library("typer", "typer", (0, 15)),
)
EXTRAS = (
    Library("matplotlib", "matplotlib", (3, 8), "plot", "figures: bioattn plot, logos of export motifs"),
    Library(
        *("memelite", "memelite", (0, 2), "motif"),
        "names of motifs from a JASPAR or MEME database: export motifs --database",
    ),
    Library(
        *("tokenizers", "tokenizers", (0, 20), "language"), "published models whose words are made by merging"
    ),
    Library("rdkit", "rdkit", (2024, 3), "chem", "molecules: prepare molecules, run molecule"),
    Library("scikit-bio", "skbio", (0, 6, 3), "phylo", "trees: run phyloformer"),
    Library("pyhmmer", "pyhmmer", (0, 12), "msa", "alignments built by search: prepare msa --search"),
    Library("anndata", "anndata", (0, 11), "anndata", "predictions and attention for scanpy: export anndata"),
    Library(
        *("tensorboard", "tensorboard", (2, 14), "track"), "training logged for TensorBoard: train --log-dir"
    ),
)
LEAST_PYTHON = (3, 11)


def software_diagnoses() -> Iterator[Diagnosis]:
    """bioattn, Python and everything that bioattn needs."""
    text = f"{bioattn.__version__} in {Path(bioattn.__file__).parent}"
    yield Diagnosis("versions", "bioattn", text, bioattn.__version__)
    version = platform.python_version()
    text = f"{version} ({sys.executable}) on {platform.system()} {platform.machine()}"
    if sys.version_info < LEAST_PYTHON:
        advice = f"use Python {_dotted(LEAST_PYTHON)} or later"
        yield Diagnosis("versions", "Python", text, version, Status.ERROR, advice)
    else:
        yield Diagnosis("versions", "Python", text, version)
    for library in REQUIRED:
        yield _library_diagnosis("versions", library.distribution, library, Status.ERROR)
    try:
        import h5py
    except (ImportError, OSError):
        return
    yield Diagnosis("versions", "HDF5", h5py.version.hdf5_version, h5py.version.hdf5_version)


def extra_diagnoses() -> Iterator[Diagnosis]:
    """What of the optional libraries is installed, and what the others would give."""
    for library in EXTRAS:
        if importlib.util.find_spec(library.module) is None:
            text, advice = f"not installed ({library.distribution})", f"pip install {library.distribution}"
            yield Diagnosis("extras", library.extra, f"{text}: {library.gives}", None, Status.ABSENT, advice)
        else:
            yield _library_diagnosis("extras", library.extra, library, Status.WARNING)


def _library_diagnosis(topic: str, name: str, library: Library, trouble: Status) -> Diagnosis:
    """Import a library that is installed. trouble: the status of one that fails or is old."""
    version = _version(library)
    try:
        importlib.import_module(library.module)
    except Exception as error:  # noqa: BLE001 - a broken installation fails in any way it likes
        lines = str(error).splitlines() or [type(error).__name__]
        text = f"{library.distribution} cannot be imported ({lines[0]})"
        advice = f"pip install --force-reinstall {library.distribution}"
        return Diagnosis(topic, name, text, None, trouble, advice)
    text = version or "of unknown version"
    text = f"{library.distribution} {text}: {library.gives}" if library.gives else text
    if not _is_older(version, library.least):
        return Diagnosis(topic, name, text, version)
    text += f"; {_dotted(library.least)} or later is needed"
    return Diagnosis(topic, name, text, version, trouble, f"pip install --upgrade {library.distribution}")


def _version(library: Library) -> str | None:
    try:
        return metadata.version(library.distribution)
    except metadata.PackageNotFoundError:
        return None


def _is_older(version: str | None, least: tuple[int, ...]) -> bool:
    """Whether `version` is below `least`; one that cannot be read is not held against it."""
    parts = takewhile(str.isdecimal, (version or "").split("+")[0].split("."))
    numbers = tuple(map(int, parts))
    return bool(numbers) and numbers < least


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
