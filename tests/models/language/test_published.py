"""Published models, read as they are, against `transformers`: logits, maps and tokens."""

import json
import os
import re
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file, save_file
from torch import nn

from bioattn.attention.capture import capture
from bioattn.choices import PositionEncoding
from bioattn.errors import BioattnError, FormatError
from bioattn.models.language.config import Output, Shape
from bioattn.models.language.file_kinds import read_embeddings
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.source import read_tokens
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import CLS, MASK, PAD, SPECIAL, UNKNOWN
from bioattn.store.reader import open_attention
from tests.making import bioattn, shaken
from tests.models.language.made_models import make_config, saved
from tests.result_files import Heard

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
transformers = pytest.importorskip("transformers")

ESM_TOKENS = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>"
BERT_TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] A C D E F G H I K L M N P Q R S T V W Y"
GPT2_TOKENS = "<pad> <unk> <|endoftext|> A C D E F G H I K L M N P Q R S T V W Y B U Z O X"
T5_TOKENS = (
    f"<pad> </s> <unk> {' '.join(f'▁{each}' for each in 'ACDEFGHIKLMNPQRSTVWYX')} <extra_id_0> <extra_id_1>"
)
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


def make_esm(**other: Any) -> nn.Module:
    config = {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32, "token_dropout": True}
    config |= {"position_embedding_type": "rotary", **SMALL, **other}
    return transformers.EsmForMaskedLM(transformers.EsmConfig(**config))


def make_bert(**other: Any) -> nn.Module:
    return transformers.BertForMaskedLM(transformers.BertConfig(**{"vocab_size": 25, **SMALL, **other}))


def make_gpt2(**other: Any) -> nn.Module:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_inner": 48, "n_positions": 40}
    ids = {"bos_token_id": 2, "eos_token_id": 2}
    config = {"vocab_size": 32, "attn_implementation": "eager", **ids, **sizes, **other}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config))


def make_t5(model: str = "T5ForConditionalGeneration", **other: Any) -> nn.Module:
    sizes = {"d_model": 32, "d_kv": 12, "d_ff": 48, "num_layers": 2, "num_heads": 3}
    buckets = {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
    config = {"vocab_size": 32, "attn_implementation": "eager", **sizes, **buckets, **other}
    made = getattr(transformers, model)(transformers.T5Config(**config, decoder_start_token_id=0))
    if not other.get("tie_word_embeddings", True):
        made.lm_head.weight = nn.Parameter(torch.randn(32, 32))
    return made


def kmers(length: int) -> str:
    words = ["".join(each) for each in product("ATCG", repeat=length)]
    return " ".join(["[PAD] [UNK] [CLS] [SEP] [MASK]", *words])


CASES = {
    "esm2": (make_esm, ESM_TOKENS),
    "esm1b": (lambda: make_esm(position_embedding_type="absolute", emb_layer_norm_before=True), ESM_TOKENS),
    "bert": (make_bert, BERT_TOKENS),
    "dnabert": (lambda: make_bert(vocab_size=69, hidden_act="relu", tie_word_embeddings=False), kmers(3)),
    "gpt2": (make_gpt2, GPT2_TOKENS),
    "gpt2-inverse": (lambda: make_gpt2(scale_attn_by_inverse_layer_idx=True), GPT2_TOKENS),
    "t5": (make_t5, T5_TOKENS),
    "t5-gated": (lambda: make_t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False), T5_TOKENS),
    "t5-encoder": (lambda: make_t5("T5EncoderModel"), T5_TOKENS),
}


def published(folder: Path, theirs: nn.Module, tokens: str) -> nn.Module:
    """The model, changed at random, and its new folder with these tokens."""
    shaken(theirs, 0.1).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(tokens.split()))
    return theirs


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    make, tokens = CASES[request.param]
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("published") / request.param
    theirs = published(folder, make(), tokens)
    return Case(theirs, folder, load_language_model(folder, torch.device("cpu")))


def sequences_of(case: Case) -> tuple[str, ...]:
    dna = case.loaded.vocabulary.alphabet == "dna"
    return ("ACGTTGCANACGTACCGT", "ACGTA", "TTGACGGATTA") if dna else PROTEINS


