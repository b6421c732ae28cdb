"""The kinds of files that MSA/pair models own: model folders, published parameters, predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.io.files import read_json
from bioattn.models.evoformer.family import FAMILY
from bioattn.models.evoformer.inference.prediction_validation import (
    REPRESENTATIONS_FORMAT,
    compare_contacts,
    describe_arrays,
    validate_arrays,
)
from bioattn.models.family import CONFIG, imported
from bioattn.models.model_kind import model_kind
from bioattn.store.inspection import is_valid, validate_members
from bioattn.store.kinds import FileKind, Sample, folder_with, hdf5, shown_as
from bioattn.store.problems import Problem
from bioattn.store.several_results import several_results
from bioattn.structures.confidence import ALIGNED_ERROR, read_aligned_error
from bioattn.structures.distogram_file import DISTOGRAM, DISTOGRAM_FORMAT, read_distances
from bioattn.structures.prediction_scores import SCORES, read_scores
from bioattn.structures.template_file import TEMPLATES_FORMAT, read_templates
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

    from bioattn.models.evoformer.folder import load_evoformer_model
    from bioattn.models.evoformer.parameters.export import describe_architecture

    model = load_evoformer_model(folder, torch.device("cpu"))
    return {
        "generated_by": read_json(folder / CONFIG).get("generated_by"),
        "sha256": model.sha256,
        **describe_architecture(model.config),
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "attention_sites": some(list(model.sites)),
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
    scores = read_json(folder / SCORES)
    if not isinstance(scores, dict) or scores.get("format") != "bioattn-prediction":
        raise FormatError(f"{folder / SCORES}: not the scores of a prediction of bioattn")
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
    """Every file of a prediction, and whether they say the same."""
    figures = _describe_prediction(folder)
    members = (each for each in folder.iterdir() if each.suffix in _VALIDATED or each.name == ALIGNED_ERROR)
    problems = validate_members(members, progress)
    if "contact_pairs" in figures and is_valid(problems):
        problems += compare_contacts(folder)
    return problems


def _sample(folder: Path) -> Sample:
    scores = read_scores(folder)
    general: dict[str, Any] = {}
    if (probability := scores.contact_probability()) is not None:
        general["contact_probability"] = probability
    if scores.plddt:
        general["plddt"] = round(sum(scores.plddt) / len(scores.plddt), 3)
    figures = {"rows": scores.rows, "columns": scores.columns, **general}
    return Sample(scores.id, {"general": general, "predictions": figures})


def _is_prediction(folder: Path) -> bool:
    """Whether a folder holds a prediction, or what is left of one."""
    return any((folder / name).is_file() for name in (SCORES, *_OF_CONTACTS, *_OF_STRUCTURES))


def _remains_of_prediction(folder: Path) -> str | None:
    if not _is_prediction(folder):
        return None
    return "a prediction without its scores.json; run it again with another --output"


def file_kinds() -> Sequence[FileKind]:
    return (
        model_kind(FAMILY, _describe_model, title="MSA/pair model folder", slot="evoformer_model"),
        FileKind(
            name="parameters",
            title="parameters of an MSA/pair model",
            # an archive of arrays (AlphaFold's parameters) or a PyTorch checkpoint, new or old
            matches=lambda candidate: candidate.magic.startswith((_ZIP_MAGIC, _PICKLE_MAGIC)),
            describe=imported("evoformer.parameters.export", "describe_parameters"),
            validate=imported("evoformer.parameters.export", "validate_parameters"),
            is_model=True,
            order=-2,
        ),
        FileKind(
            name="prediction",
            title="prediction of an MSA/pair model",
            matches=folder_with(SCORES),
            describe=_describe_prediction,
            validate=_validate_prediction,
            remains=_remains_of_prediction,
            report=shown_as("prediction", _describe_prediction),
            multiqc=_sample,
        ),
        several_results(
            "predictions",
            "folder of predictions",
            SCORES,
            *_OF_CONTACTS,
            *_OF_STRUCTURES,
            empty_parts=True,
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
            matches=hdf5(DISTOGRAM_FORMAT),
            describe=describe_arrays,
            read=lambda path: read_distances(path, with_entropy=True),
            validate=lambda path, _: validate_arrays(path),
        ),
        FileKind(
            name="templates",
            title="templates for an MSA/pair model",
            matches=hdf5(TEMPLATES_FORMAT),
            describe=_describe_templates,
            read=read_templates,
        ),
        FileKind(
            name="representations",
            title="representations of an MSA/pair model",
            matches=hdf5(REPRESENTATIONS_FORMAT),
            describe=describe_arrays,
            validate=lambda path, _: validate_arrays(path),
        ),
    )
