"""Sequences read in batches, against `transformers` and one at a time: embeddings of any layer, scores, contacts,
shards, precision, and models by their names on the hub."""

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

import bioattn
from bioattn.errors import BioattnError
from bioattn.models.language import scoring
from bioattn.models.language.file_kinds import read_embeddings
from bioattn.models.language.folder import load_language_model
from bioattn.sequences.vocabulary import MASK, UNKNOWN
from tests.making import bioattn as command
from tests.models.language.test_published import CASES, PROTEINS, published

PROTEIN = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEV"
NAMED = {f"p{number}": each for number, each in enumerate([*PROTEINS, PROTEIN[3:], "MK", PROTEIN])}


@pytest.fixture(scope="module", params=["esm2", "bert", "gpt2", "t5"])
def case(request, tmp_path_factory):
    """Rotary, absolute and (left to right) absolute positions, and biases of distances."""
    make, tokens = CASES[request.param]
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("reading") / request.param
    theirs = published(folder, make(), tokens)
    (folder.parent / "s.fa").write_text("".join(f">{name}\n{each}\n" for name, each in NAMED.items()))
    return theirs, folder, bioattn.load_model(folder, device="cpu", threads=1)


def ids_of(model, letters):
    tokens = model.vocabulary.framed(model.vocabulary.words(letters, "s"))
    return tokens, torch.from_numpy(model.vocabulary.order[tokens])[None]


@pytest.mark.parametrize("tokens_at_once", [70, 4096])
def test_channels_of_every_layer_are_those_of_transformers(case, tokens_at_once, monkeypatch):
    theirs, _, model = case
    monkeypatch.setitem(scoring.TOKENS_AT_ONCE, "cpu", tokens_at_once)
    words = model.embed(NAMED, per_token=True, layers=(0, 1, -1))
    means = model.embed(NAMED, layers=(0, 1, 2))
    assert list(means.index) == list(NAMED)
    for name, letters in NAMED.items():
        tokens, ids = ids_of(model, letters)
        network = theirs.get_encoder() if theirs.config.model_type == "t5" else theirs.base_model
        with torch.no_grad():
            found = network(ids, output_hidden_states=True).hidden_states
        expected = torch.cat(found, -1)[0, tokens >= UNKNOWN][: len(letters)].numpy()
        np.testing.assert_allclose(words.loc[name], expected, atol=1e-5)
        np.testing.assert_allclose(means.loc[name], expected.mean(0), atol=1e-5)


@pytest.mark.parametrize("score", ["one-pass", "masked"])
def test_scores_of_a_batch_are_those_of_single_sequences(case, score):
    theirs, _, model = case
    together = model.predict(NAMED, score=score)
    alone = pd.concat([model.predict({name: letters}, score=score) for name, letters in NAMED.items()])
    pd.testing.assert_frame_equal(together, alone, atol=1e-5, rtol=1e-6)
    if theirs.config.model_type == "t5":
        return
    tokens, ids = ids_of(model, PROTEIN)
    (places,) = np.nonzero(tokens > UNKNOWN)
    places = places[places > 0]
    rows = ids.repeat(len(places), 1)
    read = places
    if theirs.config.model_type == "gpt2":
        read = places - 1
    elif score == "masked":
        rows[np.arange(len(places)), places] = int(model.vocabulary.order[MASK])
    with torch.no_grad():
        likely = theirs(rows).logits.log_softmax(-1)[np.arange(len(places)), read, ids[0, places]]
    assert together["log_likelihood"]["p5"] == pytest.approx(likely.sum().item(), abs=1e-3)


def test_contacts_are_those_of_transformers(case, monkeypatch, tmp_path):
    theirs, folder, model = case
    if theirs.config.model_type != "esm":
        with pytest.raises(BioattnError, match="export contacts --fit"):
            model.contacts(NAMED)
        return
    whole = model.contacts(NAMED)
    for name, letters in NAMED.items():
        ids = ids_of(model, letters)[1]
        with torch.no_grad():
            expected = theirs.esm.predict_contacts(ids, torch.ones_like(ids))[0]
        np.testing.assert_allclose(whole[name], expected, atol=1e-5)
    monkeypatch.setattr("bioattn.attention.operator.TILE_BYTES", 1000)
    for name, tiled in model.contacts(NAMED).items():
        np.testing.assert_allclose(tiled, whole[name], atol=1e-6)
    table = tmp_path / "c.tsv"
    assert command("run", "language", folder, folder.parent / "s.fa", "--contacts", table) == 0
    found = pd.read_csv(table, sep="\t").query("sample == 'p5'")
    pairs = found["column_i"].to_numpy() - 1, found["column_j"].to_numpy() - 1
    assert len(found) == sum(range(1, len(PROTEIN) - 5))
    np.testing.assert_allclose(found["probability"], whole["p5"][pairs], rtol=1e-5)
    assert "".join(PROTEIN[place] for place in pairs[0]) == "".join(found["letter_i"])
    again = tmp_path / "bioattn"  # the regression goes where the model goes
    model.save(again)
    np.testing.assert_allclose(
        load_language_model(again, model.device).contacts(PROTEIN)["sequence_1"], whole["p5"], atol=1e-6
    )


