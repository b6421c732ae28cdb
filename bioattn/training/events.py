"""The curves of a training run as TensorBoard events, for watching it while it goes on.

Events are a log: they hold the times at which they were written, so two equal runs have different ones. What is to
be the same again is in the model folder.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import unwritable

TRAINING, VALIDATION = "training_", "validation_"
"""How the columns of a history begin that make a group of curves."""


class TrainingEvents:
    """Events of one run in a folder; the step of an event is the number of updates before it."""

    def __init__(self, folder: Path, output: Path) -> None:
        """output: the model folder, which is replaced as a whole and so holds no logs.

        Raises: BioattnError when TensorBoard is not installed, or for a file; SettingsError for a folder in
        `output`.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise BioattnError(
                "--log-dir needs tensorboard, which is not installed: pip install tensorboard"
            ) from error
        if folder.resolve().is_relative_to(output.resolve()):
            raise SettingsError(f"--log-dir {folder}: is in the model folder {output}; give one beside it")
        if folder.exists() and not folder.is_dir():
            raise BioattnError(f"--log-dir {folder}: is a file, a folder is needed")
        self._new_writer: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def begin(self, step: int) -> None:
        """Go on at `step`: events of later steps, which an interrupted run left, are hidden."""
        try:
            self._writer = self._new_writer(str(self._folder), purge_step=step)
        except OSError as error:
            raise unwritable(self._folder, error) from error

    def add(self, step: int, row: Mapping[str, float]) -> None:
        """Write the figures of a row of the history; `training_loss` is the curve `training/loss`."""
        try:
            for name, value in row.items():
                group = next((each for each in (TRAINING, VALIDATION) if name.startswith(each)), "")
                self._writer.add_scalar(f"{group[:-1] or 'training'}/{name.removeprefix(group)}", value, step)
            self._writer.flush()
        except OSError as error:
            raise unwritable(self._folder, error) from error

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._writer.close()
