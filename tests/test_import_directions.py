"""Imports point one way through the rooms of the library, also those inside functions (docs/architecture.md).

`ORDER` is read from bottom to top: a room may import from any line before its own, never from its own line's other
rooms or from a later one. Public methods hand over to `bioattn.python`, which stands above all, by an import
inside the method. A family of models is imported by nobody but its own folder (and benchmarks, scripts of
the docs, and tests).
"""

import ast
from functools import cache
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "bioattn"
BESIDE = "a module beside the rooms"
ORDER = [
    {BESIDE},
    {"io"},
    {"system"},
    {"formats"},
    {"structures"},
    {"alignments", "promoters", "simulate"},
    {"molecules", "sequences"},
    {"attention"},
    {"store"},
    {"models"},
    {"training", "inference"},
    {"interpret"},
    {"checks"},
    {"a family"},
    {"report", "figures"},
    {"python"},
]
"""`models` are the modules of that folder, `a family` is each of its subfolders."""
TOGETHER = {"store", "models", "training", "inference", "a family"}
"""Rooms that may name each other's types where only a type checker reads it."""
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
ROOMS = {path.parent.name for path in LIBRARY.glob("*/__init__.py")}
FAMILIES = {path.parent.name for path in LIBRARY.glob("models/*/__init__.py")}


def room_of(parts):
    """The room of a module, given by its parts below `bioattn`."""
    if parts[:1] == ("models",) and parts[1:2] and parts[1] in FAMILIES:
        return "a family"
    return parts[0] if parts and parts[0] in ROOMS else BESIDE


@cache
def imported(text):
    """Line, parts, and whether only type checkers read it, of every import of bioattn in a module.

    Imports of `bioattn.python` inside functions, or for type checkers, are left out.
    """
    nodes, found = list(ast.walk(ast.parse(text))), []
    inside = {
        inner
        for node in (nodes if "bioattn.python" in text else ())
        if isinstance(node, ast.FunctionDef | ast.If)
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom) and str(inner.module).startswith("bioattn.python")
    }
    for_types = {
        inner
        for node in nodes
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if node in inside:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used here"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] in ("bioattn", "bioattn_cli"):
                found.append((node.lineno, tuple(name.split(".")), node in for_types))
    return found


def against_the_order(room, path, text):
    """What a module of a room imports and should not."""
    found = []
    for line, (package, *parts), for_types in imported(text):
        other = package if package == "bioattn_cli" else room_of(tuple(parts))
        upward = other != room and LEVELS.get(other, len(ORDER)) >= LEVELS[room]
        if upward and not (for_types and {room, other} <= TOGETHER):
            found.append(f"{path.name}:{line}: {room} imports {other}")
    return found


def test_every_room_has_its_place():
    assert set(LEVELS) == {*ROOMS, BESIDE, "a family"}


@pytest.mark.parametrize("room", sorted(LEVELS))
def test_no_room_imports_from_above(room):
    # The package itself hands out what `bioattn.python` holds, when it is asked for.
    paths = [path for path in sorted(LIBRARY.rglob("*.py")) if path != LIBRARY / "__init__.py"]
    found = [
        one
        for path in paths
        if room_of(path.relative_to(LIBRARY).with_suffix("").parts) == room
        for one in against_the_order(room, path, path.read_text())
    ]
    assert found == []


def families_imported(text):
    return {
        parts[1]
        for _, (_, *parts), _ in imported(text)
        if parts[:1] == ["models"] and len(parts) > 1 and parts[1] in FAMILIES
    }


def test_only_its_own_folder_knows_a_family():
    root = LIBRARY.parent
    found = set()
    for path in [*LIBRARY.rglob("*.py"), *(root / "cli").rglob("*.py")]:
        parts = path.relative_to(root).parts
        own = {parts[2]} if parts[:2] == ("bioattn", "models") else set()
        if families_imported(path.read_text()) - own:
            found.add("/".join(parts))
    assert found == set()
    assert families_imported("def f():\n    from bioattn.models import promoter\n") == {"promoter"}


@pytest.mark.parametrize(
    ("room", "text", "found"),
    [
        ("store", "def f():\n    from bioattn.interpret import maps\n", ["a.py:2: store imports interpret"]),
        ("checks", "import bioattn.figures\n", ["a.py:1: checks imports figures"]),
        (BESIDE, "from bioattn import formats\n", [f"a.py:1: {BESIDE} imports formats"]),
        ("report", "import bioattn_cli\n", ["a.py:1: report imports bioattn_cli"]),
        ("models", "from bioattn.training import task\n", ["a.py:1: models imports training"]),
        ("models", "if TYPE_CHECKING:\n    from bioattn.training import task\n", []),
        ("io", "if TYPE_CHECKING:\n    from bioattn import store\n", ["a.py:2: io imports store"]),
        ("store", "import bioattn.io.files\nfrom bioattn.errors import FormatError\n", []),
    ],
)
def test_it_finds_them(room, text, found):
    assert against_the_order(room, Path("a.py"), text) == found
