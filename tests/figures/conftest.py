"""Attention files of random weights whose content the tests know."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.choices import Reduction
from bioattn.models.evoformer.sites import alignment_sample, alignment_site
from bioattn.store.schema import AttentionOptions, Samples
from bioattn.store.windows import promoter_samples
from tests import result_files
from tests.result_files import cross_site, promoter_layout, stage_site, write_promoters

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


def softmax(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


class Promoters(NamedTuple):
    path: Path
    samples: Samples
    weights: dict[str, np.ndarray]
    """(gene, treatment, head, bin) by site."""
    predictions: np.ndarray


@pytest.fixture(scope="session")
def promoters(tmp_path_factory):
    """Two hops over five genes; the windows lie at 1000 i, on + where i is even; that of g4 is 10 bases short."""
    path = tmp_path_factory.mktemp("figures") / "attention.h5"
    starts = 1000 * np.arange(5, dtype=np.int64)
    ends = starts + LENGTH
    ends[4] -= 10
    samples = promoter_samples(GENES, ["chrI"] * 5, starts, ends, ["+", "-", "+", "-", "+"])
    sites = [cross_site(EDGES, HEADS, f"promoter.cross.{hop}") for hop in (0, 1)]
    sites.append(stage_site(range(0, LENGTH + 1, 10), HEADS))
    layout = promoter_layout(sites, TREATMENTS, LENGTH)
    random = np.random.default_rng(0)
    weights = {
        site.name: softmax(2 * random.normal(size=(5, *group.shape(group.arrays[0])))).astype(np.float32)
        for site in sites
        for group in layout.groups
        if group.path == f"sites/{site.name}"
    }
    predictions = random.normal(size=(5, 3)).astype(np.float32)
    write_promoters(path, layout, samples, weights, predictions)
    return Promoters(path, samples, weights, predictions)


class Alignments(NamedTuple):
    path: Path
    weights: dict[str, np.ndarray]
    """(row, head, query, key) by site."""


@pytest.fixture(scope="session")
def write_alignments(tmp_path_factory):
    """An alignment `a` of twelve residues in columns 1 to 12 of 14 (from 0); with `names`, several alike."""

    def write(reduce=Reduction.MEAN_ROWS, names=("a",)):
        path = tmp_path_factory.mktemp("figures") / "attention.h5"
        samples = [
            alignment_sample(
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

        def make(site, _shape, _number):
            of_residues = site.axes[-1].kind == "residue"
            size, outer = (RESIDUES, ROWS) if of_residues else (ROWS, RESIDUES)
            whole = softmax(2 * random.normal(size=(outer, HEADS, size, size))).astype(np.float32)
            weights[site.name] = whole
            if reduce is Reduction.NONE:
                return {"weights": whole}
            if reduce is Reduction.TOP_K:
                index = np.argsort(-whole, axis=-1)[..., : min(3, size)].astype(np.int32)
                return {"weights": np.take_along_axis(whole, index, -1), "key_index": index}
            return {"weights": whole.mean(axis=0)}

        result_files.write_alignments(path, SITES, samples, make, AttentionOptions(reduce=reduce, top_k=3))
        return Alignments(path, weights)

    return write


@pytest.fixture(scope="session")
def alignments(write_alignments):
    return write_alignments()
