"""Responses over dose or time: kernel regression, whose weights are attention over what was measured.

A curve at a place is the weighted mean of the responses measured in its series, with Gaussian weights of the
distance (Nadaraya 1964, Watson 1964), or, locally linear, the value there of the line fitted with these weights
(Stone 1977). One width for each dimension holds for all series and genes; leave-one-out chooses it.

Shape suffixes: N measured treatments of a series, Q places of its curve, D dimensions, G genes.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bioattn.errors import BioattnError
from bioattn.formats.tables import is_missing
from bioattn.interpret.choices import CurveSettings
from bioattn.io.files import json_result, write_json
from bioattn.promoters.choices import Layout, ResponseColumns
from bioattn.promoters.genes import choose_genes
from bioattn.promoters.responses import read_responses
from bioattn.promoters.treatments import UNITS, TreatmentTable, read_treatment_table
from bioattn.text import quoted

FORMAT = "bioattn-response-curve"
FORMAT_VERSION = "1.0"
Floats = NDArray[np.float64]
WIDTHS = np.geomspace(0.02, 2.0, 25)
"""Tried by leave-one-out, in units of the largest range of a series along a dimension."""
_QUANTITY = re.compile(r"([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(\S.*)?")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Treatments that differ in dose or time, in the order of the first dimension."""

    name: str
    treatments: list[str]
    raw_ND: Floats
    """Times and doses in the units of the table."""
    places_ND: Floats
    """The same as distances are taken."""
    responses_NG: Floats
    """NaN = not measured."""


def kernel_weights(known_ND: Floats, asked_QD: Floats, width_D: Floats, *, linear: bool) -> Floats:
    """What each measured place counts at each place asked for, (Q, N); rows sum to 1.

    Locally linear weights can be negative; where too few places lie near for a line they are those of the mean.
    """
    distance_QND = asked_QD[:, None] - known_ND
    logits_QN = -0.5 * np.square(distance_QND / width_D).sum(-1)
    weights_QN: Floats = np.exp(logits_QN - logits_QN.max(1, keepdims=True))
    weights_QN /= weights_QN.sum(1, keepdims=True)
    if not linear:
        return weights_QN
    design_QNE = np.concatenate([np.ones((*distance_QND.shape[:2], 1)), -distance_QND], axis=2)
    weighted_QNE = weights_QN[..., None] * design_QNE
    moments_QEE = np.einsum("qne,qnf->qef", weighted_QNE, design_QNE)
    scale_QE = np.sqrt(np.einsum("qee->qe", moments_QEE))
    scaled_QEE = moments_QEE / np.maximum(scale_QE[:, :, None] * scale_QE[:, None], 1e-300)
    fits_Q = np.linalg.cond(scaled_QEE) < 1e8
    first_QE = np.zeros_like(scale_QE)
    first_QE[:, 0] = 1.0
    if fits_Q.any():
        row_QE = np.linalg.solve(moments_QEE[fits_Q], first_QE[fits_Q][..., None])[..., 0]
        weights_QN[fits_Q] = np.einsum("qe,qne->qn", row_QE, weighted_QNE[fits_Q])
    return weights_QN


def smoothed(weights_QN: Floats, responses_NG: Floats) -> Floats:
    """Responses (Q, G): what was not measured counts nothing and the rest more."""
    measured_NG = np.isfinite(responses_NG)
    total_QG = weights_QN @ measured_NG
    summed_QG = weights_QN @ np.where(measured_NG, responses_NG, 0.0)
    known_QG = np.abs(total_QG) > 1e-12
    return np.divide(summed_QG, total_QG, out=np.full_like(summed_QG, np.nan), where=known_QG)


def left_out(series: Series, width_D: Floats, *, linear: bool) -> Floats:
    """The response at every measured position, predicted by the others of its series, (N, G)."""
    rows = []
    for row in range(len(series.treatments)):
        known_ND = np.delete(series.places_ND, row, axis=0)
        weights = kernel_weights(known_ND, series.places_ND[row, None], width_D, linear=linear)
        rows.append(smoothed(weights, np.delete(series.responses_NG, row, axis=0)))
    return np.concatenate(rows)


def mean_error(series: Sequence[Series], answers: Callable[[Series], Floats]) -> float:
    """Root of the mean squared error over treatments and genes, mean over series.

    Along one dimension the first and the last treatment of each series do not count: nothing is known beyond them.
    """
    errors = []
    for each in series:
        counted = slice(1, -1) if each.places_ND.shape[1] == 1 else slice(None)
        squared_NG = np.square(answers(each) - each.responses_NG)[counted]
        errors.append(float(np.sqrt(np.nanmean(squared_NG))))
    return float(np.mean(errors))


