"""Running an MSA/pair model over alignments: one folder of results each, and one file of attention for all.

A folder appears complete or not at all. An alignment that fails does not stop the others.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.io.files import remove_leftover, unwritable
from bioattn.io.output_lock import reserve_output
from bioattn.io.output_names import partial_folder
from bioattn.models.evoformer.folder import LoadedEvoformerModel
from bioattn.models.evoformer.inference.run_paths import check_run_paths, result_folders
from bioattn.models.evoformer.inference.runner import AlignmentRunner, AttentionOutput, RunSettings
from bioattn.models.evoformer.inference.shard import AlignmentShard
from bioattn.models.evoformer.inference.sources import AlignmentSource
from bioattn.store.shard_folder import SHARD_FILE
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")


@dataclass(slots=True, kw_only=True)
class RunSummary:
    """What a run did, by names of alignments."""

    finished: dict[str, list[str]]
    """Files written."""
    resumed: list[str]
    """Finished by an earlier run."""
    failed: dict[str, str]
    """Why."""


def run_alignments(
    model: LoadedEvoformerModel,
    sources: Sequence[AlignmentSource],
    output: Path,
    settings: RunSettings,
    *,
    several: bool,
    attention: AttentionOutput | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> RunSummary:
    """Predict every alignment: into `output` itself or, with `several`, into `output`/NAME each.

    resume: folders that an earlier run with the same settings finished are kept; force: folders of earlier results
    are replaced. shard: of several alignments only these; the folder and the attention file say so, and
    `bioattn.store.merging` makes the whole of all shards, byte for byte.

    Raises: SettingsError for settings the model cannot take, and as `check_run_paths`; BioattnError when results
    exist and neither `resume` nor `force` is given, when another run (another shard, too) is writing to `output`,
    and what is wrong with the alignment when it is the only one; Interrupted.
    """
    runner = AlignmentRunner(model, settings, progress or NoProgress())
    check_run_paths(
        sources,
        output,
        several=several,
        attention=None if attention is None else attention.path,
        model=model.path,
    )
    runner.check(None if attention is None else attention.options)
    part = None
    if shard is not None:
        part = AlignmentShard(shard, runner, sources, None if attention is None else attention.options)
        part.check(output, several=several, force=force)
        sources = part.sources
    summary = RunSummary(finished={}, resumed=[], failed={})
    folders = result_folders(sources, output, several=several)
    with ExitStack() as stack:
        if several:
            stack.enter_context(reserve_output(output))
            stack.enter_context(_folder_of_results(output))
        pending = []
        for source in sources:
            # What is in the way of a shard must not make an earlier one of its kind a part with failures.
            with _noting_failure(source, summary, several and part is None):
                if runner.is_finished(source, folders[source.name], resume=resume, force=force):
                    summary.resumed.append(source.name)
                pending.append(source)
        if several:
            remove_leftover(output / SHARD_FILE)  # no longer true of the folder
        # One that stands there while results are replaced, or parts wait, may be of the earlier results.
        attention_is_there = (
            attention is not None
            and not force
            and not partial_folder(attention.path).exists()
            and len(summary.resumed) == len(sources)
            and (
                runner.has_attention(attention, sources)
                if part is None
                else part.is_attention(attention.path)
            )
        )
        if attention is not None and attention_is_there:
            LOGGER.info(f"{attention.path}: is there already, and so are all results")
            attention = None
        request = stack.enter_context(_stop_with_hint(summary, len(sources)))
        writer = None
        numbers: dict[str, int] = {}
        if attention is not None:
            scanned = {}
            for source in pending:
                with _noting_failure(source, summary, several):
                    request.check()
                    scanned[source.name] = runner.prepare(source).sample(source.name).sizes
            pending = [source for source in pending if source.name in scanned]
            numbers = {name: number for number, name in enumerate(scanned)}
            if scanned or part is not None:
                writer = stack.enter_context(
                    runner.open_attention(
                        attention,
                        list(scanned.values()),
                        pending,
                        several=several,
                        shard=None if part is None else part.attention,
                        resume=resume,
                        force=force,
                    )
                )
        for source in pending:
            kept = source.name in summary.resumed
            if kept and (writer is None or writer.is_whole(numbers[source.name])):
                continue
            if kept:
                summary.resumed.remove(source.name)
            with _noting_failure(source, summary, several):
                request.check()
                summary.finished[source.name] = runner.run(
                    source, folders[source.name], request, writer, numbers.get(source.name, 0)
                )
        if writer is not None and (part is not None or len(summary.failed) < len(sources)):
            writer.assemble(progress)
        if part is not None:
            part.finish(output, folders, summary.failed)
    return summary


@contextmanager
def _folder_of_results(output: Path) -> Iterator[None]:
    """Make the folder that results of several alignments go to; where it stays empty it goes again."""
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise unwritable(output, error) from error
    try:
        yield
    finally:
        with suppress(OSError):
            output.rmdir()


@contextmanager
def _stop_with_hint(summary: RunSummary, total: int) -> Iterator[StopRequest]:
    """Stop on signals, saying what is kept."""
    try:
        with stop_on_signals() as request:
            yield request
    except Interrupted as stop:
        done = len(summary.finished) + len(summary.resumed)
        hint = "repeat the command with --resume to go on" if done else "nothing is kept yet"
        raise Interrupted(
            f"{stop}; {done:,} of {counted(total, 'alignment')} finished: {hint}", stop.exit_code
        ) from stop


@contextmanager
def _noting_failure(source: AlignmentSource, summary: RunSummary, several: bool) -> Iterator[None]:
    """With several alignments, note what is wrong with one and go on with the next."""
    try:
        yield
    except (Interrupted, SettingsError):
        raise
    except BioattnError as error:
        if not several:
            raise
        _note(source, summary, str(error))
    except (MemoryError, RuntimeError) as error:
        if not several or not _is_out_of_memory(error):
            raise
        _note(source, summary, f"{source.path}: out of memory")


def _note(source: AlignmentSource, summary: RunSummary, reason: str) -> None:
    summary.failed[source.name] = reason
    LOGGER.warning(f"{source.name} is left out: {reason}")


def _is_out_of_memory(error: Exception) -> bool:
    """torch says so by a class on GPUs, by a sentence on the CPU."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)
