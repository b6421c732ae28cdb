"""Reading what `bioattn explain check` found (docs/formats/check.md)."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bioattn.errors import FormatError
from bioattn.io.files import read_json

CHECK_FORMAT = "bioattn-check"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMeasure:
    """One figure of a check."""

    label: str
    value: float | None
    interval: tuple[float, float] | None
    threshold: float | None
    passed: bool | None
    sentence: str


@dataclass(frozen=True, slots=True)
class PerturbationCurve:
    """What becomes of the answer as windows are destroyed or brought back, most attended first and at random."""

    name: str
    fraction: list[float]
    top: list[float]
    random: list[float]


@dataclass(frozen=True, slots=True)
class HeadFigures:
    site: str
    head: int
    figures: dict[str, float]


SKIPPED_TITLES = {
    "uniform_control": "A model retrained with uniform attention",
    "shared_control": "A model retrained with one query for all treatments",
    "gain_control": "A model retrained with one shape for all treatments",
    "position_control": "A model retrained with own position biases only",
    "query_control": "A model retrained with own queries only",
    "seed_control": "The same model retrained with another seed",
    "seed_stability": "Similarity to the maps of another seed",
    "skill": "Skill on held-out data",
    "forced_skill": "Skill lost with uniform weights forced on it",
    "elsewhere_skill": "Skill lost with another promoter's maps",
    "swapped_skill": "Skill lost with other treatments' maps",
    "swapped_shapes_skill": "Skill lost with other treatments' shapes",
    "mean_shapes_skill": "Skill lost with mean shapes",
    "swapped_gains_skill": "Skill lost with other treatments' gains",
}
"""Measures that were not taken, in words; others by their name without underscores."""
SURE_VERDICTS = frozenset({"used-treatment-specific", "used"})
"""The maps may be read as they look."""
PROVISIONAL_VERDICTS = frozenset(
    {"faithful-treatment-specific", "faithful-not-treatment-specific", "faithful"}
)
"""The maps are faithful; whether the model needs its attention was not tested, as no control was retrained."""
PARTLY_VERDICTS = PROVISIONAL_VERDICTS | {
    "used-not-treatment-specific",
    "position-only",
    "not-pair-specific",
    "undecided",
}
"""They may, but not for differences between treatments, or between promoters; or it cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Verdict, measures and curves."""

    code: str
    sentence: str
    caveats: list[str]
    measures: list[CheckMeasure]
    curves: list[PerturbationCurve]
    heads: list[HeadFigures]
    skipped: list[tuple[str, str]]
    """A measure that was not taken, in words, and why."""
    model_sha256: str

    @property
    def is_provisional(self) -> bool:
        """Whether the verdict waits for controls."""
        return self.code in PROVISIONAL_VERDICTS

    @property
    def has_controls(self) -> bool:
        """Whether controls were retrained."""
        control = SKIPPED_TITLES["uniform_control"]
        return not self.is_provisional and all(title != control for title, _ in self.skipped)

    @property
    def tone(self) -> Literal["good", "open", "bad"]:
        """How the verdict is shown; a verdict of a later version is not taken for a good one."""
        if self.code in SURE_VERDICTS:
            return "good"
        return "open" if self.code in PARTLY_VERDICTS else "bad"


def read_check(path: Path) -> CheckResult:
    """Raises: FormatError when the file is none of `explain check` or lacks what a reader may rely on."""
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != CHECK_FORMAT:
        raise FormatError(
            f"{path}: is no result of `bioattn explain check` (its format is not {CHECK_FORMAT!r})"
        )
    try:
        if not str(content["format_version"]).startswith("1."):
            raise FormatError(f"{path}: not a check of a version this bioattn reads")
        return CheckResult(
            code=str(content["verdict"]["code"]),
            sentence=str(content["verdict"]["sentence"]),
            caveats=[str(text) for text in content["verdict"].get("caveats") or []],
            measures=[_measure(entry) for entry in content["measures"]],
            curves=[
                PerturbationCurve(
                    str(name), *(list(map(float, curve[key])) for key in ("fraction", "top", "random"))
                )
                for name, curve in (content.get("curves") or {}).items()
                if curve
            ],
            heads=[
                HeadFigures(
                    str(head["site"]),
                    int(head["head"]),
                    {
                        str(name): float(value)
                        for name, value in head.items()
                        if name not in ("site", "head") and _number(value) is not None
                    },
                )
                for head in content.get("heads") or []
            ],
            skipped=[
                (_title(str(entry["name"])), str(entry["why"])) for entry in content.get("skipped") or []
            ],
            model_sha256=str(content.get("model_sha256", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(
            f"{path}: is not a complete check ({error!r}); run `bioattn explain check` again"
        ) from error


def _title(name: str) -> str:
    return SKIPPED_TITLES.get(name, name.replace("_", " ").capitalize())


def _measure(entry: dict[str, Any]) -> CheckMeasure:
    bounds = entry.get("interval")
    passed = entry.get("passed")
    return CheckMeasure(
        label=str(entry.get("label") or entry["name"]),
        value=_number(entry["value"]),
        interval=None if not bounds or None in bounds else (float(bounds[0]), float(bounds[1])),
        threshold=_number(entry.get("threshold")),
        passed=passed if isinstance(passed, bool) else None,
        sentence=str(entry.get("sentence") or ""),
    )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
