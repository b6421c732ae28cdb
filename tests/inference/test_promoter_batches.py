"""Batches against the plain FASTA."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bioattn.errors import BioattnError
from bioattn.models.promoter.inference.batches import scan_promoters
from bioattn.promoters.promoter_fasta import read_promoters

MakeFile = Callable[..., Path]


@pytest.mark.parametrize("size", [1, 7, 23, 64])
def test_windows_are_aligned_at_their_right_end(make_promoters: MakeFile, size: int) -> None:
    path = make_promoters()
    source = scan_promoters(path, 130)
    assert (source.num_samples, source.num_padded) == (23, 23)
    batches = list(source.batches(size))
    assert [len(batch.codes) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    rows = np.concatenate([batch.codes for batch in batches])
    ids = [name for batch in batches for name in batch.samples.ids]
    for promoter, row, name in zip(read_promoters(path), rows, ids, strict=True):
        window = promoter.codes[promoter.flank : len(promoter.codes) - promoter.flank]
        assert name == promoter.gene_id
        np.testing.assert_array_equal(row, [4] * (130 - len(window)) + list(window))


def test_longer_promoters_and_empty_files_are_refused(make_promoters: MakeFile, tmp_path: Path) -> None:
    with pytest.raises(BioattnError, match="promoter 'G000' has 120 bases, the model sees 119"):
        scan_promoters(make_promoters(), 119)
    empty = tmp_path / "empty.fa"
    empty.write_text("")
    with pytest.raises(BioattnError, match=r"empty\.fa"):
        scan_promoters(empty, 100)


def test_memory_does_not_grow_with_promoters(tmp_path: Path) -> None:
    path = tmp_path / "many.fa"
    path.write_text("".join(f">gene{number:06d}\nACGTACGT\n" for number in range(20_000)))
    batches = scan_promoters(path, 8).batches(500)
    tracemalloc.start()
    try:
        held = [tracemalloc.get_traced_memory()[0] for _ in batches]
    finally:
        tracemalloc.stop()
    # 14,000 promoters lie between the two; a name that is remembered takes 90 bytes. (With the last batch
    # all is forgotten.)
    assert held[-2] - held[10] < 200_000
