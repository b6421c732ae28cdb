"""The yeast benchmark's inputs on the real tables, and the settings of its models."""

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from bioattn.io.settings import build
from bioattn.models.promoter.config import PromoterModelConfig, TrainingConfig


@pytest.fixture
def yeast(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import yeast

    return yeast


@pytest.fixture
def yeast_data(yeast):
    import yeast_data

    return yeast_data


@pytest.mark.shared
def test_controls_are_dropped_and_only_their_own_series_corrected(yeast_data, shared):
    yeast = shared / "data" / "yeast"
    raw = pd.read_csv(yeast / "gasch2000_log2ratio.tsv.gz", sep="\t", index_col=0)
    responses, features = yeast_data.gasch_responses(yeast), yeast_data.treatment_features()
    assert responses.shape == (6152, 168)
    assert list(responses) == list(features.index)
    conditions = pd.read_csv(yeast / "gasch2000_conditions.tsv", sep="\t", index_col=0).loc[features.index]
    assert features["group"].equals(conditions["group"])
    assert features["minutes"].equals(conditions["minutes"])
    assert features["group"].nunique() == 35
    gene = "YAL002W"
    zero = raw.loc[gene, [f"Heat.Shock.000.minutes{end}" for end in (".hs.2", "..hs.2", "..hs.2.1")]].mean()
    array = "Heat.Shock.015.minutes..hs.2"
    assert responses.loc[gene, array] == pytest.approx(raw.loc[gene, array] - zero)
    array = "dtt.060.min.dtt.2"
    assert responses.loc[gene, array] == pytest.approx(
        raw.loc[gene, array] - raw.loc[gene, "dtt.000.min..dtt.2"], nan_ok=True
    )
    changed = [name for name in responses if not responses[name].equals(raw[name])]
    assert len(changed) == 10
    assert all("hs.2" in name or "dtt.2" in name for name in changed)


@pytest.mark.parametrize(("kind", "number"), [("time", 27), ("group", 18)])
def test_held_out_treatments_can_be_described_by_what_is_trained_on(yeast_data, kind, number):
    features = yeast_data.treatment_features()
    held_out = features["held_out"] == kind
    assert held_out.sum() == number
    for column in ("agent", "strain", "osmotic", "carbon"):
        assert set(features.loc[held_out, column]) <= set(features.loc[~held_out, column])


def test_neural_rows_build_from_the_settings_files(yeast):
    rows = {name: row.tables() for name, row in yeast.NEURAL_ROWS.items()}
    shapes = {
        name: build(PromoterModelConfig, {**tables["model"], "length": 600}, name)
        for name, tables in rows.items()
    }
    training = {name: build(TrainingConfig, tables["training"], name) for name, tables in rows.items()}
    assert (shapes["cross"].stem, shapes["cross-kmer"].stem) == ("both", "kmer")
    assert training["cross"].warm_start
    for control in ("shared", "position", "uniform"):
        assert shapes[f"cross-{control}"] == dataclasses.replace(shapes["cross"], attention_query=control)
        assert training[f"cross-{control}"] == training["cross"]
    assert shapes["cross-conv"].stem == "conv"
    assert not training["concat"].warm_start
