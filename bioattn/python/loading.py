"""`bioattn.load_model` and `bioattn.train`: models of any family."""

import shutil
import typing
import weakref
from enum import StrEnum
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bioattn.choices import chosen
from bioattn.errors import SettingsError
from bioattn.inference.inputs import python_warnings
from bioattn.models.family import ability, family, load_runner
from bioattn.models.settings import Settings, options_of, with_config_file
from bioattn.system.device import choose_device, set_threads

_SET_HERE = frozenset({"output", "config", "device", "threads", "resume", "force"})


def load_model(path: Path | str, *, device: str = "auto", threads: int | None = None) -> Any:
    """Load a trained model: a folder of `bioattn train` or Hugging Face, or a file of parameters.

    device: auto, cpu, cuda or mps. threads: of the CPU; None: the cores granted to this process.

    Raises: BioattnError for a device that is not there, or naming what is wrong with the model.
    """
    set_threads(threads)
    with python_warnings():
        return load_runner(Path(path), choose_device(device))


def train(
    name: str,
    dataset: Any,
    *,
    output: Path | str | None = None,
    device: str = "auto",
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    **settings: Any,
) -> Any:
    """Train a model of a family, such as `promoter`, and return it.

    dataset: what the command takes as its argument, a path or several. output: the model folder; None: only what
    `save` writes stays. resume: go on with an interrupted training of `output`; force: replace a folder that is
    there. settings: options of `bioattn train NAME` with `_` for `-`, such as `epochs=20`; `model` and `training`
    are the tables that --config takes, as dicts.

    Raises: SettingsError for unknown settings or wrong values; BioattnError for data that cannot be learned from.
    """
    from bioattn.training.run import train as run_training

    of = family(name)
    ability(of, "task")
    kind = of.settings["train"]
    made = mkdtemp(prefix="bioattn-") if output is None else None
    path = Path(made) / "model" if made is not None else Path(str(output))
    (argument,) = (field for field, said in options_of(kind).items() if said.is_argument)
    given = {argument: dataset, "output": path, **settings, "resume": resume, "force": force}
    filled = with_config_file(_filled(kind, given))
    set_threads(threads)
    chosen_device = choose_device(device)
    try:
        with python_warnings():
            run_training(typing.cast(Any, of), filled, device=chosen_device)
            model = of.load(path, chosen_device)
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise
    if made is not None:  # `save` copies it, so it stays as long as the model
        weakref.finalize(model.model, shutil.rmtree, made, ignore_errors=True)
    return model


def _filled(kind: type[Settings], values: dict[str, Any]) -> Any:
    """The settings of a command. Raises: SettingsError for one that it lacks, or of the wrong type."""
    hints = typing.get_type_hints(kind)
    for name in values:
        if name not in hints:
            known = [each for each in (*options_of(kind), "model", "training") if each not in _SET_HERE]
            raise SettingsError(f"no setting {name!r} here; there are {', '.join(known)}")
    return kind(**{name: _of_type(name, hints[name], value) for name, value in values.items()})


def _of_type(name: str, hint: Any, value: Any) -> Any:
    """A value as the command line would have made it. Raises: SettingsError when it is of another type."""
    if typing.get_origin(hint) is tuple:
        several = [value] if isinstance(value, str | Path) else value
        return tuple(_of_type(name, typing.get_args(hint)[0], each) for each in several)
    if not isinstance(hint, type) and typing.get_origin(hint) not in (typing.Union, type(int | None)):
        return value  # a table
    kinds = [each for each in (typing.get_args(hint) or (hint,)) if each is not type(None)]
    if value is None and len(kinds) < len(typing.get_args(hint)):
        return None
    (kind,) = kinds
    if issubclass(kind, StrEnum):
        return chosen(kind, name, value)
    if kind is float and type(value) is int:
        return float(value)
    if not isinstance(value, (str, Path) if kind is Path else kind) or isinstance(value, bool) > (
        kind is bool
    ):
        raise SettingsError(f"{name}={value!r}: a value of type {kind.__name__} is needed")
    return kind(value)
