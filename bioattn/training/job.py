"""The job of a training run: what its weights follow from, as plain JSON. A run goes on by the same job only."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError

Job = dict[str, Any]
_LONGEST_VALUE = 40
"""Digests are longer: that they differ is all there is to say."""


def plain_job(content: Mapping[str, Any]) -> Job:
    """`content` as it comes back from JSON, so that it equals what was stored."""
    return dict(json.loads(json.dumps(content)))


def job_differences(
    earlier: Mapping[str, Any], now: Mapping[str, Any], words: tuple[str, str] = ("then", "now")
) -> list[str]:
    """The entries in which two jobs differ, by dotted names, with both values where they are short.

    words: what tells the first value and the second.

    >>> job_differences({"training": {"seed": 0, "epochs": 3}}, {"training": {"seed": 1, "epochs": 3}})
    ['training.seed (0 then, 1 now)']
    """
    one, other = _entries(earlier), _entries(now)
    return [
        _difference(name, one.get(name), other.get(name), words)
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def require_finished_by(output: Path, earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises: BioattnError when the model folder `output` was trained by another job."""
    different = job_differences(earlier, now)
    if different:
        raise BioattnError(
            f"{output}: is finished, but was trained with other data or settings (different: "
            f"{', '.join(different)}); choose another --output, or --force to replace it"
        )


def _entries(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found |= _entries(value, f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def _difference(name: str, earlier: Any, now: Any, words: tuple[str, str]) -> str:
    values = [_shown(earlier), _shown(now)]
    if max(map(len, values)) > _LONGEST_VALUE:
        return name
    return f"{name} ({values[0]} {words[0]}, {values[1]} {words[1]})"


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value)
