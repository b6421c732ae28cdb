"""Hugging Face folders of published language models, read as they are."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bioattn.attention.choices import PositionEncoding
from bioattn.attention.position import LONGEST_WAVE, angles
from bioattn.errors import FormatError, SettingsError
from bioattn.io.checkpoint import DAMAGE, damaged, load_checkpoint, open_safetensors
from bioattn.io.files import read_json, sha256_of
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.architectures import (
    ARCHITECTURES,
    LAYERS,
    Architecture,
    Settings,
    all_rows,
    published_numbers,
)
from bioattn.models.language.config import LanguageModelConfig
from bioattn.models.language.model import LanguageModel
from bioattn.models.model_folder import LARGEST_SIZE
from bioattn.sequences.published_vocabulary import read_published_vocabulary
from bioattn.sequences.vocabulary import Vocabulary
from bioattn.text import listed

NEVER = -1e4
"""Bias of the logit of a token that the published vocabulary lacks: its probability is 0."""
FILES = (WEIGHTS, f"{WEIGHTS}.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Where weights may lie; an index names the files of parts."""
_OLD_NORM = {"gamma": "weight", "beta": "bias"}
_UNUSED = re.compile(r"(attn\.(masked_)?bias|inv_freq)$|EncDecAttention\.relative_attention_bias\.")
"""Arrays within layers that follow from the settings."""


class PublishedWeights:
    """Arrays of a folder by their names without the prefix of the base model."""

    def __init__(self, folder: Path, prefix: str, files: ExitStack) -> None:
        self.path, self.files = _files(folder)
        self._arrays: dict[str, tuple[str, Path, Any]] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in self.files:
            if path.suffix == ".safetensors":
                try:
                    file = files.enter_context(open_safetensors(path))
                    shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
                except DAMAGE as error:
                    raise damaged(path, error) from error
            else:
                file = load_checkpoint(path)
                if not isinstance(file, Mapping):
                    raise FormatError(f"{path}: holds a {type(file).__name__}; names and tensors are needed")
                shapes = {
                    name: tuple(value.shape) for name, value in file.items() if isinstance(value, Tensor)
                }
            for name, shape in shapes.items():
                plain = name.removeprefix("module.").removeprefix(prefix)
                head, _, last = plain.rpartition(".")
                plain = f"{head}.{_OLD_NORM[last]}" if last in _OLD_NORM else plain
                self._arrays[plain], self.shapes[plain] = (name, path, file), shape

    def read(self, name: str) -> Tensor:
        """An array as float32. Raises: FormatError when it is damaged or not finite."""
        stored, path, file = self._arrays[name]
        try:
            found = file[stored] if isinstance(file, Mapping) else file.get_tensor(stored)
        except DAMAGE as error:
            raise damaged(path, error) from error
        array: Tensor = found.detach().float()
        if not torch.isfinite(array).all():
            raise FormatError(f"{path}: the array {stored} holds NaN or infinite values")
        return array

    def first(self, names: Sequence[str]) -> str:
        """The first of these arrays that is there. Raises: FormatError when none is."""
        for name in names:
            if name in self._arrays:
                return name
        raise FormatError(
            f"{self.path}: the array {names[0]} is missing; it is cut short, or of another model"
        )

    def where(self, name: str) -> str:
        stored, path, _ = self._arrays[name]
        return f"{path}: the array {stored}"


def _files(folder: Path) -> tuple[Path, list[Path]]:
    """The file of weights of a folder or its index, and the files that hold the weights."""
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise FormatError(f"{folder}: holds no weights ({', '.join(FILES)}); fetch them too")
    if path.suffix != ".json":
        return path, [path]
    try:
        parts = sorted(set(read_json(path)["weight_map"].values()))
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: names no files of weights; fetch it again") from error
    for part in parts:
        if Path(part).name != part or Path(part).suffix not in (".safetensors", ".bin"):
            raise FormatError(f"{path}: names {part!r}, which is no file of weights in this folder")
        if not path.with_name(part).is_file():
            raise FormatError(f"{path}: names {part}, which is missing; fetch it too")
    return path, [path.with_name(part) for part in parts]


def published_type(content: Mapping[str, Any]) -> str | None:
    """The architecture that a `config.json` names, if it is one that is read here."""
    name = content.get("model_type")
    return name if name in ARCHITECTURES and "format" not in content else None


def read_published_model(folder: Path) -> tuple[LanguageModel, str]:
    """The model of a Hugging Face folder, and the digest of its weights or of the digests of several files.

    Raises: FormatError naming the file, and the array, setting or token, that is missing, damaged or does not fit.
    """
    path = folder / CONFIG
    content = read_json(path)
    architecture = ARCHITECTURES[content["model_type"]]
    with ExitStack() as files:
        weights = PublishedWeights(folder, architecture.prefix, files)
        config, vocabulary = _described(folder, content, architecture, weights)
        with torch.device("meta"):
            model = LanguageModel(config, vocabulary)
        _fill(model, content, architecture, weights)
        digests = [sha256_of(file) for file in weights.files]
        together = hashlib.sha256("".join(digests).encode()).hexdigest()
        return model, digests[0] if len(digests) == 1 else together


