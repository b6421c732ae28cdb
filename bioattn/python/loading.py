"""`bioattn.load_model` and `bioattn.train`: models of any family."""

import logging
import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast, get_origin

from bioattn.errors import SettingsError
from bioattn.inference.inputs import python_call, python_warnings, torch_defaults
from bioattn.io.hub import local_model
from bioattn.io.settings import (
    OPTIONS,
    Settings,
    build,
    declared_by,
    filled,
    parameters_of,
    require_limits,
    with_config_file,
)
from bioattn.models.family import ability, family, load_runner
from bioattn.system.device import choose_device, set_threads
from bioattn.system.progress import Progress

LOGGER = logging.getLogger("bioattn")
_SET_HERE = frozenset({"output", "config", "device", "threads", "resume", "force"})


def load_model(path: Path | str, *, device: str = "auto", threads: int | None = None) -> Any:
    """Load a trained model: a folder of `bioattn train` or Hugging Face, a name of its hub such as
    `facebook/esm2_t6_8M_UR50D`, with `@` and a revision or not, a file of parameters, or by its name a model that
    comes along, such as `yeast-stress`. Each family's class has methods of its own (docs/python.md).

    device: auto, cpu, cuda or mps. threads: of the CPU; None: the cores granted to this process.

    Raises: BioattnError for a device that is not there, or naming what is wrong with the model.
    """
    set_threads(threads)
    with python_call():
        return load_runner(local_model(Path(path)), choose_device(device))


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
    are the tables that --config takes, as dicts. A model that ends below a simple one, or whose maps are not to be
    believed, is warned of; `training.json` in its `path` has all figures. Epochs are logged as information.

    Raises: SettingsError for unknown settings or wrong values; BioattnError for data that cannot be learned from.
    """
    from bioattn.checks.record import NEGATIVE
    from bioattn.training.run import train as run_training

    of = family(name)
    ability(of, "task")
    kind = of.settings["train"]
    made = mkdtemp(prefix="bioattn-") if output is None else None
    path = Path(made) / "model" if made is not None else Path(str(output))
    argument = next(one.name for one in parameters_of(kind) if one.said.is_argument)
    given = {argument: dataset, "output": path, **settings, "resume": resume, "force": force}
    try:
        filled = with_config_file(_filled(kind, given))
        set_threads(threads)
        chosen_device = choose_device(device)
        with torch_defaults(), python_warnings():
            results = run_training(cast(Any, of), filled, device=chosen_device, progress=_Logged())
            if results is not None and (comparison := results.comparison()) and comparison.below:
                LOGGER.warning(comparison.sentence())
            if getattr(results, "verdict", "") in NEGATIVE:
                LOGGER.warning(getattr(results, "check", ""))
            model = of.load(path, chosen_device)
    except BaseException:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        raise
    if made is not None:  # `save` copies it, so it stays as long as the model
        weakref.finalize(model.model, shutil.rmtree, made, ignore_errors=True)
    return model


class _Logged(Progress):
    def note(self, sentence: str) -> None:
        LOGGER.info(sentence)


def _filled(kind: type[Settings], values: dict[str, Any]) -> Any:
    """The settings of a command. Raises: SettingsError for one that it lacks, or of the wrong type."""
    by_name = {one.name: one for one in parameters_of(kind)}
    known = {*by_name, *declared_by(kind)}
    for name, value in values.items():
        if name not in known:
            raise SettingsError(f"no setting {name!r} here; there are {', '.join(sorted(known - _SET_HERE))}")
        if isinstance(value, str | Path) and name in by_name and get_origin(by_name[name].kind) is tuple:
            values[name] = (value,)
        elif hasattr(value, "item"):  # a number of NumPy or torch
            values[name] = value.item()
    require_limits({one.name: one.said for one in by_name.values()}, values)
    return build(kind, filled(declared_by(kind), values), OPTIONS)
