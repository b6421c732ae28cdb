"""Imports point one way through the rooms of the library, also those inside functions.

`ORDER` is read from bottom to top: a room may import from any line before its own, never from its own line's other
rooms or from a later one. The modules beside the rooms (`bioattn/io/files.py` and the like) are below all of them.
A family of models is imported by nobody but its own folder (and benchmarks, scripts of the docs, and tests).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "bioattn"
ORDER = [
    {"io"},
    {"system"},
    {"formats"},
    {"structures"},
    {"alignments", "promoters", "simulate"},
    {"attention"},
    {"store"},
    {"views"},
    {"training", "inference", "models"},
    {"interpret"},
    {"faithfulness", "figures"},
    {"report"},
    {"python"},
]
BEING_PARTED = {"store", "training", "inference", "models"}
"""Rooms that still import each other, while what belongs to one family moves into its folder."""
LEVELS = {room: level for level, rooms in enumerate(ORDER, start=1) for room in rooms}
ROOMS = sorted(path.name for path in LIBRARY.iterdir() if (path / "__init__.py").is_file())
FAMILIES = sorted(path.name for path in (LIBRARY / "models").iterdir() if (path / "__init__.py").is_file())


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module below `bioattn`; empty for one beside the rooms."""
    return parts[0] if parts and (LIBRARY / parts[0]).is_dir() else ""


def imported(tree: ast.AST) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and parts below `bioattn` of every import of a module's syntax tree."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *parts = name.split(".")
            if package in ("bioattn", "bioattn_cli"):
                yield node.lineno, (package, *parts)


def against_the_order(room: str, path: Path, text: str) -> list[str]:
    """What a module of a room imports and should not."""
    found = []
    for line, (package, *parts) in imported(ast.parse(text)):
        other = room_of(tuple(parts))
        upward = LEVELS.get(other, 0) >= LEVELS.get(room, 0) and other not in ("", room)
        upward = upward and not {room, other} <= BEING_PARTED
        if package == "bioattn_cli" or upward:
            found.append(
                f"{path.name}:{line}: {room or 'a module beside the rooms'} imports {other or package}"
            )
    return found


def test_every_room_has_its_place() -> None:
    assert sorted(LEVELS) == ROOMS


@pytest.mark.parametrize("room", ["", *ROOMS])
def test_no_room_imports_from_above(room: str) -> None:
    # The package itself hands out what `bioattn.python` holds, when it is asked for.
    paths = (
        set(LIBRARY.glob("*.py")) - {LIBRARY / "__init__.py"}
        if room == ""
        else (LIBRARY / room).rglob("*.py")
    )
    found = [one for path in sorted(paths) for one in against_the_order(room, path, path.read_text())]
    assert found == []


def families_imported(tree: ast.AST) -> set[str]:
    return {
        parts[1]
        for _, (_, *parts) in imported(tree)
        if parts[:1] == ["models"] and len(parts) > 1 and parts[1] in FAMILIES
    }


def test_only_its_own_folder_knows_a_family() -> None:
    root = LIBRARY.parent
    found = set()
    for path in [*LIBRARY.rglob("*.py"), *(root / "cli").rglob("*.py")]:
        parts = path.relative_to(root).parts
        own = {parts[2]} if parts[:2] == ("bioattn", "models") else set()
        if families_imported(ast.parse(path.read_text())) - own:
            found.add("/".join(parts))
    assert found == set()
    assert families_imported(ast.parse("def f():\n    from bioattn.models import promoter\n")) == {"promoter"}


def test_imports_within_functions_count() -> None:
    upward = "def read():\n    from bioattn.interpret.maps import position_maps\n"
    beside = "import bioattn.figures\n"
    assert against_the_order("store", Path("a.py"), upward) == ["a.py:2: store imports interpret"]
    assert against_the_order("faithfulness", Path("b.py"), beside) == ["b.py:1: faithfulness imports figures"]
    assert against_the_order("", Path("c.py"), "from bioattn import formats\n") == [
        "c.py:1: a module beside the rooms imports formats"
    ]
    assert (
        against_the_order(
            "store", Path("d.py"), "from bioattn.models.trunk import x\nimport bioattn.io.files\n"
        )
        == []
    )
