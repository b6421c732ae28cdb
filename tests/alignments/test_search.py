"""Searching a database in process, against pyhmmer's own jackhmmer and families known beforehand."""

import gzip

import numpy as np
import pytest

from bioattn.alignments import search
from bioattn.alignments.choices import SearchSettings
from bioattn.alignments.search import read_search_query, search_database
from bioattn.errors import FormatError
from bioattn.formats.fasta import FastaRecord, write_fasta

LETTERS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)


@pytest.fixture
def hmmer():
    return pytest.importorskip("pyhmmer", reason="pyhmmer is not installed (the extra msa)")


@pytest.fixture
def database(tmp_path):
    """A family of twelve, one with an insertion, one cut in two domains, among 200 unrelated sequences."""
    random = np.random.default_rng(7)
    query = random.choice(LETTERS, 80).tobytes().decode()
    family = []
    for number in range(12):
        letters = np.frombuffer(query.encode(), np.uint8).copy()
        changed = random.random(80) < 0.3
        letters[changed] = random.choice(LETTERS, int(changed.sum()))
        family.append(FastaRecord(f"kin{number}", "of the family", letters.tobytes().decode()))
    family[3] = family[3]._replace(sequence=family[3].sequence[:40] + "GGSGG" + family[3].sequence[40:])
    spacer = random.choice(LETTERS, 150).tobytes().decode()
    family[5] = family[5]._replace(sequence=family[5].sequence + spacer + family[6].sequence)
    others = [
        FastaRecord(f"other{number}", "", random.choice(LETTERS, 120).tobytes().decode())
        for number in range(200)
    ]
    path = tmp_path / "database.fasta"
    write_fasta(path, [*others[:90], *family, *others[90:]])
    return FastaRecord("query", "a planted one", query), path


def test_the_planted_family_is_found_and_no_other(hmmer, database):
    query, path = database
    alignment, rounds = search_database(query, path, SearchSettings())
    assert alignment.row(0) == query.sequence
    assert (alignment.names[0], alignment.descriptions[0]) == ("query", "a planted one")
    names = [name.split("/")[0] for name in alignment.names[1:]]
    assert sorted(set(names)) == sorted(f"kin{number}" for number in range(12))
    assert names.count("kin5") == 2  # both domains
    assert set(alignment.descriptions[1:]) == {"of the family"}
    assert [each[1:] for each in rounds] == [(212, 13, 12)]
    inserted = alignment.insertions[names.index("kin3") + 1]
    assert [len(letters) for letters in inserted.values()] == [5]
    assert alignment.sequence(names.index("kin3") + 1) in path.read_text().replace("\n", "")


def test_parts_threads_and_packing_change_nothing(hmmer, database, monkeypatch, tmp_path):
    query, path = database
    expected, rounds = search_database(query, path, SearchSettings(iterations=3))
    packed = tmp_path / "database.fasta.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(search, "_RESIDUES_AT_ONCE", 1000)
    for threads in (1, 3):
        found, again = search_database(query, packed, SearchSettings(iterations=3), threads=threads)
        assert [each[1:] for each in again] == [each[1:] for each in rounds]
        assert found.names == expected.names
        assert found.insertions == expected.insertions
        assert np.array_equal(found.residues, expected.residues)


@pytest.mark.shared
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_globins_as_in_jackhmmer(hmmer, shared, iterations):
    """MYG_ESCGI finds all 45 globins, itself too, in two iterations, and ends when nothing is new."""
    path = shared / "data" / "homologs" / "globins45.fasta"
    query = read_search_query(path, "MYG_ESCGI")
    alignment, rounds = search_database(query, path, SearchSettings(iterations=iterations))
    alphabet = hmmer.easel.Alphabet.amino()
    with hmmer.easel.SequenceFile(str(path), digital=True, alphabet=alphabet) as file:
        block = file.read_block()
    own = next(hmmer.hmmer.jackhmmer([block[0]], block, max_iterations=iterations, cpus=1))
    assert alignment.names == list(own.msa.names)
    assert len(rounds) == own.iteration == min(iterations, 3)
    # Its alignment is digital and knows no case; the reference line marks the query's columns.
    columns = [place for place, mark in enumerate(own.msa.reference) if mark == "x"]
    for row, codes in enumerate(own.msa.alignment):
        letters = "".join(alphabet.symbols[code] for code in codes)
        assert "".join(letters[place] for place in columns) == alignment.row(row)
    assert alignment.num_columns == len(query.sequence)
    if iterations > 1:
        assert len({name.split("/")[0] for name in alignment.names[1:]}) == 45


def test_evalue_decides(hmmer, database):
    query, path = database
    few, _ = search_database(query, path, SearchSettings(max_evalue=1e-32))
    many, _ = search_database(query, path, SearchSettings(max_evalue=1000))
    assert few.num_rows < 13 < many.num_rows


def test_a_damaged_database(hmmer, database, tmp_path):
    packed = gzip.compress(database[1].read_bytes())
    path = tmp_path / "cut.fasta.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match=r"cut\.fasta\.gz: the compressed data end early"):
        search_database(database[0], path, SearchSettings())
