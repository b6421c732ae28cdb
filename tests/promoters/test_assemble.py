"""Building datasets: matrices against pandas, labels, padding, scaling, the audit."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.choices import TEST, TRAIN
from bioattn.errors import BioattnError
from bioattn.promoters.assemble import build_dataset
from bioattn.promoters.choices import DatasetSettings, Direction, Split, Standardize
from bioattn.promoters.promoter_fasta import Promoter
from bioattn.promoters.responses import Responses
from bioattn.promoters.treatments import TreatmentTable

RANDOM = (Split.RANDOM,)


def promoters(names, length=50):
    codes = np.random.default_rng(0).integers(0, 4, (len(names), length)).astype(np.uint8)
    return [
        Promoter(name, f"chr{i % 6}", i * 1000, i * 1000 + length, "+", 0, codes[i])
        for i, name in enumerate(names)
    ]


def responses(frame, padj=None):
    return Responses(
        gene_ids=list(frame.index),
        treatments=list(frame.columns),
        values=frame.to_numpy(dtype=np.float64),
        padj=padj,
        duplicated={},
    )


def random_frame(genes=60, treatments=4, seed=0):
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(genes, treatments))
    values[generator.random(values.shape) < 0.1] = np.nan
    return pd.DataFrame(values, [f"g{i}" for i in range(genes)], [f"t{i}" for i in range(treatments)])


def table_of(frame, **columns):
    features = pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in columns.items()})
    features.index = pd.Index(list(frame.columns), dtype=object, name="sample")
    return TreatmentTable(features)


def rows(audit, kind, status):
    return {row.name: row.reason for row in audit if (row.kind, row.status) == (kind, status)}


def test_order_is_that_of_the_promoters_and_everything_is_in_the_audit():
    frame = random_frame()
    frame.loc["g5"] = np.nan
    frame["empty"] = np.nan
    dataset, audit = build_dataset(
        promoters([f"g{i}" for i in range(59, -1, -1)] + ["alone"]),
        responses(pd.concat([frame, pd.DataFrame(1.0, ["phage1"], frame.columns)])),
        None,
        DatasetSettings(splits=RANDOM),
    )
    assert dataset.gene_ids == [f"g{i}" for i in range(59, -1, -1) if i != 5]
    expected = frame.drop(columns="empty").loc[dataset.gene_ids].to_numpy(dtype=np.float32)
    np.testing.assert_array_equal(dataset.targets, expected)
    assert rows(audit, "gene", "dropped") == {
        "g5": "no response",
        "alone": "no response",
        "phage1": "no promoter of this name",
    }
    assert rows(audit, "treatment", "dropped") == {"empty": "no value"}
    kept = {row.name: row for row in audit if (row.kind, row.status) == ("gene", "kept")}
    assert {row.split for row in kept.values()} == {"train", "validation", "test"}
    assert kept["g7"].values == int(frame.loc["g7"].notna().sum())


@given(st.lists(st.sampled_from(["x", "y", "z"]), min_size=4, max_size=4), st.integers(0, 99))
def test_replicates_are_averaged_as_pandas_does(groups, seed):
    frame = random_frame(40, 4, seed)
    table = table_of(frame, cells=groups, who=["a", "a", "b", "b"])
    dataset, audit = build_dataset(
        promoters(frame.index),
        responses(frame),
        table,
        DatasetSettings(splits=RANDOM, replicate_column="cells"),
    )
    expected = frame.T.groupby(groups, sort=False).mean().T
    assert dataset.treatments.names == list(expected.columns)
    np.testing.assert_allclose(dataset.targets, expected.loc[dataset.gene_ids], rtol=1e-5, atol=1e-6)
    assert len(rows(audit, "sample", "averaged")) == 4


PADJ = np.array([[0.01, 0.5, np.nan, 0.01]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1, 1, 0, 1]),
        ({"threshold": 2.0}, [0, 0, 0, 1]),
        ({"direction": Direction.UP}, [1, 0, 0, 1]),
        ({"direction": Direction.DOWN}, [0, 1, 0, 0]),
        ({"max_padj": 0.05}, [1, 0, np.nan, 1]),  # not tested: missing, not 0
        ({"max_padj": 0.05, "direction": Direction.DOWN}, [0, 0, np.nan, 0]),
    ],
)
def test_labels(options, expected):
    frame = random_frame(40)
    frame.iloc[0] = [1.0, -1.5, 0.2, 2.5]
    padj = np.concatenate([PADJ, np.full((39, 4), 0.5)])
    dataset, _ = build_dataset(
        promoters(frame.index),
        responses(frame, padj),
        None,
        DatasetSettings(task="binary", splits=RANDOM, **options),
    )
    np.testing.assert_array_equal(dataset.targets[0], np.array(expected, dtype=np.float32))
    missing = np.isnan(dataset.targets[1:])
    np.testing.assert_array_equal(missing, frame.loc[dataset.gene_ids[1:]].isna())


def test_max_padj_makes_regression_values_missing():
    frame = random_frame(40).fillna(0.5)
    padj = np.full((40, 4), 0.01)
    padj[3, 1], padj[4] = 0.2, 0.9
    dataset, audit = build_dataset(
        promoters(frame.index), responses(frame, padj), None, DatasetSettings(splits=RANDOM, max_padj=0.05)
    )
    assert "g4" not in dataset.gene_ids
    assert rows(audit, "gene", "dropped") == {"g4": "no value left by --max-padj"}
    assert np.argwhere(np.isnan(dataset.targets)).tolist() == [[3, 1]]


def test_standardised_targets_can_be_turned_back():
    frame = random_frame(80)
    frame["flat"] = 3.0
    plain, scaled = (
        build_dataset(
            promoters(frame.index),
            responses(frame),
            None,
            DatasetSettings(splits=RANDOM, standardize=how),
        )[0]
        for how in (Standardize.NONE, Standardize.TREATMENT)
    )
    training = scaled.targets[scaled.gene_split == TRAIN, :4]
    np.testing.assert_allclose(np.nanmean(training, axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(np.nanstd(training, axis=0), 1, atol=1e-6)
    back = scaled.targets * scaled.target_sd + scaled.target_mean
    np.testing.assert_allclose(back, plain.targets, atol=1e-5)
    assert scaled.target_sd[4] == 1


def test_promoters_of_padding_are_counted_and_refused_when_there_are_many(caplog):
    frame = random_frame(40)
    made = promoters(frame.index, length=200)

    def build(number, bases):
        cut = [promoter._replace(codes=promoter.codes[-bases:]) for promoter in made[:number]]
        build_dataset(cut + made[number:], responses(frame), None, DatasetSettings(splits=RANDOM))

    for bases, counted in ((19, True), (20, False)):
        caplog.clear()
        build(4, bases)
        assert ("4 of 40 promoters have bases in less than 10 % of the 200" in caplog.text) == counted
    with pytest.raises(BioattnError, match=r"5 of 40 promoters have bases .* more than 10 % is refused"):
        build(5, 4)


def test_gene_and_treatment_splits_combine():
    frame = random_frame(60, 6)
    table = table_of(frame, group=["a", "a", "b", "b", "c", "c"])
    asked = DatasetSettings(
        splits=(Split.CHROMOSOME, Split.TREATMENT), holdouts=("test=chr1 validation=chr2", "test=group:b")
    )
    dataset = build_dataset(promoters(frame.index), responses(frame), table, asked)[0]
    assert dataset.treatment_split.tolist() == [0, 0, 2, 2, 0, 0]
    assert {c for c, s in zip(dataset.chrom, dataset.gene_split, strict=True) if s == TEST} == {"chr1"}
