"""Do maps predict what mutations do? Maps against measured effects of single-base variants, by treatment.

The map of a position is what is lost with its base: with one reader, less its contribution; else its attention
weight, compared with the size of effects. Beside it stands in-silico mutagenesis with the very bases that were
measured, and as a baseline the measured effects themselves, smoothed over positions of other blocks.

Shape suffixes: G promoters, T and U treatments, L positions, N blocks of positions, R resamples.
"""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bioattn.checks.deletion import mean_ignoring_nan
from bioattn.checks.engine import RESAMPLES
from bioattn.checks.promoters import ONE_TREATMENT, PromoterProbe, read_maps
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import LETTERS, UNKNOWN
from bioattn.formats.tables import open_table, parse_numbers, refuse_duplicate_columns
from bioattn.inference.runner import Floats
from bioattn.interpret.attribution import Mutagenesis
from bioattn.interpret.choices import Upsampling
from bioattn.promoters.response_metrics import interval, resampled
from bioattn.text import counted, quoted

LOGGER = logging.getLogger("bioattn")

BLOCK = 20
"""Positions that are drawn together: effects of neighbours are alike."""
FLANK = 5
"""Positions on either side of a block that its smoothed effects do not use."""
SMOOTHING = 10.0
"""Standard deviation of the Gaussian of the baseline, in positions."""


class Variant(NamedTuple):
    """A substitution with its effects."""

    line: int
    """In the table, from 1."""
    position: int
    """From 0, the promoter's first base that is not N."""
    base: int
    """The new base, 0..3 = ACGT."""
    effect_T: NDArray[np.float64]
    """Response of the variant less that of the promoter; NaN = not measured."""


class VariantEffects(NamedTuple):
    """A table of variants."""

    path: Path
    treatments: list[str]
    """Those of the table that were asked for, in the order asked for."""
    variants: dict[str, list[Variant]]
    """By promoter."""


def read_variant_effects(path: Path, treatments: Sequence[str]) -> VariantEffects:
    """Read a table with the columns `promoter`, `position` (from 1, the promoter's first base, 5'→3') and
    `alternative` (the new base), and either `treatment` and `effect` or a column for each treatment.

    Other columns, and treatments that are not among `treatments`, are left out. Those of `treatments` that the
    table lacks are logged.

    Raises: FormatError, with file and line, for a missing column, a position, base or effect that is none, and
    when no treatment is among `treatments`.
    """
    table = open_table(path)
    refuse_duplicate_columns(table)
    promoter, position, alternative = (
        table.column(name, "--variants") for name in ("promoter", "position", "alternative")
    )
    treatment = table.header.index("treatment") if "treatment" in table.header else None
    columns = {
        name: table.header.index(name) if treatment is None else table.column("effect", "--variants")
        for name in treatments
        if treatment is not None or name in table.header
    }
    variants: dict[str, list[Variant]] = {}
    found = set(columns) if treatment is None else set()
    for line, cells in table.rows():
        if not cells[position].isdecimal() or int(cells[position]) < 1:
            raise FormatError(f"{path}:{line}: position {cells[position]!r}; positions are numbers from 1")
        base = LETTERS.find(cells[alternative].upper()) if len(cells[alternative]) == 1 else -1
        if not 0 <= base < UNKNOWN:
            raise FormatError(f"{path}:{line}: alternative {cells[alternative]!r}; give one of A, C, G and T")
        here = list(columns) if treatment is None else [name for name in columns if name == cells[treatment]]
        found.update(here)
        effect_T = np.full(len(treatments), np.nan)
        effect_T[[treatments.index(name) for name in here]] = parse_numbers(
            [cells[columns[name]] for name in here], partial(_where, f"{path}:{line}", here)
        )
        variants.setdefault(cells[promoter], []).append(
            Variant(line, int(cells[position]) - 1, base, effect_T)
        )
    if not found:
        raise FormatError(
            f"{path}: has effects under no treatment that is checked ({quoted(treatments)}); give them in the "
            "columns 'treatment' and 'effect', or in a column for each treatment"
        )
    kept = [number for number, name in enumerate(treatments) if name in found]
    if len(kept) < len(treatments):
        absent = quoted([name for name in treatments if name not in found])
        LOGGER.info(f"{path}: has no effects under {absent}; the others are compared")
    return VariantEffects(
        path,
        [treatments[number] for number in kept],
        {
            name: [each._replace(effect_T=each.effect_T[kept]) for each in of_promoter]
            for name, of_promoter in variants.items()
        },
    )


