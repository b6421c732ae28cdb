"""The promoters of a report: those shown in full within a budget of bytes, one line for each of the others.

Shape suffixes: G promoters, T treatments, H heads, K bins, L positions.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import require_names
from bioattn.interpret.maps.contributions import open_contributions
from bioattn.interpret.maps.window_genes import Window
from bioattn.interpret.motifs.motif_folder import MotifResults
from bioattn.promoters.dataset import SPLIT_NAMES, TRAIN, PromoterDataset
from bioattn.promoters.genes import find_genes
from bioattn.report.attention_summary import SiteSummary, shown_sites
from bioattn.report.gene_maps import ALONE_BYTES, BESIDE_BYTES, pack_within_budget, read_maps
from bioattn.report.inputs import ReportInputs
from bioattn.report.lead import TRACKS_SHOWN, LeadPromoter, LeadTrack
from bioattn.report.promoter_context import MotifHit, PromoterContext, known_of
from bioattn.store.reader import Attention
from bioattn.system.progress import Progress


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
    attended: list[tuple[int, str, int, int]]
    """Number of the treatment, motif, start and end in window positions."""
    contributes: bool
    """Whether `maps` ends with contributions."""
    maps: str


class GeneLine(NamedTuple):
    """One promoter in one line."""

    id: str
    name: str
    treatment: int
    """Number of the treatment to which its predicted response is most specific."""
    predicted: float | None
    peak: int
    """Middle of the bin looked at most for it at the first site, in window positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterBrowser:
    """All that the page says of promoters."""

    window_length: int
    task: str
    treatments: list[str]
    sites: list[SiteSummary]
    genes: list[BrowserGene]
    lines: list[GeneLine]
    """All promoters of the file."""
    lead: LeadPromoter
    chosen_by: str
    absent: list[str]
    contributions: dict[str, Any] | None
    """How they were computed, of which treatments, and whether every base has one of its own; None without any."""
    prediction_similarity_TT: NDArray[np.float64] | None
    measured_similarity_TT: NDArray[np.float64] | None


def collect_browser(
    attention: Attention,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    motifs: MotifResults | None,
    *,
    genes: Sequence[str],
    treatments: Sequence[str],
    progress: Progress,
) -> PromoterBrowser:
    """Read the attention once and choose.

    genes: ids, or files of ids, to be shown in full before any other. treatments: the only ones to be shown;
    empty = all.

    Raises: BioattnError for a gene or treatment that is not in the file, or sequences of another file; ValueError
    when none of its sites has positions for keys (`shown_sites`).
    """
    ids = [str(gene) for gene in attention.samples.index]
    place = {gene: row for row, gene in enumerate(ids)}
    wanted, absent = find_genes(genes, place)
    infos, _ = shown_sites(attention)
    if not infos:
        raise ValueError("the file has no site over positions")
    known = attention.treatments or next((info.treatments for info in infos if info.treatments), []) or []
    require_names("--treatment", treatments, known, attention.path)
    names = [name for name in known if name in treatments] if treatments else list(known)
    context = known_of(attention, inputs, dataset, predictions, ids, names)
    unseen = np.array([split not in ("", SPLIT_NAMES[TRAIN]) for split in context.split_G])
    responses = context.predicted_GT if np.isfinite(context.predicted_GT).any() else context.measured_GT
    if responses is None:
        responses = np.zeros((len(ids), max(1, len(names))))
    length = attention.window_length
    room = BESIDE_BYTES if inputs.prediction or inputs.alignment_attention else ALONE_BYTES
    best_G = np.abs(specific_part(responses)).argmax(axis=1)
    with open_contributions(attention, inputs.attribution) as contributions:
        known_contributions = [] if contributions is None else contributions.treatments
        contributed = [name for name in known_contributions if not names or name in names]
        order = ranked_genes(responses, unseen)
        explained = []
        if inputs.attribution is not None and contributions is not None:
            explained = [row for row in order if ids[row] in contributions.genes]
        ranked = list(dict.fromkeys([*(place[gene] for gene in wanted), *explained, *order]))
        read = read_maps(
            attention,
            infos,
            names if treatments else None,
            ranked,
            best_G,
            at_least=len(wanted),
            room=room,
            progress=progress,
        )
        context.read([ids[row] for row in read.kept], attention, inputs, dataset, motifs)
        first = next(iter(read.kept))
        first_maps = read.kept[first][0]
        lead_contributions: dict[str, NDArray[np.float64]] = {}
        if contributions is not None and ids[first] in contributions.genes:
            values_TL = contributions.of(ids[first], contributed)
            lead_contributions = dict(zip(contributed, values_TL, strict=True))
        shown = pack_within_budget(
            read.kept,
            contributions if contributed else None,
            contributed,
            ids,
            len(wanted),
            room=room,
            context_bytes=lambda row: context.size(ids[row]),
        )
    sites = read.sites
    shown_treatments = names or sites[0].treatments
    edges = sites[0].key_edges
    middles = (edges[:-1] + edges[1:]) // 2
    return PromoterBrowser(
        window_length=length,
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
                peak=int(middles[read.peak_bin_G[row]]),
            )
            for row, gene in enumerate(ids)
        ],
        lead=_lead(
            first,
            first_maps.values().mean(axis=1),
            context,
            sites[0],
            shown_treatments,
            np.abs(specific_part(responses)[first]),
            lead_contributions,
        ),
        absent=absent,
        chosen_by=_chosen_by(len(shown), len(ids), bool(unseen.any()), bool(explained), len(wanted)),
        contributions=None
        if contributions is None
        else {
            "method": contributions.method,
            "treatments": contributed,
            "ofSingleBases": contributions.of_single_bases,
        },
        prediction_similarity_TT=_similarity(context.predicted_GT),
        measured_similarity_TT=None if context.measured_GT is None else _similarity(context.measured_GT),
    )


