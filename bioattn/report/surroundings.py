"""What is known of the promoters of a page besides their maps, gathered from all inputs.

Shape suffixes: G promoters, T treatments.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.promoters.dataset import SPLIT_NAMES, PromoterDataset
from bioattn.report.inputs import ReportInputs
from bioattn.report.promoter_context import MotifHit, motif_hits, sequences_of
from bioattn.store.reader import AttentionFile
from bioattn.views.motif_export import AttendedSite, MotifResults, read_attended
from bioattn.views.window_genes import AnnotatedGenes, Window


@dataclass(slots=True)
class Surroundings:
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

    def surround(
        self,
        genes: Sequence[str],
        attention: AttentionFile,
        inputs: ReportInputs,
        dataset: PromoterDataset | None,
        motifs: MotifResults | None,
    ) -> None:
        """Read the bases of some promoters, hits of motifs in them, and their attended motifs."""
        place = {gene: row for row, gene in enumerate(self.ids)}
        self.sequences = sequences_of(
            genes,
            [self.windows[place[gene]] for gene in genes],
            attention,
            promoters=inputs.promoters,
            dataset=dataset,
        )
        if inputs.motifs is not None:
            self.hits = motif_hits(inputs.motifs, self.sequences)
        elif motifs is not None and motifs.motifs and inputs.motif_export is not None:
            # What filters of the first layer respond to is too much to be marked.
            self.hits = motif_hits(inputs.motif_export / "motifs.meme", self.sequences, motifs.filters)
        if inputs.motif_export is not None:
            self.attended = read_attended(inputs.motif_export, set(genes))

    def size(self, gene: str) -> int:
        """Bytes that a promoter takes of the page beside its maps, about."""
        responses = 9 * self.predicted_GT.shape[1] * (1 if self.measured_GT is None else 2)
        listed = 45 * len(self.hits.get(gene, [])) + 28 * len(self.attended.get(gene, []))
        return int(350 + len(self.sequences.get(gene, [])) + responses + listed)


def known_of(
    attention: AttentionFile,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    ids: list[str],
    names: list[str],
) -> Surroundings:
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
    return Surroundings(
        ids=ids,
        windows=windows,
        predicted_GT=predicted.to_numpy(np.float64),
        measured_GT=measured,
        split_G=split,
        annotated=None if inputs.annotation is None else AnnotatedGenes(inputs.annotation),
    )
