"""Names from files cannot make a terminal do anything; what goes to a file or pipe is left as it is."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.wording import printable
from bioattn_cli import reporting
from bioattn_cli.main import main

EVIL = "gene\x1b[2J\x9b31m\u202ekrad\x07\r"


class Terminal(io.StringIO):
    """A terminal of which one sees what reaches it."""

    def isatty(self):
        return True

    @property
    def encoding(self):
        return "utf-8"


@given(st.text())
def test_printable_text_has_no_controls_and_keeps_the_rest(text):
    shown = printable(text)
    assert not any(
        (ord(letter) < 32 and letter not in "\n\t") or 127 <= ord(letter) < 160 for letter in shown
    )
    assert printable(shown) == shown
    if text.isprintable() and text.isascii():
        assert shown == text


def test_errors_and_messages_show_escapes_instead_of_sending_them(tmp_path, capsys):
    path = tmp_path / "x.fa"
    path.write_text(f">{EVIL}\nACGT*\n")
    assert main(["validate", str(tmp_path / f"no{EVIL}such")]) == 1
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert "\\x1b[2J" in said
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(reporting._TextFormatter())
    handler.emit(logging.LogRecord("bioattn", logging.WARNING, "", 0, "gene %s", (EVIL,), None))
    assert stream.getvalue() == "warning: gene " + printable(EVIL) + "\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_is_shown_names_and_a_pipe_gets_them(tmp_path, monkeypatch, terminal):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({EVIL: 1}))
    out = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    assert main(["inspect", str(path)]) == 0
    assert ("\u202ekrad" in out.getvalue()) != terminal
    assert ("\\x1b[2J" in out.getvalue()) == terminal
