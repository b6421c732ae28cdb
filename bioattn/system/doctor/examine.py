"""All findings about the surroundings, the worst of them, and the same as text and JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

from bioattn import __version__
from bioattn.errors import BioattnError
from bioattn.system.doctor.compute import device_findings, memory_findings, thread_findings
from bioattn.system.doctor.finding import Finding, Verdict
from bioattn.system.doctor.software import extra_findings, software_findings
from bioattn.system.doctor.storage import storage_findings
from bioattn.text import counted

_ORDER = (Verdict.ABSENT, Verdict.OK, Verdict.WARNING, Verdict.ERROR)
_MARKS = {Verdict.OK: " ", Verdict.ABSENT: " ", Verdict.WARNING: "!", Verdict.ERROR: "X"}
_TITLES = {
    "versions": "Versions",
    "device": "Devices",
    "threads": "Threads",
    "memory": "Memory",
    "files": "Files",
    "extras": "Optional extras",
}


def examine(folder: Path) -> list[Finding]:
    """Look at everything. folder: where results are to stand; a file is written there and goes again.

    Raises: BioattnError when there is no such folder.
    """
    if not folder.is_dir():
        raise BioattnError(f"{folder}: no such folder; create it first, or name another one")
    return [
        *software_findings(),
        *device_findings(),
        *thread_findings(),
        *memory_findings(),
        *storage_findings(folder.absolute()),
        *extra_findings(),
    ]


def overall(findings: Sequence[Finding]) -> Verdict:
    """The worst verdict: ok, warning or error."""
    return max((finding.verdict for finding in findings), key=_ORDER.index, default=Verdict.OK)


def as_text(findings: Sequence[Finding]) -> str:
    """For people: a block per topic; `!` marks what slows or limits work, `X` what is broken."""
    lines = []
    width = max(len(finding.name) for finding in findings)
    for topic in dict.fromkeys(finding.topic for finding in findings):
        lines += ["", _TITLES[topic]]
        for finding in findings:
            if finding.topic == topic:
                lines.append(f"{_MARKS[finding.verdict]} {finding.name:<{width}}  {finding.text}")
                if finding.advice:
                    lines.append(f"  {'':<{width}}  -> {finding.advice}")
    errors = sum(finding.verdict is Verdict.ERROR for finding in findings)
    warnings = sum(finding.verdict is Verdict.WARNING for finding in findings)
    found = [f"{counted(errors, 'thing')} broken (X)"] * bool(errors)
    found += [f"{counted(warnings, 'warning')} (!)"] * bool(warnings)
    said = ", ".join(found) or "Nothing to complain of."
    return "\n".join([*lines[1:], "", said])


def as_json(findings: Sequence[Finding]) -> str:
    """For programs: the overall verdict, and every finding with topic, name, verdict, value, text and advice."""
    return json.dumps(
        {
            "format": "bioattn-doctor",
            "format_version": 1,
            "bioattn_version": __version__,
            "verdict": overall(findings),
            "findings": [
                {
                    "topic": finding.topic,
                    "name": finding.name,
                    "verdict": finding.verdict,
                    "value": finding.value,
                    "text": finding.text,
                    "advice": finding.advice or None,
                }
                for finding in findings
            ],
        },
        indent=2,
        ensure_ascii=False,
    )
