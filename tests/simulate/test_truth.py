"""The truth table: read back as written, refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.simulate.truth import COLUMNS, PlantedSite, read_truth, write_truth

NAMES = st.text(alphabet="abcXYZ019_.-", min_size=1, max_size=8)
SITES = st.builds(
    lambda gene, motif, treatment, role, start, width, strand, effect: PlantedSite(
        gene, motif, "" if role == "decoy" else treatment, role, start, start + width, strand, effect
    ),
    NAMES,
    NAMES,
    NAMES,
    st.sampled_from(["causal", "lone", "out-of-range", "decoy"]),
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.sampled_from("+-"),
    st.sampled_from([0.0, 2.0, -1.0]),
)


@given(sites=st.lists(SITES, min_size=1, max_size=20), suffix=st.sampled_from(["", ".gz"]))
def test_read_back_as_written(tmp_path, sites, suffix):
    path = tmp_path / f"truth.tsv{suffix}"
    write_truth(path, sites)
    assert read_truth(path) == sites


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("g\tm\tt\tcausal\t5\t5\t+", "start 5 is not before end 5"),
        ("g\tm\tt\tcausal\t1\tx\t+", "must be numbers"),
        ("g\tm\tt\tbait\t1\t5\t+", "role is 'bait'"),
        ("g\tm\tt", "3 fields"),
    ],
)
def test_bad_rows_are_named(tmp_path, row, message):
    path = tmp_path / "truth.tsv"
    header = PlantedSite._fields if row.count("\t") == len(COLUMNS) else COLUMNS
    path.write_text("\t".join(header) + "\n" + row + "\n")
    with pytest.raises(FormatError, match=r"truth\.tsv:2") as caught:
        read_truth(path)
    assert message in str(caught.value)


def test_files_without_truth_are_refused(tmp_path):
    path = tmp_path / "truth.tsv"
    for text, message in (("", "names no"), ("gene\tstart\n", "lacks the column 'gene_id'")):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_truth(path)
