"""`plot` draws any result: its kind decides which picture, and the `read` function of that which options.

A picture has two functions: one reads its typed data from files, the other draws them.
"""

import inspect
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bioattn.errors import BioattnError, SettingsError
from bioattn.store.kinds import Candidate, FileKind, find_kind, recognise
from bioattn.store.reader import Attention, open_attention
from bioattn.system.progress import SILENT, Progress
from bioattn.text import listed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Picture(NamedTuple):
    """Where a picture's functions are, in `bioattn.figures` unless the module says otherwise."""

    read: str
    draw: str
    data: str
    """The class that `read` gives and `draw` takes."""
    width: float = 180.0
    """Millimetres, unless another width is asked for."""


PICTURES = {
    "attention": Picture(
        "promoter_picture:read_promoter_picture",
        "promoter_attention:draw_promoter_attention",
        "PromoterPicture",
    ),
    "heatmap": Picture(
        "treatment_heatmap:read_treatment_heatmap",
        "treatment_heatmap:draw_treatment_heatmap",
        "TreatmentHeatmap",
    ),
    "heads": Picture("head_grid:read_head_grid", "head_grid:draw_head_grid", "HeadGrid"),
    "arcs": Picture("arcs:read_arcs", "arcs:draw_arcs", "ArcPicture"),
    "alignment": Picture("alignment:read_alignments", "alignment:draw_alignments", "AlignmentPicture", 120),
    "molecule": Picture("molecule:read_coloured_molecule", "molecule:draw_molecule", "ColouredMolecule", 85),
    "response": Picture(
        "response_curve:read_shown_curves", "response_curve:draw_response_curves", "ResponseCurves", 120
    ),
    "contacts": Picture(
        "contact_map:read_contact_picture", "contact_map:draw_contact_map", "ContactPicture", 85
    ),
    "distogram": Picture("contact_map:read_distogram", "contact_map:draw_distogram", "DistogramPicture"),
    "pae": Picture(
        "bioattn.structures.predictions:read_aligned_error",
        "confidence:draw_aligned_error",
        "AlignedError",
        85,
    ),
    "plddt": Picture("confidence:read_plddt_chains", "confidence:draw_plddt", "PlddtChains", 120),
    "logos": Picture("motif_logos:read_logos", "motif_logos:draw_logos", "Logos"),
    "training": Picture("curves:read_training", "curves:draw_training", "TrainingPicture"),
    "check": Picture("bioattn.checks.record:read_check", "curves:draw_check", "CheckRecord"),
    "designs": Picture(
        "bioattn.interpret.designs.record:DesignsCheck.read", "designs:draw_designs", "DesignsCheck", 120
    ),
}
"""All pictures by the name that --kind has for them."""
_OF_FILES: Mapping[str, Sequence[str]] = {
    "prediction": ("contacts", "distogram", "pae", "plddt"),
    "predictions": ("contacts",),
    "distogram": ("distogram", "contacts"),
    "contacts": ("contacts",),
    "aligned_error": ("pae",),
    "structure": ("plddt",),
    "motif-database": ("logos",),
    "response-curve": ("response",),
    "designs-check": ("designs",),
    "check": ("check",),
}
"""What can be drawn of a kind of file, the picture that is drawn unless --kind says otherwise first."""
_OF_ATTENTION = {
    "promoters": ("attention", "heatmap", "heads"),
    "alignments": ("heads", "arcs"),
    "sequences": ("heads", "arcs"),
    "molecules": ("molecule",),
}
"""The same of attention, by what it is over; of all others `alignment`."""
_BESIDE = {
    "attribution": ("attribution",),
    "promoters": ("promoters",),
    "motif-database": ("motifs",),
    "table": ("motifs", "truth"),
    "bed": ("motifs", "truth"),
    "alignment": ("alignment",),
    "proteins": ("alignment",),
    "structure": ("truth",),
    "contact-dataset": ("truth",),
}
"""Which option of a picture a further file is, by its kind."""
_FLAGS = {
    "treatments": "treatment",
    "upsampling": "as",
    "corrected": "as",
    "contributions": "as",
} | dict.fromkeys(("cluster", "by_attention", "reverse_complement", "background"), "as")
"""How options are called on the command line where it is not their name."""
_SAMPLES = ("gene", "genes", "sample", "samples")
"""What pictures call the samples that they draw: one that is needed, any number, at most one, any number."""


class Drawn(NamedTuple):
    """A figure, and what a run record says of it."""

    figure: "Figure"
    figures: dict[str, Any]


