"""What benchmarks import from bioattn exists: they run for too long to be run here."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_imported_names_exist(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bioattn":
            module = import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name), f"line {node.lineno}: {node.module} has no {name}"
