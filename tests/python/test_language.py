"""Language models in Python against what the commands write."""

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

import bioattn
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.models.language.config import Shape
from bioattn.models.language.model import LanguageModel
from tests.making import bioattn as command
from tests.models.language.made_models import make_config, saved

SEQUENCES = {"one": "ACGTTGCAACGTN", "two": "GGGTTTACAACA", "long": "ACGTTCA" * 8}


@pytest.fixture(scope="module", params=["encoder", "decoder"])
def folder(request, tmp_path_factory):
    """An untrained model of DNA, a FASTA, and what the commands write."""
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    config = make_config(Shape(request.param), hidden_channels=32, context=40)
    saved(folder / "model", LanguageModel(config))
    (folder / "x.fa").write_text("".join(f">{name}\n{letters}\n" for name, letters in SEQUENCES.items()))
    (folder / "variants.tsv").write_text("sequence\tmutant\none\tA1C\ntwo\tG2T:G3A\n")
    run = ("run", "language", folder / "model", folder / "x.fa")
    assert command(*run, "-o", folder / "scores.tsv", "--embeddings", folder / "embeddings.h5") == 0
    assert command(*run, "-o", folder / "variants.out.tsv", "--variants", folder / "variants.tsv") == 0
    assert command("export", "attention", *run[2:], "-o", folder / "attention.h5") == 0
    return folder


def test_a_check_of_sequences_is_that_of_their_file(folder, tmp_path):
    random = np.random.default_rng(0)
    sequences = {f"s{number}": "".join(random.choice(list("ACGT"), 30)) for number in range(24)}
    (tmp_path / "s.fa").write_text("".join(f">{name}\n{text}\n" for name, text in sequences.items()))
    model = bioattn.load_model(folder / "model", threads=1)
    of_file, of_sequences = (model.check(inputs, samples=20) for inputs in (tmp_path / "s.fa", sequences))
    assert of_file.measures
    assert (of_sequences.measures, of_sequences.skipped) == (of_file.measures, of_file.skipped)


def test_tables_are_those_of_the_commands(folder):
    model = bioattn.load_model(folder / "model", threads=1)
    written = pd.read_csv(folder / "scores.tsv", sep="\t", index_col="id")
    codes = np.array([["ACGTN".index(base) for base in SEQUENCES["one"]]])
    for inputs in (folder / "x.fa", SEQUENCES, pd.DataFrame({"id": SEQUENCES, "sequence": SEQUENCES})):
        inputs = inputs.assign(id=inputs.index) if isinstance(inputs, pd.DataFrame) else inputs
        pd.testing.assert_frame_equal(model.predict(inputs), written, rtol=1e-6)
    for one in (SEQUENCES["one"], codes):
        np.testing.assert_allclose(model.predict(one).iloc[0], written.loc["one"], rtol=1e-5)
    scores = model.score_variants(SEQUENCES, folder / "variants.tsv")
    variants = pd.read_csv(folder / "variants.out.tsv", sep="\t")
    pd.testing.assert_frame_equal(scores, variants, atol=1e-5)
    table = variants.loc[::-1, ["mutant", "sequence"]]  # whose rows keep their names
    pd.testing.assert_frame_equal(model.score_variants(SEQUENCES, table), scores[::-1])
    of_one = scores[scores["sequence"] == "one"]
    again = model.score_variants({"one": SEQUENCES["one"]}, list(of_one["mutant"]))
    pd.testing.assert_frame_equal(again, of_one.reset_index(drop=True))
    with pytest.raises(FormatError, match=r"variants:2: .*write old letter"):
        model.score_variants({"one": SEQUENCES["one"]}, [of_one["mutant"].iloc[0], "p.Val1"])
    with h5py.File(folder / "embeddings.h5") as file:
        np.testing.assert_allclose(model.embed(folder / "x.fa"), file["values"], atol=1e-6)
    with pytest.warns(UserWarning, match="the sequences: none: no word that the model could be asked for"):
        model.predict({"none": "NNN"})
    with pytest.raises(SettingsError, match="window is 0; it must be at least 8"):
        model.predict(SEQUENCES, window=0)


def test_attention_is_that_of_the_command(folder, tmp_path):
    model = bioattn.load_model(folder / "model", threads=1)
    maps = model.attention(SEQUENCES)
    maps.save(tmp_path / "saved.h5")
    assert command("validate", tmp_path / "saved.h5") == 0
    with bioattn.open(folder / "attention.h5") as file, bioattn.open(tmp_path / "saved.h5") as saved:
        assert [*maps.sites] == [*file.sites] == [*saved.sites] == [*model.sites]
        assert maps.samples.index.tolist() == file.samples.index.tolist()
        assert maps.samples.index[2] == "long:0-39"
        for site in maps.sites:
            for sample in maps.samples.index:
                weights = maps.weights(site, sample=sample)
                np.testing.assert_allclose(weights, file.weights(site, sample=sample), atol=1e-6)
                np.testing.assert_array_equal(weights, saved.weights(site, sample=sample))
                np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    with bioattn.capture(model) as heard:
        model.embed(SEQUENCES["one"])
    for site in maps.sites:
        weights = maps.weights(site, sample="one")
        np.testing.assert_allclose(heard.array(site, samples="1"), weights, atol=1e-6)
    with pytest.raises(BioattnError, match="differ in sites or in the lengths"), bioattn.capture(model):
        assert [len(model.embed(each)) for each in ("ACG", "ACGT")] == [1, 1]


def test_new_sequences_are_those_of_the_command(folder, tmp_path):
    model = bioattn.load_model(folder / "model", threads=1)
    if folder.name.startswith("encoder"):
        with pytest.raises(BioattnError, match="sequences are drawn from a decoder"):
            model.generate()
        return
    options = ("-n", 3, "--prompt", "ACG", "--seed", 4)
    assert command("generate", "language", folder / "model", "-o", tmp_path / "new.fa", *options) == 0
    written = (tmp_path / "new.fa").read_text().split()[1::2]
    assert model.generate(3, prompt="ACG", seed=4) == written
