"""`bioattn.load_model` and `bioattn.open` against what the commands write, h5py, SciPy and planted truth."""

import gzip
import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.metrics import average_precision_score

import bioattn
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.python.opened import Attention, Attribution
from bioattn.simulate.truth import read_truth
from tests.making import bioattn as command


@pytest.fixture(scope="module")
def promoters(tmp_path_factory):
    """Simulated promoters, a model of them and what the commands write with it."""
    folder = tmp_path_factory.mktemp("promoters")
    sim = folder / "sim"
    simulation = ("--genes", 120, "--treatments", 2, "--length", 80, "--decoys", 0)
    assert command("simulate", "promoters", "-o", sim, *simulation) == 0
    windows = ("--upstream", 80, "--downstream", 0)
    fasta = folder / "promoters.fa"
    assert (
        command("prepare", "promoters", sim / "genome.fa", sim / "annotation.gff3", *windows, "-o", fasta)
        == 0
    )
    assert command("prepare", "dataset", fasta, sim / "responses.tsv", "-o", folder / "set.h5") == 0
    model = folder / "model"
    assert command("train", "promoter", folder / "set.h5", "-o", model, "--epochs", 1, "--no-baselines") == 0
    assert command("run", "promoter", model, fasta, "-o", folder / "predictions.tsv") == 0
    assert command("export", "attention", model, fasta, "-o", folder / "attention.h5") == 0
    genes = ("--genes", fasta.read_text().split()[0][1:])
    assert command("explain", "attribution", model, fasta, "-o", folder / "attribution.h5", *genes) == 0
    return folder


@pytest.fixture(scope="module")
def proteins(tmp_path_factory):
    """Simulated alignments, a model that has learnt next to nothing, and a prediction."""
    folder = tmp_path_factory.mktemp("proteins")
    depth = ("--min-depth", 20, "--max-depth", 24, "--min-length", 30, "--max-length", 32)
    assert command("simulate", "msa", "-o", folder / "sim", "--families", 2, *depth) == 0
    assert command("prepare", "contacts", folder / "sim" / "PAIRS.tsv", "-o", folder / "set.h5") == 0
    config = folder / "small.toml"
    config.write_text("[training]\ncrop = 16\n")
    model = folder / "model"
    assert command("train", "evoformer", folder / "set.h5", "-o", model, "--steps", 1, "-c", config) == 0
    alignment = next(iter(sorted((folder / "sim" / "msa").iterdir())))
    (folder / "family.a3m").write_bytes(alignment.read_bytes())
    run = ("run", "evoformer", folder / "family.a3m", "--model", model)
    assert command(*run, "-o", folder / "out") == 0
    assert command(*run, "-o", folder / "out2", "--attention", folder / "attention.h5") == 0
    return folder


def test_importing_loads_nothing_heavy():
    heavy = ["torch", "numpy", "pandas"]
    code = f"import sys, bioattn; print([each for each in {heavy} if each in sys.modules], dir(bioattn))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("[] ")
    assert "'load_model', 'open'" in out


def test_predictions_are_the_table_that_run_writes(promoters):
    model = bioattn.load_model(str(promoters / "model"))
    table = model.predict(promoters / "promoters.fa")
    written = pd.read_csv(promoters / "predictions.tsv", sep="\t", index_col="gene_id")
    pd.testing.assert_frame_equal(table, written)
    sequences = bioattn.open(promoters / "promoters.fa")
    pd.testing.assert_frame_equal(model.predict(sequences), written)
    few = list(sequences.items())[:3]
    records = [SeqRecord(Seq(sequence), id=name) for name, sequence in few]
    pd.testing.assert_frame_equal(model.predict(records), written.iloc[:3], atol=2e-6)
    unnamed = model.predict([sequence for _, sequence in few], treatments=["treatment2"])
    assert unnamed.index.tolist() == ["sequence_1", "sequence_2", "sequence_3"]
    np.testing.assert_allclose(unnamed["treatment2"], written["treatment2"].iloc[:3], atol=2e-6)
    assert unnamed.columns.tolist() == ["treatment2"]


