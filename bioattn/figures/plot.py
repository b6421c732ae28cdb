"""`plot` draws any result: its kind decides which picture, and the `read` function of that which options.

A picture has two functions: one reads its typed data from files, the other draws them.
"""

import inspect
from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bioattn.checks.record import NEGATIVE
from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import style
from bioattn.inference.inputs import python_warnings
from bioattn.interpret.file_kinds import MEME, MOTIF_FOLDER
from bioattn.store.kinds import Candidate, find_kind, recognise
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
        "treatment_maps:read_treatment_heatmap", "treatment_maps:draw_treatment_heatmap", "TreatmentHeatmap"
    ),
    "heads": Picture("head_grid:read_head_grid", "head_grid:draw_head_grid", "HeadGrid"),
    "arcs": Picture("alignments:read_arcs", "alignments:draw_arcs", "ArcPicture"),
    "alignment": Picture("alignments:read_alignments", "alignments:draw_alignments", "AlignmentPicture", 120),
    "molecule": Picture("molecule:read_coloured_molecule", "molecule:draw_molecule", "ColouredMolecule", 85),
    "response": Picture("curves:read_shown_curves", "curves:draw_response_curves", "ResponseCurves", 120),
    "contacts": Picture(
        "structures:read_contact_picture", "structures:draw_contact_map", "ContactPicture", 85
    ),
    "distogram": Picture("structures:read_distogram", "structures:draw_distogram", "DistogramPicture"),
    "pae": Picture(
        "bioattn.structures.predictions:read_aligned_error",
        "structures:draw_aligned_error",
        "AlignedError",
        85,
    ),
    "plddt": Picture("structures:read_plddt_chains", "structures:draw_plddt", "PlddtChains", 120),
    "logos": Picture("motif_logos:read_logos", "motif_logos:draw_logos", "Logos"),
    "training": Picture("curves:read_training", "curves:draw_training", "TrainingPicture"),
    "check": Picture("bioattn.checks.record:read_check", "curves:draw_check", "CheckRecord"),
    "designs": Picture(
        "bioattn.interpret.design_record:DesignsCheck.read", "curves:draw_designs", "DesignsCheck", 120
    ),
}
_OF_FILES = {
    "prediction": "contacts",
    "predictions": "contacts",
    "distogram": "distogram",
    "contacts": "contacts",
    "aligned_error": "pae",
    "structure": "plddt",
    "motif-database": "logos",
    "response-curve": "response",
    "designs-check": "designs",
    "check": "check",
}
"""The picture that is drawn of a kind of file unless --kind says otherwise."""
_OF_ATTENTION = {
    "promoters": "attention",
    "alignments": "heads",
    "sequences": "heads",
    "molecules": "molecule",
}
"""The picture of attention, by what it is over; of all others `alignment`."""
_BESIDE = {
    "attribution": ("attribution",),
    "promoters": ("promoters",),
    "motif-database": ("motifs",),
    "table": ("motifs", "truth"),
    "bed": ("motifs", "truth"),
    "structure": ("truth",),
    "contact-dataset": ("truth",),
}
"""Which option of a picture a further file is, by its kind."""
_WAYS = ("upsampling", "corrected", "weights", "cluster", "by_attention")
_FLAGS = {"treatments": "treatment"} | dict.fromkeys(_WAYS, "as")
"""How options are called on the command line where it is not their name."""
_OF_MAPS = ("attention", "heatmap", "heads")
"""Pictures of maps, which a check judges."""
_SAMPLES = ("gene", "genes", "sample", "samples")
"""What pictures call the samples that they draw: one that is needed, any number, at most one, any number."""


def plot(result: Any, kind: str | None = None, **options: Any) -> "Figure":
    """Draw a result.

    result: the path of a file or folder, or several: those of one figure (runs for `training`, structures for
    `plddt`), or a result and files to be drawn with it (see `bioattn plot --help`). Or attention in memory or an
    open file (`attribution=` draws what `model.attribute` gave with it), a check, the typed data of a picture, or
    a DataFrame of contacts or of a training's history.
    kind: a name of `PICTURES`; None = the one for this kind of result.
    options: `width` in millimetres; `verdict`, False for no word in the corner on maps that the check at the
    end of the training did not believe; `gene`, `sample` or `treatment`, a name or several; and those of the
    picture's `read` function (such as `read_promoter_picture`).

    Returns a Matplotlib figure.

    Raises: SettingsError for options that the picture does not take; BioattnError for what a file does not hold.
    """
    with python_warnings():
        return draw(result, kind, **options)[0]


