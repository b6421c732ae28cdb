"""Which motifs of a database resemble ours: TOMTOM (Gupta et al. 2007) as memelite computes it."""

import logging
import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.motif import Motif, MotifDatabase
from bioattn.interpret.false_discovery import benjamini_hochberg
from bioattn.text import counted

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
            "comparing motifs with a database needs memelite; install it: pip install 'bioattn[motif]'"
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
