"""`bioattn.open`: what is in a file that bioattn reads or writes, or in a model folder."""

from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError
from bioattn.inference.inputs import python_warnings
from bioattn.store.attribution import Attribution
from bioattn.store.kinds import recognise
from bioattn.store.reader import Attention

_STAY_OPEN = {"attention": Attention.open, "attribution": Attribution.open}
"""By the kind of file."""


def open(path: Path | str) -> Any:
    """What is in a file or a model folder, as the Python object that fits it best.

    An attention file is an `Attention`, an attribution file an `Attribution`, a model folder a `Model`; a table is
    a pandas DataFrame, JSON a dict, a FASTA of promoters a dict of sequences by id; alignments, structures and
    datasets are what the library reads them as.

    Raises: BioattnError when the path is of no kind that bioattn knows, a folder of several files, or cannot be
    read; FormatError when it is damaged.
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
    instead = "open one of its files" if path.is_dir() else "bioattn inspect describes it"
    raise BioattnError(f"{path} ({kind.title}): is not for reading; {instead}")
