"""docs/sharding.md: its commands are there, with the options they use, and its SLURM script is a script."""

import re
import shlex
import subprocess
from pathlib import Path

import typer

from bioattn_cli.main import app

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sharding.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_commands_and_options() -> None:
    lines = [
        line
        for block in BLOCKS
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip().startswith("bioattn")
    ]
    assert len(lines) == 6
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        options = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= options, line


def test_every_sharded_command_is_listed() -> None:
    """The options are where the page says that they are, and nowhere else."""

    def sharded(command: object, words: tuple[str, ...]) -> set[str]:
        if hasattr(command, "commands"):
            return {name for word, each in command.commands.items() for name in sharded(each, (*words, word))}
        has = any("--shard" in parameter.opts for parameter in command.params)
        return {" ".join(words)} if has else set()

    table = TEXT[TEXT.index("| command |") : TEXT.index("Give every part")]
    listed = set(re.findall(r"`((?:run|export|explain) \w+)", table))
    assert sharded(typer.main.get_command(app), ()) == listed


def test_the_scripts_parse() -> None:
    for block in BLOCKS:
        done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")
