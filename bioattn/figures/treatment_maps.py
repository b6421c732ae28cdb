"""Attention maps by treatment for figures: of one gene, or the mean over genes.

Shape suffixes: T treatments, H heads, K bins.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import MEAN, require_names, require_reference
from bioattn.errors import BioattnError, SettingsError
from bioattn.interpret.maps.position_maps import position_maps
from bioattn.promoters.genes import choose_genes
from bioattn.store.reader import Attention, SiteInfo
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

ALL_TREATMENTS = "all treatments"
"""The name of the one map of a model whose attention does not depend on the treatment."""
_BLOCK_BYTES = 1 << 26


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentMaps:
    """Attention over the K bins of a window by head and treatment."""

    treatments: list[str]
    places: list[int]
    """Place of each treatment in the file, from 0, which decides its colour."""
    heads: list[str]
    """H names: the head's number, preceded by the site where there are several sites."""
    weights_HTK: NDArray[np.float64]
    """Stored weights: rows sum to 1, or less with a null key. Sites with a query axis: the mean over queries."""
    key_edges: NDArray[np.int64]
    """(K + 1,) in bases from the window's first base."""
    window_length: int
    receptive_field: int | None
    """Bases that the key of a bin sees; None where sites differ or do not tell."""
    genes: list[str]
    downstream: int | None = None
    """Window bases from position 0 of each gene on; None where the file does not tell."""
    reference: str | None = None
    """The map that was subtracted: a treatment, or `mean`; None = nothing."""
    contributions: bool = False
    """Whether the maps are contributions in place of weights."""

    @property
    def over_heads(self) -> NDArray[np.float64]:
        """Mean maps (T, K) over heads; of contributions the sum, as they add up."""
        return np.asarray(
            self.weights_HTK.sum(axis=0) if self.contributions else self.weights_HTK.mean(axis=0)
        )


def described(reference: str) -> str:
    """The subtracted map, for a title."""
    return "the mean of treatments" if reference == MEAN else f"that in {reference}"


def window_zero(window_length: int, downstream: int | None, zero: int | str | None) -> int | None:
    """The window position that the axis labels 0; None where it is not known.

    zero: the number of bases of the window before it; None = as the file says.

    Raises: SettingsError for another word, BioattnError when the window would end before position 0.
    """
    if zero is None:
        return None if downstream is None else window_length - downstream
    try:
        bases = int(zero)
    except ValueError:
        raise SettingsError(
            f"--zero {zero}: give the number of bases before position 0, or tss or cds with --annotation"
        ) from None
    if not 0 <= bases <= window_length:
        raise BioattnError(
            f"--zero {bases}: the windows have {window_length:,} bases; give what `prepare promoters` was told"
        )
    return bases


def read_treatment_maps(
    attention: Attention,
    *,
    genes: Sequence[str] | None = None,
    treatments: Sequence[str] | None = None,
    against: str | None = None,
    sites: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    contributions: bool = False,
    progress: Progress = SILENT,
) -> TreatmentMaps:
    """Read maps averaged over `genes` (None = all genes), in blocks.

    treatments: None = all, in the file's order. against: a treatment whose map is subtracted from the others' and
    which is left out; or `mean` (where no treatment is called so) for the mean over all treatments of the file.
    heads: of every site; None = all. contributions: of bins to the prediction, in place of weights.

    Raises: BioattnError for a gene, treatment, site or head that the file does not hold.
    """
    found = position_maps(attention, sites, heads, contributions=contributions)
    chosen = found.sites
    require_names("--gene", genes or (), attention.samples.index, attention.path, "gene")
    known = found.treatments or [ALL_TREATMENTS]
    require_names("--treatment", treatments or (), known, attention.path)
    require_reference("--against", against, known, attention.path)
    shown = [name for name in treatments or known if name != against]
    names = list(shown)
    if against is not None:
        names = list(known) if against == MEAN and MEAN not in known else [*shown, against]
    if not shown:
        raise BioattnError(f"--against {against!r}: is the only treatment; name others")
    maps, labels = [], []
    for info in chosen:
        kept = _heads(info, heads)
        site = f"{info.name.removeprefix('promoter.')} " if len(chosen) > 1 else ""
        labels += [site + head for head in kept[0]]
        read = attention.contributions if contributions else attention.weights
        maps.append(_mean(read, info, kept[1], genes, names, len(attention.samples), progress))
    weights_HTK = np.concatenate(maps)
    if against is not None:
        if names[-1] == against:
            weights_HTK = weights_HTK[:, :-1] - weights_HTK[:, -1:]
        else:
            weights_HTK = weights_HTK - weights_HTK.mean(axis=1, keepdims=True)
            weights_HTK = weights_HTK[:, [names.index(name) for name in shown]]
    return TreatmentMaps(
        treatments=shown,
        places=[known.index(name) for name in shown],
        heads=labels,
        weights_HTK=weights_HTK,
        key_edges=found.key_edges,
        window_length=attention.window_length,
        receptive_field=found.receptive_field,
        genes=list(attention.samples.index if genes is None else genes),
        downstream=attention.downstream,
        reference=against,
        contributions=contributions,
    )


