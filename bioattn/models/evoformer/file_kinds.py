"""The kinds of files that MSA/pair models own: model folders, published parameters, predictions and their files.

`docs/formats/evoformer-output.md` is the contract of predictions.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h5py

from bioattn.alignments.templates import TEMPLATES, read_templates
from bioattn.errors import FormatError
from bioattn.formats.rr import read_rr
from bioattn.io.dataset_file import DatasetKind
from bioattn.io.files import read_json
from bioattn.io.hdf5 import open_hdf5, text_attribute
from bioattn.models.evoformer.family import FAMILY
from bioattn.models.family import CONFIG, imported
from bioattn.models.file_kinds import model_kind, trained_figures
from bioattn.store.inspection import several_results, validate_members
from bioattn.store.kinds import FileKind, Problem, Sample, folder_with, hdf5, shown_as
from bioattn.structures.predictions import (
    ALIGNED_ERROR,
    DISTANCES,
    DISTOGRAM,
    REPRESENTATIONS,
    SCORES,
    read_aligned_error,
    read_distances,
    read_scores,
)
from bioattn.system.progress import Progress
from bioattn.text import some

_OF_CONTACTS: tuple[str, ...] = ("contacts.rr", "contacts.tsv", DISTOGRAM)
_OF_STRUCTURES = ("structure.cif",)
_VALIDATED = (".cif", ".h5", ".pdb", ".rr", ".tsv")
"""Files of a prediction that are valid or not on their own."""
_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80\x02"


def _describe_model(folder: Path) -> dict[str, Any]:
    import torch

    from bioattn.models.evoformer.parameter_export import describe_architecture
    from bioattn.models.evoformer.run import load_evoformer_model

    model = load_evoformer_model(folder, torch.device("cpu"))
    return {
        "generated_by": read_json(folder / CONFIG).get("generated_by"),
        "sha256": model.sha256,
        **describe_architecture(model.config),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "attention_sites": some(list(model.sites)),
        **trained_figures(folder),
    }


def _describe_templates(path: Path) -> dict[str, Any]:
    templates = read_templates(path)
    return {
        "query": templates.query,
        "templates": templates.names,
        "coverage": templates.coverage.round(3).tolist(),
        "identity": templates.identity.round(3).tolist(),
    }


def _describe_prediction(folder: Path) -> dict[str, Any]:
    scores = read_scores(folder)
    expected = _OF_CONTACTS if "contact_pairs" in scores else ()
    expected += _OF_STRUCTURES if "plddt" in scores else ()
    missing = [name for name in expected if not (folder / name).is_file()]
    if missing:
        raise FormatError(
            f"{folder}: {', '.join(missing)} of the prediction is missing; run it again with --force"
        )
    kept = {name: value for name, value in scores.items() if name not in ("format", "plddt", "settings")}
    return {**kept, "files": sorted(each.name for each in folder.iterdir() if each.is_file())}


def _validate_prediction(folder: Path, progress: Progress) -> list[Problem]:
    """Every file of a prediction."""
    _describe_prediction(folder)
    members = (each for each in folder.iterdir() if each.suffix in _VALIDATED or each.name == ALIGNED_ERROR)
    return validate_members(members, progress)


def _sample(folder: Path) -> Sample:
    scores = read_scores(folder)
    general: dict[str, Any] = {}
    if "contact_pairs" in scores:
        pairs = read_rr(folder / "contacts.rr").pairs
        # As many of the likeliest contacts as columns were used.
        likeliest = sorted((pair.probability for pair in pairs), reverse=True)[: scores["columns_used"]]
        if likeliest:
            general["contact_probability"] = round(sum(likeliest) / len(likeliest), 6)
    if "mean_plddt" in scores:
        general["plddt"] = scores["mean_plddt"]
    figures = {"rows": scores["rows"], "columns": scores["columns"], **general}
    return Sample(scores["id"], {"general": general, "predictions": figures})


def describe_arrays(path: Path) -> dict[str, Any]:
    """Main figures of a file of distances or representations. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        arrays = {
            name: " × ".join(map(str, node.shape))
            for name, node in file.items()
            if isinstance(node, h5py.Dataset) and node.ndim > 1
        }
        columns = len(file["column_i"])
        return {
            "format_version": int(file.attrs.get("format_version", 0)),
            "generated_by": text_attribute(file, "generated_by"),
            "id": text_attribute(file, "id"),
            "target": text_attribute(file, "target"),
            "columns": columns,
            "model_sha256": text_attribute(file, "model_sha256"),
            "input_sha256": text_attribute(file, "input_sha256"),
            "arrays": arrays,
        }


def _validate_arrays(kind: DatasetKind, path: Path, _progress: Progress) -> list[Problem]:
    """Read every chunk, which has a checksum. Raises: FormatError when one does not match."""
    with kind.open(path) as arrays:
        for node in arrays.file.values():
            for chunk in node.iter_chunks():
                node[chunk]
    return []


FILE_KINDS: Sequence[FileKind] = (
    model_kind(FAMILY, _describe_model, title="MSA/pair model folder", slot="evoformer_model"),
    FileKind(
        name="parameters",
        title="parameters of an MSA/pair model",
        # an archive of arrays (AlphaFold's parameters) or a PyTorch checkpoint, new or old
        matches=lambda candidate: candidate.magic.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)),
        describe=imported("evoformer.parameter_export", "describe_parameters"),
        validate=imported("evoformer.parameter_export", "validate_parameters"),
        is_model=True,
        order=-2,
    ),
    FileKind(
        name="prediction",
        title="prediction of an MSA/pair model",
        matches=folder_with(SCORES),
        describe=_describe_prediction,
        validate=_validate_prediction,
        report=shown_as("prediction", _describe_prediction),
        multiqc=_sample,
    ),
    several_results(
        "predictions",
        "folder of predictions",
        SCORES,
        order=2,
    ),
    FileKind(
        name="aligned_error",
        title="predicted aligned error",
        matches=lambda candidate: candidate.head.startswith(b'[{"predicted_aligned_error"'),
        describe=lambda path: {"residues": len(read_aligned_error(path).errors_RR)},
    ),
    FileKind(
        name="distogram",
        title="predicted distances",
        matches=hdf5(DISTANCES.format),
        describe=describe_arrays,
        read=read_distances,
        validate=partial(_validate_arrays, DISTANCES),
    ),
    FileKind(
        name="templates",
        title="templates for an MSA/pair model",
        matches=hdf5(TEMPLATES.format),
        describe=_describe_templates,
        read=read_templates,
    ),
    FileKind(
        name="representations",
        title="representations of an MSA/pair model",
        matches=hdf5(REPRESENTATIONS.format),
        describe=describe_arrays,
        validate=partial(_validate_arrays, REPRESENTATIONS),
    ),
)
