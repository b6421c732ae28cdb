"""Running a model on single inputs, each with a folder of results of its own, and one file of attention for all.

A folder appears complete or not at all. With several inputs one that fails does not stop the others. A family's
`FolderRunner` reads an input, runs the model on it and writes its folder; `run_folders` does the rest.
"""

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bioattn import __version__
from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError, Interrupted, SettingsError
from bioattn.inference.attention_receiver import Masks, SampleReceiver, choose_sites
from bioattn.inference.finite import finite_results
from bioattn.inference.folder_paths import (
    AttentionOutput,
    InputFile,
    check_run_paths,
    holds_result,
    result_folders,
)
from bioattn.inference.run import opened_parts
from bioattn.io.files import read_json, remove_leftover, unwritable
from bioattn.io.hdf5_input import open_hdf5
from bioattn.io.output_lock import reserve_output
from bioattn.io.output_names import partial_folder
from bioattn.models.running import RunReport
from bioattn.store.parts import Parts
from bioattn.store.recorded_folder import FOLDER_JOB, SHARD_FILE, read_shard_file, write_shard_file
from bioattn.store.schema import AttentionOptions, Block, FileLayout, Samples
from bioattn.store.shard_record import ShardRecord, is_attention_of, read_shard, settings_digest
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard, parse_shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, listed

LOGGER = logging.getLogger("bioattn")


class AttentionWriter:
    """Writes the attention over some inputs into one file, a part for each; made by `attention_writer`."""

    def __init__(self, parts: Parts, sites: Sequence[AttentionSite]) -> None:
        self._parts = parts
        self._sites = {f"sites/{site.name}": site for site in sites}

    @property
    def site_names(self) -> list[str]:
        """What to listen to with `bioattn.attention.capture.capture`."""
        return [site.name for site in self._sites.values()]

    def is_whole(self, number: int) -> bool:
        """Whether an interrupted run left the attention of the input with this number (0-based)."""
        return self._parts.is_whole(number)

    @contextmanager
    def sample(self, number: int, sample: Samples, masks: Masks | None = None) -> Iterator[SampleReceiver]:
        """The receiver of one input, given its line of the sample table. When the body raises, nothing is kept.

        masks: by kind of axis; `mean-rows` and `max-rows` leave out rows and residues that are padding.

        Raises: BioattnError when the disk is full; RuntimeError when a site was not heard to its end.
        """
        with self._parts.part_writer(number) as file:
            file.append(Block(sample, {}))
            groups = self._parts.layout.groups
            receiver = SampleReceiver(file, [self._sites[group.path] for group in groups], groups, masks)
            yield receiver
            receiver.require_complete()

    def assemble(self, progress: Progress = SILENT) -> list[str]:
        """Put the inputs together into the file; returns their ids. Those that failed are left out.

        Raises: BioattnError when the disk is full or no input is there; FormatError for a damaged part.
        """
        return self._parts.assemble(progress=progress)


@contextmanager
def attention_writer(
    output: Path,
    layout: FileLayout,
    sites: Sequence[AttentionSite],
    lengths: Sequence[Mapping[str, int]],
    job: Mapping[str, Any],
    *,
    noun: str,
    several: bool,
    resume: bool = False,
    force: bool = False,
) -> Iterator[AttentionWriter]:
    """Prepare to write the attention of `sites` over some inputs to `output`.

    lengths: of each input's axes, at most, by column; the size of the file is said (logged) before anything runs.
    job: JSON values of all that decides the weights: parts of an interrupted run are used again with `resume` only
    when all of it is equal, and dropped with `force`. The folder of parts stays when the body raises. several:
    whether the file is one of several inputs, be there but one.

    Raises: BioattnError when the file does not fit on the disk, or for parts of another run.
    """
    number = len(lengths)
    parts = Parts(output, layout, number, 1, may_fail=True, several=several)
    with opened_parts(
        parts,
        {
            **job,
            "model": layout.model_sha256,
            f"num_{noun}s": number,
            **({} if layout.shard is None else layout.shard.place_as_json()),
        },
        layout.stored_bytes(number, lengths),
        f"attention of {counted(number, noun)} at {counted(len(sites), 'site')} takes up to",
        "choose fewer --sites, fewer heads or another reduce ([attention] of --config)",
        copies=2 if several else 1,
        resume=resume,
        force=force,
    ):
        yield AttentionWriter(parts, sites)


