"""The kinds of files that language models own: model folders, sequence datasets, embeddings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.io.dataset_file import DatasetKind
from bioattn.io.hdf5 import hdf5_file, put_array, put_text
from bioattn.models.family import CONFIG
from bioattn.models.language.config import published_type
from bioattn.models.language.family import FAMILY
from bioattn.models.model_kind import model_kind
from bioattn.sequences.sequence_dataset import (
    SEQUENCE_DATASET,
    describe_sequence_dataset,
    open_sequence_dataset,
    validate_sequence_dataset,
)
from bioattn.store.kinds import Candidate, FileKind, dataset_kind, hdf5

EMBEDDINGS = DatasetKind(
    name="embeddings file",
    format="bioattn-embeddings",
    version=1,
    command="bioattn run language --embeddings",
)


def write_embeddings(
    path: Path, ids: list[str], values: NDArray[np.float32], model_sha256: str, pool: str
) -> None:
    """Write the embeddings (sequences, channels) of `ids`."""
    with hdf5_file(path) as file:
        put_text(file, "id", ids)
        put_array(file, "values", values.astype("<f4"))
        EMBEDDINGS.write_attributes(file, model_sha256=model_sha256, pool=str(pool))


def read_embeddings(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Ids and embeddings (sequences, channels). Raises: FormatError when the file is none or is damaged."""
    with EMBEDDINGS.open(path) as arrays:
        return arrays.text("id"), arrays.get("values", "f4")


def _is_published(candidate: Candidate) -> bool:
    return candidate.holds(CONFIG) and published_type(candidate.index(CONFIG)) is not None


def _describe_embeddings(path: Path) -> dict[str, Any]:
    ids, values = read_embeddings(path)
    return {"sequences": len(ids), "channels": int(values.shape[1])}


def file_kinds() -> Sequence[FileKind]:
    return (
        model_kind(FAMILY),
        replace(
            model_kind(FAMILY, name="published-language-model", title="published language model"),
            matches=_is_published,
        ),
        dataset_kind(
            "sequence-dataset",
            "dataset of sequences",
            SEQUENCE_DATASET,
            describe_sequence_dataset,
            open_sequence_dataset,
            validate_sequence_dataset,
        ),
        FileKind(
            "embeddings",
            "embeddings of sequences",
            hdf5(EMBEDDINGS.format),
            _describe_embeddings,
            read_embeddings,
        ),
    )
