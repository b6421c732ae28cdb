"""Contact maps: pairs read from every kind of file, ranked and judged as by plain loops."""

import re

import numpy as np
import pytest
from Bio.Data.IUPACData import protein_letters_1to3

from bioattn.alignments.contact_dataset import write_contact_dataset
from bioattn.errors import BioattnError, FormatError
from bioattn.figures.contact_prediction import (
    ContactPrediction,
    read_contact_prediction,
    read_contact_truth,
    truth_from_coordinates,
)
from bioattn.figures.structures import ContactPicture, compare_contacts, draw_contact_map, expected_and_true
from bioattn.formats.rr import write_rr
from bioattn.formats.structure_file import StructureResidue, write_pdb
from bioattn.structures.contacts import contact_scores
from bioattn.structures.predictions import Distances, read_distances
from tests.making import compact_walk, write_small_prediction

SIZE = 30
LETTERS = "ACDEFGHIKLMNPQRSTVWYACDEFGHIKL"
NAMES = {letter: name.upper() for letter, name in protein_letters_1to3.items()}


def fold(seed=0, missing=(3, 4, 29)):
    """A compact walk; some columns are not in the structure."""
    points = compact_walk(SIZE, seed)
    points[list(missing)] = np.nan
    return points


def scores(seed=1):
    random = np.random.default_rng(seed).random((SIZE, SIZE))
    near = 1 / (1 + np.nan_to_num(np.linalg.norm(fold()[:, None] - fold()[None], axis=-1), nan=30))
    both = 0.5 * (random + random.T) * near
    return np.round(both, 5)


def prediction(values):
    return ContactPrediction(name="x", letters=LETTERS, scores=values, quantity="probability")


def test_the_best_pairs_by_plain_loops():
    cb, values = fold(), scores()
    values[:, 7] = values[7, :] = np.nan  # a column that the model left out
    compared = compare_contacts(prediction(values), truth_from_coordinates(cb))
    pairs = []
    for i in range(SIZE):
        for j in range(i + 6, SIZE):
            if not np.isnan(cb[[i, j]]).any():
                score = -1.0 if np.isnan(values[i, j]) else values[i, j]
                pairs.append((-score, i, j, np.linalg.norm(cb[i] - cb[j]) < 8))
    pairs.sort(key=lambda pair: pair[0])
    length = SIZE - 3
    assert compared.length == length
    right = [(i, j) for _, i, j, near in pairs[:length] if near]
    assert compared.right.tolist() == [list(pair) for pair in right]
    assert compared.wrong.tolist() == [[i, j] for _, i, j, near in pairs[:length] if not near]
    assert compared.missed.tolist() == [[i, j] for _, i, j, near in pairs[length:] if near]
    assert compared.precision_l == len(right) / length
    judged = contact_scores(np.where(np.isnan(values), -np.inf, values), cb)
    assert (compared.precision_l, compared.precision_l5) == (judged["P@L"], judged["P@L/5"])


def test_the_prediction_lies_above_and_the_truth_below():
    values, truth = scores(), truth_from_coordinates(fold())
    figure = draw_contact_map(ContactPicture(prediction(values), truth), 85)
    axis = figure.axes[0]
    shown = np.ma.masked_invalid(axis.images[0].get_array())
    for i in range(SIZE):
        for j in range(SIZE):
            assert shown.mask[i, j] == (j - i < 6)
            if j - i >= 6:
                assert shown[i, j] == values[i, j]
    compared = compare_contacts(prediction(values), truth)
    marks = {
        marks.get_label(): marks.get_offsets() for marks in axis.collections if marks.get_label() in MARKS
    }
    for name, pairs in (("right", compared.right), ("wrong", compared.wrong)):
        np.testing.assert_array_equal(marks[name], pairs[:, ::-1] + 1)  # (x, y) = (j, i), from 1
    for name, pairs in (("found", compared.right), ("missed", compared.missed)):
        np.testing.assert_array_equal(marks[name], pairs + 1)
    assert f"P@L {compared.precision_l:.2f}" in figure.get_suptitle()