def draw(
    result: Any,
    kind: str | None = None,
    *,
    width: float | None = None,
    verdict: bool = True,
    progress: Progress = SILENT,
    **options: Any,
) -> tuple["Figure", dict[str, Any]]:
    """As `plot`, with what a run record says of the figure."""
    if kind is not None and kind not in PICTURES:
        raise SettingsError(f"--kind {kind!r}: the pictures are {', '.join(PICTURES)}")
    options = {name: value for name, value in options.items() if value not in (None, (), [])}
    if "treatment" in options:
        options["treatments"] = options.pop("treatment")
    names: list[str] = []
    for option in _SAMPLES:
        value = options.pop(option, ())
        names += [value] if isinstance(value, str) else value
    several = result if type(result) in (list, tuple) else [result]
    paths = [Path(each) for each in several if isinstance(each, str | Path)]
    # Of a folder of motifs its matrices are drawn.
    paths = [path / MEME if (path / MOTIF_FOLDER.record).is_file() else path for path in paths]
    source = several[0] if several else None
    if isinstance(source, Attention):
        kind = kind or _of_attention(source, len(names))
        data = _read(kind, source, paths, names, options, progress)
    elif paths:
        source, *others = paths
        kind = kind or _default_kind(source, len(names))
        data = _read(kind, source, others, names, options, progress)
    else:
        kind, data = _typed(result, kind, options)
    picture = PICTURES[kind]
    figure = _function(picture.draw)(data, width or picture.width)
    if verdict and kind in _OF_MAPS and (code := _verdict(source)) in NEGATIVE:
        text = f"maps not to be believed: {code.replace('-', ' ')} (bioattn explain check)"
        look = {"color": style.ORANGE, "fontsize": style.SMALL_FONT}
        figure.supxlabel(text, x=0.998, ha="right", **look)  # for which the layout makes room
    return figure, data.record() if hasattr(data, "record") else {}


def _verdict(source: Any) -> str:
    """Code of the verdict on the maps of a file; empty where it knows none."""
    if isinstance(source, Attention):
        return source.verdict
    if not isinstance(source, Path) or recognise(source).name != "attention":
        return ""
    with open_attention(source) as attention:
        return attention.verdict


def _default_kind(path: Path, num_samples: int) -> str:
    """Raises: BioattnError for a file of which nothing can be drawn."""
    kind = recognise(path)
    if kind.name == "attention":
        with open_attention(path) as attention:
            return _of_attention(attention, num_samples)
    candidate = Candidate(path)
    known = "training" if kind.is_model else _OF_FILES.get(kind.name)
    if known is None and kind.name == "table":
        known = _of_columns(candidate.columns)
    elif known is None:  # what is known of another program's JSON
        content = candidate.json
        content = content[0] if isinstance(content, list) and content else content
        keys = set(content) if isinstance(content, dict) else set()
        if keys & {"plddt", "confidenceScore"}:
            known = "plddt"
        elif keys & {"predicted_aligned_error", "pae", "distance"}:
            known = "pae"
    if known is None and _BESIDE.get(kind.name) in (("attribution",), ("promoters",)):
        raise BioattnError(
            f"{path} ({kind.title}): is drawn with attention: name the attention file before it"
        )
    if known is None:
        raise BioattnError(
            f"{path} ({kind.title}): there is no picture of it; --kind chooses one of {', '.join(PICTURES)}"
        )
    return known


def _of_attention(attention: Attention, num_samples: int) -> str:
    """Of promoters the picture of one gene, where one is named, else the heatmap over genes."""
    kind = _OF_ATTENTION.get(attention.inputs, "alignment")
    return "heatmap" if kind == "attention" and num_samples != 1 else kind


def _of_columns(columns: Sequence[str]) -> str | None:
    if columns[0] in ("epoch", "step"):
        return "training"
    return "contacts" if {"column_i", "column_j"} <= set(columns) else None


