"""Small families in Python against what their commands write, each with a model of a few updates."""

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

import bioattn
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import decode
from tests.making import bioattn as command

PHYLOFORMER = Path(__file__).parents[2] / "data" / "phyloformer"
SHORT = "[training]\nsteps = 2\nsteps_per_round = 2\n"


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return path


def same_attention(maps, path, tmp_path):
    """Compare attention in memory, and what it is saved as, with a file of the command."""
    maps.save(tmp_path / "saved.h5")
    assert command("validate", tmp_path / "saved.h5") == 0
    with bioattn.open(path) as file, bioattn.open(tmp_path / "saved.h5") as saved:
        assert [*maps.sites] == [*file.sites] == [*saved.sites]
        assert maps.samples.index.tolist() == file.samples.index.tolist()
        for site in maps.sites:
            for sample in maps.samples.index:
                weights = maps.weights(site, sample=sample)
                np.testing.assert_allclose(weights, file.weights(site, sample=sample), atol=1e-5)
                np.testing.assert_array_equal(weights, saved.weights(site, sample=sample))


def test_molecules(short, tmp_path):
    pytest.importorskip("rdkit.Chem", reason="no RDKit here (pip install rdkit)")
    table, dataset = tmp_path / "made" / "molecules.tsv", tmp_path / "x.dataset.h5"
    assert command("simulate", "molecules", "--molecules", 60, "-o", tmp_path / "made") == 0
    assert command("prepare", "molecules", table, "--split", "random", "-o", dataset) == 0
    trained = bioattn.train("molecule", dataset, config=short, encoder="attention", threads=1)
    trained.save(tmp_path / "model")
    assert command("run", "molecule", tmp_path / "model", table, "-o", tmp_path / "out.tsv") == 0
    attention = tmp_path / "attention.h5"
    assert command("export", "attention", tmp_path / "model", table, "-o", attention) == 0
    written = pd.read_csv(tmp_path / "out.tsv", sep="\t", index_col="id", keep_default_na=False)
    model = bioattn.load_model(tmp_path / "model", threads=1)
    frame = pd.read_csv(table, sep="\t", index_col=0)
    for inputs in (table, frame[["smiles"]], dict(frame["smiles"])):
        pd.testing.assert_frame_equal(
            model.predict(inputs), written, check_dtype=False, check_names=False, rtol=1e-5
        )
    same_attention(model.attention(table), attention, tmp_path)
    (alone,) = model.predict("CCO")["smiles"]
    assert alone == "CCO"
    with pytest.warns(UserWarning, match="1 record without a prediction"):
        mixed = model.predict({"good one": "CCO", "bad": "C1CC"})
    assert np.isnan(mixed["activity"]).tolist() == [False, True]
    by_name = pd.DataFrame({"SMILES": {"a": "CCO ethanol", "b": None}, "other": 0})
    with pytest.warns(UserWarning, match="1 record without a prediction"):
        assert model.predict(by_name)["note"].tolist() == ["", "is empty"]
    with pytest.raises(BioattnError, match="no molecule can be used"):
        model.predict(str(table))
    with pytest.raises(BioattnError, match="'molecule_1' is of type ndarray; a sequence is text"):
        model.predict(np.zeros((2, 4, 9)))


def test_translation(short, tmp_path):
    words = ("--task", "reverse-complement", "--pairs", 60, "--longest", 10, "-o", tmp_path / "pairs")
    assert command("simulate", "translation", *words) == 0
    dna = ("--source-alphabet", "dna", "--target-alphabet", "dna", "--split", "record")
    assert command("prepare", "translation", tmp_path / "pairs", *dna, "-o", tmp_path / "x.h5") == 0
    bioattn.train("translation", tmp_path / "x.h5", output=tmp_path / "model", config=short, threads=1)
    sources = {"a": "ACGTTGCAAC", "b": "GGGTACC"}
    fasta = tmp_path / "new.fa"
    fasta.write_text("".join(f">{name}\n{letters}\n" for name, letters in sources.items()))
    targets = tmp_path / "targets.fa"
    targets.write_text(">a\nGTTGC\n>b\nGGT\n")
    run = ("run", "translation", tmp_path / "model", fasta)
    assert command(*run, "-o", tmp_path / "out.tsv", "--beam", 3, "--number", 2) == 0
    assert command(*run, "-o", tmp_path / "given.tsv", "--targets", targets) == 0
    assert (
        command("export", "attention", *run[2:], "-o", tmp_path / "attention.h5", "--targets", targets) == 0
    )
    model = bioattn.load_model(tmp_path / "model", threads=1)
    outputs = pd.read_csv(tmp_path / "out.tsv", sep="\t", index_col="id", keep_default_na=False)
    given = pd.read_csv(tmp_path / "given.tsv", sep="\t", index_col="id")
    for inputs in (fasta, sources):
        predicted = model.predict(inputs, beam=3, number=2)
        pd.testing.assert_frame_equal(predicted, outputs, check_dtype=False, rtol=1e-5)
        pd.testing.assert_frame_equal(model.score(inputs, targets), given, check_dtype=False, rtol=1e-5)
    maps = model.attention(sources, targets={"a": "GTTGC", "b": "GGT"})
    same_attention(maps, tmp_path / "attention.h5", tmp_path)
    with pytest.warns(UserWarning, match="1 source of 1 longer than"):
        model.predict("ACGT" * 12, length=3)


