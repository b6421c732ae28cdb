"""A language model through the commands: dataset, training, scores, embeddings, attention, new sequences."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.formats.fasta import read_fasta
from bioattn.models.language.file_kinds import read_embeddings
from bioattn.models.language.folder import load_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.source import read_tokens
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.models.language.made_models import log_likelihoods, make_config, saved

SETTINGS = """
[model]
layers = 2
channels = 32
num_heads = 2
hidden_channels = 64
context = 40
[training]
steps = 120
steps_per_round = 40
batch_size = 8
validation_windows = 16
learning_rate = 5e-3
average_decay = 0.9
"""
UNIT = "ACGT"
"""Its other strand reads the same."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Genes that repeat four bases, from any of them on: the next base follows from those before."""
    folder = tmp_path_factory.mktemp("language")
    random = np.random.default_rng(0)
    lines = []
    for number in range(60):
        first, length = random.integers(4), random.integers(30, 60)
        lines.append(f">g{number}\n{(UNIT * 16)[first : first + length]}\n")
    (folder / "genes.fa").write_text("".join(lines))
    (folder / "few.fa").write_text("".join(f">s{n}\n{(UNIT * 7)[n : n + 20 + n]}\n" for n in range(3)))
    (folder / "settings.toml").write_text(SETTINGS)
    words = ("prepare", "language", folder / "genes.fa", "-o", folder / "x.dataset.h5", "--split", "record")
    assert bioattn(*words) == 0
    return folder


@pytest.fixture(scope="module", params=["encoder", "decoder", "encoder-decoder"])
def model(request: pytest.FixtureRequest, folder: Path) -> Path:
    """A trained model of each shape."""
    output = folder / request.param
    settings = ("--config", folder / "settings.toml")
    assert (
        bioattn("train", "language", folder / "x.dataset.h5", "-o", output, "--shape", output.name, *settings)
        == 0
    )
    return output


def test_training_learns_the_repeat(model: Path):
    record = json.loads((model / "training.json").read_text())
    rows = {(row["side"], row["name"]): row for row in record["evaluation"]}
    # Equal odds of four bases are 2 bits; masked tokens take longer to learn than next ones.
    most = {"encoder": 1.6, "decoder": 0.4, "encoder-decoder": 1.8}[model.name]
    assert rows["test", "this model"]["bits"] < most
    if model.name != "encoder-decoder":
        assert any(name.startswith("counts of ") for _, name in rows)


def test_scores_are_those_of_the_model(model: Path, folder: Path):
    table, vectors = folder / f"{model.name}.tsv", folder / f"{model.name}.h5"
    assert bioattn("run", "language", model, folder / "few.fa", "-o", table, "--embeddings", vectors) == 0
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0] == ["id", "words", "log_likelihood", "bits_per_word", "perplexity"]
    loaded = load_language_model(model, torch.device("cpu"))
    source = read_tokens(folder / "few.fa", loaded.vocabulary, loaded.config.context)
    values = read_embeddings(vectors)
    assert values.index.tolist() == [row[0] for row in rows[1:]] == ["s0", "s1", "s2"]
    for tokens, row, own in zip(source.items, rows[1:], values.to_numpy(), strict=True):
        assert int(row[1]) == len(tokens) - 2
        assert float(row[3]) == pytest.approx(-float(row[2]) / np.log(2) / int(row[1]), rel=1e-5)
        with torch.no_grad():
            tokens_1L = torch.from_numpy(tokens)[None]
            both = model.name == "encoder-decoder"
            hidden = loaded.model.encode(tokens_1L) if both else loaded.model.hidden(tokens_1L)
            assert np.allclose(own, hidden[0, 1:-1].mean(0), atol=1e-5)
            if model.name == "decoder":
                likely = loaded.model(tokens_1L)[0].log_softmax(-1)
                total = sum(likely[place, tokens[place + 1]].item() for place in range(len(tokens) - 2))
                assert float(row[2]) == pytest.approx(total, rel=1e-4)


def test_variants_that_break_the_repeat_are_unlikely(model: Path, folder: Path):
    (folder / "variants.tsv").write_text("sequence\tmutant\ns0\tA9C\ns1\tG10T\n")
    table = folder / f"{model.name}.variants.tsv"
    words = ("run", "language", model, folder / "few.fa", "-o", table, "--variants", folder / "variants.tsv")
    assert bioattn(*words) == 0
    header, *rows = (line.split("\t") for line in table.read_text().splitlines())
    assert header == ["sequence", "mutant", "score"]
    assert [row[:2] for row in rows] == [["s0", "A9C"], ["s1", "G10T"]]
    assert all(float(row[2]) < 0 for row in rows)


