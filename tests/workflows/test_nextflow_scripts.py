"""The script and the stub of every Nextflow module, run by bash on real data with the options of `-profile test`.

Nextflow cannot be had here: `nextflow_module` reads the modules and fills in their scripts. Each runs in a folder
of its own, with links to its inputs, as Nextflow would have it.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bioattn import __version__
from bioattn_cli.main import main
from tests.workflows.nextflow_module import (
    ROOT,
    NotKnown,
    config_text,
    evaluate,
    fill_in,
    interpolate,
    module_args,
    modules,
)
from workflows.commands import BY_MODULE, COMMANDS

MULTIQC = ROOT / ".venv-multiqc" / "bin"
SHELL = ["bash", "-C", "-e", "-u", "-o", "pipefail"]
"""As `process.shell` of nextflow.config, which a test below compares."""


class Tasks:
    """Runs modules once each and remembers their outputs."""

    def __init__(self, folder, programs):
        self.folder = folder
        self.done: dict[tuple[str, str], dict[str, list[Path]]] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{MULTIQC}{os.pathsep}{os.environ['PATH']}",
        }
        # Whoever needs a cache must say so in the module: in a container there is no home folder to write to.
        self.environment.pop("BIOATTN_CACHE", None)
        self.environment.pop("XDG_CACHE_HOME", None)
        self.environment["HOME"] = "/nonexistent"

    def run(self, name, *, stub=False, **extra):
        """The files of each output of a module, whose script (or stub) is run the first time it is asked for.

        extra: values of inputs other than those of the table.
        """
        key = (name, repr((stub, sorted(extra.items()))))
        if key not in self.done:
            module = modules()[name]
            given = {**self._inputs(name), **extra}
            work = self.folder / f"{name.replace('/', '-')}-{len(self.done)}"
            work.mkdir()
            self.done[key] = self._run(module, module.stub if stub else module.script, given, work)
        return self.done[key]

    def _inputs(self, name):
        """What a module is given, by the table of commands."""
        if name == "multiqc":
            return {"meta": {"id": "tiny"}, "folders": [self.one("bioattn/exportmultiqc", "multiqc")]}
        command = BY_MODULE[name.removeprefix("bioattn/")]
        given: dict[str, Any] = {"meta": {"id": command.sample}} | ({"shard": ""} if command.sharded else {})
        for each in command.inputs:
            found = [path for source in each.source for path in self._source(source, each)]
            given[each.name] = found[0] if len(found) == 1 else found
        return given

    def _source(self, source, taken):
        module, _, emit = source.partition(".")
        if module not in BY_MODULE:
            return [ROOT / "data" / source]
        shards = taken.of_shards
        parts = [{"shard": f"{n}/{shards}"} for n in range(shards, 0, -1)] if shards > 1 else [{}]
        if taken.of_model:
            model, _, output = taken.of_model.partition(".")
            parts = [{**part, "model": self.one(f"bioattn/{model}", output)} for part in parts]
        if taken.of_promoters:
            parts = [{**part, "promoters": ROOT / "data" / taken.of_promoters} for part in parts]
        return [self.one(f"bioattn/{module}", emit, **part) for part in parts]

    def _run(self, module, block, given, work):
        assert set(given) == set(module.input_names)
        staged = {name: self._stage(value, work) for name, value in given.items()}
        ext = {"args": module_args(module.process, given["meta"]), "prefix": None}
        if ext["args"] is None and module.process != "MULTIQC":
            ext["args"] = BY_MODULE[module.process.removeprefix("BIOATTN_").lower()].test_options
        variables = {**staged, "task": {"ext": ext, "cpus": 1, "process": module.process}}
        script, known = fill_in(block, variables)
        (work / ".command.sh").write_text(script)
        done = subprocess.run(
            [*SHELL, ".command.sh"], cwd=work, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{script}\n{done.stderr}"
        inputs = {path.name for path in work.iterdir() if path.is_symlink()}
        found: dict[str, list[Path]] = {}
        for emit, channel in module.emits.items():
            for element in channel.elements:
                if element.kind == "path":
                    pattern = interpolate(element.text[1:-1], known)
                    # As Nextflow does, no input is an output.
                    found[emit] = sorted(path for path in work.glob(pattern) if path.name not in inputs)
                    assert found[emit] or "optional" in channel.options, f"{module.path}: no {pattern}"
        made = {path.name for path in work.iterdir() if not path.name.startswith(".")} - inputs
        assert made == {path.name for paths in found.values() for path in paths}, "more than is declared"
        return found

    def _stage(self, value, work):
        """Names of links to files, as a script sees them; other values as they are."""
        if isinstance(value, Path):
            (work / value.name).symlink_to(value)
            return value.name
        if isinstance(value, list):
            return [self._stage(each, work) for each in value]
        return value

    def said_by(self, command):
        """What a command prints, run as the `eval` of an output."""
        return subprocess.run(
            [*SHELL, "-c", command], env=self.environment, capture_output=True, text=True, check=True
        ).stdout

    def one(self, name, emit, **extra):
        """The only file of one output."""
        (path,) = self.run(name, **extra)[emit]
        return path


NAMES = [*(f"bioattn/{command.module}" for command in COMMANDS), "multiqc"]
INSPECTED = (".fa", ".h5", ".a3m", ".json", ".pdb", ".model", ".motifs", ".tracks", ".heads", ".prediction")
"""Ends of names of what `bioattn inspect` knows; it knows more."""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory, bioattn_folder):
    return Tasks(tmp_path_factory.mktemp("nextflow"), bioattn_folder)


def _needs(name):
    if name == "multiqc" and not (MULTIQC / "multiqc").is_file():
        pytest.skip("no MultiQC here (make install-multiqc)")
    command = BY_MODULE.get(name.removeprefix("bioattn/"))
    if command is not None and command.library:
        pytest.importorskip(command.library)


@pytest.mark.parametrize("name", NAMES)
def test_a_script_makes_what_its_module_declares(name, tasks):
    _needs(name)
    found = tasks.run(name)
    for emit, paths in found.items():
        for path in paths:
            assert path.is_dir() or path.stat().st_size > 0, emit
            if name.startswith("bioattn/") and emit != "record" and path.suffix in INSPECTED:
                assert main(["inspect", str(path)]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_stub_makes_the_same_files(name, tasks):
    _needs(name)
    real, stub = tasks.run(name), tasks.run(name, stub=True)
    assert {emit: [path.name for path in paths] for emit, paths in stub.items()} == {
        emit: [path.name for path in paths] for emit, paths in real.items()
    }
    for emit, paths in stub.items():
        for path in paths:
            assert path.is_dir() == real[emit][0].is_dir()
            if path.is_dir():
                assert {each.name for each in path.iterdir()} <= {
                    each.name for each in real[emit][0].iterdir()
                }


def test_shards_become_the_file_of_one_run(tasks):
    parts = tasks.run("bioattn/exportattention", shard="1/2")["attention"]
    assert [path.name for path in parts] == ["tiny.1of2.attention.h5"]
    merged = tasks.one("bioattn/merge", "attention")
    assert merged.read_bytes() == tasks.one("bioattn/exportattention", "attention").read_bytes()


def test_optional_inputs_reach_the_command(tasks, tmp_path):
    settings = tmp_path / "settings.toml"
    settings.write_text("[training]\nepochs = 1\n")
    module = modules()["bioattn/trainpromoter"]
    variables = {
        "meta": {"id": "a"},
        "dataset": "d.h5",
        "task": {"ext": {"args": None, "prefix": "b"}, "cpus": 3},
    }
    with_settings, known = fill_in(module.script, {**variables, "config": "settings.toml"})
    assert known["prefix"] == "b"
    assert "--config settings.toml" in with_settings
    assert "--threads 3" in with_settings
    assert "--config" not in fill_in(module.script, {**variables, "config": []})[0]


def test_the_version_is_that_of_bioattn(tasks):
    commands = {
        element.text[1:-1]
        for name, module in modules().items()
        if name != "multiqc"
        for channel in module.outputs
        for element in channel.elements
        if element.kind == "eval"
    }
    (command,) = commands
    done = subprocess.run(
        [*SHELL, "-c", command], env=tasks.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{__version__}\n"


def test_the_version_of_multiqc(tasks):
    _needs("multiqc")
    (command,) = [e.text[1:-1] for c in modules()["multiqc"].outputs for e in c.elements if e.kind == "eval"]
    done = subprocess.run(
        [*SHELL, "-c", command], env=tasks.environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().replace(".", "").isdecimal()


def test_the_shell_is_that_of_the_pipeline():
    assert f"process.shell = {SHELL!r}" in config_text("nextflow.config")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("task.ext.args ?: ''", ""),
        ('task.ext.prefix ?: "${meta.id}"', "x"),
        ("shard ? \"${meta.id}.${shard.replace('/', 'of')}\" : meta.id", "x.1of8"),
        ("empty ? \"$nobody\" : 'no'", "no"),
        ("files ? \"--files ${files}\" : ''", "--files a b"),
        ("empty ? 'yes' : 'no'", "no"),
    ],
)
def test_the_reader_reads_groovy_as_groovy_does(expression, value):
    known = {
        "task": {"ext": {"args": None, "prefix": None}}, "meta": {"id": "x"}, "shard": "1/8", "files": ["a", "b"],
        "empty": [],
    }  # fmt: skip
    assert evaluate(expression, known) == value


@pytest.mark.parametrize(
    "expression",
    [
        "nobody",
        "meta.name",
        "files.collect { it }",
        "meta.id.toUpperCase()",
        "1 + 1",
        '"${nothing}"',
        '"\\n"',
    ],
)
def test_the_reader_refuses_what_it_does_not_know(expression):
    with pytest.raises(NotKnown):
        evaluate(expression, {"meta": {"id": "x"}, "files": [], "nothing": None})