def _browser_gene(
    row: int, treatments: list[str], maps: str, contributes: bool, context: PromoterContext, length: int
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
        attended=[
            (treatments.index(site.treatment), site.motif, site.start, site.end)
            for site in context.attended.get(gene, [])
            if site.treatment in treatments
        ],
        contributes=contributes,
        maps=maps,
    )


def _lead(
    row: int,
    weights_TK: NDArray[np.float64],
    context: PromoterContext,
    site: SiteSummary,
    treatments: list[str],
    specific_T: NDArray[np.float64],
    contributions: dict[str, NDArray[np.float64]],
) -> LeadPromoter:
    """A few treatments of a promoter, those of the most specific responses, in the order of the file."""
    gene, window = context.ids[row], context.windows[row]
    told_apart = site.treatments == treatments and len(specific_T) == len(treatments)
    best = int(specific_T.argmax()) if told_apart else 0
    chosen = sorted(np.argsort(-specific_T, kind="stable")[:TRACKS_SHOWN].tolist()) if told_apart else [0]
    measured_T = None if context.measured_GT is None else context.measured_GT[row]
    name = context.name(gene)
    return LeadPromoter(
        title=f"{gene} ({name})" if name else gene,
        place=f"{window.chrom}:{window.start + 1:,}–{window.end:,} ({window.strand})"
        if window.strand in ("+", "-")
        else "",
        split=context.split_G[row],
        sequence=context.letters(gene),
        key_edges=site.key_edges,
        tracks=[
            LeadTrack(
                treatment=site.treatments[number],
                weights_K=weights_TK[number],
                contributions_L=contributions.get(site.treatments[number]),
                predicted=_number(context.predicted_GT[row, number]) if told_apart else None,
                measured=_number(measured_T[number]) if told_apart and measured_T is not None else None,
            )
            for number in chosen
        ],
        best=chosen.index(best),
    )


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _similarity(values_GT: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Pearson r of every two columns over the rows where both are known; None where nothing is."""
    if values_GT.shape[1] < 2 or not np.isfinite(values_GT).any():
        return None
    correlation = pd.DataFrame(values_GT).corr(min_periods=3).to_numpy(np.float64)
    found: NDArray[np.float64] = np.nan_to_num(correlation, nan=0.0)
    np.fill_diagonal(found, 1.0)
    return found


def _chosen_by(shown: int, total: int, held_out: bool, attribution: bool, asked: int) -> str:
    if shown == total:
        return f"All {total:,} promoters are in this page."
    words = (
        f"{shown:,} of {total:,} promoters are in this page in full: the treatments took turns naming the "
        "promoter whose predicted response is most specific to them"
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


def specific_part(responses: NDArray[np.floating]) -> NDArray[np.float64]:
    """Responses (genes, treatments) in standard deviations of their treatment, less each gene's mean over
    treatments.

    What is missing counts as 0; with one treatment nothing is taken off.
    """
    values = np.asarray(responses, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        known = ~np.isnan(values)
        count = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, values, 0).sum(axis=0) / count
        deviation = np.sqrt(np.where(known, np.square(values - mean), 0).sum(axis=0) / count)
    z = np.where(known, (values - mean) / np.where(deviation > 0, deviation, 1.0), 0.0)
    return z - z.mean(axis=1, keepdims=True) if z.shape[1] > 1 else z


def ranked_genes(responses: NDArray[np.floating], unseen: NDArray[np.bool_]) -> list[int]:
    """All genes, those worth showing first: the treatments take turns, each naming the gene that responds to it
    most specifically; every second turn of a treatment is for genes that the model was not trained on, while
    there are.

    responses: (genes, treatments). unseen: (genes,) whether a gene was held out.
    """
    specific = np.abs(specific_part(responses))
    num_genes, num_treatments = specific.shape
    orders = [np.argsort(-specific[:, t], kind="stable") for t in range(num_treatments)]
    queues = [(iter(order[unseen[order]].tolist()), iter(order.tolist())) for order in orders]
    taken: dict[int, None] = {}
    turn = 0
    while len(taken) < num_genes:
        for held_out, everyone in queues:
            waiting = itertools.chain(held_out if turn % 2 == 0 else (), everyone)
            gene = next((gene for gene in waiting if gene not in taken), None)
            if gene is not None:
                taken[gene] = None
        turn += 1
    return list(taken)
