"""The Snakemake workflow from a genome to a report, run on `data/tiny` by the real Snakemake."""

import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

from bioattn_cli.main import main
from tests.workflows.conftest import ROOT, WORKFLOWS, finished

MODEL = Path("results/seed0/model")
FOLDERS = {"model", "motifs", "tracks", "multiqc"}
READ_FROM_MODEL = {
    *("predictions", "attention", "check", "motifs", "tracks"),
    *("plot_training", "plot_check", "report", "multiqc"),
}
ALL = {"promoters", "dataset", "train"} | READ_FROM_MODEL


def prepare(folder, snakemake):
    """A folder with copies of the inputs, so that they can be changed, and settings for them."""
    shutil.copytree(ROOT / "data" / "tiny", folder / "data")
    settings = {
        "genome": "data/genome.fa",
        "annotation": "data/annotation.gff3",
        "responses": "data/responses.tsv",
        "treatment_table": "data/treatments.tsv",
        "promoters": {"upstream": 120, "downstream": 0, "flank": 20},
        "dataset": {"holdout": ["test=0.4", "validation=0.2"], "options": "--split random"},
        "training": {"epochs": 40},
        "attention": {"options": "--batch-size 16"},  # so that there is more than one to share between jobs
        "check": {"samples": 20},
        "motifs": {"database": "data/motifs.meme"},
        "tracks": None,  # a heading with nothing below it
    }
    (folder / "config").mkdir()
    (folder / "config" / "config.yaml").write_text(json.dumps(settings))
    return snakemake("promoters", folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory, snakemake):
    """The workflow after its first run."""
    workflow = prepare(tmp_path_factory.mktemp("promoters"), snakemake)
    assert set(finished(workflow.run())) == ALL
    return workflow


@pytest.fixture
def change(done):
    """Appends a line to an input; it is as it was when the test ends."""
    before = {path: (path.read_bytes(), path.stat()) for path in (done.folder / "data").iterdir()}

    def append(name, line=""):
        path = done.folder / "data" / name
        path.write_bytes(path.read_bytes() + line.encode())

    yield append
    for path, (content, status) in before.items():
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.slow
def test_every_result_is_valid(done):
    results = done.folder / "results"
    seed = results / "seed0"
    files = [results / "promoters.fa", results / "dataset.h5"]
    files += [
        seed / name for name in ("model", "predictions.tsv", "attention.h5", "check.json", "motifs", "tracks")
    ]
    for path in files:
        assert main(["validate", str(path)]) == 0, path
    verdict = json.loads((seed / "check.json").read_text())["verdict"]["sentence"]
    assert (seed / "check.txt").read_text().startswith(verdict)
    assert len(list((seed / "tracks").glob("*.bw"))) == 3 * 2
    assert (seed / "report.html").stat().st_size > 100_000
    assert (seed / "multiqc" / "bioattn_checks_mqc.json").is_file()


@pytest.mark.slow
def test_pages_and_figures_are_in_the_report_of_snakemake(done):
    done.run("--report", "report.zip")
    with zipfile.ZipFile(done.folder / "report.zip") as report:
        names = {Path(name).name for name in report.namelist() if "/raw/" in name}
    assert names >= {"report.html", "training.svg", "check.svg"}


@pytest.mark.slow
def test_snakemake_knows_every_file(done):
    """Whatever lies in the results is an output of a rule, or in a folder that is one."""
    lines = done.run("--summary").splitlines()
    outputs = {line.split("\t")[0] for line in lines if line.startswith("results/")}
    results = done.folder / "results"
    found = [path for path in results.rglob("*") if path.is_file() and path.parent.name not in FOLDERS]
    folders = {f"results/seed0/{name}" for name in FOLDERS}
    assert {path.relative_to(done.folder).as_posix() for path in found} | folders == outputs


