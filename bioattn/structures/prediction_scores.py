"""What `scores.json` says of a prediction from an alignment (docs/formats/evoformer-output.md)."""

from dataclasses import dataclass
from pathlib import Path

from bioattn.errors import FormatError
from bioattn.formats.rr import read_rr
from bioattn.io.files import read_json
from bioattn.structures.distogram_file import DISTOGRAM, Distances, read_distances

SCORES = "scores.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionScores:
    """The prediction of one alignment."""

    folder: Path
    id: str
    input_sha256: str
    """Of the alignment."""
    query: str | None
    """Name of the row that was asked for; None = the first one."""
    rows: int
    columns: int
    columns_used: int
    has_contacts: bool
    plddt: list[float]
    """Of each residue; empty without a structure."""
    mean_plddt: float | None

    def distances(self) -> Distances | None:
        """The predicted distances; None where there are none. Raises: FormatError when the file is damaged."""
        return read_distances(self.folder) if (self.folder / DISTOGRAM).is_file() else None

    def contact_probability(self) -> float | None:
        """Mean probability of as many of the likeliest contacts as columns were used; None without contacts."""
        if not self.has_contacts:
            return None
        pairs = read_rr(self.folder / "contacts.rr").pairs
        likeliest = sorted((pair.probability for pair in pairs), reverse=True)[: self.columns_used]
        return round(sum(likeliest) / len(likeliest), 6) if likeliest else None


def read_scores(folder: Path) -> PredictionScores:
    """Read `scores.json` of the folder of a prediction. Raises: FormatError when it is damaged or incomplete."""
    scores = read_json(folder / SCORES)
    try:
        return PredictionScores(
            folder=folder,
            id=str(scores["id"]),
            input_sha256=str(scores["input"]["sha256"]),
            query=scores["settings"]["query"],
            rows=scores["rows"],
            columns=scores["columns"],
            columns_used=scores["columns_used"],
            has_contacts="contact_pairs" in scores,
            plddt=[float(value) for value in scores.get("plddt") or ()],
            mean_plddt=scores.get("mean_plddt"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{folder / SCORES}: is not complete ({error!r}); run the prediction again with --force"
        ) from error
