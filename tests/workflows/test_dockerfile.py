"""The Dockerfile, not built here: what it copies is there and reaches it, versions are the project's."""

import fnmatch
import re
import tomllib
from pathlib import Path

from bioattn import __version__

ROOT = Path(__file__).resolve().parents[2]
TEXT = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
INSTRUCTIONS = [line.split(None, 1) for line in TEXT.splitlines() if line.strip()]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def copied():
    """What comes from the folder of the sources."""
    words = [text.split() for name, text in INSTRUCTIONS if name == "COPY" and not text.startswith("--from")]
    return [source for line in words for source in line[:-1]]


def test_what_is_copied_is_there_and_not_ignored():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert allowed == {source.removeprefix("./") for source in copied()}
    assert all((ROOT / source).exists() for source in copied())


def test_what_the_wheel_is_made_of_is_copied():
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [
        *build["packages"],
        PROJECT["project"]["readme"],
        *PROJECT["project"]["license-files"],
        "pyproject.toml",
    ]
    for path in needed:
        assert any(path == source or path.startswith(f"{source}/") for source in copied()), path


def test_versions_and_extras_are_those_of_the_project():
    assert f'org.opencontainers.image.version="{__version__}"' in TEXT
    torch = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert f"ARG TORCH_VERSION={torch}" in TEXT
    assert re.search(r"\$\{wheel\}\[(.*?)\]", TEXT)[1] == "all"
    image = re.search(r"FROM python:(\d+)\.(\d+)-slim", TEXT)
    least = PROJECT["project"]["requires-python"].removeprefix(">=").split(".")
    assert tuple(map(int, image.groups())) >= tuple(map(int, least))


def test_pipelines_can_use_it():
    """Nextflow runs `bash` and `ps` in an image, as any user, and no entry point may stand before them."""
    names = [name for name, _ in INSTRUCTIONS]
    assert "ENTRYPOINT" not in names
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")
    assert any(fnmatch.fnmatch(text, "*install*procps*") for name, text in INSTRUCTIONS if name == "RUN")
    assert ["USER", "1000"] in INSTRUCTIONS