def _described(
    folder: Path, content: Mapping[str, Any], architecture: Architecture, weights: PublishedWeights
) -> tuple[LanguageModelConfig, Vocabulary]:
    path = folder / CONFIG
    embedding = weights.first(architecture.embedding)
    if len(weights.shapes[embedding]) != 2:
        raise FormatError(
            f"{weights.where(embedding)} has shape {weights.shapes[embedding]}; two axes are needed"
        )
    rows = weights.shapes[embedding][0]
    both = content["model_type"] == "t5" and any(name.startswith("decoder.") for name in weights.shapes)
    vocabulary = read_published_vocabulary(
        folder, rows=rows, config=content, starts=architecture.starts, sentinels=both
    )
    largest = max(LARGEST_SIZE, sum(map(math.prod, weights.shapes.values())))
    try:
        config = architecture.settings(
            Settings(path, content, largest), vocabulary.alphabet, weights.shapes.keys()
        )
    except SettingsError as error:
        raise FormatError(f"{path}: {error}") from error
    if config.layers > len(weights.shapes):
        raise FormatError(f"{path}: has {config.layers:,} layers, the weights {len(weights.shapes):,} arrays")
    output = architecture.output
    shared = output not in weights.shapes or output == embedding
    tied = shared or torch.equal(weights.read(output), weights.read(embedding))
    form = replace(config.form, frequencies=_frequencies(content, config, weights), tied=tied)
    published = vocabulary.published
    assert published is not None
    sentinels = max(1, len(published.sentinels))
    return replace(config, kmer=vocabulary.kmer, form=form, sentinels=sentinels), vocabulary


def _frequencies(
    content: Mapping[str, Any], config: LanguageModelConfig, weights: PublishedWeights
) -> tuple[float, ...]:
    """Stored radians per position, which may have been rounded to half precision before training, or those of
    another base; empty for the usual ones."""
    if config.positions is not PositionEncoding.ROTARY:
        return ()
    size = config.head_channels
    stored = next(
        (name for name in sorted(weights.shapes) if name.endswith("rotary_embeddings.inv_freq")), None
    )
    rope = content.get("rope_parameters") or {}
    if rope.get("rope_type", "default") != "default":
        raise FormatError(
            f"{weights.path.with_name(CONFIG)}: positions of the kind {rope['rope_type']!r} are not read"
        )
    base = rope.get("rope_theta", content.get("rope_theta", LONGEST_WAVE))
    usual_P = angles(1, 1, size, torch.device("cpu"))[0]
    frequency_P = base ** -(torch.arange(0, size, 2) / size) if stored is None else weights.read(stored)
    return () if torch.equal(frequency_P, usual_P) else tuple(frequency_P.tolist())


def _fill(
    model: LanguageModel, content: Mapping[str, Any], architecture: Architecture, weights: PublishedWeights
) -> None:
    config, used = model.config, set()
    assert model.vocabulary.published is not None
    order, predicted = published_numbers(model.vocabulary, model.num_tokens)
    arrays, filled = model.state_dict(), dict[str, Tensor]()
    for row in all_rows(architecture, config, content, output=not config.form.tied):
        own = arrays.pop(row.ours)
        if not row.theirs:
            array = torch.zeros(len(model.vocabulary.published.tokens) if row.by_token else own.shape)
        else:
            name = weights.first(row.theirs)
            used.add(name)
            array = weights.read(name)
            if row.third is not None:
                array = array.chunk(3, dim=-1)[row.third]
            try:
                array = row.turn.read(array)
            except RuntimeError:
                raise _misshapen(weights, name) from None
        if row.plus:
            array = array + weights.read(weights.first([row.plus]))[0]
        if row.by_token:
            array = array[order].masked_fill_(order.view(-1, *[1] * (array.dim() - 1)) < 0, 0.0)
            if row.ours == "bias_V":
                array[~predicted] = NEVER
        if array.shape != own.shape:
            raise _misshapen(weights, name)
        filled[row.ours] = array.clone(memory_format=torch.contiguous_format)  # not a view of the file
    assert not arrays, f"no array is read for {listed(list(arrays))}"
    model.load_state_dict(filled, assign=True)
    for name in weights.shapes:
        if name not in used and name.startswith(LAYERS) and not _UNUSED.search(name):
            raise FormatError(
                f"{weights.where(name)} has no place in {config.layers} layers of the {content['model_type']} of "
                "transformers; other layers are not read"
            )


def _misshapen(weights: PublishedWeights, name: str) -> FormatError:
    return FormatError(
        f"{weights.where(name)} has shape {weights.shapes[name]}, which {CONFIG} does not ask for; the two belong "
        "to different models"
    )
