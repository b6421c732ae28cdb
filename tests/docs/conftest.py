"""Running what the pages say, and the program that writes their tables of settings.

Of a tutorial a block of ```sh is run, in the order of the page, in one folder beside `data`; the block of ```text
behind it must be found in what it printed: line by line in this order, numbers within a quarter of each other (or
0.1), and `…` standing for anything. A comment `<!-- test: not run, … -->` above a block says why it is not run.
"""

import importlib.util
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import made_once

ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")

PAGES = sorted(
    [
        *(
            page
            for folder in ("docs", "benchmarks", "workflows", "data")
            for page in (ROOT / folder).rglob("*.md")
        ),
        *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")),
    ]
)


def page_text(page):
    """A page of docs, by its path without the suffix."""
    return (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


COMMON_STEPS = 5
"""So many steps of promoters.md, from a new folder to the attention, are those of README.md."""


class Step(NamedTuple):
    mark: str
    commands: str
    printed: str


def steps(page):
    text = (ROOT / "docs" / "tutorials" / page).read_text(encoding="utf-8")
    found = re.findall(
        r"(?:<!-- test: ([^>]*) -->\n)?```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", text, flags=re.DOTALL
    )
    assert len(found) == len(re.findall(r"^```sh$", text, flags=re.MULTILINE))
    assert sum(bool(step[2]) for step in found) == len(re.findall(r"^```text$", text, flags=re.MULTILINE))
    return [Step(*step) for step in found]


def run_steps(chosen, folder, run_bash):
    """Run steps of a page; what each printed is compared with what the page says."""
    for step in chosen:
        if step.mark.startswith("not run"):
            continue
        printed = run_bash(step.commands, folder, everything=True)
        missing = not_printed(step.printed, printed)
        assert missing is None, f"the page says {missing!r}, but this was printed:\n{printed}"


def not_printed(expected, printed):
    """The first line of `expected` that `printed` lacks behind those before it."""
    lines = iter(printed.splitlines())
    for wanted in expected.splitlines():
        if wanted.strip() and wanted.strip() != "…" and not any(says(line, wanted) for line in lines):
            return wanted
    return None


def says(line, wanted):
    """Whether a line is the one wanted, but for white space and small changes of its numbers."""
    plain, pattern = " ".join(line.split()), " ".join(wanted.split())
    parts = NUMBER.split(pattern)
    expression = r"([-−+]?\d[\d,.]*(?:e[-+]?\d+)?)".join(re.escape(part).replace("…", ".*") for part in parts)
    match = re.fullmatch(expression, plain)
    return match is not None and all(
        close(number(ours), number(theirs))
        for ours, theirs in zip(match.groups(), NUMBER.findall(pattern), strict=True)
    )


def number(text):
    return float(text.replace("−", "-").replace(",", "").rstrip("."))


def close(one, other):
    return abs(one - other) <= max(0.1, 0.25 * abs(other))


class Block(NamedTuple):
    """A block of code, and what the comment above it says of testing it."""

    mark: str
    code: str


def blocks(page, language="(?:bash|sh)"):
    """The blocks of a page in a language."""
    found = re.findall(
        rf"(?:<!-- test: ([^>]*) -->\n)?```{language}\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL
    )
    return [Block(*block) for block in found]


def command_lines(page):
    """The words of every line of a page's shell blocks that calls `bioattn`."""
    code = "".join(block.code for block in blocks(page))
    lines = code.replace("\\\n", " ").splitlines()
    called = [line.strip() for line in lines if line.strip().startswith("bioattn ")]
    return [shlex.split(re.split(r" [>|&;]", line)[0], comments=True) for line in called]


def snippets(page):
    """The blocks of Python of a page of docs."""
    return re.findall(r"```python\n(.*?)```", page_text(page), flags=re.DOTALL)


def run_python(code):
    """Run the Python of a page in the current folder; returns its names."""
    names: dict[str, Any] = {}
    exec(compile(code, "page", "exec"), names)
    return names


@pytest.fixture(scope="session")
def run_bash(bioattn_folder):
    """Run commands in a folder beside `data`; returns stdout, or with `everything` stderr too."""

    def run(code, folder, *, everything=False, **variables):
        if not (folder / "data").exists():
            (folder / "data").symlink_to(ROOT / "data")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder,
            env={**os.environ, "PATH": f"{bioattn_folder}{os.pathsep}{os.environ['PATH']}", **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if everything else subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def demo(tmp_path_factory, run_bash):
    """The folder in which the promoter tutorial ran up to its attention file."""
    return made_once(
        tmp_path_factory,
        "tutorial",
        lambda folder: run_steps(steps("promoters.md")[:COMMON_STEPS], folder, run_bash),
    )


@pytest.fixture(scope="session")
def settings_tables():
    """docs/settings_tables.py."""
    spec = importlib.util.spec_from_file_location("settings_tables", ROOT / "docs" / "settings_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
