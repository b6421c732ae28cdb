"""Tables of planted sites, and simulated sequences in which motifs are given twice."""

import csv
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import FormatError
from bioattn.formats.fasta import read_fasta
from bioattn.simulate.truth import COLUMNS, PlantedSite, read_truth, write_truth
from tests.making import bioattn

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
        ("g\tm\tt", "3 cells"),
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
    for text, message in (("\t".join(COLUMNS), "names no"), ("gene\tstart\n", "lacks the column 'gene_id'")):
        path.write_text(text)
        with pytest.raises(FormatError, match=message):
            read_truth(path)


CASES = {"protein": (), "codon": ("--copies", "4"), "dna": ("--cue", "5", "--length", "80", "--copies", "3")}


@pytest.mark.parametrize("alphabet", CASES)
def test_copies_are_where_the_truth_says_and_nothing_else_comes_twice(alphabet, tmp_path):
    words = ("simulate", "language", "-o", tmp_path / "s", "--sequences", "60", "--alphabet", alphabet)
    assert bioattn(*words, *CASES[alphabet]) == 0
    word = 3 if alphabet == "codon" else 1
    cue = 5 if alphabet == "dna" else 1
    with (tmp_path / "s" / "truth.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sequences = {record.name: record.sequence for record in read_fasta(tmp_path / "s" / "sequences.fa")}
    assert len(sequences) == 60
    numbers = set()
    for name, sequence in sequences.items():
        own = [row for row in rows if row["id"] == name]
        numbers.add(len(own))
        motif = own[0]["motif"]
        assert [row["copy"] for row in own] == [str(number + 1) for number in range(len(own))]
        for row in own:
            assert sequence[int(row["start"]) : int(row["end"])] == motif
            known = row["known_from"]
            assert known == ("" if row["copy"] == "1" else str(int(row["start"]) + cue * word))
        letters = [sequence[place : place + word] for place in range(0, len(sequence), word)]
        runs = Counter(tuple(letters[place : place + cue]) for place in range(len(letters) - cue + 1))
        inside = {motif[place : place + cue * word] for place in range(0, len(motif) - cue * word + 1, word)}
        assert {"".join(run) for run, count in runs.items() if count > 1} == inside
        assert {runs[run] for run in runs if "".join(run) in inside} == {len(own)}
    assert len({row["motif"] for row in rows}) == 60
    assert numbers == set(range(2, 2 + {"protein": 1, "codon": 3, "dna": 2}[alphabet]))


def test_the_same_bytes_and_more_sequences(tmp_path):
    for name, number in (("a", "9"), ("b", "9"), ("c", "12")):
        assert bioattn("simulate", "language", "-o", tmp_path / name, "--sequences", number) == 0
    texts = [(tmp_path / name / "sequences.fa").read_text() for name in "abc"]
    assert texts[0] == texts[1]
    assert texts[2].startswith(texts[0])
    assert bioattn("inspect", tmp_path / "a") == bioattn("validate", tmp_path / "a") == 0
