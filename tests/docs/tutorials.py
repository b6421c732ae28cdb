"""Running a tutorial step by step.

A block of ```sh is run, in the order of the page, in one folder beside `data`; the block of ```text behind it must
be found in what it printed: line by line in this order, numbers within a quarter of each other (or 0.1), and `…`
standing for anything. A comment `<!-- test: not run, … -->` above a block of commands says why it is not run.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "tutorials"
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


COMMON_STEPS = 5
"""So many steps of promoters.md, from a new folder to the attention, are those of README.md."""


class Step(NamedTuple):
    mark: str
    commands: str
    printed: str


def steps(page):
    text = (PAGES / page).read_text(encoding="utf-8")
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
