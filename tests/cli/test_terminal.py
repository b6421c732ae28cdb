"""Names in messages can do nothing to a terminal; inputs through pipes give the same bytes as files."""

import io
import json
import logging
import os
import re
import sys
import threading
from pathlib import Path

import pytest
import typer

from bioattn.errors import BioattnError
from bioattn.text import printable
from bioattn_cli import reporting
from bioattn_cli.command import with_report
from bioattn_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
EVIL = "gene\x1b[2J\x9b31m\u202ekrad\x07\r"


class Terminal(io.StringIO):
    """A terminal of which one sees what reaches it."""

    def isatty(self):
        return True

    @property
    def encoding(self):
        return "utf-8"


def test_errors_and_messages_show_escapes_instead_of_sending_them(tmp_path, capsys):
    path = tmp_path / "x.fa"
    path.write_text(f">{EVIL}\nACGT*\n")
    assert main(["validate", str(tmp_path / f"no{EVIL}such")]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b[2J" in said
    handler = reporting.Messages(reporting.LogFormat.TEXT)
    handler.emit(logging.LogRecord("bioattn", logging.WARNING, "", 0, "gene %s", (EVIL,), None))
    assert capsys.readouterr().err == "warning: gene " + printable(EVIL) + "\n"


def lines_of(shown):
    """What is left on a terminal: a line that is cleared and written again counts once."""
    assert not re.search(r"\x1b\[(?!2K|1A|\?25[lh]|[0-9;]*m)", shown)
    lines, row = [""], 0
    for piece in re.findall(r"\x1b\[2K|\x1b\[1A|\x1b\[[?0-9;]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", shown):
        if piece == "\n":
            row += 1
            lines[row:] = lines[row:] or [""]
        elif piece == "\x1b[1A":
            row -= 1
        elif piece == "\x1b[2K":
            lines[row] = ""
        elif not piece.startswith(("\x1b", "\r")):
            lines[row] += piece
    return [line for line in lines if line]


def test_messages_and_errors_stand_on_lines_of_their_own_beside_a_bar(monkeypatch):
    """A command that fails in the middle of its work; `Terminal` stands for stdout and stderr."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("sys.stdout", terminal)
    long = "a sentence about [bold] things that is longer than the terminal is wide, " * 2
    app = typer.Typer(rich_markup_mode=None)

    def work(reporter):
        progress = reporter.progress
        progress.begin("working", 10)
        progress.advance(3, loss=0.5)
        reporter.say(long)
        progress.advance()
        reporter.warn("mind this")
        assert "working" in lines_of(terminal.getvalue())[-1]
        raise BioattnError("it broke")

    app.command()(with_report(work))
    with pytest.raises(BioattnError):
        app(args=[])
    assert lines_of(terminal.getvalue()) == [long, "warning: mind this"]
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex(
        "\x1b[?25l"
    )  # the cursor is back


@pytest.mark.parametrize("arguments", [(), ("-q",), ("--log-format", "json")])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(arguments, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(reporting, "PLAIN_INTERVAL_SECONDS", 0.0)
    app = typer.Typer(rich_markup_mode=None)

    def work(reporter):
        progress = reporter.progress
        progress.begin("working", 1000)
        progress.advance(1000, loss=0.5)
        progress.end()

    app.command()(with_report(work))
    shown = {}
    for name in ("dumb", "xterm"):
        monkeypatch.setenv("TERM", name)
        app(args=list(arguments), standalone_mode=False)
        shown[name] = terminal.getvalue()
        terminal.truncate(0)
        terminal.seek(0)
    line = "working: 1,000/1,000 loss 0.5"
    if not arguments:
        assert shown["dumb"] == line + "\n"
        assert "\x1b" in shown["xterm"]
    elif arguments == ("-q",):
        assert shown == {"dumb": "", "xterm": ""}
    else:
        assert [json.loads(text)["event"] for text in shown.values()] == [line, line]


@pytest.mark.parametrize("words", [["--log-format", "json"], ["--log-format=json"]])
def test_every_line_is_json_where_json_is_asked_for(words, tmp_path, capsys):
    """Messages, failures and wrong usage; data stay as they are."""
    genome, annotation = ROOT / "data/tiny/genome.fa", ROOT / "data/tiny/annotation.gff3"
    prepare = ["prepare", "promoters", str(genome), str(annotation), "-o", str(tmp_path / "p.fa"), *words]
    assert main(prepare) == 0
    assert main([*prepare, "--id-attribute", "none"]) == 1
    assert main([*prepare, "--nonsense"]) == 2
    assert main(["inspect", str(tmp_path / f"no{EVIL}such"), *words]) == 1
    assert main(["inspect", *words, *words[:-1], words[-1].replace("json", "xml")]) == 2
    captured = capsys.readouterr()
    *json_lines, last = captured.err.splitlines()
    assert last.startswith("bioattn: error: ")
    lines = [json.loads(line) for line in json_lines]
    assert all(set(line) == {"time", "level", "event"} for line in lines)
    assert [line["level"] for line in lines].count("error") == 3
    assert lines[-1]["event"].endswith(f"no{EVIL}such: no such file or folder")
    assert captured.out == ""


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


def test_messages_name_what_was_typed(files, piped, monkeypatch, capsys):
    Path("genes.gff3").write_text("chr1\tx\tgene\t0\t400\t.\t+\t.\tID=a\n")
    pipe = piped("genes.gff3")
    assert main(["prepare", "promoters", "genome.fa", pipe, "-o", "b.fa", *WINDOW]) == 1
    assert f"error: {pipe}:1: start 0" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["prepare", "promoters", "genome.fa", "-", "-o", "b.fa", *WINDOW]) == 1
    assert "error: standard input: holds no annotation row" in capsys.readouterr().err
    assert main(["prepare", "promoters", "-", "-", "-o", "b.fa", *WINDOW]) == 2
