"""Attention within a sequence as arcs between its strongest pairs, and between two as maps of their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.choices import require_names
from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.interpret.alignment_maps import RESIDUES, choose_maps, head_map, only_sample, strongest_pairs
from bioattn.store.reader import Attention

MOST_COLUMNS = 3
MOST_PANELS = 48


class ArcPanel(NamedTuple):
    """The arcs of one site, or of one head of it."""

    title: str
    pairs: list[tuple[int, int, float]]
    """Places i < j from 0, and attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArcPicture:
    """Panels over one sequence of L places."""

    name: str
    places: list[str]
    """What the L residues or tokens are called."""
    label: str
    panels: list[ArcPanel]


def read_arcs(
    attention: Attention,
    *,
    sample: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    top: int = 50,
    min_separation: int = 6,
) -> ArcPicture:
    """The `top` pairs of places at least `min_separation` apart with most attention, both directions averaged.

    sites: shell patterns; None = row attention, or all sites without it. heads: a panel for each; None = one panel
    for each site, the mean over its heads.

    Raises: BioattnError for what the file does not hold, sites whose queries and keys differ in kind, more panels
    than a figure has room for, and no pair so far apart.
    """
    sample = only_sample(attention, sample, RESIDUES)
    chosen = choose_maps(attention, sites, heads)
    panels: list[ArcPanel] = []
    for info, own in chosen:
        if info.kind("key") not in ("residue", "token", "source_token") or info.has_two_kinds:
            raise BioattnError(
                f"{attention.path}: site {info.name} is not of residues or tokens that look at each other; "
                "choose others with --sites"
            )
        groups = [own] if heads is None else [[head] for head in own]
        if len(panels) + len(groups) > MOST_PANELS:
            raise BioattnError(f"more than {MOST_PANELS} panels; choose fewer with --sites and --heads")
        for group in groups:
            map_RR = np.mean([head_map(attention, info, sample, head) for head in group], axis=0)
            title = info.name if heads is None or group == [None] else f"{info.name}, head {group[0]}"
            panels.append(ArcPanel(title, strongest_pairs(map_RR, top, min_separation)))
    if not any(panel.pairs for panel in panels):
        raise BioattnError(
            f"no two places of {sample} that lie {min_separation} or more apart have attention"
        )
    first = chosen[0][0]
    places = list(map(str, attention.coordinates(first.name, "key", sample)))
    label = first.kind("key").removeprefix("source_")
    return ArcPicture(name=sample, places=places, label=label, panels=panels)


@style.figure_style()
def draw_arcs(picture: ArcPicture, width: float) -> Figure:
    """Draw the panels, `width` millimetres wide; the width of an arc is its attention, on one scale for all."""
    columns = 1 if len(picture.panels) < 4 or width < 120 else 2
    rows = -(-len(picture.panels) // columns)
    height = min(width / columns * 0.32 + 6, style.PAGE_HEIGHT / rows)
    figure = style.new_figure(width, rows * height + 12)
    axes = style.panels(figure, len(picture.panels), rows, columns)
    most = max((weight for panel in picture.panels for *_, weight in panel.pairs), default=1.0)
    turn = np.linspace(0, np.pi, 40)
    for axis, panel in zip(axes.flat, picture.panels, strict=False):
        # The strongest on top.
        arcs = [(i, j, weight / most) for i, j, weight in panel.pairs[::-1]]
        circle = np.stack([1 - np.cos(turn), np.sin(turn)], axis=-1)
        curves = [(first, 0) + (second - first) / 2 * circle for first, second, _ in arcs]
        widths = [0.2 + 2.5 * share for *_, share in arcs]
        axis.add_collection(LineCollection(curves, linewidths=widths, colors=style.BLUE, alpha=0.7))
        axis.set_xlim(-1, len(picture.places))
        axis.set_ylim(0, max((second - first for first, second, _ in arcs), default=2) * 0.53)
        axis.set_title(panel.title, fontsize=style.SMALL_FONT)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        style.name_ticks(axis.xaxis, picture.places, width / columns)
    for axis in axes[-1]:
        axis.set_xlabel(picture.label)
    what = f"pairs of most attention; the widest arc is a weight of {most:.3g}"
    style.set_title(figure, f"{picture.name}: {what}")
    return figure


class Alignment(NamedTuple):
    """The map of one site."""

    site: str
    values_QK: NDArray[np.float64]
    queries: list[str]
    keys: list[str]
    kinds: tuple[str, str]
    """What queries and keys are, for the axes."""


class AlignmentPicture(NamedTuple):
    """The maps of one sample."""

    name: str
    panels: list[Alignment]


def read_alignments(
    attention: Attention,
    *,
    sample: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
) -> AlignmentPicture:
    """Read the maps of a sample (None = the first); sites: None = those whose queries and keys differ in kind.

    Raises: BioattnError for a sample, site or head that the file does not hold, or a site without queries.
    """
    names = attention.samples.index.tolist()
    if not names:
        raise BioattnError(f"{attention.path}: holds no sample")
    chosen = names[0] if sample is None else sample
    require_names("--sample", [chosen], names, attention.path, "sample")
    between = [info.name for info in attention.sites.values() if info.has_two_kinds]
    panels = []
    for info, own in choose_maps(attention, sites or between or ["*"], heads):
        maps = [head_map(attention, info, chosen, head) for head in own]
        if maps:
            queries, keys = (
                list(map(str, attention.coordinates(info.name, dim, chosen))) for dim in ("query", "key")
            )
            kinds = _title(info.kind("query")), _title(info.kind("key"))
            panels.append(Alignment(info.name, np.mean(maps, axis=0), queries, keys, kinds))
    return AlignmentPicture(chosen, panels)


@style.figure_style()
def draw_alignments(picture: AlignmentPicture, width: float) -> Figure:
    """A panel for each site: keys from left to right, queries from top to bottom (Bahdanau et al. 2014).

    width: millimetres.
    """
    alignments = picture.panels
    columns = min(MOST_COLUMNS, len(alignments))
    rows = -(-len(alignments) // columns)
    queries, keys = alignments[0].values_QK.shape
    each = width / columns
    height = min(style.PAGE_HEIGHT, 20 + rows * (12 + max(20.0, each * min(2.0, queries / keys))))
    figure = style.new_figure(width, height)
    axes = style.panels(figure, len(alignments), rows, columns)
    for axis, alignment in zip(axes.flat, alignments, strict=False):
        image = axis.imshow(
            alignment.values_QK, cmap="gray", vmin=0, vmax=1, aspect="auto", interpolation="none"
        )
        axis.set_title(alignment.site, fontsize=style.SMALL_FONT)
        axis.spines[:].set_visible(True)
        axis.set_ylabel(alignment.kinds[0])
        axis.set_xlabel(alignment.kinds[1])
        style.name_ticks(axis.xaxis, alignment.keys, each - 10)
        style.name_ticks(axis.yaxis, alignment.queries, height / rows - 15)
    values = np.concatenate([alignment.values_QK.ravel() for alignment in alignments])
    style.colour_bar(figure, image, axes, "attention weight", values)
    style.set_title(figure, picture.name)
    return figure


def _title(kind: str) -> str:
    return "decoder step" if kind == "target_token" else kind.replace("_", " ")
