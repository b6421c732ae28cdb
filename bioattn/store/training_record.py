"""`training.json` of a model folder, which tells damage to itself and to the files of the folder that it names.

A digit of a figure that has become another digit is a plausible figure: only digests tell. Folders of earlier
versions have fewer of them and are read as they are. The schema stands in `docs/formats/model.md`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json, sha256_of, write_json

TRAINING_RECORD = "training.json"
HISTORY = "history.csv"
FILES = "sha256"
OWN = "record_sha256"
"""Of the record itself, without this entry."""
MODEL_ROW = "this model"
"""The row of an evaluation that holds the trained model, among those of simpler predictors."""


def write_training_record(folder: Path, record: Mapping[str, Any], files: Sequence[str]) -> None:
    """Write `training.json` into `folder`: what `record` says, then the digests of `files` and of itself."""
    content = {name: value for name, value in record.items() if name not in (FILES, OWN)}
    content[FILES] = {name: sha256_of(folder / name) for name in files}
    write_json(folder / TRAINING_RECORD, content | {OWN: _own_digest(content)})


def read_training_record(folder: Path) -> dict[str, Any]:
    """The content of `training.json`; empty when the folder has none.

    Raises: FormatError when it is damaged or was edited.
    """
    path = folder / TRAINING_RECORD
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get(FILES, {}), dict):
        raise FormatError(f"{path}: is damaged or was edited")
    if OWN in content and content[OWN] != _own_digest(content):
        raise FormatError(f"{path}: differs from its own digest ({OWN}); the file is damaged or was edited")
    return content


def check_history(folder: Path) -> None:
    """Raises: FormatError when `history.csv` is not the one `training.json` beside it speaks of."""
    digest = read_training_record(folder).get(FILES, {}).get(HISTORY)
    if digest is not None and sha256_of(folder / HISTORY) != digest:
        raise FormatError(
            f"{folder / HISTORY}: differs from the digest in {TRAINING_RECORD}; the file is damaged"
        )


def _own_digest(content: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in content.items() if name != OWN}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
