"""Which residue stands in which column: hand-made cases, and the mappings published with the shared pairs."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment_file import parse_a3m, read_alignment
from bioattn.structures.chain import Chain, read_chain
from bioattn.structures.column_mapping import map_columns, read_mapping

SEQUENCE = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ"
SHUFFLED = "QVEILGLREELQRSFHSKVFSIQRQKAIYATKM"

# Of the 38 published mappings, those that differ from ours; all others are equal residue by residue.
DIFFERENT = {
    # Three residues before the first gap shift by a column: the family's profile put the gap before them.
    "PF00486_2ZXJ_A": (74, 77, 78),
    # Read off another row, with one residue more in common (107 of 130), which puts a gap of five elsewhere.
    "PF01451_1JL3_A": (127, 130, 130),
    # Read off another row with more residues in common (157); the published one also leaves out 29 residues.
    "pfam_PF13354_1FQG": (170, 173, 202),
}


def chain_of(letters, codes=None):
    coordinates = np.arange(3 * len(letters), dtype=np.float32).reshape(-1, 3)
    return Chain(
        name="A",
        letters=letters,
        residue_names=["UNK"] * len(letters),
        numbers=list(range(11, 11 + len(letters))),
        insertion_codes=codes or [""] * len(letters),
        ca=coordinates,
        cb=coordinates,
        bfactors=np.zeros(0, np.float32),
        atom37=np.full((len(letters), 37, 3), np.nan, np.float32),
        num_missing_cb=0,
    )


def alignment_of(*rows):
    return parse_a3m(
        "x.a3m", "".join(f">row{number}\n{row}\n" for number, row in enumerate(rows, 1)).encode()
    )


def pairs_of(letters, *rows):
    mapping = map_columns(chain_of(letters), alignment_of(*rows))
    return dict(zip(mapping.columns.tolist(), mapping.residues.tolist(), strict=True))


def test_the_same_sequence_maps_one_to_one():
    assert pairs_of(SEQUENCE, SEQUENCE) == {index: index for index in range(33)}


def test_gaps_insertions_tags_and_loops():
    """The row has a gap in columns 2 and 3 and an insertion before 10; the chain has a tag and lacks a loop."""
    row = SEQUENCE[:2] + "--" + SEQUENCE[2:8] + SEQUENCE[8:11].lower() + SEQUENCE[11:]
    tagged = "GHHHHHH" + SEQUENCE[:20] + SEQUENCE[24:]
    wanted = {}
    for place, residue in enumerate(SEQUENCE):
        if 8 <= place < 11 or 20 <= place < 24:
            continue
        column = place + (0 if place < 2 else 2) - (3 if place >= 11 else 0)
        wanted[column] = tagged.index(SEQUENCE[:20]) + place - (4 if place >= 24 else 0)
        assert residue == tagged[wanted[column]]
    assert pairs_of(tagged, row) == wanted


@pytest.mark.parametrize(
    ("kept", "numbers"),
    [
        ([*range(5), *range(40, 66)], [*range(5), *range(40, 66)]),
        ([*range(5), *range(40, 66)], range(31)),
        (range(66), [*range(60), *range(80, 86)]),
        (range(66), [*range(60), *range(1060, 1066)]),
    ],
    ids=["missing residues", "numbered anew", "a jump", "a long jump"],
)
def test_a_piece_too_short_to_pay_for_its_gap(kept, numbers):
    whole = SEQUENCE + SHUFFLED
    chain = replace(chain_of("".join(whole[place] for place in kept)), numbers=list(numbers))
    assert map_columns(chain, alignment_of(whole)).columns.tolist() == list(kept)
    if numbers != range(31):  # where the row begins later, the piece has no columns
        found = map_columns(chain, alignment_of(whole[12:])).columns.tolist()
        assert found == [place - 12 for place in kept if place >= 12]


def test_the_closest_row_is_found_when_the_query_is_another_protein():
    mapping = map_columns(chain_of(SEQUENCE), alignment_of(SHUFFLED, SHUFFLED[::-1][:30] + "KKK", SEQUENCE))
    assert (mapping.row, mapping.identity) == (2, 1.0)


def test_coordinates_of_columns():
    mapping = map_columns(chain_of(SEQUENCE[3:]), alignment_of(SEQUENCE))
    cb = mapping.column_cb(chain_of(SEQUENCE[3:]), 33)
    assert np.isnan(cb[:3]).all()
    np.testing.assert_array_equal(cb[3:], np.arange(90, dtype=np.float32).reshape(-1, 3))


@pytest.mark.parametrize(
    ("letters", "rows"),
    [
        (SHUFFLED, [SEQUENCE, SEQUENCE[:30] + "AAA"]),
        (SEQUENCE[-6:], [SEQUENCE[:-6] + "------", "-" * 33]),
        (SEQUENCE, ["-" * 33]),
    ],
    ids=["another protein", "another part", "only gaps"],
)
def test_sequences_that_do_not_match(letters, rows):
    with pytest.raises(BioattnError, match=r"^x\.pdb: the sequence of chain A does not match.*'row1'"):
        map_columns(chain_of(letters), alignment_of(*rows), source="x.pdb")


def test_the_published_mappings(shared):
    folder = shared / "data" / "msa_structure"
    with (folder / "INDEX.tsv").open() as index:
        pairs = list(csv.DictReader(index, delimiter="\t"))
    assert len(pairs) == 38
    for pair in pairs:
        chain = read_chain(folder / pair["structure"], pair["chain"])
        with (folder / pair["mapping"]).open() as file:
            published = [
                (int(row["msa_column"]), int(row["resi"]), row["icode"].replace(".", ""))
                for row in csv.DictReader(file, delimiter="\t")
            ]
        mapping = map_columns(chain, read_alignment(folder / pair["msa"]))
        ours = {
            (int(column), chain.numbers[residue], chain.insertion_codes[residue])
            for column, residue in zip(mapping.columns, mapping.residues, strict=True)
        }
        same = len(ours & set(published))
        wanted = DIFFERENT.get(pair["id"], (len(published),) * 3)
        assert (same, len(published), len(ours)) == wanted, pair["id"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["msa_column\tresname", "0\tUNK"], "there is no column 'resi'"),
        (["msa_column\tresi", "0\t11", "33\t12"], ":3: match column 33, the alignment has 0 to 32"),
        (["msa_column\tresi", "4\t11", "4\t12"], ":3: match column 4 after 4"),
        (["msa_column\tresi", "x\t11"], ":2: msa_column 'x' is not a whole number"),
        (["msa_column\tresi", "0\t11A"], ":2: resi '11A' is not a whole number"),
        (["msa_column\tresi\ticode", "0\t11\tA"], ":2: chain A has no residue 11A"),
        (["msa_column\tresi\tresname", "0\t11\tGLY"], ":2: residue 11 of chain A is UNK, not GLY"),
        (["msa_column\tresi"], "maps no residue"),
    ],
)
def test_mappings_that_are_refused(tmp_path, lines, words):
    file = tmp_path / "x.tsv"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError) as refused:
        read_mapping(file, chain_of(SEQUENCE), 33)
    assert str(refused.value).startswith(str(file))
    assert words in str(refused.value)


@given(st.lists(st.sampled_from(["", "A", "B"]), min_size=1, max_size=6), st.data())
def test_a_mapping_is_read(tmp_path, codes, data):
    chain = chain_of("X" * len(codes), codes)
    residues = data.draw(st.sets(st.integers(0, len(codes) - 1), min_size=1).map(sorted))
    of_columns = st.sets(st.integers(0, 30), min_size=len(residues), max_size=len(residues))
    columns = data.draw(of_columns.map(sorted))
    lines = (f"{c}\t{chain.numbers[r]}\t{codes[r] or '.'}" for c, r in zip(columns, residues, strict=True))
    (tmp_path / "x.tsv").write_text("\n".join(["msa_column\tresi\ticode", *lines]) + "\n")
    found = read_mapping(tmp_path / "x.tsv", chain, 31)
    assert (found.columns.tolist(), found.residues.tolist()) == (columns, residues)
