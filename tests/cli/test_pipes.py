"""Inputs through pipes and standard input: the same bytes come out as from files."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from bioattn_cli.main import main

GENOME = ">chr1\n" + "ACGTTGCATT" * 100 + "\n"
GENES = "chr1\tx\tgene\t301\t400\t.\t+\t.\tID=a\nchr1\tx\tgene\t501\t600\t.\t-\t.\tID=b\n"
GENES += "chr1\tx\tgene\t701\t800\t.\t-\t.\tID=c\n"
RESPONSES = "gene\tlog2FoldChange\tpadj\na\t1\t0.1\nb\t2\t0.2\nc\t3\t0.3\n"
WINDOW = ("--upstream", "50", "--downstream", "10", "-q")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("BIOATTN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, text in (("genome.fa", GENOME), ("genes.gff3", GENES), ("heat.tsv", RESPONSES)):
        Path(name).write_text(text)
    assert main(["prepare", "promoters", "genome.fa", "genes.gff3", "-o", "a.fa", *WINDOW]) == 0
    return tmp_path


@pytest.fixture
def piped():
    """Make a pipe that gives the bytes of a file, as `<(cat FILE)` does; returns its name."""
    ends, writers = [], []

    def pipe(name):
        end, start = os.pipe()
        ends.append(end)

        def fill():
            with os.fdopen(start, "wb") as file:
                file.write(Path(name).read_bytes())

        writers.append(threading.Thread(target=fill))
        writers[-1].start()
        return f"/dev/fd/{end}"

    yield pipe
    for writer in writers:
        writer.join()
    for end in ends:
        os.close(end)


def test_pipes_give_what_files_give(files, piped, monkeypatch):
    words = ["prepare", "promoters", piped("genome.fa"), piped("genes.gff3"), "-o", "b.fa", *WINDOW]
    before = sorted(Path("cache").iterdir())
    assert main(words) == 0
    assert Path("b.fa").read_bytes() == Path("a.fa").read_bytes()
    assert sorted(Path("cache").iterdir()) == before  # no index of a genome that is gone
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GENES.encode())))
    assert main(["prepare", "promoters", "genome.fa", "-", "-o", "c.fa", *WINDOW]) == 0
    assert Path("c.fa").read_bytes() == Path("a.fa").read_bytes()
    assert not list(files.glob("bioattn-piped-*"))


def test_the_name_before_a_pipe_stays(files, piped):
    for responses, output in (("x=heat.tsv", "a.dataset.h5"), (f"x={piped('heat.tsv')}", "b.dataset.h5")):
        options = ("--split", "random", "-q")
        assert main(["prepare", "dataset", "a.fa", responses, "-o", output, *options]) == 0
    first, second = (Path(f"{name}.dataset.audit.tsv").read_text() for name in "ab")
    assert first == second


def test_messages_name_what_was_typed(files, piped, monkeypatch, capsys):
    Path("genes.gff3").write_text("chr1\tx\tgene\t0\t400\t.\t+\t.\tID=a\n")
    pipe = piped("genes.gff3")
    assert main(["prepare", "promoters", "genome.fa", pipe, "-o", "b.fa", *WINDOW]) == 1
    assert f"error: {pipe}:1: start 0" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["prepare", "promoters", "genome.fa", "-", "-o", "b.fa", *WINDOW]) == 1
    assert "error: standard input: holds no annotation row" in capsys.readouterr().err
    assert main(["prepare", "promoters", "-", "-", "-o", "b.fa", *WINDOW]) == 2