def test_phyloformer(tmp_path):
    pytest.importorskip("skbio", reason="no scikit-bio here (pip install scikit-bio)")
    parameters, alignment = PHYLOFORMER / "parameters.ckpt", PHYLOFORMER / "alignment.fa"
    run = ("run", "phyloformer", alignment, "--model", parameters)
    assert command(*run, "-o", tmp_path / "out", "--attention", tmp_path / "attention.h5") == 0
    model = bioattn.load_model(parameters, threads=1)
    written = pd.read_csv(tmp_path / "out" / "distances.tsv", sep="\t", index_col="sequence")
    rows = bioattn.open(alignment)
    named = {name: rows.row(row) for row, name in enumerate(rows.names)}
    for inputs in (alignment, str(alignment), named):
        pd.testing.assert_frame_equal(model.predict(inputs), written, check_dtype=False, atol=1e-5)
    for method in ("bme", "nj"):
        tree = tmp_path / "out" / f"{method}.nwk"
        assert bioattn.open(tree) == tree.read_text()
    maps = model.attention(alignment)
    same_attention(maps, tmp_path / "attention.h5", tmp_path)
    with bioattn.capture(model) as heard:
        model.predict(alignment)
    assert [*heard.sites] == [*maps.sites]
    for site in maps.sites:
        np.testing.assert_array_equal(heard.array(site, samples="1"), maps.array(site))
    with pytest.warns(UserWarning, match="of the cells are gaps"):
        model.predict({name: row[:-11] + "-" * 11 for name, row in named.items()})


def test_memory(short, tmp_path):
    facts = tmp_path / "facts.tsv"
    facts.write_text("story\tfact\ttext\ns\tf1\tA activates B\ns\tf2\tB activates C\nt\tf1\tC activates A\n")
    (tmp_path / "questions.tsv").write_text(
        "question\tstory\ttext\tanswer\nq1\ts\twhat A\tB\nq2\ts\twhat B\tC\nq3\tt\twhat C\tA\nq4\ts\twhat A\tC\n"
    )
    model = bioattn.train("memory", facts, output=tmp_path / "model", config=short, threads=1)
    run = ("run", "memory", tmp_path / "model", facts, "-o", tmp_path / "out.tsv")
    assert command(*run, "--attention", tmp_path / "attention.h5") == 0
    written = pd.read_csv(tmp_path / "out.tsv", sep="\t", index_col="question")
    pd.testing.assert_frame_equal(model.predict(facts), written, check_dtype=False, atol=1e-6)
    same_attention(model.attention(facts), tmp_path / "attention.h5", tmp_path)


def test_diffusion(short, tmp_path):
    random = np.random.default_rng(0)
    promoters = {f"g{gene}": decode(random.integers(0, 4, 24).astype(np.uint8)) for gene in range(60)}
    fasta = tmp_path / "promoters.fa"
    fasta.write_text("".join(f">{name}\n{letters}\n" for name, letters in promoters.items()))
    responses = ["gene\theat\tcold", *(f"{name}\t{n % 2}\t{n % 3 % 2}" for n, name in enumerate(promoters))]
    (tmp_path / "responses.tsv").write_text("\n".join(responses) + "\n")
    settings = ("--split", "random", "--task", "binary", "--threshold", 0.5, "-o", tmp_path / "x.h5")
    assert command("prepare", "dataset", fasta, tmp_path / "responses.tsv", *settings) == 0
    short.write_text(SHORT + '[model]\nchannels = 16\nstages = 2\ncondition = "cross"\n')
    model = bioattn.train("diffusion", tmp_path / "x.h5", output=tmp_path / "model", config=short, threads=1)
    wanted = ("-n", 3, "--treatment", "heat", "--steps", 4, "--seed", 2, "-o", tmp_path / "new.fa")
    assert command("generate", "promoters", tmp_path / "model", *wanted) == 0
    written = [line for line in (tmp_path / "new.fa").read_text().splitlines() if line[0] != ">"]
    assert model.generate(3, treatments="heat", steps=4, seed=2) == written
    few = dict(list(promoters.items())[:3])
    (tmp_path / "few.fa").write_text("".join(f">{name}\n{letters}\n" for name, letters in few.items()))
    output = tmp_path / "attention.h5"
    assert command("export", "attention", tmp_path / "model", tmp_path / "few.fa", "-o", output) == 0
    maps = model.attention(few)
    same_attention(maps, output, tmp_path)
    with h5py.File(output) as file, h5py.File(tmp_path / "saved.h5") as saved:
        np.testing.assert_allclose(saved["effect/values"], file["effect/values"], atol=1e-5)
