"""What stands around a promoter's attention: its bases, and hits of motifs in them."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import LETTERS
from bioattn.interpret.maps.promoter_maps import codes_of_genes
from bioattn.io.files import sha256_of
from bioattn.promoters.dataset import PromoterDataset
from bioattn.store.reader import AttentionFile
from bioattn.views.window_genes import Window

MAX_HITS = 80
"""Of one promoter; the likeliest are kept."""
HIT_P_VALUE = 1e-4


class MotifHit(NamedTuple):
    """A match of a motif, in window positions from 0, 5'→3'."""

    motif: str
    start: int
    end: int
    strand: str
    p_value: float


def sequences_of(
    genes: Sequence[str],
    windows: Sequence[Window],
    attention: AttentionFile,
    *,
    promoters: Path | None,
    dataset: PromoterDataset | None,
) -> dict[str, NDArray[np.uint8]]:
    """Codes of each gene's window, filled with N on the left where the promoter is shorter.

    From the promoter FASTA, which must be the file the attention is of, else from the dataset where its windows
    are the same. Raises: BioattnError for another FASTA.
    """
    found: dict[str, NDArray[np.uint8]] = {}
    if promoters is not None:
        if sha256_of(promoters) != attention.input_sha256:
            raise BioattnError(
                f"{promoters}: is not the sequence file that the attention was made from; give that one"
            )
        codes_GL = codes_of_genes(promoters, attention, attention.samples.loc[list(genes)])
        found = dict(zip(genes, codes_GL, strict=True))
    elif dataset is not None and dataset.length == attention.window_length:
        place = {gene: row for row, gene in enumerate(dataset.gene_ids)}
        inner_GL = dataset.codes[:, dataset.flank : dataset.codes.shape[1] - dataset.flank]
        for gene, window in zip(genes, windows, strict=True):
            row = place.get(gene)
            if row is None or (window.start, window.end) != (dataset.start[row], dataset.end[row]):
                continue
            found[gene] = inner_GL[row]
    return found


def letters(codes: NDArray[np.uint8]) -> str:
    """Text of codes."""
    return np.frombuffer(LETTERS.encode(), np.uint8)[codes].tobytes().decode("ascii")


def motif_hits(
    path: Path, sequences: dict[str, NDArray[np.uint8]], leave_out: Collection[str] = ()
) -> dict[str, list[MotifHit]]:
    """The likeliest hits of every promoter by gene, but those of some motifs.

    Raises: FormatError for a damaged motif file.
    """
    from bioattn.formats.meme import read_meme
    from bioattn.interpret.motifs.hits import find_motif_hits

    genes = list(sequences)
    if not genes:
        return {}
    database = read_meme(path)
    table = find_motif_hits(
        np.stack([sequences[gene] for gene in genes]),
        [motif for motif in database.motifs if motif.name not in leave_out],
        background=database.background,
        p_value=HIT_P_VALUE,
    )
    titles = {motif.name: motif.alternative_name or motif.name for motif in database.motifs}
    hits: dict[str, list[MotifHit]] = {}
    for row, part in table.groupby("row", sort=True):
        kept = part.sort_values(["p_value", "start", "motif"], kind="stable").head(MAX_HITS)
        hits[genes[int(str(row))]] = [
            MotifHit(
                titles.get(str(hit.motif), str(hit.motif)),
                int(hit.start),
                int(hit.end),
                str(hit.strand),
                float(f"{hit.p_value:.2g}"),
            )
            for hit in _rows(kept)
        ]
    return hits


def _rows(table: pd.DataFrame) -> Iterable[pd.Series]:
    return (row for _, row in table.sort_values(["start", "end", "motif"], kind="stable").iterrows())
