"""The commands that model families bring along: `train FAMILY`, `run FAMILY`, …, made from their settings.

What a verb does for every family is declared once:

    @family_verb("train")
    def train(family, reporter, settings): ...

Then `bioattn train NAME` is there for every family with `settings["train"]`: the fields of that dataclass are its
arguments and options, the dataclass's docstring is its help. The settings that `train` is given hold the options
alone; `with_config_file(settings)` (of `bioattn.io.settings`) puts what --config says beneath them.
"""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bioattn.errors import BioattnError
from bioattn.io.settings import Settings, argument, declared_by, option, with_config_file
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.family import Family, ability, families, family_of_parameters
from bioattn.system.device import Device
from bioattn_cli import options
from bioattn_cli.command import COMMANDS, Record, Result, command
from bioattn_cli.reporting import Reporter

if TYPE_CHECKING:
    import torch


Execute = Callable[[Family, Reporter, Any], Result]
"""Carries out a command of a family with its settings."""

_VERBS: dict[str, Execute] = {}


def family_verb(verb: str) -> Callable[[Execute], Execute]:
    """Have `register_families` make a command of this verb for every family with such settings."""
    return partial(_VERBS.setdefault, verb)


def register_families() -> None:
    """Register the commands of families that are not there yet.

    Raises: BioattnError when a family cannot be used.
    """
    for verb, execute in _VERBS.items():
        for family in families().values():
            words = f"{verb} {family.nouns.get(verb, family.name)}"
            if verb in family.settings and words not in COMMANDS:
                settings_command(words, family.settings[verb], partial(execute, family))


def settings_command(words: str, kind: type[Settings], execute: Callable[[Reporter, Any], Result]) -> None:
    """Register a command whose arguments and options are the fields of `kind`, and whose help is its docstring."""

    def run(reporter: Reporter, **values: Any) -> Result:
        return execute(reporter, kind(**values))

    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field, annotation=hint)
        for name, (hint, field) in declared_by(kind).items()
    ]
    reporter = inspect.Parameter("reporter", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([reporter, *own])  # type: ignore[attr-defined]
    run.__doc__ = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{kind.more_help}"
    command(words)(run)


@family_verb("train")
def train(family: Any, reporter: Reporter, settings: Any) -> Record | None:
    """Train, and print how good the model is.

    When nothing is left to do, a run record that is there stays as it is and a missing one is written: its run
    was killed before it could write one.
    """
    from bioattn.checks.next_steps import Names, beaten
    from bioattn.system.device import choose_device, describe_device, set_threads
    from bioattn.system.signals import stop_on_signals
    from bioattn.text import table_text
    from bioattn.training import run as training
    from bioattn.training.distributed import joined_processes

    with stop_on_signals() as stop, joined_processes() as processes:
        set_threads(settings.threads)
        device = choose_device(settings.device)
        settings = with_config_file(settings)
        together = f", in each of {processes.count} processes" if processes.count > 1 else ""
        reporter.say(f"running on {describe_device(device)}{together}")
        results = training.train(
            family, settings, device=device, progress=reporter.progress(), stop=stop, processes=processes
        )
    tables = [] if results is None else results.tables()
    if tables:
        typer.echo("\n\n".join(table_text(table, aligned=sys.stdout.isatty()) for table in tables))
    finished_before = results is None
    if not processes.is_first:
        return None
    figures: dict[str, Any] = {"device": device.type}
    if processes.count > 1:
        figures["processes"] = processes.count
    if finished_before:
        figures["finished_before"] = True
    if results is None:
        return Record(**figures)
    comparison, said = results.comparison(), [f"wrote {settings.output}"]
    if comparison is not None and comparison.below:
        data = next(iter(settings.input_paths().values()))
        names = Names.of(family.name, settings.output, None, data)
        said += [comparison.sentence(), f"Next: {beaten(comparison, names)}"]
    if check := getattr(results, "check", ""):
        said += [check, *(f"Next: {step}" for step in getattr(results, "next", ()))]
    return Record(*said, **figures)


class CommandSurroundings:
    """A `bioattn.models.running.Running` of the command line."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.loaded = None
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


def _carry_out(verb: str, family: Any, reporter: Reporter, settings: Any) -> Result:
    result: Result = getattr(family, verb)(settings, CommandSurroundings(reporter))
    return result


for _verb in ("prepare", "run", "generate", "export", "simulate"):
    family_verb(_verb)(partial(_carry_out, _verb))


def _export_attention(reporter: Reporter, settings: ExportAttention) -> Result:
    family = family_of_parameters(settings.model)
    if not hasattr(family, "export_attention") and hasattr(family.settings.get("run"), "attention"):
        how = f"`bioattn run {family.name} … --attention {settings.output}`"
        raise BioattnError(f"{family.name} models write attention as they run: {how}")
    write = ability(family, "export_attention")
    result: Result = write(settings, CommandSurroundings(reporter))
    return result


settings_command("export attention", ExportAttention, _export_attention)


@command("export parameters")
def parameters(
    reporter: Reporter,
    model: Path = argument(
        "MODEL",
        "Model folder, Hugging Face folder, AlphaFold's params_model_*.npz, or an OpenFold .pt state dict.",
        recorded="",
    ),
    output: Path = options.RESULT,
    structure_layers: int | None = option(
        "Layers of the structure module; parameter files lack this number, because the layers share "
        "their weights [default: 8].",
        min=1,
    ),
    force: bool = option("Replace an existing model folder.", default=False),
) -> Result:
    """Write the parameters of a language model or an MSA/pair model in another form.

    A language model becomes a Hugging Face folder, which transformers loads, and a Hugging Face folder a model
    folder of bioattn. Of an MSA/pair model the name of the output chooses the form: .npz for AlphaFold's keys and
    layouts, .pt for OpenFold's state dict, no suffix for a model folder.
    """
    write = ability(family_of_parameters(model), "export_parameters")
    result: Result = write(model, output, structure_layers=structure_layers, force=force)
    return result
