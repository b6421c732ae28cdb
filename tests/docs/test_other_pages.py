"""Small pages: what they name is there, their numbers are those of the code, and links lead somewhere."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bioattn import __version__
from bioattn.formats.rr import write_rr
from bioattn.interpret.known_motifs.enrichment import COLUMNS, LEAST_SHUFFLED
from bioattn.interpret.known_motifs.expected_motifs import (
    DIRECTIONS,
    LEAST_PROMOTERS,
    LEAST_SHUFFLED_PROMOTERS,
    parse_consensus,
)
from bioattn.interpret.known_motifs.site_differences import POSITION_STEP
from bioattn.io import unpacking
from bioattn.report.multiqc import SECTIONS
from bioattn.system.doctor.diagnosis import Status
from bioattn_cli.main import main
from bioattn_cli.program import program
from tests.docs.conftest import PAGES, ROOT, blocks, command_lines, page_text, run_python, snippets

SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_doctor_says_what_the_page_says(tmp_path, capsys):
    assert main(["doctor", str(tmp_path)]) == 0
    titles = re.findall(r"^([A-Z][a-z ]+)$", capsys.readouterr().out, re.MULTILINE)
    topics = re.findall(r"^- \*\*(\w+)\*\*", page_text("setup"), re.MULTILINE)
    assert sorted(title.split()[-1].lower() for title in titles) == sorted(topics)
    for verdict in Status:
        assert f"`{verdict}`" in page_text("setup")


def test_the_sections_of_multiqc_are_listed():
    page = page_text("workflows/multiqc")
    for section in SECTIONS.values():
        name = section.get("section_name", "General Statistics")
        assert re.sub(" of (promoter|MSA/pair) models", "", name) in page
    version = re.search(r"multiqc==([\d.]+)", (ROOT / "Makefile").read_text())[1]
    assert f"MultiQC {version}" in page


def test_the_image_is_named_as_it_is_built():
    for page in ("workflows/nextflow", "workflows/docker"):
        assert f"bioattn:{__version__}" in page_text(page)
    for argument in re.findall(r"--build-arg (\w+)=", page_text("workflows/docker")):
        assert f"ARG {argument}=" in (ROOT / "Dockerfile").read_text()


PROMISES = [line for line in SECURITY.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text[2:40])
def test_every_promise_of_security_has_a_test(promise):
    tests = re.findall(r"`(tests/[^`]+)`", promise.rsplit("|", 2)[1])
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8"), test


def test_security_names_the_limits_as_they_are():
    assert unpacking.ALWAYS_ALLOWED == 1 << 30
    assert f"1 GiB or {unpacking.MOST_TIMES} times their size" in SECURITY
    assert f"`{unpacking.LIMIT_VARIABLE}` (bytes)" in SECURITY


def test_known_motifs():
    """Every column, direction and kind of pattern is explained, with the numbers of the code."""
    page = page_text("known-motifs")
    assert [name for name in (*COLUMNS, *DIRECTIONS) if f"`{name}`" not in page] == []
    row = next(line for line in page.splitlines() if line.startswith("| `consensus`"))
    shown = [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", row)[1:]]
    assert len(shown) == 4
    assert all(parse_consensus(text) for text in shown)
    assert parse_consensus("TGAAAAATTT-like") is None
    text = " ".join(page.split())
    assert f"the same {POSITION_STEP} bases" in text
    assert f"fewer than {LEAST_PROMOTERS} promoters are not scored" in text
    assert f"sites in {LEAST_SHUFFLED_PROMOTERS} promoters or more; fewer than {LEAST_SHUFFLED}" in text


def test_every_sharded_command_is_listed():
    """The options are where the page says that they are, and nowhere else."""

    def sharded(command, words):
        if hasattr(command, "commands"):
            return {name for word, each in command.commands.items() for name in sharded(each, (*words, word))}
        has = any("--shard" in parameter.opts for parameter in command.params)
        return {" ".join(words)} if has else set()

    page = page_text("sharding")
    table = page[page.index("| command |") : page.index("Give every shard")]
    assert sharded(program(), ()) == set(re.findall(r"`((?:run|generate|export|explain) \w+)", table))


def test_every_plot_and_its_picture_is_there():
    lines = command_lines(ROOT / "docs" / "figures.md")
    plots = [words for words in lines if words[1] == "plot"]
    assert {words[2] for words in plots} == set(program().commands["plot"].commands)
    pictures = re.findall(r"!\[[^\]]+\]\((figures/[^)]+)\)", page_text("figures"))
    assert {Path(picture).name for picture in pictures} == {words[words.index("-o") + 1] for words in plots}
    assert sum((ROOT / "docs" / picture).stat().st_size for picture in pictures) < 1_500_000


def test_drawing_in_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    truth = pd.read_csv(ROOT / "data" / "families" / "contacts" / "simulated000000.tsv", sep="\t")
    scores = np.zeros((58, 58))
    scores[truth["column_i"] - 1, truth["column_j"] - 1] = 0.9
    (tmp_path / "family").mkdir()
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
