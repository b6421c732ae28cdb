"""The promoters of a report: those shown in full within a budget of bytes, one line for each of the others.

Shape suffixes: G promoters, T treatments, H heads, K bins, L positions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError, SettingsError
from bioattn.progress import Progress
from bioattn.promoters.dataset import SPLIT_NAMES, TRAIN, PromoterDataset
from bioattn.promoters.gene_choice import choose_genes
from bioattn.report.attention_summary import SiteSummary, shown_sites
from bioattn.report.gene_maps import (
    ALONE_BYTES,
    BESIDE_BYTES,
    open_contributions,
    pack_within_budget,
    read_maps,
)
from bioattn.report.gene_ranking import ranked_genes, specific_part
from bioattn.report.inputs import ReportInputs
from bioattn.report.motif_results import MAX_ATTENDED, AttendedSite, read_attended
from bioattn.report.promoter_context import (
    MAX_HITS,
    Annotated,
    MotifHit,
    Neighbour,
    Window,
    letters,
    motif_hits,
    sequences_of,
)
from bioattn.store.attention_reader import AttentionFile


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
    neighbours: list[Neighbour]
    hits: list[MotifHit]
    attended: list[AttendedSite]
    has_attribution: bool
    maps: str
    """`packed_maps`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneLine:
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
    hidden_sites: list[str]
    """Sites whose keys are no positions."""
    genes: list[BrowserGene]
    lines: list[GeneLine]
    """All promoters of the file."""
    chosen_by: str
    attribution_method: str | None
    attribution_treatments: list[str]
    prediction_similarity_TT: NDArray[np.float64] | None
    measured_similarity_TT: NDArray[np.float64] | None


@dataclass(slots=True)
class _Context:
    """What is needed of a promoter besides its maps."""

    windows: list[Window]
    predicted_GT: NDArray[np.float64]
    measured_GT: NDArray[np.float64] | None
    split_G: list[str]
    annotated: Annotated | None
    sequences: dict[str, NDArray[np.uint8]] = field(default_factory=dict)
    hits: dict[str, list[MotifHit]] = field(default_factory=dict)
    attended: dict[str, list[AttendedSite]] = field(default_factory=dict)


def collect_browser(
    attention: AttentionFile,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    *,
    genes: Sequence[str],
    treatments: Sequence[str],
    progress: Progress,
) -> PromoterBrowser:
    """Read the attention once and choose.

    genes: ids, or files of ids, to be shown in full before any other. treatments: the only ones to be shown;
    empty = all.

    Raises: BioattnError for a gene or treatment that is not in the file, or sequences of another file;
    SettingsError when the file has no site over positions.
    """
    ids = [str(gene) for gene in attention.samples.index]
    place = {gene: row for row, gene in enumerate(ids)}
    wanted = choose_genes(genes, place, attention.path) if genes else []
    infos, hidden = shown_sites(attention)
    if not infos:
        raise SettingsError(
            f"{attention.path}: none of its sites ({', '.join(hidden)}) says where in a promoter a treatment looks"
        )
    known = attention.treatments or next((info.treatments for info in infos if info.treatments), []) or []
    for treatment in treatments:
        if treatment not in known:
            raise BioattnError(f"--treatment: {attention.path} holds no treatment {treatment!r}")
    names = [name for name in known if name in treatments] if treatments else list(known)
    context = _context(attention, inputs, dataset, predictions, ids, names)
    unseen = np.array([split not in ("", SPLIT_NAMES[TRAIN]) for split in context.split_G])
    responses = context.predicted_GT if np.isfinite(context.predicted_GT).any() else context.measured_GT
    if responses is None:
        responses = np.zeros((len(ids), max(1, len(names))))
    length = attention.window_length
    room = BESIDE_BYTES if inputs.prediction or inputs.alignment_attention else ALONE_BYTES
    best_G = np.abs(specific_part(responses)).argmax(axis=1)
    with open_contributions(inputs.attribution, attention, names) as contributions:
        order = ranked_genes(responses, unseen)
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
        shown = pack_within_budget(
            read.kept,
            contributions,
            ids,
            len(wanted),
            room=room,
            context_bytes=_context_bytes(inputs, length, responses.shape[1]),
        )
    sites = read.sites
    chosen = [ids[row] for row, _, _ in shown]
    windows = [context.windows[place[gene]] for gene in chosen]
    context.sequences = sequences_of(
        chosen,
        windows,
        length,
        promoters=inputs.promoters,
        input_sha256=attention.input_sha256,
        dataset=dataset,
    )
    database = inputs.motifs
    if database is None and inputs.motif_export is not None:
        database = inputs.motif_export / "motifs.meme"
    if database is not None and database.is_file():
        context.hits = motif_hits(database, context.sequences)
    if inputs.motif_export is not None:
        context.attended = read_attended(inputs.motif_export, set(chosen))
    edges = sites[0].key_edges
    middles = (edges[:-1] + edges[1:]) // 2
    return PromoterBrowser(
        window_length=length,
        task=attention.task,
        treatments=names or sites[0].treatments,
        sites=sites,
        hidden_sites=hidden,
        genes=[
            _browser_gene(row, ids[row], maps, has_attribution, context, length)
            for row, maps, has_attribution in shown
        ],
        lines=[
            GeneLine(
                id=gene,
                name=context.annotated.name(gene) if context.annotated else "",
                treatment=int(best_G[row]),
                predicted=_number(context.predicted_GT[row, best_G[row]]) if names else None,
                peak=int(middles[read.peak_bin_G[row]]),
            )
            for row, gene in enumerate(ids)
        ],
        chosen_by=_chosen_by(len(shown), len(ids), bool(unseen.any()), bool(explained), len(wanted)),
        attribution_method=contributions.method,
        attribution_treatments=contributions.treatments,
        prediction_similarity_TT=_similarity(context.predicted_GT),
        measured_similarity_TT=None if context.measured_GT is None else _similarity(context.measured_GT),
    )


def _context_bytes(inputs: ReportInputs, length: int, num_treatments: int) -> int:
    """What a promoter takes of the page beside its maps, about."""
    responses = 9 * num_treatments * (1 if inputs.dataset is None else 2)
    has_hits = inputs.motifs is not None or inputs.motif_export is not None
    attended = 30 * MAX_ATTENDED if inputs.motif_export is not None else 0
    return 300 + length + responses + (40 * MAX_HITS if has_hits else 0) + attended


def _context(
    attention: AttentionFile,
    inputs: ReportInputs,
    dataset: PromoterDataset | None,
    predictions: pd.DataFrame | None,
    ids: list[str],
    names: list[str],
) -> _Context:
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
    return _Context(
        windows=windows,
        predicted_GT=predicted.to_numpy(np.float64),
        measured_GT=measured,
        split_G=split,
        annotated=None if inputs.annotation is None else Annotated(inputs.annotation),
    )


def _browser_gene(
    row: int, gene: str, maps: str, has_attribution: bool, context: _Context, length: int
) -> BrowserGene:
    window = context.windows[row]
    sequence = context.sequences.get(gene)
    return BrowserGene(
        id=gene,
        name=context.annotated.name(gene) if context.annotated else "",
        window=window,
        split=context.split_G[row],
        sequence="" if sequence is None else letters(sequence),
        predicted=[_number(value) for value in context.predicted_GT[row]],
        measured=[] if context.measured_GT is None else [_number(v) for v in context.measured_GT[row]],
        neighbours=context.annotated.neighbours(gene, window, length) if context.annotated else [],
        hits=context.hits.get(gene, []),
        attended=context.attended.get(gene, []),
        has_attribution=has_attribution,
        maps=maps,
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