def _where(row: str, names: Sequence[str], number: int) -> str:
    return f"{row}, {names[number]!r}"


class Tracks(NamedTuple):
    """Effects at each position of each promoter, (G, T, L): NaN where nothing was measured."""

    truth: Floats
    """Mean measured effect of the substitutions at a position."""
    map: Floats
    mutagenesis: Floats
    """Mean predicted effect of the same substitutions."""
    smoothed: Floats
    """Of `truth`, from other blocks."""
    signed: bool
    """Whether the map has a sign; without, it is compared with the size of effects."""


def check_variants(probe: PromoterProbe, effects: VariantEffects) -> None:
    """Add how well maps predict the effects of variants of the promoters.

    Raises: FormatError for a variant that is not one of its promoter; BioattnError when a promoter is not among
    the inputs.
    """
    tracks = read_tracks(probe, effects)
    seed = probe.settings.seed
    own_truth = tracks.truth if tracks.signed else np.abs(tracks.truth)
    of_map = block_spearman(tracks.map, own_truth, seed)
    of_mutagenesis = block_spearman(tracks.mutagenesis, tracks.truth, seed)
    of_smoothing = block_spearman(tracks.smoothed, tracks.truth, seed)
    kind = "contributions" if tracks.signed else "attention weights"
    number = int((~np.isnan(tracks.truth)).any(1).sum())
    where = f"Over {number:,} positions of {counted(len(effects.variants), 'promoter')}"
    maps, smoothing = own_truths(of_map), own_truths(of_smoothing)
    gained = None if len(effects.treatments) == 1 else maps - other_truths(of_map).mean(1)
    for name, label, values_R, sentence, least in (
        (
            "variants_map",
            f"Spearman of {kind} with measured effects",
            maps,
            f"{where}, {kind} correlate with the measured effects of mutations at Spearman {{value:.2f}}, mean "
            "over treatments.",
            0.0,
        ),
        (
            "variants_mutagenesis",
            "Spearman of in-silico mutagenesis",
            own_truths(of_mutagenesis),
            "The effects that the model predicts for the same mutations correlate at {value:.2f}.",
            None,
        ),
        (
            "variants_smoothing",
            "Spearman of smoothed measured effects",
            smoothing,
            "Measured effects of positions nearby, smoothed, correlate at {value:.2f}.",
            None,
        ),
        (
            "variants_beyond_smoothing",
            "maps beyond smoothing",
            maps - smoothing,
            "That is {value:+.2f} for the maps.",
            0.0,
        ),
        (
            "variants_own_truth",
            "own treatment's effects, beyond another's",
            gained,
            "A treatment's map fits its own effects better than those under another by {value:+.2f}.",
            0.0,
        ),
    ):
        if values_R is None:
            probe.measures.skip(ONE_TREATMENT, name)
        else:
            probe.add(name, f"variants: {label}", interval(values_R), sentence, least)


def read_tracks(probe: PromoterProbe, effects: VariantEffects) -> Tracks:
    """Measured and predicted effects by position. Raises: as `check_variants`."""
    table = probe.model.treatments.select(effects.treatments)
    predictor = probe.model.predictor(table)
    mutagenesis = Mutagenesis(predictor)
    tracks: list[tuple[Floats, Floats, Floats]] = []
    signed = False
    for batch in probe.model.read(probe.inputs, list(effects.variants)).batches(1):
        probe.stop.check()
        maps = read_maps(predictor, batch.codes, weights=probe.evidence.weights)
        signed = maps.signed
        map_1TP = maps.block(slice(None)) * (-1 if signed else 1)
        codes_L, name = batch.codes[0], batch.samples.ids[0]
        first = int((codes_L != UNKNOWN).argmax())
        variants = [each._replace(position=first + each.position) for each in effects.variants[name]]
        for each in variants:
            where, base = f"{effects.path}:{each.line}: {name!r}", each.position - first + 1
            if each.position >= len(codes_L) or codes_L[each.position] == UNKNOWN:
                raise FormatError(
                    f"{where} has no known base at position {base}; positions count from 1, the first of "
                    f"{len(codes_L) - first:,}"
                )
            if codes_L[each.position] == each.base:
                raise FormatError(
                    f"{where} has {LETTERS[each.base]} at position {base} already; positions count from 1, and "
                    "the FASTA must hold the sequences that were mutated"
                )
        values_TLA = mutagenesis(batch.codes).values_BTLA[0].astype(np.float64)
        truth_TL, predicted_TL = (np.full(values_TLA.shape[:2], np.nan) for _ in range(2))
        by_position: dict[int, list[Variant]] = {}
        for variant in variants:
            by_position.setdefault(variant.position, []).append(variant)
        for position, here in by_position.items():
            effect_VT = np.stack([variant.effect_T for variant in here])
            values_TA = values_TLA[:, position]
            changes_VT = values_TA[:, [each.base for each in here]].T - values_TA[:, codes_L[position]]
            truth_TL[:, position] = mean_ignoring_nan(effect_VT, axis=0)
            changes_VT = np.where(np.isnan(effect_VT), np.nan, changes_VT)
            predicted_TL[:, position] = mean_ignoring_nan(changes_VT, axis=0)
        tracks.append((truth_TL, maps.bases(map_1TP[0], Upsampling.NEAREST), predicted_TL))
    truth, maps_GTL, predicted = (np.stack(each) for each in zip(*tracks, strict=True))
    if not (~np.isnan(truth)).any():
        raise BioattnError(f"{effects.path}: no effect was measured under {', '.join(effects.treatments)}")
    return Tracks(truth, maps_GTL, predicted, smoothed_effects(truth), signed)


