"""A kind of file and its main figures, and both in words or JSON. What is said of each kind: `*_inspection`."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

SHOWN = 8
"""Names shown of a list."""


@dataclass(frozen=True, slots=True)
class Description:
    """A kind of file and its main figures, in the order worth reading."""

    kind: str
    """One of `KINDS`."""
    title: str
    """The kind in words."""
    figures: dict[str, Any]
    """JSON values by name."""


KINDS = {
    "attention": "attention HDF5",
    "attention-parts": "parts of an unfinished attention export",
    "attribution": "attribution HDF5",
    "attribution-parts": "parts of an unfinished attribution",
    "attribution-arrays": "folder of attribution as NumPy archives",
    "dataset": "promoter dataset HDF5",
    "contact-dataset": "contact dataset HDF5",
    "model": "promoter model folder",
    "evoformer-model": "MSA/pair model folder",
    "parameters": "parameters of an MSA/pair model",
    "promoters": "promoter FASTA",
    "alignment": "alignment",
    "msa-statistics": "statistics of a prepared alignment",
    "predictions-part": "part of a table of predictions",
    "shard": "record of a part of a sharded run",
    "prediction": "prediction of an MSA/pair model",
    "predictions": "folder of predictions",
    "distogram": "predicted distances",
    "contacts": "predicted contacts (CASP RR)",
    "structure": "protein structure",
    "simulated-families": "simulated protein families",
    "simulated-promoters": "simulated promoters",
    "representations": "representations of an MSA/pair model",
    "json": "JSON file",
    "contact-regression": "contact regression of attention heads",
    "run-record": "run record of an output",
    "audit": "audit of promoter preparation",
    "bed": "BED",
    "tracks": "folder of tracks along chromosomes",
    "motifs": "folder of motifs",
    "heads": "importance of attention heads",
    "check": "check of a model's attention",
    "table": "table",
}

_KEYED_BY_NAME = frozenset({"failed", "inputs", "settings", "sites", "chains"})
"""Figures whose entries have names of the user's or of a file's: shown as they are."""


def describe(kind: str, **figures: Any) -> Description:
    """A description of one of `KINDS`."""
    return Description(kind, KINDS[kind], figures)


def some(names: Sequence[str]) -> list[str] | dict[str, Any]:
    """All names, or how many and the first ones."""
    return list(names) if len(names) <= SHOWN else {"count": len(names), "first": list(islice(names, SHOWN))}


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
