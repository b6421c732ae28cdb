"""Promoter models in Python against what the commands write, h5py, SciPy and planted truth."""

import io
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from Bio import SeqIO
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord
from scipy.ndimage import gaussian_filter1d

import bioattn
from bioattn.errors import BioattnError, FormatError, SettingsError
from tests.making import bioattn as command

BASES = "ACGTN"


@pytest.fixture(scope="module")
def model(promoters):
    return bioattn.load_model(promoters / "model", threads=1)


@pytest.fixture(scope="module")
def sequences(promoters):
    return bioattn.open(promoters / "promoters.fa")


@pytest.fixture(scope="module")
def written(promoters):
    return pd.read_csv(promoters / "predictions.tsv", sep="\t", index_col="gene_id")


def one_hot(sequences):
    codes = np.array([[BASES.index(base) for base in sequence] for sequence in sequences])
    return np.moveaxis(np.eye(5)[codes][..., :4], 2, 1)


def test_importing_loads_nothing_heavy():
    heavy = ["torch", "numpy", "pandas"]
    code = f"import sys, bioattn; print([name for name in {heavy} if name in sys.modules], dir(bioattn))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("[] ")
    assert out[3:].strip() == str(["__version__", "capture", "load_model", "open", "plot", "train"])


def test_records_of_biopython_keep_what_their_description_says(model, sequences, written):
    """Flanks are no part of the window, also in a mutant; a record of another length is read as if without."""
    name, sequence = next(iter(sequences.items()))
    text = f">{name} chr1:100-{100 + len(sequence)}(+) flank=5 downstream=0\nACGTA{sequence}TTTTT\n"
    record = next(SeqIO.parse(io.StringIO(text), "fasta"))
    with warnings.catch_warnings(action="error"):
        for inputs in (record, [record], {name: record}, SeqIO.parse(io.StringIO(text), "fasta")):
            np.testing.assert_allclose(model.predict(inputs), written.iloc[:1], atol=2e-6)
        mutant = sequence[:9] + ("A" if sequence[9] != "A" else "C") + sequence[10:]
        record.seq = Seq(f"ACGTA{mutant}TTTTT")
        np.testing.assert_allclose(model.predict(record), model.predict(mutant), atol=2e-6)
    with pytest.warns(UserWarning, match="do not say where position 0 is"):
        longer = model.predict(record + "A")
    np.testing.assert_allclose(longer, model.predict(f"{mutant}TTTTTA"[-len(sequence) :]), atol=2e-6)


def test_predictions_are_the_table_that_run_writes(promoters, model, sequences, written):
    for inputs in (promoters / "promoters.fa", str(promoters / "promoters.fa"), sequences):
        pd.testing.assert_frame_equal(model.predict(inputs), written, check_dtype=False, rtol=1e-6)
    first = dict(list(sequences.items())[:3])
    expected = written.iloc[:3]
    table = pd.DataFrame({"gene_id": list(first), "sequence": list(first.values())})
    for named in (
        [SeqRecord(Seq(sequence), id=name) for name, sequence in first.items()],
        pd.Series(first),
        {name: sequence.encode() for name, sequence in first.items()},
        table,
        table.set_index("gene_id"),
        table.rename(columns={"sequence": "Sequence"}),
        table.rename(columns={"gene_id": "locus_tag"}).assign(note="a note", strain="K-12").iloc[:, ::-1],
        table.rename(columns={"gene_id": "locus_tag"}).set_axis([7, 4, 9]),  # rows that a filter left
        pd.concat([table.add_prefix("locus_"), table[["sequence"]], table.add_prefix("locus_")], axis=1),
        dict(zip(first, one_hot(first.values()), strict=True)),
    ):
        pd.testing.assert_frame_equal(model.predict(named), expected, check_dtype=False, atol=2e-6)
    hot = one_hot(first.values())
    for unnamed in (
        list(first.values()),
        pd.Series(first.values()),
        hot,
        list(hot.astype(np.int64)),
        np.moveaxis(hot, 1, 2).astype(np.int8),
        torch.tensor(hot, dtype=torch.bfloat16, requires_grad=True),
        np.array([[BASES.index(base) for base in sequence] for sequence in first.values()]),
    ):
        predicted = model.predict(unnamed, treatments="treatment2")
        assert predicted.index.tolist() == ["sequence_1", "sequence_2", "sequence_3"]
        np.testing.assert_allclose(predicted["treatment2"], expected["treatment2"], atol=2e-6)
    for alone in (next(iter(first.values())), hot[0], hot[0].T.astype(np.int64)):
        np.testing.assert_allclose(model.predict(alone).loc["sequence_1"], expected.iloc[0], atol=2e-6)
    chosen = model.attention(first, treatments=(name for name in ["treatment2"]))
    assert chosen.treatments == ["treatment2"]


