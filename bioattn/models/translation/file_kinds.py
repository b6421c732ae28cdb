"""The kinds of files that translation models own: model folders and datasets of pairs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.io.files import read_json
from bioattn.models.model_kind import model_kind
from bioattn.models.translation.family import FAMILY
from bioattn.models.translation.simulation import FORMAT
from bioattn.sequences.pairs import (
    PAIR_DATASET,
    describe_pair_dataset,
    open_pair_dataset,
    validate_pair_dataset,
)
from bioattn.simulate.description import INDEX
from bioattn.store.field_kinds import dataset_problems
from bioattn.store.kinds import FileKind, hdf5, json_object


def _describe_simulation(path: Path) -> dict[str, Any]:
    content = read_json(path / INDEX if path.is_dir() else path)
    return {name: value for name, value in content.items() if not name.startswith("format")}


def file_kinds() -> Sequence[FileKind]:
    return (
        model_kind(FAMILY),
        FileKind(
            name="pair-dataset",
            title="dataset of pairs of sequences",
            matches=hdf5(PAIR_DATASET.format),
            describe=describe_pair_dataset,
            read=open_pair_dataset,
            validate=dataset_problems(validate_pair_dataset),
        ),
        FileKind(
            name="simulated-pairs",
            title="simulated pairs of sequences",
            matches=lambda candidate: (
                json_object(FORMAT)(candidate) or candidate.index(INDEX).get("format") == FORMAT
            ),
            describe=_describe_simulation,
        ),
    )
