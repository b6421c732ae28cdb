"""Vocabularies of published models, from the files that lie beside their weights.

Read are `vocab.txt` (a token on each line), `tokenizer.json` (of the library `tokenizers`), `vocab.json` and
`spiece.model` (SentencePiece), with `added_tokens.json`, `tokenizer_config.json` and `special_tokens_map.json`.
"""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json, read_lines
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import RESIDUES, PublishedTokens, Vocabulary, letters_of
from bioattn.text import quoted

SPARE_ROWS = 128
"""Embeddings are filled up to a multiple of a power of two, of this at most."""
LOGGER = logging.getLogger("bioattn")
_NAMES = {
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<cls>"),
    "sep_token": ("[SEP]", "<eos>", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
    "unk_token": ("[UNK]", "<unk>"),
}
"""Of each of `SPECIAL`, its key in the tokenizer's settings, and what it is usually called."""
_SENTINEL = re.compile(r"<extra_id_(\d{1,4})>")


def read_published_vocabulary(
    folder: Path, *, rows: int, config: Mapping[str, Any], starts: str, sentinels: bool
) -> Vocabulary:
    """The vocabulary of a published model.

    rows: of its embeddings. config: content of its `config.json`. starts: key of the token that stands for
    `<cls>`, in the tokenizer's settings (`cls_token`, `bos_token`) or in `config` (`decoder_start_token_id`).
    sentinels: whether tokens of masked spans stand apart.
    """
    settings = _object_in(folder / "special_tokens_map.json") | _object_in(folder / "tokenizer_config.json")
    path, by_number, tokenizer = _read_tokens(folder, settings)
    if not by_number:
        raise FormatError(f"{path}: holds no token; fetch the file again")
    size = max(by_number) + 1
    if size > rows or rows - size >= SPARE_ROWS:
        raise FormatError(
            f"{path}: has {size:,} tokens, the embeddings of the weights {rows:,}; the tokenizer belongs to "
            "another model: use the one that was published with these weights"
        )
    if rows > size and rows % 8:  # nobody fills up to such a number
        LOGGER.warning(
            f"{path}: has {size:,} tokens, the embeddings of the weights {rows:,}: the last {rows - size} are "
            "never read; is it the tokenizer that was published with these weights?"
        )
    # What no token is known of is a row that nothing leads to.
    tokens = tuple(by_number.get(number, f"<unused_{number}>") for number in range(rows))
    special = _special(tokens, settings, config, starts)
    matches = [(_SENTINEL.fullmatch(token), number) for number, token in enumerate(tokens)]
    found = sorted((int(match[1]), number) for match, number in matches if match is not None)
    alphabet, kmer, overlapping, merged = _kind(path, tokens, special)
    if merged and not tokenizer:
        raise FormatError(
            f"{path}: says not how words of several lengths are made; tokenizer.json does, which "
            f'AutoTokenizer.from_pretrained("{folder}").save_pretrained("{folder}") of transformers writes'
        )
    return Vocabulary(
        alphabet,
        kmer,
        PublishedTokens(
            tokens=tokens,
            special=special,
            begins=special[1] is not None and starts != "decoder_start_token_id",
            ends=special[2] is not None,
            overlapping=overlapping,
            sentinels=tuple(number for _, number in found) if sentinels else (),
            tokenizer=tokenizer if merged else "",
        ),
    )


def _read_tokens(folder: Path, settings: Mapping[str, Any]) -> tuple[Path, dict[int, str], str]:
    """The file with the vocabulary, its tokens by number, and the JSON of a tokenizer that merges."""
    added = {number: token for token, number in _object_in(folder / "added_tokens.json").items()}
    for number, token in (settings.get("added_tokens_decoder") or {}).items():
        added[number] = _text(token)
    for name in ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model"):
        path, tokenizer = folder / name, ""
        if not path.is_file():
            continue
        try:
            if name == "tokenizer.json":
                content = read_json(path)
                words = content["model"]["vocab"]
                if isinstance(words, list):
                    tokens = {number: piece[0] for number, piece in enumerate(words)}
                else:
                    tokens = {number: token for token, number in words.items()}
                tokens |= {each["id"]: each["content"] for each in content.get("added_tokens") or ()}
                tokenizer = json.dumps(content)
            elif name == "vocab.txt":
                lines = [line.strip() for _, line in read_lines(path)]
                while lines and not lines[-1]:
                    lines.pop()
                tokens = dict(enumerate(lines))
            elif name == "vocab.json":
                tokens = {number: token for token, number in read_json(path).items()}
            else:
                tokens = _read_pieces(path, settings)
            by_number = {int(number): str(token) for number, token in {**tokens, **added}.items()}
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise FormatError(
                f"{path}: is not the file of a tokenizer ({error!r}); fetch it again"
            ) from error
        return path, by_number, tokenizer
    raise FormatError(
        f"{folder}: has weights and no vocabulary (vocab.txt, tokenizer.json, vocab.json or spiece.model); fetch "
        "the tokenizer's files too"
    )


def _read_pieces(path: Path, settings: Mapping[str, Any]) -> dict[int, str]:
    """The pieces of a SentencePiece model: in a protocol buffer the messages of field 1, whose field 1 is text.

    T5 puts its sentinels behind them, the first one last.
    """
    content = path.read_bytes()
    tokens: dict[int, str] = {}
    for field, value in _fields(content):
        if field == 1:
            text = next(inner for number, inner in _fields(value) if number == 1)
            tokens[len(tokens)] = text.decode("utf-8")
    extra = int(settings.get("extra_ids", 100))
    last = len(tokens) + extra - 1
    return tokens | {last - number: f"<extra_id_{number}>" for number in range(extra)}


def _fields(content: bytes) -> list[tuple[int, bytes]]:
    """Fields of a message of a protocol buffer with the bytes of those that have any."""
    found, place = [], 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = content[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(content):
        key = number()
        kind = key & 7
        if kind == 0:
            number()
            continue
        size = {1: 8, 5: 4}.get(kind) or number()
        if place + size > len(content):
            raise ValueError("it ends early")
        found.append((key >> 3, content[place : place + size]))
        place += size
    return found


def _special(
    tokens: tuple[str, ...], settings: Mapping[str, Any], config: Mapping[str, Any], starts: str
) -> tuple[int | None, ...]:
    """Numbers of the special tokens: as the tokenizer's settings call them, else as they are usually called."""
    numbers = {token: number for number, token in enumerate(tokens)}

    def find(key: str, usual: tuple[str, ...]) -> int | None:
        if key in settings:
            return numbers.get(_text(settings[key]))
        named = next((numbers[name] for name in usual if name in numbers), None)
        given = config.get(key.replace("token", "token_id"))
        if named is None and isinstance(given, int) and 0 <= given < len(tokens):
            return given
        return named

    pad, cls, sep, mask, unknown = (find(key, usual) for key, usual in _NAMES.items())
    if starts == "bos_token":  # GPT-2 has one token for both ends
        cls, sep = (find(key, ("<|endoftext|>",)) for key in ("bos_token", "eos_token"))
    elif starts == "decoder_start_token_id":
        start = config.get(starts)
        cls, sep = pad if start is None else start, find("eos_token", ("</s>",))
    elif "sep_token" not in settings and "eos_token" in settings:
        sep = find("eos_token", ())
    return pad, cls, sep, mask, unknown


def _text(token: Any) -> Any:
    """A token in the settings of a tokenizer: a text, or an object that has it."""
    return token.get("content") if isinstance(token, Mapping) else token


def _kind(
    path: Path, tokens: tuple[str, ...], special: tuple[int | None, ...]
) -> tuple[Alphabet, int, bool, bool]:
    """The alphabet, letters of a word, whether words overlap, and whether they are made by merging shorter ones.

    Words of one length over ACGT overlap (DNABERT), unless single bases stand beside them (nucleotide-transformer)
    or they are triplets of RNA (codons).
    """
    bare = [letters_of(token) for number, token in enumerate(tokens) if number not in special]
    words = {word for word in bare if word.isalpha() and word.isascii()}
    long = {word for word in words if len(word) > 1}
    lengths = {len(word) for word in long}
    of_bases = {word for word in long if set(word) <= set("ACGTUN")}
    single = {"A", "C", "G"} <= words
    if len({word for word in long if word.isupper()}) >= 0.9 * len(long):
        if words.issuperset(RESIDUES) and len(of_bases) <= len(long) / 2:
            return Alphabet.PROTEIN, 1, False, bool(long)
        if of_bases == long and len(lengths) == 1:
            if lengths == {3} and any("U" in word for word in long):
                return Alphabet.CODON, 1, False, False
            return Alphabet.DNA, lengths.pop(), not single, False
        if len(of_bases) > len(long) / 2 or (single and not long):
            return Alphabet.DNA, 1, False, bool(long)
    raise FormatError(
        f"{path}: its tokens ({quoted(sorted(long or words)[:3])}) are neither residues, bases, words of bases "
        "nor codons; models of sequences are read here"
    )


def _object_in(path: Path) -> dict[str, Any]:
    """A JSON object; empty when there is no such file."""
    return dict(read_json(path)) if path.is_file() else {}
