"""The dataset file: what is written is read, byte for byte again, and nothing damaged is."""

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError, FormatError
from bioattn.promoters.dataset import PROMOTER_DATASET, PromoterDataset, read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from tests.making import promoter_dataset

NAME = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=6)


@st.composite
def datasets(draw):
    genes, treatments = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    flank = draw(st.integers(0, 3))
    generator = np.random.default_rng(draw(st.integers(0, 99)))
    names = draw(st.lists(NAME, min_size=treatments, max_size=treatments, unique=True))
    features = draw(st.lists(NAME, max_size=3, unique=True))
    frame = pd.DataFrame(
        {
            feature: pd.Series(
                generator.normal(size=treatments)
                if i % 2
                else draw(st.lists(NAME, min_size=treatments, max_size=treatments)),
                dtype=np.float64 if i % 2 else object,
            )
            for i, feature in enumerate(features)
        },
        index=range(treatments),
    )
    frame.index = pd.Index(names, dtype=object, name=draw(st.sampled_from(["treatment", "sample"])))
    targets = generator.normal(size=(genes, treatments)).astype(np.float32)
    targets[generator.random(targets.shape) < 0.3] = np.nan
    scaled = draw(st.booleans())
    return PromoterDataset(
        gene_ids=draw(st.lists(NAME, min_size=genes, max_size=genes, unique=True)),
        chrom=draw(st.lists(st.sampled_from(["", "I", "chrII"]), min_size=genes, max_size=genes)),
        start=generator.integers(-5, 100, genes),
        end=generator.integers(100, 200, genes),
        strand=draw(st.lists(st.sampled_from("+-."), min_size=genes, max_size=genes)),
        codes=generator.integers(0, 5, (genes, 10 + 2 * flank)).astype(np.uint8),
        flank=flank,
        targets=targets,
        treatments=TreatmentTable(frame),
        gene_split=generator.integers(0, 3, genes).astype(np.uint8),
        treatment_split=generator.integers(0, 3, treatments).astype(np.uint8),
        task="regression",
        metadata={"note": draw(NAME), "list": [1, 2.5, None]},
        target_mean=generator.normal(size=treatments) if scaled else None,
        target_sd=generator.random(treatments) + 0.1 if scaled else None,
    )


def same(a, b):
    for name in PromoterDataset.__slots__:
        left, right = getattr(a, name), getattr(b, name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)
        elif name == "treatments":
            pd.testing.assert_frame_equal(left.frame, right.frame)
        else:
            assert left == right


@given(datasets())
def test_write_and_read_back(tmp_path_factory, dataset):
    folder = tmp_path_factory.mktemp("d")
    write_dataset(folder / "a.h5", dataset)
    write_dataset(folder / "b.h5", dataset)
    assert (folder / "a.h5").read_bytes() == (folder / "b.h5").read_bytes()
    same(read_dataset(folder / "a.h5"), dataset)
    assert dataset.length == 10


def example(value):
    targets = np.full((30, 2), value)
    return promoter_dataset(np.zeros((30, 40), np.uint8), targets, named_treatments(["a", "b"]), np.zeros(30))


def test_other_files_and_versions_are_refused(tmp_path):
    path = tmp_path / "x.dataset.h5"
    write_dataset(path, example(0))
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = PROMOTER_DATASET.version + 1
    with pytest.raises(FormatError, match="has format version 3, this bioattn reads 2; make"):
        read_dataset(path)
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file.attrs["format"] = "bioattn-attention"
    with pytest.raises(FormatError, match=r"is no promoter dataset \(its format is 'bioattn-attention'"):
        read_dataset(other)
    other.write_text("gene\tx\n")
    with pytest.raises(FormatError, match="is not an HDF5 file; a promoter dataset made by"):
        read_dataset(other)
    with pytest.raises(BioattnError, match="no such file"):
        read_dataset(tmp_path / "none.h5")
    with pytest.raises(BioattnError, match="is a folder"):
        read_dataset(tmp_path)


def test_responses_that_training_cannot_square_are_refused():
    with pytest.raises(BioattnError, match=r"responses reach 3e\+38"):
        example(3e38)
