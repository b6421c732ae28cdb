"""The real MultiQC, in its own environment (`make install-multiqc`), finds our sections and shows them."""

import json
import subprocess
from pathlib import Path

import pytest

from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.checks.record import CheckRecord
from bioattn_cli.main import main

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "data" / "tiny"
MULTIQC = ROOT / ".venv-multiqc" / "bin" / "multiqc"

pytestmark = pytest.mark.skipif(not MULTIQC.is_file(), reason="no MultiQC here (make install-multiqc)")

HARMFUL = "<script>window.harmed=1</script>"
CHECK = CheckRecord(
    model_sha256="0" * 64,
    input_sha256="0" * 64,
    settings={"promoters": 60, "treatments": 3},
    verdict=Verdict(Code.POSITION_ONLY, f"It looks at {HARMFUL} positions.", caveats=[], rests_on=[]),
    measures=[
        Measure(name="used", label="used", value=1.0, passed=True, sentence=""),
        Measure(name="points", label="points", value=0.1, passed=False, sentence=""),
    ],
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder of a MultiQC report over two samples, whose figures lie in two folders."""
    folder = tmp_path_factory.mktemp("multiqc")

    def bioattn(*words):
        assert main([*map(str, words), "-q"]) == 0

    promoters, dataset, check = folder / "promoters.fa", folder / "x.dataset.h5", folder / "check.json"
    bioattn(
        "prepare", "promoters", TINY / "genome.fa", TINY / "annotation.gff3", "-o", promoters,
        "--upstream", "300", "--downstream", "0", "--overlap", "drop", "--flank", "10",
    )  # fmt: skip
    bioattn("prepare", "dataset", promoters, TINY / "responses.tsv", "-o", dataset)
    bioattn("train", "promoter", dataset, "-o", folder / "model", "--epochs", "2", "--threads", "1")
    check.write_text(json.dumps(CHECK.to_json()))
    bioattn(
        "report", promoters, dataset, folder / "model", check, "-o", folder / "one", "--title",
        f"first {HARMFUL}",
    )  # fmt: skip
    family = ROOT / "data" / "families" / "msa" / "simulated000000.a3m"
    bioattn("prepare", "msa", family, "-o", folder / "f.a3m", "--stats", folder / "f.json")
    model = ROOT / "data" / "models" / "evoformer-contacts"
    bioattn("run", "evoformer", folder / "f.a3m", "--model", model, "-o", folder / "f", "--threads", "1")
    bioattn(
        "report", folder / "f.json", folder / "f", model, promoters,
        "-o", folder / "two", "--title", "second",
    )  # fmt: skip
    done = subprocess.run(
        [MULTIQC, "--no-version-check", "-o", folder / "report", folder / "one", folder / "two"],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert "rror" not in done.stderr
    return folder / "report"


def test_every_section_is_found(report):
    found = json.loads((report / "multiqc_data" / "multiqc_data.json").read_text())
    plots = found["report_plot_data"]
    assert set(plots) >= {
        "bioattn_promoters_plot",
        "bioattn_datasets_table",
        "bioattn_loss_epoch_plot",
        "bioattn_loss_step_plot",
        "bioattn_accuracy_table",
        "bioattn_checks_table",
        "bioattn_alignments_table",
        "bioattn_predictions_table",
    }
    assert plots["bioattn_promoters_plot"]["plot_type"] == "bar plot"
    assert plots["bioattn_loss_epoch_plot"]["plot_type"] == "x/y line"
    lines = [line["name"] for line in plots["bioattn_loss_epoch_plot"]["datasets"][0]["lines"]]
    assert lines == [
        "first script window.harmed=1 script training",
        "first script window.harmed=1 script validation",
    ]


def test_figures_of_both_samples_stand_in_general_statistics(report):
    lines = (report / "multiqc_data" / "multiqc_general_stats.txt").read_text().splitlines()
    header, *rows = [line.split("\t") for line in lines]
    table = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
    first, second = table["first script window.harmed=1 script"], table["second"]
    kept = (report.parent / "promoters.fa").read_text().count(">")
    assert (
        first["custom_content_bioattn-promoters"] == second["custom_content_bioattn-promoters"] == str(kept)
    )
    assert first["custom_content_bioattn-verdict"] == "position-only"
    assert float(second["custom_content_bioattn-neff"]) > 1
    assert 0 < float(second["custom_content_bioattn-contact_probability"]) < 1


def test_the_page_shows_sections_and_versions_and_no_foreign_script(report):
    page = (report / "multiqc_report.html").read_text()
    for name in (
        "Attention checks",
        "Genes of the annotation: kept, trimmed, and dropped by reason",
        "Predictions from alignments",
    ):
        assert name in page
    assert HARMFUL not in page
    versions = (report / "multiqc_data" / "multiqc_software_versions.txt").read_text()
    assert "bioattn" in versions