MARKS = {"right", "wrong", "found", "missed"}


def table(path, values, quantity="probability", sample=""):
    head = "sample\t" if sample else ""
    lines = [f"{head}column_i\tcolumn_j\tletter_i\tletter_j\t{quantity}\n"]
    for i in range(SIZE):
        for j in range(i + 6, SIZE):
            first = f"{sample}\t" if sample else ""
            lines.append(f"{first}{i + 1}\t{j + 1}\t{LETTERS[i]}\t{LETTERS[j]}\t{values[i, j]}\n")
    path.write_text("".join(lines))
    return path


def test_files_of_one_prediction_agree(tmp_path):
    values = scores()
    write_rr(tmp_path / "x.rr", LETTERS, values, target="x", method=[])
    from_rr = read_contact_prediction(tmp_path / "x.rr")
    from_table = read_contact_prediction(table(tmp_path / "x.tsv", values))
    assert from_rr.name == "x"
    assert from_rr.letters == from_table.letters == LETTERS
    far = np.abs(np.subtract.outer(np.arange(SIZE), np.arange(SIZE))) >= 6
    for found in (from_rr, from_table):
        assert np.isnan(found.scores[~far]).all()
        listed = far & ~np.isnan(found.scores)
        np.testing.assert_allclose(found.scores[listed], values[listed])
        assert (values[far & ~listed] < 1e-5).all()
    compared = [compare_contacts(found, truth_from_coordinates(fold())) for found in (from_rr, from_table)]
    assert compared[0].precision_l == compared[1].precision_l


def structure(path, cb):
    write_pdb(
        path,
        [
            StructureResidue(
                name=NAMES[letter],
                number=100 + place,
                atoms={"CA": tuple(map(float, point)), "CB": tuple(map(float, point))},
                confidence=0,
            )
            for place, (letter, point) in enumerate(zip(LETTERS, cb, strict=True))
            if not np.isnan(point).any()
        ],
    )
    return path


def test_truths_of_one_fold_agree(tmp_path):
    cb = np.round(fold(), 3)
    known = truth_from_coordinates(cb)
    found = read_contact_truth(structure(tmp_path / "x.pdb", cb), prediction(scores()))
    np.testing.assert_array_equal(found.contacts, known.contacts)
    np.testing.assert_array_equal(found.known, known.known)
    assert found.length == known.length == 27
    pairs = np.argwhere(np.triu(known.contacts))
    listed = tmp_path / "truth.tsv"
    listed.write_text("column_i\tcolumn_j\n" + "".join(f"{i + 1}\t{j + 1}\n" for i, j in pairs) + "1\t3\n")
    from_table = read_contact_truth(listed, prediction(scores()))
    np.testing.assert_array_equal(from_table.contacts, known.contacts)  # 1 and 3 are too close to count
    assert from_table.length == SIZE


def test_a_dataset_is_a_truth(tmp_path):
    from scipy.sparse import csr_array

    from bioattn.alignments.contact_dataset import ContactProtein
    from bioattn.choices import TEST

    aatype = np.zeros(SIZE, np.int32)
    protein = ContactProtein(
        id="x",
        group="x",
        split=TEST,
        chain="A",
        msa=np.zeros((1, SIZE), np.uint8),
        deletions=csr_array((1, SIZE), dtype=np.int32),
        aatype=aatype,
        cb=fold(),
        residue_numbers=["" if np.isnan(point).any() else str(place) for place, point in enumerate(fold())],
    )
    path = tmp_path / "x.dataset.h5"
    write_contact_dataset(path, [protein], {})
    found = read_contact_truth(path, prediction(scores()))
    np.testing.assert_array_equal(found.contacts, truth_from_coordinates(fold()).contacts)
    with pytest.raises(BioattnError, match="has no protein 'y'"):
        read_contact_truth(path, prediction(scores()), sample="y")


