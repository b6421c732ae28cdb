"""What a model family is, and which there are: each is a folder with a `family.py` that ends in `FAMILY = …`.

Families are the subfolders of this folder; the environment variable BIOATTN_FAMILIES adds more. Each of the
folders it names (separated as in PATH) is a family or holds families. A family in such a folder is imported as
those here are, as `bioattn.models.<folder>`. A model folder that a user gives never is: nothing in it is run.

`family.py` imports neither torch nor the family's layers, as every `--help` reads it.
"""

import importlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from bioattn import models
from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_json
from bioattn.io.settings import Settings

if TYPE_CHECKING:
    import torch

    from bioattn.inference.runner import Runner
    from bioattn.store.kinds import FileKind

VARIABLE = "BIOATTN_FAMILIES"
CONFIG = "config.json"
"""The file of a model folder that names its family."""
WEIGHTS = "model.safetensors"


class Family(Protocol):
    """What every family tells of itself. What only some can do are further methods, which `ability` finds.

    A family that derives from this class needs to say only what differs from the usual.
    """

    name: str
    """As commands and the `model_type` of model folders have it; also the name of its folder."""
    title: str
    """What its models are, for lists of families."""
    settings: Mapping[str, type[Settings]]
    """By verb (`train`, `run`, …), the settings of the family's command."""
    nouns: Mapping[str, str] = MappingProxyType({})
    """By verb, what the command is called where that is not the family's name."""

    table: str = ""
    """Of the folder that `run` writes, the file with the main table; empty where `run` writes one table."""
    files: Sequence[str] = ()
    """Names of files that only this family writes into its model folders."""
    published_types: Sequence[str] = ()
    """The `model_type` of folders of transformers that it reads."""

    def load(self, folder: Path, device: "torch.device") -> "Runner":
        """A trained model, ready to run on `device`. Raises: BioattnError naming what is wrong with the folder."""

    def file_kinds(self) -> "Sequence[FileKind]":
        """The kinds of files that it owns: those of its `file_kinds.py`, else its model folders."""
        module = f"bioattn.models.{self.name}.file_kinds"
        if importlib.util.find_spec(module) is not None:
            return cast("Sequence[FileKind]", importlib.import_module(module).FILE_KINDS)
        from bioattn.models.file_kinds import model_kind

        return (model_kind(self),)


def imported(module: str, name: str) -> Any:
    """A method of a family: the function or class `name` of a module of models, imported when it is called, as
    torch takes seconds. module: below `bioattn.models`."""

    def call(*arguments: Any, **options: Any) -> Any:
        return getattr(importlib.import_module(f"bioattn.models.{module}"), name)(*arguments, **options)

    return staticmethod(call)


def method(module: str, name: str) -> Any:
    """As `imported`, of a model that is loaded: it is the first argument."""
    return imported(module, name).__func__


def families() -> Mapping[str, Family]:
    """All families by name, those of bioattn first. Raises: BioattnError naming a folder that cannot be used."""
    return _families(os.environ.get(VARIABLE, ""))


def family(name: str) -> Family:
    """The family of this name. Raises: BioattnError naming those there are."""
    known = families()
    if name not in known:
        raise BioattnError(f"no model family {name!r}; known are {', '.join(known)} ({VARIABLE} adds more)")
    return known[name]


def family_of(model_folder: Path) -> Family:
    """The family that a model folder's `config.json` names.

    Raises: FormatError when it is no model folder or its family is not known; BioattnError when it cannot be read.
    """
    path = model_folder / CONFIG
    if not model_folder.exists():
        raise BioattnError(f"{model_folder}: no such file or folder")
    if not path.is_file():
        for each in families().values():
            if hasattr(each, "recognises") and each.recognises(model_folder):
                return each
        raise FormatError(f"{model_folder}: not a model folder, {CONFIG} is missing")
    content = read_json(path)
    name = content.get("model_type") if isinstance(content, dict) else None
    found = described_by(content)
    if found is None:
        theirs = [each for family in families().values() for each in family.published_types]
        raise FormatError(
            f"{path}: a model of type {name!r}; known are {', '.join(families())} ({VARIABLE} adds more), and of "
            f"transformers {', '.join(theirs)}"
        )
    return found


def described_by(content: Any) -> Family | None:
    """The family of a model with this `config.json`, its own or a published one; None for an unknown one."""
    if not isinstance(content, dict):
        return None
    for each in families().values():
        if content.get("model_type") == each.name or (hasattr(each, "published") and each.published(content)):
            return each
    return None


def load_runner(path: Path, device: "torch.device") -> "Runner":
    """The model of a model folder, or of a file that a family reads parameters from, ready to run on `device`.

    Raises: as `family_of` and the family's `load`.
    """
    family = family_of_parameters(path)
    if path.is_file() and hasattr(family, "load_file"):
        return cast("Runner", family.load_file(path, device))
    return family.load(path, device)


def is_parameter_file(path: Path) -> bool:
    """Whether a family knows a file as one of its parameters."""
    return any(each.recognises(path) for each in families().values() if hasattr(each, "recognises"))


def family_of_parameters(path: Path) -> Family:
    """The family of a model folder, or the one that reads files of parameters. Raises: as `family_of`."""
    if not path.is_file():
        return family_of(path)
    readers = [each for each in families().values() if hasattr(each, "load_file")]
    known = (each for each in readers if hasattr(each, "recognises") and each.recognises(path))
    # The last resort is the one that tells best what is wrong with a file that is nobody's.
    return next(known, next(each for each in readers if not hasattr(each, "recognises")))


def ability(of: Family, name: str) -> Any:
    """The method `name` that only some families have. Raises: BioattnError naming those families."""
    method = getattr(of, name, None)
    if method is None:
        able = [each.name for each in families().values() if hasattr(each, name)]
        raise BioattnError(
            f"{of.name} models cannot {name.replace('_', ' ')}; models that can: {', '.join(able) or 'none'}"
        )
    return method


@cache
def _families(added: str) -> dict[str, Family]:
    """added: folders, as the environment variable names them."""
    folders = sorted(path.parent for path in Path(__file__).parent.glob("*/family.py"))
    for folder in (Path(name).absolute() for name in added.split(os.pathsep) if name):
        found = sorted(path.parent for path in [*folder.glob("family.py"), *folder.glob("*/family.py")])
        if not found:
            raise BioattnError(f"{VARIABLE}: {folder} neither is a model family nor holds one (no family.py)")
        folders += found
    known: dict[str, Family] = {}
    for folder in folders:
        # So that the family's modules find each other as `bioattn.models.<folder>…`.
        if str(folder.parent) not in models.__path__:
            models.__path__.append(str(folder.parent))
        module = importlib.import_module(f"bioattn.models.{folder.name}.family")
        if not Path(str(module.__file__)).parent.samefile(folder):
            raise BioattnError(f"{folder}: bioattn has a folder of this name already; give it another name")
        family = cast(Family | None, getattr(module, "FAMILY", None))
        if family is None or family.name != folder.name:
            raise BioattnError(
                f"{module.__file__}: does not end in FAMILY = …, a family called {folder.name!r} as its folder is"
            )
        known[folder.name] = family
    return known
