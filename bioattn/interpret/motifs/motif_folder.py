"""What `bioattn export motifs` found (docs/formats/motifs.md), as far as a report shows it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bioattn.errors import FormatError
from bioattn.formats.meme import read_meme
from bioattn.interpret.file_kinds import MEME, MOTIF_FOLDER, MOTIFS, TREATMENTS
from bioattn.interpret.motifs.use import BACKGROUND
from bioattn.io.files import read_json

MAX_MOTIFS = 60
"""Logos on a page, those with most seqlets first."""

SURE = 0.05
"""A larger q-value is no finding."""
MAX_OF_TREATMENT = 6
"""Motifs of one treatment on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MotifTables:
    """The tables of the export."""

    motifs: pd.DataFrame
    """Those with most seqlets first, filters last. Beside columns of the file `closest`, the match by its names,
    `title`, how the motif is called on a page, and `probabilities`, (W, 4) of A, C, G, T or None."""
    treatments: pd.DataFrame
    """Against another treatment or the mean of all where the export compares so, else against the background."""
    model_sha256: str
    """Empty where the export was made without the model."""

    def shown(self) -> list[Any]:
        """The motifs on a page, as rows."""
        return _rows(self.motifs.head(MAX_MOTIFS))

    def filters(self) -> set[str]:
        """Names of the motifs of the first layer."""
        return set(self.motifs.loc[self.motifs["source"] == "filter", "motif"])

    def title(self, name: str) -> str:
        """How a motif is called on a page."""
        return next((motif.title for motif in self.shown() if motif.motif == name), name)

    def gains(self, motif: str) -> list[Any]:
        """The treatments in which a motif gains attention, unless that is not sure; the largest gain first."""
        rows = self.treatments[(self.treatments["motif"] == motif) & (self.treatments["ratio"] > 1)]
        sure = rows[rows["q_value"].isna() | (rows["q_value"] <= SURE)]
        return _rows(sure.sort_values(["ratio", "treatment"], ascending=[False, True]))

    def by_treatment(self) -> dict[str, list[Any]]:
        """The motifs of largest ratio of every treatment, of those that are shown."""
        rows = self.treatments[self.treatments["motif"].isin(self.motifs["motif"].head(MAX_MOTIFS))]
        rows = rows[rows["ratio"].notna()].sort_values("ratio", ascending=False, kind="stable")
        return {
            name: _rows(rows[rows["treatment"] == name].head(MAX_OF_TREATMENT))
            for name in self.treatments["treatment"].unique()
        }


def read_motif_export(folder: Path) -> MotifTables:
    """Read motifs and their use. Raises: FormatError when a table of the folder is missing or damaged."""
    motifs = _table(
        folder / MOTIFS,
        texts=("motif", "source", "consensus", "match", "match_name"),
        numbers=("seqlets", "information_bits", "match_q_value"),
    )
    # An export without motifs has the header of a MEME file alone, which is no database to read.
    database = read_meme(folder / MEME).motifs if len(motifs) else []
    matrices = {motif.name: motif.probabilities for motif in database}
    closest = [
        f"{name} ({match})" if name not in ("", match) else match
        for name, match in zip(motifs["match_name"], motifs["match"], strict=True)
    ]
    motifs = motifs.assign(
        closest=closest,
        title=[
            f"{match.partition(' (')[0]} ({name})" if match and q_value <= SURE else name
            for name, match, q_value in zip(motifs["motif"], closest, motifs["match_q_value"], strict=True)
        ],
        probabilities=motifs["motif"].map(matrices.get),
        rank=-motifs["seqlets"].fillna(0),
        last=motifs["source"] == "filter",
    ).sort_values(["last", "rank", "motif"], ignore_index=True)
    use = _table(folder / TREATMENTS, texts=("treatment", "motif", "reference"), numbers=("ratio", "q_value"))
    compared = use[use["reference"] != BACKGROUND]
    sources = read_json(folder / MOTIF_FOLDER.record).get("sources", {})
    return MotifTables(
        motifs=motifs,
        treatments=compared if len(compared) else use,
        model_sha256=sources.get("model", {}).get("sha256", ""),
    )


def _table(path: Path, *, texts: Iterable[str], numbers: Iterable[str]) -> pd.DataFrame:
    """Some columns of a table of the export. Raises: FormatError when it is missing or damaged."""
    missing = {name: ["", "inf", "-inf"] for name in numbers}
    columns = dict.fromkeys(texts, "str") | dict.fromkeys(missing, "float64")
    try:
        table: pd.DataFrame = pd.read_csv(
            path, sep="\t", usecols=list(columns), dtype=columns, keep_default_na=False, na_values=missing
        )
        return table[list(columns)]
    except (ValueError, OSError) as error:
        raise FormatError(f"{path}: cannot be read ({error}); run `bioattn export motifs` again") from error


def _rows(table: pd.DataFrame) -> list[Any]:
    """For the page: named tuples, with None for what is not known."""
    return list(table.astype(object).where(table.notna(), None).itertuples(index=False))
