"""The commands that model families bring along: `train FAMILY`, `run FAMILY`, …, made from their settings.

`bioattn run NAME` is there for every family with `settings["run"]`: the fields of that dataclass are its arguments
and options, the dataclass's docstring is its help, and the family's method `run` carries it out; `train` is the
same for every family. The settings that it is given hold the options alone; `with_config_file(settings)` (of
`bioattn.io.settings`) puts what --config says beneath them.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

from bioattn.errors import BioattnError
from bioattn.interpret.choices import RESULT
from bioattn.io.settings import Settings, argument, declared_by, option, with_config_file
from bioattn.models.attention_settings import ExportAttention
from bioattn.models.family import ability, family_of_parameters
from bioattn.models.running import RunReport
from bioattn.system.signals import stop_on_signals
from bioattn.text import table_text
from bioattn_cli.command import COMMANDS, Result, command
from bioattn_cli.reporting import Reporter


def settings_command(words: str, kind: type[Settings], execute: Callable[[Any, Reporter], Result]) -> None:
    """Register a command whose arguments and options are the fields of `kind`, and whose help is its docstring."""

    def run(reporter: Reporter, **values: Any) -> Result:
        return execute(kind(**values), reporter)

    own = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field, annotation=hint)
        for name, (hint, field) in declared_by(kind).items()
    ]
    reporter = inspect.Parameter("reporter", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inspect.Signature([reporter, *own])  # type: ignore[attr-defined]
    run.__doc__ = f"{inspect.cleandoc(kind.__doc__ or '')}\n\n{kind.more_help}"
    COMMANDS[words] = run


def library(module: str, name: str) -> Callable[[Any, Reporter], Result]:
    """What carries a command out: a function of a module of `bioattn`, which is imported when it is called."""

    def execute(settings: Any, reporter: Reporter) -> Result:
        result: Result = getattr(importlib.import_module(f"bioattn.{module}"), name)(settings, reporter)
        return result

    return execute


def train(family: Any, settings: Any, reporter: Reporter) -> RunReport | None:
    """Train, and print how good the model is.

    When nothing is left to do, a run record that is there stays as it is and a missing one is written: its run
    was killed before it could write one.
    """
    from bioattn.checks.next_steps import Names, beaten
    from bioattn.training import run as training
    from bioattn.training.distributed import joined_processes

    with stop_on_signals() as stop, joined_processes() as processes:
        settings = with_config_file(settings)
        device = reporter.device(settings.device, settings.threads)
        results = training.train(
            family, settings, device=device, progress=reporter.progress, stop=stop, processes=processes
        )
    tables = [] if results is None else results.tables()
    if tables:
        typer.echo("\n\n".join(table_text(table, aligned=sys.stdout.isatty()) for table in tables))
    if not processes.is_first:
        return None
    figures: dict[str, Any] = {"device": device.type}
    if processes.count > 1:
        figures["processes"] = processes.count
    if results is None:
        return RunReport(**figures, finished_before=True)
    comparison, said = results.comparison(), [f"wrote {settings.output}"]
    steps = getattr(results, "next", ())
    if comparison is not None:
        said.append(comparison.sentence())
        if comparison.below:
            data = next(iter(settings.input_paths().values()))
            names = Names.of(family.name, settings.output, None, data)
            said.append(f"Next: {beaten(comparison, names)}")
            steps = ()  # its maps explain the worse of the two
    if check := getattr(results, "check", ""):
        said += [check, *(f"Next: {step}" for step in steps)]
    return RunReport(*said, **figures)


def _export_attention(settings: ExportAttention, reporter: Reporter) -> Result:
    family = family_of_parameters(settings.model)
    if not hasattr(family, "export_attention") and hasattr(family.settings.get("run"), "attention"):
        how = f"`bioattn run {family.name} … --attention {settings.output}`"
        raise BioattnError(f"{family.name} models write attention as they run: {how}")
    write = ability(family, "export_attention")
    result: Result = write(settings, reporter)
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
    output: Path = RESULT,
    force: bool = option("Replace an existing model folder.", default=False),
) -> Result:
    """Write the parameters of a language model or an MSA/pair model in another form.

    A language model becomes a Hugging Face folder, which transformers loads, and a Hugging Face folder a model
    folder of bioattn. Of an MSA/pair model the name of the output chooses the form: .npz for AlphaFold's keys and
    layouts, .pt for OpenFold's state dict, no suffix for a model folder.
    """
    write = ability(family_of_parameters(model), "export_parameters")
    result: Result = write(model, output, force=force)
    return result