def chosen_width(series: Sequence[Series], *, linear: bool) -> Floats:
    """The width of each dimension with the least leave-one-out error, one dimension after the other, twice.

    Raises: BioattnError when no series has three treatments.
    """
    usable = [each for each in series if len(each.treatments) > 2]
    if not usable:
        raise BioattnError("no series has three treatments or more, so leave-one-out finds no width")
    ranges_D = np.max([np.ptp(each.places_ND, axis=0) for each in usable], axis=0)
    width_D = np.where(ranges_D > 0, ranges_D, 1.0) * 0.2
    for dimension in [*range(len(width_D))] * (1 if len(width_D) == 1 else 2):
        candidates = []
        for width in WIDTHS * (ranges_D[dimension] or 1.0):
            tried_D = width_D.copy()
            tried_D[dimension] = width
            error = mean_error(usable, partial(left_out, width_D=tried_D, linear=linear))
            candidates.append((error, width))
        width_D[dimension] = min(candidates)[1]
    return width_D


def read_quantities(table: TreatmentTable, column: str) -> tuple[Floats, str]:
    """The numbers of a column (NaN = missing) and their unit. Times become minutes and concentrations mM.

    Raises: BioattnError for a column that is not there, units that cannot be converted into each other (or none
    among others), or a text.
    """
    if column not in table.columns:
        known = ", ".join(table.columns) or "no columns"
        raise BioattnError(f"--along {column!r}: the treatment table has {known}")
    if table.is_numeric(column):
        return table.frame[column].to_numpy(np.float64), ""
    values, units = np.full(len(table.names), np.nan), dict[str, str]()
    for row, (name, cell) in enumerate(table.frame[column].astype(str).items()):
        if is_missing(cell):
            continue
        quantity = _QUANTITY.fullmatch(cell.strip())
        if quantity is None:
            raise BioattnError(
                f"--along {column!r}: treatment {name!r} has {cell!r}; a number with a unit is needed"
            )
        unit, factor = UNITS.get(quantity[2] or "", (quantity[2] or "", 1.0))
        values[row] = float(quantity[1]) * factor
        units.setdefault(unit, f"{name!r} has {cell!r}")
    if len(units) > 1:
        one, other, *_ = units.values()
        raise BioattnError(
            f"--along {column!r}: {one} and {other}: write all with units that can be converted into each other"
        )
    return values, next(iter(units), "")


def read_series(
    responses: Path, treatment_table: Path, settings: CurveSettings
) -> tuple[list[Series], list[str], list[str], list[str]]:
    """The series of two positions or more, ids of genes, units of the dimensions, and treatments left out.

    Raises: as `read_quantities`; BioattnError for zero or a negative number on a logarithmic axis, or when nothing
    is left.
    """
    table = read_treatment_table(treatment_table)
    measured = read_responses([responses])
    columns, units = zip(*(read_quantities(table, column) for column in settings.along), strict=True)
    if settings.series is not None and settings.series not in table.columns:
        known_columns = ", ".join(table.columns)
        raise BioattnError(f"--series {settings.series!r}: the treatment table has {known_columns}")
    along = list(settings.along)
    known = pd.DataFrame(dict(zip(along, columns, strict=True)), index=table.names)
    known["series"] = "" if settings.series is None else table.frame[settings.series].astype(str).to_numpy()
    is_measured = known.index.isin(measured.treatments)
    absent = known.index[~is_measured].tolist()
    every = []
    usable = known[is_measured & np.isfinite(known[along]).all(axis=1)]
    for label, members in usable.groupby("series", sort=False):
        if len(members[along].drop_duplicates()) < 2:
            continue
        members = members.sort_values(along, kind="stable")
        raw_ND = members[along].to_numpy(np.float64)
        shifted_ND = raw_ND + settings.offset
        if settings.log and (shifted_ND <= 0).any():
            row, dimension = np.argwhere(shifted_ND <= 0)[0]
            raise BioattnError(
                f"{treatment_table}: treatment {members.index[row]!r} has {along[dimension]} = "
                f"{raw_ND[row, dimension]:g}, which has no place on a logarithmic axis; give --offset "
                "(such as 1) or --no-log"
            )
        every.append(
            Series(
                name=str(label),
                treatments=members.index.tolist(),
                raw_ND=raw_ND,
                places_ND=np.log2(shifted_ND) if settings.log else raw_ND,
                responses_NG=measured.values[:, [measured.treatments.index(n) for n in members.index]].T,
            )
        )
    if not every:
        raise BioattnError(
            f"{treatment_table}: no series has two treatments with {' and '.join(along)} in {responses}, "
            f"which has {quoted(measured.treatments)}"
        )
    return every, measured.gene_ids, list(units), absent


