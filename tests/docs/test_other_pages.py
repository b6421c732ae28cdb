"""Every page: its commands parse, its options, files and links exist."""

import re
import subprocess

import numpy as np
import pandas as pd
import pytest

from bioattn.formats.rr import write_rr
from bioattn_cli.program import program
from tests.docs.conftest import PAGES, ROOT, blocks, command_lines, page_text, run_python, snippets


def test_named_files_exist():
    named = re.findall(r"`((?:bioattn|cli|tests)/[\w/]+\.py)`", page_text("architecture"))
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_drawing_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    truth = pd.read_csv(ROOT / "data" / "families" / "contacts" / "simulated000000.tsv", sep="\t")
    scores = np.zeros((58, 58))
    scores[truth["column_i"] - 1, truth["column_j"] - 1] = 0.9
    (tmp_path / "family").mkdir()
    (tmp_path / "family" / "scores.json").write_text("{}")
    write_rr(tmp_path / "family" / "contacts.rr", "A" * 58, scores + scores.T, target="family", method=[])
    (code,) = snippets("figures")
    run_python(code)
    assert (tmp_path / "contacts.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_scripts_parse_and_options_exist(page):
    for block in blocks(page):
        done = subprocess.run(["bash", "-n"], input=block.code, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
    for words in command_lines(page):
        command = program()
        places = words[1:]
        while hasattr(command, "commands") and not places[0].startswith("-"):
            command = command.commands[places.pop(0)]
        known = {"--help", "--install-completion"}
        for parameter in command.params:
            known |= {*parameter.opts, *parameter.secondary_opts}
        for word in places:
            if word.startswith("-") and len(word) > 1:
                assert word.partition("=")[0] in known, words
            elif word.startswith("data/") and "…" not in word:
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target, heading in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if target.startswith("http"):
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading and linked.suffix == ".md":
            assert heading in headings(linked), f"{target}#{heading}"


def headings(page):
    """The names by which links find the headings of a page, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).strip().lower() for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}
