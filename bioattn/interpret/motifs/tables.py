"""The tables of a folder of motifs (`docs/formats/motifs.md`), and what the motifs match in a database.

Motifs are compared by TOMTOM (Gupta et al. 2007) as memelite computes it.
"""

import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.motif import Motif, MotifDatabase
from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.interpret.maps.promoter_maps import PromoterMaps
from bioattn.interpret.motifs.use import BACKGROUND, EDGE_COLUMNS, USE_COLUMNS
from bioattn.io.files import text_output
from bioattn.store.windows import genomic_interval
from bioattn.text import counted

MOTIF_HEADER = (
    *(
        "motif",
        "source",
        "consensus",
        "width",
        "seqlets",
        "information_bits",
        "treatments",
        "surest_treatment",
    ),
    *("share", "control_share", "log10_p", "match", "match_name", "match_p_value", "match_q_value"),
)
_PLACE = ("chrom", "genomic_start", "genomic_end", "genomic_strand")
EDGE_HEADER = (*EDGE_COLUMNS[:6], *_PLACE, *EDGE_COLUMNS[6:])
_NUMBERS = "%.5g"


def write_motif_table(path: Path, rows: Sequence[dict[str, object]], matches: pd.DataFrame | None) -> None:
    """Write motifs.tsv. matches: as of `match_motifs`, in the order of `rows`; None = there was no database."""
    table = pd.DataFrame(rows, columns=list(MOTIF_HEADER))
    if matches is not None:
        for name in ("match", "match_name"):
            table[name] = matches[name].to_numpy()
        for name in ("p_value", "q_value"):
            table[f"match_{name}"] = matches[name].to_numpy()
    for name in ("width", "seqlets", "treatments"):
        table[name] = table[name].astype("Int64")
    _write(path, table)


def write_treatment_table(path: Path, rows: Sequence[dict[str, object]]) -> None:
    """Write treatments.tsv. The q-values are over all tests against the background, and over all others."""
    table = pd.DataFrame(rows, columns=[*USE_COLUMNS, "q_value"])
    table["q_value"] = np.nan
    for part in (table["reference"] == BACKGROUND, table["reference"] != BACKGROUND):
        p_values = table.loc[part, "p_value"].to_numpy(dtype=np.float64)
        table.loc[part, "q_value"] = benjamini_hochberg(p_values)
    _write(path, table)


def write_edges(file: io.TextIOBase, edges: pd.DataFrame, maps: PromoterMaps) -> int:
    """Write rows of edges.tsv with places on chromosomes, empty where a promoter has none; returns how many."""
    places = maps.samples.loc[edges["gene_id"]]
    start, end = edges["start"].to_numpy(dtype=np.int64), edges["end"].to_numpy(dtype=np.int64)
    low, high = np.zeros_like(start), np.zeros_like(end)
    strands = places["strand"].to_numpy(dtype=object)
    for strand in ("+", "-"):
        own = strands == strand
        low[own], high[own] = genomic_interval(
            start[own],
            end[own],
            places["start"].to_numpy()[own],
            places["end"].to_numpy()[own],
            strand,
            maps.length,
        )
    placed = np.isin(strands.astype(str), ("+", "-"))
    same = strands == edges["strand"].to_numpy(dtype=object)
    table = edges.assign(
        chrom=places["chrom"].to_numpy(),
        genomic_start=pd.array(np.where(placed, low, 0), dtype="Int64"),
        genomic_end=pd.array(np.where(placed, high, 0), dtype="Int64"),
        genomic_strand=np.where(placed, np.where(same, "+", "-"), ""),
    )
    table.loc[~placed, ["genomic_start", "genomic_end"]] = pd.NA
    table[list(EDGE_HEADER)].to_csv(
        file, sep="\t", index=False, header=False, float_format=_NUMBERS, lineterminator="\n"
    )
    return len(table)


def _write(path: Path, table: pd.DataFrame) -> None:
    with text_output(path) as file:
        table.to_csv(file, sep="\t", index=False, float_format=_NUMBERS, lineterminator="\n")


LOGGER = logging.getLogger("bioattn")

FEW_TARGETS = 50
"""With fewer motifs in the database p-values depend much on which they are; MEME's tomtom warns below this too."""
MATCH_COLUMNS = ("motif", "match", "match_name", "p_value", "q_value")


def require_tomtom() -> None:
    """Check that memelite is installed. Raises: BioattnError when it is not."""
    try:
        import memelite  # noqa: F401
    except ImportError:
        raise BioattnError(
            "comparing motifs with a database needs memelite; install it: pip install memelite"
        ) from None


def match_motifs(families: Sequence[Sequence[Motif]], database: MotifDatabase) -> pd.DataFrame:
    """The best match of each motif: columns motif, match, match_name (its second name), p_value and q_value.

    families: motifs that belong together, as those of one kind of map. The q-value is Benjamini & Hochberg's over
    all pairs of a motif of the family and a database motif. The best match is always given, whatever its q-value.

    Raises: BioattnError when memelite is not installed.
    """
    require_tomtom()
    motifs = [motif for family in families for motif in family]
    if not motifs:
        return pd.DataFrame(columns=list(MATCH_COLUMNS))
    if len(database.motifs) < FEW_TARGETS:
        LOGGER.warning(
            f"the database holds {len(database.motifs)} motifs only; TOMTOM's p-values take their background from "
            f"its columns and are rough below {FEW_TARGETS}"
        )
    ours, theirs = counted(len(motifs), "motif"), counted(len(database.motifs), "motif")
    LOGGER.info(
        f"comparing {ours} with {theirs} of the database; the first time after an install memelite compiles "
        "itself, which takes about a minute"
    )
    p_values = _tomtom(
        [motif.probabilities for motif in motifs], [motif.probabilities for motif in database.motifs]
    )
    q_values = np.empty_like(p_values)
    first = 0
    for family in families:
        rows = slice(first, first + len(family))
        q_values[rows] = benjamini_hochberg(p_values[rows].ravel()).reshape(p_values[rows].shape)
        first += len(family)
    best = p_values.argmin(axis=1)
    every = np.arange(len(motifs))
    return pd.DataFrame(
        {
            "motif": [motif.name for motif in motifs],
            "match": [database.motifs[number].name for number in best],
            "match_name": [database.motifs[number].alternative_name for number in best],
            "p_value": p_values[every, best],
            "q_value": q_values[every, best],
        }
    )


def _tomtom(
    queries: Sequence[NDArray[np.float64]], targets: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """p-values, (queries, targets)."""
    from memelite import tomtom

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few targets; said above
        results = tomtom(
            [np.ascontiguousarray(query.T) for query in queries],
            [np.ascontiguousarray(target.T) for target in targets],
            n_jobs=1,
        )
    return np.asarray(results[0], dtype=np.float64)
