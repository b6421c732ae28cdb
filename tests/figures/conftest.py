"""Attention files of random weights whose content the tests know."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.attention.site import AttentionSite, alignment_site
from bioattn.store.alignment_attention_writer import alignment_attention_file
from bioattn.store.alignment_schema import (
    AlignmentAttentionOptions,
    AlignmentReduction,
    AlignmentSample,
    alignment_layout,
)
from bioattn.store.attention_writer import AttentionHeader, attention_writer
from bioattn.store.schema import AttentionOptions, Samples, site_layout

LENGTH = 60
EDGES = (0, 4, *range(12, 61, 8))
TREATMENTS = ["heat", "cold $5 a_b$", "H2O2"]
GENES = ["g0", "g1", "g2", "g3", "g4"]
HEADS = 2
RESIDUES, ROWS = 12, 3
QUERY = "ACDEFGHIKLMN"
SITES = [
    *(alignment_site("evoformer", block, "msa_row", HEADS) for block in (0, 1)),
    alignment_site("evoformer", 0, "msa_column", HEADS),
    alignment_site("extra_msa", 0, "msa_row", HEADS),
]


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


class Promoters(NamedTuple):
    path: Path
    samples: Samples
    weights: dict[str, np.ndarray]
    """(gene, treatment, head, bin) by site."""
    predictions: np.ndarray


@pytest.fixture(scope="session")
def promoters(tmp_path_factory: pytest.TempPathFactory) -> Promoters:
    """Two hops over five genes; the windows lie at 1000 i, on + where i is even; that of g4 is 10 bases short."""
    path = tmp_path_factory.mktemp("figures") / "attention.h5"
    starts = 1000 * np.arange(5, dtype=np.int64)
    ends = starts + LENGTH
    ends[4] -= 10
    samples = Samples(GENES, ["chrI"] * 5, starts, ends, ["+", "-", "+", "-", "+"])
    sites = [
        AttentionSite(
            name=f"promoter.cross.{hop}",
            axes=("sample", "head", "treatment", "key"),
            num_heads=HEADS,
            key_edges=EDGES,
            receptive_field=22,
        )
        for hop in (0, 1)
    ]
    stage = AttentionSite(
        name="promoter.stage.0",
        axes=("sample", "treatment", "head", "query", "key"),
        num_heads=HEADS,
        query_edges=tuple(range(0, LENGTH + 1, 10)),
    )
    options = AttentionOptions()
    layouts = [site_layout(site, (1, HEADS, 3, len(EDGES) - 1), options) for site in sites]
    layouts.append(site_layout(stage, (1, 3, HEADS, 6, 4), options))
    random = np.random.default_rng(0)
    weights = {
        layout.name: softmax(2 * random.normal(size=(5, *layout.sizes))).astype(np.float32)
        for layout in layouts
    }
    predictions = random.normal(size=(5, 3)).astype(np.float32)
    header = AttentionHeader(
        model_sha256="ab" * 32, input_sha256="cd" * 32, window_length=LENGTH, task="regression"
    )
    with attention_writer(path, header, layouts, TREATMENTS, 5) as writer:
        writer.append(samples, {name: {"weights": values} for name, values in weights.items()}, predictions)
    return Promoters(path, samples, weights, predictions)


class Alignments(NamedTuple):
    path: Path
    weights: dict[str, np.ndarray]
    """(row, head, query, key) by site."""


@pytest.fixture(scope="session")
def write_alignments(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Alignments]:
    """An alignment `a` of twelve residues in columns 1 to 12 of 14 (from 0); with `names`, several alike."""

    def write(
        reduce: AlignmentReduction = AlignmentReduction.MEAN_ROWS, names: tuple[str, ...] = ("a",)
    ) -> Alignments:
        path = tmp_path_factory.mktemp("figures") / "attention.h5"
        samples = [
            AlignmentSample(
                id=name,
                query=QUERY,
                rows=ROWS,
                extra_rows=ROWS,
                input_sha256="",
                columns=tuple(range(1, 13)),
                alignment_columns=14,
            )
            for name in names
        ]
        random = np.random.default_rng(1)
        weights: dict[str, np.ndarray] = {}
        with alignment_attention_file(path, "a" * 64, samples) as file:
            for number, sample in enumerate(samples):
                for site in SITES:
                    options = AlignmentAttentionOptions(reduce=reduce, top_k=3)
                    layout = alignment_layout(site, sample.sizes, options)
                    size = RESIDUES if site.keys == "residue" else ROWS
                    outer = ROWS if site.keys == "residue" else RESIDUES
                    whole = softmax(2 * random.normal(size=(outer, HEADS, size, size))).astype(np.float32)
                    weights[site.name] = whole
                    if reduce is AlignmentReduction.NONE:
                        arrays = {"weights": whole}
                    elif reduce is AlignmentReduction.TOP_K:
                        kept = min(3, size)
                        index = np.argsort(-whole, axis=-1)[..., :kept].astype(np.int32)
                        arrays = {"weights": np.take_along_axis(whole, index, -1), "key_index": index}
                    else:
                        arrays = {"weights": whole.mean(axis=0)}
                    file.site(layout, number).write(arrays)
        return Alignments(path, weights)

    return write


@pytest.fixture(scope="session")
def alignments(write_alignments: Callable[..., Alignments]) -> Alignments:
    return write_alignments()
