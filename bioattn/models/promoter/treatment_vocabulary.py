"""The treatment vocabulary of a model: names, categories and scales of numbers.

A vocabulary is learned from the training rows of a treatment table and stored in the model folder as
`treatments.json`. It turns any later table into the tensors that the encoder takes.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pandas.api.types import is_numeric_dtype
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.models.promoter.config import BY_MOLECULE, TreatmentEncoding
from bioattn.molecules.chemistry import MoleculeError, read_molecule
from bioattn.molecules.graphs import ATOM_FEATURES, FINGERPRINT_BITS, Molecule
from bioattn.promoters.treatments import UNCONDITIONAL, UNITS, TreatmentTable
from bioattn.text import counted

FloatArray = npt.NDArray[np.floating[Any]]
AGENT_COLUMNS = ("agent", "chemical", "compound", "treatment", "group")
"""Columns that may name the agent of a dose; the first that exists is used."""
SHOWN_NUMBERS = 10
_DOSE = re.compile(r"\s*((?>[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))\s*([^\d\s.].*?)\s*")
"""A whole number and a unit: `1.2` is not a dose of 1 in the unit `.2`."""


class TreatmentBatch(NamedTuple):
    """T treatments as tensors. A row of `categories` holds one index per category column, 0 = missing."""

    names: tuple[str, ...]
    index_T: Tensor
    """int64: position among the training treatments; -1 = not one of them (or unconditional)."""
    categories_TF: Tensor
    numbers_TN: Tensor
    """float32 (T, number columns), standardised; 0 where missing."""
    present_TN: Tensor
    """float32 (T, number columns): 1 where the number is known."""
    unconditional_T: Tensor
    bits_TB: Tensor
    """uint8 (T, bytes): fingerprints of molecules; 0 without one. No bytes where molecules do not count."""
    atoms_TAF: Tensor
    """int64 (T, atoms, features), 1 more than in `bioattn.molecules.graphs`; 0 for padding. No atoms as above."""
    bonds_TAA: Tensor
    """int64 (T, atoms, atoms): 1 more than the code of a bond; 0 for none."""

    def to(self, device: torch.device) -> "TreatmentBatch":
        return TreatmentBatch(self.names, *(tensor.to(device) for tensor in self[1:]))

    def rows(self, index_T: Tensor) -> "TreatmentBatch":
        names = tuple(self.names[i] for i in index_T.tolist())
        return TreatmentBatch(names, *(tensor[index_T] for tensor in self[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberScale:
    """Scaling of one column: optional dose parsing, log(1 + x), then (x - mean) / sd."""

    column: str
    dose: bool
    """Entries are "number unit" and are divided by the largest dose of their agent and unit."""
    largest: dict[str, float]
    """Largest training dose by "agent|unit" (`_doses`); empty for plain numbers."""
    log: bool
    mean: float
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatmentVocabulary:
    """Names, categories and scales learned from the training treatments."""

    encoding: TreatmentEncoding
    names: tuple[str, ...]
    categories: Mapping[str, Sequence[str]]
    """Category columns and their values; value i has index i + 1."""
    numbers: tuple[NumberScale, ...]
    agent_column: str | None
    unconditional: bool
    smiles: str | None = None

    @property
    def bytes_of_molecule(self) -> int:
        """Bytes of a molecule's fingerprint; 0 where molecules do not count."""
        return 0 if self.smiles is None else FINGERPRINT_BITS // 8

    @classmethod
    def learn(
        cls,
        table: TreatmentTable,
        *,
        encoding: TreatmentEncoding,
        unconditional: bool,
        columns: Sequence[str] = (),
    ) -> "TreatmentVocabulary":
        """Learn from the training rows `table`; `columns` chooses features (default: all that vary).

        Raises: BioattnError when a column does not exist, or `features` is asked for and no column varies.
        """
        frame = table.frame
        for column in columns:
            if column not in frame.columns:
                raise BioattnError(
                    f"treatment_columns names {column!r}; the treatment table has "
                    f"{', '.join(frame.columns) or 'no columns'}"
                )
        categories: dict[str, tuple[str, ...]] = {}
        numbers: list[NumberScale] = []
        agent = next(
            (c for c in AGENT_COLUMNS if c in frame.columns and not is_numeric_dtype(frame[c])), None
        )
        smiles = None
        if encoding is not TreatmentEncoding.ID:
            for column in columns or list(frame.columns):
                series = frame[column]
                if encoding in BY_MOLECULE and column.lower() == "smiles":
                    smiles = column
                    continue
                if not columns and series.nunique(dropna=False) < 2:
                    continue
                present = [str(value) for value in series if _present(value)]
                if is_numeric_dtype(series):
                    numbers.append(_scale(column, series.to_numpy(float), None))
                # At least half of the entries read "number unit"; the others count as unknown doses.
                elif present and sum(bool(_DOSE.fullmatch(text)) for text in present) >= 0.5 * len(present):
                    doses, largest = _doses(frame, column, agent), dict[str, float]()
                    for amount, key in doses:
                        if amount is not None:
                            largest[key] = max(largest.get(key, 0.0), abs(amount))
                    largest = {key: value or 1.0 for key, value in largest.items()}
                    numbers.append(_scale(column, _shares(doses, largest), largest))
                else:
                    categories[column] = tuple(sorted(set(present)))
            if encoding is TreatmentEncoding.MOLECULE and smiles is None:
                raise BioattnError(
                    "--treatment-encoder molecule needs a column smiles in the treatment table"
                )
            if not categories and not numbers and smiles is None:
                raise BioattnError(
                    f"--treatment-encoder {encoding} needs a treatment table with at least one column that "
                    "varies; give one to `bioattn prepare dataset --treatment-table`, or use "
                    "--treatment-encoder id"
                )
        return cls(
            encoding=encoding,
            names=tuple(table.names),
            categories=categories,
            numbers=tuple(numbers),
            agent_column=agent,
            unconditional=unconditional,
            smiles=smiles,
        )

    def encode(self, table: TreatmentTable, *, unseen_is_missing: bool = False) -> TreatmentBatch:
        """Turn the rows of `table` into tensors; the row named "unconditional" is the unconditional token.

        unseen_is_missing: categories and units that training never saw count as missing instead of being refused.
        """
        names = tuple(table.names)
        unconditional = np.array([name == UNCONDITIONAL and name not in self.names for name in names])
        if unconditional.any() and not self.unconditional:
            raise BioattnError(
                "the model was trained without an unconditional token (unconditional_probability 0)"
            )
        known = {name: i for i, name in enumerate(self.names)}
        index = np.array([known.get(name, -1) for name in names])
        if self.encoding is TreatmentEncoding.ID:
            unknown = [n for n, i, u in zip(names, index, unconditional, strict=True) if i < 0 and not u]
            if unknown:
                raise BioattnError(
                    f"treatment {', '.join(map(repr, unknown[:3]))} was not in training; this model knows "
                    f"{', '.join(map(repr, self.names[:3]))}… ({len(self.names)} in all), and only a model with "
                    "--treatment-encoder features, kernel or molecule can be asked for new ones"
                )
        frame, unseen = table.frame, self._unseen_cells(table.frame)
        if not (unseen_is_missing or self.encoding in BY_MOLECULE):
            self._refuse(frame, unseen)
        frame = frame.assign(**{column: frame[column].mask(mask, "") for column, mask in unseen.items()})
        categories = np.zeros((len(names), len(self.categories)), dtype=np.int64)
        for f, (column, values) in enumerate(self.categories.items()):
            index_of = {value: i + 1 for i, value in enumerate(values)}
            categories[:, f] = [index_of.get(str(value), 0) for value in _column(frame, column)]
        numbers = self._standardised(frame)
        categories[unconditional] = 0
        numbers[unconditional] = np.nan
        return TreatmentBatch(
            names,
            torch.from_numpy(np.where(unconditional, -1, index).astype(np.int64)),
            torch.from_numpy(categories),
            torch.from_numpy(np.where(np.isfinite(numbers), numbers, np.float32(0))),
            torch.from_numpy(np.isfinite(numbers).astype(np.float32)),
            torch.from_numpy(unconditional),
            *self._molecules(frame),
        )

    def _standardised(self, frame: pd.DataFrame) -> npt.NDArray[np.float32]:
        """The number columns (T, columns), NaN where missing. Raises: BioattnError for text."""
        numbers = np.full((len(frame), len(self.numbers)), np.nan, dtype=np.float32)
        for n, scale in enumerate(self.numbers):
            if scale.dose:
                value = _shares(_doses(frame, scale.column, self.agent_column), scale.largest)
            else:
                try:
                    value = _column(frame, scale.column).astype(float).to_numpy()
                except ValueError as error:
                    raise BioattnError(
                        f"column {scale.column} of the treatment table holds text: {error}"
                    ) from error
            numbers[:, n] = (_compress(value, scale.log) - scale.mean) / scale.sd
        return numbers

    def beyond(self, table: TreatmentTable, trained: TreatmentTable) -> dict[str, list[str]]:
        """By number column, the treatments of `table` whose value lies a standard deviation or more outside those
        of `trained`. Doses count as shares of the largest of their agent and unit."""
        known, asked = (self._standardised(each.frame) for each in (trained, table))
        outside = (asked < np.fmin.reduce(known) - 1) | (asked > np.fmax.reduce(known) + 1)
        columns = [scale.column for scale in self.numbers]
        return {
            column: [name for name, out in zip(table.names, mask, strict=True) if out]
            for column, mask in zip(columns, outside.T, strict=True)
            if mask.any()
        }

    def _refuse(self, frame: pd.DataFrame, unseen: Mapping[str, "pd.Series[bool]"]) -> None:
        """Raises: BioattnError naming the first treatment with a value that training never saw."""
        for column, mask in unseen.items():
            if not mask.any():
                continue
            row = int(mask.to_numpy().argmax())
            name, value = frame.index[row], str(frame[column].iloc[row])
            if column in self.categories:
                values = self.categories[column]
                raise BioattnError(
                    f"treatment {name!r} has {column} = {value!r}, which training never saw; known are "
                    f"{', '.join(map(repr, values[:5]))}{'…' if len(values) > 5 else ''}"
                )
            largest = next(scale.largest for scale in self.numbers if scale.column == column)
            _, key = _doses(frame, column, self.agent_column)[row]
            near = [k for k in largest if k.rpartition("|")[0] == key.rpartition("|")[0]] or list(largest)[:5]
            raise BioattnError(
                f"treatment {name!r} has the dose {value!r}, but training saw no dose of {_key_text(key)}; known "
                f"are {', '.join(map(_key_text, near))}"
            )

    def _molecules(self, frame: pd.DataFrame) -> tuple[Tensor, Tensor, Tensor]:
        """Fingerprints, atoms and bonds, 0 where there is none. Raises: BioattnError for what is no molecule."""
        found: dict[int, Molecule] = {}
        for row, (name, text) in enumerate(_column(frame, self.smiles).items() if self.smiles else ()):
            if _present(text):
                try:
                    found[row] = read_molecule(str(text))
                except MoleculeError as error:
                    raise BioattnError(
                        f"treatment {name!r}: the molecule {str(text)[:40]!r} {error}"
                    ) from error
        size = max((len(each.atoms) for each in found.values()), default=0)
        bits_TB = np.zeros((len(frame), self.bytes_of_molecule), np.uint8)
        atoms_TAF = np.zeros((len(frame), size, len(ATOM_FEATURES)), np.int64)
        bonds_TAA = np.zeros((len(frame), size, size), np.int64)
        for row, molecule in found.items():
            bits_TB[row] = np.frombuffer(molecule.fingerprint, np.uint8)
            atoms_TAF[row, : len(molecule.atoms)] = molecule.atoms.astype(np.int64) + 1
            first, second, code = molecule.bonds.T.astype(np.int64)
            bonds_TAA[row, first, second] = bonds_TAA[row, second, first] = code + 1
        return torch.from_numpy(bits_TB), torch.from_numpy(atoms_TAF), torch.from_numpy(bonds_TAA)

    @property
    def columns(self) -> list[str]:
        """The feature columns, and the column that names the agents of doses."""
        doses = [self.agent_column] if self.agent_column and any(scale.dose for scale in self.numbers) else []
        molecules = [] if self.smiles is None else [self.smiles]
        numbers = (scale.column for scale in self.numbers)
        return list(dict.fromkeys([*self.categories, *numbers, *doses, *molecules]))

    def unclear_doses(self, table: TreatmentTable) -> list[str]:
        """Texts in dose columns of `table` that are not a number with a unit and so count as missing."""
        found = {
            str(text)
            for scale in self.numbers
            if scale.dose
            for text in _column(table.frame, scale.column)
            if _present(text) and not _DOSE.fullmatch(str(text))
        }
        return sorted(found)

    def describe(self) -> str:
        parts = [f"{column} ({len(values)} categories)" for column, values in self.categories.items()]
        for scale in self.numbers[:SHOWN_NUMBERS]:
            kind = f"dose in {len(scale.largest)} scales" if scale.dose else "number"
            parts.append(f"{scale.column} ({kind}{', log' if scale.log else ''})")
        if len(self.numbers) > SHOWN_NUMBERS:
            parts.append(f"and {counted(len(self.numbers) - SHOWN_NUMBERS, 'further number')}")
        parts += [] if self.smiles is None else [f"{self.smiles} (molecules)"]
        return ", ".join(parts)

    def unseen(self, table: TreatmentTable) -> dict[str, list[str]]:
        """By feature, the categories and doses of `table` that training never saw, sorted."""
        found: dict[str, list[str]] = {}
        for column, mask in self._unseen_cells(table.frame).items():
            if mask.any():
                found[column] = sorted({str(value) for value in table.frame[column][mask]})
        return found

    def _unseen_cells(self, frame: pd.DataFrame) -> dict[str, "pd.Series[bool]"]:
        """For each text feature, which cells hold a value that is not in the vocabulary."""
        cells: dict[str, pd.Series[bool]] = {}
        for column, values in self.categories.items():
            series = _column(frame, column)
            known = frozenset(values)
            cells[column] = series.map(lambda value, known=known: _present(value) and str(value) not in known)
        for scale in self.numbers:
            if scale.dose:
                unseen = [
                    amount is not None and key not in scale.largest
                    for amount, key in _doses(frame, scale.column, self.agent_column)
                ]
                cells[scale.column] = pd.Series(unseen, index=frame.index, dtype=bool)
        return {column: mask.astype(bool) for column, mask in cells.items() if column in frame.columns}