def test_embeddings_alone_write_no_table_and_shards_merge(case, tmp_path):
    _, folder, model = case
    words = ("run", "language", folder, folder.parent / "s.fa")
    each = ("--per-token", "--layers", "0,-1")
    assert command(*words, "--embeddings", tmp_path / "mean.h5") == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["mean.h5"]
    pd.testing.assert_frame_equal(bioattn.open(tmp_path / "mean.h5"), model.embed(NAMED), atol=1e-6)
    for part in ("1/2", "2/2"):
        name = tmp_path / part[0]
        outputs = ("-o", f"{name}.tsv", "--score", "one-pass", "--embeddings", f"{name}.h5")
        if model.config.form.contacts:
            outputs += ("--contacts", f"{name}.c.tsv")
        assert command(*words, *outputs, *each, "--shard", part) == 0
    assert command(*words, "-o", tmp_path / "all.tsv", "--score", "one-pass") == 0
    if model.config.form.contacts:
        parts = tmp_path / "1.c.tsv", tmp_path / "2.c.tsv"
        assert command(*words, "--contacts", tmp_path / "all.c.tsv") == 0
        assert command("merge", *parts, "-o", tmp_path / "12.c.tsv") == 0
        assert (tmp_path / "12.c.tsv").read_text() == (tmp_path / "all.c.tsv").read_text()
    for end in ("tsv", "h5"):
        assert (
            command("merge", tmp_path / f"2.{end}", tmp_path / f"1.{end}", "-o", tmp_path / f"12.{end}") == 0
        )
    whole, merged = (pd.read_csv(tmp_path / f"{name}.tsv", sep="\t") for name in ("all", "12"))
    pd.testing.assert_frame_equal(whole, merged, atol=1e-5)
    assert command("validate", tmp_path / "12.h5") == 0
    expected = model.embed(NAMED, per_token=True, layers=(0, -1))
    pd.testing.assert_frame_equal(read_embeddings(tmp_path / "12.h5"), expected, atol=1e-5)
    with h5py.File(tmp_path / "12.h5") as file:
        assert file.attrs["layers"].tolist() == [0, 2]
        assert "shard" not in file.attrs
    outputs = ("-o", f"{tmp_path}/half.tsv", "--score", "one-pass", "--embeddings", tmp_path / "half.h5")
    assert command(*words, *outputs, *each, "--shard", "2/2", "--precision", "bf16") == 0
    assert command("merge", tmp_path / "1.tsv", tmp_path / "half.tsv", "-o", tmp_path / "mixed.tsv") == 1


@pytest.mark.parametrize("case", ["bert"], indirect=True)
def test_a_model_is_taken_by_its_name_from_the_cache_of_the_hub(case, tmp_path, monkeypatch, capsys):
    _, folder, model = case
    commit, cache = "0123456789abcdef0123456789abcdef01234567", tmp_path / "hub"
    stored = cache / "models--some--protein-model"
    snapshot = stored / "snapshots" / commit
    (stored / "blobs").mkdir(parents=True)
    (stored / "refs").mkdir()
    snapshot.mkdir(parents=True)
    (stored / "refs" / "main").write_text(commit)
    for number, path in enumerate(sorted(folder.iterdir())):
        (stored / "blobs" / f"blob{number}").write_bytes(path.read_bytes())
        (snapshot / path.name).symlink_to(f"../../blobs/blob{number}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    for name in ("some/protein-model", f"some/protein-model@{commit}"):
        pd.testing.assert_frame_equal(bioattn.load_model(name).embed(NAMED), model.embed(NAMED))
    words = (folder.parent / "s.fa", "--embeddings", tmp_path / "e.h5")
    assert command("run", "language", "some/protein-model", *words) == 0
    capsys.readouterr()
    assert command("run", "language", "some/protein-model@v2", *words) == 1
    assert "`hf download some/protein-model --revision v2`" in capsys.readouterr().err