def test_attention_has_the_axes_and_numbers_of_the_exported_file(promoters, model, sequences, tmp_path):
    maps = model.attention(promoters / "promoters.fa")
    labelled = maps.to_xarray()
    maps.save(tmp_path / "saved.h5")
    for path in (promoters / "attention.h5", tmp_path / "saved.h5"):
        assert command("validate", path) == 0
        with h5py.File(path) as file, bioattn.open(path) as opened:
            site = file["sites/promoter.cross.0"]
            assert [name.decode() for name in site.attrs["axes"]] == list(labelled.dims)
            np.testing.assert_allclose(labelled, site["weights"], atol=1e-6)
            for axis in ("head", "key"):
                np.testing.assert_array_equal(labelled[axis], site[axis])
            assert labelled["sample"].values.tolist() == list(site["sample"].asstr())
            assert labelled["treatment"].values.tolist() == list(site["treatment"].asstr())
            pd.testing.assert_frame_equal(opened.samples, maps.samples)
            pd.testing.assert_frame_equal(opened.predictions(), maps.predictions(), atol=1e-6)
            np.testing.assert_array_equal(opened.positions, maps.positions)
        with pytest.raises(BioattnError, match="was closed; open it again"):
            opened.array()
    gene, other = maps.samples.index[5], maps.samples.index[2]
    some = maps.to_pandas(samples=[gene, other], treatments="treatment2", head=1)
    assert some.index.names == ["sample", "key"]
    expected = labelled.sel(sample=gene, treatment="treatment2", head=1)
    np.testing.assert_array_equal(some.loc[gene], expected)
    np.testing.assert_array_equal(maps.array(samples=gene, treatments="treatment2", head=1), expected)
    np.testing.assert_array_equal(maps.to_xarray(samples=slice(2, 4)), labelled[2:4])
    single = model.attention({gene: sequences[gene]})
    np.testing.assert_allclose(single.to_xarray().sel(sample=gene), labelled.sel(sample=gene), atol=1e-6)
    np.testing.assert_array_equal(single.positions, np.arange(-80, 0))


@pytest.mark.parametrize(
    ("choices", "options"),
    [
        ({"reduce": "mean-heads", "dtype": "float16"}, ("--reduce", "mean-heads", "--dtype", "float16")),
        ({"reduce": "top-k", "top_k": 3}, ("--reduce", "top-k", "--top-k", 3)),
        ({"heads": [2, 0], "value_weighted": True}, ("--heads", "2,0", "--value-weighted")),
        ({"phases": 2, "treatments": ["treatment2"]}, ("--phases", 2, "--treatment", "treatment2")),
    ],
)
def test_choices_are_those_of_the_command(promoters, model, tmp_path, choices, options):
    output = tmp_path / "attention.h5"
    run = ("export", "attention", promoters / "model", promoters / "promoters.fa", "-o", output)
    assert command(*run, *options) == 0
    maps = model.attention(promoters / "promoters.fa", **choices)
    with bioattn.open(output) as file:
        (info,), (other,) = maps.sites.values(), file.sites.values()
        assert (info.dims, info.shape, info.heads) == (other.dims, other.shape, other.heads)
        np.testing.assert_allclose(maps.to_xarray(), file.to_xarray(), atol=1e-3)
        weighted = {"value_weighted": True} if choices.get("value_weighted") else {}
        np.testing.assert_allclose(maps.array(**weighted), file.array(**weighted), atol=1e-3)


def _smoothed(weights, edges, length):
    profile = np.zeros(length)
    for weight, first, last in zip(weights, edges[:-1], edges[1:], strict=True):
        box = np.zeros(length)
        box[first:last] = weight / (last - first)
        profile += gaussian_filter1d(box, (last - first) / 2)
    return profile


def test_profiles_at_bases_are_smoothed_as_by_scipy(promoters, model):
    attention = promoters / "attention.h5"
    maps = model.attention(promoters / "promoters.fa")
    profiles = maps.at_bases().to_xarray()
    assert profiles["position"].values[[0, -1]].tolist() == [-80, -1]
    np.testing.assert_allclose(profiles.sum("position"), 1, rtol=1e-6)
    np.testing.assert_allclose(profiles, bioattn.open(attention).at_bases(), atol=1e-6)
    with h5py.File(attention) as file:
        site = file["sites/promoter.cross.0"]
        own = _smoothed(site["weights"][7, 1].mean(axis=0), site["key_edges"][:], 80)
    np.testing.assert_allclose(profiles[7, 1], own, atol=1e-6)
    genes = maps.samples.index[[9, 4]]
    one = maps.at_bases(samples=genes[1], treatments="treatment2")
    assert one.dims == ("position",)
    np.testing.assert_allclose(one, profiles.sel(sample=genes[1], treatment="treatment2"))
    assert maps.at_bases(samples=list(genes), heads=[0]).coordinates["sample"] == genes.tolist()


