"""Distograms: entropy and distances by plain loops, columns that the model left out, the true ones below."""

import h5py
import numpy as np
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.figures.contact_prediction import read_contact_prediction
from bioattn.figures.distogram import draw_distogram, expected_and_true
from bioattn.models.evoformer.inference.outputs import PredictionOf, write_prediction
from bioattn.models.evoformer.inference.prediction import Prediction
from bioattn.models.evoformer.inference.target_row import TargetRow
from bioattn.structures.distogram_file import Distances, read_distances

COLUMNS = np.array([0, 1, 3, 4, 6])
LETTERS = "ACD-EFG"


@pytest.fixture
def distances() -> Distances:
    random = np.random.default_rng(0)
    values = random.uniform(3, 25, (5, 5))
    return Distances(
        name="x",
        letters=LETTERS,
        columns=COLUMNS,
        bin_edges=np.linspace(2.3125, 21.6875, 63),
        contact_probability=np.zeros((5, 5)),
        expected_distance=(values + values.T) / 2,
        entropy=random.uniform(0, 6, (5, 5)),
    )


def test_true_distances_lie_below(distances) -> None:
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


@pytest.mark.parametrize("width", [85, 180])
def test_what_is_drawn(distances, width) -> None:
    figure = draw_distogram(distances, width)
    left, right = (axis for axis in figure.axes if axis.images)
    np.testing.assert_array_equal(left.images[0].get_array(), expected_and_true(distances, None))
    entropy = right.images[0].get_array()
    np.testing.assert_array_equal(entropy[np.ix_(COLUMNS, COLUMNS)], distances.entropy)
    assert entropy.mask[2].all()
    assert right.images[0].get_clim() == (0, 6)
    beside = left.get_position().x1 < right.get_position().x0
    assert beside == (width == 180)


def test_a_file_of_run_evoformer(tmp_path) -> None:
    """Written as `run evoformer` writes it; entropy by plain loops. A contact map is made of it, too."""
    random = np.random.default_rng(0)
    chances = random.random((5, 5, 4), dtype=np.float32)
    chances += chances.transpose(1, 0, 2)
    chances[0, 1] = chances[1, 0] = [1, 0, 0, 0]
    chances /= chances.sum(-1, keepdims=True)
    near = chances[..., :2].sum(-1)
    write_prediction(
        tmp_path,
        PredictionOf(
            name="x",
            target=TargetRow(name="q", letters=LETTERS, numbers=[1, 2, 3, None, 4, 5, 6], num_inserted=0),
            columns=COLUMNS,
            aatype=np.zeros(5, np.int32),
            model_sha256="m",
            input_sha256="i",
        ),
        Prediction(
            bin_edges=np.array([4, 8, 12], np.float32),
            distogram=chances,
            contact_probability=near,
            expected_distance=near * 10,
            aligned_error=None,
            ptm=None,
            plddt=None,
            atom37=None,
            representations={},
        ),
        {"format": "bioattn-prediction", "id": "x"},
    )
    found = read_distances(tmp_path, with_entropy=True)
    assert (found.letters, found.num_bins) == (LETTERS, 4)
    np.testing.assert_array_equal(found.columns, COLUMNS)
    np.testing.assert_array_equal(found.expected_distance, (near * 10).astype(np.float64))
    for i in range(5):
        for j in range(5):
            total = -sum(float(p) * float(np.log2(p)) for p in chances[i, j] if p > 0)
            assert found.entropy[i, j] == pytest.approx(total, abs=1e-6)
    assert found.entropy[0, 1] == 0
    contacts = read_contact_prediction(tmp_path)
    assert contacts.letters == LETTERS
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


def test_what_is_no_distogram(tmp_path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "something"
    with pytest.raises(FormatError, match=r"is no distogram .*'something', 'bioattn-distogram' is"):
        read_distances(path)
    with pytest.raises(BioattnError, match="no such file"):
        read_distances(tmp_path)