def smoothed_effects(truth_GTL: Floats) -> Floats:
    """Effects (G, T, L) predicted from those at positions outside a position's block and its flanks."""
    position_L = np.arange(truth_GTL.shape[-1])
    first_L = position_L // BLOCK * BLOCK
    near_LL = (position_L >= first_L[:, None] - FLANK) & (position_L < first_L[:, None] + BLOCK + FLANK)
    weight_LL = np.exp(-(((position_L - position_L[:, None]) / SMOOTHING) ** 2) / 2) * ~near_LL
    known_GTL = ~np.isnan(truth_GTL)
    total_GTL = known_GTL @ weight_LL.T
    smoothed_GTL = np.where(known_GTL, truth_GTL, 0.0) @ weight_LL.T
    out = np.zeros_like(smoothed_GTL)
    return np.asarray(np.divide(smoothed_GTL, total_GTL, out=out, where=total_GTL > 0))


def block_spearman(first_GTL: Floats, truth_GUL: Floats, seed: int) -> Floats:
    """Spearman of each treatment's track with each treatment's truth, (1 + R, T, U): of all blocks of `BLOCK`
    positions, then of blocks drawn with replacement.

    Ranks are within a promoter, over positions where both are known, so levels of promoters do not count.
    """
    num_promoters, num_first, length = first_GTL.shape
    num_truths = truth_GUL.shape[1]
    sums_TU3N = np.zeros((num_first, num_truths, 3, num_promoters, -(-length // BLOCK)))
    for g, t, u in product(range(num_promoters), range(num_first), range(num_truths)):
        known = np.flatnonzero(~np.isnan(first_GTL[g, t]) & ~np.isnan(truth_GUL[g, u]))
        if not len(known):
            continue
        x, y = (rankdata(track[known]) for track in (first_GTL[g, t], truth_GUL[g, u]))
        x, y = x - x.mean(), y - y.mean()
        blocks, number_of = known // BLOCK, sums_TU3N.shape[-1]
        for number, terms in enumerate((x * y, x * x, y * y)):
            sums_TU3N[t, u, number, g] = np.bincount(blocks, weights=terms, minlength=number_of)
    sums_TU3N = sums_TU3N.reshape(num_first, num_truths, 3, -1)
    there_N = sums_TU3N[:, :, 1].any((0, 1))

    def correlations(weights_RN: Floats) -> Floats:
        xy, xx, yy = (
            np.einsum("rn,tun->rtu", weights_RN, sums_TU3N[:, :, n][..., there_N]) for n in range(3)
        )
        spread = np.sqrt(xx * yy)
        return np.asarray(np.divide(xy, spread, out=np.full_like(xy, np.nan), where=spread > 0))

    return resampled(correlations, int(there_N.sum()), RESAMPLES, seed)


def own_truths(correlations_RTU: Floats) -> Floats:
    """Mean over treatments of what each has with its own truth, (R,)."""
    return mean_ignoring_nan(np.diagonal(correlations_RTU, axis1=1, axis2=2), axis=1)


def other_truths(correlations_RTU: Floats) -> Floats:
    """For each treatment the mean over the others' truths, (R, T)."""
    same = np.eye(correlations_RTU.shape[1], dtype=bool)
    return mean_ignoring_nan(np.where(same, np.nan, correlations_RTU), axis=2)
