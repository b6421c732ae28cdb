"""What is known of the promoters of a page besides their maps: their bases, motif hits, responses and places.

Shape suffixes: G promoters, T treatments.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import decode
from bioattn.interpret.maps.promoter_maps import codes_of_genes
from bioattn.interpret.maps.window_genes import AnnotatedGenes, Window
from bioattn.interpret.motifs.motif_folder import AttendedSite, MotifResults, read_attended
from bioattn.io.files import sha256_of
from bioattn.promoters.dataset import SPLIT_NAMES, PromoterDataset
from bioattn.report.inputs import ReportInputs
from bioattn.store.reader import Attention

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


@dataclass(slots=True)
class PromoterContext:
    """What is needed of promoters besides their maps."""

    ids: list[str]
    windows: list[Window]
    predicted_GT: NDArray[np.float64]
    measured_GT: NDArray[np.float64] | None
    split_G: list[str]
    annotated: AnnotatedGenes | None
    sequences: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    hits: dict[str, list[MotifHit]] = field(default_factory=dict)
    attended: dict[str, list[AttendedSite]] = field(default_factory=dict)

    def read(
        self,
        genes: Sequence[str],
        attention: Attention,
        inputs: ReportInputs,
        dataset: PromoterDataset | None,
        motifs: MotifResults | None,
    ) -> None:
        """Read the bases of some promoters, hits of motifs in them, and their attended motifs.

        Bases are those of the promoter FASTA, else of the dataset where its windows are the same. Raises:
        BioattnError for another FASTA than that of the attention; FormatError for a damaged motif file.
        """
        if inputs.promoters is not None:
            if sha256_of(inputs.promoters) != attention.input_sha256:
                raise BioattnError(
                    f"{inputs.promoters}: is not the sequence file that the attention was made from; give that one"
                )
            codes_GL = codes_of_genes(inputs.promoters, attention, attention.samples.loc[list(genes)])
            self.sequences = dict(zip(genes, codes_GL, strict=True))
        elif dataset is not None and dataset.length == attention.window_length:
            window_of = dict(zip(self.ids, self.windows, strict=True))
            row_of = {gene: row for row, gene in enumerate(dataset.gene_ids)}
            inner_GL = dataset.codes[:, dataset.flank : dataset.codes.shape[1] - dataset.flank]
            for gene in genes:
                row = row_of.get(gene)
                if row is not None and window_of[gene][1:3] == (dataset.start[row], dataset.end[row]):
                    self.sequences[gene] = inner_GL[row]
        if inputs.motifs is not None:
            self.hits = motif_hits(inputs.motifs, self.sequences)
        elif motifs is not None and motifs.motifs and inputs.motif_export is not None:
            # What filters of the first layer respond to is too much to be marked.
            self.hits = motif_hits(inputs.motif_export / "motifs.meme", self.sequences, motifs.filters)
        if inputs.motif_export is not None:
            self.attended = read_attended(inputs.motif_export, set(genes))

    def name(self, gene: str) -> str:
        """The common name, empty when there is none."""
        return "" if self.annotated is None else self.annotated.name(gene)

    def letters(self, gene: str) -> str:
        """The bases of a promoter as text; empty where they are not known."""
        return decode(self.sequences.get(gene, np.empty(0, np.uint8)))

    def size(self, gene: str) -> int:
        """Bytes that a promoter takes of the page beside its maps, about."""
        responses = 9 * self.predicted_GT.shape[1] * (1 if self.measured_GT is None else 2)
        listed = 45 * len(self.hits.get(gene, [])) + 28 * len(self.attended.get(gene, []))
        return int(350 + len(self.sequences.get(gene, [])) + responses + listed)


def known_of(
    attention: Attention,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    ids: list[str],
    names: list[str],
) -> PromoterContext:
    """What the files say of all promoters: places, responses predicted and measured (in their units), splits."""
    samples = attention.samples
    windows = [
        Window(str(chrom), int(start), int(end), str(strand))
        for chrom, start, end, strand in zip(
            samples["chrom"], samples["start"], samples["end"], samples["strand"], strict=True
        )
    ]
    predicted = pd.DataFrame(np.nan, index=ids, columns=names)
    if predictions is not None:
        predicted = predictions.reindex(index=ids, columns=names)
    measured, split = None, [""] * len(ids)
    if dataset is not None:
        row_of = {gene: row for row, gene in enumerate(dataset.gene_ids)}
        targets = dataset.targets.astype(np.float64)
        if dataset.target_sd is not None and dataset.target_mean is not None:
            targets = targets * dataset.target_sd + dataset.target_mean
        table = pd.DataFrame(targets, index=dataset.gene_ids, columns=dataset.treatments.names)
        measured = table.reindex(index=ids, columns=names).to_numpy(np.float64)
        split = [SPLIT_NAMES[dataset.gene_split[row_of[gene]]] if gene in row_of else "" for gene in ids]
    return PromoterContext(
        ids=ids,
        windows=windows,
        predicted_GT=predicted.to_numpy(np.float64),
        measured_GT=measured,
        split_G=split,
        annotated=None if inputs.annotation is None else AnnotatedGenes(inputs.annotation),
    )


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
        kept = kept.sort_values(["start", "end", "motif"], kind="stable")
        hits[genes[int(str(row))]] = [
            MotifHit(titles[motif], start, end, strand, float(f"{p_value:.2g}"))
            for motif, start, end, strand, p_value in zip(
                *(kept[name].tolist() for name in ("motif", "start", "end", "strand", "p_value")), strict=True
            )
        ]
    return hits
