"""The promoters of a report: those shown in full within a budget of bytes, one line for each of the others.

Shape suffixes: G promoters, T treatments, H heads, K bins, L positions.
"""

import math
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import SPLIT_NAMES, TRAIN, require_names
from bioattn.errors import BioattnError
from bioattn.formats.nucleotides import decode
from bioattn.interpret.motifs.motif_folder import MotifTables
from bioattn.interpret.promoter_maps import attribution_beside, codes_of_genes
from bioattn.interpret.promoter_windows import AnnotatedGenes, Window
from bioattn.io.files import sha256_of
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.genes import GeneNames, find_genes
from bioattn.report.inputs import ReportInputs
from bioattn.report.promoter_maps import (
    ALONE_BYTES,
    BESIDE_BYTES,
    SiteSummary,
    agreeing,
    pack_within_budget,
    ranked_genes,
    read_maps,
    shown_maps,
)
from bioattn.store.attribution import open_attribution
from bioattn.store.reader import Attention
from bioattn.system.progress import Progress

LETTERS_SHOWN = 40
TRACKS_SHOWN = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadTrack:
    """One treatment of the promoter shown first."""

    treatment: str
    values_K: NDArray[np.float64]
    """Contributions of bins to the response, or attention."""
    attribution_L: NDArray[np.float64] | None
    """Of each base; None where it is not known."""
    predicted: float | None
    measured: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadPromoter:
    """The promoter shown first: that of the most treatment-specific response, of those that were measured the best
    predicted; or the first one asked for."""

    title: str
    place: str
    """On the chromosome; empty where not known."""
    split: str
    sequence: str
    """Empty where not known."""
    key_edges: NDArray[np.int64]
    zero: int
    """The window position that the axis labels 0."""
    signed: bool
    tracks: list[LeadTrack]
    best: int
    """The track of the most specific response."""
    treatments: int
    """How many treatments the browser of promoters has."""

    @property
    def length(self) -> int:
        """Bases of the window."""
        return int(self.key_edges[-1])

    @property
    def peak(self) -> tuple[int, int]:
        """First base of the bin of the largest size for the best treatment, and the base behind it."""
        place = int(np.abs(self.tracks[self.best].values_K).argmax())
        return int(self.key_edges[place]), int(self.key_edges[place + 1])

    @property
    def first_letter(self) -> int:
        """The first base that is written as a letter, so that the peak is in the middle."""
        shown = min(LETTERS_SHOWN, len(self.sequence))
        return max(0, min(len(self.sequence) - shown, (sum(self.peak) - shown) // 2))

    @property
    def letters(self) -> str:
        """The bases around the peak."""
        return self.sequence[self.first_letter : self.first_letter + LETTERS_SHOWN]

    @property
    def scale(self) -> float:
        """The largest response of a track, predicted or measured."""
        answers = [value for track in self.tracks for value in (track.predicted, track.measured)]
        return max((abs(value) for value in answers if value is not None), default=0.0) or 1.0

    def outline(self, track: LeadTrack) -> str:
        """Weights as an SVG path, 44 high for the largest of all tracks."""
        largest = max(float(each.values_K.max()) for each in self.tracks) or 1.0
        steps = [f"M{self.key_edges[0]} 44"]
        for left, right, weight in zip(self.key_edges[:-1], self.key_edges[1:], track.values_K, strict=True):
            steps.append(f"L{left} {42 - float(weight) / largest * 40:.1f}H{right}")
        return "".join(steps) + "V44"

    def bars(self, track: LeadTrack, *, attribution: bool = False) -> dict[str, str]:
        """SVG paths of what raises and what lowers the response, as bars up and down.

        Those of contributions begin at 22 and are 20 long for the largest of all tracks, of attribution 14 and 13.
        """
        name, zero, reach = ("attribution_L", 14, 13) if attribution else ("values_K", 22, 20)
        edges = np.arange(self.length + 1) if attribution else self.key_edges
        every = [getattr(each, name) for each in self.tracks]
        most = max(float(np.abs(each).max()) for each in every if each is not None) or 1.0
        bars = {"up": "", "down": ""}
        for start, end, value in zip(edges[:-1], edges[1:], getattr(track, name), strict=True):
            tall = float(value) / most * reach
            bars["up" if value > 0 else "down"] += f"M{start} {zero}v{-tall:.1f}H{end}v{tall:.1f}Z"
        return bars


MAX_HITS = 80
"""Of one promoter; the likeliest are kept."""


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
    names: dict[str, str] = field(default_factory=dict)
    """Common names that the attention file holds, by id."""
    sequences: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    hits: dict[str, list[MotifHit]] = field(default_factory=dict)

    def read(
        self,
        genes: Sequence[str],
        attention: Attention,
        inputs: ReportInputs,
        dataset: PromoterDataset | None,
        motifs: MotifTables | None,
    ) -> None:
        """Read the bases of some promoters, and hits of motifs in them.

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
        elif motifs is not None and len(motifs.motifs) and inputs.motif_export is not None:
            # What filters of the first layer respond to is too much to be marked.
            self.hits = motif_hits(inputs.motif_export / "motifs.meme", self.sequences, motifs.filters())

    def name(self, gene: str) -> str:
        """The common name, empty when there is none."""
        return self.names.get(gene, "") or ("" if self.annotated is None else self.annotated.name(gene))

    def letters(self, gene: str) -> str:
        """The bases of a promoter as text; empty where they are not known."""
        return decode(self.sequences.get(gene, np.empty(0, np.uint8)))

    def size(self, gene: str) -> int:
        """Bytes that a promoter takes of the page beside its maps, about."""
        responses = 9 * self.predicted_GT.shape[1] * (1 if self.measured_GT is None else 2)
        return int(350 + len(self.sequences.get(gene, [])) + responses + 45 * len(self.hits.get(gene, [])))


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
    windows = [Window(*row) for row in samples[list(Window._fields)].itertuples(index=False)]
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
        if not inputs.of_other_data():
            split = [SPLIT_NAMES[dataset.gene_split[row_of[gene]]] if gene in row_of else "" for gene in ids]
    return PromoterContext(
        ids=ids,
        windows=windows,
        predicted_GT=predicted.to_numpy(np.float64),
        measured_GT=measured,
        split_G=split,
        annotated=None if inputs.annotation is None else AnnotatedGenes(inputs.annotation),
        names=dict(zip(ids, samples.get("name", ()), strict=False)),
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
    )
    titles = {motif.name: motif.alternative_name or motif.name for motif in database.motifs}
    table = table.sort_values(["row", "p_value", "start", "motif"], kind="stable")
    table = table.groupby("row").head(MAX_HITS)
    hits: dict[str, list[MotifHit]] = {}
    for hit in table.sort_values(["row", "start", "end", "motif"], kind="stable").itertuples():
        found: Any = hit
        hits.setdefault(genes[found.row], []).append(
            MotifHit(titles[found.motif], found.start, found.end, found.strand, float(f"{found.p_value:.2g}"))
        )
    return hits


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserGene:
    """One promoter shown in full."""

    id: str
    name: str
    window: Window
    split: str
    """Such as `train`; empty when not known."""
    sequence: str
    """Empty when not known."""
    predicted: list[float | None]
    measured: list[float | None]
    """Empty without a dataset."""
    neighbours: list[tuple[int, int, str, bool, bool]]
    """Start, end, name, whether it has the direction of the window, and whether it is the promoter's own gene."""
    hits: list[MotifHit]
    attributed: bool
    maps: str


class GeneLine(NamedTuple):
    """One promoter in one line."""

    id: str
    name: str
    treatment: int
    """Number of the treatment to which its predicted response is most specific."""
    predicted: float | None
    peak: int
    """Middle of the bin of the largest size for it at the first site, in window positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterBrowser:
    """All that the page says of promoters. Positions count from the start of the gene, where it is not known from
    the 3' end of the window."""

    window_length: int
    downstream: int | None
    """Bases of the window from position 0 of each gene on; None when that is not known."""
    task: str
    treatments: list[str]
    sites: list[SiteSummary]
    genes: list[BrowserGene]
    lines: list[GeneLine]
    lead: LeadPromoter
    chosen_by: str
    absent: list[str]
    attribution: dict[str, Any] | None
    """How it was computed, and of which treatments; None without any."""

    @property
    def zero(self) -> int:
        """The window position that axes label 0."""
        return self.window_length - (self.downstream or 0)

    @property
    def counted_from(self) -> str:
        """What lies there."""
        return "the 3′ end of the window" if self.downstream is None else "the start of the gene"


def collect_browser(
    attention: Attention,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    motifs: MotifTables | None,
    *,
    genes: Sequence[str],
    treatments: Sequence[str],
    progress: Progress,
) -> PromoterBrowser:
    """Read the attention once and choose.

    genes: ids, or files of ids, to be shown in full before any other. treatments: the only ones to be shown;
    empty = all.

    Raises: BioattnError for a gene or treatment that is not in the file, or sequences of another file; ValueError
    when none of its sites has positions for keys (`shown_maps`).
    """
    ids = [str(gene) for gene in attention.samples.index]
    place = {gene: row for row, gene in enumerate(ids)}
    wanted, absent = find_genes(genes, GeneNames.in_samples(attention.samples))
    every = shown_maps(attention)
    if not every:
        raise ValueError("the file has no site over positions")
    known = attention.treatments or next((maps.treatments for maps in every if maps.tells_apart), [])
    require_names("--treatment", treatments, known, attention.path)
    names = [name for name in known if name in treatments] if treatments else list(known)
    context = known_of(attention, inputs, dataset, predictions, ids, names)
    unseen = np.array([split not in ("", SPLIT_NAMES[TRAIN]) for split in context.split_G])
    responses = context.predicted_GT if np.isfinite(context.predicted_GT).any() else context.measured_GT
    if responses is None:
        responses = np.zeros((len(ids), max(1, len(names))))
    length = attention.window_length
    room = BESIDE_BYTES if inputs.prediction or inputs.alignment_attention else ALONE_BYTES
    specific_GT = agreeing(responses, context.measured_GT)
    best_G = specific_GT.argmax(axis=1)
    with ExitStack() as stack:
        attribution = None
        if inputs.attribution is not None:
            file = stack.enter_context(open_attribution(inputs.attribution))
            attribution = attribution_beside(file, attention)
        explained_genes: set[str] = set()
        attributed: list[str] = []
        if attribution is not None:
            explained_genes = set(attribution.genes)
            attributed = [name for name in attribution.treatments if not names or name in names]
        order = ranked_genes(specific_GT, unseen)
        explained = [row for row in order if ids[row] in explained_genes]
        ranked = list(dict.fromkeys([*(place[gene] for gene in wanted), *explained, *order]))
        wanted_names, least = names if treatments else None, len(wanted)
        sites, kept, peak_bin_G = read_maps(
            every, wanted_names, ranked, best_G, at_least=least, room=room, progress=progress
        )
        context.read([ids[row] for row in kept], attention, inputs, dataset, motifs)
        first = next(iter(kept))
        first_maps = kept[first][0]
        lead_attribution: dict[str, NDArray[np.float64]] = {}
        if attribution is not None and ids[first] in explained_genes:
            values_TL = attribution.averaged([ids[first]], attributed).block(slice(1))[0]
            lead_attribution = dict(zip(attributed, values_TL, strict=True))
        added = attribution if attributed else None
        beside = [context.size(gene) for gene in ids]
        shown = pack_within_budget(kept, added, attributed, ids, least, room=room, context_bytes=beside)
    shown_treatments = names or sites[0].treatments
    edges = sites[0].key_edges
    middles = (edges[:-1] + edges[1:]) // 2
    return PromoterBrowser(
        window_length=length,
        downstream=attention.downstream,
        task=attention.task,
        treatments=shown_treatments,
        sites=sites,
        genes=[
            _browser_gene(row, shown_treatments, maps, contributes, context, length)
            for row, maps, contributes in shown
        ],
        lines=[
            GeneLine(
                id=gene,
                name=context.name(gene),
                treatment=int(best_G[row]),
                predicted=_number(context.predicted_GT[row, best_G[row]]) if names else None,
                peak=int(middles[peak_bin_G[row]]),
            )
            for row, gene in enumerate(ids)
        ],
        lead=_lead(
            first,
            first_maps.values().mean(axis=1),
            context,
            sites[0],
            shown_treatments,
            specific_GT[first],
            lead_attribution,
            length - (attention.downstream or 0),
        ),
        absent=absent,
        chosen_by=_chosen_by(
            context, len(shown), held_out=bool(unseen.any()), attribution=bool(explained), asked=len(wanted)
        ),
        attribution=None if attribution is None else {"method": attribution.method, "treatments": attributed},
    )


def _browser_gene(
    row: int, treatments: list[str], maps: str, attributed: bool, context: PromoterContext, length: int
) -> BrowserGene:
    gene = context.ids[row]
    window = context.windows[row]
    return BrowserGene(
        id=gene,
        name=context.name(gene),
        window=window,
        split=context.split_G[row],
        sequence=context.letters(gene),
        predicted=[_number(value) for value in context.predicted_GT[row]],
        measured=[] if context.measured_GT is None else [_number(v) for v in context.measured_GT[row]],
        neighbours=sorted(
            (max(0, each.start), min(length, each.end), each.name, each.forward, each.own)
            for each in (context.annotated.in_window(gene, window, length) if context.annotated else [])
            if each.start < length and each.end > 0
        ),
        hits=context.hits.get(gene, []),
        attributed=attributed,
        maps=maps,
    )


def _lead(
    row: int,
    values_TK: NDArray[np.float64],
    context: PromoterContext,
    site: SiteSummary,
    treatments: list[str],
    specific_T: NDArray[np.float64],
    attribution: dict[str, NDArray[np.float64]],
    zero: int,
) -> LeadPromoter:
    """A few treatments of a promoter, those of the most specific responses, in the order of the file."""
    gene, window = context.ids[row], context.windows[row]
    told_apart = site.treatments == treatments and len(specific_T) == len(treatments)
    # Two treatments are equally specific: the larger response is the better example.
    ties_T = np.isclose(specific_T, specific_T.max()) if told_apart else np.zeros(0, bool)
    best = int(np.where(ties_T, abs(context.predicted_GT[row]), -1).argmax()) if told_apart else 0
    chosen = sorted(np.argsort(-specific_T, kind="stable")[:TRACKS_SHOWN].tolist()) if told_apart else [0]
    measured_T = None if context.measured_GT is None else context.measured_GT[row]
    name, place = context.name(gene), f"{window.chrom}:{window.start + 1:,}–{window.end:,} ({window.strand})"
    return LeadPromoter(
        title=f"{gene} ({name})" if name else gene,
        place=place if window.strand in ("+", "-") else "",
        split=context.split_G[row],
        sequence=context.letters(gene),
        key_edges=site.key_edges,
        zero=zero,
        signed=site.quantity.signed,
        tracks=[
            LeadTrack(
                treatment=site.treatments[number],
                values_K=values_TK[number],
                attribution_L=attribution.get(site.treatments[number]),
                predicted=_number(context.predicted_GT[row, number]) if told_apart else None,
                measured=_number(measured_T[number]) if told_apart and measured_T is not None else None,
            )
            for number in chosen
        ],
        best=chosen.index(best),
        treatments=len(treatments),
    )


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _chosen_by(context: PromoterContext, shown: int, *, held_out: bool, attribution: bool, asked: int) -> str:
    total, measured = len(context.ids), context.measured_GT is not None
    if shown == total:
        return f"All {total:,} promoters are in this page."
    words = (
        f"{shown:,} of {total:,} promoters are in this page in full: the treatments took turns naming the "
        f"promoter whose predicted response is most specific to them{' and was measured so' if measured else ''}"
    )
    if held_out:
        words += ", every second time among genes the model was not trained on"
    if attribution:
        words += "; those with an attribution came first"
    if asked:
        words += f"; {asked:,} were asked for by name"
    return (
        words
        + ". Of the others the search gives one line each; all of them enter the summaries. Name genes with "
        "--genes to have them here."
    )
