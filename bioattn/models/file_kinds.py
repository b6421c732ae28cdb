"""The kinds of files of all model families, and model folders of none."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.models.family import CONFIG, WEIGHTS, families, family_of
from bioattn.store.kinds import FileKind, folder_with


def file_kinds() -> Sequence[FileKind]:
    """The kinds that families register, the models of the others, and what is left of a model folder."""
    return [*(kind for family in families().values() for kind in family.file_kinds()), _OF_NO_FAMILY]


def _refuse(folder: Path) -> dict[str, Any]:
    """Raises: FormatError: which other format, version or family the folder is of."""
    from bioattn.io.files import read_json
    from bioattn.models.model_folder import check_model_config

    content = read_json(folder / CONFIG)
    if not isinstance(content, dict) or "architectures" not in content:  # which transformers writes
        check_model_config(folder / CONFIG, content)
    return {"family": family_of(folder).name}


def _remains(folder: Path) -> str | None:
    for one, other in itertools.permutations((CONFIG, WEIGHTS)):
        if (folder / one).is_file():
            return f"a model folder without {other}; copy or make it again"
    return None


_OF_NO_FAMILY = FileKind(
    name="unknown-model",
    title="model folder of no family here",
    matches=folder_with(CONFIG, WEIGHTS),
    describe=_refuse,
    remains=_remains,
    order=1,
)