def test_attention_has_the_axes_and_numbers_of_the_exported_file(promoters):
    maps = bioattn.load_model(promoters / "model").attention(promoters / "promoters.fa")
    labelled = maps.to_xarray()
    with h5py.File(promoters / "attention.h5") as file:
        site = file["sites/promoter.cross.0"]
        assert list(site.attrs["axes"]) == list(labelled.dims)
        np.testing.assert_array_equal(labelled, site["weights"])
        for axis in ("head", "key"):
            np.testing.assert_array_equal(labelled[axis], site[axis])
        assert labelled["sample"].values.tolist() == list(site["sample"].asstr())
    gene = maps.samples.index[5]
    some = maps.to_pandas(samples=[gene, maps.samples.index[2]], treatments="treatment2", head=1)
    assert some.index.names == ["sample", "key"]
    expected = labelled.sel(sample=gene, treatment="treatment2", head=1)
    np.testing.assert_array_equal(some.loc[gene], expected)
    np.testing.assert_array_equal(maps.array(samples=gene, treatments="treatment2", head=1), expected)
    path = maps.path
    maps.close()
    assert not path.parent.exists()


def _smoothed(weights, edges, length):
    profile = np.zeros(length)
    for weight, first, last in zip(weights, edges[:-1], edges[1:], strict=True):
        box = np.zeros(length)
        box[first:last] = weight / (last - first)
        profile += gaussian_filter1d(box, (last - first) / 2)
    return profile


def test_profiles_at_bases_are_smoothed_as_the_scores_are(promoters, tmp_path):
    attention, truth = promoters / "attention.h5", promoters / "sim" / "truth.tsv"
    score = tmp_path / "score.json"
    assert command("simulate", "score", attention, truth, "-o", score) == 0
    written = bioattn.open(score)["positives"]["treatment1"]
    profiles = bioattn.open(attention).at_bases().to_xarray()
    assert profiles["position"].values[[0, -1]].tolist() == [-80, -1]
    np.testing.assert_allclose(profiles.sum("position"), 1, rtol=1e-6)
    with h5py.File(attention) as file:
        site = file["sites/promoter.cross.0"]
        own = _smoothed(site["weights"][7, 1].mean(axis=0), site["key_edges"][:], 80)
    np.testing.assert_allclose(profiles[7, 1], own, rtol=1e-6)
    planted: dict[str, NDArray[np.bool_]] = {}
    for place in read_truth(truth):
        if place.treatment == "treatment1" and place.role == "causal":
            planted.setdefault(place.gene_id, np.zeros(80, bool))[place.start : place.end] = True
    scores = [
        average_precision_score(bases, profiles.sel(sample=gene, treatment="treatment1"))
        for gene, bases in planted.items()
    ]
    assert written["pairs"] == len(scores)
    assert written["auprc"] == pytest.approx(np.mean(scores), abs=2e-6)


def test_one_profile_has_positions_alone(promoters):
    with bioattn.open(promoters / "attention.h5") as attention:
        every = attention.at_bases().to_xarray()
        gene = attention.samples.index[4]
        one = attention.at_bases(samples=gene, treatments="treatment2")
        assert one.dims == ("position",)
        np.testing.assert_allclose(one, every.sel(sample=gene, treatment="treatment2"))
        backwards = attention.at_bases(samples=list(attention.samples.index[[9, 4]]), heads=[0])
        assert backwards.coordinates["sample"] == [attention.samples.index[9], gene]


def test_attribution(promoters):
    attribution = bioattn.open(promoters / "attribution.h5")
    assert isinstance(attribution, Attribution)
    values = attribution.to_xarray()
    gene = attribution.samples.index[0]
    sequence = bioattn.open(promoters / "promoters.fa")[gene]
    own = [values.sel(sample=gene, treatment="treatment1", base=base)[i] for i, base in enumerate(sequence)]
    np.testing.assert_array_equal(attribution.at_bases(samples=gene, treatments="treatment1"), own)
    assert attribution.to_pandas().index.names == ["sample", "treatment", "position", "base"]


