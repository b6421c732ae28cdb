"""A table of what is known of sequences: numbers, classes, or a letter of each token."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from bioattn.choices import not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.tables import (
    has_comma,
    is_missing,
    is_number,
    open_table,
    parse_numbers,
    refuse_duplicate_columns,
)
from bioattn.inference.passes import IGNORED, padded
from bioattn.models.language.config import Target, TargetKind
from bioattn.promoters.response_metrics import auroc, average_precision, r_squared, spearman
from bioattn.promoters.splits import parse_side
from bioattn.text import listed, quoted

ID, SPLIT = "id", "split"
UNTAGGED = "?"
"""A tag or class that is not known."""
BINARY = {"0", "1"}
"""A column of these alone holds classes."""


@dataclass(frozen=True, slots=True)
class TargetTable:
    path: Path
    ids: list[str]
    lines: list[int]
    columns: Mapping[str, list[str]]
    """By name, the cells of each column of targets."""
    sides: NDArray[np.int64] | None
    """TRAIN, VALIDATION or TEST, where there is a column `split`."""


def main_figure(target: Target) -> str:
    """The first one of `figures_of`."""
    if target.kind is TargetKind.NUMBER:
        return "Spearman"
    return "AUROC" if target.kind is TargetKind.CLASS and target.width == 2 else "accuracy"


def figures_of(target: Target, outputs_NW: NDArray[np.float64], values_N: NDArray[Any]) -> dict[str, float]:
    """How good outputs are, the main figure first; more is better. values_N: known ones alone."""
    if target.kind is TargetKind.NUMBER:
        truth, given = values_N[:, None], outputs_NW
        return {"Spearman": float(spearman(truth, given)[0]), "R²": float(r_squared(truth, given)[0])}
    if target.kind is TargetKind.CLASS and target.width == 2:
        truth, given = (values_N == 1)[:, None], outputs_NW[:, 1:] - outputs_NW[:, :1]
        return {
            "AUROC": float(auroc(truth, given)[0, 0]),
            "average precision": float(average_precision(truth, given)[0, 0]),
        }
    areas = auroc(values_N[:, None] == np.arange(target.width), outputs_NW)[0]
    right = float((outputs_NW.argmax(1) == values_N).mean())
    known = areas[~np.isnan(areas)]
    return {"accuracy": right, "macro AUROC": float(known.mean()) if len(known) else float("nan")}


@dataclass(frozen=True, slots=True)
class Wanted:
    target: Target
    values: Sequence[float] | Sequence[NDArray[np.int64]]
    """Of each row a number in units of `sd` (NaN: missing), the number of a class (`IGNORED`: missing), or one for
    each token."""

    def of(self, rows: NDArray[np.int64]) -> Tensor:
        """Of some rows: (B,), or (B, L) of tags, none of special tokens."""
        if self.target.kind is TargetKind.TAGS:
            return padded([np.asarray(self.values[row]) for row in rows.tolist()], IGNORED)
        chosen = torch.tensor([float(self.values[row]) for row in rows.tolist()])
        return chosen if self.target.kind is TargetKind.NUMBER else chosen.long()

    def flat(self, rows: NDArray[np.int64]) -> Tensor:
        """Of some rows: (N,), of tags one for each token, rows behind each other."""
        if self.target.kind is not TargetKind.TAGS:
            return self.of(rows)
        return torch.from_numpy(np.concatenate([np.asarray(self.values[row]) for row in rows.tolist()]))

    def figures(self, rows: NDArray[np.int64], outputs_NW: Tensor) -> dict[str, float]:
        """`figures_of` outputs for what is known of some rows."""
        values_N = self.flat(rows)
        known = self.known(values_N)
        return figures_of(self.target, outputs_NW[known].double().numpy(), values_N[known].numpy())

    def losses(self, outputs: Tensor, wanted: Tensor) -> Tensor:
        """Summed over what is known: squared errors, or surprise. outputs (…, W), wanted (…)."""
        if self.target.kind is TargetKind.NUMBER:
            known = ~wanted.isnan()
            return (outputs.squeeze(-1)[known] - wanted[known]).square().sum()
        return cross_entropy(outputs.flatten(0, -2), wanted.flatten(), ignore_index=IGNORED, reduction="sum")

    def told(self, rows: NDArray[np.int64]) -> str:
        """What is known of some rows: `kind: enzyme 40, other 12, 3 not known`."""
        values_N = self.flat(rows)
        counts = [
            f"{name} {int((values_N == number).sum()):,}" for number, name in enumerate(self.target.classes)
        ]
        missing = int((~self.known(values_N)).sum())
        unknown = f", {missing:,} not known" if missing and self.target.kind is not TargetKind.TAGS else ""
        return f"{self.target.name}: {listed(counts) or 'numbers'}{unknown}"

    def known(self, wanted: Tensor) -> Tensor:
        """Which are known: bool, as `wanted`."""
        return ~wanted.isnan() if self.target.kind is TargetKind.NUMBER else wanted != IGNORED


def read_targets(path: Path, chosen: Sequence[str]) -> TargetTable:
    """Read a table with the column `id` (or the first), perhaps `split`, and targets. chosen: all where empty."""
    table = open_table(path)
    refuse_duplicate_columns(table)
    names = table.header.index(ID) if ID in table.header else 0
    split = table.header.index(SPLIT) if SPLIT in table.header else None
    wanted = [table.column(name, "--target") for name in chosen] or [
        place for place in range(len(table.header)) if place not in (names, split)
    ]
    apart = [table.header[place] for place in wanted if place in (names, split)]
    if apart:
        raise SettingsError(
            f"--target {apart[0]}: holds the names or sides of sequences in {path}, no targets"
        )
    if not wanted:
        raise FormatError(f"{path}: has no column of targets beside {quoted(table.header)}")
    lines: dict[str, int] = {}
    columns: dict[str, list[str]] = {table.header[place]: [] for place in wanted}
    sides = []
    for line, cells in table.rows():
        if lines.setdefault(cells[names], line) != line:
            raise FormatError(
                f"{path}:{line}: the id {cells[names]!r} stands in line {lines[cells[names]]} already"
            )
        if split is not None:
            sides.append(parse_side(cells[split], f"{path}:{line}"))
        for place in wanted:
            columns[table.header[place]].append(cells[place])
    if not lines:
        raise FormatError(f"{path}: has no row below its header")
    found = None if split is None else np.array(sides)
    return TargetTable(path, list(lines), list(lines.values()), columns, found)


def records_of(table: TargetTable, ids: Sequence[str], dataset: Path) -> NDArray[np.int64]:
    """The number of the record of each row. Raises: BioattnError naming an id that has no sequence."""
    number = {name: place for place, name in enumerate(ids)}
    unknown = [place for place, name in enumerate(table.ids) if name not in number]
    if unknown:
        first = unknown[0]
        share = f"{len(unknown):,} of {len(table.ids):,} ids have no sequence"
        where = f"{table.path}:{table.lines[first]}: {share}; id"
        raise not_there(where, table.ids[first], str(dataset), "sequence", ids)
    return np.array([number[name] for name in table.ids])


def wanted_of(
    table: TargetTable, column: str, places: Sequence[NDArray[np.bool_]], training: NDArray[np.bool_]
) -> Wanted:
    """What a column holds: numbers, classes (0 and 1 alone, or words) or tags (as many letters as tokens).

    places: which tokens of each row's sequence are words. training: rows that the model learns from.

    Raises: FormatError, with file and line, for text among numbers, numbers with commas, a number of tags that
    differs from that of the tokens, a class that one sequence alone has; BioattnError for a column whose training
    values are all alike.
    """
    cells = ["" if is_missing(cell) or cell == UNTAGGED else cell for cell in table.columns[column]]
    lengths = [int(np.count_nonzero(each)) for each in places]
    known = [place for place, cell in enumerate(cells) if cell]
    numbers = [place for place in known if is_number(cells[place])]

    def where(place: int) -> str:
        return f"{table.path}:{table.lines[place]}, column {column!r}"

    if not any(training[place] for place in known):
        raise BioattnError(f"{table.path}: column {column!r} has no value for a training sequence")
    digits = all(cells[place].isdigit() and len(cells[place]) == lengths[place] for place in known)
    may_be_tags = len(numbers) < len(known) or digits
    fitting = [place for place in known if len(cells[place]) == lengths[place]]
    longest = max((lengths[place] for place in fitting), default=0)
    if may_be_tags and 2 * len(fitting) > len(known) and longest > 1:
        return _checked(table, column, _tags(column, cells, known, places, where), training)
    if 0 < len(numbers) < len(known):
        first = next(place for place in known if not is_number(cells[place]))
        raise FormatError(
            f"{where(first)}: {cells[first]!r} among {len(numbers):,} numbers; write NA where there is no number, "
            "or words for all classes"
        )
    with_commas = all(has_comma(cells[place]) for place in known)  # refused, and no class for each number
    counts = Counter(cells[place] for place in known)
    if with_commas or (numbers and counts.keys() != BINARY):
        values = parse_numbers(cells, where)
        own = values[training & ~np.isnan(values)]
        mean, sd = float(own.mean()), float(own.std())
        target = Target(name=column, kind=TargetKind.NUMBER, mean=mean, sd=sd or 1.0)
        return _checked(table, column, Wanted(target, ((values - mean) / target.sd).tolist()), training)
    alone = next((place for place in known if counts[cells[place]] == 1), None)
    if alone is not None:
        raise FormatError(
            f"{where(alone)}: no other sequence has the class {cells[alone]!r}; leave it out, or join it with "
            "another"
        )
    classes = tuple(sorted(counts))
    code = {name: number for number, name in enumerate(classes)}
    target = Target(name=column, kind=TargetKind.CLASS, classes=classes)
    return _checked(table, column, Wanted(target, [code.get(cell, IGNORED) for cell in cells]), training)


def _tags(
    column: str,
    cells: Sequence[str],
    known: Sequence[int],
    places: Sequence[NDArray[np.bool_]],
    where: Callable[[int], str],
) -> Wanted:
    """A letter of each token. known: rows that have any."""
    letters = tuple(sorted(set().union(*(cells[row] for row in known)) - {UNTAGGED}))
    code = {letter: number for number, letter in enumerate(letters)} | {UNTAGGED: IGNORED}
    values = [np.full(len(words), IGNORED) for words in places]
    for row in known:
        tags, words = cells[row], np.flatnonzero(places[row])
        if len(tags) != len(words):
            raise FormatError(
                f"{where(row)}: {len(tags):,} tags for a sequence of {len(words):,} tokens; write one letter for "
                f"each ({UNTAGGED} where it is not known)"
            )
        values[row][words] = [code[letter] for letter in tags]
    return Wanted(Target(name=column, kind=TargetKind.TAGS, classes=letters), values)


def _checked(table: TargetTable, column: str, wanted: Wanted, training: NDArray[np.bool_]) -> Wanted:
    """Raises: BioattnError where training has one value alone, or lacks a class that held-out sequences have."""
    values = wanted.of(np.flatnonzero(training))
    present = values[wanted.known(values)].unique()
    if len(present) < 2:
        raise BioattnError(
            f"{table.path}: column {column!r} is the same for all training sequences; nothing can be learned"
        )
    absent = [name for number, name in enumerate(wanted.target.classes) if number not in present.tolist()]
    if absent:
        raise BioattnError(
            f"{table.path}: column {column!r}: no training sequence has the class {quoted(absent)}; put one there"
        )
    return wanted
