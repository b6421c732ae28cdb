"""Hugging Face folders of published language models, read as they are."""

import hashlib
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bioattn.attention.position import LONGEST_WAVE, angles
from bioattn.choices import PositionEncoding
from bioattn.errors import FormatError, SettingsError
from bioattn.io.checkpoint import DAMAGE, damaged, load_state_dict, open_safetensors
from bioattn.io.files import read_json, sha256_of
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.language.architectures import (
    ARCHITECTURES,
    LAYERS,
    Architecture,
    Settings,
    all_rows,
    has_decoder,
    published_numbers,
)
from bioattn.models.language.config import LanguageModelConfig, Output, published_type
from bioattn.models.language.model import LanguageModel
from bioattn.models.model_folder import LARGEST_SIZE, without_values
from bioattn.sequences.published_vocabulary import read_published_vocabulary
from bioattn.sequences.vocabulary import Vocabulary
from bioattn.text import counted, listed

NEVER = -1e4
"""Bias of the logit of a token that the published vocabulary lacks: its probability is 0."""
FILES = (WEIGHTS, f"{WEIGHTS}.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Where weights may lie; an index names the files of parts."""
WEIGHT_SUFFIXES = (".safetensors", ".bin")
ADAPTER_SETTINGS = "adapter_config.json"
ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
"""Where the library `peft` puts low-rank adapters."""
LOGGER = logging.getLogger("bioattn")
_OLD_NORM = {"gamma": "weight", "beta": "bias"}
_WRAPPERS = re.compile(
    r"(?<![^.])(_orig_mod|module|model|_fsdp_wrapped_module|base_layer)\.|^base_model\.model\."
)
"""What compiling, training in parallel and adapters put into names."""
_LOW_RANK = re.compile(r"(.+)\.lora_(?:(embedding)_)?([AB])(?:\.weight)?$")
_UNUSED = re.compile(
    r"(attn\.(masked_)?bias|inv_freq|position_ids|EncDecAttention\.relative_attention_bias\.weight)$"
    r"|^(pooler|contact_head|cls\.seq_relationship|embeddings\.position_embeddings)\."
)
"""Arrays that follow from the settings, or are for other tasks than those of a language model."""


class Stored(NamedTuple):
    name: str
    path: Path
    get: Callable[[str], Tensor]


def adapter_settings(folder: Path) -> dict[str, Any]:
    """What `peft` wrote of adapters. Raises: FormatError when it is something else."""
    content = read_json(folder / ADAPTER_SETTINGS)
    if not isinstance(content, dict) or not isinstance(content.get("lora_alpha", 8), int | float):
        raise FormatError(f"{folder / ADAPTER_SETTINGS}: holds no settings of adapters; fetch it again")
    return content


class Adapter(NamedTuple):
    """What is added to a matrix: scale · up · down."""

    down: Stored
    up: Stored
    scale: float
    transposed: bool


class PublishedWeights:
    """Arrays of a folder by their names without the prefix of the base model."""

    def __init__(self, folder: Path, prefix: str, files: ExitStack, device: torch.device) -> None:
        self.device = device
        self.path, self.files = _files(folder)
        self._prefix = prefix
        self._arrays: dict[str, Stored] = {}
        self._adapters: dict[str, Adapter] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in self.files:
            for stored, shape in _stored(path, files):
                name = self._plain(stored.name)
                if name in self._arrays:
                    raise FormatError(
                        f"{self.where(name)} is also in {path} ({stored.name}); take away the wrong one"
                    )
                self._arrays[name], self.shapes[name] = stored, shape
        index = read_json(self.path)["weight_map"] if self.path.suffix == ".json" else {}
        for array, file in index.items():
            name = self._plain(array)
            held = name in self._arrays and self._arrays[name].path.name == file
            if not (held or _UNUSED.search(name)):
                raise FormatError(
                    f"{self.path}: names {file} for the array {array}, which is not in it; fetch both again"
                )
        if (folder / ADAPTER_SETTINGS).is_file():
            self._adapt(folder, files)

    def _plain(self, name: str) -> str:
        name = _WRAPPERS.sub("", name).removeprefix(self._prefix)
        head, _, last = name.rpartition(".")
        return f"{head}.{_OLD_NORM[last]}" if last in _OLD_NORM else name

    def _adapt(self, folder: Path, files: ExitStack) -> None:
        """Read low-rank adapters (Hu et al. 2021) and what was trained beside them."""
        settings = folder / ADAPTER_SETTINGS
        content = adapter_settings(folder)
        # Other first values were taken from the matrices, which have changed by that.
        allowed = {"peft_type": ("LORA",), "init_lora_weights": (None, True, False, "gaussian")}
        for key in ("peft_type", "init_lora_weights", "use_dora", "lora_bias", "alpha_pattern"):
            if (content.get(key) or None) not in allowed.get(key, (None,)):
                raise FormatError(
                    f"{settings}: {key} is {content.get(key)!r}; such adapters are not read: merge them into the "
                    "weights (merge_and_unload of peft)"
                )
        path = next((folder / name for name in ADAPTERS if (folder / name).is_file()), None)
        if path is None:
            raise FormatError(
                f"{settings}: has no {ADAPTERS[0]} beside it; fetch it too, or take the settings away"
            )
        halves: dict[str, dict[str, Stored]] = {}
        for stored, shape in _stored(path, files):
            name = self._plain(stored.name)
            if (found := _LOW_RANK.fullmatch(name)) is not None:
                halves.setdefault(f"{found[1]}.weight", {})[found[3]] = stored
            elif name in self._arrays or name.startswith(("classifier.", "score.")):
                self._arrays[name], self.shapes[name] = stored, shape
            else:
                raise FormatError(f"{path}: the array {stored.name} has no counterpart in {self.path}")
        for name, both in halves.items():
            if name not in self._arrays or len(both) < 2:
                first = next(iter(both.values()))
                raise FormatError(
                    f"{path}: the array {first.name} lacks its other half, or its matrix in {self.path}"
                )
            rank = both["A"].get(both["A"].name).shape[0]
            scale = content.get("lora_alpha", 8) / (math.sqrt(rank) if content.get("use_rslora") else rank)
            transposed = bool(content.get("fan_in_fan_out")) or "lora_embedding_" in both["A"].name
            self._adapters[name] = Adapter(both["A"], both["B"], scale, transposed)
        LOGGER.warning(
            f"{path}: low-rank adapters of {counted(len(halves), 'array')} are added to {self.path}"
        )
        self.files += [path, settings]

    def read(self, name: str) -> Tensor:
        """An array as float32 on the device. Raises: FormatError when damaged, of whole numbers or not finite."""
        array = _read(self._arrays[name], self.device)
        if (adapter := self._adapters.get(name)) is not None:
            up, down = (_read(each, self.device) for each in (adapter.up, adapter.down))
            with suppress(RuntimeError):
                added = up @ down
                added = added.mT if adapter.transposed else added
                if added.shape == array.shape:
                    return array + adapter.scale * added
            raise FormatError(
                f"{adapter.up.path}: the arrays {adapter.up.name} and {adapter.down.name} do not fit "
                f"{self.where(name)}; the adapters belong to another model"
            )
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
        stored = self._arrays[name]
        return f"{stored.path}: the array {stored.name}"


def _stored(path: Path, files: ExitStack) -> Iterator[tuple[Stored, tuple[int, ...]]]:
    """The arrays of a file and their shapes."""
    if path.suffix != ".safetensors":
        arrays = load_state_dict(path)
        for name, array in arrays.items():
            yield Stored(name, path, arrays.__getitem__), tuple(array.shape)
        return
    try:
        file = files.enter_context(open_safetensors(path))
        for name in file.keys():  # noqa: SIM118
            yield Stored(name, path, file.get_tensor), tuple(file.get_slice(name).get_shape())
    except DAMAGE as error:
        raise damaged(path, error) from error


def _read(stored: Stored, device: torch.device) -> Tensor:
    try:
        array = stored.get(stored.name).detach()
    except DAMAGE as error:
        raise damaged(stored.path, error) from error
    if not array.is_floating_point():
        raise FormatError(
            f"{stored.path}: the array {stored.name} is {str(array.dtype).removeprefix('torch.')}; floating-point "
            "numbers are needed, not weights that were quantised"
        )
    array = array.to(device).float()
    if not torch.isfinite(array).all():
        raise FormatError(f"{stored.path}: the array {stored.name} holds NaN or infinite values")
    return array


def _files(folder: Path) -> tuple[Path, list[Path]]:
    """The file of weights of a folder or its index, and the files that hold the weights."""
    there = [folder / name for name in FILES if (folder / name).is_file()]
    if not there:
        if parts := [path.name for path in sorted(folder.glob("*-of-*")) if path.suffix in WEIGHT_SUFFIXES]:
            raise FormatError(f"{folder}: holds {parts[0]} without its index (*.index.json); fetch it too")
        raise FormatError(f"{folder}: holds no weights ({', '.join(FILES)}); fetch them too")
    path = there[0]
    if path.suffix == ".json":
        return path, _parts(path)
    if len(there) > 1 and there[1].name == f"{path.name}.index.json" and _parts(there[1]) != [path]:
        raise FormatError(
            f"{path}: lies beside {there[1].name}, which names other files; take one of the two away"
        )
    return path, [path]


def _parts(path: Path) -> list[Path]:
    """The files that an index names. Raises: FormatError when it is none, or one of them is missing."""
    try:
        parts = sorted({str(part) for part in read_json(path)["weight_map"].values()})
    except (AttributeError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: names no files of weights; fetch it again") from error
    for part in parts:
        if Path(part).name != part or Path(part).suffix not in WEIGHT_SUFFIXES:
            raise FormatError(f"{path}: names {part!r}, which is no file of weights in this folder")
        if not path.with_name(part).is_file():
            raise FormatError(f"{path}: names {part}, which is missing; fetch it too")
    return [path.with_name(part) for part in parts]


def read_published_model(folder: Path, device: torch.device, dtype: torch.dtype) -> tuple[LanguageModel, str]:
    """The model of a Hugging Face folder, its weights taken to the device one by one, and their digest, or that of
    the digests of several files.
    """
    path = folder / CONFIG
    content = read_json(path)
    if content.get("quantization_config"):
        raise FormatError(
            f"{path}: the weights were quantised (quantization_config); use those that were not"
        )
    architecture = ARCHITECTURES[str(published_type(content))]
    with ExitStack() as files:
        weights = PublishedWeights(folder, architecture.prefix, files, device)
        config, vocabulary = _described(folder, content, architecture, weights)
        with without_values():
            empty = LanguageModel(config, vocabulary)
        model = _filled(empty, content, architecture, weights, dtype)
        digests = [sha256_of(file) for file in weights.files]
        together = hashlib.sha256("".join(digests).encode()).hexdigest()
        return model, digests[0] if len(digests) == 1 else together


def _described(
    folder: Path,
    content: Mapping[str, Any],
    architecture: Architecture,
    weights: PublishedWeights,
) -> tuple[LanguageModelConfig, Vocabulary]:
    path = folder / CONFIG
    output = architecture.output
    tie = content.get("tie_word_embeddings")
    # T5 says so by another setting since transformers 5.
    tie = architecture.tied if tie is None or "scale_decoder_outputs" in content else bool(tie)
    embedding = weights.first([*architecture.embedding, *([output] if tie else [])])
    for other in architecture.embedding:
        if other in weights.shapes and not _equal(weights, embedding, other):
            raise FormatError(
                f"{weights.where(embedding)} and {other} differ; models with two such matrices are not read"
            )
    rows, *others = weights.shapes[embedding]
    if len(others) != 1 or rows != (content.get("vocab_size") or rows):
        raise FormatError(
            f"{weights.where(embedding)} has shape {weights.shapes[embedding]}; {CONFIG} has a vocab_size of "
            f"{content.get('vocab_size')}"
        )
    vocabulary = read_published_vocabulary(
        folder,
        rows=rows,
        config=content,
        starts=architecture.starts,
        sentinels=architecture.starts == "decoder_start_token_id" and has_decoder(content, weights.shapes),
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
    tied = config.form.output is Output.NONE
    if not tied:
        matrix = weights.first([output, embedding] if tie else [output])
        tied = _equal(weights, embedding, matrix)
        fits = weights.shapes[matrix] == weights.shapes[embedding]
        if tie and fits and not tied and content.get("scale_decoder_outputs", True):
            LOGGER.warning(
                f"{weights.where(output)} differs from {embedding}, though {path} does not say that they do "
                "(tie_word_embeddings); both are read"
            )
    # The kinds of tokens are added to embeddings, and not to the matrix of the output.
    tied = tied and not config.form.slopes
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
    names = (name for name in sorted(weights.shapes) if name.endswith("rotary_embeddings.inv_freq"))
    stored = next(names, None)
    rope = content.get("rope_parameters") or content.get("rope_scaling") or {}
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        raise FormatError(f"{weights.path.with_name(CONFIG)}: positions of the kind {kind!r} are not read")
    base = rope.get("rope_theta", content.get("rope_theta", LONGEST_WAVE))
    if not isinstance(base, int | float):
        raise FormatError(f"{weights.path.with_name(CONFIG)}: rope_theta is {base!r}; a number is needed")
    usual_P = angles(1, 1, size, torch.device("cpu"))[0]
    frequency_P = base ** -(torch.arange(0, size, 2) / size)
    if stored is not None:
        frequency_P = _turned(weights, [stored], lambda array: array, usual_P.shape)
    return () if torch.equal(frequency_P, usual_P) else tuple(frequency_P.tolist())


def _filled(
    model: LanguageModel,
    content: Mapping[str, Any],
    architecture: Architecture,
    weights: PublishedWeights,
    dtype: torch.dtype,
) -> LanguageModel:
    config, used = model.config, set()
    assert model.vocabulary.published is not None
    order, predicted = published_numbers(model.vocabulary, model.num_tokens)
    order, predicted = order.to(weights.device), predicted.to(weights.device)
    arrays, filled = model.state_dict(), dict[str, Tensor]()
    for row in all_rows(architecture, config, content, output=not config.form.tied):
        own = arrays.pop(row.ours)
        needed = own.shape
        if row.by_token:
            needed = torch.Size([len(model.vocabulary.published.tokens), *own.shape[1:]])
        array = torch.zeros(needed, device=order.device)
        if row.theirs:
            array = _turned(weights, row.theirs, row.read, needed)
        if row.plus:
            kinds = (content.get("type_vocab_size") or 2, *needed[1:])
            array = array + _turned(weights, [row.plus], lambda rows: rows, kinds)[0]
        used |= {*row.theirs, row.plus}
        if row.by_token:
            array = array[order].masked_fill_(order.view(-1, *[1] * (array.dim() - 1)) < 0, 0.0)
            if row.ours == "bias_V":
                array[~predicted] = NEVER
        # Not a view of the file.
        filled[row.ours] = array.to(dtype, copy=True, memory_format=torch.contiguous_format)
    assert not arrays, f"no array is read for {listed(list(arrays))}"
    used.update(architecture.embedding)
    unread = [name for name in weights.shapes if name not in used and not _UNUSED.search(name)]
    if (name := next((each for each in unread if each.startswith(LAYERS)), None)) is not None:
        raise FormatError(
            f"{weights.where(name)} has no place in {config.layers} layers of the {published_type(content)} of "
            "transformers; other layers are not read"
        )
    if unread:
        LOGGER.warning(
            f"{weights.path}: {listed(unread)}: not read, for they are no part of a language model"
        )
    model.load_state_dict(filled, assign=True)
    return model


def _turned(
    weights: PublishedWeights, names: Sequence[str], turn: Callable[[Tensor], Tensor], needed: Sequence[Any]
) -> Tensor:
    """What `turn` makes of the first of these arrays. Raises: FormatError when that has not the needed shape."""
    name = weights.first(names)
    array = weights.read(name)
    with suppress(IndexError, RuntimeError):
        if (turned := turn(array)).shape == tuple(needed):
            return turned
    raise FormatError(
        f"{weights.where(name)} has shape {weights.shapes[name]}, which {CONFIG} and the vocabulary do not ask "
        f"for ({' × '.join(map(str, needed))} values are needed); they belong to different models"
    )


def _equal(weights: PublishedWeights, name: str, other: str) -> bool:
    return name == other or torch.equal(weights.read(name), weights.read(other))
