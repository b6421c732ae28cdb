"""`--genes`: ids and files of ids."""

import re
from pathlib import Path

import pytest

from bioattn.errors import BioattnError
from bioattn.promoters.gene_choice import choose_genes

KNOWN = ["YAL001C", "YAL002W", "YAL003W", "YAL005C"]


def test_ids_and_files_mix_in_the_order_given(tmp_path: Path) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text("# heat shock\nYAL005C\tSSA1\n\nYAL001C\r\n")
    assert choose_genes(["YAL003W", str(listed), "YAL005C"], KNOWN, Path("a.h5")) == [
        "YAL003W",
        "YAL005C",
        "YAL001C",
    ]


def test_a_gene_goes_before_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("YAL001C").write_text("YAL002W\n")
    assert choose_genes(["YAL001C"], KNOWN, Path("a.h5")) == ["YAL001C"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("YAL001C\nQ0010\n", ":2: gene 'Q0010' is not in a.h5"), ("# nothing\n", "holds no gene id")],
)
def test_files_that_do_not_fit(tmp_path: Path, text: str, sentence: str) -> None:
    listed = tmp_path / "listed.txt"
    listed.write_text(text)
    with pytest.raises(BioattnError, match=re.escape(sentence)):
        choose_genes([str(listed)], KNOWN, Path("a.h5"))


def test_what_no_file_can_be_called_is_no_file() -> None:
    with pytest.raises(BioattnError, match=re.escape("neither a gene of a.h5 nor a file")):
        choose_genes(["x" * 5000], KNOWN, Path("a.h5"))


def test_what_is_neither_is_named() -> None:
    with pytest.raises(
        BioattnError, match=re.escape("--genes 'SSA1': neither a gene of a.h5 nor a file of gene ids")
    ):
        choose_genes(["SSA1"], KNOWN, Path("a.h5"))
