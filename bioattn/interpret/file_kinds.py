"""The kinds of files that interpretation writes."""

from collections.abc import Sequence
from pathlib import Path

from bioattn.interpret.attribution.array_folder import ARRAY_FOLDER
from bioattn.interpret.contacts.contact_regression import REGRESSION_FORMAT, describe_regression
from bioattn.interpret.heads.head_folder import HEAD_FOLDER
from bioattn.interpret.motifs.motif_folder import MOTIF_FOLDER
from bioattn.interpret.tracks.track_folder import TRACK_FOLDER
from bioattn.io.files import read_json
from bioattn.store.kinds import FileKind, ReportInput, json_object


def _report_motifs(folder: Path) -> ReportInput:
    return ReportInput("motif_export", read_json(folder / MOTIF_FOLDER.record))


def file_kinds() -> Sequence[FileKind]:
    """The kinds that this room registers."""
    return (
        TRACK_FOLDER.kind("tracks", "folder of tracks along chromosomes"),
        MOTIF_FOLDER.kind("motifs", "folder of motifs", report=_report_motifs),
        HEAD_FOLDER.kind("heads", "importance of attention heads"),
        ARRAY_FOLDER.kind("attribution-arrays", "folder of attribution as NumPy archives"),
        FileKind(
            name="contact-regression",
            title="contact regression of attention heads",
            matches=json_object(REGRESSION_FORMAT),
            describe=describe_regression,
        ),
    )