def ids_of(loaded: LoadedLanguageModel, sequences: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Padded tokens of sequences, one masked where there is a mask, ours and published."""
    vocabulary = loaded.vocabulary
    rows = [torch.from_numpy(vocabulary.framed(vocabulary.words(each, "s"))) for each in sequences]
    tokens_BL = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    if vocabulary.published.special[MASK] is not None:
        tokens_BL[0, 3] = MASK
    return tokens_BL, torch.from_numpy(vocabulary.order)[tokens_BL]


def require_same(loaded: LoadedLanguageModel, theirs: nn.Module, sequences: tuple[str, ...]) -> None:
    """Logits, or else the last channels, and all maps are those of a model of transformers."""
    tokens_BL, ids_BL = ids_of(loaded, sequences)
    shown_BL, order = tokens_BL != PAD, torch.from_numpy(loaded.vocabulary.order)
    words = {"input_ids": ids_BL, "attention_mask": shown_BL.long()}
    source_BS, stacks = None, {loaded.config.shape: "attentions"}
    if loaded.config.shape is Shape.ENCODER_DECODER:
        source_BS, tokens_BL = tokens_BL, F.pad(tokens_BL, (1, -1), value=CLS)
        words["decoder_input_ids"] = order[tokens_BL]
        stacks = {
            "encoder": "encoder_attentions",
            "decoder": "decoder_attentions",
            "source": "cross_attentions",
        }
    received = Heard()
    with torch.no_grad():
        expected = theirs.eval()(**words, output_attentions=True)
        with capture(["*"], received):
            found = loaded.model.hidden(tokens_BL, source_BS)
        if loaded.config.form.output is Output.NONE:
            wanted = expected.last_hidden_state
        else:
            known = order >= 0
            found, wanted = loaded.model.logits(found)[..., known], expected.logits[..., order[known]]
            # Of two tokens that were published as one, one alone is predicted.
            again = torch.from_numpy(loaded.vocabulary.of_published)[order] == torch.arange(len(order))
            found, wanted = found[..., again[known]], wanted[..., again[known]]
    wanted = wanted[shown_BL]
    assert wanted.std() > 0.1
    assert (found[shown_BL] - wanted).abs().max() < 1e-5 * max(1.0, float(wanted.std()))
    maps = {f"{stack}.{n}": each for stack, name in stacks.items() for n, each in enumerate(expected[name])}
    assert len(received.by_site) == len(maps)
    for name, weights in maps.items():
        difference = (received.by_site[f"language.{name}"][0] - weights).abs()
        assert (difference * shown_BL[:, None, :, None]).max() < 1e-5


def test_logits_and_maps_are_those_of_transformers(case: Case):
    require_same(case.loaded, case.theirs, sequences_of(case))


def test_commands_take_the_folder(case: Case, tmp_path: Path):
    fasta, maps, table, vectors = (tmp_path / name for name in ("s.fa", "a.h5", "t.tsv", "e.h5"))
    fasta.write_text("".join(f">s{n}\n{each}\n" for n, each in enumerate(sequences_of(case))))
    assert bioattn("run", "language", case.folder, fasta, "-o", table, "--embeddings", vectors) == 0
    assert bioattn("export", "attention", case.folder, fasta, "-o", maps) == 0
    vocabulary, shape = case.loaded.vocabulary, case.loaded.config.shape
    source = read_tokens(fasta, vocabulary, 40)
    rows = [line.split("\t") for line in table.read_text().splitlines()[1:]]
    embeddings = read_embeddings(vectors).T
    with open_attention(maps) as attention, torch.no_grad():
        for row, tokens, sequence in zip(rows, source.items, sequences_of(case), strict=True):
            ids = torch.from_numpy(vocabulary.order[tokens])[None]
            words = slice(int(vocabulary.begins), len(tokens) - 1)
            if vocabulary.alphabet == "protein":
                assert attention.samples["query"][row[0]][words] == sequence
            unknown = vocabulary.order[UNKNOWN]
            assert int(row[1]) == int((ids[0, words] != unknown).sum())
            more = {"decoder_input_ids": F.pad(ids, (1, -1))} if shape == "encoder-decoder" else {}
            expected = case.theirs(input_ids=ids, **more, output_attentions=True)
            if shape == "encoder-decoder":
                theirs = expected.decoder_attentions + expected.encoder_attentions + expected.cross_attentions
                hidden = expected.encoder_last_hidden_state
            else:
                theirs = expected.attentions
                hidden = case.theirs.base_model(input_ids=ids).last_hidden_state
            for name, weights in zip(sorted(attention.sites), theirs, strict=True):
                assert np.allclose(attention.weights(name, sample=row[0]), weights[0], atol=1e-5)
            assert np.allclose(embeddings[row[0]], hidden[0, words].mean(0), atol=1e-4)
            if case.loaded.config.form.output == "none":
                assert len(row) == 2
            else:
                # Training never asks for unknown words, so they do not count.
                likely_LV = expected.logits[0].log_softmax(-1)
                likely_LV[:, unknown] = 0
                likely = expected_likelihoods(case, ids, likely_LV)
                assert float(row[2]) == pytest.approx(likely, rel=1e-4)
    sequence, size = sequences_of(case)[0], vocabulary.word
    kind = "source_names" if shape == "encoder-decoder" else "token_names"
    with h5py.File(maps) as file:
        names = file[f"samples/{kind}/s0000000"].asstr()[int(vocabulary.begins) :].tolist()
    step = 1 if vocabulary.overlapping else size
    first, second = (sequence[start : start + size] for start in (0, step))
    expected = [f"{first}1", f"{second}2"]
    if size > 1:
        expected = [f"{first}:1-{size}", f"{second}:{1 + step}-{size + step}"]
    assert names[:2] == expected
    assert names[-1] == "<eos>"
    assert bioattn("validate", case.folder) == 0
    # Words of several bases have no contacts.
    assert bioattn("export", "contacts", maps, "-o", tmp_path / "c.tsv") == (vocabulary.alphabet == "dna")


def expected_likelihoods(case: Case, ids: torch.Tensor, likely_LV: torch.Tensor) -> float:
    """Sum of the logarithms of the probabilities of words, as the shape of the model has them."""
    if case.loaded.config.shape == "encoder-decoder":
        return sum(likely_LV[place, ids[0, place]].item() for place in range(ids.shape[1] - 1))
    if case.loaded.config.shape == "decoder":
        return sum(likely_LV[place - 1, ids[0, place]].item() for place in range(1, ids.shape[1] - 1))
    total = 0.0
    for place in range(1, ids.shape[1] - 1):
        masked = ids.clone()
        masked[0, place] = case.loaded.vocabulary.order[MASK]
        if ids[0, place] != case.loaded.vocabulary.order[UNKNOWN]:
            total += case.theirs(input_ids=masked).logits[0, place].log_softmax(-1)[ids[0, place]].item()
    return total


@pytest.mark.parametrize("case", ["esm2", "bert", "dnabert"], indirect=True)
def test_tokens_are_those_of_the_published_tokenizer(case: Case):
    """GPT-2 and T5 have files of other forms."""
    vocabulary, file = case.loaded.vocabulary, str(case.folder / "vocab.txt")
    if case.folder.name == "esm2":
        tokenizer = transformers.EsmTokenizer(file)
    else:
        tokenizer = transformers.BertTokenizer(vocab=file, do_lower_case=False)
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


DNA = "ACGTTGCAACGTACCGTTTACGGATTACAGGCCTAACGT"


def test_merged_words_are_those_of_the_library(tmp_path: Path):
    """A tokenizer.json with words of several lengths; GPT-2's older files say what makes one of them."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import models, pre_tokenizers, trainers

    for name, kind in (("whole", pre_tokenizers.Whitespace()), ("bytes", pre_tokenizers.ByteLevel(False))):
        made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        made.pre_tokenizer = kind
        special = ["<unk>", "<pad>", "<|endoftext|>"]
        made.train_from_iterator([DNA] * 3, trainers.BpeTrainer(vocab_size=30, special_tokens=special))
        folder = tmp_path / name
        make_gpt2(vocab_size=made.get_vocab_size()).save_pretrained(folder)
        if name == "bytes":
            made.model.save(str(folder))
            with pytest.raises(FormatError, match=r"vocab\.json: .*AutoTokenizer\.from_pretrained\("):
                load_language_model(folder, torch.device("cpu"))
        made.save(str(folder / "tokenizer.json"))
        vocabulary = load_language_model(folder, torch.device("cpu")).vocabulary
        expected = made.encode(DNA)
        tokens = vocabulary.words(DNA.lower(), "s")
        assert vocabulary.order[tokens].tolist() == expected.ids
        assert vocabulary.spans(tokens, len(DNA)).tolist() == [list(each) for each in expected.offsets]
        assert vocabulary.text(tokens) == DNA
        names = [
            f"{DNA[start:end]}:{start + 1}-{end}" if end - start > 1 else f"{DNA[start:end]}{end}"
            for start, end in expected.offsets
        ]
        assert vocabulary.names(tokens, DNA) == names


def test_pieces_of_sentencepiece_are_read(tmp_path: Path):
    """ProtT5 has such a file alone; the sentinels follow from the settings."""
    pieces = T5_TOKENS.split()[:-2]
    content = b""
    for piece in pieces:
        text = piece.encode()
        message = b"\x0a" + bytes([len(text)]) + text + b"\x15\x00\x00\x80\xbf\x18\x03"
        content += b"\x0a" + bytes([len(message)]) + message
    make_t5(vocab_size=128).save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(content + b"\x12\x02\x08\x01")
    vocabulary = load_language_model(tmp_path, torch.device("cpu")).vocabulary
    published = vocabulary.published
    assert published is not None
    assert list(published.tokens[: len(pieces)]) == pieces
    assert [published.tokens[each] for each in published.sentinels[:2]] == ["<extra_id_0>", "<extra_id_1>"]
    assert published.sentinels[0] == len(pieces) + 99
    assert [published.tokens[each] for each in vocabulary.order[vocabulary.words("MKB", "s")]] == [
        "▁M",
        "▁K",
        "<unk>",
    ]


@pytest.mark.parametrize("case", ["gpt2"], indirect=True)
def test_a_published_decoder_writes_sequences(case: Case, tmp_path: Path):
    output = tmp_path / "new.fa"
    words = ("generate", "language", case.folder, "-o", output, "-n", 2, "--prompt", "MK", "--max-length", 9)
    assert bioattn(*words, "--temperature", 0) == 0
    ids = [2, *case.loaded.vocabulary.order[case.loaded.vocabulary.words("MK", "s")]]
    allowed = np.arange(2, 28)  # neither padding nor rows that no token is known of
    while len(ids) <= 9 and (len(ids) == 3 or ids[-1] != 2):
        with torch.no_grad():
            logits = case.theirs(input_ids=torch.tensor([ids])).logits[0, -1].numpy()
        ids.append(allowed[logits[allowed].argmax()])
    expected = "".join(GPT2_TOKENS.split()[each] for each in ids if each > 2)
    assert output.read_text().splitlines()[1] == expected


def test_a_published_model_comes_back_as_it_went(case: Case, tmp_path: Path):
    """Into a folder of bioattn, and from there into the form of transformers."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert bioattn("export", "parameters", case.folder, "-o", ours) == 0
    converted = load_language_model(ours, torch.device("cpu"))
    assert converted.vocabulary == case.loaded.vocabulary
    assert bioattn("export", "parameters", ours, "-o", theirs) == 0
    again = type(case.theirs).from_pretrained(theirs).eval()
    expected = dict(case.theirs.named_parameters())
    for name, parameter in again.named_parameters():
        # Scales of logits are kept in the weights of queries, and the type of tokens in their positions.
        # Where an output layer is not tied, one of BERT's two biases does nothing.
        folded = {"gpt2-inverse": "|c_attn", "dnabert": "|predictions.bias"}.get(case.folder.name, "")
        if not re.search(r"token_type_emb|position_emb|pooler|contact_head" + folded, name):
            assert torch.allclose(parameter, expected[name], atol=1e-6), name
    reread = load_language_model(theirs, torch.device("cpu"))
    assert reread.config == case.loaded.config
    assert reread.vocabulary == case.loaded.vocabulary
    tokens_BL = ids_of(case.loaded, sequences_of(case))[0]
    source_BS = tokens_BL if case.loaded.config.shape == "encoder-decoder" else None
    with torch.no_grad():
        plain = case.loaded.model.hidden(tokens_BL, source_BS)
        assert torch.allclose(reread.model.hidden(tokens_BL, source_BS), plain, atol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "learned", "sinusoidal", "none"])
@pytest.mark.parametrize("shape", ["encoder", "decoder"])
def test_our_models_give_the_same_logits_in_transformers(shape: str, positions: str, tmp_path: Path):
    torch.manual_seed(1)
    sizes = {"channels": 32, "hidden_channels": 48, "alphabet": Alphabet.PROTEIN}
    config = make_config(Shape(shape), positions=PositionEncoding(positions), **sizes)
    model = shaken(LanguageModel(config), 0.2)
    folder, output = tmp_path / "model", tmp_path / "published"
    saved(folder, model)
    assert bioattn("export", "parameters", folder, "-o", output) == 0
    theirs = transformers.EsmForMaskedLM.from_pretrained(output, attn_implementation="eager").eval()
    tokens_BL = torch.randint(len(SPECIAL), 25, (2, 20))
    tokens_BL[:, 0] = CLS
    tokens_BL[1, 12:] = PAD
    shown_BL = tokens_BL != PAD
    with torch.no_grad():
        logits_BLV = theirs(input_ids=tokens_BL, attention_mask=shown_BL.long()).logits
        assert (model(tokens_BL) - logits_BLV).abs()[shown_BL].max() < 1e-4
    tokenizer = transformers.AutoTokenizer.from_pretrained(output)
    ids = model.vocabulary.framed(model.vocabulary.words("MKTAY", "s")).tolist()
    assert tokenizer(" ".join("MKTAY"))["input_ids"] == ids


def edit_arrays(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]):
    path = folder / "model.safetensors"
    arrays = load_file(path)
    edit(arrays)
    save_file(arrays, path, metadata={"format": "pt"})


def edit_config(folder: Path, **changes: object):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Planted:
    """An object that runs something when it is unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


def plant_pickle(folder: Path):
    (folder / "model.safetensors").unlink()
    torch.save({"bert.embeddings.word_embeddings.weight": Planted()}, folder / "pytorch_model.bin")


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickle": (plant_pickle, r"pytorch_model\.bin: holds Python objects \(\S*print\).*save its state dict"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "holds no weights"),
    "cut short": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-99]),
        r"model\.safetensors: damaged",
    ),
    "array missing": (
        lambda f: edit_arrays(f, lambda arrays: arrays.pop(QUERY)),
        r"the array encoder\.layer\.1\.attention\.self\.query\.weight is missing",
    ),
    "array of another shape": (
        lambda f: edit_arrays(f, lambda arrays: arrays.update({QUERY: torch.zeros(32, 31)})),
        rf"the array {QUERY} has shape \(32, 31\)",
    ),
    "not finite": (
        lambda f: edit_arrays(f, lambda arrays: arrays[QUERY].fill_(torch.nan)),
        rf"the array {QUERY} holds NaN",
    ),
    "a size too many": (
        lambda f: edit_config(f, hidden_size=10**9),
        "hidden_size is|channels is 1,000,000,000",
    ),
    "no vocabulary": (lambda f: (f / "vocab.txt").unlink(), "has weights and no vocabulary"),
    "larger vocabulary": (
        lambda f: (f / "vocab.txt").write_text(BERT_TOKENS.replace(" ", "\n") + "\nU\nO"),
        r"has 27 tokens, the embeddings of the weights 25; the tokenizer belongs to another model",
    ),
}


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "bert"
    make_bert().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(BERT_TOKENS.split()))
    return folder


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_named(
    name: str, bert_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    folder = tmp_path / "model"
    shutil.copytree(bert_folder, folder)
    spoil, said = BROKEN[name]
    spoil(folder)
    with pytest.raises(BioattnError, match=said):
        load_language_model(folder, torch.device("cpu"))
    assert capfd.readouterr().out == ""


def test_parts_old_names_and_state_dicts_are_read(bert_folder: Path, tmp_path: Path):
    """An index of several files, gamma and beta, no prefix, and the form of torch."""
    expected = load_language_model(bert_folder, torch.device("cpu")).model.state_dict()
    arrays = load_file(bert_folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in arrays.items()
    }
    for form in ("parts", "torch", "half"):
        folder = tmp_path / form
        folder.mkdir()
        for name in ("config.json", "vocab.txt"):
            shutil.copy(bert_folder / name, folder)
        if form == "parts":
            halves = [dict(list(old.items())[::2]), dict(list(old.items())[1::2])]
            places = {}
            for number, half in enumerate(halves):
                save_file(half, folder / f"part-{number}.safetensors", metadata={"format": "pt"})
                places |= dict.fromkeys(half, f"part-{number}.safetensors")
            (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        else:
            kind = torch.float32 if form == "torch" else torch.bfloat16
            plain = {name.removeprefix("bert."): array.to(kind) for name, array in old.items()}
            torch.save(plain, folder / "pytorch_model.bin")
        found = load_language_model(folder, torch.device("cpu")).model.state_dict()
        for name, array in expected.items():
            assert torch.allclose(found[name], array, atol=0.0 if form != "half" else 0.01), name
