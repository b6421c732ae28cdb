"""Sentences made from figures: a baseline that wins is named first, and what nobody looked at is said."""

import json
import math

import numpy as np
import pytest

from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.checks.record import read_check
from bioattn.errors import FormatError
from bioattn.formats.meme import Motif, write_meme
from bioattn.interpret.motifs.motif_folder import read_motif_export
from bioattn.models.evaluation import Evaluation, Row
from bioattn.report.findings import (
    accuracy_findings,
    check_findings,
    comparison_findings,
    headline,
    motif_findings,
)
from bioattn.store.training_record import Comparison
from tests.making import write_check


@pytest.mark.parametrize(
    ("simple", "gain", "tone", "says"),
    [
        (0.3, (0.1, 0.3), "good", "median r over treatments 0.500 [0.400, 0.600]; the best simple model"),
        (
            0.6,
            (-0.2, -0.01),
            "bad",
            "A simple model wins: on test genes 6-mer ridge reaches 0.600, this model a",
        ),
        (0.6, (-0.2, 0.1), "bad", "No clear gain over a simple model"),
        (0.4, (-0.1, 0.3), "bad", "No clear gain over a simple model"),
        (0.5, None, "bad", "No network: --keep-best kept the best simple model. On test genes the model"),
        (None, None, "open", "No simple model was fitted beside it"),
    ],
)
def test_the_model_is_held_against_the_best_simple_model(simple, gain, tone, says):
    figures = {"this model": 0.5} | ({} if simple is None else {"6-mer ridge (of 300 bp)": simple})
    given = Evaluation(
        task="regression",
        rows=[Row(name=name, cells="test genes", figures={"pearson": r}) for name, r in figures.items()],
        per_treatment={"a": {"pearson": 0.5}},
        beside=None if gain is None else Comparison("test genes", "r", 0.5, "6-mer ridge", simple, gain),
        simple_model="" if simple is None else "6-mer ridge",
        interval=(0.4, 0.6),
    )
    first = next(accuracy_findings(given, True))
    assert (first.tone, says in first.text) == (tone, True), first.text
    assert headline([first]) == (first.text.partition(":")[0].lower() if tone == "bad" else "")


@pytest.mark.parametrize(
    ("code", "tone"),
    [
        ("used-treatment-specific", "good"),
        ("faithful", "open"),
        ("faithful-treatment-specific", "open"),
        ("used-not-treatment-specific", "open"),
        ("not-used", "bad"),
        ("unfaithful", "bad"),
    ],
)
def test_verdicts(tmp_path, code, tone):
    measures = [
        Measure(name=name, label=name, value=value, passed=passed, sentence="")
        for name, value, passed in (("a", 1, True), ("b", math.nan, None), ("c", 0.5, False))
    ]
    said = Verdict(Code(code), "So it is.", ["One seed only."], [])
    path = write_check(tmp_path / "check.json", verdict=said, measures=measures)
    verdict, caveat = check_findings(read_check(path), asked=True)
    assert verdict.tone == tone
    # Until controls have been retrained no verdict is a good one.
    provisional = "Provisional, until controls have been retrained (explain check --controls): "
    begin = provisional if code.startswith("faithful") else ""
    assert verdict.text == f"{begin}So it is. 1 of 2 tests passed."
    assert verdict.leads
    assert (caveat.tone, caveat.text) == ("open", "But: One seed only.")
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": "2.0"}))
    with pytest.raises(FormatError, match="is of another version"):
        read_check(path)


def test_only_sure_motifs_count(tmp_path):
    columns = "motif\tsource\tconsensus\tseqlets\tinformation_bits\tmatch\tmatch_name\tmatch_q_value\n"
    found = "m1\tattention\tA\t1\t1\tGcn4\t\t0.01\nm2\tattention\tA\t1\t1\tHsf1\t\t0.9\n"
    filters = "".join(f"f{number}\tfilter\tA\t\t\t\t\t\n" for number in range(3))
    (tmp_path / "motifs.tsv").write_text(columns + found + filters)
    gains = "heat\tm1\tmean\t1.2\t0.01\ncold\tm1\tmean\t9\t0.5\ndark\tm1\tmean\t0.4\t0.001\n"
    (tmp_path / "treatments.tsv").write_text(f"treatment\tmotif\treference\tratio\tq_value\n{gains}")
    write_meme(tmp_path / "motifs.meme", [Motif(name="m1", probabilities=np.full((3, 4), 0.25))])
    (tmp_path / "motifs.json").write_text("{}")
    results = read_motif_export(tmp_path)
    assert [each.treatment for each in results.gains("m1")] == ["heat"]
    (only,) = motif_findings(results)
    resembling = "1 resemble a motif of the database (q ≤ 0.05): Gcn4."
    assert only.text.startswith(f"2 motifs (2 from attention). {resembling}")
    assert "3 filters of the first layer" in only.text
    assert "In 1 of 3 treatments a motif gains attention" in only.text
    assert "at most ×1.20, Gcn4 (m1) in heat" in only.text


@pytest.mark.parametrize(
    ("ours", "tone", "says"),
    [
        (0.3, "bad", "A simple method wins: on test families mean-field DCA reaches 0.400, this model a"),
        (0.5, "good", "On test families the model reaches a precision of the L likeliest contacts of 0.500"),
    ],
)
def test_a_model_of_any_family_is_held_against_simple_methods(tmp_path, ours, tone, says):
    record = {"comparison": Comparison("test families", "P@L", ours, "mean-field DCA", 0.4).to_json()}
    (only,) = comparison_findings(tmp_path, record)
    assert (only.tone, says in only.text) == (tone, True), only.text
    assert headline([only]) == ("a simple method wins" if tone == "bad" else "")
    assert list(comparison_findings(tmp_path, {"comparison": None})) == []
    with pytest.raises(FormatError, match="comparison is incomplete"):
        list(comparison_findings(tmp_path, {"comparison": {}}))
