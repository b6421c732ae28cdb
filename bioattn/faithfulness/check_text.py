"""A check report as text for people: the verdict first, then one line per measure, then what was skipped."""

from bioattn.faithfulness.check import CheckReport
from bioattn.faithfulness.measures import Measure

SKILL_NOTE = (
    "Skill: mean over treatments of Pearson r over genes (binary: 2 · AUROC − 1). Similarity: Spearman over bins. "
    "Deletion:\nshare of what sets a prediction apart from its treatment's mean. docs/checks.md says more."
)
WORDS = {True: "pass", False: "FAIL", None: ""}


def check_text(report: CheckReport) -> str:
    """The report as text: lines of at most about 120 characters, ending in a newline."""
    lines = [report.verdict.sentence, *(f"But: {caveat}" for caveat in report.verdict.caveats), ""]
    rows = [("measure", "value", "95 % interval", "threshold", "")]
    rows += [_cells(measure) for measure in report.measures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(row[1:4], widths[1:4], strict=True)),
        ]
        lines.append("  ".join([*cells, row[4]]).rstrip())
    lines += ["", SKILL_NOTE]
    if report.measures.skipped:
        lines += ["", "Skipped:"]
        lines += [f"  {name}: {why}" for name, why in report.measures.skipped.items()]
    return "\n".join(lines) + "\n"


def _cells(measure: Measure) -> tuple[str, str, str, str, str]:
    interval = "" if measure.interval is None else f"{measure.interval[0]:.3f} to {measure.interval[1]:.3f}"
    bound = "≤" if measure.name in ("randomised_weights", "best_simple_model") else "≥"
    threshold = "" if measure.threshold is None else f"{bound} {measure.threshold:.2f}"
    return measure.label, f"{measure.value:.3f}", interval, threshold, WORDS[measure.passed]
