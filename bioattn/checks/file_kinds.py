"""The kind of file that `bioattn explain check` writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.checks.record import CHECK_FORMAT, CHECK_VERSION, read_check
from bioattn.io.files import read_json
from bioattn.store.kinds import FileKind, ReportInput, Sample, json_object, sample_name
from bioattn.text import some

SIZES = "promoters", "treatments", "windows", "molecules", "proteins"


def _describe(path: Path) -> dict[str, Any]:
    """The main figures of a check. Raises: FormatError when it is incomplete."""
    check = read_check(path)
    return {
        "version": CHECK_VERSION,
        "verdict": str(check.verdict.code),
        "sentence": check.verdict.sentence,
        "caveats": check.verdict.caveats,
        "measures": len(check.measures),
        "passed": sum(measure.outcome == "passed" for measure in check.measures),
        "undecided": some([measure.name for measure in check.measures if measure.outcome == "undecided"]),
        "failed": some([measure.name for measure in check.measures if measure.outcome == "failed"]),
        "skipped": some(list(check.skipped)),
        **{name: check.settings[name] for name in SIZES if name in check.settings},
    }


def _sample(path: Path) -> Sample:
    check = read_check(path)
    outcomes = [measure.outcome for measure in check.measures]
    shown = {
        "verdict": str(check.verdict.code),
        "sentence": check.verdict.sentence,
        "passed": outcomes.count("passed"),
        "undecided": outcomes.count("undecided"),
        "failed": outcomes.count("failed"),
        "not_taken": len(check.skipped),
    }
    return Sample(sample_name(path), {"general": {"verdict": str(check.verdict.code)}, "checks": shown})


FILE_KINDS: Sequence[FileKind] = (
    FileKind(
        name="check",
        title="check of a model's attention",
        matches=json_object(CHECK_FORMAT),
        describe=_describe,
        read=read_json,
        multiqc=_sample,
        report=lambda path: ReportInput("check"),
    ),
)
