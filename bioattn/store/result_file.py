"""What files of results over promoters share as they are read: where they come from, samples and predictions."""

from functools import cached_property
from pathlib import Path

import h5py
import pandas as pd

from bioattn.errors import FormatError
from bioattn.io.hdf5_input import damage_named, other_format, strings, text_attribute
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.schema import PREDICTIONS, SAMPLE_FIELDS
from bioattn.store.window_coordinates import recorded_downstream


def require_format(path: Path, file: h5py.File, what: str, format_name: str, newest: str) -> None:
    """Refuse a file of another format, or of a major version above that of `newest`, which this reader knows.

    what: the kind of file. Raises: FormatError.
    """
    found = text_attribute(file, "format")
    if found != format_name:
        raise other_format(path, f"{what} file", found, format_name)
    version = text_attribute(file, "format_version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise FormatError(f"{path}: format_version {version!r} is not of the form {newest!r}")
    if int(major) > int(newest.partition(".")[0]):
        raise FormatError(
            f"{path}: {what} format {version} is newer than {newest}, which this bioattn reads; "
            "use a newer bioattn"
        )


class ResultFile:
    """An open file of results; the base of the readers of each format."""

    def __init__(self, path: Path, file: h5py.File, *, over_promoters: bool = True) -> None:
        """Raises: FormatError when attributes or shapes are not those that were written."""
        self.path = path
        self._file = file
        if text_attribute(file, CONTENT_DIGEST) != content_digest(file):
            raise FormatError(
                f"{path}: its attributes or shapes are not what was written ({CONTENT_DIGEST} differs); the file "
                "is damaged or was edited: copy it or make it again"
            )
        self.content_sha256 = text_attribute(file, CONTENT_DIGEST) or ""
        self.model_sha256 = text_attribute(file, "model_sha256") or ""
        self.input_sha256 = text_attribute(file, "input_sha256") or ""
        self.task = text_attribute(file, "task") or ""
        with damage_named(path):
            self.window_length = int(file.attrs["window_length"]) if over_promoters else 0
            """Positions of the window of promoters; 0 for alignments."""
            self.downstream = recorded_downstream(file)
            """Positions of the window from position 0 of each gene on; None when the file does not say."""

    @cached_property
    def samples(self) -> pd.DataFrame:
        """Chrom, start, end (0-based, half-open; -1 unknown) and strand by gene id, in file order."""
        with damage_named(self.path):
            group = self._file["samples"]
            return pd.DataFrame(
                {
                    name: group[name][:] if name in ("start", "end") else strings(group[name])
                    for name in SAMPLE_FIELDS[1:]
                },
                index=pd.Index(strings(group["id"]), name="id"),
            )

    def predictions(self) -> pd.DataFrame:
        """The model's predictions, genes × treatments (response units, or probabilities of a binary model).

        Raises: FormatError when the file is damaged.
        """
        with damage_named(self.path):
            group = self._file[PREDICTIONS]
            return pd.DataFrame(
                group["values"][:],
                index=pd.Index(strings(group["sample"]), name="gene_id"),
                columns=strings(group["treatment"]),
            )

    @cached_property
    def _gene_numbers(self) -> dict[str, int]:
        with damage_named(self.path):
            return {name: number for number, name in enumerate(strings(self._file["samples/id"]))}
