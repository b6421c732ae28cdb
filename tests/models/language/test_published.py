"""Published models, read as they are, against `transformers`: logits, maps and tokens."""

import os
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from bioattn.attention.capture import capture
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.models.language.inference.embedding_file import read_embeddings
from bioattn.models.language.inference.source import read_tokens
from bioattn.sequences.vocabulary import MASK, PAD
from bioattn.store.reader import open_attention
from tests.making import bioattn

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
transformers = pytest.importorskip("transformers")

ESM_TOKENS = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>"
BERT_TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] A C D E F G H I K L M N P Q R S T V W Y"
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "attn_implementation": "eager",
}
PROTEINS = ("MKTAYIAKQRQISFVKSHFSRQ", "MKTAYX", "MSHHWGYGKHNGPEHWHK")


class Case(NamedTuple):
    """A model of `transformers`, and the folder that it was saved to."""

    theirs: nn.Module
    folder: Path
    loaded: LoadedLanguageModel


class Received:
    """Weights by site."""

    def __init__(self):
        self.maps: dict[str, torch.Tensor] = {}

    def receive(self, site: Any, weights: torch.Tensor, *_: object):
        self.maps[site.name] = weights.clone()


def make_esm(**other: Any) -> nn.Module:
    config = {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32, "token_dropout": True}
    config |= {"position_embedding_type": "rotary", **SMALL, **other}
    return transformers.EsmForMaskedLM(transformers.EsmConfig(**config))


def make_bert(**other: Any) -> nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(**{"vocab_size": 25, **SMALL, **other}))


def kmers(length: int) -> str:
    words = ["".join(each) for each in product("ATCG", repeat=length)]
    return " ".join(["[PAD] [UNK] [CLS] [SEP] [MASK]", *words])


CASES = {
    "esm2": (make_esm, ESM_TOKENS),
    "esm1b": (lambda: make_esm(position_embedding_type="absolute", emb_layer_norm_before=True), ESM_TOKENS),
    "bert": (make_bert, BERT_TOKENS),
    "dnabert": (lambda: make_bert(vocab_size=69, hidden_act="relu"), kmers(3)),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    make, tokens = CASES[request.param]
    torch.manual_seed(0)
    theirs = make().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    folder = tmp_path_factory.mktemp("published") / request.param
    theirs.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(tokens.split()))
    return Case(theirs, folder, load_language_model(folder, torch.device("cpu")))


def sequences_of(case: Case) -> tuple[str, ...]:
    dna = case.loaded.vocabulary.alphabet == "dna"
    return ("ACGTTGCANACGTACCGT", "ACGTA", "TTGACGGATTA") if dna else PROTEINS


def batch_of(case: Case) -> torch.Tensor:
    """Tokens of all sequences, padded, one of them masked."""
    vocabulary = case.loaded.vocabulary
    rows = [vocabulary.framed(vocabulary.words(each, "s")) for each in sequences_of(case)]
    tokens_BL = torch.full((len(rows), max(map(len, rows))), PAD)
    for row, tokens in zip(tokens_BL, rows, strict=True):
        row[: len(tokens)] = torch.from_numpy(tokens)
    if vocabulary.published.special[MASK] is not None:
        tokens_BL[0, 3] = MASK
    return tokens_BL


def test_logits_and_maps_are_those_of_transformers(case: Case):
    tokens_BL = batch_of(case)
    shown_BL = tokens_BL != PAD
    order = torch.from_numpy(case.loaded.vocabulary.order)
    received = Received()
    with torch.no_grad():
        expected = case.theirs(
            input_ids=order[tokens_BL], attention_mask=shown_BL.long(), output_attentions=True
        )
        with capture(["*"], received):
            logits_BLV = case.loaded.model(tokens_BL)
    difference_BLV = (logits_BLV - expected.logits[..., order]).abs()
    assert difference_BLV[shown_BL][:, order >= 0].max() < 1e-4
    assert expected.logits[shown_BL].std() > 0.1
    assert len(received.maps) == len(expected.attentions) == 2
    for own, theirs in zip(received.maps.values(), expected.attentions, strict=True):
        difference = (own - theirs).abs() * shown_BL[:, None, :, None]
        assert difference.max() < 1e-5


def test_commands_take_the_folder(case: Case, tmp_path: Path):
    fasta, maps, table, vectors = (tmp_path / name for name in ("s.fa", "a.h5", "t.tsv", "e.h5"))
    fasta.write_text("".join(f">s{n}\n{each}\n" for n, each in enumerate(sequences_of(case))))
    assert bioattn("run", "language", case.folder, fasta, "-o", table, "--embeddings", vectors) == 0
    assert bioattn("export", "attention", case.folder, fasta, "-o", maps) == 0
    source = read_tokens(fasta, case.loaded.vocabulary, 40)
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    order = case.loaded.vocabulary.order
    with open_attention(maps) as attention, torch.no_grad():
        for number, tokens in enumerate(source.tokens):
            ids = torch.from_numpy(order[tokens])[None]
            expected = case.theirs(input_ids=ids, output_attentions=True, output_hidden_states=True)
            for name, theirs in zip(sorted(attention.sites), expected.attentions, strict=True):
                assert np.allclose(attention.weights(name, sample=f"s{number}"), theirs[0], atol=1e-5)
            total = 0.0
            for place in range(1, len(tokens) - 1):
                masked = ids.clone()
                masked[0, place] = order[MASK]
                total += case.theirs(input_ids=masked).logits[0, place].log_softmax(-1)[ids[0, place]].item()
            assert float(rows[number][2]) == pytest.approx(total, abs=2e-3)
            hidden = case.theirs.base_model(input_ids=ids).last_hidden_state[0, 1:-1].mean(0)
            assert np.allclose(read_embeddings(vectors)[1][number], hidden, atol=1e-4)


def test_tokens_are_those_of_the_published_tokenizer(case: Case):
    vocabulary = case.loaded.vocabulary
    file = str(case.folder / "vocab.txt")
    esm = case.folder.name.startswith("esm")
    tokenizer = (
        transformers.EsmTokenizer(file)
        if esm
        else transformers.BertTokenizer(vocab=file, do_lower_case=False)
    )
    for sequence in sequences_of(case):
        size = vocabulary.word
        spaced = " ".join(sequence[i : i + size] for i in range(len(sequence) - size + 1))
        tokens = vocabulary.framed(vocabulary.words(sequence, "s"))
        assert vocabulary.order[tokens].tolist() == tokenizer(spaced)["input_ids"]
        spans = vocabulary.spans(tokens, len(sequence))
        assert (spans[0] == 0).all()
        for (first, end), token in zip(spans[1:-1], tokens[1:-1], strict=True):
            assert sequence[first:end] == vocabulary.tokens[token] or vocabulary.tokens[token] == "<unk>"
        if "N" not in sequence:
            assert vocabulary.text(tokens) == sequence
