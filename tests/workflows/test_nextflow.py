"""Nextflow's files are read by a parser and agree with each other: calls, parameters, tables of samples.

Nextflow itself cannot be had here; reftrace has its grammar. What the processes run is tested in `test_commands`.
"""

import json
import re
from functools import cache

import pytest
from reftrace import ConfigFile, Module

from bioattn import __version__
from tests.conftest import REPOSITORY
from workflows.commands import CORES, STEPS

PIPELINE = REPOSITORY / "workflows" / "nextflow"
SCRIPTS = [PIPELINE / "main.nf", *sorted((PIPELINE / "subworkflows").iterdir())]
CONFIG = re.sub(r"^\s*//.*\n", "", (PIPELINE / "nextflow.config").read_text(), flags=re.MULTILINE)
EMITS = {step.process: {*step.files, "versions"} for step in STEPS}
EMITS["MULTIQC"] = {"report", "data", "versions"}


@cache
def parsed(path):
    """What reftrace reads of a file."""
    read = Module.from_file(str(path))
    assert hasattr(read, "processes"), read.error
    return read


def test_the_parser_refuses_what_is_not_nextflow(tmp_path):
    path = tmp_path / "open.nf"
    path.write_text('process A {\n    script:\n    """\n    echo ${a ? }\n    """\n}\n')
    assert not hasattr(Module.from_file(str(path)), "processes")


def test_processes_are_read_by_a_parser(tmp_path):
    """Of those that one program writes, enough to show the parser, which is slow, every shape of line."""
    written = (PIPELINE / "modules/bioattn.nf").read_text()
    texts = re.findall(r"^process .*?^}\n", written, re.MULTILINE | re.DOTALL)
    assert [text.split()[1] for text in texts] == [step.process for step in STEPS]
    shapes = {re.sub(r"\$?\{?[\w./-]+\}?", "w", line): text for text in texts for line in text.splitlines()}
    chosen = list(dict.fromkeys(shapes.values()))
    (tmp_path / "some.nf").write_text("".join(chosen))
    some = parsed(tmp_path / "some.nf").processes
    (multiqc,) = parsed(PIPELINE / "modules/multiqc.nf").processes
    assert [process.name for process in some] == [text.split()[1] for text in chosen]
    assert multiqc.name == "MULTIQC"
    labels = {*re.findall(r"^    label '(\w+)'", "".join(texts), re.MULTILINE), multiqc.labels[0].label}
    assert labels == {*(f"process_{need}" for need in CORES), "process_gpu"}
    assert labels == set(re.findall(r"withLabel: (\w+)", CONFIG))
    assert {
        need: int(cores)
        for need, cores in re.findall(r"withLabel: process_(\w+) \{\s+cpus\s+= (\d+)", CONFIG)
    } == CORES


def arguments(text, start):
    """How many arguments stand between the bracket that opens before `start` and the one that closes it."""
    depth, commas = 1, 0
    for position in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[position], 0)
        commas += depth == 1 and text[position] == ","
        if depth == 0:
            return commas + bool(text[start:position].strip())
    raise AssertionError("a bracket that does not close")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_calls_fit_what_is_included(path):
    read, text = parsed(path), re.sub(r"//.*", "", path.read_text())
    takes, emits = {}, {}
    for include in read.includes:
        (name,) = [item.name for item in include.items]
        if include.from_module.startswith("plugin/"):
            continue
        file = (path.parent / include.from_module).with_suffix(".nf").resolve()
        if file.parent.name == "modules":
            assert re.search(rf"^process {name} ", file.read_text(), re.MULTILINE)
            takes[name], emits[name] = 1, EMITS[name]
        else:
            (workflow,) = parsed(file).workflows
            assert workflow.name == name
            takes[name], emits[name] = len(workflow.takes), set(workflow.emits)
    calls = list(re.finditer(r"^\s*([A-Z][A-Z_]+)\(", text, re.MULTILINE))
    assert {call[1]: arguments(text, call.end()) for call in calls} == takes
    for name, emit in re.findall(r"\b([A-Z][A-Z_]+)\.out\.(\w+)", text):
        assert emit in emits[name], f"{name}.out.{emit}"


def test_options_are_given_to_processes_that_there_are():
    read = ConfigFile.from_file(str(PIPELINE / "nextflow.config"))
    assert read.error is None
    for name in re.findall(r"withName: '(\w+)'", CONFIG):
        assert name in EMITS
    assert CONFIG.count(f"'{__version__}'") == CONFIG.count(f"bioattn:{__version__}") == 1
    assert f"bioattn[all]=={__version__}" in (PIPELINE / "environment.yml").read_text()


def test_every_parameter_is_described_and_used():
    schema = json.loads((PIPELINE / "nextflow_schema.json").read_text())
    described = {name for group in schema["$defs"].values() for name in group["properties"]}
    (block,) = re.findall(r"^params \{\n(.*?)^\}", CONFIG, re.DOTALL | re.MULTILINE)
    assert described == set(re.findall(r"^    (\w+)\s+=", block, re.MULTILINE))
    page = (REPOSITORY / "docs" / "workflows" / "nextflow.md").read_text()
    assert described >= set(re.findall(r"--([a-z]+(?:_[a-z]+)+)", page))
    used = re.findall(r"\bparams\.(\w+)\b(?!\s*=)", CONFIG + "".join(path.read_text() for path in SCRIPTS))
    assert set(used) == described
