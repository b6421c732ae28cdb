"""`bioattn simulate language` through the front door: only the motif comes twice, where the truth says."""

import csv
from collections import Counter

import pytest

from bioattn.formats.fasta import read_fasta
from tests.making import bioattn

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
    (tmp_path / "a" / "truth.tsv").unlink()
    assert bioattn("validate", tmp_path / "a") == 1
