"""Running a model on single inputs, each with a folder of results of its own, and one file of attention for all.

A folder appears complete or not at all. With several inputs one that fails does not stop the others. A family's
`FolderRunner` reads an input, runs the model on it and writes its folder; `run_folders` does the rest.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError, FormatError, Interrupted, SettingsError
from bioattn.inference.alignment_inputs import InputFile, holds_result
from bioattn.inference.attention_receiver import Masks, SampleReceiver, choose_sites
from bioattn.inference.passes import finite_results
from bioattn.io.files import (
    partial_path,
    read_json,
    require_free_space,
    sha256_of,
    writing,
)
from bioattn.io.hdf5 import open_hdf5, strings, text_attribute
from bioattn.models.running import RunReport
from bioattn.store.contents import Held
from bioattn.store.schema import AttentionOptions, FileLayout, Samples
from bioattn.store.shards import SETTINGS, ShardRecord, shard_of_hdf5
from bioattn.store.writer import ResultWriter, result_file
from bioattn.system.shard import parse_shard
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
        self.site_names = [group.path.removeprefix("sites/") for group in layout.groups]
        """What to listen to with `bioattn.attention.capture.capture`."""
        self._sites = [sites[name] for name in self.site_names]

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
    record_file: str
    """The JSON file of a folder of results with `settings` and the `sha256` of the `input`."""

    @property
    def model_path(self) -> Path: ...

    @property
    def sites(self) -> Mapping[str, AttentionSite]: ...

    def settings_json(self) -> dict[str, Any]:
        """JSON values of all that decides the results, but the input."""

    def layout(self, options: AttentionOptions) -> FileLayout:
        """The layout of the attention file, in which each sample has arrays of its own.

        Raises: BioattnError for sites or heads that the model does not have.
        """

    def run(
        self, source: InputFile, folder: Path, request: StopRequest, attention: AttentionWriter | None
    ) -> list[str]:
        """Read and run one input and write its folder; returns the names of the files."""


class _NoAttentionError(Exception):
    """No input gave results, so there is no attention to write."""


def run_folders(
    runner: FolderRunner,
    settings: Any,
    sources: Sequence[InputFile],
    *,
    several: bool,
    options: AttentionOptions | None = None,
    figures: Mapping[str, Any] = MappingProxyType({}),
) -> RunReport:
    """Run every input: into `settings.output` itself or, with `several`, into a folder of its name in there.

    settings: a `ResumableCommand`; options: of the file `settings.attention`, where there is one. With `resume`
    folders that an earlier run with the same settings finished are kept, with `force` folders of earlier results
    are replaced. Of a `shard` only these of several inputs are run: all shards write into one folder, and
    `bioattn.store.merging` makes the whole of their attention files. figures: of the model, for the run record.

    Raises: BioattnError for settings the model cannot take, when results exist and neither `resume` nor `force` is
    given (of several inputs: when attention would be lost), and what is wrong with the input when it is the only
    one; Interrupted.
    """
    if options is not None:
        runner.layout(options)
    run = _FolderRun(runner, settings, sources, several)
    with folder_of_results(settings.output, keep=run.shard is not None) if several else nullcontext():
        run.find_finished()
        try:
            with stop_on_signals() as run.request:
                if options is None:
                    run.run_pending(None, {source.name for source in run.sources})
                else:
                    run.run_with_attention(options)
        except Interrupted as stop:
            done, total = len(run.finished) + len(run.resumed), counted(len(run.sources), runner.noun)
            hint = "repeat the command with --resume to go on" if done else "nothing is kept yet"
            raise Interrupted(f"{stop}; {done:,} of {total} finished: {hint}", stop.exit_code) from stop
    return run.report(figures)


class _FolderRun:
    def __init__(
        self, runner: FolderRunner, settings: Any, sources: Sequence[InputFile], several: bool
    ) -> None:
        self.runner, self.settings, self.several = runner, settings, several
        output, noun = settings.output, runner.noun
        self.total = len(sources)
        """Of all shards."""
        # Of names and sizes, not of content: no machine need read what others run.
        digest = hashlib.sha256()
        for source in sources:
            with suppress(OSError):  # reading it will say what is wrong
                digest.update(f"{source.name}\t{source.path.stat().st_size}\n".encode())
        self.decisive = {**runner.settings_json(), "inputs": digest.hexdigest()}
        self.shard = None if settings.shard is None else parse_shard(settings.shard)
        if self.shard is not None:
            if not several:
                raise BioattnError(
                    f"--shard {self.shard}: shards are of a folder or list of {noun}s, and this is one {noun}; "
                    "leave it out"
                )
            sources = sources[self.shard.slice(self.total)]
            LOGGER.info(f"shard {self.shard}: {counted(len(sources), noun)} of {self.total:,}")
        self.sources, self.pending = sources, list[InputFile]()
        self.folders = {each.name: output / each.name if several else output for each in sources}
        self.finished: dict[str, list[str]] = {}
        self.resumed: list[str] = []
        """Finished by an earlier run."""
        self.failed: dict[str, str] = {}
        self.request = StopRequest()

    def find_finished(self) -> None:
        for source in self.sources:
            with self.noting_failure(source, self.several):
                if self.is_finished(source):
                    self.resumed.append(source.name)
                self.pending.append(source)

    def is_finished(self, source: InputFile) -> bool:
        """Whether an earlier run left the result that this one would make.

        Raises: BioattnError as `holds_result`, and when the result is of another model, input or settings.
        """
        runner, settings, folder = self.runner, self.settings, self.folders[source.name]
        if not holds_result(folder, runner.record_file, resume=settings.resume, force=settings.force):
            return False
        earlier = read_json(folder / runner.record_file)
        same = isinstance(earlier, dict) and earlier.get("settings") == runner.settings_json()
        if not same or earlier.get("input", {}).get("sha256") != sha256_of(source.path):
            if settings.force:  # with --resume: a run that replaces earlier results was interrupted
                return False
            raise BioattnError(
                f"{folder}: was made from another {runner.noun}, model or settings; replace it with --force"
            )
        return True

    def run_with_attention(self, options: AttentionOptions) -> None:
        """Run the inputs into folders and one file of attention, unless all is there."""
        settings, runner = self.settings, self.runner
        output: Path = settings.attention
        of_file = {**self.decisive, **asdict(options), "sites": choose_sites(runner.sites, options.sites)}
        layout = runner.layout(options)
        if self.shard is not None:
            layout = replace(layout, shard=ShardRecord.of(self.shard, self.total, of_file))
        if (
            not settings.force
            and len(self.resumed) == len(self.sources)
            and self.is_attention_there(output, of_file)
        ):
            LOGGER.info(f"{output}: is there already, and so are all results")
            return
        number, resume, force = len(self.sources), settings.resume, settings.force
        if self.failed and not force and output.exists():  # this run makes less than an earlier one left
            name, reason = next(iter(self.failed.items()))
            raise BioattnError(f"{output}: exists already and would lose the attention of {name} ({reason})")
        with (
            suppress(_NoAttentionError),
            result_file(output, layout, number, settings=of_file, resume=resume, force=force) as writer,
        ):
            written = AttentionWriter(writer, layout, runner.sites, output)
            self.run_pending(written, set(writer.ids))
            if not writer.ids and self.shard is None:
                raise _NoAttentionError

    def is_attention_there(self, path: Path, settings: Mapping[str, Any]) -> bool:
        """Whether a finished file holds the attention over the inputs, in these settings."""
        if not path.is_file() or partial_path(path).exists():
            return False
        try:
            with open_hdf5(path) as file:
                record = shard_of_hdf5(path, file)
                stored = json.loads(text_attribute(file, SETTINGS) or "{}")
                ids, digests = strings(file["samples/id"]), strings(file["samples/input_sha256"])
        except FormatError:
            return False  # damaged, or something else
        return (
            (None if record is None else record.shard) == self.shard
            and stored == json.loads(json.dumps(settings))
            and dict(zip(ids, digests, strict=True))
            == {source.name: sha256_of(source.path) for source in self.sources}
        )

    def run_pending(self, attention: AttentionWriter | None, there: Collection[str]) -> None:
        """Run the inputs whose folder or attention is not there yet.

        there: names of those whose attention is, or is not asked for."""
        for source in self.pending:
            if source.name in self.resumed:
                if source.name in there:
                    continue
                self.resumed.remove(source.name)
            with self.noting_failure(source, self.several):
                self.request.check()
                with finite_results(str(source.path), self.runner.model_path):
                    folder = self.folders[source.name]
                    self.finished[source.name] = self.runner.run(source, folder, self.request, attention)

    @contextmanager
    def noting_failure(self, source: InputFile, several: bool) -> Iterator[None]:
        """With several inputs, note what is wrong with one and go on with the next."""
        try:
            yield
            return
        except (Interrupted, SettingsError):
            raise
        except BioattnError as error:
            if not several:
                raise
            reason = str(error)
        except (MemoryError, RuntimeError) as error:
            # torch says so by a class on GPUs, by a sentence on the CPU
            if not several or not (isinstance(error, MemoryError) or "can't allocate memory" in str(error)):
                raise
            reason = f"{source.path}: out of memory"
        self.failed[source.name] = reason
        LOGGER.warning(f"{source.name} is left out: {reason}")

    def report(self, figures: Mapping[str, Any]) -> RunReport:
        output, attention = self.settings.output, self.settings.attention
        noun, number = self.runner.noun, len(self.sources)
        sentences = [
            f"wrote {output / name if self.several else output}: {', '.join(files)}"
            for name, files in self.finished.items()
        ]
        if self.resumed:
            sentences.append(f"{counted(len(self.resumed), noun)} had been finished before")
        outputs = [output]
        if attention is not None and (self.finished or self.shard is not None):
            outputs.append(attention)
            sentences.append(f"wrote {attention}: attention of {counted(number - len(self.failed), noun)}")
        failure = None
        if self.failed:
            failure = (
                f"{len(self.failed):,} of {counted(number, noun)} failed: {listed(list(self.failed))}"
                f"; the reasons stand above and in the run record"
            )
        return RunReport(
            *sentences,
            failure=failure,
            inputs={source.name: source.path for source in self.sources},
            outputs=outputs,
            **figures,
            finished=sorted(self.finished),
            resumed=sorted(self.resumed),
            failed=self.failed,
        )


@contextmanager
def folder_of_results(output: Path, *, keep: bool = False) -> Iterator[None]:
    """Make the folder that results of several inputs go to; where it stays empty it goes again.

    keep: others write into it, too.
    """
    with writing(output):
        output.mkdir(exist_ok=True)
    try:
        yield
    finally:
        if not keep:
            with suppress(OSError):
                output.rmdir()