def attention_job(sites: Mapping[str, AttentionSite], options: AttentionOptions) -> dict[str, Any]:
    """JSON values of all that the options decide of the file.

    Raises: BioattnError for sites that the model lacks.
    """
    return {
        "format": "bioattn-attention-parts",
        "generated_by": f"bioattn {__version__}",
        **options.job(choose_sites(sites, options.sites)),
        "may_fail": True,
    }


class FolderRunner(Protocol):
    """A model and what is asked of it, for one input at a time."""

    noun: str
    """What an input is, for messages."""
    record_file: str
    """The JSON file of a folder of results with `settings` (the job) and the `sha256` of the `input`."""

    @property
    def model_path(self) -> Path:
        """The model's file or folder."""

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        """Attention sites by name."""

    def job(self) -> dict[str, Any]:
        """JSON values of all that decides the results, but the input."""

    def check(self, attention: AttentionOptions | None) -> None:
        """Raises: BioattnError for settings, sites or heads that the model does not have."""

    def digest(self, source: InputFile) -> str:
        """SHA-256 of an input. Raises: BioattnError when it cannot be read."""

    def lengths(self, source: InputFile) -> Mapping[str, int]:
        """Lengths of an input's axes, by column of the sample table.

        Raises: BioattnError when the input cannot be read.
        """

    def layout(
        self, options: AttentionOptions, *, settings_sha256: str, shard: ShardRecord | None
    ) -> FileLayout:
        """The layout of the attention file."""

    def run(
        self,
        source: InputFile,
        folder: Path,
        request: StopRequest,
        attention: AttentionWriter | None,
        number: int,
    ) -> list[str]:
        """Run one input and write its folder; returns the names of the files.

        number: of the input in the attention file, if there is one.
        """


@dataclass(slots=True, kw_only=True)
class FolderSummary:
    """What a run did, by names of inputs."""

    finished: dict[str, list[str]]
    """Files written."""
    resumed: list[str]
    """Finished by an earlier run."""
    failed: dict[str, str]
    """Why."""


