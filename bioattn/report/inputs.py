"""What a report is given: each file or folder is recognised by its content, and they must belong together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import decompression_errors, open_bytes, read_json
from bioattn.io.hdf5_input import HDF5_MAGIC, open_hdf5, text_attribute
from bioattn.store.inspection import inspect_file

MOTIF_EXPORT = "motifs.json"
"""What tells a folder of `bioattn export motifs`."""

_SINGLE = {
    "model": "promoter model",
    "dataset": "promoter dataset",
    "attention": "attention over promoters",
    "attribution": "attribution",
    "check": "check of a model",
    "motif-export": "motif export",
    "motifs": "motif database",
    "predictions-table": "table of predictions",
    "promoters": "promoter FASTA",
    "evoformer-model": "MSA/pair model",
}
"""Kinds of which a report shows one, by the name of their field."""
_SEVERAL = {
    "prediction": "prediction of an MSA/pair model",
    "alignment-attention": "attention over alignments",
    "alignment": "alignment",
    "structure": "protein structure",
    "contact-dataset": "contact dataset",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One input, for the list at the end of the report. No folder of the user's stands in it."""

    name: str
    kind: str
    figures: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, kw_only=True)
class ReportInputs:
    """Paths by what they are."""

    model: Path | None = None
    dataset: Path | None = None
    attention: Path | None = None
    attribution: Path | None = None
    check: Path | None = None
    motif_export: Path | None = None
    motifs: Path | None = None
    predictions_table: Path | None = None
    promoters: Path | None = None
    evoformer_model: Path | None = None
    annotation: Path | None = None
    prediction: list[Path] = field(default_factory=list)
    """Folders of one alignment each."""
    alignment_attention: list[Path] = field(default_factory=list)
    alignment: list[Path] = field(default_factory=list)
    structure: list[Path] = field(default_factory=list)
    contact_dataset: list[Path] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


def recognise_inputs(
    paths: Sequence[Path], *, annotation: Path | None = None, motifs: Path | None = None
) -> ReportInputs:
    """Sort the inputs of a report by what they are.

    Raises: SettingsError when one is given twice, two are of a kind of which a report shows one, or nothing is
    given that it could tell of; BioattnError for a file of another kind; FormatError when one is damaged.
    """
    found = ReportInputs(annotation=annotation)
    places: set[Path] = set()
    for path in paths:
        if path.resolve() in places:
            raise SettingsError(f"{path}: is given twice; once is enough")
        places.add(path.resolve())
        for part, kind, figures in _kinds(path):
            _add(found, part, kind, figures)
    if motifs is not None:
        if _kind_by_start(motifs) != "motifs":
            raise BioattnError(f"{motifs}: --motifs needs motifs in MEME or JASPAR format")
        _add(found, motifs, "motifs", {})
    if annotation is not None:
        found.sources.append(Source(annotation.name, "annotation"))
    tells = (found.model, found.dataset, found.attention, found.check, found.motif_export)
    if not any((*tells, found.prediction, found.alignment_attention)):
        raise SettingsError(
            "nothing to report on: give a model folder, a dataset, an attention file, a check, a folder of "
            "`export motifs` or one of `run evoformer`"
        )
    return found


def _add(found: ReportInputs, path: Path, kind: str, figures: dict[str, Any]) -> None:
    name = kind.replace("-", "_")
    if kind in _SINGLE:
        if getattr(found, name) is not None:
            raise SettingsError(
                f"{path}: is a second {_SINGLE[kind]} beside {getattr(found, name)}; a report shows one"
            )
        setattr(found, name, path)
    elif kind in _SEVERAL:
        getattr(found, name).append(path)
    else:
        known = ", ".join([*_SINGLE.values(), *_SEVERAL.values()])
        raise BioattnError(f"{path}: is of a kind ({kind}) that no report shows; it takes: {known}")
    title = (_SINGLE | _SEVERAL)[kind]
    label = path.name or path.resolve().name
    found.sources.append(Source(label, title, tuple(_shown(figures))))


_SHOWN = (
    "generated_by",
    "model_sha256",
    "sha256",
    "input_sha256",
    "genes",
    "promoters",
    "motifs",
    "rows",
    "columns",
)


def _shown(figures: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for name in _SHOWN:
        value = figures.get(name)
        if isinstance(value, bool) or not isinstance(value, int | str):
            continue
        text = f"{value:,}" if isinstance(value, int) else value
        label = "weights" if name in ("sha256", "model_sha256") else name.replace("_sha256", "")
        yield label.replace("_", " "), text[:16] + "…" if "sha256" in name else text


def _kinds(path: Path) -> list[tuple[Path, str, dict[str, Any]]]:
    """What an input is; a folder of predictions is several."""
    if path.is_dir() and (path / MOTIF_EXPORT).is_file():
        content = read_json(path / MOTIF_EXPORT)
        if isinstance(content, dict) and content.get("format") == "bioattn-motifs":
            return [(path, "motif-export", content)]
    if not path.is_dir() and (kind := _kind_by_start(path)) is not None:
        return [(path, kind, {})]
    description = inspect_file(path)
    figures = description.figures
    kind = description.kind
    if kind == "predictions":
        return [
            (folder.parent, "prediction", inspect_file(folder.parent).figures)
            for folder in sorted(path.glob("*/scores.json"))
        ]
    if kind == "attention" and figures.get("inputs") == "alignments":
        kind = "alignment-attention"
    if kind == "table":
        names = figures["names"]
        first = names["first"] if isinstance(names, dict) else names
        kind = "predictions-table" if first and first[0] == "gene_id" else kind
    return [(path, kind, figures)]


def _kind_by_start(path: Path) -> str | None:
    """Kinds that say what they are in their first lines or their `format`."""
    with open_bytes(path) as file, decompression_errors(path):
        head = file.read(4096)
    if head.startswith(HDF5_MAGIC):
        with open_hdf5(path) as opened:
            return "attribution" if text_attribute(opened, "format") == "bioattn-attribution" else None
    text = head.lstrip()
    if text.startswith(b"{"):
        content = read_json(path)
        return "check" if isinstance(content, dict) and content.get("format") == "bioattn-check" else None
    if text.startswith(b"MEME version"):
        return "motifs"
    lines = text.splitlines()
    jaspar = len(lines) > 1 and lines[0].startswith(b">") and lines[1].split()[:2] == [b"A", b"["]
    return "motifs" if jaspar else None
