"""All diagnoses about the surroundings, the worst of them, and the same as text and JSON."""

import json
from collections.abc import Sequence
from pathlib import Path

from bioattn import __version__
from bioattn.errors import BioattnError
from bioattn.system.doctor.compute import device_diagnoses, memory_diagnoses, thread_diagnoses
from bioattn.system.doctor.diagnosis import Diagnosis, Status
from bioattn.system.doctor.software import extra_diagnoses, software_diagnoses
from bioattn.system.doctor.storage import storage_diagnoses
from bioattn.text import counted

_ORDER = (Status.ABSENT, Status.OK, Status.WARNING, Status.ERROR)
_MARKS = {Status.OK: " ", Status.ABSENT: " ", Status.WARNING: "!", Status.ERROR: "X"}
_TITLES = {
    "versions": "Versions",
    "device": "Devices",
    "threads": "Threads",
    "memory": "Memory",
    "files": "Files",
    "extras": "Optional extras",
}


def examine(folder: Path) -> list[Diagnosis]:
    """Look at everything. folder: where results are to stand; a file is written there and goes again.

    Raises: BioattnError when there is no such folder.
    """
    if not folder.is_dir():
        raise BioattnError(f"{folder}: no such folder; create it first, or name another one")
    return [
        *software_diagnoses(),
        *device_diagnoses(),
        *thread_diagnoses(),
        *memory_diagnoses(),
        *storage_diagnoses(folder.absolute()),
        *extra_diagnoses(),
    ]


def overall(diagnoses: Sequence[Diagnosis]) -> Status:
    """The worst status: ok, warning or error."""
    return max((diagnosis.status for diagnosis in diagnoses), key=_ORDER.index, default=Status.OK)


def as_text(diagnoses: Sequence[Diagnosis]) -> str:
    """For people: a block per topic; `!` marks what slows or limits work, `X` what is broken."""
    lines = []
    width = max(len(diagnosis.name) for diagnosis in diagnoses)
    for topic in dict.fromkeys(diagnosis.topic for diagnosis in diagnoses):
        lines += ["", _TITLES[topic]]
        for diagnosis in diagnoses:
            if diagnosis.topic == topic:
                lines.append(f"{_MARKS[diagnosis.status]} {diagnosis.name:<{width}}  {diagnosis.text}")
                if diagnosis.advice:
                    lines.append(f"  {'':<{width}}  -> {diagnosis.advice}")
    errors = sum(diagnosis.status is Status.ERROR for diagnosis in diagnoses)
    warnings = sum(diagnosis.status is Status.WARNING for diagnosis in diagnoses)
    found = [f"{counted(errors, 'thing')} broken (X)"] * bool(errors)
    found += [f"{counted(warnings, 'warning')} (!)"] * bool(warnings)
    said = ", ".join(found) or "Nothing to complain of."
    return "\n".join([*lines[1:], "", said])


def as_json(diagnoses: Sequence[Diagnosis]) -> str:
    """The same as JSON for programs; the key `verdict` holds a status."""
    return json.dumps(
        {
            "format": "bioattn-doctor",
            "format_version": 1,
            "bioattn_version": __version__,
            "verdict": overall(diagnoses),
            "findings": [
                {
                    "topic": diagnosis.topic,
                    "name": diagnosis.name,
                    "verdict": diagnosis.status,
                    "value": diagnosis.value,
                    "text": diagnosis.text,
                    "advice": diagnosis.advice or None,
                }
                for diagnosis in diagnoses
            ],
        },
        indent=2,
        ensure_ascii=False,
    )