def plot(result: Any, kind: str | None = None, **options: Any) -> "Figure":
    """Draw a result.

    result: the path of a file or folder, or several: those of one figure (runs for `training`, structures for
    `plddt`), or a result and files to be drawn with it (see `bioattn plot --help`). Or an open attention file, the
    typed data of a picture, a DataFrame of contacts or of a training's history, or with `kind` an array:
    `contacts` and `pae` (R, R), `plddt` (R,), `logos` (W, 4).
    kind: a name of `PICTURES`; None = the one for this kind of result.
    options: `width` in millimetres; `gene` or `sample`, a name or several; and those of the picture's `read`
    function (such as `read_promoter_picture`).

    Returns a Matplotlib figure.

    Raises: SettingsError for options that the picture does not take; BioattnError for what a file does not hold.
    """
    return draw(result, kind, **options).figure


def draw(
    result: Any,
    kind: str | None = None,
    *,
    width: float | None = None,
    progress: Progress = SILENT,
    **options: Any,
) -> Drawn:
    """As `plot`, with the figures of the run record."""
    if kind is not None and kind not in PICTURES:
        raise SettingsError(f"--kind {kind!r}: the pictures are {', '.join(PICTURES)}")
    given = {name: value for name, value in options.items() if value not in (None, (), [])}
    paths = _paths(result)
    if paths:
        kind = kind or _default_kind(paths[0], given)
        data = _read(kind, paths, given, progress)
    elif isinstance(result, Attention):
        kind = kind or _of_attention(result, given)
        data = _function(PICTURES[kind].read)(result, **_accepted(kind, given, progress))
    else:
        kind, data = _typed(result, kind, given)
    picture = PICTURES[kind]
    figure = _function(picture.draw)(data, width or picture.width)
    return Drawn(figure, data.record() if hasattr(data, "record") else {})


def _paths(result: Any) -> list[Path]:
    """The paths that a result is; none for another result."""
    several = result if type(result) in (list, tuple) else [result]
    return [Path(each) for each in several if isinstance(each, str | Path)]


def _default_kind(path: Path, options: Mapping[str, Any]) -> str:
    """Raises: BioattnError for a file of which nothing can be drawn."""
    kind = recognise(path)
    if kind.name == "attention":
        with open_attention(path) as attention:
            return _of_attention(attention, options)
    known = ["training"] if kind.is_model else _OF_FILES.get(kind.name, _of_content(path, kind))
    if not known:
        raise BioattnError(
            f"{path}: is {kind.title}, of which there is no picture; --kind chooses one of {', '.join(PICTURES)}"
        )
    return known[0]


def _of_attention(attention: Attention, options: Mapping[str, Any]) -> str:
    """Of promoters the picture of one gene, where one is named, else the heatmap over genes."""
    kind = _OF_ATTENTION.get(attention.inputs, ("alignment",))[0]
    named = [name for option in _SAMPLES for name in _names(options.get(option, ()))]
    return "heatmap" if kind == "attention" and len(named) != 1 else kind


def _of_content(path: Path, kind: FileKind) -> Sequence[str]:
    """What can be drawn of a table or of another program's JSON."""
    candidate = Candidate(path)
    if kind.name == "table":
        return _of_columns(candidate.columns)
    content = candidate.json
    content = content[0] if isinstance(content, list) and content else content
    if not isinstance(content, dict):
        return ()
    keys = {"plddt": {"plddt", "confidenceScore"}, "pae": {"predicted_aligned_error", "pae", "distance"}}
    return [name for name, known in keys.items() if known & set(content)]


def _of_columns(columns: Sequence[str]) -> Sequence[str]:
    if columns[0] in ("epoch", "step"):
        return ("training",)
    return ("contacts",) if {"column_i", "column_j"} <= set(columns) else ()


def _read(kind: str, paths: list[Path], options: dict[str, Any], progress: Progress) -> Any:
    """The typed data of a picture of files."""
    read = _function(PICTURES[kind].read)
    first, *known = inspect.signature(read).parameters
    if first == "paths":
        return read(paths, **_accepted(kind, options, progress))
    for path in paths[1:]:
        found = find_kind(Candidate(path))
        name = next((name for name in _BESIDE.get(found.name if found else "", ()) if name in known), None)
        if name is None or name in options:
            what = "a file of no known kind" if found is None else found.title
            raise BioattnError(f"{path}: is {what}; the picture {kind} of {paths[0]} does not take it")
        options[name] = path
    accepted = _accepted(kind, options, progress)
    with ExitStack() as stack:
        source = stack.enter_context(open_attention(paths[0])) if first == "attention" else paths[0]
        return read(source, **accepted)