def read_titled_maps(
    attention: Attention, genes: Sequence[str], zero: int | str | None, **choices: Any
) -> tuple[TreatmentMaps, str, int | None]:
    """The maps, a title, and the window position of position 0.

    genes: ids, or files with one id per line; none = all. choices: of `read_treatment_maps`.
    """
    chosen = choose_genes(genes, attention.samples.index, attention.path) if genes else None
    maps = read_treatment_maps(attention, genes=chosen, **choices)
    title = maps.genes[0] if len(maps.genes) == 1 else f"mean over {counted(len(maps.genes), 'gene')}"
    return maps, title, window_zero(maps.window_length, maps.downstream, zero)


def _heads(info: SiteInfo, wanted: Sequence[int] | None) -> tuple[list[str], list[int] | None]:
    """Names of the heads and their places along the axis, None where there is no such axis."""
    if "head" not in info.dims:
        return [info.reduce.replace("-", " over ")], None
    kept = list(info.heads if wanted is None else wanted)
    return [str(head) for head in kept], [info.heads.index(head) for head in kept]


def _mean(
    read: Callable[..., NDArray[np.floating]],
    info: SiteInfo,
    heads: list[int] | None,
    genes: Sequence[str] | None,
    treatments: Sequence[str],
    num_samples: int,
    progress: Progress,
) -> NDArray[np.float64]:
    """(H, T, K) means over genes of one site."""
    assert info.key_edges is not None
    num_heads = info.shape[info.dims.index("head")] if "head" in info.dims else 1
    asked = None if info.treatments is None or treatments == info.treatments else treatments
    num_keys = len(info.key_edges) - 1
    total_HTK = np.zeros((num_heads if heads is None else len(heads), len(treatments), num_keys))
    number = num_samples if genes is None else len(genes)
    queries = info.dims.index("query") if "query" in info.dims else None
    sizes = dict(zip(info.dims[1:], info.shape[1:], strict=True)) | {"treatment": len(treatments)}
    row_bytes = info.dtype.itemsize * math.prod(sizes.values())
    progress.begin(f"reading {info.name}", number)
    try:
        size = max(1, _BLOCK_BYTES // row_bytes)
        for start in range(0, number, size):
            block = slice(start, min(start + size, number))
            part = read(info.name, gene=block if genes is None else list(genes[block]), treatment=asked)
            if queries is not None:
                part = part.mean(axis=queries, dtype=np.float64)
            part = part.sum(axis=0, dtype=np.float64)
            if info.treatments is None:
                part = part[None]
            part_HTK = part[None] if "head" not in info.dims else np.moveaxis(part, 1, 0)
            total_HTK += part_HTK if heads is None else part_HTK[heads]
            progress.advance(block.stop - block.start)
    finally:
        progress.end()
    return total_HTK / number
