"""What `bioattn inspect` and `bioattn validate` say of parameter files of AlphaFold and OpenFold."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

from bioattn.formats.npz import ARCHIVE_DAMAGE
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.parameters.files import open_parameters
from bioattn.models.evoformer.parameters.inferred_config import infer_config
from bioattn.models.evoformer.parameters.shapes import model_rows
from bioattn.store.problems import Problem, error, warning

_CHUNK = 1 << 22


def describe_parameters(path: Path) -> dict[str, Any]:
    """A parameter file by its names and shapes. Raises: FormatError when these are not those of a model."""
    with open_parameters(path) as file:
        config = infer_config(file)
        file.check(model_rows(config))
        return {
            "form": file.kind,
            **describe_architecture(config),
            "parameters": sum(math.prod(shape) for shape in file.shapes.values()),
        }


def validate_parameters(path: Path) -> list[Problem]:
    """Read every byte of a parameter file whose names and shapes `describe_parameters` found good.

    Raises: FormatError naming the array that is damaged or holds NaN or infinite values.
    """
    with open_parameters(path) as file:
        for row in model_rows(infer_config(file)):
            file.read(row)
    return _bad_check_sums(path) if zipfile.is_zipfile(path) else []


def _bad_check_sums(path: Path) -> list[Problem]:
    """Members whose bytes do not fit their check sum, those that no model uses among them."""
    problems = []
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
                problems.append(error(member.filename, f"is damaged ({problem}); fetch the file again"))
    return problems


def describe_architecture(config: EvoformerConfig) -> dict[str, Any]:
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