def test_a_gene_is_known_by_its_common_name(model, sequences, tmp_path):
    gene, sequence = next(iter(sequences.items()))
    path = tmp_path / "named.fa"
    path.write_text(f">{gene} chr1:0-{len(sequence)}(+) name=ABC1\n{sequence}\n")
    maps = model.attention(path)
    np.testing.assert_array_equal(maps.at_bases(samples="ABC1"), maps.at_bases(samples=gene))


def test_attribution_is_that_of_the_command(promoters, model, sequences, tmp_path):
    attribution = bioattn.open(promoters / "attribution.h5")
    gene = attribution.samples.index[0]
    held = model.attribute({gene: sequences[gene]})
    np.testing.assert_allclose(held.array(), attribution.array(), atol=1e-6)
    held.save(tmp_path / "saved.h5")
    assert command("validate", tmp_path / "saved.h5") == 0
    values = held.to_xarray()
    assert values.dims == ("sample", "treatment", "position", "base")
    own = [values.sel(sample=gene, treatment="treatment1", base=b)[i] for i, b in enumerate(sequences[gene])]
    np.testing.assert_array_equal(held.at_bases(samples=gene, treatments="treatment1"), own)
    drawn = [
        bioattn.plot(given, gene=gene, treatment="treatment1", attribution=parts)
        for given, parts in (
            (model.attention({gene: sequences[gene]}), held),
            (promoters / "attention.h5", promoters / "attribution.h5"),
        )
    ]
    (one, *_), (other, *_) = (figure.axes for figure in drawn)
    np.testing.assert_allclose(one.lines[0].get_ydata(), other.lines[0].get_ydata(), atol=1e-6)
    fasta = promoters / "promoters.fa"
    bioattn.plot([model.attention(fasta), fasta], gene=gene, treatment="treatment1")
    with pytest.raises(BioattnError, match="not the window"):
        bioattn.plot([model.attention({gene: sequences[gene]}), fasta], gene=gene, treatment="treatment1")
    gaps = model.attribute({gene: sequences[gene]}, method="integrated-gradients", steps=64)
    assert np.abs(gaps.completeness_gap()).to_numpy().max() < 0.1


def test_training_gives_the_model_of_the_command(promoters, written, tmp_path, caplog):
    caplog.set_level("INFO", "bioattn")
    settings = {"epochs": 1, "baselines": False, "model": {"reader": "hidden"}}
    with pytest.warns(UserWarning, match="do not point at what the predictions depend on"):
        model = bioattn.train("promoter", promoters / "set.h5", threads=1, **settings)
    assert "epoch 1/1: training loss" in caplog.text
    predicted = model.predict(promoters / "promoters.fa")
    pd.testing.assert_frame_equal(predicted, written, check_dtype=False, rtol=1e-6)
    model.save(tmp_path / "model")
    for name in ("model.safetensors", "training.json", "README.md"):
        assert (tmp_path / "model" / name).read_bytes() == (promoters / "model" / name).read_bytes()
    assert command("validate", tmp_path / "model") == 0
    with pytest.raises(BioattnError, match="exists already"):
        model.save(tmp_path / "model")
    with torch.no_grad():
        next(model.model.parameters()).zero_()
    model.save(tmp_path / "model", force=True)
    assert not (tmp_path / "model" / "training.json").exists()
    again = bioattn.load_model(tmp_path / "model").predict(promoters / "promoters.fa")
    pd.testing.assert_frame_equal(again, model.predict(promoters / "promoters.fa"))


def test_a_check_is_that_of_the_command(promoters, model, sequences, tmp_path):
    run = ("explain", "check", promoters / "model", promoters / "promoters.fa", "-o", tmp_path / "check.json")
    assert command(*run, "--samples", 20) == 0
    report = model.check(sequences, samples=20).to_json()
    by_command = bioattn.open(tmp_path / "check.json")
    in_memory, of_file = (each["verdict"].pop("next") for each in (report, by_command))
    path = str(promoters / "promoters.fa")
    assert in_memory == [line.replace(path, "INPUT") for line in of_file]
    assert report["verdict"] == by_command["verdict"]
    for one, other in zip(report["measures"], by_command["measures"], strict=True):
        assert one["value"] == pytest.approx(other["value"], abs=1e-4)


