"""Completion as typed: a shell on a terminal, the installed script, and the Tab key."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELLS = {
    "bash": ["bash", "--noprofile", "--rcfile", "RC", "-i"],
    "zsh": ["zsh", "-i"],
    "fish": ["fish", "-i"],
}
"""How each is started so that it reads what `--install-completion` wrote, and nothing of this machine's."""


CONTROL = r"\x1b(\[[0-9;?=>]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>])"
"""Colours and movements of the cursor, which come between the letters."""


class Terminal:
    """A shell on the other end of a pseudo-terminal."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.seen = ""

    def wait_for(self, pattern, seconds=60):
        """Everything up to the pattern, colours and cursor movements left out."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.descriptor], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"waited for {pattern!r}, saw {self.seen!r}")
            try:
                piece = os.read(self.descriptor, 65536).decode(errors="replace")
            except OSError:  # the shell has ended
                raise AssertionError(f"waited for {pattern!r}, saw {self.seen!r}") from None
            if "\x1b[c" in piece or "\x1b[0c" in piece:  # fish asks what terminal this is
                os.write(self.descriptor, b"\x1b[?62;c")
            # Typed text comes back with colours in between; fish redraws all of its line at each key.
            self.seen += re.sub(
                r"\x1b(\[[0-9;?=>]*[A-Za-z]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>])", "", piece
            )
        text, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return text

    def type(self, text):
        """Type, `\\t` for Tab."""
        os.write(self.descriptor, text.encode())


@contextmanager
def shell(name, home):
    """An interactive shell whose home folder is `home`, with completion installed by the program itself."""
    programs = home / "bin"
    programs.mkdir()
    program = programs / "bioattn"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bioattn_cli "$@"\n')
    program.chmod(0o755)
    (home / "unusual-name.fasta").write_text("")
    environment = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        "TERM": "xterm",
        "LANG": "C.UTF-8",
    }
    if name == "zsh":
        (home / ".zshrc").write_text("PS1='ready> '\n")
    if name == "fish":
        (home / ".config" / "fish").mkdir(parents=True)
        (home / ".config" / "fish" / "config.fish").write_text(
            "function fish_prompt; echo 'ready> '; end\nset fish_greeting\nset -g fish_autosuggestion_enabled 0\n"
        )
    # The shell it is installed for is the one it is started from.
    command = [name, "-c", "bioattn --install-completion; true"]
    done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True)
    assert f"{name} completion installed" in done.stdout, done
    with (home / ".bashrc").open("a") as settings:
        settings.write("PS1='ready> '\n")
    words = [str(home / ".bashrc") if word == "RC" else word for word in SHELLS[name]]
    process, descriptor = pty.fork()
    if process == 0:
        os.chdir(home)
        os.execvpe(words[0], words, environment)
    try:
        termios.tcsetwinsize(descriptor, (50, 200))
        terminal = Terminal(descriptor)
        terminal.wait_for("ready> ")
        yield terminal
    finally:
        os.close(descriptor)
        os.waitpid(process, 0)


@pytest.mark.parametrize("name", list(SHELLS))
def test_tab_completes_commands_options_choices_and_files(name, tmp_path):
    if shutil.which(name) is None:
        pytest.skip(f"no {name} here")
    with shell(name, tmp_path) as terminal:
        if name == "zsh":  # the first Tab of a session only loads the script
            terminal.type("bioattn prep\t")
            terminal.wait_for("\x07")
            terminal.type("\x15")
        for typed, completed in [
            ("bioattn prep\t", r"bioattn prep(are|.*bioattn prepare) "),
            ("prom\t", "promoters "),
            ("unus\t", r"unusual-name\.fasta "),
            ("--ups\t", "--upstream "),
            ("300 --overlap m\t", "mask "),
        ]:
            terminal.type(typed)
            terminal.wait_for(completed)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (
            "bioattn ",
            {
                "prepare",
                "train",
                "run",
                "export",
                "explain",
                "plot",
                "report",
                "inspect",
                "validate",
                "doctor",
            },
        ),
        ("bioattn train promoter --conditioning ", {"concat", "film", "cross", "cross-all", "ridge"}),
        ("bioattn export attention --dtype f", {"float32", "float16"}),
    ],
)
def test_what_is_offered_comes_without_torch(words, offered):
    script = (
        "import sys\nfrom bioattn_cli.main import main\nsys.argv[0] = 'bioattn'\ncode = main()\n"
        "sys.exit(99 if {'torch', 'numpy', 'h5py', 'pandas'} & set(sys.modules) else code)"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}",
        "_BIOATTN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len((words + ".").split()) - 1),
    }

    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= offered
