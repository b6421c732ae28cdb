"""Every command of bioattn has a Nextflow module and a Snakemake rule, written by workflows/commands.py.

The scripts of the modules are run in `test_nextflow_scripts`; the rules are planned by the real Snakemake, and
their command lines are read by the real commands.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from bioattn import __version__
from bioattn_cli.program import program
from tests.cli.test_main import every_command
from workflows.commands import COMMANDS, MODULES, VERSION, files


def test_every_command_has_a_module_and_a_rule():
    assert sorted(command.words for command in COMMANDS) == sorted(map(" ".join, every_command()))


def test_the_files_are_those_of_the_table():
    for path, text in files():
        assert path.read_text() == text, "run: python workflows/commands.py"
    assert {path.name for path in MODULES.iterdir()} == {command.module for command in COMMANDS}
    assert __version__ == VERSION


@pytest.fixture(scope="module")
def planned(tmp_path_factory, snakemake):
    """The command lines, as words, of a dry run that makes the results of all rules."""
    folder = tmp_path_factory.mktemp("commands")
    options = {command.rule: command.test_options for command in COMMANDS if command.test_options}
    (folder / "config.json").write_text(json.dumps(options))
    wanted = []
    for command in COMMANDS:
        wanted += [f"results/{command.sample}/{command.rule}/{each.ending[1:]}" for each in command.outputs]
        for source in (source for each in command.inputs for source in each.source):
            # What stands for results of other commands is not asked for.
            path = folder / "resources" / command.sample / Path(source).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    said = snakemake("commands", folder).run(
        *("--dry-run", "--printshellcmds", "--configfile", "config.json", "--", *wanted)
    )
    return [shlex.split(line) for line in re.findall(r"^Shell command: (bioattn .*)$", said, re.MULTILINE)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.rule)
def test_a_rule_is_a_command_line_that_its_command_takes(command, planned):
    words = command.words.split()
    (line,) = [line for line in planned if line[1 : 1 + len(words)] == words]
    called = program()
    for word in words:
        called = called.commands[word]
    called.make_context("bioattn", line[1 + len(words) : line.index(">")])
    assert set(shlex.split(command.test_options)) <= set(line)
