"""Running a model on single inputs, each with a folder of results of its own, and one file of attention for all.

A folder appears complete or not at all. With several inputs one that fails does not stop the others. A family's
`FolderRunner` reads an input, runs the model on it and writes its folder; `run_folders` does the rest.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError, Interrupted, SettingsError
from bioattn.inference.attention_receiver import Masks, SampleReceiver, choose_sites
from bioattn.inference.folder_paths import (
    AttentionOutput,
    InputFile,
    check_run_paths,
    holds_result,
    result_folders,
)
from bioattn.inference.passes import finite_results
from bioattn.io.files import (
    partial_path,
    read_json,
    remove_leftover,
    require_free_space,
    sha256_of,
    unwritable,
)
from bioattn.io.hdf5 import open_hdf5, strings, text_attribute
from bioattn.models.running import RunReport
from bioattn.store.contents import Held
from bioattn.store.schema import AttentionOptions, FileLayout, Samples
from bioattn.store.shards import (
    SETTINGS,
    SHARD_FILE,
    ShardRecord,
    read_shard_file,
    shard_of_hdf5,
    write_shard_file,
)
from bioattn.store.writer import ResultWriter, result_file
from bioattn.system.shard import Shard, parse_shard
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.text import counted, human_bytes, listed

LOGGER = logging.getLogger("bioattn")


class AttentionWriter:
    """Writes the attention over some inputs, one after the other, into a file or memory."""

    def __init__(
        self,
        writer: ResultWriter | Held,
        layout: FileLayout,
        sites: Mapping[str, AttentionSite],
        output: Path | None = None,
    ) -> None:
        """output: the file, whose disk must have room."""
        self._output = output
        self._writer = writer
        self._layout = layout
        self._sites = [sites[group.path.removeprefix("sites/")] for group in layout.groups]

    @property
    def site_names(self) -> list[str]:
        """What to listen to with `bioattn.attention.capture.capture`."""
        return [site.name for site in self._sites]

    @contextmanager
    def sample(self, sample: Samples, masks: Masks | None = None) -> Iterator[SampleReceiver]:
        """The receiver of one input, given its line of the sample table. When the body raises, nothing is kept.

        masks: by kind of axis; `mean-rows` and `max-rows` leave out rows and residues that are padding.

        Raises: BioattnError when the disk is full; RuntimeError when a site was not heard to its end.
        """
        if self._output is not None:
            size = self._layout.stored_bytes(1, [sample.lengths(0)])
            number = counted(len(self._sites), "site")
            LOGGER.info(f"{sample.ids[0]}: attention at {number} takes {human_bytes(size)}")
            smaller = "choose fewer --sites, fewer heads or another reduce ([attention] of --config)"
            require_free_space(self._output, size, smaller)
        with self._writer.sample(sample) as arrays:
            receiver = SampleReceiver(arrays, self._sites, self._layout.groups, masks)
            yield receiver
            receiver.require_complete()


class FolderRunner(Protocol):
    """A model and what is asked of it, for one input at a time."""

    noun: str
    """What an input is, for messages."""
    record_file: str
    """The JSON file of a folder of results with `settings` and the `sha256` of the `input`."""

    @property
    def model_path(self) -> Path:
        """The model's file or folder."""

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        """Attention sites by name."""

    def settings_json(self) -> dict[str, Any]:
        """JSON values of all that decides the results, but the input."""

    def check(self, attention: AttentionOptions | None) -> None:
        """Raises: BioattnError for settings, sites or heads that the model does not have."""

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file, in which each sample has arrays of its own."""

    def run(
        self, source: InputFile, folder: Path, request: StopRequest, attention: AttentionWriter | None
    ) -> list[str]:
        """Read and run one input and write its folder; returns the names of the files."""


@dataclass(slots=True, kw_only=True)
class FolderSummary:
    """What a run did, by names of inputs."""

    finished: dict[str, list[str]] = field(default_factory=dict)
    """Files written."""
    resumed: list[str] = field(default_factory=list)
    """Finished by an earlier run."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why."""


