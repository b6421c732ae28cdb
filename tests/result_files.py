"""Attention and attribution files of given arrays, for tests of whoever reads them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bioattn.attention.site import AttentionSite, Axis
from bioattn.models.evoformer.inference.attention import AlignmentSample, alignment_layout
from bioattn.store.attribution import GAP, SEQUENCE, VALUES, attribution_file_layout
from bioattn.store.choices import Method, Reduction
from bioattn.store.schema import (
    AttentionOptions,
    Block,
    FileLayout,
    Samples,
    predictions_layout,
    site_layout,
)
from bioattn.store.windows import PROMOTER_COLUMNS, window_attributes
from bioattn.store.writer import result_writer

PLAIN = AttentionOptions()
MEAN_ROWS = AttentionOptions(reduce=Reduction.MEAN_ROWS)


def plain_site(
    heads: int,
    name: str = "s",
    dims: Sequence[str] = ("sample", "head", "query", "key"),
    null_key: bool = False,
) -> AttentionSite:
    """A site whose axes say nothing but their names."""
    axes = tuple(Axis(dim) for dim in dims)
    return AttentionSite(name=name, axes=axes, heads=tuple(range(heads)), null_key=null_key)


def cross_site(
    edges: Sequence[int],
    heads: int = 2,
    name: str = "promoter.cross.0",
    field: int | None = 22,
    contributes: bool = False,
) -> AttentionSite:
    """Treatments look at the bins of a promoter."""
    axes = (Axis("sample"), Axis("head"), Axis("treatment"), Axis("key", "position", edges=tuple(edges)))
    return AttentionSite(
        name=name, axes=axes, heads=tuple(range(heads)), receptive_field=field, contributes=contributes
    )


def stage_site(
    edges: Sequence[int], heads: int = 2, name: str = "promoter.stage.0", null_key: bool = False
) -> AttentionSite:
    """The bins of a promoter look at the tokens of a treatment."""
    query = Axis("query", "position", edges=tuple(edges))
    axes = (Axis("sample"), Axis("treatment"), Axis("head"), query, Axis("key", "token"))
    return AttentionSite(name=name, axes=axes, heads=tuple(range(heads)), null_key=null_key)


def promoter_layout(
    sites: Sequence[AttentionSite],
    treatments: Sequence[str],
    window_length: int,
    options: AttentionOptions = PLAIN,
    tokens: int = 4,
    **more: Any,
) -> FileLayout:
    """The layout of an attention file over promoters; tokens: keys of the sites whose keys are no positions."""
    header = {"input_sha256": "cd" * 32, "task": "regression", "downstream": None}
    known = {name: more.pop(name, value) for name, value in header.items()}
    groups = [
        site_layout(site, options, sizes={"key": tokens}, coordinates={"treatment": treatments})
        for site in sites
    ]
    return FileLayout(
        inputs="promoters",
        model_sha256=more.pop("model_sha256", "ab" * 32),
        attributes=window_attributes(window_length=window_length, **known),
        columns=PROMOTER_COLUMNS,
        groups=(*groups, predictions_layout(treatments)),
        **more,
    )


def write_promoters(
    path: Path,
    layout: FileLayout,
    samples: Samples,
    arrays: Mapping[str, Any],
    predictions: np.ndarray | None = None,
    *,
    blocks: int = 1,
    **writer_options: Any,
) -> None:
    """A file of these weights (in stored order) by site, or of arrays by name; predictions: None = zeros."""
    treatments = next(group for group in layout.groups if group.path == "predictions").axes[0].size or 0
    values = np.zeros((len(samples), treatments), np.float32) if predictions is None else predictions
    by_path = {
        f"sites/{name}": found if isinstance(found, Mapping) else {"weights": found}
        for name, found in arrays.items()
    }
    whole = Block(samples, {**by_path, "predictions": {"values": values}})
    with result_writer(path, layout, len(samples), **writer_options) as writer:
        for rows in np.array_split(np.arange(len(samples)), blocks):
            writer.append(whole.part(slice(int(rows[0]), int(rows[-1]) + 1)))


def write_attribution(
    path: Path,
    samples: Samples,
    codes: np.ndarray,
    values: np.ndarray,
    predictions: np.ndarray,
    treatments: Sequence[str],
    *,
    gap: np.ndarray | None = None,
    blocks: int = 1,
    **header: Any,
) -> None:
    """An attribution file by mutagenesis, or by integrated gradients where there is a gap."""
    known = {"input_sha256": "0", "task": "regression", "downstream": None} | header
    method = Method.ISM if gap is None else Method.INTEGRATED_GRADIENTS
    layout = attribution_file_layout(
        method,
        "" if gap is None else "steps=5",
        treatments,
        model_sha256=known.pop("model_sha256", "0"),
        attributes=window_attributes(window_length=codes.shape[1], **known),
    )
    arrays = {SEQUENCE: codes, VALUES: values} | ({} if gap is None else {GAP: gap})
    whole = Block(samples, {"attribution": arrays, "predictions": {"values": predictions}})
    with result_writer(path, layout, len(samples)) as writer:
        for rows in np.array_split(np.arange(len(samples)), blocks):
            writer.append(whole.part(slice(int(rows[0]), int(rows[-1]) + 1)))


def write_alignments(
    path: Path,
    sites: Sequence[AttentionSite],
    samples: Sequence[AlignmentSample],
    make: Callable[[AttentionSite, tuple[int, ...], int], Mapping[str, np.ndarray]],
    options: AttentionOptions = MEAN_ROWS,
    model_sha256: str = "a" * 64,
) -> None:
    """A file over alignments; make: site, shape of its weights, number of the sample → arrays by name."""
    layout = alignment_layout(sites, options, model_sha256)
    with result_writer(path, layout, len(samples)) as writer:
        for number, sample in enumerate(samples):
            writer.append(Block(sample.samples, {}))
            for group in layout.groups:
                site = next(site for site in sites if group.path == f"sites/{site.name}")
                shape = group.shape(group.arrays[-1], sample.sizes.lengths)
                writer.arrays_of(group.path).write(make(site, shape, number))
