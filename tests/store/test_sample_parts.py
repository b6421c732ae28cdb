"""Putting parts together: which samples are moved at a time."""

from itertools import pairwise
from pathlib import Path

import pytest

from bioattn.attention.site import AttentionSite
from bioattn.store.attention_parts import PartStore
from bioattn.store.sample_writer import ResultHeader
from bioattn.store.schema import BAND_BYTES, AttentionOptions, site_layout

HEADER = ResultHeader(model_sha256="0" * 64, input_sha256="1" * 64, window_length=1000, task="regression")


@pytest.mark.parametrize("part_samples", [30, 64, 100])
@pytest.mark.parametrize("treatments", [3, 100, 1000])
def test_blocks_end_with_chunks_or_parts(tmp_path: Path, treatments: int, part_samples: int) -> None:
    """A chunk that is written in two goes is read again in between: with 1,000 treatments five times the time."""
    site = AttentionSite(name="s", axes=("sample", "treatment", "head", "key"), num_heads=4)
    layout = site_layout(site, (1, treatments, 4, 125), AttentionOptions())
    names = [f"t{number}" for number in range(treatments)]
    store = PartStore(tmp_path / "a.h5", HEADER, [layout], names, 1003, part_samples)
    chunk = layout.chunk(1003)[0]
    blocks = list(store.block_rows())
    assert [sample for block in blocks for sample in block] == list(range(1003))
    for block, following in pairwise(blocks):
        assert block.stop == following.start
        assert block.stop % chunk == 0 or block.stop % part_samples == 0
    for block in blocks:
        assert block.start // part_samples == (block.stop - 1) // part_samples
        assert len(block) * layout.bytes_per_sample <= BAND_BYTES
