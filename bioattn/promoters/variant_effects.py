"""Measured effects of single-base substitutions in promoters, from a table."""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.nucleotides import LETTERS, UNKNOWN
from bioattn.formats.tables import open_table, parse_numbers, refuse_duplicate_columns
from bioattn.text import quoted

LOGGER = logging.getLogger("bioattn")


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
            [cells[columns[name]] for name in here], partial(_place, f"{path}:{line}", here)
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


def _place(row: str, names: Sequence[str], number: int) -> str:
    return f"{row}, {names[number]!r}"
