"""`inspect` and `validate` on alignments, prepared or not, and on their statistics."""

import json
from pathlib import Path

import pytest

from bioattn_cli.main import main

A3M = ">q/1-5 the query\nMKVLE\n>a\nMK-LEgg\n>b\n--V--\n"


@pytest.mark.parametrize(
    ("text", "rows", "columns", "first", "gaps", "inserted"),
    [
        (A3M, 3, 5, "q/1-5", "33.3 %", 2),
        ("# STOCKHOLM 1.0\nx MKVL\ny MK-L\n//\n", 2, 4, "x", "12.5 %", 0),
        ("CLUSTAL W (1.83)\n\nx      MKVL\ny      MKVL\n", 2, 4, "x", "0 %", 0),
    ],
)
def test_alignments(tmp_path: Path, capsys, text, rows, columns, first, gaps, inserted) -> None:
    path = tmp_path / "x.a3m"
    path.write_text(text)
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "kind": "alignment",
        "rows": rows,
        "columns": columns,
        "letters": "protein",
        "first_row": first,
        "gaps": gaps,
        "inserted_letters": inserted,
    }
    assert main(["validate", str(path)]) == 0


def test_an_alignment_of_dna_is_not_called_protein(tmp_path: Path, capsys) -> None:
    path = tmp_path / "x.aln"
    path.write_text("CLUSTAL W (1.83)\n\nx      ACGTACGTAC\ny      ACGTACG-AC\n")
    assert main(["inspect", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("x.aln: alignment\n")
    assert "  letters: DNA or RNA (models read proteins)\n" in said


def test_promoters_are_still_promoters(tmp_path: Path, capsys) -> None:
    path = tmp_path / "x.fa"
    path.write_text(">g chr1:0-12(+)\nACGTNRYKMSWA\n")
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "promoters"


def test_what_prepare_msa_writes(tmp_path: Path, capsys) -> None:
    source, output, stats = tmp_path / "in.a3m", tmp_path / "x.a3m.gz", tmp_path / "x.json"
    source.write_text(A3M)
    assert main(["prepare", "msa", str(source), "-o", str(output), "--stats", str(stats), "-q"]) == 0
    capsys.readouterr()
    for path, said in ((output, "alignment"), (stats, "statistics of a prepared alignment")):
        assert main(["inspect", str(path)]) == 0
        assert capsys.readouterr().out.startswith(f"{path.name}: {said}\n")
        assert main(["validate", str(path)]) == 0
        capsys.readouterr()
    stats.write_text('{"format": "bioattn-msa-statistics", "depth": 3}')
    assert main(["validate", str(stats)]) == 1
    assert "statistics of an alignment without query, columns, neff" in capsys.readouterr().out


def test_damaged_alignments(tmp_path: Path, capsys) -> None:
    path = tmp_path / "x.a3m"
    path.write_text(">q\nMKVLE\n>a\nMKV\n")
    assert main(["validate", str(path)]) == 1
    assert "equally long" in capsys.readouterr().out
