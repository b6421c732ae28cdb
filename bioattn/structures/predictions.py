"""The files of a prediction: contacts, distances, scores, pLDDT of each residue, predicted aligned error (PAE).

pLDDT and PAE are also read from the files of AlphaFold DB and ColabFold. `docs/formats/evoformer-output.md` is the
contract.
"""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.files import read_json
from bioattn.io.hdf5 import text_attribute
from bioattn.structures.chain import read_chain

LOGGER = logging.getLogger("bioattn")
_COMMAND = "bioattn run evoformer"
DISTANCES = DatasetKind(name="distogram", format="bioattn-distogram", version=1, command=_COMMAND)
REPRESENTATIONS = DatasetKind(
    name="file of representations", format="bioattn-representations", version=1, command=_COMMAND
)
DISTOGRAM = "distogram.h5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Distances between the R columns that the model saw; maps are (R, R)."""

    name: str
    letters: str
    """One letter per match column of the alignment, `-` for a gap."""
    columns: NDArray[np.int64]
    """(R,) match columns, from 0."""
    bin_edges: NDArray[np.float64]
    """(N - 1,) ångström between bins."""
    contact_probability: NDArray[np.float64]
    expected_distance: NDArray[np.float64]
    """(R, R) ångström; the open bins at both ends count as wide as the others."""


def read_distances(path: Path) -> Distances:
    """Read `distogram.h5` of `run evoformer`, or of the folder that holds it.

    Raises: FormatError when it is no such file, or damaged.
    """
    if path.is_dir():
        path = path / DISTOGRAM
    with DISTANCES.open(path) as arrays:
        file = arrays.file
        columns = file["column_i"][()].astype(np.int64) - 1
        return Distances(
            name=text_attribute(file, "id") or "",
            letters=text_attribute(file, "sequence") or "",
            columns=columns,
            bin_edges=file["bin_edge"][()].astype(np.float64),
            contact_probability=file["contact_probability"][()].astype(np.float64),
            expected_distance=file["expected_distance"][()].astype(np.float64),
        )


SCORES = "scores.json"


def read_scores(folder: Path) -> dict[str, Any]:
    """The content of `scores.json` of a prediction's folder. Raises: FormatError when it is something else."""
    scores = read_json(folder / SCORES)
    if not isinstance(scores, dict) or scores.get("format") != "bioattn-prediction":
        raise FormatError(f"{folder / SCORES}: not the scores of a prediction of bioattn")
    return scores


ALIGNED_ERROR = "predicted_aligned_error.json"
MAX_ALIGNED_ERROR = 31.75
"""Å, the middle of the last of AlphaFold's 64 bins, which is the largest error that can be predicted."""


class Confidence(NamedTuple):
    """pLDDT (L,), 0..100, along the L residues of one chain."""

    name: str
    numbers: list[int]
    plddt: NDArray[np.float64]


class AlignedError(NamedTuple):
    """The predicted aligned error."""

    name: str
    errors_RR: NDArray[np.float64]
    """(R, R) Å: the expected error of residue j (column) where the prediction is aligned at residue i (row)."""

    def record(self) -> dict[str, Any]:
        """The figures of a run record."""
        return {"mean_pae": round(float(self.errors_RR.mean()), 3)}


def read_aligned_error(path: Path) -> AlignedError:
    """Read the predicted aligned error.

    path: a folder of `run evoformer`, AlphaFold DB's or ColabFold's JSON of the PAE, or ColabFold's scores.

    Raises: BioattnError for a folder without PAE; FormatError when the file holds none.
    """
    name = path.stem
    if path.is_dir():
        if not (path / ALIGNED_ERROR).is_file():
            raise BioattnError(
                f"{path}: has no {ALIGNED_ERROR}; `run evoformer` writes it where parameters predict it "
                "(AlphaFold's _ptm models)"
            )
        path = path / ALIGNED_ERROR
    content = read_json(path)
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    keys = ("predicted_aligned_error", "pae", "distance")
    errors = _numbers(path, content, keys, "predicted aligned errors")
    if "distance" in content:
        # AlphaFold DB's versions 1 and 2: three lists, an entry for each pair of residues.
        size = math.isqrt(errors.size)
        named = [_numbers(path, content, (key,), "pairs of residues") for key in ("residue1", "residue2")]
        if errors.ndim != 1 or not np.array_equal(named, np.indices((size, size)).reshape(2, -1) + 1):
            raise FormatError(f"{path}: residue1 and residue2 do not name every pair of residues in order")
        errors = errors.reshape(size, size)
    if errors.ndim != 2 or errors.shape[0] != errors.shape[1] or not np.all(errors >= 0):
        raise FormatError(f"{path}: the predicted aligned errors are no square of numbers from 0")
    return AlignedError(name, errors)


def read_plddt(path: Path, chain: str | None = None) -> Confidence:
    """pLDDT of a prediction.

    path: a folder of `run evoformer`; a PDB or mmCIF file with pLDDT as B-factors; AlphaFold DB's JSON of
    confidences, or ColabFold's JSON of scores, whose residues are counted from 1. chain: of a structure.

    Raises: BioattnError for a folder without structure; FormatError when the file holds no pLDDT.
    """
    name = path.name if path.is_dir() else path.name.split(".")[0]
    if path.suffix == ".json":
        content = read_json(path)
        values = _numbers(path, content, ("plddt", "confidenceScore"), "pLDDT")
        numbers = content.get("residueNumber", range(1, len(values) + 1))
    else:
        if path.is_dir() and not (path / "structure.cif").is_file():
            raise BioattnError(
                f"{path}: has no structure.cif, and so no pLDDT; the model predicts no structure"
            )
        found = read_chain(path / "structure.cif" if path.is_dir() else path, chain)
        if found.method and "model" not in found.method:
            raise FormatError(
                f"{path}: is a structure by {found.method}, whose B-factors are no pLDDT; give a prediction"
            )
        values, numbers = found.bfactors.astype(np.float64), found.numbers
    if values.ndim != 1 or len(values) != len(numbers) or not np.all((values >= 0) & (values <= 100)):
        raise FormatError(f"{path}: holds no pLDDT, which is a number from 0 to 100 for each residue")
    if 0 <= values.min(initial=1) < values.max(initial=0) <= 1:
        LOGGER.warning(f"{path}: its pLDDT are at most 1, as ESMFold writes them; they are multiplied by 100")
        values = 100 * values
    return Confidence(name, list(numbers), values)


def _numbers(path: Path, content: Any, keys: tuple[str, ...], what: str) -> NDArray[np.float64]:
    """The array under the first of `keys` that is there."""
    found = next((content[key] for key in keys if isinstance(content, dict) and key in content), None)
    if found is None:
        raise FormatError(f"{path}: holds no {what} (entry {' or '.join(map(repr, keys))})")
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise FormatError(f"{path}: the {what} are no numbers, or its rows differ in length") from None
