"""Which genes `--genes` asks for: ids, or files of ids."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.files import read_lines


def choose_genes(values: Sequence[str], known: Collection[str], source: Path) -> list[str]:
    """List the ids that `values` name, each once, in the order given.

    values: ids, or names of text files with one id per line (the first column of a table; blank lines and lines
    starting with `#` are passed over). A value that is both is an id. known: the ids there are. source: the file
    that holds them, for messages.

    Raises: BioattnError for a value that is neither, and naming the line for an id that is not known.
    """
    known = known if isinstance(known, set | frozenset | dict) else set(known)
    chosen: dict[str, None] = {}
    for value in values:
        if value in known:
            chosen[value] = None
        elif os.path.isfile(value):  # noqa: PTH113 - a name that is longer than names can be is no file
            chosen |= dict.fromkeys(_of_file(Path(value), known, source))
        else:
            raise BioattnError(f"--genes {value!r}: neither a gene of {source} nor a file of gene ids")
    return list(chosen)


def _of_file(path: Path, known: Collection[str], source: Path) -> list[str]:
    ids = []
    for number, line in read_lines(path):
        if not line.strip() or line.startswith("#"):
            continue
        name = line.split("\t")[0].strip()
        if name not in known:
            raise BioattnError(f"{path}:{number}: gene {name!r} is not in {source}")
        ids.append(name)
    if not ids:
        raise BioattnError(f"{path}: holds no gene id")
    return ids