def _read(
    kind: str,
    source: Path | Attention,
    others: Sequence[Path],
    names: Sequence[str],
    options: dict[str, Any],
    progress: Progress,
) -> Any:
    """The typed data of a picture of a file and `others` that are drawn with it. names: of samples.

    Raises: SettingsError for an option that the picture's `read` does not take or lacks.
    """
    read = _function(PICTURES[kind].read)
    parameters = inspect.signature(read).parameters
    first, *known = parameters
    for path in others if first != "paths" else ():
        other = find_kind(Candidate(path))
        name = next((name for name in _BESIDE.get(other.name if other else "", ()) if name in known), None)
        if name is None or name in options:
            what = "a file of no known kind" if other is None else other.title
            raise BioattnError(f"{path}: is {what}; the picture {kind} of {source} does not take it")
        options[name] = path
    accepted = dict(options)
    target = next((option for option in _SAMPLES if option in known), None)
    if target in ("gene", "sample") and len(names) != 1 and (names or target == "gene"):
        raise SettingsError(f"the picture {kind} is of one {target}; name it with --{target}")
    if names:
        accepted[target or "sample"] = names[0] if target in ("gene", "sample") else names
    for name, value in accepted.items():
        if name not in parameters:
            # Files are given by their names alone.
            unnamed = {"progress", *(each for beside in _BESIDE.values() for each in beside)}
            options_of = {_FLAGS.get(each, each) for each in known if each not in unnamed}
            flags = ", ".join(f"--{each.replace('_', '-')}" for each in sorted(options_of))
            given = f"--{_FLAGS.get(name, name).replace('_', '-')}"
            what = f"{given} {name.replace('_', '-')}" if given == "--as" else given
            takes = flags or "none but --width"
            raise SettingsError(f"{what}: the picture {kind} takes no such option; it takes {takes}")
        kinds = str(parameters[name].annotation)
        if isinstance(value, str) and "Path" in kinds:
            accepted[name] = Path(value)
        elif isinstance(value, str | int) and "Sequence[" in kinds:
            accepted[name] = [value]
    if "progress" in known:
        accepted["progress"] = progress
    if first == "paths":
        return read([source, *others], **accepted)
    if first == "attention" and isinstance(source, Path):
        with open_attention(source) as attention:
            return read(attention, **accepted)
    return read(source, **accepted)


def _typed(result: Any, kind: str | None, options: dict[str, Any]) -> tuple[str, Any]:
    """The picture and its data of a result in memory. Raises: SettingsError for another result."""
    of_class = {picture.data: name for name, picture in PICTURES.items()}
    named = of_class.get(type(result).__name__)
    if hasattr(result, "columns"):
        named, result = _of_frame(result, kind, options.pop("show", ()))
    elif named is None:
        raise SettingsError(f"{type(result).__name__}: cannot be drawn; give a path or the data of a picture")
    if kind not in (None, named) or options:
        raise SettingsError(f"{type(result).__name__}: the picture is {named}, and takes no option but width")
    return named, result


def _of_frame(frame: "pd.DataFrame", kind: str | None, show: Sequence[str]) -> tuple[str, Any]:
    """A table of contacts as `export contacts` writes it, or a history with the column epoch or step."""
    from bioattn.figures.contact_prediction import contacts_of_table
    from bioattn.figures.curves import training_picture
    from bioattn.figures.structures import ContactPicture
    from bioattn.models.evaluation import TrainingHistory

    named = _of_columns([str(name) for name in frame.columns])
    if named is None or kind not in (None, named):
        names = listed(list(map(str, frame.columns)))
        raise SettingsError(f"a table with the columns {names} cannot be drawn")
    if named == "contacts":
        return "contacts", ContactPicture(contacts_of_table(frame, "the table", None))
    columns = {str(name): frame[name].to_numpy(np.float64) for name in frame.columns}
    history = TrainingHistory(name="training", time=str(frame.columns[0]), columns=columns, best=None)
    return "training", training_picture([history], show)


def _function(name: str) -> Any:
    module, names = name.split(":")
    imported = import_module(module if "." in module else f"bioattn.figures.{module}")
    return reduce(getattr, names.split("."), imported)