@pytest.mark.slow
def test_a_second_run_does_nothing(done):
    before = {path: path.stat().st_mtime_ns for path in (done.folder / "results").rglob("*")}
    assert "Nothing to be done" in done.run()
    assert {path: path.stat().st_mtime_ns for path in (done.folder / "results").rglob("*")} == before


@pytest.mark.slow
def test_a_newer_input_of_the_same_content_starts_nothing(done, change):
    for path in (done.folder / "data").iterdir():
        change(path.name)
    assert done.planned() == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "line", "follows"),
    [
        ("genome.fa", ">more\nACGT\n", ALL),
        ("annotation.gff3", "# more\n", ALL),
        ("responses.tsv", "none\t1\t1\t1\n", ALL - {"promoters"}),
        ("treatments.tsv", "none\t1\n", ALL - {"promoters"}),
        ("motifs.meme", "\n", {"motifs", "report"}),
    ],
)
def test_a_changed_input_starts_what_follows_from_it(done, change, name, line, follows):
    change(name, line)
    assert set(done.planned()) == follows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "follows"),
    [
        ("training={epochs: 41}", {"train"} | READ_FROM_MODEL),
        ("attention={phases: 2}", {"attention", "tracks", "motifs", "report"}),
        ("check={samples: 21}", {"check", "plot_check", "report", "multiqc"}),
        # Where a job runs is no reason to run it again.
        ("device=cpu", set()),
    ],
)
def test_a_changed_setting_starts_what_follows_from_it(done, setting, follows):
    assert set(done.planned("--config", setting)) == follows


@pytest.mark.slow
def test_what_was_started_again_is_all_that_changes(done, change):
    before = {
        path: path.stat().st_mtime_ns for path in (done.folder / "results").rglob("*") if path.is_file()
    }
    change("motifs.meme", "\n")
    assert finished(done.run()) == {"motifs": 1, "report": 1}
    after = {path: path.stat().st_mtime_ns for path in before}
    changed = {
        path.relative_to(done.folder / "results" / "seed0").parts[0]
        for path in before
        if before[path] != after[path]
    }
    assert changed == {"motifs", "motifs.run.json", "report.html", "report.html.run.json"}


