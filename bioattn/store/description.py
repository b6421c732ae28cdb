"""A kind of file and its main figures, and both in words or JSON."""

import json
import shlex
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Description:
    """A kind of file and its main figures, in the order worth reading."""

    kind: str
    """Name of a `FileKind`."""
    title: str
    """The kind in words."""
    figures: dict[str, Any]
    """JSON values by name."""


_KEYED_BY_NAME = frozenset({"failed", "inputs", "settings", "sites", "chains"})
"""Figures whose entries have names of the user's or of a file's: shown as they are."""


def as_text(description: Description, name: str) -> str:
    """Lines `figure: value` for people."""
    lines = [f"{name}: {description.title}"]
    for key, value in description.figures.items():
        lines += _lines(key.replace("_", " "), value, "  ", named=key in _KEYED_BY_NAME)
    return "\n".join(lines)


def as_json(description: Description) -> str:
    """The same for programs."""
    return json.dumps({"kind": description.kind, **description.figures}, indent=2)


def _lines(key: str, value: Any, indent: str, *, named: bool = False) -> list[str]:
    """named: the entries of `value` have names that are shown as they are."""
    if isinstance(value, dict) and set(value) == {"count", "first"}:
        return [f"{indent}{key}: {value['count']:,} ({', '.join(map(str, value['first']))}, …)"]
    if isinstance(value, dict):
        value = {k if named or "." in k else k.replace("_", " "): entry for k, entry in value.items()}
    if isinstance(value, dict) and value and all(isinstance(v, int) for v in value.values()):
        return [f"{indent}{key}: " + ", ".join(f"{k} {v:,}" for k, v in value.items())]
    if isinstance(value, dict) and value:
        return [
            f"{indent}{key}:",
            *(line for k, v in value.items() for line in _lines(str(k), v, indent + "  ")),
        ]
    if key == "command" and isinstance(value, list):
        return [f"{indent}{key}: {shlex.join(map(str, value))}"]
    if isinstance(value, list | dict):
        return [f"{indent}{key}: {', '.join(map(str, value)) or 'none'}"]
    if isinstance(value, bool):
        return [f"{indent}{key}: {'yes' if value else 'no'}"]
    if value is None:
        return [f"{indent}{key}: {'none, it is no file' if key == 'sha256' else 'not given'}"]
    return [f"{indent}{key}: {value:,}" if isinstance(value, int) else f"{indent}{key}: {value}"]
