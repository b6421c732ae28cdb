"""docs/workflows/snakemake.md and the pages of the workflows: commands are run as typed, as far as they can be.

A block of ```sh runs beside `data` and `workflows`; `<!-- test: not run, … -->` above it says why it does not.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable

import pytest

from bioattn_cli.main import main
from tests.docs.conftest import ROOT, blocks
from tests.workflows.conftest import WORKFLOWS, jobs

TEXT = (ROOT / "docs" / "workflows" / "snakemake.md").read_text(encoding="utf-8")
BLOCKS = blocks(ROOT / "docs" / "workflows" / "snakemake.md")

Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(tmp_path_factory, snakemake_folder, run_bash):
    """Runs a script in one folder beside `data` and a copy of the workflows; returns what was printed."""
    folder = tmp_path_factory.mktemp("page")
    # Files by link: a copy would be newer than it is, and Snakemake leaves a folder where it runs.
    subprocess.run(["cp", "-r", ROOT / "workflows", folder / "workflows"], check=True)
    variables = {
        "PATH": f"{snakemake_folder}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(folder / ".cache"),
    }
    return lambda code, **more: run_bash(code, folder, everything=True, **variables, **more)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (0, {"promoters": 1, "train": 1, "report": 1, "total": 13}),
        # Two seeds share promoters and dataset.
        (1, {"promoters": 1, "dataset": 1, "train": 2, "check": 2, "report": 2}),
        (2, {"alignment": 3, "evoformer": 3, "report": 3}),
    ],
)
def test_commands(run, block, expected):
    planned = jobs(run(BLOCKS[block][1]))
    assert {rule: planned[rule] for rule in expected} == expected


def test_the_yeast_run(run, tmp_path):
    """The command as it stands, with a dry run in place of the run."""
    for name in (
        "R64_genbank.genome.fa.gz",
        "R64_genbank.gff3.gz",
        "gasch2000_group_mean_log2ratio.tsv.gz",
        "fungi.meme",
    ):
        (tmp_path / name).touch()
    said = run(BLOCKS[5][1].rstrip() + " --dry-run", YEAST=str(tmp_path), JASPAR=str(tmp_path / "fungi.meme"))
    assert {"train", "check", "motifs", "tracks", "report"} <= set(jobs(said))


def test_profiles_are_read(run):
    """What the command for a cluster asks for, as far as there is none to ask."""
    (command,) = [code for _, code in BLOCKS if "profiles/slurm" in code]
    for _, code in BLOCKS[1:3]:
        run(code[: code.index("snakemake --snakefile")])
    assert jobs(run(command.rstrip() + " --dry-run"))["train"] == 2
    for profile in ("local", "slurm"):
        said = run(
            f"cd workflows/snakemake/alignments && snakemake --profile ../profiles/{profile} --dry-run"
        )
        assert jobs(said)["evoformer"] == 3


def test_the_module(run):
    """The Snakefile of the page, whose prefix stands before inputs and outputs."""
    code, one_rule = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    settings = {"stress": {name: name for name in ("genome", "annotation", "responses")}}
    script = (
        f"cat > Snakefile <<'END'\n{code}END\n"
        f"cat > settings.yaml <<'END'\n{json.dumps(settings)}\nEND\n"
        "mkdir -p stress && touch stress/genome stress/annotation stress/responses\n"
        "snakemake --configfile settings.yaml --cores 1 --dry-run --printshellcmds"
    )
    said = run(script)
    assert jobs(said)["stress_train"] == 1
    assert (
        "bioattn prepare promoters stress/genome stress/annotation --output stress/results/promoters.fa"
        in said
    )
    said = run(
        f"cat > Snakefile <<'END'\n{one_rule}END\n"
        "mkdir -p results && touch results/attention.h5\n"
        "snakemake --cores 1 --dry-run --printshellcmds results/a/export_tracks/tracks "
        "--config 'export_tracks=--treatment heat'"
    )
    assert "bioattn export tracks results/attention.h5 --output results/a/export_tracks/tracks" in said
    assert " --treatment heat" in said


def test_options_that_the_page_names_exist(capsys):
    """`options` of the settings that come along are those of the commands."""
    steps = {
        "promoters": {
            "promoters": "prepare promoters",
            "dataset": "prepare dataset",
            "tracks": "export tracks",
        },
        "alignments": {"prepare": "prepare msa"},
    }
    checked = 0
    for workflow, commands in steps.items():
        for path in (WORKFLOWS / workflow / "config").glob("*.yaml"):
            step = ""
            for line in path.read_text().splitlines():
                step = line.partition(":")[0] if line and line[0] not in " #" else step
                if line.strip().startswith("options:"):
                    assert main([*commands[step].split(), "--help"]) == 0
                    known = capsys.readouterr().out
                    for word in re.findall(r"--[a-z-]+", line):
                        assert re.search(rf"(^|[\s,]){word}[\s,]", known), word
                        checked += 1
    assert checked >= 5
