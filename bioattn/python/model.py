"""`bioattn.load_model`: a trained model of any family, ready for sequences, files of them, or alignments."""

import sys
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from bioattn.errors import BioattnError, SettingsError
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.family import Family, ability
from bioattn.models.running import RunReport
from bioattn.models.settings import Settings, options_of
from bioattn.python.opened import open
from bioattn.store.reader import Attention
from bioattn.system.device import Device
from bioattn.system.progress import SILENT

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from bioattn.inference.runner import Runner

Inputs = Path | str | Mapping[str, str] | Iterable[Any]
"""A file (or what else `bioattn run` takes); or sequences: by id, or a list of them, of strings or of Biopython's
SeqRecord. Of an alignment its rows, the target first."""
_SET_HERE = frozenset({"model", "output", "attention", "device", "threads", "shard", "resume", "force"})


class Model:
    """A trained model. Made by `load_model`."""

    def __init__(self, path: Path, family: Family, runner: "Runner") -> None:
        self.path = path
        self.family = family.name
        self.runner = runner
        """The network on its device, with what the library asks of it (`bioattn.inference.runner`)."""
        self._family = family

    def __repr__(self) -> str:
        return f"<{self.family} model {self.path} on {self.runner.device}>"

    @property
    def sites(self) -> list[str]:
        """Names of the attention sites, in the order of the model."""
        return list(self.runner.sites)

    def predict(self, inputs: Inputs, **options: Any) -> "pd.DataFrame":
        """What the model predicts: the table that `bioattn run` writes.

        Of several alignments the tables stand below each other, their names in the index.

        inputs: a file, or sequences by id or without (called `sequence_1`, …). options: those of the command, with
        `_` for `-`, such as `treatments=["heat"]` or `recycles=1`.

        Raises: BioattnError for inputs that the model cannot take; SettingsError for unknown or wrong options.
        """
        with TemporaryDirectory(prefix="bioattn-") as folder, _as_file(inputs, Path(folder)) as path:
            output = Path(folder) / "output.tsv"
            self._carry_out("run", self._family.settings["run"], path, output, options)
            return _table(output, self._family.table)

    def attention(self, inputs: Inputs, **options: Any) -> Attention:
        """Where the model looks: what `bioattn export attention`, or `run` with --attention, writes.

        It lies in a temporary file, which is removed when it is closed or no longer used. inputs, options and
        errors: as `predict`.
        """
        folder = TemporaryDirectory(prefix="bioattn-")
        output = Path(folder.name) / "attention.h5"
        with _as_file(inputs, Path(folder.name)) as path:
            if hasattr(self._family, "export_attention"):
                self._carry_out("export_attention", ExportAttention, path, output, options)
            else:
                kind = self._family.settings["run"]
                if "attention" not in options_of(kind):
                    raise BioattnError(f"{self.path}: {self.family} models cannot write attention")
                predictions = Path(folder.name) / "predictions"
                self._carry_out("run", kind, path, predictions, options, attention=output)
        maps = Attention.open(output)
        maps._folder = folder  # type: ignore[attr-defined]
        return maps

    def _carry_out(
        self,
        verb: str,
        kind: type[Settings],
        inputs: Path,
        output: Path,
        options: Mapping[str, Any],
        **more: Path,
    ) -> None:
        settings = _filled(kind, self.path, inputs, output, options, **more)
        report: RunReport = ability(self._family, verb)(settings, _Surroundings(self.runner))
        if report.failure is not None:
            raise BioattnError(report.failure)


def _table(output: Path, name: str) -> "pd.DataFrame":
    """The table that a command wrote: a file, or the one of this `name` in a folder or in each of its folders."""
    import pandas as pd

    paths = {"": output / name if output.is_dir() else output}
    if not paths[""].is_file():
        paths = {each.parent.name: each for each in sorted(output.glob(f"*/{name}"))}
    tables: dict[str, pd.DataFrame] = {each: open(path) for each, path in paths.items()}
    return tables[""] if "" in tables else pd.concat(tables)


class _Surroundings:
    """A `bioattn.models.running.Running` whose model is loaded and who only warns."""

    def __init__(self, runner: "Runner") -> None:
        self.loaded = runner
        self.progress = SILENT
        self.stdout = sys.stdout

    def device(self, wanted: Device, threads: int | None) -> "torch.device":
        return self.loaded.device

    def warn(self, sentence: str) -> None:
        warnings.warn(sentence, stacklevel=2)


@contextmanager
def _as_file(inputs: Inputs, folder: Path) -> Iterator[Path]:
    """A file of the inputs; in messages, one that was made here is `the sequences`."""
    if isinstance(inputs, Path | str):
        yield Path(inputs)
        return
    if hasattr(inputs, "items"):
        sequences = [(str(name), str(sequence)) for name, sequence in inputs.items()]
    else:
        sequences = [
            (str(getattr(each, "id", f"sequence_{number}")), str(getattr(each, "seq", each)))
            for number, each in enumerate(inputs, start=1)
        ]
    for name, _ in sequences:
        if len(name.split()) != 1:
            raise BioattnError(f"the sequences: the name {name!r} is empty or holds a space; give it another")
    path = folder / "sequences.fa"
    path.write_text("".join(f">{name}\n{sequence}\n" for name, sequence in sequences), encoding="utf-8")
    try:
        yield path
    except BioattnError as error:
        raise type(error)(str(error).replace(str(path), "the sequences")) from error


def _filled(
    kind: type[Settings], model: Path, inputs: Path, output: Path, options: Mapping[str, Any], **more: Any
) -> Any:
    """The settings of a command. Raises: SettingsError for an option that it lacks, or of the wrong type."""
    known = options_of(kind)
    (argument,) = (name for name, said in known.items() if said.is_argument and name != "model")
    free = [name for name in known if name not in (argument, *_SET_HERE)]
    for name in options:
        if name not in free:
            raise SettingsError(f"no option {name!r} here; there are {', '.join(free)}")
    hints = typing.get_type_hints(kind)
    values = {"model": model, argument: inputs, "output": output, **options, **more}
    return kind(**{name: _of_type(name, hints[name], value) for name, value in values.items()})


def _of_type(name: str, hint: Any, value: Any) -> Any:
    """A value as the command line would have made it. Raises: SettingsError when it is of another type."""
    if typing.get_origin(hint) is tuple:
        several = [value] if isinstance(value, str | Path) else value
        return tuple(_of_type(name, typing.get_args(hint)[0], each) for each in several)
    kinds = [each for each in (typing.get_args(hint) or (hint,)) if each is not type(None)]
    if value is None and len(kinds) < len(typing.get_args(hint)):
        return None
    (kind,) = kinds
    if issubclass(kind, StrEnum) and value not in list(kind):
        raise SettingsError(f"{name}={value!r}: one of {', '.join(kind)} is needed")
    if issubclass(kind, Path | StrEnum):
        return kind(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise SettingsError(f"{name}={value!r}: a value of type {kind.__name__} is needed")
    return value
