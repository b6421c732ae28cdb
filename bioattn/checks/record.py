"""The record of a check: a JSON file (docs/formats/check.md), its reader, and the report as text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bioattn import __version__
from bioattn.checks.measures import Code, Measure, Verdict, number, rounded
from bioattn.io.files import json_result
from bioattn.text import counted

CHECK_FORMAT, CHECK_VERSION = "bioattn-check", "1.0"
SURE = {Code.SPECIFIC, Code.USED}
"""The maps may be read as they look."""
PROVISIONAL = {Code.FAITHFUL_SPECIFIC, Code.FAITHFUL_NOT_SPECIFIC, Code.FAITHFUL}
"""The maps are faithful; whether the model needs its attention was not tested, as no control was retrained."""
PARTLY = {*PROVISIONAL, Code.NOT_SPECIFIC, Code.POSITION_ONLY, Code.NOT_PAIR_SPECIFIC, Code.UNDECIDED}
"""They may, but not for differences between treatments, or between samples; or it cannot be told."""
NEGATIVE = set(Code) - SURE - PARTLY
"""The maps explain nothing, or mislead."""
NOTES = {
    "treatments": "Skill: mean over treatments of Pearson r over genes (binary: 2 · AUROC − 1). Similarity: "
    "Spearman over bins.\nDeletion: share of what sets a prediction apart from its treatment's mean.",
    "windows": "Skill: share of the bits that word frequencies need. Deletion: share of what replacing all tokens "
    "takes.",
    "molecules": "Skill: share of the error (squared; of classes log loss) of the training mean. Deletion: share "
    "of what\nthe network's part of a prediction loses when no atom writes.",
    "proteins": "Skill: share of the bits that frequencies of contacts need. Deletion: share of what is lost "
    "with every\ncolumn in random order, or without rows.",
}
"""Explanations of figures, by a setting that the checks of one kind of model have."""
WORDS = {"passed": "pass", "failed": "FAIL", "undecided": "undecided", "": ""}


@dataclass(frozen=True, slots=True)
class Curve:
    """Shares of the whole effect as more is deleted from samples, or inserted into background."""

    fraction: list[float]
    """Shares of the bins, tokens or atoms."""
    top: list[float]
    """With those attended to most; NaN where it cannot be computed."""
    random: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpread:
    """How spread out the maps of one head of one site are."""

    site: str
    head: int
    entropy: float
    """Mean over samples of the map's entropy over ln(bins); 1 = uniform, 0 = a single bin."""
    top_weight: float
    """Mean of the largest weight of a map."""
    sink: float
    """Mean weight that goes to the sink; 0 without one."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckRecord:
    """Verdict, measures and curves of a check."""

    model_sha256: str
    input_sha256: str
    settings: dict[str, Any]
    verdict: Verdict
    measures: Sequence[Measure]
    curves: dict[str, Curve] = field(default_factory=dict)
    """`deletion` and `insertion`."""
    heads: Sequence[HeadSpread] = ()
    skipped: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "\n".join([f"<check: {self.verdict.code}; {self.counts()}>", *self.sentences])

    def counts(self) -> str:
        """How many of the measures that are judged passed, and how many are undecided."""
        outcomes = [measure.outcome for measure in self.measures if measure.outcome]
        text = f"{outcomes.count('passed')} of {counted(len(outcomes), 'test')} passed"
        undecided = outcomes.count("undecided")
        return f"{text}, {undecided} undecided" if undecided else text

    def to_json(self) -> dict[str, Any]:
        """The content of a check file."""
        return {
            "format": CHECK_FORMAT,
            "format_version": CHECK_VERSION,
            "generated_by": f"bioattn {__version__}",
            **_plain(asdict(self)),
            "skipped": [{"name": name, "why": why} for name, why in self.skipped.items()],
        }

    @property
    def is_provisional(self) -> bool:
        """Whether the verdict waits for controls."""
        return self.verdict.code in PROVISIONAL

    @property
    def has_controls(self) -> bool:
        """Whether controls were retrained."""
        return not self.is_provisional and "uniform_control" not in self.skipped

    @property
    def tone(self) -> Literal["good", "open", "bad"]:
        """How the verdict is shown."""
        return tone_of(self.verdict.code)

    @property
    def sentences(self) -> list[str]:
        """The verdict, its caveats, and what to do next."""
        found = self.verdict
        return [
            found.sentence,
            *(f"But: {caveat}" for caveat in found.caveats),
            *(f"Next: {step}" for step in found.next),
        ]

    @property
    def skipped_by_reason(self) -> dict[str, str]:
        """Names of the measures that were not taken, in words, by why."""
        names: dict[str, list[str]] = {}
        for name, why in self.skipped.items():
            names.setdefault(why, []).append(name.replace("_", " "))
        return {why: ", ".join(those).capitalize() for why, those in names.items()}

    def text(self) -> str:
        """The report as text: lines of at most about 120 characters, ending in a newline."""
        rows = [("measure", "value", "95 % interval", "threshold", "")]
        rows += [_cells(measure) for measure in self.measures]
        label, *others = (max(map(len, column)) for column in list(zip(*rows, strict=True))[:4])
        lines = [*self.sentences, ""]
        for name, *cells, state in rows:
            right = (cell.rjust(width) for cell, width in zip(cells, others, strict=True))
            lines.append("  ".join([name.ljust(label), *right, state]).rstrip())
        note = next(note for key, note in NOTES.items() if key in self.settings)
        lines += ["", f"{note} docs/checks.md says more."]
        if self.skipped:
            lines += ["", "Skipped:", *(f"  {names}: {why}" for why, names in self.skipped_by_reason.items())]
        return "\n".join(lines) + "\n"


def tone_of(code: str) -> Literal["good", "open", "bad"]:
    """How a verdict is shown, by its code; `open` without one."""
    return "good" if code in SURE else "bad" if code in NEGATIVE else "open"


def _plain(value: Any) -> Any:
    """JSON values: numbers rounded, null for NaN."""
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _cells(measure: Measure) -> tuple[str, str, str, str, str]:
    interval = "" if measure.interval is None else f"{measure.interval[0]:.3f} to {measure.interval[1]:.3f}"
    bound = "≤" if measure.name in ("randomised_weights", "best_simple_model") else "≥"
    # Two decimals, and a third where it is not 0: values have three.
    threshold = "" if measure.threshold is None else f"{bound} {measure.threshold:.3f}".removesuffix("0")
    return measure.label, f"{measure.value:.3f}", interval, threshold, WORDS[measure.outcome]


def read_check(path: Path) -> CheckRecord:
    """Raises: FormatError when the file is not a check, or an incomplete one."""
    with json_result(path, CHECK_FORMAT, CHECK_VERSION, "explain check") as content:
        verdict, measures = content["verdict"], []
        for entry in content["measures"]:
            ends = entry["interval"] and (*entry["interval"],)
            measures.append(Measure(**entry | {"value": number(entry["value"]), "interval": ends}))
        return CheckRecord(
            model_sha256=content["model_sha256"],
            input_sha256=content["input_sha256"],
            settings=dict(content["settings"]),
            verdict=Verdict(**verdict | {"code": Code(verdict["code"])}),
            measures=measures,
            curves={
                name: Curve(**{key: list(map(number, shares)) for key, shares in curve.items()})
                for name, curve in content["curves"].items()
            },
            heads=[
                HeadSpread(**head | {name: number(head[name]) for name in ("entropy", "top_weight", "sink")})
                for head in content["heads"]
            ],
            skipped={str(entry["name"]): str(entry["why"]) for entry in content["skipped"]},
        )
