"""The Nextflow pipeline as its files stand: modules, subworkflows, parameters, options of modules."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.workflows.nextflow_module import Module, NotKnown, evaluate, read_module

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = ROOT / "workflows" / "nextflow"
LOCAL = PIPELINE / "modules" / "local"
SCRIPTS = [PIPELINE / "main.nf", *sorted((PIPELINE / "subworkflows").rglob("main.nf"))]


@cache
def modules() -> dict[str, Module]:
    """All modules by their folder below `modules/local`, such as `bioattn/preparemsa`."""
    found = sorted(LOCAL.rglob("main.nf"))
    return {path.parent.relative_to(LOCAL).as_posix(): read_module(path) for path in found}


def config_text(name: str) -> str:
    """A config file without its comments."""
    return re.sub(r"^\s*//.*\n", "", (PIPELINE / name).read_text(), flags=re.MULTILINE)


def _params(name: str) -> dict[str, Any]:
    (block,) = re.findall(r"^params \{\n(.*?)^\}", config_text(name), re.DOTALL | re.MULTILINE)
    known = {"projectDir": str(PIPELINE)}
    values: dict[str, Any] = {}
    for line in filter(None, map(str.strip, block.splitlines())):
        key, value = (part.strip() for part in line.split("=", 1))
        words = {"null": None, "true": True, "false": False}
        values[key] = words[value] if value in words else evaluate(value, known)
    return values


@cache
def params(*, test: bool) -> Mapping[str, Any]:
    """All parameters, as they stand or with those of `-profile test`."""
    return {**_params("nextflow.config"), **(_params("conf/test.config") if test else {})}


def module_args(process: str, meta: Mapping[str, str]) -> str | None:
    """`task.ext.args` of a process under `-profile test`, by conf/modules.config; None where it says nothing."""
    text = config_text("conf/modules.config")
    for name, body in re.findall(r"^    withName: '(\w+)' \{\n(.*?)^    \}", text, re.DOTALL | re.MULTILINE):
        if name == process and (found := re.search(r"ext\.args\s*= \{ (.*) \}$", body, re.MULTILINE)):
            value = evaluate(found[1], {"params": params(test=True), "meta": meta})
            if not isinstance(value, str):
                raise NotKnown(f"ext.args of {process}: {value!r}")
            return value
    return None
