"""Curves over dose and time: parity with statsmodels, planted widths, and what cannot be smoothed."""

import json

import numpy as np
import pytest

from bioattn.interpret.choices import CurveSettings
from bioattn.interpret.response_curve import (
    chosen_width,
    kernel_weights,
    left_out,
    mean_error,
    nearest,
    read_series,
    smoothed,
)
from tests.making import bioattn


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_curves_are_those_of_statsmodels(dimensions, linear):
    regression = pytest.importorskip("statsmodels.nonparametric.kernel_regression")
    generator = np.random.default_rng(0)
    known, asked = generator.random((30, dimensions)), generator.random((7, dimensions))
    responses = generator.standard_normal((30, 2))
    width = np.array([0.3, 0.5][:dimensions])
    found = smoothed(kernel_weights(known, asked, width, linear=linear), responses)
    for gene in range(2):
        theirs = regression.KernelReg(
            responses[:, gene], known, "c" * dimensions, reg_type="ll" if linear else "lc", bw=width
        ).fit(asked)[0]
        np.testing.assert_allclose(found[:, gene], theirs, atol=1e-10)


def test_weights_far_from_all_points_and_of_genes_with_gaps():
    known = np.sort(np.random.default_rng(1).random((9, 1)), 0)
    far = kernel_weights(known, np.array([[1e4]]), np.array([0.01]), linear=True)
    np.testing.assert_allclose(far, [[0] * 8 + [1]])  # no line through one point
    with_gap = smoothed(np.array([[0.25, 0.75]]), np.array([[np.nan, 1.0], [4.0, 3.0]]))
    np.testing.assert_allclose(with_gap, [[4.0, 2.5]])


@pytest.fixture
def tables(tmp_path):
    """Two series of a wave in log time, with noise, and one treatment alone."""
    generator = np.random.default_rng(2)
    minutes = [1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120]
    names = [f"{series}{each}" for series in "ab" for each in minutes]
    phase = generator.random((50, 1)) * 6
    truth = np.sin(1.2 * np.log2(np.array(minutes + minutes)) + phase)
    noisy = truth + 0.3 * generator.standard_normal(truth.shape)
    lines = ["\t".join(["gene", *names, "alone"])]
    lines += ["\t".join([f"g{g}", *(f"{v:.5f}" for v in row), "0"]) for g, row in enumerate(noisy)]
    (tmp_path / "responses.tsv").write_text("\n".join(lines) + "\n")
    rows = [f"{name}\t{name[0]}\t{name[1:]}" for name in names]
    (tmp_path / "treatments.tsv").write_text(
        "\n".join(["t\tgroup\tminutes", *rows, "alone\tc\t7", "no\ta\t9\n"])
    )
    return tmp_path


def test_the_width_is_that_of_the_least_error(tables):
    settings = CurveSettings(along=("minutes",), series="group")
    series, genes, _, absent = read_series(tables / "responses.tsv", tables / "treatments.tsv", settings)
    assert ([each.name for each in series], len(genes), absent) == (["a", "b"], 50, ["no"])
    width = chosen_width(series, linear=False)
    error = mean_error(series, lambda each: left_out(each, width, linear=False))
    for factor in (0.3, 3):
        assert error < mean_error(series, lambda each, f=factor: left_out(each, width * f, linear=False))
    assert error < mean_error(series, nearest)
    one = series[0]
    others = np.arange(len(one.treatments)) != 4
    weights = np.exp(-0.5 * ((np.log2([8.0]) - one.places_ND[others, 0]) / width) ** 2)
    plain = weights @ one.responses_NG[others] / weights.sum()
    np.testing.assert_allclose(left_out(one, width, linear=False)[4], plain)


def test_the_command_and_its_figure(tables, capsys):
    pytest.importorskip("matplotlib")
    words = ("--along", "minutes", "--series", "group", "--genes", "g3", "--genes", "g1", "--local-linear")
    common = ("explain", "response-curve", tables / "responses.tsv", tables / "treatments.tsv")
    output = tables / "curves.json"
    assert bioattn(*common, *words, "-o", output, "--predictions", tables / "responses.tsv") == 0
    said = capsys.readouterr()
    assert said.out.startswith("left out\tRMSE\ncurve\t0.")
    assert "has no responses to 'no'" in said.err
    content = json.loads(output.read_text())
    first = content["series"][0]
    assert (content["genes"], first["treatments"][0], len(first["weights"])) == (["g3", "g1"], "a1", 40)
    np.testing.assert_allclose(
        np.array(first["weights"]) @ np.array(first["measured"]).T,
        np.array(first["measured_curve"]).T,
        atol=1e-4,
    )
    assert first["measured_curve"] == first["predicted_curve"]
    assert bioattn("plot", output, "-o", tables / "x.svg", "--show", "b") == 0
    assert bioattn("plot", output, "-o", tables / "x.svg", "--show", "q") == 1
    assert bioattn("inspect", output) == 0
    assert bioattn(*common, "--along", "dose", "-o", output) == 1


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["1 min", "2", "3 min"], "'b' has '2'"),
        (["1 min", "2 mM", "3 min"], "units that can be converted"),
        (["1 min", "soon", "3 min"], "'b' has 'soon'; a number with a unit is needed"),
        (["0", "2", "3"], "'a' has time = 0, which has no place on a logarithmic axis; give --offset"),
        (["-4 min", "2 min", "1 h"], "'a' has time = -4, which has no place"),
    ],
)
def test_what_has_no_place_on_an_axis(tmp_path, capsys, cells, sentence):
    (tmp_path / "r.tsv").write_text("gene\ta\tb\tc\ng\t1\t2\t3\n")
    rows = "".join(f"{name}\t{cell}\n" for name, cell in zip("abc", cells, strict=True))
    (tmp_path / "t.tsv").write_text(f"name\ttime\n{rows}")
    words = ("explain", "response-curve", tmp_path / "r.tsv", tmp_path / "t.tsv", "--along", "time")
    assert bioattn(*words, "-o", tmp_path / "c.json") == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()


def test_times_of_different_units_are_converted(tmp_path):
    (tmp_path / "r.tsv").write_text("gene\ta\tb\tc\ng\t1\t2\t3\n")
    (tmp_path / "t.tsv").write_text("name\ttime\na\t30 s\nb\t2 min\nc\t1 h\n")
    words = ("explain", "response-curve", tmp_path / "r.tsv", tmp_path / "t.tsv", "--along", "time")
    assert bioattn(*words, "-o", tmp_path / "c.json") == 0
    content = json.loads((tmp_path / "c.json").read_text())
    assert (content["units"], content["series"][0]["places"]) == (["min"], [[0.5], [2.0], [60.0]])