@pytest.mark.parametrize("method", ["ism", "gradient-input"])
def test_neither_settings_of_torch_nor_threads_change_results(model, sequences, method):
    parts = [dict(list(sequences.items())[first : first + 4]) for first in range(0, 16, 4)]

    def results(part):
        return model.attention(part).array().values, model.attribute(part, method=method).array().values

    expected = [results(part) for part in parts]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(results, parts))
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), torch.device("meta"), torch.autocast("cpu", torch.bfloat16):
            found += [results(parts[0])]
            assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    for one, other in zip(found, [*expected, expected[0]], strict=True):
        np.testing.assert_allclose(one[0], other[0], atol=1e-6)
        np.testing.assert_allclose(one[1], other[1], atol=1e-6)


def test_capture_hears_any_forward_pass(model, sequences):
    gene, other = list(sequences)[:2]
    codes = torch.tensor([[BASES.index(base) for base in sequences[name]] for name in (gene, other)])
    treatments = model.encode_treatments(model.treatments)
    with torch.inference_mode(), bioattn.capture(model, "*.cross.*") as maps:
        for row in codes.to(torch.uint8):
            model.model(row[None], treatments)
    expected = model.attention([sequences[gene], sequences[other]])
    np.testing.assert_allclose(maps.array(), expected.array(), atol=1e-6)
    assert maps.samples.index.tolist() == ["1", "2"]


def test_nothing_is_left_open(promoters, python):
    code = f"""
import warnings; warnings.simplefilter("error")
import bioattn, pathlib, gc
folder = pathlib.Path({str(promoters)!r})
model = bioattn.load_model(folder / "model")
fasta = folder / "promoters.fa"
model.predict(fasta), model.attention(fasta).at_bases(), model.attention({{"a": "A" * 80}}).to_xarray()
model.attribute({{"a": "A" * 80}}), bioattn.open(fasta), bioattn.open(folder / "attention.h5").array()
gc.collect()
"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_python_warns_of_what_the_shell_warns_of(promoters, model):
    with pytest.warns(UserWarning, match="1 of 1 promoters do not fill the model's 80 bases") as caught:
        model.predict({"a": "ACGT"})
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="cut to their end, as they do not say where position 0 is"):
        model.predict("ACGT" * 21)


def test_what_cannot_be_done_is_said(promoters, model, tmp_path):
    fasta = promoters / "promoters.fa"
    with pytest.raises(SettingsError, match="dtype='half': one of float32, float16 is needed"):
        model.attention(fasta, dtype="half")
    with pytest.raises(FormatError, match=r"^the sequences: 'sequence_1', position 2: '!'"):
        model.predict(["A!"])
    for lost in ("lost.fa", "my lost.fa"):
        with pytest.raises(BioattnError, match=rf"^{lost}: is no sequence, and there is no such file"):
            model.predict(lost)
    with pytest.raises(FormatError, match="'a' is of type float; a sequence is text"):
        model.predict(pd.DataFrame({"sequence": {"a": np.nan}}))
    with pytest.raises(SettingsError, match="batch_size is -1; it must be at least 1"):
        model.attention(fasta, batch_size=-1)
    with pytest.raises(SettingsError, match="seed is -1; it must be at least 0"):
        bioattn.train("promoter", promoters / "set.h5", seed=-1)
    with pytest.raises(SettingsError, match="--top-k is for --reduce top-k"):
        model.attention(fasta, top_k=3)
    with pytest.raises(FormatError, match="either axis can be that of the bases"):
        model.predict(np.zeros((2, 4, 4)))
    with pytest.raises(FormatError, match="has a single 1 at each position"):
        model.predict(np.full((2, 4, 80), 0.25))
    with pytest.raises(FormatError, match="codes are 0 to 4"):
        model.predict(np.full((2, 80), 7))
    with pytest.raises(BioattnError, match="the model holds no such treatment"):
        model.attention(fasta, treatments=["sun"])
    with pytest.raises(
        SettingsError, match="no setting 'epoch' here; there are baselines, check, conditioning"
    ):
        bioattn.train("promoter", promoters / "set.h5", epoch=1)
    (tmp_path / "x").write_bytes(b"\0\1\2")
    with pytest.raises(BioattnError, match="is none of the files bioattn reads or writes"):
        bioattn.open(tmp_path / "x")
