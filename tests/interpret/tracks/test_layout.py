"""Which base belongs to which gene, for any windows, against a loop over bases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.interpret.choices import Overlapping
from bioattn.interpret.tracks import layout as track_layout
from bioattn.interpret.tracks.layout import Windows, lay_out, place_windows

window = st.tuples(st.integers(-15, 120), st.integers(1, 25))


def placed(rows, strand, downstream, length=30):
    starts = np.array([start for start, _ in rows])
    ends = np.array([start + size for start, size in rows])
    return place_windows(
        "I",
        strand,
        np.arange(len(rows)),
        starts,
        ends,
        window_length=length,
        downstream=downstream,
        chromosome_length=None,
    )


@given(
    st.lists(window.filter(lambda row: sum(row) > 0), min_size=1, max_size=12),
    st.sampled_from("+-"),
    st.integers(0, 12),
    st.sampled_from([1, 40, 1 << 20]),
)
def test_each_base_goes_to_the_nearest_gene(rows, strand, downstream, stretch_bases):
    windows = placed(rows, strand, downstream)
    before = track_layout.STRETCH_BASES
    track_layout.STRETCH_BASES = stretch_bases
    try:
        layout = lay_out({("I", strand): windows}, Overlapping.NEAREST_GENE)
        shared = lay_out({("I", strand): windows}, Overlapping.MEAN)
    finally:
        track_layout.STRETCH_BASES = before
    rivals: dict[int, list[tuple[int, bool, int]]] = {}
    for number, (start, size) in enumerate(rows):
        anchor = start + size - downstream if strand == "+" else start + downstream - 1
        for base in range(max(start, 0), start + size):
            upstream = base < anchor if strand == "+" else base > anchor
            rivals.setdefault(base, []).append((abs(base - anchor), not upstream, number))
    expected = {base: min(those)[-1] for base, those in rivals.items()}
    assert owners(layout, strand, rows) == [(base, [expected[base]]) for base in sorted(expected)]
    assert owners(shared, strand, rows) == [
        (base, sorted(number for *_, number in rivals[base])) for base in sorted(rivals)
    ]
    crowded = sum(len(those) > 1 for those in rivals.values())
    assert layout.overlapping_share == pytest.approx(crowded / len(rivals))
    others = [
        any(len(rivals[base]) > 1 for base in range(max(start, 0), start + size)) for start, size in rows
    ]
    assert layout.overlapping_genes == sum(others)


def owners(layout, strand, rows):
    """(base, numbers of the windows that have a say) along the chromosome."""
    found: dict[int, list[int]] = {}
    last = -1
    for stretch in layout.stretches[strand]:
        places = [
            base
            for start, first, after in zip(
                stretch.island_starts, stretch.island_offsets, stretch.island_offsets[1:], strict=False
            )
            for base in range(start, start + after - first)
        ]
        assert len(places) == stretch.bases
        assert places == sorted(set(places))
        assert places[0] > last
        last = places[-1]
        assert stretch.end == last + 1
        for piece in stretch.pieces:
            sample = int(stretch.samples[piece.window])
            start, size = rows[sample]
            origin = start + size - 30 if strand == "+" else start
            bases = places[piece.first : piece.first + piece.length]
            assert bases[0] == origin + piece.offset
            for base in bases:
                found.setdefault(base, []).append(sample)
    return [(base, sorted(found[base])) for base in sorted(found)]


def test_chromosomes_come_in_the_order_of_their_names():
    one = placed([(0, 10)], "+", 0)
    layout = lay_out({(name, "+"): one for name in ("chr2", "chr10", "Chr1", "chr1")}, Overlapping.MAX)
    assert [stretch.chrom for stretch in layout.stretches["+"]] == ["Chr1", "chr1", "chr10", "chr2"]
    assert layout.stretches["-"] == []


def test_a_window_longer_than_the_models_keeps_the_end_at_the_gene():
    plus, minus = placed([(100, 40)], "+", 0), placed([(100, 40)], "-", 0)
    assert (plus.starts[0], plus.ends[0]) == (110, 140)
    assert (minus.starts[0], minus.ends[0]) == (100, 130)


def test_windows_outside_their_chromosome_are_refused():
    with pytest.raises(BioattnError, match=r"I:-20--5\(\+\) lies outside"):
        placed([(-20, 15)], "+", 0)
    assert isinstance(placed([(-20, 25)], "+", 0), Windows)
