"""Every command of bioattn is a Nextflow process and a Snakemake rule, written by workflows/commands.py.

Every step is run on small data; the rules are planned by the real Snakemake, and their command lines are read by
the real commands.
"""

import json
import re
import shlex
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from bioattn_cli.main import main
from bioattn_cli.program import program
from tests.cli.test_main import every_command
from tests.conftest import REPOSITORY
from workflows.commands import BY_WORDS, STEPS, files, folder_of, result, sources

DATA = REPOSITORY / "data"


def test_every_command_is_a_step():
    assert {" ".join(words) for words in every_command()} == set(BY_WORDS)


def test_the_files_are_those_of_the_table():
    for path, text in files():
        assert path.read_text() == text, "run: python workflows/commands.py"


class Runs:
    """Runs steps once, and remembers their outputs."""

    def __init__(self, folder):
        self.folder = folder
        self.done = {}

    def outputs(self, step, options=""):
        """The outputs of a step by name; it makes them, and nothing else."""
        key = step.name, options
        if key in self.done:
            return self.done[key]
        given = {name: self.given(step, name) for name in step.inputs}
        folder = self.folder / f"{step.name}{len(self.done)}"
        folder.mkdir()
        made = {
            name: folder / f"{folder_of(name)}{step.sample}{ending}" for name, ending in step.files.items()
        }
        words = step.line(given.__getitem__, lambda name: str(made[name]))
        line = " ".join([*words, step.options, options]).format(sample=step.sample)
        with (folder / "printed").open("w") as printed, redirect_stdout(printed):
            assert main(shlex.split(line)[1:]) == 0, line
        first = next(iter(made.values()))
        (folder / "printed").rename(first if step.prints else self.folder / "printed")
        assert {folder / path.relative_to(folder).parts[0] for path in made.values()} == set(folder.iterdir())
        for name, path in made.items():
            assert path.is_dir() == step.files[name].endswith("/")
        self.done[key] = made
        return made

    def given(self, step, name):
        paths = []
        for source in sources(step, name):
            words, _, output = source.partition(":")
            # What is merged must be a shard.
            shards = [f"--shard {number}/2" for number in (2, 1)] if step.words == "merge" else [""]
            paths += (
                [self.outputs(BY_WORDS[words], shard)[output] for shard in shards]
                if output
                else [DATA / words]
            )
        inside = f"/{step.inside}" if step.inside and name == step.required[0] else ""
        text = " ".join(f"{path}{inside}" for path in paths)
        return f"{step.option(name)} {text}" if text and name in step.optional else text


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("steps"))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_makes_its_outputs(step, runs):
    if step.library:
        pytest.importorskip(step.library)
    assert runs.outputs(step)


@pytest.fixture(scope="module")
def planned(tmp_path_factory, snakemake):
    """The command lines, as words, of a dry run that makes the results of all rules."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "config.json").write_text(json.dumps({step.name: step.options for step in STEPS}))
    wanted = [result(step, name).format(sample=step.sample) for step in STEPS for name in step.files]
    for step in STEPS:
        for source in (source for name in step.inputs for source in sources(step, name)):
            path = folder / "resources" / step.sample / Path(source).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    said = snakemake("commands", folder).run(
        *("--dry-run", "--printshellcmds", "--configfile", "config.json", "--", *wanted)
    )
    return [shlex.split(line) for line in re.findall(r"^Shell command: (bioattn .*)$", said, re.MULTILINE)]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_rule_is_a_command_line_that_its_command_takes(step, planned):
    words = step.words.split()
    (line,) = [
        line
        for line in planned
        if line[1 : 1 + len(words)] == words and any(f"/{step.name}/" in word for word in line)
    ]
    called = program()
    for word in words:
        called = called.commands[word]
    called.make_context("bioattn", line[1 + len(words) : line.index(">")])
    assert set(shlex.split(step.options)) <= set(line)
