"""Reading attribution files: `with open_attribution(path) as attribution: attribution.contributions(gene="…")`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.store.attribution_schema import (
    ATTRIBUTION,
    ATTRIBUTION_FORMAT,
    ATTRIBUTION_VERSION,
    GAP,
    SEQUENCE,
    VALUES,
)
from bioattn.store.content_digest import CONTENT_DIGEST, content_digest
from bioattn.store.hdf5_access import damage_named, open_hdf5, strings, text_attribute
from bioattn.store.schema import PREDICTIONS, SAMPLE_FIELDS
from bioattn.store.selection import choice, read_selection
from bioattn.store.window_coordinates import recorded_downstream

Choice = str | Sequence[str] | slice | None


class AttributionFile:
    """An open attribution file; made by `open_attribution`, usable inside its `with` only."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path = path
        self._file = file
        require_attribution(path, file)
        if text_attribute(file, CONTENT_DIGEST) != content_digest(file):
            raise FormatError(
                f"{path}: its attributes or shapes are not what was written ({CONTENT_DIGEST} differs); the file "
                "is damaged or was edited: copy it or make it again"
            )
        self.content_sha256 = text_attribute(file, CONTENT_DIGEST) or ""
        self.method = text_attribute(file, "method") or ""
        """`ism`, `gradient-input` or `integrated-gradients`."""
        self.method_settings = text_attribute(file, "method_settings") or ""
        self.model_sha256 = text_attribute(file, "model_sha256") or ""
        self.input_sha256 = text_attribute(file, "input_sha256") or ""
        self.task = text_attribute(file, "task") or ""
        with damage_named(path):
            self.window_length = int(file.attrs["window_length"])
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

    @cached_property
    def treatments(self) -> list[str]:
        """All treatments, in the order of the treatment axis."""
        with damage_named(self.path):
            return strings(self._file[f"{ATTRIBUTION}/treatment"])

    def values(
        self, *, gene: Choice = None, treatment: str | Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """Hypothetical contributions (gene, treatment, position, base A C G T); only what is asked for is read.

        What each base would add to the prediction, in response units or log-odds; over the four bases they sum to
        0, where the promoter has N all are 0. gene, treatment: one name (its axis is dropped), several (in that
        order), or None for all; gene can also be a slice of sample numbers.

        Raises: BioattnError for a gene or treatment that the file does not hold; FormatError when it is damaged.
        """
        numbers = {name: number for number, name in enumerate(self.treatments)}
        chosen = choice(treatment, numbers, f"{self.path}: treatment")
        with damage_named(self.path):
            found: NDArray[np.float32] = read_selection(
                self._file[f"{ATTRIBUTION}/{VALUES}"],
                [self._genes(gene), chosen, slice(None), slice(None)],
            )
        return found

    def contributions(
        self, *, gene: Choice = None, treatment: str | Sequence[str] | None = None
    ) -> NDArray[np.float32]:
        """The value of the base that is there, (gene, treatment, position): positive where it raises the response.

        gene, treatment and what is raised: as in `values`.
        """
        values = self.values(gene=gene, treatment=treatment)
        codes = self.sequences(gene=gene)
        if values.ndim - codes.ndim == 2:  # treatments have an axis of their own
            codes = np.expand_dims(codes, -2)
        known = np.minimum(codes, 3).astype(np.int64)[..., None]
        picked = np.take_along_axis(values, np.broadcast_to(known, (*values.shape[:-1], 1)), axis=-1)[..., 0]
        return np.where(codes > 3, np.float32(0), picked)

    def sequences(self, *, gene: Choice = None) -> NDArray[np.uint8]:
        """Codes (gene, position), 0..3 = A C G T, 4 = N; `gene` as in `values`."""
        with damage_named(self.path):
            found: NDArray[np.uint8] = read_selection(
                self._file[f"{ATTRIBUTION}/{SEQUENCE}"], [self._genes(gene), slice(None)]
            )
        return found

    def completeness_gap(self) -> pd.DataFrame | None:
        """Of integrated gradients, f(promoter) − f(baseline) − sum of all contributions, genes × treatments.

        In the units of the values; before these were centred. None for other methods.
        """
        with damage_named(self.path):
            if GAP not in self._file[ATTRIBUTION]:
                return None
            return pd.DataFrame(
                self._file[f"{ATTRIBUTION}/{GAP}"][:], index=self.samples.index, columns=self.treatments
            )

    def predictions(self) -> pd.DataFrame:
        """The model's predictions, genes × treatments (response units, or probabilities of a binary model)."""
        with damage_named(self.path):
            group = self._file[PREDICTIONS]
            return pd.DataFrame(
                group["values"][:],
                index=pd.Index(strings(group["sample"]), name="gene_id"),
                columns=strings(group["treatment"]),
            )

    def _genes(self, gene: Choice) -> int | list[int] | slice:
        return choice(gene, self._gene_numbers, f"{self.path}: gene")

    @cached_property
    def _gene_numbers(self) -> dict[str, int]:
        with damage_named(self.path):
            return {name: number for number, name in enumerate(strings(self._file["samples/id"]))}


@contextmanager
def open_attribution(path: Path | str) -> Iterator[AttributionFile]:
    """Open an attribution file for reading.

    Raises: BioattnError when it cannot be opened; FormatError when it is no attribution file, of a newer major
    version, damaged, or not self-contained.
    """
    path = Path(path)
    with open_hdf5(path) as file:
        yield AttributionFile(path, file)


def require_attribution(path: Path, file: h5py.File) -> None:
    """Raises: FormatError when the file is no attribution or its major version is newer than this reader's."""
    found = text_attribute(file, "format")
    if found != ATTRIBUTION_FORMAT:
        what = f"its format is {found!r}" if found else "it has no 'format' attribute"
        raise FormatError(f"{path}: not an attribution file ({what}, {ATTRIBUTION_FORMAT!r} is needed)")
    version = text_attribute(file, "format_version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise FormatError(f"{path}: format_version {version!r} is not of the form {ATTRIBUTION_VERSION!r}")
    if int(major) > int(ATTRIBUTION_VERSION.partition(".")[0]):
        raise FormatError(
            f"{path}: attribution format {version} is newer than {ATTRIBUTION_VERSION}, which this bioattn reads; "
            "use a newer bioattn"
        )
