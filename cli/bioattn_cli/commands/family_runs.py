"""`bioattn run …`, `bioattn generate …` and what families export: use a trained model of any family."""

import sys
from typing import TYPE_CHECKING, Any

from bioattn.system.device import Device
from bioattn_cli.command import Record
from bioattn_cli.family_commands import family_verb
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    import torch

    from bioattn.models.running import RunReport


class CommandSurroundings:
    """A `bioattn.models.running.Running` of the command line."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.progress = reporter.progress()
        self.stdout = sys.stdout
        self.warn = reporter.warn

    def device(self, wanted: Device, threads: int | None) -> "torch.device":
        """Set the number of CPU threads, choose the device, and say which it is."""
        from bioattn.system.device import choose_device, describe_device, set_threads

        set_threads(threads)
        device = choose_device(wanted)
        self._reporter.say(f"running on {describe_device(device)}")
        return device


@family_verb("run")
def run(reporter: Reporter, family: Any, settings: Any) -> Record:
    """Run a model on new input."""
    return record_of(family.run(settings, CommandSurroundings(reporter)))


@family_verb("generate")
def generate(reporter: Reporter, family: Any, settings: Any) -> Record:
    """Let a model make new samples."""
    return record_of(family.generate(settings, CommandSurroundings(reporter)))


@family_verb("export")
def export(reporter: Reporter, family: Any, settings: Any) -> Record:
    """Write what a family can turn its models into."""
    return record_of(family.export(settings, CommandSurroundings(reporter)))


def record_of(report: "RunReport") -> Record:
    """What the command line says and records of it."""
    return Record(
        *report.sentences,
        outputs=report.outputs,
        inputs=report.inputs,
        failure=report.failure,
        **report.figures,
    )
