"""The kind of file that `bioattn explain check` writes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json
from bioattn.store.kinds import FileKind, ReportInput, Sample, json_object, sample_name
from bioattn.text import some
from bioattn.views.check import CHECK_FORMAT, read_check


def _describe(path: Path) -> dict[str, Any]:
    """The main figures of a check. Raises: FormatError when it lacks what a reader may rely on."""
    content = read_json(path)
    try:
        passed = [measure["passed"] for measure in content["measures"]]
        return {
            "version": content["format_version"],
            "verdict": content["verdict"]["code"],
            "sentence": content["verdict"]["sentence"],
            "caveats": content["verdict"]["caveats"],
            "measures": len(passed),
            "passed": passed.count(True),
            "failed": some(
                [measure["name"] for measure in content["measures"] if measure["passed"] is False]
            ),
            "skipped": some([entry["name"] for entry in content["skipped"]]),
            **{
                name: content["settings"][name]
                for name in ("promoters", "treatments", "windows", "molecules", "proteins")
                if name in content["settings"]
            },
        }
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{path}: is not a complete check ({error!r}); run `bioattn explain check` again"
        ) from error


def _sample(path: Path) -> Sample:
    check = read_check(path)
    passed = [measure.passed for measure in check.measures]
    shown = {
        "verdict": check.code,
        "sentence": check.sentence,
        "passed": passed.count(True),
        "failed": passed.count(False),
        "not_taken": len(check.skipped),
    }
    return Sample(sample_name(path), {"general": {"verdict": check.code}, "checks": shown})


def file_kinds() -> Sequence[FileKind]:
    return (
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
