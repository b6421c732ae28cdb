"""Whether a file keeps its contract, whatever kind it is."""

import re
from dataclasses import replace
from pathlib import Path

from bioattn.errors import BioattnError
from bioattn.io.files import read_json, sha256_of
from bioattn.io.hdf5_input import is_hdf5, open_hdf5, text_attribute
from bioattn.store.alignment_attention_reader import is_over_alignments
from bioattn.store.array_folder import ARRAY_FOLDER
from bioattn.store.attention_validation import validate_attention
from bioattn.store.attribution_schema import ATTRIBUTION_FORMAT
from bioattn.store.attribution_validation import validate_attribution
from bioattn.store.distogram_file import (
    DISTOGRAM_FORMAT,
    REPRESENTATIONS_FORMAT,
    validate_prediction_file,
)
from bioattn.store.findings import Finding, Severity, error, warning
from bioattn.store.folder_inspection import is_prediction
from bioattn.store.head_folder import HEAD_FOLDER
from bioattn.store.inspection import inspect_file
from bioattn.store.model_inspection import validate_parameters
from bioattn.store.motif_folder import MOTIF_FOLDER
from bioattn.store.prediction_validation import compare_contacts
from bioattn.store.schema import FORMAT
from bioattn.store.shard_folder import SHARD_FILE, validate_shard_file
from bioattn.store.shard_record import shard_findings
from bioattn.store.track_folder import TRACK_FOLDER
from bioattn.system.progress import Progress

_WHOLE_FOLDERS = {
    "attribution-arrays": ARRAY_FOLDER.validate,
    "heads": HEAD_FOLDER.validate,
    "motifs": MOTIF_FOLDER.validate,
    "parameters": validate_parameters,
    "tracks": TRACK_FOLDER.validate,
}
"""What is checked as a whole and not file by file."""
_OF_A_PREDICTION = (".cif", ".h5", ".pdb", ".rr", ".tsv")


def validate_file(path: Path, progress: Progress | None = None) -> list[Finding]:
    """Everything wrong with a file of bioattn, or a folder of its files; all that is stored is read.

    A file whose run record (`<name>.run.json`) names another digest gets a warning. Raises: BioattnError when the
    file cannot be opened at all.
    """
    if not path.exists():
        raise BioattnError(f"{path}: no such file or folder")
    findings = _by_content(path, progress)
    return findings + _against_record(path)


def is_valid(findings: list[Finding]) -> bool:
    """Whether none of the findings is an error."""
    return not any(finding.severity is Severity.ERROR for finding in findings)


def _by_content(path: Path, progress: Progress | None) -> list[Finding]:
    try:
        if path.is_file() and is_hdf5(path):
            with open_hdf5(path) as file:
                kind = text_attribute(file, "format")
                shard = list(shard_findings(path, file, may_lack_samples=is_over_alignments(file)))
            if kind == FORMAT:
                return [*validate_attention(path, progress), *shard]
            if kind == ATTRIBUTION_FORMAT:
                return [*validate_attribution(path, progress), *shard]
            if kind == "bioattn-promoter-dataset":
                from bioattn.promoters.dataset import validate_dataset

                return [error("", message.removeprefix(f"{path}: ")) for message in validate_dataset(path)]
            if kind == "bioattn-contact-dataset":
                from bioattn.alignments.contact_dataset import validate_contact_dataset

                return [
                    error("", message.removeprefix(f"{path}: ")) for message in validate_contact_dataset(path)
                ]
            if kind in (DISTOGRAM_FORMAT, REPRESENTATIONS_FORMAT):
                return validate_prediction_file(path)
        description = inspect_file(path)
    except BioattnError as problem:
        return [_of_error(path, problem)]
    if description.kind in ("attention-parts", "attribution-parts"):
        return [error("", "is unfinished: repeat the command that made it with --resume")]
    if description.kind in _WHOLE_FOLDERS:
        try:
            return _WHOLE_FOLDERS[description.kind](path)
        except BioattnError as problem:
            return [_of_error(path, problem)]
    findings = [
        replace(finding, where=f"{part.name}{'/' if part.is_dir() else ' '}{finding.where}".rstrip(" /"))
        for part in _parts(path, description.kind)
        for finding in _by_content(part, progress)
    ]
    if (path / SHARD_FILE).is_file():
        findings += validate_shard_file(path)
    if description.kind == "prediction" and "contact_pairs" in description.figures and is_valid(findings):
        try:
            findings += compare_contacts(path)
        except BioattnError as problem:
            findings.append(_of_error(path, problem))
    return findings


def _of_error(path: Path, problem: BioattnError) -> Finding:
    """The sentence of an error as a finding, the line in its place."""
    sentence = str(problem)
    if located := re.match(re.escape(f"{path}:") + r"(\d+): ", sentence):
        return error(f"line {located[1]}", sentence[located.end() :])
    return error("", sentence.removeprefix(f"{path}: "))


def _parts(path: Path, kind: str) -> list[Path]:
    """What is validated on its own in a folder of predictions."""
    if kind == "predictions":
        return sorted(part for part in path.iterdir() if part.is_dir() and is_prediction(part))
    if kind == "prediction":
        return sorted(part for part in path.iterdir() if part.suffix in _OF_A_PREDICTION)
    return []


def _against_record(path: Path) -> list[Finding]:
    """Compare with the digest in the run record beside the file, if there is one."""
    record_path = path.with_name(path.name + ".run.json")
    if not (path.is_file() and record_path.is_file()):
        return []
    try:
        record = read_json(record_path)
        stored = record["output"]["sha256"]
    except (BioattnError, KeyError, TypeError):
        return [warning("", f"{record_path.name} beside it is unreadable")]
    if stored is not None and stored != sha256_of(path):
        return [warning("", f"is not the file that {record_path.name} speaks of (SHA-256 differs)")]
    return []
