"""One shard of a run over many alignments: which of them it takes, and what its results say of it."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.io.hdf5_input import open_hdf5
from bioattn.models.evoformer.inference.attention import attention_job
from bioattn.models.evoformer.inference.runner import AlignmentRunner
from bioattn.models.evoformer.inference.sources import AlignmentSource
from bioattn.store.schema import AttentionOptions
from bioattn.store.shard_folder import FOLDER_JOB, SHARD_FILE, read_shard_file, write_shard_file
from bioattn.store.shard_record import ShardRecord, read_shard
from bioattn.system.shard import Shard
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")


class AlignmentShard:
    """A shard of `sources`, in their order."""

    def __init__(
        self,
        shard: Shard,
        runner: AlignmentRunner,
        sources: Sequence[AlignmentSource],
        options: AttentionOptions | None,
    ) -> None:
        """options: of the attention that is written too. Raises: SettingsError for sites that the model lacks."""
        rows = shard.slice(len(sources))
        self.sources = list(sources[rows])
        """The alignments of this shard."""
        kept = None if options is None else attention_job(runner.model.sites, options)
        common = {
            **runner.job(),
            "num_alignments": len(sources),
            # Not of their content: no machine need read what others run. Each is in the results of its own.
            "alignments": _digest_of_names(sources),
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
        LOGGER.info(f"shard {shard}: {counted(len(self.sources), 'alignment')} of {len(sources):,}")

    def check(self, output: Path, *, several: bool, force: bool) -> None:
        """Raises: SettingsError where there is nothing to share; BioattnError when `output` is another shard's."""
        shard = self.results.shard
        if not several:
            raise SettingsError(
                f"--shard {shard}: shards are of a folder or list of alignments, and this is one alignment; leave "
                "it out"
            )
        if any(source.name == SHARD_FILE for source in self.sources):
            raise SettingsError(f"an alignment called {SHARD_FILE} cannot be run with --shard; rename it")
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


def _digest_of_names(sources: Sequence[AlignmentSource]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(f"{source.name}\t{_size(source.path)}\n".encode())
    return digest.hexdigest()


def _size(path: Path) -> Any:
    try:
        return path.stat().st_size
    except OSError:
        return None  # reading it will say what is wrong
