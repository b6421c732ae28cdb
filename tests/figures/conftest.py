"""Attention files of random weights whose content the tests know."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.schema import Samples
from bioattn.store.windows import promoter_samples
from tests.result_files import (
    aligned,
    cross_site,
    dirichlet,
    promoter_layout,
    stage_site,
    write_alignments,
    write_promoters,
)

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
        group.path.removeprefix("sites/"): dirichlet(random, (5, *group.shape(group.arrays[0])))
        for group in layout.groups
        if group.path.startswith("sites/")
    }
    predictions = random.normal(size=(5, 3)).astype(np.float32)
    write_promoters(path, layout, samples, weights, predictions)
    return Promoters(path, samples, weights, predictions)


class Alignments(NamedTuple):
    path: Path
    weights: dict[str, np.ndarray]
    """(row, head, query, key) by site."""


@pytest.fixture(scope="session")
def alignments(tmp_path_factory):
    """An alignment `a` of twelve residues in columns 1 to 12 of 14 (from 0)."""
    path = tmp_path_factory.mktemp("figures") / "attention.h5"
    sample = aligned("a", QUERY, ROWS, tuple(range(1, 13)), 14)
    random = np.random.default_rng(1)
    weights: dict[str, np.ndarray] = {}

    def make(site, _shape, _number):
        of_residues = site.axes[-1].kind == "residue"
        size, outer = (RESIDUES, ROWS) if of_residues else (ROWS, RESIDUES)
        weights[site.name] = random.dirichlet(np.ones(size), (outer, HEADS, size)).astype(np.float32)
        return {"weights": weights[site.name].mean(axis=0)}

    write_alignments(path, SITES, [sample], make)
    return Alignments(path, weights)
