"""The kinds of files that language models own: model folders, sequence datasets, embeddings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bioattn.models.family import CONFIG
from bioattn.models.language.family import FAMILY
from bioattn.models.language.inference.embedding_file import EMBEDDINGS, read_embeddings
from bioattn.models.model_kind import model_kind
from bioattn.sequences.sequence_dataset import (
    SEQUENCE_DATASET,
    describe_sequence_dataset,
    open_sequence_dataset,
    validate_sequence_dataset,
)
from bioattn.store.field_kinds import dataset_problems
from bioattn.store.kinds import Candidate, FileKind, hdf5


def _is_published(candidate: Candidate) -> bool:
    if not candidate.holds(CONFIG):
        return False
    from bioattn.models.language.published.reading import published_type  # loads torch

    return published_type(candidate.index(CONFIG)) is not None


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
        FileKind(
            name="sequence-dataset",
            title="dataset of sequences",
            matches=hdf5(SEQUENCE_DATASET.format),
            describe=describe_sequence_dataset,
            read=open_sequence_dataset,
            validate=dataset_problems(validate_sequence_dataset),
        ),
        FileKind(
            name="embeddings",
            title="embeddings of sequences",
            matches=hdf5(EMBEDDINGS.format),
            describe=_describe_embeddings,
            read=read_embeddings,
        ),
    )
