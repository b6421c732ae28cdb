"""What a report is given: each file or folder is recognised by its content, and they must belong together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import sha256_of
from bioattn.store.kinds import Candidate, ReportInput, ResultTable, find_kind, recognise
from bioattn.store.training_record import read_training_record


@dataclass(frozen=True, slots=True)
class Source:
    """One input, for the list at the end of the report. No folder of the user's stands in it."""

    name: str
    kind: str
    figures: tuple[tuple[str, str], ...] = ()


def _slot(title: str, *, alone: bool = True) -> dict[str, Any]:
    """What is known of a kind of input: its title, and whether it says anything without others."""
    return {"title": title, "alone": alone}


@dataclass(slots=True, kw_only=True)
class ReportInputs:
    """Paths by what they are."""

    model: Path | None = field(default=None, metadata=_slot("promoter model"))
    dataset: Path | None = field(default=None, metadata=_slot("promoter dataset"))
    attention: Path | None = field(default=None, metadata=_slot("attention over promoters"))
    attribution: Path | None = field(default=None, metadata=_slot("attribution", alone=False))
    check: Path | None = field(default=None, metadata=_slot("check of a model"))
    motif_export: Path | None = field(default=None, metadata=_slot("motif export"))
    motifs: Path | None = field(default=None, metadata=_slot("motif database", alone=False))
    predictions_table: Path | None = field(default=None, metadata=_slot("table of predictions", alone=False))
    promoters: Path | None = field(default=None, metadata=_slot("promoter FASTA", alone=False))
    evoformer_model: Path | None = field(default=None, metadata=_slot("MSA/pair model"))
    annotation: Path | None = None
    prediction: list[Path] = field(default_factory=list, metadata=_slot("prediction of an MSA/pair model"))
    """Folders of one alignment each."""
    alignment_attention: list[Path] = field(default_factory=list, metadata=_slot("attention over alignments"))
    alignment: list[Path] = field(default_factory=list, metadata=_slot("alignment", alone=False))
    structure: list[Path] = field(default_factory=list, metadata=_slot("protein structure", alone=False))
    contact_dataset: list[Path] = field(default_factory=list, metadata=_slot("contact dataset", alone=False))
    trained_model: list[Path] = field(default_factory=list, metadata=_slot("model"))
    """Models of families of which a report shows how they were trained."""
    results: list[Path] = field(default_factory=list, metadata=_slot("result"))
    tables: list[ResultTable] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)

    def of_other_data(self) -> bool:
        """Whether the model was trained on another dataset than the one given."""
        if self.model is None or self.dataset is None:
            return False
        trained_on = read_training_record(self.model).get("dataset", {}).get("sha256")
        return bool(trained_on != sha256_of(self.dataset))


_SLOTS = {each.name: each.metadata for each in fields(ReportInputs) if each.metadata}


def recognise_inputs(
    paths: Sequence[Path], *, annotation: Path | None = None, motifs: Path | None = None
) -> ReportInputs:
    """Sort the inputs of a report by what they are.

    Raises: SettingsError when one is given twice; BioattnError when two are of a kind of which a report shows one,
    for a file of another kind, or when nothing is given that it could tell of; FormatError when one is damaged.
    """
    found = ReportInputs(annotation=annotation)
    places: set[Path] = set()
    for path in paths:
        if path.resolve() in places:
            raise SettingsError(f"{path}: is given twice; once is enough")
        places.add(path.resolve())
        for part, given in _given(path):
            _add(found, part, given)
    if motifs is not None:
        kind = find_kind(Candidate(motifs))
        given_motifs = None if kind is None or kind.report is None else kind.report(motifs)
        if given_motifs is None or given_motifs.slot != "motifs":
            raise BioattnError(f"{motifs}: --motifs needs motifs in MEME or JASPAR format")
        _add(found, motifs, given_motifs)
    if annotation is not None:
        found.sources.append(Source(annotation.name, "annotation"))
    if not any(getattr(found, name) for name, slot in _SLOTS.items() if slot["alone"]):
        raise BioattnError(
            "nothing to report on: give a model folder, a dataset, an attention file, a check, a folder of "
            "`export motifs` or one of `run evoformer`"
        )
    return found


def _add(found: ReportInputs, path: Path, given: ReportInput) -> None:
    title, other = _SLOTS[given.slot]["title"], getattr(found, given.slot)
    if isinstance(other, list):
        other.append(path)
    elif other is not None:
        raise BioattnError(f"{path}: is a second {title} beside {other}; a report shows one")
    else:
        setattr(found, given.slot, path)
    if given.table is not None:
        found.tables.append(given.table)
    figures = []
    for name in _SHOWN:
        value = given.figures.get(name)
        if isinstance(value, bool) or not isinstance(value, int | str):
            continue
        text = f"{value:,}" if isinstance(value, int) else value
        label = "weights" if name in ("sha256", "model_sha256") else name.replace("_sha256", "")
        figures.append((label.replace("_", " "), text[:16] + "…" if "sha256" in name else text))
    found.sources.append(Source(path.name or path.resolve().name, title, tuple(figures)))


_SHOWN = (
    *("generated_by", "model_sha256", "sha256", "input_sha256"),
    *("genes", "promoters", "motifs", "rows", "columns"),
)


def _given(path: Path) -> list[tuple[Path, ReportInput]]:
    """What an input is; a folder of predictions is several."""
    kind = recognise(path)
    if kind.members is not None:
        return [given for member in kind.members(path) for given in _given(member)]
    given = None if kind.report is None else kind.report(path)
    if given is None:
        known = ", ".join(slot["title"] for slot in list(_SLOTS.values())[:-2])
        raise BioattnError(f"{path}: is of a kind ({kind.name}) that no report shows; it takes: {known}")
    return [(path, given)]