def _accepted(kind: str, options: Mapping[str, Any], progress: Progress) -> dict[str, Any]:
    """The options as `read` takes them. Raises: SettingsError for one that it does not take or lacks."""
    parameters = inspect.signature(_function(PICTURES[kind].read)).parameters
    accepted = dict(options)
    names = [name for option in _SAMPLES for name in _names(accepted.pop(option, ()))]
    target = next((option for option in _SAMPLES if option in parameters), None)
    if target in ("gene", "sample") and len(names) != 1 and (names or target == "gene"):
        raise SettingsError(f"the picture {kind} is of one {target}; name it with --{target}")
    if names and target is not None:
        accepted[target] = names[0] if target in ("gene", "sample") else names
    elif names:
        accepted["sample"] = names
    for name, value in accepted.items():
        if name not in parameters:
            known = {_FLAGS.get(each, each) for each in list(parameters)[1:] if each != "progress"}
            flags = ", ".join(f"--{each.replace('_', '-')}" for each in sorted(known)) or "none but --width"
            given = f"--{_FLAGS.get(name, name).replace('_', '-')}"
            what = f"{given} {name.replace('_', '-')}" if given == "--as" else given
            raise SettingsError(f"{what}: the picture {kind} takes no such option; it takes {flags}")
        if parameters[name].annotation in (Path, Path | None):
            accepted[name] = Path(value)
    return accepted | ({"progress": progress} if "progress" in parameters else {})


def _names(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _typed(result: Any, kind: str | None, options: Mapping[str, Any]) -> tuple[str, Any]:
    """The picture and its data of a result in memory. Raises: SettingsError for another result."""
    of_class = {picture.data: name for name, picture in PICTURES.items()}
    named = of_class.get(type(result).__name__)
    if named is None:
        named, result = _of_arrays(result, kind, options.pop("show", ()))  # type: ignore[attr-defined]
    if kind not in (None, named) or options:
        raise SettingsError(f"{type(result).__name__}: the picture is {named}, and takes no option but width")
    return named, result


def _of_arrays(result: Any, kind: str | None, show: Sequence[str]) -> tuple[str, Any]:
    if hasattr(result, "columns"):
        return _of_frame(result, kind, show)
    if not isinstance(result, np.ndarray) or kind not in ("contacts", "pae", "plddt", "logos"):
        raise SettingsError(
            f"a {type(result).__name__} cannot be drawn; give a path, the data of a picture, or an array with the "
            "kind contacts, pae, plddt or logos"
        )
    return kind, _of_array(np.asarray(result, dtype=np.float64), kind)


def _of_array(values: "np.ndarray[Any, np.dtype[np.float64]]", kind: str) -> Any:
    """Raises: SettingsError for an array of another shape than the picture needs."""
    from bioattn.figures.confidence import PlddtChains
    from bioattn.figures.contact_map import ContactPicture
    from bioattn.figures.contact_prediction import UNKNOWN, ContactPrediction
    from bioattn.figures.motif_logos import Logos
    from bioattn.formats.meme import Motif
    from bioattn.structures.predictions import AlignedError, Confidence

    size = len(values)
    wanted = {"plddt": (size,), "logos": (size, 4)}.get(kind, (size, size))
    if values.shape != wanted:
        raise SettingsError(f"the array has shape {values.shape}; the picture {kind} needs {wanted}")
    if kind == "plddt":
        return PlddtChains([Confidence("prediction", list(range(1, size + 1)), values)])
    if kind == "logos":
        return Logos([Motif(name="motif", probabilities=values)])
    if kind == "pae":
        return AlignedError("prediction", values)
    quantity = "probability" if np.nanmin(values) >= 0 and np.nanmax(values) <= 1 else "score"
    return ContactPicture(
        ContactPrediction(name="prediction", letters=UNKNOWN * size, scores=values, quantity=quantity)
    )


def _of_frame(frame: "pd.DataFrame", kind: str | None, show: Sequence[str]) -> tuple[str, Any]:
    """A table of contacts as `export contacts` writes it, or a history with the column epoch or step."""
    from bioattn.figures.contact_map import ContactPicture
    from bioattn.figures.contact_prediction import contacts_of_table
    from bioattn.figures.curves import training_picture
    from bioattn.models.training_history import TrainingHistory

    named = _of_columns([str(name) for name in frame.columns])
    if not named or kind not in (None, *named):
        raise SettingsError(
            f"a table with the columns {listed(list(map(str, frame.columns)))} cannot be drawn"
        )
    if named == ("contacts",):
        return "contacts", ContactPicture(contacts_of_table(frame, "the table", None))
    columns = {str(name): frame[name].to_numpy(np.float64) for name in frame.columns}
    history = TrainingHistory(name="training", time=str(frame.columns[0]), columns=columns, best=None)
    return "training", training_picture([history], show)


def _function(name: str) -> Any:
    module, names = name.split(":")
    found = import_module(module if "." in module else f"bioattn.figures.{module}")
    return reduce(getattr, names.split("."), found)
