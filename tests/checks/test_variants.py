"""Maps against measured effects of variants: statistics against SciPy and plain loops, then the command."""

import json

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr

from bioattn.checks.variants import (
    BLOCK,
    FLANK,
    SMOOTHING,
    block_spearman,
    other_truths,
    own_truths,
    read_variant_effects,
    smoothed_effects,
)
from bioattn.errors import FormatError
from tests.checks.test_check import check, made  # noqa: F401 - a fixture


def test_one_promoter_has_the_usual_spearman():
    rng = np.random.default_rng(0)
    first, truth = rng.normal(size=(1, 2, 50)), rng.normal(size=(1, 2, 50)).round(1)
    truth[0, 1, ::7] = np.nan
    found = block_spearman(first, truth, seed=0)
    assert found.shape == (1001, 2, 2)
    for t, u in np.ndindex(2, 2):
        assert found[0, t, u] == pytest.approx(
            spearmanr(first[0, t], truth[0, u], nan_policy="omit").statistic
        )
    assert 0.05 < found[1:, 0, 0].std() < 0.5


def test_levels_of_promoters_do_not_count():
    rng = np.random.default_rng(1)
    first, truth = rng.normal(size=(2, 3, 1, 40))
    level = np.array([0, 10, 20])[:, None, None]
    found = block_spearman(first + level, truth + level, seed=0)
    ranks = [np.stack([rankdata(x[0]) - 20.5 for x in track]).ravel() for track in (first, truth)]
    assert found[0, 0, 0] == pytest.approx(np.corrcoef(*ranks)[0, 1])


def test_own_truths_are_the_diagonal():
    correlations = np.array([[[0.9, 0.1, 0.3], [0.2, 0.6, np.nan], [0.5, 0.3, 0.3]]])
    assert own_truths(correlations)[0] == pytest.approx(0.6)
    np.testing.assert_allclose(other_truths(correlations)[0], [0.2, 0.2, 0.4])


def test_smoothed_effects_come_from_other_blocks():
    truth = np.random.default_rng(2).normal(size=(1, 1, 70))
    truth[0, 0, [3, 33]] = np.nan
    found = smoothed_effects(truth)
    for position in (0, 25, 39, 69):
        start = position // BLOCK * BLOCK
        total = weight = 0.0
        for other in range(70):
            if start - FLANK <= other < start + BLOCK + FLANK or np.isnan(truth[0, 0, other]):
                continue
            near = np.exp(-(((other - position) / SMOOTHING) ** 2) / 2)
            total, weight = total + near * truth[0, 0, other], weight + near
        assert found[0, 0, position] == pytest.approx(total / weight)


def write_table(path, header, *rows):
    path.write_text("\n".join("\t".join(map(str, row)) for row in (header, *rows)) + "\n")
    return path


def test_long_and_wide_tables_say_the_same(tmp_path, caplog):
    caplog.set_level("INFO", "bioattn")
    head = ("promoter", "position", "alternative")
    wide = write_table(
        tmp_path / "w.tsv", (*head, "salt", "heat"), ("p", 3, "a", 1, 2), ("q", 1, "T", "NA", 4)
    )
    long = write_table(
        tmp_path / "l.tsv",
        (*head, "treatment", "effect"),
        *(
            ("p", 3, "A", "salt", 1),
            ("p", 3, "A", "heat", 2),
            ("q", 1, "T", "heat", 4),
            ("q", 1, "T", "cold", 9),
        ),
    )
    for path in (wide, long):
        found = read_variant_effects(path, ["heat", "drought", "salt"])
        assert found.treatments == ["heat", "salt"]
        assert f"{path}: has no effects under 'drought'; the others are compared" in caplog.text
        assert {(each.position, each.base) for each in found.variants["p"]} == {(2, 0)}
        effects = np.array([each.effect_T for each in found.variants["p"]])
        assert np.nanmean(effects, axis=0).tolist() == [2, 1]
        ((effect, missing),) = [
            each.effect_T for each in found.variants["q"] if not np.isnan(each.effect_T).all()
        ]
        assert effect == 4
        assert np.isnan(missing)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (("p", 0, "A", 1), "v.tsv:2: position '0'"),
        (("p", 1, "AC", 1), "v.tsv:2: alternative 'AC'"),
        (("p", 1, "A", "high"), "v.tsv:2, 'heat'"),
    ],
)
def test_tables_that_are_refused(row, words, tmp_path):
    path = write_table(tmp_path / "v.tsv", ("promoter", "position", "alternative", "heat"), row)
    with pytest.raises(FormatError, match=words):
        read_variant_effects(path, ["heat"])


def test_a_table_of_other_treatments_is_refused(tmp_path):
    head = ("promoter", "position", "alternative", "heat")
    path = write_table(tmp_path / "v.tsv", head, ("p", 1, "A", 1))
    with pytest.raises(FormatError, match="under no treatment that is checked \\('cold'\\)"):
        read_variant_effects(path, ["cold"])


def test_effects_that_the_model_itself_predicts_are_found(made, tmp_path, capsys):  # noqa: F811
    """Effects from forward passes of the mutants: mutagenesis reproduces them, and none is another treatment's."""
    from bioattn.models.promoter.folder import load_promoter_model
    from tests.training.runs import CPU

    model = load_promoter_model(made / "model", CPU)
    names = list(model.treatments.names)
    rows, present = [], None
    for batch in model.read(made / "promoters.fa").batches(2):
        for name, codes in zip(batch.samples.ids, batch.codes, strict=True):
            mutants = np.repeat(codes[None], 2 * 30, axis=0)
            for number in range(60):
                position = number // 2 + 20
                mutants[number, position] = (codes[position] + 1 + number % 2) % 4
            with torch.inference_mode():
                before, *after = model.predictor().forward(
                    torch.from_numpy(np.vstack([codes[None], mutants]))
                )
            rows += [
                (name, n // 2 + 21, "ACGT"[mutants[n, n // 2 + 20]], *(after[n] - before).tolist())
                for n in range(60)
            ]
            present = (name, 21, "ACGT"[codes[20]], *before.tolist())
        break
    header = ("promoter", "position", "alternative", *names)
    table = write_table(tmp_path / "v.tsv", header, *rows)
    assert check(made, tmp_path / "check.json", "--variants", table) == 0
    content = json.loads((tmp_path / "check.json").read_text())
    values = {measure["name"]: measure["value"] for measure in content["measures"]}
    assert values["variants_mutagenesis"] > 0.999
    assert values["variants_map"] < 0.999
    assert values["variants_map"] - values["variants_smoothing"] == pytest.approx(
        values["variants_beyond_smoothing"], abs=1e-5
    )
    assert "variants: own treatment's effects" in capsys.readouterr().out
    write_table(tmp_path / "v.tsv", header, present)
    assert check(made, tmp_path / "no.json", "--variants", table) == 1
    assert "at position 21 already" in capsys.readouterr().err
    write_table(tmp_path / "v.tsv", ("promotor", *header[1:]), present)
    assert check(made, tmp_path / "no.json", "--variants", table) == 1
    assert "there is no column 'promoter'" in capsys.readouterr().err