@pytest.mark.slow
def test_jobs_that_share_the_promoters_write_the_same_bytes(done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy")
    workflow = replace(done, folder=tmp_path / "copy")
    said = workflow.run("results/seed0/attention.h5", "--config", "shards=2")
    assert finished(said) == {"attention_shard": 2, "attention": 1}
    attention = "results/seed0/attention.h5"
    assert (workflow.folder / attention).read_bytes() == (done.folder / attention).read_bytes()
    assert not list(workflow.folder.glob("results/seed0/attention-shards/*"))
    jobs = workflow.planned(
        "--config", "shards=3", "attribution={genes: all}", "--force", "results/seed0/motifs"
    )
    assert {rule: jobs[rule] for rule in ("attribution_shard", "attribution")} == {
        "attribution_shard": 3,
        "attribution": 1,
    }


def saved_rounds(state):
    """Epochs that a saved state has behind it; 0 without one. A warm start is saved before the first."""
    if not state.exists():
        return 0
    with safe_open(state, framework="np") as file:
        return int(json.loads(file.metadata()["position"])["round"])


@pytest.mark.slow
def test_training_that_was_killed_goes_on(done, tmp_path, snakemake):
    """SIGKILL to Snakemake and all it started; then the same bytes as without it."""
    workflow = prepare(tmp_path, snakemake)
    model, partial = tmp_path / MODEL, tmp_path / f"{MODEL}.partial"
    state = partial / "trainer_state.safetensors"
    process = workflow.start(str(MODEL))
    deadline = time.monotonic() + 300
    while saved_rounds(state) < 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert state.exists()
    assert not model.exists()
    assert 1 <= saved_rounds(state) < 40

    workflow.run("--unlock")
    # The job takes up what was left: with other settings it says that this is of another run, and leaves it.
    workflow.run("--rerun-incomplete", str(MODEL), "--config", "training={epochs: 41}", fails=True)
    said = (tmp_path / "logs" / "seed0" / "train.log").read_text()
    assert "belongs to other data or settings (different: training.epochs" in said
    assert state.exists()

    assert finished(workflow.run("--rerun-incomplete", str(MODEL))) == {"train": 1}
    assert not partial.exists()
    undisturbed = done.folder / MODEL
    names = sorted(path.name for path in undisturbed.iterdir())
    assert names == sorted(path.name for path in model.iterdir())
    assert {name: (model / name).read_bytes() for name in names} == {
        name: (undisturbed / name).read_bytes() for name in names
    }


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("genome=", "config: genome is missing; wanted: a genome FASTA (plain, gzip or bgzip)"),
        ("promoters={upstraem: 5}", "config: unknown setting promoters.upstraem; did you mean upstream?"),
        (
            "training={seeds: [0, x]}",
            'config: training.seeds.1 is "x"; wanted: a seed, a whole number from 0',
        ),
        (
            "contrasts=contrasts.tsv",
            "config: give either responses (one table of genes and treatments) or contrasts (a table that lists "
            "one file of results per treatment)",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(tmp_path, snakemake, setting, sentence):
    said = prepare(tmp_path, snakemake).run("--dry-run", "--config", setting, fails=True)
    assert sentence in said.splitlines()
    assert "Traceback" not in said


def test_contrasts_are_files_of_a_table(tmp_path, snakemake):
    """The table's files are inputs under the names it gives; what is wrong with a row is said."""
    workflow = prepare(tmp_path, snakemake)
    settings = json.loads((tmp_path / "config" / "config.yaml").read_text())
    del settings["responses"]
    (tmp_path / "config" / "config.yaml").write_text(json.dumps(settings | {"contrasts": "contrasts.tsv"}))
    for name in ("heat", "cold shock"):
        (tmp_path / f"{name}.tsv").touch()
    table = tmp_path / "contrasts.tsv"
    table.write_text("treatment\tfile\nheat\theat.tsv\ncold shock\tcold shock.tsv\n")
    said = workflow.run("--dry-run", "--printshellcmds", "results/dataset.h5")
    assert " heat=heat.tsv 'cold shock=cold shock.tsv' --output results/dataset.h5 " in said
    table.write_text("treatment\tfile\nheat\theat.tsv\nheat\tcold shock.tsv\n")
    assert "contrasts.tsv: treatment 'heat' stands there twice" in workflow.run("--dry-run", fails=True)
    table.write_text("treatment\tfile\nheat\n")
    said = workflow.run("--dry-run", fails=True)
    assert (
        "contrasts.tsv: row 1: file is missing; wanted: its table of results (DESeq2, edgeR or limma)" in said
    )


def test_a_model_for_every_seed(tmp_path, snakemake):
    """One dataset; every check compares with the maps of the other seeds."""
    workflow = prepare(tmp_path, snakemake)
    jobs = workflow.planned("--config", "training={seeds: [0, 1, 2]}")
    assert jobs == {rule: 1 if rule in {"promoters", "dataset"} else 3 for rule in ALL}
    said = workflow.run(
        "--dry-run", "--printshellcmds", "results/seed1/check.json", "--config", "training={seeds: [0, 1, 2]}"
    )
    assert "--other-model results/seed0/model --other-model results/seed2/model" in said


@pytest.mark.parametrize("workflow", ["promoters", "alignments"])
def test_lint_and_format(workflow, snakemake_folder):
    """As its authors would have it: run where the settings that come along lie."""
    folder = WORKFLOWS / workflow
    done = subprocess.run(
        [snakemake_folder / "snakemake", "--lint"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "in a good condition" in done.stdout
    subprocess.run([ROOT / ".venv-snakemake/bin/snakefmt", "--check", "."], cwd=folder, check=True)
