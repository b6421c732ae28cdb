"""docs/setup.md and docs/workflows/{nextflow,multiqc,docker}.md: what they name is there."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from bioattn import __version__
from bioattn.report.multiqc import SECTIONS
from bioattn.system.doctor.diagnosis import Status
from bioattn_cli.main import app, main
from tests.workflows.nextflow_pipeline import config_text, params

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("setup", "workflows/nextflow", "workflows/multiqc", "workflows/docker")
}


def blocks(page: str, *, marked: bool) -> str:
    found = re.findall(r"(<!-- test: [^>]* -->\n)?```bash\n(.*?)```", PAGES[page], flags=re.DOTALL)
    return "".join(code for mark, code in found if bool(mark) == marked)


@pytest.mark.parametrize("page", list(PAGES))
def test_options_exist(page: str) -> None:
    for line in blocks(page, marked=False).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[0] == "bioattn"
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command = command.commands[words.pop(1)]
        known = {name for parameter in command.params for name in parameter.opts}
        assert {word for word in words[1:] if word.startswith("-")} <= known


def test_doctor_says_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tmp_path)]) == 0
    titles = re.findall(r"^([A-Z][a-z ]+)$", capsys.readouterr().out, re.MULTILINE)
    topics = re.findall(r"^- \*\*(\w+)\*\*", PAGES["setup"], re.MULTILINE)
    assert sorted(title.split()[-1].lower() for title in titles) == sorted(topics)
    for verdict in Status:
        assert f"`{verdict}`" in PAGES["setup"]


def test_the_sections_of_multiqc_are_listed() -> None:
    for section in SECTIONS.values():
        name = section.get("section_name", "General Statistics")
        assert re.sub(" of (promoter|MSA/pair) models", "", name) in PAGES["workflows/multiqc"]
    version = re.search(r"multiqc==([\d.]+)", (ROOT / "Makefile").read_text())[1]
    assert f"MultiQC {version}" in PAGES["workflows/multiqc"]


def test_parameters_and_profiles_of_nextflow_exist() -> None:
    page = PAGES["workflows/nextflow"]
    for name in [*re.findall(r"--([a-z]+(?:_[a-z]+)+)", page), "promoters", "alignments", "outdir", "shards"]:
        assert name in params(test=False), name
    given = re.findall(
        r"^    (\w+) \{",
        re.search(r"^profiles.*?^\}", config_text("nextflow.config"), re.DOTALL | re.MULTILINE)[0],
        re.MULTILINE,
    )
    table = re.search(r"\| profile \| gives \|\n(.*?)\n\n", page, re.DOTALL)[1]
    named = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(given)


def test_the_image_is_named_as_it_is_built() -> None:
    for page in ("workflows/nextflow", "workflows/docker"):
        assert f"bioattn:{__version__}" in PAGES[page]
    for argument in re.findall(r"--build-arg (\w+)=", PAGES["workflows/docker"]):
        assert f"ARG {argument}=" in (ROOT / "Dockerfile").read_text()
