"""docs/architecture.md: the files it names exist, its lists are short, and every room is on it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LIBRARY = ROOT / "bioattn"


def test_named_files_exist():
    named = re.findall(r"`((?:bioattn|cli|tests)/[\w/]+\.py)`", PAGE)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("heading", "most"),
    [("Where is attention computed", 10), ("From `bioattn train promoter` to the first batch", 15)],
)
def test_a_question_is_answered_by_few_files(heading, most):
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    assert 5 < len(re.findall(r"^\| `", section, flags=re.MULTILINE)) <= most


def test_every_room_is_on_the_page():
    house = PAGE.split("```text")[1].split("```")[0]
    rooms = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", house)} == set()
