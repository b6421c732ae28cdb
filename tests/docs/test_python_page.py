"""The lines that docs/python.md tells people to type, in their order."""

import re
from pathlib import Path

import pandas as pd

from bioattn.interpret.position_maps import upsample
from tests.docs.conftest import run_python

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_page(tmp_path, monkeypatch, run_bash):
    monkeypatch.chdir(tmp_path)
    code = ""
    for language, lines in re.findall(r"```(bash|python)\n(.*?)```", PAGE, flags=re.DOTALL):
        if language == "bash":
            run_bash(lines, tmp_path)
        else:
            code += lines
    assert code.count("\n") > 20
    run_bash(
        "bioattn export attention model promoters.fa -o attention.h5\n"
        "bioattn explain attribution model promoters.fa -o attribution.h5 --genes G007",
        tmp_path,
    )
    names = run_python(code)
    assert names["table"].shape == (300, 3)
    assert names["change"].loc["mutant", "treatment2"] != 0
    profiles, attention = names["profiles"], names["attention"]
    weights = attention.weights("promoter.cross.0", gene="G007", treatment="treatment1").mean(axis=0)
    edges = attention.sites["promoter.cross.0"].key_edges
    profile = upsample(weights, edges, 200, "gaussian")
    assert int(names["best"]) == profile.argmax() - 200
    assert profiles.shape == (300, 2, 200)
    assert names["series"].unstack("key").shape == (2, names["weights"].sizes["key"])
    pd.testing.assert_index_equal(names["contacts"].columns[:2], pd.Index(["column_i", "column_j"]))
    assert names["residues"].dims == ("query", "key")
    assert len(names["pairs"]) == 3
