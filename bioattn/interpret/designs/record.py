"""Checks of designs as `bioattn explain designs` writes them, for whoever shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json

DESIGNS_FORMAT = "bioattn-designs-check"


@dataclass(frozen=True, slots=True)
class DesignSet:
    """Sequences of one origin, and their main measures."""

    name: str
    effect: float
    """Gain by the held-out oracle, in standard deviations of real promoters."""
    guided: float
    """Gain by the oracle of training promoters."""
    distance: float
    """6-mer distance from real promoters, in distances of held-out real ones."""
    near: float
    """Share that is nearer to training promoters than 99 % of held-out ones."""
    by_model: float | None = None
    """Gain by a promoter model as second oracle, where one was given."""


@dataclass(frozen=True, slots=True)
class DesignsCheck:
    """A verdict, the sets that were compared, and designs of several guidances."""

    code: str
    sentences: Sequence[str]
    settings: Mapping[str, Any]
    sets: Sequence[DesignSet]
    curve: Sequence[DesignSet]
    """Their names are the guidances."""


def read_designs_check(path: Path) -> DesignsCheck:
    """Read the JSON of a check. Raises: FormatError when it is none or incomplete."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != DESIGNS_FORMAT:
        raise FormatError(f"{path}: is not a file of `bioattn explain designs`")
    try:
        sets, curve = (
            [
                DesignSet(
                    name=str(row[name]),
                    effect=float(row["effect"]),
                    guided=float(row["effect_guide"]),
                    distance=float(row["distance_6"]),
                    near=float(row["near_training"]),
                    by_model=None if "effect_model" not in row else float(row["effect_model"]),
                )
                for row in content[key]
            ]
            for key, name in (("rows", "name"), ("guidance", "guidance"))
        )
        verdict = content["verdict"]
        return DesignsCheck(verdict["code"], verdict["sentences"], content["settings"], sets, curve)
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{path}: is not a complete check of designs ({error!r}); run `bioattn explain designs` again"
        ) from error
