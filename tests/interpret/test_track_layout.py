"""Which base belongs to which gene, for any windows, against a loop over bases."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.interpret.track_layout import lay_out, place_windows

WINDOWS = st.lists(
    st.tuples(st.integers(-15, 120), st.integers(1, 25)).filter(lambda row: sum(row) > 0),
    min_size=1,
    max_size=12,
)


def placed(rows, strand, downstream, chroms="I"):
    samples = pd.DataFrame(rows, columns=["start", "size"]).assign(chrom=chroms, strand=strand)
    samples["end"] = samples["start"] + samples["size"]
    return place_windows(samples, window_length=30, downstream=downstream)


@given(WINDOWS, st.sampled_from("+-"), st.integers(0, 12))
def test_each_base_goes_to_the_nearest_gene(rows, strand, downstream):
    windows = placed(rows, strand, downstream)
    (nearest,) = lay_out(windows)
    rivals: dict[int, list[tuple[int, bool, int]]] = {}
    for number, (start, size) in enumerate(rows):
        anchor = start + size - downstream if strand == "+" else start + downstream - 1
        for base in range(max(start, 0), start + size):
            upstream = base < anchor if strand == "+" else base > anchor
            rivals.setdefault(base, []).append((abs(base - anchor), not upstream, number))
    expected = {base: min(those)[-1] for base, those in rivals.items()}
    assert owners(nearest, rows) == expected
    assert nearest.shared_bases == sum(len(those) > 1 for those in rivals.values())
    others = [
        any(len(rivals[base]) > 1 for base in range(max(start, 0), start + size)) for start, size in rows
    ]
    assert nearest.overlapping_genes == sum(others)


def owners(stretch, rows):
    """The number of the window that gives each base a value."""
    bases = [
        base
        for start, first, after in zip(
            stretch.island_starts, stretch.island_offsets, stretch.island_offsets[1:], strict=False
        )
        for base in range(start, start + after - first)
    ]
    assert len(bases) == stretch.bases
    assert bases == sorted(set(bases))
    found: dict[int, int] = {}
    for piece in stretch.pieces:
        sample = int(stretch.samples[piece.window])
        start, size = rows[sample]
        origin = start + size - 30 if stretch.strand == "+" else start
        covered = bases[piece.first : piece.first + piece.length]
        assert covered[0] == origin + piece.offset
        assert not found.keys() & covered
        found |= dict.fromkeys(covered, sample)
    return found


def test_chromosomes_come_in_the_order_of_their_names():
    windows = placed([(0, 10)] * 4, "+", 0, chroms=["chr2", "chr10", "Chr1", "chr1"])
    chroms = [stretch.chrom for stretch in lay_out(windows)]
    assert chroms == ["Chr1", "chr1", "chr10", "chr2"]


def test_a_window_longer_than_the_models_keeps_the_end_at_the_gene():
    for strand, expected in (("+", [110, 140]), ("-", [100, 130])):
        assert placed([(100, 40)], strand, 0)[["start", "end"]].iloc[0].tolist() == expected


def test_windows_outside_their_chromosome_are_refused():
    with pytest.raises(BioattnError, match=r"I:-20--5\(\+\) lies outside"):
        placed([(-20, 15)], "+", 0)
    assert len(placed([(-20, 25)], "+", 0)) == 1