def test_unknown_words_are_not_scored(model: Path, tmp_path: Path, capsys):
    (tmp_path / "x.fa").write_text(f">known\n{UNIT * 4}\n>some\n{UNIT}N{UNIT}NN{UNIT}\n>none\nNNNN\n")
    (tmp_path / "v.tsv").write_text("sequence\tmutant\nknown\tA1C\nknown\tA1N\nsome\tN5A\nnone\tN2R\n")
    table, scores = tmp_path / "y.tsv", tmp_path / "v.scores.tsv"
    assert bioattn("run", "language", model, tmp_path / "x.fa", "-o", table) == 0
    assert "x.fa: none: no word that the model could be asked for" in capsys.readouterr().err
    known, some, none = (line.split("\t") for line in table.read_text().splitlines()[1:])
    assert [known[1], some[1], none[1:]] == ["16", "12", ["0", "", "", ""]]
    loaded = load_language_model(model, torch.device("cpu"))
    (tokens,) = (
        each for each in read_tokens(tmp_path / "x.fa", loaded.vocabulary, 40).items if len(each) == 17
    )
    likely = log_likelihoods(loaded, tokens)[: len(tokens) - 2]
    certain = [place for place, base in enumerate(f"{UNIT}N{UNIT}NN{UNIT}") if base != "N"]
    assert float(some[2]) == pytest.approx(likely[certain].sum(), rel=1e-5)
    words = ("run", "language", model, tmp_path / "x.fa", "-o", scores, "--variants", tmp_path / "v.tsv")
    assert bioattn(*words) == 0
    assert "known A1N, some N5A: no word" in capsys.readouterr().err
    cells = [line.split("\t")[2] for line in scores.read_text().splitlines()[1:]]
    assert [cell == "" for cell in cells] == [False, True, True, False]
    assert float(cells[3]) == 0.0


def test_every_map_is_exported(model: Path, folder: Path):
    output = folder / f"{model.name}.attention.h5"
    assert bioattn("export", "attention", model, folder / "few.fa", "-o", output) == 0
    assert bioattn("validate", output, model, folder / "x.dataset.h5") == 0
    loaded = load_language_model(model, torch.device("cpu"))
    with open_attention(output) as attention:
        assert list(attention.sites) == sorted(loaded.sites)
        for name in loaded.sites:
            for sample, letters in (("s0", 20), ("s2", 22)):
                weights_HQK = attention.weights(name, sample=sample)
                assert weights_HQK.shape == (2, letters + 2, letters + 2)
                assert np.allclose(weights_HQK.sum(-1), 1, atol=1e-5)
                if ".decoder." in name:
                    assert (np.triu(weights_HQK, 1) == 0).all()
    # Short next to long: no key behind the end of the shorter sequence is kept.
    (folder / "unequal.fa").write_text(">short\nACGTAC\n>long\nACGTACGTACGTACGTACGT\n")
    words = ("-o", output, "--reduce", "top-k", "--top-k", 6)
    assert bioattn("export", "attention", model, folder / "unequal.fa", *words) == 0
    assert bioattn("validate", output) == 0


def test_training_goes_on_from_weights(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]):
    more = folder / f"{model.name}.more"
    words = ("train", "language", folder / "x.dataset.h5", "--from", model, "-o", more, "--steps", 8)
    settings = ("--config", folder / "more.toml")
    rates = SETTINGS.partition("[training]")[2].replace("steps = 120", "").replace("40", "4")
    (folder / "more.toml").write_text(f"[training]{rates}")
    assert bioattn(*words, *settings) == 0
    before, after = (
        [float(row["validation_bits"]) for row in csv.DictReader((each / "history.csv").open())]
        for each in (model, more)
    )
    assert after[0] == pytest.approx(min(before), abs=1e-4)
    record = json.loads((more / "training.json").read_text())
    assert record["from"]["folder"] == model.name
    capsys.readouterr()
    assert bioattn(*words, *settings, "-c", "model.layers=3", "--force") == 1
    assert f"layers is 3, but {model} (--from) was trained with 2" in capsys.readouterr().err


def test_only_decoders_write_new_sequences(model: Path, folder: Path, capsys: pytest.CaptureFixture[str]):
    output = folder / f"{model.name}.fa"
    words = ("generate", "language", model, "-o", output, "-n", 5, "--prompt", UNIT[:3], "--temperature", 0)
    code = bioattn(*words, "--max-length", 24)
    if model.name != "decoder":
        assert code == 1
        assert "sequences are drawn from a decoder" in capsys.readouterr().err
        return
    assert code == 0
    made = [record.sequence for record in read_fasta(output)]
    assert len(made) == 5
    assert all(each == (UNIT * 6)[: len(each)] and len(each) > 12 for each in made)
    assert bioattn(*words[:-1], 1e-30, "--max-length", 24) == 0
    assert [record.sequence for record in read_fasta(output)] == made
    for wrong in (("--temperature", "inf"), ("--seed", -1)):
        assert bioattn(*words, *wrong) == 2
        assert f"invalid value for '{wrong[0]}'" in capsys.readouterr().err


def test_sequences_and_letters_that_do_not_fit_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model = saved(tmp_path / "model", LanguageModel(make_config()))
    (tmp_path / "v.tsv").write_text("sequence\tmutant\ns\tA1C\ns\tG3E\n")
    fasta, words = tmp_path / "s.fa", ("run", "language", model, tmp_path / "s.fa", "-o", tmp_path / "x.tsv")
    for text, more, said in (
        (">odd\nACGE\n", (), "odd, position 4: 'E' is not a DNA letter"),
        (">none\n", (), "none: has no sequence"),
        (
            ">s\nACGT\n",
            ("--variants", tmp_path / "v.tsv"),
            "v.tsv:3: s G3E, position 3: 'E' is not a DNA letter",
        ),
    ):
        fasta.write_text(text)
        assert bioattn(*words, *more) == 1
        assert said in capsys.readouterr().err
        assert not (tmp_path / "x.tsv").exists()
