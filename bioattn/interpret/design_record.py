"""The check of designs as `bioattn explain check` writes it and others read it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bioattn.io.files import json_result, write_json
from bioattn.text import table_text

DESIGNS_FORMAT, DESIGNS_VERSION = "bioattn-designs-check", "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignSet:
    """The measures of sequences of one origin. Gains are in standard deviations of real promoters."""

    guidance: float | None = None
    """Of designs that were drawn for the curve."""
    name: str
    number: int
    effect: float
    """Gain by the held-out oracle: mean over the treatments that were asked for, those to be off negative."""
    effect_error: float
    """Its standard error over the sequences."""
    effect_guide: float
    """Gain by the oracle of training promoters."""
    on: Mapping[str, float]
    """Mean effect under each treatment that was to be on, by the held-out oracle."""
    off: Mapping[str, float]
    others: Mapping[str, float]
    effect_model: float | None = None
    """Gain by a promoter model as second oracle, where one was given; effects by it follow."""
    on_model: Mapping[str, float] | None = None
    off_model: Mapping[str, float] | None = None
    others_model: Mapping[str, float] | None = None
    distance_4: float
    """4-mer distance from real promoters, in distances of held-out real ones."""
    distance_6: float
    near_training: float
    """Share that is nearer to training promoters than 99 % of held-out ones."""
    nearest_other: float
    """Mean identity to the nearest other sequence of the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignsCheck:
    """A verdict, the sets that were compared, and designs of several guidances."""

    settings: Mapping[str, Any]
    code: str
    sentences: list[str]
    oracles: Mapping[str, Any]
    """Correlation of each oracle with responses that it has not seen, by treatment."""
    rows: list[DesignSet]
    """Designs, real promoters that do what was asked for, all real promoters, then simple designers."""
    motifs: list[dict[str, Any]]
    """Share of sequences that hold each motif, by set."""
    guidance: list[DesignSet]

    @classmethod
    def read(cls, path: Path) -> "DesignsCheck":
        """Read the JSON of a check. Raises: FormatError when it is none or incomplete."""
        with json_result(path, DESIGNS_FORMAT, DESIGNS_VERSION, "explain check") as content:
            content |= content.pop("verdict")
            sets = {key: [DesignSet(**row) for row in content[key]] for key in ("rows", "guidance")}
            return cls(**content | sets)

    def write(self, path: Path) -> None:
        """Write the JSON."""
        content = asdict(self)
        for key in ("rows", "guidance"):
            content[key] = [{n: v for n, v in row.items() if v is not None} for row in content[key]]
        verdict = {name: content.pop(name) for name in ("code", "sentences")}
        header = {"format": DESIGNS_FORMAT, "format_version": DESIGNS_VERSION, "verdict": verdict}
        write_json(path, header | content)

    def text(self) -> str:
        """The check in words, with its table."""
        header = ["", "n", "effect, sd", "by the guide", "4-mers", "6-mers", "near training", "nearest other"]
        table = [[*header, *(["by the model"] if self.rows[0].effect_model is not None else [])]]
        for row in [*self.rows, *self.guidance]:
            cells = [row.effect, row.effect_guide, row.distance_4, row.distance_6, row.near_training]
            cells += [row.nearest_other, *([] if row.effect_model is None else [row.effect_model])]
            table.append([row.name, str(row.number), *(f"{cell:.3f}" for cell in cells)])
        return "\n".join([f"verdict: {self.code}", *self.sentences, "", table_text(table, aligned=True)])