def test_alignments(proteins):
    model = bioattn.load_model(proteins / "model", device="cpu")
    table = model.predict(proteins / "family.a3m")
    pd.testing.assert_frame_equal(table, pd.read_csv(proteins / "out" / "contacts.tsv", sep="\t"))
    alignment = bioattn.open(proteins / "family.a3m")
    rows = {name: alignment.row_with_insertions(row) for row, name in enumerate(alignment.names)}
    pd.testing.assert_frame_equal(model.predict(rows), table)
    several = model.predict(proteins / "sim" / "msa", recycles=0)
    assert set(several.index.get_level_values(0)) == {p.stem for p in (proteins / "sim" / "msa").iterdir()}
    maps = model.attention(proteins / "family.a3m", sites="evoformer.*.msa_row")
    assert list(maps.sites) == [
        site for site in model.sites if site.endswith("msa_row") and "extra" not in site
    ]
    labelled = maps.to_xarray("evoformer.00.msa_row")
    with h5py.File(proteins / "attention.h5") as file:
        np.testing.assert_array_equal(labelled, file["sites/evoformer.00.msa_row/s0000000/weights"])
    assert labelled["query"].values.tolist() == maps.columns(maps.samples.index[0]).tolist()
    with pytest.raises(BioattnError, match="holds attention over alignments; one over promoters is needed"):
        maps.at_bases()
    with pytest.raises(BioattnError, match=r"holds several sites; name one: evoformer\.00"):
        maps.array()


def test_what_open_gives(promoters, proteins, tmp_path):
    dataset = bioattn.open(promoters / "set.h5")
    responses = bioattn.open(promoters / "sim")["responses.tsv"]
    assert responses.index.name == "gene_id"
    np.testing.assert_allclose(dataset.targets, responses.loc[dataset.gene_ids], rtol=1e-6)
    assert bioattn.open(promoters / "model").sites == ["promoter.cross.0"]
    assert isinstance(bioattn.open(promoters / "attention.h5"), Attention)
    assert len(bioattn.open(proteins / "set.h5")) == 2
    output = bioattn.open(proteins / "out")
    assert set(output) == {path.name for path in (proteins / "out").iterdir()}
    assert output["scores.json"]["rows"] == bioattn.open(proteins / "family.a3m").num_rows
    distances = output["distogram.h5"]
    best = output["contacts.tsv"].iloc[0]
    pair = int(best["column_i"]) - 1, int(best["column_j"]) - 1
    assert distances.contact_probability[pair] == pytest.approx(best["probability"], abs=1e-5)
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(b"gene_id,heat\nG1,0.1\nG1,0.2\n"))
    assert bioattn.open(tmp_path / "table.csv.gz").values.tolist() == [["G1", 0.1], ["G1", 0.2]]


def test_what_cannot_be_done_is_said(promoters, tmp_path):
    model = bioattn.load_model(promoters / "model")
    fasta = promoters / "promoters.fa"
    for options, sentence in [
        (
            {"treatment": ["heat"]},
            "no option 'treatment' here; there are treatments, treatment_table, treatment_weights, batch_size",
        ),
        ({"batch_size": "4"}, "batch_size='4': a value of type int is needed"),
    ]:
        with pytest.raises(SettingsError, match=sentence):
            model.predict(fasta, **options)
    with pytest.raises(SettingsError, match="dtype='half': one of float32, float16 is needed"):
        model.attention(fasta, dtype="half")
    with pytest.raises(FormatError, match=r"^the sequences:1: record 'sequence_1', position 2: '!'"):
        model.predict(["A!"])
    with pytest.raises(BioattnError, match="the name 'my gene' is empty or holds a space"):
        model.predict({"my gene": "ACGT"})
    with pytest.raises(BioattnError, match="the model holds no such treatment"):
        model.attention(fasta, treatments=["sun"])
    with pytest.raises(BioattnError, match="torch sees no such device here"):
        bioattn.load_model(promoters / "model", device="mps")
    with pytest.raises(KeyError, match="holds no 'nothing'"):
        bioattn.open(promoters / "sim")["nothing"]
    (tmp_path / "x").write_bytes(b"\0\1\2")
    with pytest.raises(BioattnError, match="is none of the files bioattn reads or writes"):
        bioattn.open(tmp_path / "x")