def run_folders(
    runner: FolderRunner,
    sources: Sequence[InputFile],
    output: Path,
    *,
    several: bool,
    attention: AttentionOutput | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> FolderSummary:
    """Run every input: into `output` itself or, with `several`, into `output`/NAME each.

    resume: folders that an earlier run with the same settings finished are kept; force: folders of earlier results
    are replaced. shard: of several inputs only these; the folder and the attention file say so, and
    `bioattn.store.merging` makes the whole of all shards, byte for byte.

    Raises: as `check_run_paths`; BioattnError for settings the model cannot take, and when results
    exist and neither `resume` nor `force` is given, when another run (another shard, too) is writing to `output`,
    and what is wrong with the input when it is the only one; Interrupted.
    """
    path = None if attention is None else attention.path
    check_run_paths(sources, output, several=several, attention=path, model=runner.model_path)
    runner.check(None if attention is None else attention.options)
    part = None
    if shard is not None:
        part = _FolderShard(shard, runner, sources, None if attention is None else attention.options)
        part.check(output, several=several, force=force)
        sources = part.sources
    summary = FolderSummary(finished={}, resumed=[], failed={})
    folders = result_folders(sources, output, several=several)
    with ExitStack() as stack:
        if several:
            stack.enter_context(reserve_output(output))
            stack.enter_context(folder_of_results(output))
        pending = []
        for source in sources:
            # What is in the way of a shard must not make an earlier one of its kind a part with failures.
            with _noting_failure(source, summary, several and part is None):
                if _is_finished(runner, source, folders[source.name], resume=resume, force=force):
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
                is_attention_of(
                    attention.path,
                    {**attention_job(runner.sites, attention.options), **runner.job()},
                    {source.name: runner.digest(source) for source in sources},
                )
                if part is None
                else part.is_attention(attention.path)
            )
        )
        if attention is not None and attention_is_there:
            LOGGER.info(f"{attention.path}: is there already, and so are all results")
            attention = None
        request = stack.enter_context(_stop_with_hint(summary, len(sources), runner.noun))
        writer = None
        numbers: dict[str, int] = {}
        if attention is not None:
            lengths = {}
            for source in pending:
                with _noting_failure(source, summary, several):
                    request.check()
                    lengths[source.name] = runner.lengths(source)
            pending = [source for source in pending if source.name in lengths]
            numbers = {name: number for number, name in enumerate(lengths)}
            if lengths or part is not None:
                writer = stack.enter_context(
                    open_attention(
                        runner,
                        attention,
                        pending,
                        list(lengths.values()),
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
                with finite_results(str(source.path), runner.model_path):
                    summary.finished[source.name] = runner.run(
                        source, folders[source.name], request, writer, numbers.get(source.name, 0)
                    )
        if writer is not None and (part is not None or len(summary.failed) < len(sources)):
            writer.assemble(progress)
        if part is not None:
            part.finish(output, folders, summary.failed)
    return summary


def report_folders(
    runner: FolderRunner,
    settings: Any,
    sources: Sequence[InputFile],
    *,
    several: bool,
    attention: AttentionOutput | None,
    progress: Progress,
    figures: Mapping[str, Any],
) -> RunReport:
    """`run_folders` as a command's `settings` ask for it; what it did, to be said and recorded. figures: of the
    model."""
    shard = None if settings.shard is None else parse_shard(settings.shard)
    output, noun = settings.output, runner.noun
    summary = run_folders(
        runner,
        sources,
        output,
        several=several,
        attention=attention,
        shard=shard,
        resume=settings.resume,
        force=settings.force,
        progress=progress,
    )
    taken = sources if shard is None else sources[shard.slice(len(sources))]
    sentences = [
        f"wrote {output / name if several else output}: {', '.join(files)}"
        for name, files in summary.finished.items()
    ]
    if summary.resumed:
        sentences.append(f"{counted(len(summary.resumed), noun)} had been finished before")
    outputs = [output]
    if attention is not None and (summary.finished or shard is not None):
        outputs.append(attention.path)
        sentences.append(
            f"wrote {attention.path}: attention of {counted(len(taken) - len(summary.failed), noun)}"
        )
    failure = None
    if summary.failed:
        failure = (
            f"{len(summary.failed):,} of {counted(len(taken), noun)} failed: {listed(list(summary.failed))}"
            f"; the reasons stand above and in {output.name}.run.json"
        )
    return RunReport(
        sentences=sentences,
        outputs=outputs,
        inputs={source.name: source.path for source in taken},
        failure=failure,
        figures={
            **figures,
            "finished": sorted(summary.finished),
            "resumed": sorted(summary.resumed),
            "failed": summary.failed,
        },
    )


def open_attention(
    runner: FolderRunner,
    attention: AttentionOutput,
    sources: Sequence[InputFile],
    lengths: Sequence[Mapping[str, int]],
    *,
    several: bool,
    shard: ShardRecord | None,
    resume: bool,
    force: bool,
) -> AbstractContextManager[AttentionWriter]:
    """The writer of the attention file of a run; lengths: of each of `sources`."""
    digests = {source.name: runner.digest(source) for source in sources}
    settings = {**attention_job(runner.sites, attention.options), **runner.job()}
    return attention_writer(
        attention.path,
        runner.layout(attention.options, settings_sha256=settings_digest(settings), shard=shard),
        [runner.sites[name] for name in choose_sites(runner.sites, attention.options.sites)],
        lengths,
        {**settings, f"{runner.noun}s": digests},
        noun=runner.noun,
        several=several,
        resume=resume,
        force=force,
    )


def _is_finished(runner: FolderRunner, source: InputFile, folder: Path, *, resume: bool, force: bool) -> bool:
    """Whether an earlier run left the result that this one would make.

    Raises: BioattnError as `holds_result`, and when the result is of another job.
    """
    if not holds_result(folder, runner.record_file, resume=resume, force=force):
        return False
    earlier = read_json(folder / runner.record_file)
    same = isinstance(earlier, dict) and earlier.get("settings") == runner.job()
    if not same or earlier.get("input", {}).get("sha256") != runner.digest(source):
        if force:  # with --resume: a run that replaces earlier results was interrupted
            return False
        raise BioattnError(
            f"{folder}: was made from another {runner.noun}, model or settings; replace it with --force"
        )
    return True


class _FolderShard:
    """A shard of `sources`, in their order: which of them it takes, and what its results say of it."""

    def __init__(
        self,
        shard: Shard,
        runner: FolderRunner,
        sources: Sequence[InputFile],
        options: AttentionOptions | None,
    ) -> None:
        """options: of the attention that is written too. Raises: BioattnError for sites that the model lacks."""
        self._noun = runner.noun
        self.sources = list(sources[shard.slice(len(sources))])
        """The inputs of this shard."""
        kept = None if options is None else attention_job(runner.sites, options)
        common = {
            **runner.job(),
            f"num_{runner.noun}s": len(sources),
            # Not of their content: no machine need read what others run. Each is in the results of its own.
            f"{runner.noun}s": _digest_of_names(sources),
        }
        of_folder = {
            "format": FOLDER_JOB,
            "generated_by": f"bioattn {__version__}",
            # Attention that is kept is computed in another order, which can change the last digit.
            "sites": None if kept is None else kept["sites"],
            **common,
        }
        self.results = ShardRecord.of(shard, len(sources), 1, of_folder)
        """What the folder of results says."""
        self.attention = None if kept is None else ShardRecord.of(shard, len(sources), 1, {**kept, **common})
        """What the attention file says."""
        LOGGER.info(f"shard {shard}: {counted(len(self.sources), runner.noun)} of {len(sources):,}")

    def check(self, output: Path, *, several: bool, force: bool) -> None:
        """Raises: BioattnError where there is nothing to share, and when `output` is another shard's."""
        shard, noun = self.results.shard, self._noun
        one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
        if not several:
            raise BioattnError(
                f"--shard {shard}: shards are of a folder or list of {noun}s, and this is one {noun}; leave it out"
            )
        if any(source.name == SHARD_FILE for source in self.sources):
            raise BioattnError(f"{one} called {SHARD_FILE} cannot be run with --shard; rename it")
        if (output / SHARD_FILE).is_file() and not force:
            there = read_shard_file(output).record
            if there.shard != shard:
                raise BioattnError(
                    f"{output}: holds {there.part} of a sharded run; give each shard an --output of its own"
                )

    def is_attention(self, path: Path) -> bool:
        """Whether a file is the attention of this very shard."""
        if not path.is_file():
            return False
        try:
            with open_hdf5(path) as file:
                return read_shard(path, file) == self.attention
        except FormatError:
            return False  # it will be replaced

    def finish(self, output: Path, folders: Mapping[str, Path], failed: Mapping[str, str]) -> None:
        """Write down, beside the folders of results, that they are all of this shard."""
        finished = {name: folder for name, folder in folders.items() if name not in failed}
        write_shard_file(output, self.results, finished, failed)


def _digest_of_names(sources: Sequence[InputFile]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.name}\t{_size(source.path)}\n".encode())
    return digest.hexdigest()


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None  # reading it will say what is wrong


@contextmanager
def folder_of_results(output: Path) -> Iterator[None]:
    """Make the folder that results of several inputs go to; where it stays empty it goes again."""
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
def _stop_with_hint(summary: FolderSummary, total: int, noun: str) -> Iterator[StopRequest]:
    """Stop on signals, saying what is kept."""
    try:
        with stop_on_signals() as request:
            yield request
    except Interrupted as stop:
        done = len(summary.finished) + len(summary.resumed)
        hint = "repeat the command with --resume to go on" if done else "nothing is kept yet"
        raise Interrupted(
            f"{stop}; {done:,} of {counted(total, noun)} finished: {hint}", stop.exit_code
        ) from stop


@contextmanager
def _noting_failure(source: InputFile, summary: FolderSummary, several: bool) -> Iterator[None]:
    """With several inputs, note what is wrong with one and go on with the next."""
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


def _note(source: InputFile, summary: FolderSummary, reason: str) -> None:
    summary.failed[source.name] = reason
    LOGGER.warning(f"{source.name} is left out: {reason}")


def _is_out_of_memory(error: Exception) -> bool:
    """torch says so by a class on GPUs, by a sentence on the CPU."""
    return isinstance(error, MemoryError) or "can't allocate memory" in str(error)
