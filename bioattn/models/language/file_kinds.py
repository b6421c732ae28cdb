"""The kinds of files that language models own: model folders, sequence datasets, embeddings."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.hdf5 import create_array, hdf5_file, put_array, text_attribute
from bioattn.models.family import CONFIG
from bioattn.models.file_kinds import model_kind
from bioattn.models.language.config import published_type
from bioattn.models.language.family import FAMILY
from bioattn.sequences.sequence_dataset import (
    SEQUENCE_DATASET,
    describe_sequence_dataset,
    open_sequence_dataset,
)
from bioattn.store.kinds import FileKind, dataset_kind, hdf5
from bioattn.store.shards import SETTINGS, ShardRecord, shard_of_hdf5

if TYPE_CHECKING:
    import pandas as pd

EMBEDDINGS = DatasetKind(
    name="embeddings file",
    format="bioattn-embeddings",
    version=1,
    command="bioattn run language --embeddings",
)


@contextmanager
def embeddings_file(
    path: Path,
    ids: Sequence[str],
    words: Sequence[int],
    *,
    layers: Sequence[int],
    channels: int,
    pool: str | None,
    model_sha256: str,
    shard: ShardRecord | None = None,
) -> Iterator[Callable[[NDArray[np.float32]], None]]:
    """Write embeddings; gives what takes those of the next sequences, (sequences, layers, channels), or of all
    their words where `pool` is None.

    words: of each sequence. The file gets its name when the body has ended well.
    """
    with hdf5_file(path) as file:
        put_array(file, "id", ids)
        attributes: dict[str, Any] = {"pool": pool or "none", "layers": tuple(layers)}
        if pool is None:
            put_array(file, "words", np.array(words, "<i8"))
        if shard is not None:
            attributes |= {**shard.attributes(), SETTINGS: json.dumps(shard.settings, ensure_ascii=False)}
        EMBEDDINGS.write_attributes(file, model_sha256=model_sha256, **attributes)
        of_layers = (len(layers),) if len(layers) > 1 else ()
        shape = (sum(words) if pool is None else len(ids), *of_layers, channels)
        values, done = create_array(file, "values", shape, "<f4"), 0

        def take(embeddings: NDArray[np.float32]) -> None:
            nonlocal done
            values[done : done + len(embeddings)] = embeddings.reshape(len(embeddings), *shape[1:])
            done += len(embeddings)

        yield take


def embedding_table(
    ids: Sequence[str], values: NDArray[np.float32], layers: Sequence[int], words: Sequence[int] | None = None
) -> "pd.DataFrame":
    """A row per sequence or, with the number of `words` of each, per word from 1; a column per channel, of several
    layers (layer, channel)."""
    import pandas as pd

    rows: pd.Index = pd.Index(ids, name="id")
    if words is not None:
        pairs = [(name, word) for name, own in zip(ids, words, strict=True) for word in range(1, own + 1)]
        rows = pd.MultiIndex.from_tuples(pairs, names=["id", "word"])
    columns: pd.Index = pd.RangeIndex(values.shape[-1])
    if len(layers) > 1:
        columns = pd.MultiIndex.from_product([layers, columns], names=["layer", "channel"])
    return pd.DataFrame(values.reshape(len(values), -1), index=rows, columns=columns)


def read_embeddings(path: Path) -> "pd.DataFrame":
    """As `embedding_table`."""
    with EMBEDDINGS.open(path) as arrays:
        ids, values = arrays.text("id"), arrays.get("values", "f4")
        words = arrays.get("words", "i8") if "words" in arrays.file else None
        if len(values) != (len(ids) if words is None else words.sum()):
            raise FormatError(
                f"{path}: holds {len(values):,} rows of values, which do not fit /id and /words"
            )
        layers = np.asarray(arrays.file.attrs["layers"]).tolist()
        return embedding_table(ids, values, layers, None if words is None else words.tolist())


def _describe_embeddings(path: Path) -> dict[str, Any]:
    with EMBEDDINGS.open(path) as arrays:
        attributes, record = arrays.file.attrs, shard_of_hdf5(path, arrays.file)
        return {
            **({} if record is None else record.figures()),
            "sequences": len(arrays.text("id")),
            "pool": text_attribute(arrays.file, "pool"),
            "layers": np.asarray(attributes["layers"]).tolist(),
            "channels": int(arrays.file["values"].shape[-1]),
        }


FILE_KINDS: Sequence[FileKind] = (
    model_kind(FAMILY),
    replace(
        model_kind(FAMILY, name="published-language-model", title="published language model"),
        matches=lambda candidate: (
            candidate.holds(CONFIG) and published_type(candidate.index(CONFIG)) is not None
        ),
    ),
    dataset_kind(
        "sequence-dataset",
        "dataset of sequences",
        SEQUENCE_DATASET,
        describe_sequence_dataset,
        open_sequence_dataset,
    ),
    FileKind(
        "embeddings",
        "embeddings of sequences",
        hdf5(EMBEDDINGS.format),
        _describe_embeddings,
        read_embeddings,
    ),
)
