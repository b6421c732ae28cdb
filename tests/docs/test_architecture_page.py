"""docs/architecture.md: the files it names exist, its lists are short, and imports go downward."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LIBRARY = ROOT / "bioattn"
LEVELS = (
    ("errors", "text", "choices"),
    ("io",),
    ("system",),
    ("formats",),
    ("structures",),
    ("promoters", "alignments", "simulate"),
    ("attention",),
    ("store",),
    ("views",),
    ("models",),
    ("training", "inference"),
    ("family",),
    ("interpret",),
    ("report", "figures", "faithfulness"),
    ("python",),
)
"""The rooms from the lowest up. `models` are the modules of that folder, `family` its subfolders."""
LEVEL = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}


def test_named_files_exist() -> None:
    named = re.findall(r"`((?:bioattn|cli|tests)/[\w/]+\.py)`", PAGE)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("heading", "most"),
    [("Where is attention computed", 10), ("From `bioattn train promoter` to the first batch", 15)],
)
def test_a_question_is_answered_by_few_files(heading: str, most: int) -> None:
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    assert 5 < len(re.findall(r"^\| `", section, flags=re.MULTILINE)) <= most


def test_every_room_is_on_the_page() -> None:
    house = PAGE.split("```text")[1].split("```")[0]
    rooms = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
    assert {room for room in rooms if not re.search(rf"\b{room}\b", house)} == set()
    assert rooms <= set(LEVEL)


def room_of(parts: tuple[str, ...]) -> str:
    if parts[0] == "models" and len(parts) > 1 and (LIBRARY / "models" / parts[1]).is_dir():
        return "family"
    return parts[0]


def imports(path: Path) -> set[str]:
    """Rooms that a module imports from, also inside functions; not what only type checkers see."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    return {
        room_of(tuple(node.module.split(".")[1:]))
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node not in unseen
        if (node.module or "").startswith("bioattn.")
    }


def test_imports_go_downward() -> None:
    upward = [
        f"{path.relative_to(LIBRARY)} imports {room}"
        for path in sorted(LIBRARY.glob("*/**/*.py"))
        for own in [room_of(path.relative_to(LIBRARY).with_suffix("").parts)]
        for room in sorted(imports(path))
        if room != own and LEVEL[room] >= LEVEL[own]
    ]
    assert upward == []