def test_a_truth_of_another_alignment_is_refused(tmp_path):
    """Longer, or of the same length; a table of pairs cannot say how long its alignment was."""
    whole = prediction(scores())
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("column_i\tcolumn_j\n1\t9\n2\t31\n")
    with pytest.raises(BioattnError, match=r"pairs\.tsv:3: column 31 does not exist, the prediction has 30"):
        read_contact_truth(pairs, whole)
    cut = read_contact_prediction(table(tmp_path / "x.tsv", scores()))
    assert read_contact_truth(pairs, cut).contacts.sum() == 2


def test_bad_input_is_one_sentence(tmp_path):
    two = table(tmp_path / "two.tsv", scores(), "score", sample="a")
    two.write_text(two.read_text() + two.read_text().partition("\n")[2].replace("a\t", "b\t"))
    with pytest.raises(BioattnError, match=re.escape("two.tsv: holds 2 alignments; choose with --sample")):
        read_contact_prediction(two)
    assert read_contact_prediction(two, "b").quantity == "score"
    other = tmp_path / "other.tsv"
    for text, sentence in (
        ("a\tb\n1\t2\n", "holds no predicted contacts"),
        ("column_i\tcolumn_j\tprobability\n9\t2\t0.5\n", r"other\.tsv:2: column_i and column_j must be"),
        ("column_i\tcolumn_j\tprobability\n2\t9\tmuch\n", r"other\.tsv: probability is not a number"),
    ):
        other.write_text(text)
        with pytest.raises(FormatError, match=sentence):
            read_contact_prediction(other)
    with pytest.raises(BioattnError, match=r"holds none of distogram\.h5"):
        read_contact_prediction(tmp_path)


COLUMNS = np.array([0, 1, 3, 4, 6])
TARGET = "ACD-EFG"


@pytest.fixture
def distances():
    random = np.random.default_rng(0)
    values = random.uniform(3, 25, (5, 5))
    return Distances(
        name="x",
        letters=TARGET,
        columns=COLUMNS,
        bin_edges=np.linspace(2.3125, 21.6875, 63),
        contact_probability=np.zeros((5, 5)),
        expected_distance=(values + values.T) / 2,
    )


def test_true_distances_lie_below(distances):
    cb = np.random.default_rng(1).uniform(0, 20, (7, 3)).astype(np.float32)
    cb[4] = np.nan
    both = expected_and_true(distances, cb)
    place = {int(column): row for row, column in enumerate(COLUMNS)}
    for i in range(7):
        for j in range(7):
            if i > j:
                expected = float(np.sqrt(((cb[i] - cb[j]) ** 2).sum()))
            elif i in place and j in place:
                expected = float(distances.expected_distance[place[i], place[j]])
            else:
                expected = float("nan")
            assert both[i, j] == pytest.approx(expected, nan_ok=True, rel=1e-5)


def test_a_file_of_run_evoformer(tmp_path):
    """Written as `run evoformer` writes it. A contact map is made of it, too."""
    chances = write_small_prediction(tmp_path, TARGET, COLUMNS)
    near = chances[..., :2].sum(-1)
    found = read_distances(tmp_path)
    assert (found.letters, len(found.bin_edges)) == (TARGET, 3)
    np.testing.assert_array_equal(found.columns, COLUMNS)
    np.testing.assert_array_equal(found.expected_distance, (near * 10).astype(np.float64))
    contacts = read_contact_prediction(tmp_path)
    assert contacts.letters == TARGET
    for i in range(7):
        for j in range(7):
            value = contacts.scores[i, j]
            if i in COLUMNS and j in COLUMNS and i != j:
                assert value == near[list(COLUMNS).index(i), list(COLUMNS).index(j)]
            else:
                assert np.isnan(value)
    # The file with 0 8 p keeps what is far enough apart.
    listed = read_contact_prediction(tmp_path / "contacts.rr").scores
    assert np.argwhere(~np.isnan(listed)).tolist() == [[0, 6], [6, 0]]
    assert listed[0, 6] == pytest.approx(contacts.scores[0, 6], abs=1e-5)
