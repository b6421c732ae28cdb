"""Promoter maps: one signal over promoters × treatments × positions, whatever it is of.

A signal is attention (weights over bins, of which a row sums to 1 or less), the same weighted by the norm of the
values, contributions (what attention to a bin adds to the prediction) or attribution (what a base adds). The last
two have a sign, are in response units (log-odds of a binary model) and add up: over heads and sites they are
summed, where weights are averaged. Where attention has contributions they are what is shown, unless weights are
asked for. Maps are read some promoters at a time.

Shapes: B promoters, H heads of all sites, T treatments, K positions (bins or bases), L bases of the window.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.choices import MEAN, matching_sites, not_there, require_names, require_reference
from bioattn.errors import BioattnError
from bioattn.inference.promoter_windows import make_batch
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.position_maps import upsample
from bioattn.io.files import sha256_of
from bioattn.io.hdf5 import open_hdf5, text_attribute
from bioattn.promoters.genes import GeneNames, choose_genes
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.attribution import Attribution, open_attribution
from bioattn.store.reader import Attention, SiteInfo, open_attention
from bioattn.store.schema import ATTRIBUTION_FORMAT
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")
Floats = NDArray[np.float64]

ALL_TREATMENTS = "all treatments"
"""The name of the one map of a model whose attention does not depend on the treatment."""
ROWS_AT_ONCE = 1024
READ_BYTES = 1 << 25
SCATTERED = 8
"""Promoters less far apart in the file are read together, with those between them."""
ATTRIBUTED_BASES = 15
"""Width of the stretch that is cut out around a peak of attribution, which points at single bases."""


class Quantity(StrEnum):
    """What a signal is of."""

    ATTENTION = "attention"
    VALUE_WEIGHTED = "value-weighted attention"
    CONTRIBUTIONS = "contributions"
    ATTRIBUTION = "attribution"

    @property
    def signed(self) -> bool:
        """Whether it has a direction and adds up to the response."""
        return self in (Quantity.CONTRIBUTIONS, Quantity.ATTRIBUTION)


def chosen_quantity(*, weights: bool = False, value_weighted: bool = False) -> Quantity | None:
    """The quantity that options ask for; None = contributions where there are any, else attention."""
    if value_weighted:
        return Quantity.VALUE_WEIGHTED
    return Quantity.ATTENTION if weights else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteMaps:
    """The signal of one site."""

    name: str
    heads: list[str]
    """Labels along H."""
    read: Callable[[slice, list[str]], Floats]
    """Values (B, H, T, K) of consecutive promoters under some treatments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterMaps:
    """A signal over promoters, treatments and positions, with its name, sign and coordinates."""

    quantity: Quantity
    path: Path
    """Of the file, for messages."""
    sites: list[SiteMaps]
    samples: pd.DataFrame
    """Location of each promoter by gene id."""
    treatments: list[str]
    tells_apart: bool = True
    """False: the map is the same for every treatment."""
    window_length: int
    key_edges: NDArray[np.int64]
    """(K + 1,) in bases from the window's first base."""
    receptive_field: int | None = None
    """Bases that a bin's key sees; None where sites differ or do not tell."""
    codes: NDArray[np.uint8] | None = None
    """(promoters, L) bases, 4 = unknown; None where they are not known."""
    method: str = ""
    reference: str | None = None
    """The map that was subtracted: a treatment, or `mean`."""

    @property
    def signed(self) -> bool:
        return self.quantity.signed

    @property
    def genes(self) -> list[str]:
        return [str(gene) for gene in self.samples.index]

    @property
    def widths(self) -> NDArray[np.int64]:
        """(K,) bases of each position."""
        return np.diff(self.key_edges)

    @property
    def reach(self) -> int:
        """Bases around a peak that may be what it points at."""
        if self.quantity is Quantity.ATTRIBUTION:
            return ATTRIBUTED_BASES
        return max(self.receptive_field or 0, int(self.widths.max()))

    @property
    def distinct(self) -> "PromoterMaps":
        """With one map for all treatments, where it is the same for every one."""
        return self if self.tells_apart else replace(self, treatments=[ALL_TREATMENTS])

    def chosen(self, genes: Sequence[str]) -> "PromoterMaps":
        """The maps of some promoters, in the order of the file."""
        numbers = np.sort(self.samples.index.get_indexer(pd.Index(genes)))

        def picked(site: SiteMaps) -> SiteMaps:
            def read(rows: slice, treatments: list[str]) -> Floats:
                part = numbers[rows]
                values = site.read(slice(int(part[0]), int(part[-1]) + 1), treatments)
                return np.asarray(values[part - part[0]])

            return replace(site, read=read)

        return replace(
            self,
            sites=[picked(site) for site in self.sites],
            samples=self.samples.iloc[numbers],
            codes=None if self.codes is None else self.codes[numbers],
        )

    def blocks(self) -> Iterator[slice]:
        """Give the promoters in slices of `ROWS_AT_ONCE`."""
        for first in range(0, len(self.samples), ROWS_AT_ONCE):
            yield slice(first, min(first + ROWS_AT_ONCE, len(self.samples)))

    def by_head(self, rows: slice, treatments: Sequence[str] | None = None) -> Floats:
        """Values (B, H, T, K), heads of all sites one after the other."""
        names = list(self.treatments if treatments is None else treatments)
        return np.concatenate([site.read(rows, names) for site in self.sites], axis=1)

    def block(self, rows: slice, treatments: Sequence[str] | None = None) -> Floats:
        """Maps (B, T, K) of consecutive promoters: signed ones summed over heads and sites, others averaged."""
        names = list(self.treatments if treatments is None else treatments)
        maps = []
        for site in self.sites:
            values = site.read(rows, names)
            values = values.sum(axis=1) if self.signed else values.mean(axis=1)
            if self.quantity is Quantity.VALUE_WEIGHTED:
                values = values / np.maximum(values.sum(axis=-1, keepdims=True), np.finfo(np.float64).tiny)
            maps.append(values)
        return np.asarray(np.sum(maps, axis=0) if self.signed else np.mean(maps, axis=0))

    def read(self, samples: NDArray[np.int64], treatment: str | None) -> Floats:
        """Maps (B, K) of promoters given by ascending sample numbers. treatment: None averages over all."""
        names = [treatment] if treatment is not None else self.distinct.treatments
        runs = self._runs(samples, len(names))
        maps = [self.block(rows, names).mean(axis=1)[numbers - rows.start] for rows, numbers in runs]
        return np.concatenate(maps)

    def _runs(
        self, samples: NDArray[np.int64], num_treatments: int
    ) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Ascending sample numbers as slices of neighbours that memory holds, and those asked for in them."""
        size = 8 * sum(len(site.heads) for site in self.sites) * num_treatments * len(self.widths)
        at_once = max(1, READ_BYTES // size)
        for run in np.split(samples, np.flatnonzero(np.diff(samples) > SCATTERED) + 1):
            for part in np.split(run, np.flatnonzero(np.diff((run - run[0]) // at_once)) + 1):
                yield slice(int(part[0]), int(part[-1]) + 1), part

    def averaged(
        self,
        genes: Sequence[str] = (),
        treatments: Sequence[str] | None = None,
        against: str | None = None,
        progress: Progress = SILENT,
    ) -> "PromoterMaps":
        """The mean over promoters, as maps of one promoter in memory whose name is their title.

        genes: ids, or files of ids; none = all. treatments: None = all. against: a treatment whose map is
        subtracted from the others' and which is left out; or `mean` (where no treatment is called so).

        Raises: BioattnError for a gene or treatment that is not there.
        """
        whole = self.distinct
        known = whole.treatments
        ids = choose_genes(genes, GeneNames.in_samples(self.samples), self.path) if genes else None
        require_names("--treatment", treatments or (), known, self.path)
        require_reference("--against", against, known, self.path)
        shown = [name for name in treatments or known if name != against]
        if not shown:
            raise BioattnError(f"--against {against!r}: is the only treatment; name others")
        names = list(shown)
        if against is not None:
            names = list(known) if against == MEAN and MEAN not in known else [*shown, against]
        ids = list(self.samples.index) if ids is None else ids
        numbers = self.samples.index.get_indexer(pd.Index(ids))
        total_HTK: Any = 0.0
        progress.begin("reading maps", len(numbers))
        for rows, part in self._runs(np.sort(numbers), len(names)):
            total_HTK = total_HTK + whole.by_head(rows, names)[part - rows.start].sum(axis=0)
            progress.advance(len(part))
        progress.end()
        mean_HTK = np.asarray(total_HTK / len(numbers))
        if against is not None and names[-1] == against:
            mean_HTK = mean_HTK[:, :-1] - mean_HTK[:, -1:]
        elif against is not None:
            mean_HTK = mean_HTK - mean_HTK.mean(axis=1, keepdims=True)
            mean_HTK = mean_HTK[:, [names.index(name) for name in shown]]
        title = f"mean over {counted(len(numbers), 'gene')}"
        if len(numbers) == 1:
            title = GeneNames.in_samples(self.samples).shown(str(self.samples.index[numbers[0]]))
        ends = np.cumsum([len(site.heads) for site in self.sites])
        sites = [
            in_memory(site.name, site.heads, part_HTK[None], shown)
            for site, part_HTK in zip(self.sites, np.split(mean_HTK, ends[:-1]), strict=True)
        ]
        return replace(
            whole, sites=sites, samples=pd.DataFrame(index=[title]), treatments=shown, reference=against
        )

    def shares(self, values: NDArray[Any]) -> NDArray[Any]:
        """Weights as they are; of signed maps (…, K) the sizes, each row scaled to sum 1."""
        if not self.signed:
            return values
        total = np.abs(values).sum(axis=-1, keepdims=True)
        return np.asarray(np.abs(values) / np.maximum(total, np.finfo(np.float32).tiny))

    def bases(self, values: NDArray[np.floating], method: Upsampling = Upsampling.GAUSSIAN) -> Floats:
        """Values (…, K) spread over the bases of the window, (…, L), as `upsample`.

        Raises: BioattnError for receptive fields of sites that differ or do not say.
        """
        if method is Upsampling.RECEPTIVE_FIELD and self.receptive_field is None:
            raise BioattnError(
                f"{method}: the sites of {self.path} have different receptive fields, or do not say; choose with "
                "--sites, or another method"
            )
        if self.quantity is Quantity.ATTRIBUTION:
            return np.asarray(values, dtype=np.float64)
        return upsample(values, self.key_edges, self.window_length, method, self.receptive_field)

    def per_base(self, values: NDArray[np.floating], method: Upsampling = Upsampling.GAUSSIAN) -> Floats:
        """`bases` in the units in which maps are shown: weights in multiples of uniform attention."""
        return self.bases(values, method) * (1 if self.signed else self.window_length)

    def shown(self, values: NDArray[np.floating]) -> Floats:
        """Values (…, K) per base of their position, in the units in which maps are shown."""
        return np.asarray(values / self.widths * (1 if self.signed else self.window_length))


def in_memory(
    name: str, heads: list[str], values_BHTK: NDArray[np.floating], treatments: list[str]
) -> SiteMaps:
    """The signal of a site that is in memory."""

    def read(rows: slice, names: list[str]) -> Floats:
        numbers = [treatments.index(each) for each in names]
        return values_BHTK[rows][:, :, numbers].astype(np.float64)

    return SiteMaps(name=name, heads=heads, read=read)


def maps_in_memory(
    values_BTK: NDArray[np.floating],
    treatments: Sequence[str],
    key_edges: NDArray[np.int64],
    *,
    quantity: Quantity = Quantity.ATTENTION,
    genes: Sequence[str] | None = None,
) -> PromoterMaps:
    """Maps of one site and head that are in memory; the window ends with the last bin."""
    names = list(treatments)
    return PromoterMaps(
        quantity=quantity,
        path=Path("maps in memory"),
        sites=[in_memory(str(quantity), ["0"], values_BTK[:, None], names)],
        samples=pd.DataFrame(index=list(genes or map(str, range(len(values_BTK))))),
        treatments=names,
        window_length=int(key_edges[-1]),
        key_edges=key_edges,
    )


def open_results(path: Path) -> AbstractContextManager[Attention | Attribution]:
    """Open a file of attention or of attribution. Raises: FormatError when it is neither."""
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
    return open_attribution(path) if kind == ATTRIBUTION_FORMAT else open_attention(path)


def attention_maps(
    attention: Attention,
    patterns: Sequence[str] | None = None,
    heads: Sequence[int] | None = None,
    quantity: Quantity | None = None,
) -> PromoterMaps:
    """Maps of the sites matching shell patterns (None = all) whose keys are positions; all have the same bins.

    Where some tell treatments apart, only those; else where some have one query for all positions, only those; of
    contributions those that have them. heads: the model's numbers, None = all kept. quantity: None = contributions
    where a site has them, else attention.

    Raises: BioattnError when a pattern matches no site, there is no such site, bins differ, or a site does not
    hold one of the heads or the quantity.
    """
    if attention.inputs == "alignments":
        raise BioattnError(f"{attention.path}: holds attention over alignments; one over promoters is needed")
    names = matching_sites(patterns or ["*"], attention.sites, attention.path)
    infos = [attention.sites[name] for name in names]
    with_positions = [info for info in infos if info.key_edges is not None and "key" in info.dims]
    if not with_positions:
        raise BioattnError(
            f"{attention.path}: at no site of {quoted(names)} are positions looked at; choose others with --sites"
        )
    contributing = [info for info in with_positions if info.has_contributions]
    if quantity is None:
        quantity = Quantity.CONTRIBUTIONS if contributing else Quantity.ATTENTION
    chosen = contributing if quantity is Quantity.CONTRIBUTIONS else []
    chosen = chosen or [info for info in with_positions if "treatment" in info.dims]
    chosen = chosen or [info for info in with_positions if "query" not in info.dims] or with_positions
    first, edges = chosen[0], chosen[0].key_edges
    assert edges is not None
    for info in chosen:
        if not np.array_equal(edges, info.key_edges):  # type: ignore[arg-type]
            raise BioattnError(
                f"{attention.path}: sites {first.name} and {info.name} have different bins; "
                "choose one of them with --sites"
            )
        if heads is not None and "head" not in info.dims:
            raise BioattnError(
                f"{attention.path}: site {info.name} holds {info.reduce.value} only; leave --heads out, or export "
                "attention without --reduce"
            )
        for head in heads or ():
            if head not in info.heads:
                raise not_there("--heads", head, f"site {info.name} of {attention.path}", "head", info.heads)
    fields = {info.receptive_field for info in chosen}
    return PromoterMaps(
        quantity=quantity,
        path=attention.path,
        sites=[_site_maps(attention, info, heads, quantity) for info in chosen],
        samples=attention.samples,
        treatments=first.treatments or attention.treatments or [ALL_TREATMENTS],
        tells_apart=first.treatments is not None,
        window_length=attention.window_length,
        key_edges=edges,
        receptive_field=fields.pop() if len(fields) == 1 else None,
        method="attention × value" if quantity is Quantity.CONTRIBUTIONS else "",
    )


def _site_maps(
    attention: Attention, info: SiteInfo, heads: Sequence[int] | None, quantity: Quantity
) -> SiteMaps:
    tells_apart, has_heads = info.treatments is not None, "head" in info.dims
    labels = list(map(str, heads or info.heads)) if has_heads else [info.reduce.replace("-", " over ")]

    def read(rows: slice, treatments: list[str]) -> Floats:
        queried = treatments if tells_apart and treatments != info.treatments else None
        if quantity is Quantity.CONTRIBUTIONS:
            values = attention.contributions(info.name, gene=rows, treatment=queried)
        else:
            values = attention.weights(
                info.name, gene=rows, treatment=queried, value_weighted=quantity is Quantity.VALUE_WEIGHTED
            )
        values = values.astype(np.float64)
        dims = list(info.dims)
        if heads is not None:
            values = values.take([info.heads.index(head) for head in heads], axis=dims.index("head"))
        if "query" in dims:
            axis = dims.index("query")
            values = values.sum(axis=axis) if quantity.signed else values.mean(axis=axis)
            dims.remove("query")
        order = [dim for dim in ("sample", "head", "treatment", "key") if dim in dims]
        values = values.transpose([dims.index(dim) for dim in order])
        values = values if has_heads else values[:, None]
        if tells_apart:
            return np.asarray(values)
        values = values[:, :, None]
        shape = (*values.shape[:2], len(treatments), values.shape[3])
        return np.broadcast_to(values, shape)

    return SiteMaps(name=info.name, heads=labels, read=read)


def attribution_maps(attribution: Attribution) -> PromoterMaps:
    """Maps of the contributions of bases."""

    def read(rows: slice, treatments: list[str]) -> Floats:
        chosen = None if treatments == list(attribution.treatments) else treatments
        values = attribution.contributions(gene=rows, treatment=chosen)
        return np.asarray(values, dtype=np.float64)[:, None]

    return PromoterMaps(
        quantity=Quantity.ATTRIBUTION,
        path=attribution.path,
        sites=[SiteMaps(name=attribution.method, heads=[attribution.method], read=read)],
        samples=attribution.samples,
        codes=np.asarray(attribution.sequences()),
        treatments=list(attribution.treatments),
        window_length=attribution.window_length,
        key_edges=np.arange(attribution.window_length + 1),
        receptive_field=1,
        method=attribution.method.replace("-", " ").replace("ism", "in-silico mutagenesis"),
    )


def attribution_beside(attribution: Attribution, attention: Attention) -> PromoterMaps:
    """Maps of an attribution to be shown with attention. Raises: BioattnError for another model or window."""
    if attribution.model_sha256 != attention.model_sha256:
        raise BioattnError(
            f"{attribution.path}: was made with another model than {attention.path}; explain the model of "
            "the attention"
        )
    if attribution.window_length != attention.window_length:
        raise BioattnError(
            f"{attribution.path}: has windows of {attribution.window_length:,} bases, {attention.path} of "
            f"{attention.window_length:,}"
        )
    return attribution_maps(attribution)


def codes_of_genes(promoters: Path, attention: Attention, samples: pd.DataFrame) -> NDArray[np.uint8]:
    """The sequences of `samples` (by gene id) from the FASTA that attention was exported from.

    Returns codes (G, L), fitted to the model's window as they were for the export. Warns when the FASTA is another
    file with the same genes at the same places.

    Raises: BioattnError naming a gene that the FASTA lacks or places elsewhere.
    """
    is_same = sha256_of(promoters) == attention.input_sha256
    genes = set(samples.index)
    known = {each.gene_id: each for each in read_promoters(promoters) if each.gene_id in genes}
    missing = [gene for gene in samples.index if gene not in known]
    if missing:
        raise BioattnError(
            f"{promoters}: lacks {len(missing):,} of {len(genes):,} promoters (such as {missing[0]!r}); give the "
            "FASTA that attention was exported from"
        )
    chosen = [known[gene] for gene in samples.index]
    fitted = make_batch(chosen, attention.window_length, promoters, attention.downstream)
    places = [fitted.samples.columns[name] for name in ("chrom", "start", "end", "strand")]
    wanted = samples[["chrom", "start", "end", "strand"]].itertuples(index=False)
    for promoter, place, expected in zip(chosen, zip(*places, strict=True), wanted, strict=True):
        # Of a longer sequence without a place another file does not tell which part the model saw.
        unknown = not (is_same or promoter.chrom) and promoter.codes.size > attention.window_length
        if unknown or place != expected:
            raise BioattnError(
                f"{promoters}: promoter {promoter.gene_id!r} is not the window that the model saw; give the FASTA "
                "that attention was exported from"
            )
    if not is_same:
        LOGGER.warning(
            f"{promoters}: is not the file that {attention.path.name} was made from (SHA-256 differs), though "
            "genes and places agree"
        )
    return fitted.codes
