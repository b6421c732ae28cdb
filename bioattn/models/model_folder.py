"""What every model folder has in common: `config.json` that names format, version and kind, the weights, digests.

Each kind of model adds its own files in its own room (`models/promoter/folder.py`, `models/evoformer/run.py`).
Nothing in a folder is ever unpickled. The schema stands in `docs/formats/model.md`.
"""

import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from bioattn import __version__
from bioattn.attention.capture import sites_of
from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError
from bioattn.io.checkpoint import DAMAGE, damaged, open_safetensors
from bioattn.io.files import atomic_output, is_file_name, read_json, sha256_of, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.io.settings import build
from bioattn.models.family import CONFIG, WEIGHTS, described_by, families
from bioattn.store.reader import Sites
from bioattn.store.training_record import HISTORY, TRAINING_RECORD, read_training_record

if TYPE_CHECKING:
    from bioattn.python.analyses import CheckRecord

Config = TypeVar("Config")
Model = TypeVar("Model", bound=torch.nn.Module)
MODEL_FORMAT = "bioattn-model"
MODEL_FORMAT_VERSION = 1
MODEL_CARD = "README.md"
MODEL_FILES = frozenset({CONFIG, WEIGHTS, TRAINING_RECORD, HISTORY, MODEL_CARD})
"""Files that model folders of every family have."""
LARGEST_SIZE = 1_000_000
"""Largest number of an architecture that is built, unless the weights hold more values; bases of a window, too."""


def model_files() -> frozenset[str]:
    """Names of all files that bioattn writes into model folders."""
    return MODEL_FILES.union(*(each.files for each in families().values()))


def write_model(
    folder: Path, model_type: str, model: torch.nn.Module, *, digest: bool = False, **fields: Any
) -> None:
    """Write the weights and `config.json` into the existing `folder`: what all models say, then `fields`.

    digest: whether `config.json` also holds the digest of the weights.
    """
    save_arrays(folder, model.state_dict(), f"{MODEL_FORMAT} {MODEL_FORMAT_VERSION}")
    if digest:
        fields["sha256"] = {WEIGHTS: sha256_of(folder / WEIGHTS)}
    write_json(
        folder / CONFIG,
        {
            "format": MODEL_FORMAT,
            "format_version": MODEL_FORMAT_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_type": model_type,
            **fields,
        },
    )