def nearest(series: Series) -> Floats:
    """The response at the nearest other treatment of the series, (N, G): the simplest answer."""
    distance_NN = np.square(series.places_ND[:, None] - series.places_ND).sum(-1)
    np.fill_diagonal(distance_NN, np.inf)
    return np.asarray(series.responses_NG[distance_NN.argmin(1)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One series: responses measured, and their curve of Q positions; gene by gene, None = not known."""

    name: str
    treatments: list[str]
    places: list[list[float]]
    """(N, D) doses or times of the treatments, in the units of the table."""
    curve_places: list[list[float]]
    """(Q, D)."""
    weights: list[list[float]]
    """(Q, N), rows sum to 1."""
    measured: list[list[float | None]]
    measured_curve: list[list[float | None]]
    predicted: list[list[float | None]] | None = None
    predicted_curve: list[list[float | None]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCurves:
    """Curves over dose or time, and the content of their file (`docs/formats/small-results.md`)."""

    along: list[str]
    units: list[str]
    log: bool
    offset: float
    linear: bool
    width: list[float]
    genes: list[str]
    not_measured: list[str]
    left_out_error: dict[str, float] | None
    series: list[Curve]

    @classmethod
    def read(cls, path: Path) -> "ResponseCurves":
        """Read the JSON of `explain response-curve`. Raises: FormatError for another or an incomplete file."""
        with json_result(path, FORMAT, FORMAT_VERSION, "explain response-curve") as content:
            return cls(**content | {"series": [Curve(**each) for each in content["series"]]})

    def write(self, path: Path) -> None:
        """Write the JSON file."""
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, **asdict(self)}
        for each in content["series"]:
            if each["predicted"] is None:
                del each["predicted"], each["predicted_curve"]
        write_json(path, content)


def response_curves(
    responses: Path, treatment_table: Path, settings: CurveSettings, predictions: Path | None = None
) -> ResponseCurves:
    """Smooth the responses of a table.

    predictions: of `run promoter`, smoothed beside what was measured.

    Raises: as `read_series`; BioattnError for genes or treatments that a table lacks.
    """
    series, genes, units, absent = read_series(responses, treatment_table, settings)
    chosen = choose_genes(settings.genes, genes, responses) if settings.genes else []
    predicted = None
    if predictions is not None:
        predicted = read_responses([predictions], ResponseColumns(layout=Layout.WIDE))
    width_D = chosen_width(series, linear=settings.linear)
    judged = [each for each in series if len(each.treatments) > 2]
    curves = []
    places = [genes.index(gene) for gene in chosen]
    for each in series:
        low_D, high_D = each.places_ND.min(0), each.places_ND.max(0)
        asked_QD = low_D + np.linspace(0, 1, settings.points)[:, None] * (high_D - low_D)
        weights_QN = kernel_weights(each.places_ND, asked_QD, width_D, linear=settings.linear)
        raw_QD = np.exp2(asked_QD) - settings.offset if settings.log else asked_QD
        shown = {"measured": each.responses_NG[:, places] if chosen else each.responses_NG}
        if predicted is not None:
            lacking = [name for name in each.treatments if name not in predicted.treatments]
            lacking += [gene for gene in chosen if gene not in predicted.gene_ids]
            if lacking:
                raise BioattnError(f"{predictions}: has no predictions for {quoted(lacking)}")
            values = predicted.values[:, [predicted.treatments.index(name) for name in each.treatments]].T
            own = [predicted.gene_ids.index(gene) for gene in chosen]
            shown["predicted"] = values[:, own] if chosen else values
        if not chosen:
            shown = {kind: np.nanmean(values, axis=1, keepdims=True) for kind, values in shown.items()}
        curves.append(
            Curve(
                name=each.name,
                treatments=each.treatments,
                places=each.raw_ND.tolist(),
                curve_places=raw_QD.tolist(),
                weights=np.round(weights_QN, 6).tolist(),
                **{kind: _plain(values) for kind, values in shown.items()},
                **{f"{kind}_curve": _plain(smoothed(weights_QN, values)) for kind, values in shown.items()},
            )
        )
    smooth = partial(left_out, width_D=width_D, linear=settings.linear)
    errors = None
    if judged:
        errors = {"curve": mean_error(judged, smooth), "nearest": mean_error(judged, nearest)}
    return ResponseCurves(
        along=list(settings.along),
        units=units,
        log=settings.log,
        offset=settings.offset,
        linear=settings.linear,
        width=width_D.tolist(),
        genes=chosen or ["mean"],
        not_measured=absent,
        left_out_error=errors,
        series=curves,
    )


def _plain(values: Floats) -> list[list[float | None]]:
    """JSON of a table, by gene; null where nothing is known."""
    return [[None if np.isnan(each) else round(float(each), 6) for each in column] for column in values.T]
