"""`bioattn.open`: what is in a file or folder that bioattn reads or writes."""

from collections import UserDict
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError
from bioattn.inference.inputs import python_warnings
from bioattn.store.attribution import Attribution
from bioattn.store.kinds import recognise
from bioattn.store.reader import Attention
from bioattn.text import quoted

_STAY_OPEN = {"attention": Attention.open, "attribution": Attribution.open}
"""By the kind of file."""


def open(path: Path | str) -> Any:
    """What is in a file or folder, as the Python object that fits it best.

    An attention file is an `Attention`, an attribution file an `Attribution`, a model folder a `Model`; a table is
    a pandas DataFrame, JSON a dict, a FASTA of promoters a dict of sequences by id; alignments, structures and
    datasets are what the library reads them as. Any other folder that bioattn wrote maps the names of its files to
    what is in them, and each is read when it is asked for.

    Raises: BioattnError when the path is of no kind that bioattn knows or cannot be read; FormatError when it is
    damaged.
    """
    path = Path(path)
    with python_warnings():
        kind = recognise(path)
        if kind.is_model:
            from bioattn.python.loading import load_model

            return load_model(path)
        if kind.name in _STAY_OPEN:
            return _STAY_OPEN[kind.name](path)
        if kind.read is not None:
            return kind.read(path)
    if path.is_dir():
        return Folder(path)
    raise BioattnError(f"{path} ({kind.title}): is not for reading; bioattn inspect describes it")


class Folder(UserDict[str, Any]):
    """The files and folders in a folder by name; each is opened (`bioattn.open`) when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            {each.name: each for each in sorted(path.iterdir()) if not each.name.startswith(".")}
        )

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise KeyError(f"{self.path} holds no {name!r}; it holds {quoted(list(self.data))}")
        return open(self.data[name])

    def __repr__(self) -> str:
        return f"<{self.path}: {quoted(list(self.data))}>"
