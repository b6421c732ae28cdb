"""Models of promoters and of alignments, and what the commands write with them."""

import pytest

from tests.making import bioattn as command

ONE_NETWORK = ("--epochs", 1, "--no-baselines", "-c", "model.reader=hidden")


@pytest.fixture(scope="session")
def promoters(tmp_path_factory):
    """Simulated promoters, a model of them and what the commands write with it."""
    folder = tmp_path_factory.mktemp("promoters")
    sim = folder / "sim"
    simulation = ("--genes", 120, "--treatments", 2, "--length", 80, "--decoys", 0)
    assert command("simulate", "promoters", "-o", sim, *simulation) == 0
    windows = ("--upstream", 80, "--downstream", 0)
    fasta = folder / "promoters.fa"
    made = ("prepare", "promoters", sim / "genome.fa", sim / "annotation.gff3", *windows, "-o", fasta)
    assert command(*made) == 0
    assert command("prepare", "dataset", fasta, sim / "responses.tsv", "-o", folder / "set.h5") == 0
    model = folder / "model"
    assert command("train", "promoter", folder / "set.h5", "-o", model, *ONE_NETWORK) == 0
    assert command("run", "promoter", model, fasta, "-o", folder / "predictions.tsv") == 0
    assert command("export", "attention", model, fasta, "-o", folder / "attention.h5") == 0
    genes = ("--genes", fasta.read_text().split()[0][1:])
    assert command("explain", "attribution", model, fasta, "-o", folder / "attribution.h5", *genes) == 0
    return folder