def _column(frame: pd.DataFrame, column: str) -> pd.Series:
    """A column of the table, or a column of missing values where the table lacks it."""
    if column in frame.columns:
        return frame[column]
    return pd.Series(np.nan, index=frame.index, dtype=object)


def _present(value: Any) -> bool:
    return not pd.isna(value) and value != ""


def _key_text(key: str) -> str:
    """`diamide in mM` for `diamide|mM`."""
    agent, _, unit = key.rpartition("|")
    return f"{agent or 'no named agent'} in {unit}"


def _doses(frame: pd.DataFrame, column: str, agent_column: str | None) -> list[tuple[float | None, str]]:
    """Amount and "agent|unit" of each row, by `UNITS`: concentrations in mM, and times in minutes, which have no
    agent; None and "" where the cell is no dose."""
    agents = _column(frame, agent_column) if agent_column else [None] * len(frame)
    found: list[tuple[float | None, str]] = []
    for text, agent in zip(_column(frame, column), agents, strict=True):
        match = None if pd.isna(text) else _DOSE.fullmatch(str(text))
        if match is None:
            found.append((None, ""))
            continue
        unit, factor = UNITS.get(match[2], (match[2], 1.0))
        name = "" if unit == "min" or agent is None or pd.isna(agent) else agent
        found.append((float(match[1]) * factor, f"{name}|{unit}"))
    return found


def _shares(doses: Sequence[tuple[float | None, str]], largest: Mapping[str, float]) -> FloatArray:
    """Doses divided by the largest of their agent and unit; NaN where there is none, or training saw no such."""
    return np.array(
        [np.nan if amount is None else amount / largest.get(key, np.nan) for amount, key in doses]
    )


def _compress(value: FloatArray, log: bool) -> FloatArray:
    return np.sign(value) * np.log1p(np.abs(value)) if log else value


def _scale(column: str, value: FloatArray, largest: dict[str, float] | None) -> NumberScale:
    """largest: of a column of doses; None for numbers."""
    finite = value[np.isfinite(value)]
    # Times and concentrations span decades: compress what is over twenty times the median, or over 20.
    typical = 20.0 if largest is None or not finite.size else 20 * float(np.median(finite))
    log = bool(finite.size and finite.min() >= 0 and finite.max() > typical)
    compressed = _compress(finite, log)
    sd = float(compressed.std()) if finite.size else 1.0
    return NumberScale(
        column=column,
        dose=largest is not None,
        largest=largest or {},
        log=log,
        mean=float(compressed.mean()) if finite.size else 0.0,
        sd=sd if sd > 0 and math.isfinite(sd) else 1.0,
    )
