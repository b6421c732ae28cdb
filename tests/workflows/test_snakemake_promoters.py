"""The Snakemake workflow from a genome to a report, run on `data/tiny` by the real Snakemake."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from safetensors import safe_open

from bioattn_cli.main import main
from tests.conftest import made_once
from tests.workflows.conftest import ROOT, WORKFLOWS, finished

MODEL = Path("results/seed0/model")
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
    """The workflow after its first run, in a copy that may change."""

    def make(folder):
        assert set(finished(prepare(folder, snakemake).run())) == ALL

    folder = tmp_path_factory.mktemp("promoters")
    shutil.copytree(made_once(tmp_path_factory, "promoters", make), folder, symlinks=True, dirs_exist_ok=True)
    return snakemake("promoters", folder)


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
    assert finished(workflow.run("--rerun-incomplete", str(MODEL))) == {"train": 1}
    assert not partial.exists()
    weights = "model.safetensors"
    assert (model / weights).read_bytes() == (done.folder / MODEL / weights).read_bytes()


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("genome=", "config: genome is missing; wanted: a genome FASTA (plain, gzip or bgzip)"),
        ("promoters={upstraem: 5}", "config: unknown setting promoters.upstraem; did you mean upstream?"),
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
