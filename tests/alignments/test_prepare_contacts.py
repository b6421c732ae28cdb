"""`bioattn prepare contacts` through the front door, on small made-up pairs."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from bioattn.alignments.contact_dataset import (
    ContactProtein,
    open_contact_dataset,
    split_groups,
    validate_contact_dataset,
    write_contact_dataset,
)
from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, FormatError
from tests.making import bioattn

NAMES = "ALA CYS ASP GLU PHE GLY HIS ILE LYS LEU"
LETTERS = dict(zip("ACDEFGHIKL", NAMES.split(" "), strict=True))
FIRST = "ACDEFGHIKLLKIHGFEDCAAEGIKD"
SECOND = "GGLLKDIAHEAGFKCCLEDHIAFKEG"


def write_chain(path, letters):
    """CA and CB on a line, 3 ångström from residue to residue."""
    lines = []
    for index, letter in enumerate(letters):
        for name in ("CA", "CB"):
            place = f"{3 * index:8.3f}{len(name) * (name == 'CB'):8.3f}{0:8.3f}"
            residue = LETTERS[letter]
            if (name, residue) != ("CB", "GLY"):
                lines.append(
                    f"ATOM  {1:5}  {name}  {residue} A{index + 101:4}    {place}  1.00  0.00           C"
                )
    path.write_text("\n".join(lines) + "\n")


def write_msa(path, *rows):
    path.write_text("".join(f">r{number} x\n{row}\n" for number, row in enumerate(rows, start=1)))


@pytest.fixture
def folder(tmp_path):
    """Two good pairs, and files for bad ones."""
    for name in ("msa", "pdb", "out"):
        (tmp_path / name).mkdir()
    write_chain(tmp_path / "pdb" / "one.pdb", FIRST)
    write_chain(tmp_path / "pdb" / "two.pdb", SECOND[2:])
    write_msa(tmp_path / "msa" / "one.a3m", FIRST, FIRST[:5] + "kk" + FIRST[5:20] + "------", FIRST, SECOND)
    write_msa(tmp_path / "msa" / "two.a3m", FIRST, SECOND)
    write_msa(tmp_path / "msa" / "uneven.a3m", FIRST, FIRST[:9])
    write_msa(tmp_path / "msa" / "dna.a3m", "ACGTACGTACGTACGTACGT", "ACGTACGTACGTACGTACGA")
    return tmp_path


def write_pairs(folder, *lines, header="id msa structure chain"):
    path = folder / "pairs.tsv"
    text = [header, *lines]
    path.write_text("".join(line.replace(" ", "\t") + "\n" for line in text))
    return path


def run(*arguments):
    return bioattn("prepare", "contacts", *arguments)


def audit(folder):
    with (folder / "out" / "x.dataset.audit.tsv").open() as file:
        return {row["id"]: row for row in csv.DictReader(file, delimiter="\t")}


GOOD = ("one msa/one.a3m pdb/one.pdb A", "two msa/two.a3m pdb/two.pdb A")


def test_small_pairs(folder):
    output = folder / "out" / "x.dataset.h5"
    assert run(write_pairs(folder, *GOOD), "-o", output) == 0
    dataset = open_contact_dataset(output)
    assert dataset.ids == dataset.groups == ["one", "two"]
    one, two = dataset.protein(0), dataset.protein(1)
    assert len(one.msa) == 3  # the third row repeats the first
    assert one.deletions.toarray()[1].nonzero()[0].tolist() == [5]
    assert one.deletions[1, 5] == 2
    x = np.arange(26) * 3.0
    np.testing.assert_allclose(one.cb[:, 0], x)
    np.testing.assert_allclose(one.cb[:, 1], [0 if letter == "G" else 2 for letter in FIRST])
    assert one.residue_numbers == [str(101 + index) for index in range(26)]
    # The chain of the second lacks two residues and is the second row, not the first.
    assert np.isnan(two.cb[:2]).all()
    np.testing.assert_allclose(two.cb[2:, 0], x[:24])
    assert two.residue_numbers == ["", "", *(str(101 + place) for place in range(24))]
    rows = audit(folder)
    assert [rows[name]["status"] for name in ("one", "two")] == ["kept", "kept"]
    assert (folder / "out" / "bioattn-records/x.dataset.h5.json").is_file()


def test_depth_is_capped_by_chance_and_repeats(folder):
    random = np.random.default_rng(0)
    rows = ["".join(random.choice(list("ACDEFGHIKL"), 26)) for _ in range(60)]
    write_msa(folder / "msa" / "one.a3m", FIRST, *rows)
    table = write_pairs(folder, *GOOD)

    def sampled(name, *options):
        output = folder / "out" / f"{name}.h5"
        assert run(table, "-o", output, "--max-depth", 7, *options) == 0
        return open_contact_dataset(output).protein(0).msa, output.read_bytes()

    first, content = sampled("a")
    again, same_content = sampled("b")
    other, _ = sampled("c", "--seed", "1")
    assert content == same_content
    np.testing.assert_array_equal(first, again)
    assert len(first) == len(other) == 7
    np.testing.assert_array_equal(first[0], other[0])
    assert (first != other).any()
    # What is drawn for one pair does not depend on the others.
    table = write_pairs(folder, *GOOD[::-1])
    output = folder / "out" / "d.h5"
    assert run(table, "-o", output, "--max-depth", 7) == 0
    dataset = open_contact_dataset(output)
    np.testing.assert_array_equal(dataset.protein(dataset.index("one")).msa, first)


def test_bad_pairs_are_left_out_by_name(folder, capsys):
    (folder / "pdb" / "text.pdb").write_text("no atoms here\n")
    table = write_pairs(
        folder,
        "good msa/one.a3m pdb/one.pdb A",
        "other msa/uneven.a3m pdb/one.pdb A",
        "dna msa/dna.a3m pdb/one.pdb A",
        "chain msa/one.a3m pdb/one.pdb Q",
        "text msa/one.a3m pdb/text.pdb A",
        "unlike msa/two.a3m pdb/unlike.pdb A",
    )
    write_chain(folder / "pdb" / "unlike.pdb", "DDKKDDEEHHFFIIHHCCDDAAKKEE")
    assert run(table, "-o", folder / "out" / "x.dataset.h5") == 0
    rows = audit(folder)
    assert {name: row["reason"] for name, row in rows.items() if row["status"] == "refused"} == {
        "other": "alignment",
        "dna": "alignment",
        "chain": "structure",
        "text": "structure",
        "unlike": "sequence",
    }
    assert "does not match the alignment" in rows["unlike"]["detail"]
    assert "'r1'" in rows["unlike"]["detail"] or "'r2'" in rows["unlike"]["detail"]
    said = capsys.readouterr().err
    for name in ("other", "dna", "chain", "text", "unlike"):
        assert f"warning: {name} is left out: " in said
    assert open_contact_dataset(folder / "out" / "x.dataset.h5").ids == ["good"]


def test_given_groups_and_splits(folder, capsys):
    header = "id msa structure chain group split"
    table = write_pairs(
        folder,
        "one msa/one.a3m pdb/one.pdb A fam test",
        "two msa/two.a3m pdb/two.pdb A alone train",
        "again msa/one.a3m pdb/one.pdb A other validation",
        header=header,
    )
    output = folder / "out" / "x.dataset.h5"
    assert run(table, "-o", output) == 0
    assert "one and again are of different groups but related: 100 %" in capsys.readouterr().err
    dataset = open_contact_dataset(output)
    assert dataset.groups == ["fam", "alone", "other"]
    assert dataset.proteins_in(TEST).tolist() == [0]
    assert dataset.proteins_in(TRAIN).tolist() == [1]
    assert bioattn("validate", output) == 0
    capsys.readouterr()
    assert bioattn("inspect", output) == 0
    said = capsys.readouterr().out
    assert "contact dataset HDF5" in said
    assert "proteins per split: train 1, validation 1, test 1" in said


def test_related_chains_on_two_sides_are_refused(folder, capsys):
    table = write_pairs(
        folder,
        "one msa/one.a3m pdb/one.pdb A test",
        "again msa/one.a3m pdb/one.pdb A train",
        header="id msa structure chain split",
    )
    assert run(table, "-o", folder / "out" / "x.dataset.h5") == 1
    assert "'one', 'again' are related by sequence" in capsys.readouterr().err
    assert list((folder / "out").iterdir()) == []


def test_mappings_are_used_and_checked(folder):
    """A mapping may leave residues out; one that fits another alignment is refused."""
    head = "msa_column\tresi\tresname\n"
    names = [LETTERS[letter] for letter in FIRST]
    good = [f"{column}\t{101 + column}\t{names[column]}\n" for column in range(3, 20)]
    shifted = [f"{column + 1}\t{101 + column}\t{names[column]}\n" for column in range(3, 20)]
    (folder / "good.tsv").write_text(head + "".join(good))
    (folder / "shifted.tsv").write_text(head + "".join(shifted))
    (folder / "names.tsv").write_text(head + "0\t101\tGLY\n")
    table = write_pairs(
        folder,
        "good msa/one.a3m pdb/one.pdb A good.tsv",
        "none msa/one.a3m pdb/one.pdb A -",
        "shifted msa/one.a3m pdb/one.pdb A shifted.tsv",
        "names msa/one.a3m pdb/one.pdb A names.tsv",
        header="id msa structure chain mapping",
    )
    output = folder / "out" / "x.dataset.h5"
    assert run(table, "-o", output) == 0
    dataset = open_contact_dataset(output)
    assert dataset.ids == ["good", "none"]
    assert np.flatnonzero(dataset.protein(0).mapped).tolist() == list(range(3, 20))
    assert dataset.protein(1).mapped.all()
    rows = audit(folder)
    assert [rows[name]["reason"] for name in ("shifted", "names")] == ["mapping", "mapping"]


@pytest.mark.parametrize(
    ("header", "lines", "words"),
    [
        ("id msa chain", ["one msa/one.a3m A"], "there is no column 'structure'"),
        ("id msa structure chain", [GOOD[0], GOOD[0]], ":3: the id 'one' stands in line 2 too"),
        ("id msa structure chain", ["one none.a3m pdb/one.pdb A"], ":2: msa: no such file as"),
        ("id msa structure chain", [" msa/one.a3m pdb/one.pdb A"], ":2: id is empty"),
        ("id msa structure split", ["one msa/one.a3m pdb/one.pdb A"], ":2: split 'A' is none of train"),
        (
            "id msa structure group split",
            ["one msa/one.a3m pdb/one.pdb g train", "two msa/two.a3m pdb/two.pdb g test"],
            "the split parts the groups 'g'",
        ),
    ],
)
def test_wrong_tables(folder, capsys, header, lines, words):
    table = write_pairs(folder, *lines, header=header)
    assert run(table, "-o", folder / "out" / "x.dataset.h5") == 1
    said = capsys.readouterr().err
    assert said.startswith(f"bioattn: error: {table}")
    assert words in said
    assert list((folder / "out").iterdir()) == []


def protein(name, rows, columns, *, group="", split=TRAIN):
    random = np.random.default_rng(rows * 1000 + columns)
    deletions = random.integers(0, 40, (rows, columns)) * (random.random((rows, columns)) < 0.05)
    cb = random.normal(0, 20, (columns, 3)).astype(np.float32)
    cb[::7] = np.nan
    numbers = ["" if np.isnan(place[0]) else f"{index}A" for index, place in enumerate(cb)]
    return ContactProtein(
        id=name,
        group=group or name,
        split=split,
        chain="_",
        msa=random.integers(0, 22, (rows, columns)).astype(np.uint8),
        deletions=csr_array(deletions.astype(np.int32)),
        aatype=random.integers(0, 21, columns).astype(np.int32),
        cb=cb,
        residue_numbers=numbers,
    )


PROTEINS = [
    protein("first", 40, 30, group="a", split=VALIDATION),
    protein("wide", 3, 900, group="b", split=TEST),
    protein("deep", 5000, 20, group="c"),
    protein("one row", 1, 8, group="c"),
]


@pytest.fixture
def dataset_file(tmp_path):
    path = tmp_path / "x.dataset.h5"
    write_contact_dataset(path, iter(PROTEINS), {"max_depth": 12})
    return path


def test_what_was_written_is_read(dataset_file):
    dataset = open_contact_dataset(dataset_file)
    assert dataset.ids == ["first", "wide", "deep", "one row"]
    assert dataset.groups == ["a", "b", "c", "c"]
    assert dataset.splits.tolist() == [VALIDATION, TEST, TRAIN, TRAIN]
    assert dataset.num_rows.tolist() == [40, 3, 5000, 1]
    assert dataset.num_columns.tolist() == [30, 900, 20, 8]
    assert dataset.metadata == {"max_depth": 12}
    assert dataset.proteins_in(TRAIN).tolist() == [2, 3]
    for index, written in enumerate(PROTEINS):
        read = dataset.protein(index)
        for name in ("id", "group", "split", "chain", "residue_numbers"):
            assert getattr(read, name) == getattr(written, name)
        for name in ("msa", "aatype", "cb"):
            np.testing.assert_array_equal(getattr(read, name), getattr(written, name))
        np.testing.assert_array_equal(read.deletions.toarray(), written.deletions.toarray())
        assert dataset.num_mapped[index] == read.mapped.sum() == len([n for n in read.residue_numbers if n])
    assert validate_contact_dataset(dataset_file) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "deep"}, "comes twice"),
        ({"cb": np.full((30, 3), np.nan, np.float32)}, "no column has a residue"),
        ({"msa": np.full((40, 30), 22, np.uint8)}, "codes reach 22"),
        ({"residue_numbers": []}, "30 columns"),
    ],
)
def test_impossible_proteins_leave_no_file(tmp_path, change, words):
    path = tmp_path / "x.h5"
    with pytest.raises(BioattnError, match=words):
        write_contact_dataset(path, [PROTEINS[2], replace(PROTEINS[0], **change)], {})
    assert list(tmp_path.iterdir()) == []


def test_a_group_on_two_sides_is_refused(tmp_path):
    path = tmp_path / "x.h5"
    write_contact_dataset(path, [PROTEINS[2], replace(PROTEINS[3], split=TEST)], {})
    with pytest.raises(FormatError, match="parts groups: 'c'"):
        open_contact_dataset(path)
    assert split_groups(["a", "b", "a"], [0, 1, 0]) == []
