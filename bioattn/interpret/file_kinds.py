"""The kinds of files that interpretation writes: its folders with their records, and contact regressions.

The pages of `docs/formats` and `docs/heads.md` are the contract; the modules `export` and `report` write them.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bioattn.interpret.design_record import DESIGNS_FORMAT, DesignsCheck
from bioattn.interpret.response_curve import FORMAT as CURVE_FORMAT
from bioattn.interpret.response_curve import ResponseCurves
from bioattn.io.files import read_json
from bioattn.io.hdf5 import damage_named, open_hdf5
from bioattn.store.kinds import FileKind, ReportInput, ResultTable, hdf5, json_object
from bioattn.store.recorded_folder import RecordedFolder, without
from bioattn.text import some

STRANDS = {"+": "plus", "-": "minus"}
MEME, MOTIFS, TREATMENTS, EDGES, LOGOS = "motifs.meme", "motifs.tsv", "treatments.tsv", "edges.tsv", "logos"
HEADS, PRUNING = "heads.tsv", "pruning.tsv"
ANNDATA_FORMAT = "bioattn-anndata"
REGRESSION_FORMAT = "bioattn-contact-regression"
SEQUENCES, GENES = "sequences.npz", "genes.tsv"
_UNSAFE = re.compile(r"[^A-Za-z0-9.+-]+")
_LONGEST_NAME = 80
_HEADER = ("format", "format_version", "generated_by")


def file_stems(names: Iterable[str]) -> list[str]:
    """A file name for each name of a treatment: safe everywhere, and no two alike, also where case does not count.

    >>> file_stems(["heat 37 °C", "heat-37 C", "Heat 37 C", "+/-"])
    ['heat_37_C', 'heat-37_C', 'Heat_37_C-2', '+_-']
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = _UNSAFE.sub("_", plain).strip("._")[:_LONGEST_NAME] or "treatment"
        number, unique = 1, stem
        while unique.casefold() in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique.casefold())
        stems.append(unique)
    return stems


def _track_figures(record: Mapping[str, Any]) -> dict[str, Any]:
    titles = []
    for track in record["tracks"]:
        name, reference = track.get("treatment") or "all treatments", track.get("reference")
        titles.append(str(name) if reference is None else f"{name} minus {reference}")
    return {
        "tracks": some(titles),
        "files": some(record["files"]),
        "chromosomes": some(list(record.get("chromosomes", []))),
        **without(record, *_HEADER, "tracks", "files", "chromosomes"),
    }


TRACK_FOLDER = RecordedFolder(
    what="tracks",
    format="bioattn-tracks",
    format_version="1.0",
    record="tracks.json",
    own_names=("*.plus.bw", "*.minus.bw", "*.bedgraph", "*.bedgraph.gz", "*.genes.tsv", "*.genes.tsv.gz"),
    figures=_track_figures,
)
MOTIF_FOLDER = RecordedFolder(
    what="motifs",
    format="bioattn-motifs",
    format_version="1.0",
    record="motifs.json",
    own_names=("motifs.meme", "motifs.tsv", "treatments.tsv", "edges.tsv", "logos/*.svg"),
    figures=lambda record: {
        "files": some(record["files"]),
        **without(record, *_HEADER, "files", "sources", "settings"),
        **record["settings"],
    },
)
HEAD_FOLDER = RecordedFolder(
    what="tables of heads",
    format="bioattn-heads",
    format_version="1.0",
    record="heads.json",
    own_names=tuple(
        f"{table}.tsv" for table in ("heads", "treatments", "proteins", "windows", "pairs", "pruning")
    ),
    figures=lambda record: without(record, "format", "files"),
)
ARRAY_FOLDER = RecordedFolder(
    what="attribution arrays",
    format="bioattn-attribution-arrays",
    format_version="1.0",
    record="arrays.json",
    # What `file_stems` leaves of a treatment's name.
    own_names=("treatments.tsv", "genes.tsv", "*.npz"),
    figures=lambda record: {
        "treatments": some(list(record.get("treatments", []))),
        **without(record, *_HEADER, "treatments", "files"),
    },
)


def _describe_anndata(path: Path) -> dict[str, Any]:
    with open_hdf5(path) as file, damage_named(path):
        known = {name: value[()] for name, value in file["uns/bioattn"].items() if value.ndim == 0}
        return {
            "observations": file["obs/_index"].size,
            "variables": file["var/_index"].size,
            "maps": some([*file["obsm"], *file["layers"]]),
            **{
                name: value.decode() if isinstance(value, bytes) else value.item()
                for name, value in sorted(known.items())
                if name != "generated_by"
            },
        }


def _describe_regression(path: Path) -> dict[str, Any]:
    from bioattn.interpret.contacts import read_regression  # with SciPy and Biopython, which take long

    regression = read_regression(path)
    return {
        "model_sha256": regression.model_sha256,
        "proteins": some(regression.proteins),
        "sites": len(regression.weights),
        "heads": sum(map(len, regression.weights.values())),
        "heads_in_use": regression.num_heads_used,
    }


def _describe_designs(path: Path) -> dict[str, Any]:
    check = DesignsCheck.read(path)
    return {"verdict": check.code, "sentences": list(check.sentences), **check.settings}


def _report_designs(path: Path) -> ReportInput:
    check = DesignsCheck.read(path)
    columns = ["sequences", "gain by held-out oracle", "by the guide", "6-mer distance", "near training"]
    measures = ["effect", "effect_guide", "distance_6", "near_training"]
    if any(each.effect_model is not None for each in check.rows):
        columns.append("by the promoter model")
        measures.append("effect_model")
    rows = [
        [each.name, *(f"{getattr(each, measure):.2f}" for measure in measures)]
        for each in [*check.rows, *check.guidance]
    ]
    title = f"Designs: {check.code.replace('_', ' ')}"
    table = ResultTable(title=title, sentences=check.sentences, columns=columns, rows=rows)
    return ReportInput("results", _describe_designs(path), table)


FILE_KINDS: Sequence[FileKind] = (
    TRACK_FOLDER.kind("tracks", "folder of tracks along chromosomes"),
    MOTIF_FOLDER.kind(
        "motifs",
        "folder of motifs",
        report=lambda folder: ReportInput("motif_export", read_json(folder / MOTIF_FOLDER.record)),
    ),
    HEAD_FOLDER.kind("heads", "importance of attention heads"),
    ARRAY_FOLDER.kind("attribution-arrays", "folder of attribution as NumPy archives"),
    FileKind(
        name="anndata",
        title="AnnData of predictions or attention",
        matches=hdf5(ANNDATA_FORMAT),
        describe=_describe_anndata,
    ),
    FileKind(
        name="response-curve",
        title="curves of responses over dose or time",
        matches=json_object(CURVE_FORMAT),
        describe=lambda path: without(asdict(ResponseCurves.read(path)), "series"),
        read=ResponseCurves.read,
    ),
    FileKind(
        name="designs-check",
        title="check of designs",
        matches=json_object(DESIGNS_FORMAT),
        describe=_describe_designs,
        read=read_json,
        report=_report_designs,
    ),
    FileKind(
        name="contact-regression",
        title="contact regression of attention heads",
        matches=json_object(REGRESSION_FORMAT),
        describe=_describe_regression,
        read=read_json,
    ),
)
