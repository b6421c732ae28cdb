"""The Dockerfile and the recipe for bioconda, not built here: versions and dependencies are the project's."""

import re
import tomllib

from bioattn import __version__
from tests.conftest import REPOSITORY

TEXT = re.sub(r"^#.*\n", "", (REPOSITORY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
INSTRUCTIONS = [line.split(None, 1) for line in TEXT.splitlines() if line.strip()]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def test_what_the_wheel_is_made_of_reaches_the_image():
    words = [text.split() for name, text in INSTRUCTIONS if name == "COPY" and not text.startswith("--from")]
    copied = {source.removeprefix("./") for line in words for source in line[:-1]}
    lines = [
        line for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line and line[0] != "#"
    ]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == copied
    assert all((REPOSITORY / source).exists() for source in copied)
    build = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*build["packages"], PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]]
    for path in [*needed, "pyproject.toml"]:
        assert any(path == source or path.startswith(f"{source}/") for source in copied), path


def test_the_image_has_the_project_s_versions_and_suits_pipelines():
    """Nextflow runs `bash` and `ps` in an image, as any user, and no entry point may stand before them."""
    assert f'org.opencontainers.image.version="{__version__}"' in TEXT
    torch = re.search(r"^torch==(.*)$", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)[1]
    assert f"ARG TORCH_VERSION={torch}" in TEXT
    names = [name for name, _ in INSTRUCTIONS]
    assert "ENTRYPOINT" not in names
    assert names.index("USER") > max(line for line, name in enumerate(names) if name == "RUN")
    assert "procps" in TEXT


def test_the_recipe_needs_what_the_project_needs():
    recipe = (REPOSITORY / "recipes" / "bioconda" / "meta.yaml").read_text()
    assert f'set version = "{__version__}"' in recipe
    run = re.search(r"  run:\n(.*?)\n    #", recipe, re.DOTALL)[1]
    needed = {line.strip("- ").replace(" ", "") for line in run.splitlines()} - {"python>=3.11"}
    assert needed == {
        re.sub("^torch>", "pytorch>", requirement) for requirement in PROJECT["project"]["dependencies"]
    }
    (script,) = PROJECT["project"]["scripts"].items()
    assert f"- {' = '.join(script)}" in recipe
