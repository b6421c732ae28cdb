"""What `inspect` says of models: folders, and parameter files of AlphaFold and OpenFold."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bioattn.formats.npz import ARCHIVE_DAMAGE
from bioattn.io.files import read_json, unreadable
from bioattn.store.description import Description, describe, some
from bioattn.store.findings import Finding, error, warning

if TYPE_CHECKING:
    from bioattn.models.evoformer.config import EvoformerConfig

_ZIP_MAGIC = b"PK\x03\x04"
_PICKLE_MAGIC = b"\x80\x02"
_CHUNK = 1 << 22


def looks_like_parameters(path: Path) -> bool:
    """Whether a file is an archive of arrays (AlphaFold's parameters) or a PyTorch checkpoint, new or old."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((_ZIP_MAGIC, _PICKLE_MAGIC))
    except OSError as problem:
        raise unreadable(path, problem) from problem


def inspect_model(path: Path) -> Description:
    """A model folder of any kind. Raises: FormatError when it is damaged."""
    from bioattn.models.model_folder import check_model_config

    content = read_json(path / "config.json")
    check_model_config(path / "config.json", content)
    if content.get("model_type") == "evoformer":
        return _evoformer_model(path)
    return _promoter_model(path)


def _evoformer_model(path: Path) -> Description:
    import torch

    from bioattn.models.evoformer.folder import load_evoformer_model

    model = load_evoformer_model(path, torch.device("cpu"))
    config = read_json(path / "config.json")
    return describe(
        "evoformer-model",
        generated_by=config.get("generated_by"),
        sha256=model.sha256,
        **_architecture(model.config),
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        attention_sites=some(list(model.sites)),
    )


def inspect_parameters(path: Path) -> Description:
    """A parameter file by its names and shapes. Raises: FormatError when these are not those of a model."""
    from bioattn.models.evoformer.parameters.files import open_parameters
    from bioattn.models.evoformer.parameters.inferred_config import infer_config
    from bioattn.models.evoformer.parameters.shapes import model_rows

    with open_parameters(path) as file:
        config = infer_config(file)
        file.check(model_rows(config))
        return describe(
            "parameters",
            form=file.kind,
            **_architecture(config),
            parameters=sum(math.prod(shape) for shape in file.shapes.values()),
        )


def validate_parameters(path: Path) -> list[Finding]:
    """Read every byte of a parameter file whose names and shapes `inspect_parameters` found good.

    Raises: FormatError naming the array that is damaged or holds NaN or infinite values.
    """
    from bioattn.models.evoformer.parameters.files import open_parameters
    from bioattn.models.evoformer.parameters.inferred_config import infer_config
    from bioattn.models.evoformer.parameters.shapes import model_rows

    with open_parameters(path) as file:
        for row in model_rows(infer_config(file)):
            file.read(row)
    return _bad_check_sums(path) if zipfile.is_zipfile(path) else []


def _bad_check_sums(path: Path) -> list[Finding]:
    """Members whose bytes do not fit their check sum, those that no model uses among them."""
    findings = []
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        # PyTorch can be told to leave them out (`torch.serialization.set_crc32_options`).
        if all(member.CRC == 0 for member in members if member.file_size):
            return [warning("", "was saved without check sums: whether it changed since cannot be told")]
        for member in members:
            try:
                with archive.open(member) as content:
                    while content.read(_CHUNK):
                        pass
            except (*ARCHIVE_DAMAGE, RuntimeError, EOFError, zlib.error) as problem:
                findings.append(error(member.filename, f"is damaged ({problem}); fetch the file again"))
    return findings


def _architecture(config: "EvoformerConfig") -> dict[str, Any]:
    """The figures people compare models by."""
    return {
        "blocks": config.num_blocks,
        "extra_msa_blocks": config.num_extra_msa_blocks,
        "msa_channels": config.msa_channels,
        "pair_channels": config.pair_channels,
        "msa_heads": config.msa_heads,
        "pair_heads": config.pair_heads,
        "recycling": config.recycling,
        "structure_module": config.structure_module is not None,
        "aligned_error_head": config.aligned_error_head,
        "pair_features": config.pair_features,
    }


def _promoter_model(path: Path) -> Description:
    import torch

    from bioattn.models.promoter.folder import load_promoter_model

    model = load_promoter_model(path, torch.device("cpu"))
    config = read_json(path / "config.json")
    return describe(
        "model",
        generated_by=config.get("generated_by"),
        task=model.task,
        length=model.length,
        conditioning=str(model.config.conditioning),
        treatment_encoder=str(model.config.treatment_encoder),
        unconditional=model.config.unconditional,
        reference_treatment=model.reference,
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        sha256=model.sha256,
        treatments=some(model.treatments.names),
        treatment_features=list(model.treatments.columns),
        attention_sites=list(model.sites),
    )
