"""What aligned with what: weights of decoder steps × source tokens, steps × slots of a memory, hops × facts."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bioattn.choices import matching_sites, not_there
from bioattn.errors import BioattnError
from bioattn.figures import style
from bioattn.interpret.maps.alignment_maps import head_map, require_heads_somewhere
from bioattn.store.reader import Attention

LETTER_ROOM = 2.3
"""Millimetres that the name of a token needs."""
MOST_COLUMNS = 3


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
    if chosen not in names:
        raise not_there("--sample", chosen, attention.path, "sample", names)
    if sites:
        infos = [attention.sites[name] for name in matching_sites(sites, attention.sites, attention.path)]
    else:
        two = [each for each in attention.sites.values() if each.has_two_kinds]
        infos = two or list(attention.sites.values())
    require_heads_somewhere(attention, infos, heads)
    found = []
    for info in infos:
        own = [head for head in heads or info.heads if head in info.heads] if "head" in info.dims else [None]
        maps = [head_map(attention, info, chosen, head) for head in own]
        if maps:
            queries, keys = (attention.names(info.name, dim, chosen) for dim in ("query", "key"))
            kinds = _title(info.kind("query")), _title(info.kind("key"))
            found.append(Alignment(info.name, np.mean(maps, axis=0), queries, keys, kinds))
    return AlignmentPicture(chosen, found)


@style.styled
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
        style.framed(axis)
        axis.set_ylabel(alignment.kinds[0])
        axis.set_xlabel(alignment.kinds[1])
        _name(axis, alignment.keys, each, "x")
        _name(axis, alignment.queries, height / rows, "y")
    style.colour_bar(
        figure, image, axes, "attention weight", np.concatenate([a.values_QK.ravel() for a in alignments])
    )
    style.set_title(figure, picture.name)
    return figure


def _title(kind: str) -> str:
    return "decoder step" if kind == "target_token" else kind.replace("_", " ")


def _name(axis: Axes, names: Sequence[str], room: float, side: str) -> None:
    """Write the tokens along one side where there is room for them; elsewhere their numbers stand."""
    if len(names) * LETTER_ROOM > room:
        return
    if side == "x":
        rotation = 90 if max(map(len, names)) > 1 else 0
        axis.set_xticks(range(len(names)), names, fontsize=style.SMALL_FONT, rotation=rotation)
    else:
        axis.set_yticks(range(len(names)), names, fontsize=style.SMALL_FONT)