class _NoAttentionError(Exception):
    """No input gave results, so there is no attention to write."""


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
) -> FolderSummary:
    """Run every input: into `output` itself or, with `several`, into `output`/NAME each.

    resume: folders that an earlier run with the same settings finished are kept; force: folders of earlier results
    are replaced. shard: of several inputs only these; the folder and the attention file say so, and
    `bioattn.store.merging` makes the whole of all shards.

    Raises: as `check_run_paths`; BioattnError for settings the model cannot take, when results exist and neither
    `resume` nor `force` is given, and what is wrong with the input when it is the only one; Interrupted.
    """
    path = None if attention is None else attention.path
    check_run_paths(sources, output, several=several, attention=path, model=runner.model_path)
    runner.check(None if attention is None else attention.options)
    settings = {**runner.settings_json(), "inputs": _inputs_digest(sources)}
    record = None
    if shard is not None:
        _check_shard(shard, runner.noun, sources, output, several=several, force=force)
        record = ShardRecord.of(shard, len(sources), settings)
        sources = sources[shard.slice(len(sources))]
        LOGGER.info(f"shard {shard}: {counted(len(sources), runner.noun)} of {record.total:,}")
    summary = FolderSummary()
    folders = result_folders(sources, output, several=several)
    with ExitStack() as stack:
        if several:
            stack.enter_context(folder_of_results(output))
        pending = []
        for source in sources:
            with _noting_failure(source, summary, several and record is None):
                if _is_finished(runner, source, folders[source.name], resume=resume, force=force):
                    summary.resumed.append(source.name)
                pending.append(source)
        if several:
            remove_leftover(output / SHARD_FILE)  # no longer true of the folder
        request = stack.enter_context(_stop_with_hint(summary, len(sources), runner.noun))
        if attention is None:
            there = {source.name for source in sources}
            _run_pending(runner, pending, folders, None, there, summary, request, several=several)
        else:
            names = choose_sites(runner.sites, attention.options.sites)
            of_file = {**settings, **attention.options.as_json(names)}
            layout = runner.layout(attention.options)
            if record is not None:
                layout = replace(layout, shard=replace(record, settings=of_file))
            if (
                not force
                and len(summary.resumed) == len(sources)
                and _is_attention_of(attention.path, of_file, sources, shard)
            ):
                LOGGER.info(f"{attention.path}: is there already, and so are all results")
            else:
                with (
                    suppress(_NoAttentionError),
                    result_file(
                        attention.path, layout, len(sources), settings=of_file, resume=resume, force=force
                    ) as writer,
                ):
                    there = set(writer.ids)
                    written = AttentionWriter(writer, layout, runner.sites, attention.path)
                    _run_pending(runner, pending, folders, written, there, summary, request, several=several)
                    if not writer.ids and record is None:
                        raise _NoAttentionError
        if record is not None:
            finished = [source.name for source in sources if source.name not in summary.failed]
            write_shard_file(output, record, finished, summary.failed)
    return summary


def _run_pending(
    runner: FolderRunner,
    pending: Sequence[InputFile],
    folders: Mapping[str, Path],
    attention: AttentionWriter | None,
    there: Collection[str],
    summary: FolderSummary,
    request: StopRequest,
    *,
    several: bool,
) -> None:
    """Run the inputs whose folder, or attention, is not there yet. there: names of those whose attention is, or is
    not asked for."""
    for source in pending:
        if source.name in summary.resumed:
            if source.name in there:
                continue
            summary.resumed.remove(source.name)
        with _noting_failure(source, summary, several):
            request.check()
            with finite_results(str(source.path), runner.model_path):
                files = runner.run(source, folders[source.name], request, attention)
                summary.finished[source.name] = files


def report_folders(
    runner: FolderRunner,
    settings: Any,
    sources: Sequence[InputFile],
    *,
    several: bool,
    attention: AttentionOutput | None,
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


def _is_finished(runner: FolderRunner, source: InputFile, folder: Path, *, resume: bool, force: bool) -> bool:
    """Whether an earlier run left the result that this one would make.

    Raises: BioattnError as `holds_result`, and when the result is of another model, input or settings.
    """
    if not holds_result(folder, runner.record_file, resume=resume, force=force):
        return False
    earlier = read_json(folder / runner.record_file)
    same = isinstance(earlier, dict) and earlier.get("settings") == runner.settings_json()
    if str(source.path) == "-":
        return False  # what is piped is read once, so it is run again
    if not same or earlier.get("input", {}).get("sha256") != sha256_of(source.path):
        if force:  # with --resume: a run that replaces earlier results was interrupted
            return False
        raise BioattnError(
            f"{folder}: was made from another {runner.noun}, model or settings; replace it with --force"
        )
    return True


def _is_attention_of(
    path: Path, settings: Mapping[str, Any], sources: Sequence[InputFile], shard: Shard | None
) -> bool:
    """Whether a finished file holds the attention over `sources`, in these settings."""
    if not path.is_file() or partial_path(path).exists():
        return False
    try:
        with open_hdf5(path) as file:
            record = shard_of_hdf5(path, file)
            stored = json.loads(text_attribute(file, SETTINGS) or "{}")
            digests = dict(
                zip(strings(file["samples/id"]), strings(file["samples/input_sha256"]), strict=True)
            )
    except FormatError:
        return False  # damaged, or something else
    return (
        (None if record is None else record.shard) == shard
        and stored == json.loads(json.dumps(settings))
        and digests == {source.name: sha256_of(source.path) for source in sources}
    )


def _inputs_digest(sources: Sequence[InputFile]) -> str:
    """A digest of names and sizes, not of content: no machine need read what others run."""
    digest = hashlib.sha256()
    for source in sources:
        with suppress(OSError):  # reading it will say what is wrong
            digest.update(f"{source.name}\t{source.path.stat().st_size}\n".encode())
    return digest.hexdigest()


def _check_shard(
    shard: Shard, noun: str, sources: Sequence[InputFile], output: Path, *, several: bool, force: bool
) -> None:
    """Raises: BioattnError where there is nothing to share, and when `output` is another shard's."""
    one = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    if not several:
        raise BioattnError(
            f"--shard {shard}: shards are of a folder or list of {noun}s, and this is one {noun}; leave it out"
        )
    if any(source.name == SHARD_FILE for source in sources):
        raise BioattnError(f"{one} called {SHARD_FILE} cannot be run with --shard; rename it")
    if (output / SHARD_FILE).is_file() and not force:
        there = read_shard_file(output)[0]
        if there.shard != shard:
            raise BioattnError(
                f"{output}: holds {there.part} of a sharded run; give each shard an --output of its own"
            )


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