def read_model_config(folder: Path, model_type: str, files: Sequence[str] = ()) -> dict[str, Any]:
    """The content of `config.json` of a folder of that kind, which must also hold weights and `files`.

    Raises: FormatError naming the file that is missing, of another version or kind, or damaged; BioattnError when
    there is no such folder.
    """
    if not folder.exists():
        raise BioattnError(f"{folder}: no such file or folder")
    if not (folder / CONFIG).is_file():
        raise FormatError(f"{folder}: not a model folder, {CONFIG} is missing")
    content = read_json(folder / CONFIG)
    named = described_by(content)
    if named is not None and named.name != model_type:
        raise FormatError(
            f"{folder}: this is {_a(named.name)} model (`bioattn run {named.name}`); "
            f"{_a(model_type)} model is needed"
        )
    check_model_config(folder / CONFIG, content)
    if content.get("model_type") != model_type:
        raise FormatError(
            f"{folder / CONFIG}: a model of type {content.get('model_type')!r}, {_a(model_type)} model is needed"
        )
    for name in (*files, WEIGHTS):
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: not a model folder, {name} is missing")
    # A folder from somebody else must not have other files of this machine read.
    for path in (folder / name for name in {*files, *MODEL_FILES}):
        if path.is_symlink() and path.resolve().parent != folder.resolve():
            raise FormatError(f"{path}: is a link out of the model folder; put the file itself there")
    _check_digests(folder, CONFIG, content)
    _check_digests(folder, TRAINING_RECORD, read_training_record(folder))
    return dict(content)


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def check_model_config(path: Path, content: Any) -> None:
    """Raises: FormatError when `content` is not the config of a model of the format this version reads."""
    if not isinstance(content, dict) or content.get("format") != MODEL_FORMAT:
        raise FormatError(f"{path}: not the config of a bioattn model")
    if content.get("format_version") != MODEL_FORMAT_VERSION:
        raise FormatError(
            f"{path}: model format version {content.get('format_version')}, this bioattn reads version "
            f"{MODEL_FORMAT_VERSION}; use the bioattn that wrote it ({content.get('generated_by', 'unknown')})"
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedModel(Generic[Model, Config]):
    """A model on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str]

    model: Model
    device: torch.device
    sha256: str
    """Of the weights file."""
    path: Path | None = None
    """The folder or file that it was loaded from."""

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        return f"<{self.family} model {self.path}: {weights:,} weights on {self.device}>"

    @classmethod
    def of_folder(
        cls, folder: Path, device: torch.device, kind: type[Config], make: Callable[[Config], Model]
    ) -> Self:
        """The model of a folder that `write` wrote. kind: of the architecture, of which `make` makes the network.

        Raises: FormatError naming the file that is missing, of another version or family, or damaged; BioattnError
        when there is none.
        """
        content = read_model_config(folder, cls.family)
        try:
            config: Any = build(kind, content["architecture"], str(folder / CONFIG))
        except KeyError as error:
            raise FormatError(f"{folder / CONFIG}: is incomplete ({error!r})") from error
        model = load_network(lambda: make(config), asdict(config), folder / WEIGHTS, device)
        return cls(model=model.eval(), device=device, sha256=sha256_of(folder / WEIGHTS), path=folder)

    @property
    def config(self) -> Config:
        """The architecture."""
        return cast(Config, self.model.config)

    @property
    def sites(self) -> Sites[AttentionSite]:
        """Attention sites by name."""
        return Sites(sites_of(self.model))

    def write(self, folder: Path) -> None:
        """Write weights and `config.json` into the existing `folder`."""
        write_model(folder, self.family, self.model, architecture=asdict(cast(Any, self.config)))

    def save(self, path: Path | str, *, force: bool = False) -> None:
        """Write the model as a folder, which `bioattn.load_model` and the commands read.

        The record of its training and its model card go along, unless its weights have changed since. force:
        replace a folder that is there.

        Raises: BioattnError when there is one, or it cannot be written.
        """
        output = Path(path)
        check_output_folder(output, () if self.path is None else [self.path], force=force)
        with atomic_folder(output, model_files()) as folder:
            self.write(folder)
            if self.path is None or not self.path.is_dir() or sha256_of(folder / WEIGHTS) != self.sha256:
                return
            for name in sorted(MODEL_FILES - {CONFIG, WEIGHTS}):
                if (self.path / name).is_file():
                    shutil.copyfile(self.path / name, folder / name)


class CheckedModel(LoadedModel[Model, Config]):
    """A model whose attention is checked on inputs of its own kind, by its `check_probe`."""

    __slots__ = ()

    def check(
        self, inputs: Any, *, dataset: Path | str | None = None, samples: int = 300, seed: int = 0
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed (docs/checks.md).

        inputs: the path of a dataset, or sequences as a language model reads them. dataset: of the training, for
        the accuracy on what was held out. samples: at most, drawn by `seed`.

        Raises: BioattnError for too few samples, or a dataset that does not fit the model.
        """
        from bioattn.python.analyses import check

        return check(self, inputs, dataset=dataset, samples=samples, seed=seed)

    def held_out(self, side: str, sha256: str) -> str:
        """The side of a dataset; empty when the model was trained on another dataset and may know all sides."""
        record = {} if self.path is None else read_training_record(self.path)
        return side if record.get("dataset", {}).get("sha256") == sha256 else ""


def save_arrays(folder: Path, arrays: Mapping[str, torch.Tensor], form: str) -> None:
    """Write arrays as the weights of the existing `folder`. form: what the file is to say of their format."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in arrays.items()}
    # One metadata entry only: safetensors writes several in random order, and the bytes would not repeat.
    with atomic_output(folder / WEIGHTS) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        try:
            save_file(weights, temporary, metadata={"format": form})
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            code = int(number[1]) if number else 0
            raise OSError(code, os.strerror(code) if code else str(error)) from error
        # safetensors gives a file to its owner alone.
        temporary.chmod(mode)


def load_network(
    make: Callable[[], Model], architecture: Mapping[str, Any], path: Path, device: torch.device
) -> Model:
    """A model with the weights of a safetensors file, whose sizes are held against it before memory is taken.

    Weights are copied one by one, so that they are never all in memory twice. architecture: JSON values, which
    `make` makes the model of.

    Raises: FormatError for a damaged file, naming a size that cannot be, and missing, extra or misshapen arrays;
    BioattnError when it cannot be opened.
    """
    try:
        with open_safetensors(path) as file:
            stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except DAMAGE as error:
        raise damaged(path, error) from error
    _check_integers(architecture, "", sum(map(math.prod, stored.values())), path)
    model = _model_without_values(make, path, len(stored))
    arrays = model.state_dict()
    for name in (name for name in arrays if name not in stored):
        raise FormatError(
            f"{path}: the array {name} is missing; the file does not belong to this config.json"
        )
    for name, shape in stored.items():
        if name not in arrays:
            raise FormatError(f"{path}: unknown array {name}; the file does not belong to this config.json")
        if shape != (wanted := tuple(arrays[name].shape)):
            raise FormatError(f"{path}: the array {name} has shape {shape}, config.json asks for {wanted}")
    try:
        with open_safetensors(path) as file:
            for name in stored:
                tensor = file.get_tensor(name)
                if not torch.isfinite(tensor).all():
                    raise FormatError(f"{path}: the array {name} holds NaN or infinite values")
                arrays[name] = tensor.to(device, arrays[name].dtype, copy=True)
    except DAMAGE as error:
        raise damaged(path, error) from error
    model.load_state_dict(arrays, assign=True)
    return model.to(device)


def _check_integers(value: Any, name: str, values: int, path: Path) -> None:
    """Raises: FormatError for a number in JSON values that is too large for the `values` in the weights.

    name: of the key that the value stands under.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_integers(inner, key, values, path)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_integers(inner, name, values, path)
    elif isinstance(value, int) and value > max(LARGEST_SIZE, values):
        raise FormatError(
            f"{path.with_name(CONFIG)}: {name} is {value:,}, but {path.name} holds {values:,} values in all; "
            "the folder is damaged or was edited"
        )


def _model_without_values(make: Callable[[], Model], path: Path, number_stored: int) -> Model:
    """The model of `make` within `without_values`.

    Raises: FormatError for sizes that no model has, or of more arrays than the file holds.
    """
    config, number = path.with_name(CONFIG), 0

    def count(*_: Any) -> None:
        nonlocal number
        number += 1
        if number > 2 * number_stored + 100:  # a layer may register a parameter and replace it
            raise FormatError(
                f"{config}: asks for more than the {number_stored:,} arrays that {path.name} holds; the folder is "
                "damaged or was edited"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        with without_values():
            return make()
    except (RuntimeError, OverflowError, ValueError) as error:
        raise FormatError(f"{config}: no model has these sizes ({error})") from error
    finally:
        hook.remove()


@contextmanager
def without_values() -> Iterator[None]:
    """Models made within have shapes alone (torch's meta device): no memory is taken, no number drawn.

    Buffers that are not stored with a model come from NumPy, as torch's functions would give no values here.
    """
    with torch.device("meta"), _WithoutFilling():
        yield


_IN_PLACE = ("normal_", "uniform_", "erfinv_", "mul_", "add_", "clamp_", "fill_", "zero_")
_FILLING = {
    *(torch.nn.init.normal_, torch.nn.init.uniform_, torch.nn.init.kaiming_uniform_),
    *(getattr(torch.Tensor, name) for name in _IN_PLACE),
}


class _WithoutFilling(TorchFunctionMode):
    """Leaves out what draws and scales first weights: on the meta device torch imports its compiler for that."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _FILLING:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        drawn = func is torch.randn and "device" not in kwargs
        return (torch.empty if drawn else func)(*args, **kwargs)


def _check_digests(folder: Path, record: str, content: Any) -> None:
    """A flipped bit in a float is a plausible float: only the digests tell."""
    digests = content.get("sha256", {}) if isinstance(content, dict) else None
    if not isinstance(digests, dict):
        raise FormatError(f"{folder / record}: is damaged or was edited")
    for name, digest in digests.items():
        if not is_file_name(name):  # a path would have any file of this machine read, or a device without end
            raise FormatError(f"{folder / record}: names {name!r}, which is no file of a model folder")
        if name == HISTORY and not (folder / name).is_file():
            continue  # nobody needs it to run the model
        if sha256_of(folder / name) != digest:
            raise FormatError(f"{folder / name}: differs from the digest in {record}; the file is damaged")
