"""Loading published parameters into a model, and writing a model's parameters in the published forms.

Arrays go one by one from the file into the place that waits for them: parameters are never in memory twice.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bioattn.errors import BioattnError
from bioattn.files import atomic_output
from bioattn.formats.npz import npz_output
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_config import infer_config
from bioattn.models.evoformer.parameter_files import ALPHAFOLD_PREFIX, ParameterFile, open_parameters
from bioattn.models.evoformer.parameter_layout import from_canonical
from bioattn.models.evoformer.parameter_shapes import ModelRow, model_rows

LOGGER = logging.getLogger("bioattn")


def load_parameters(path: Path, num_structure_layers: int | None = None) -> EvoformerModel:
    """The model that the parameters of AlphaFold (`.npz`) or OpenFold (`.pt`) belong to, on the CPU.

    num_structure_layers: layers of the structure module, which share their weights and so cannot be counted;
    None = the 8 of AlphaFold 2.

    Raises: FormatError naming arrays that are missing, extra or misshapen, parameters of AlphaFold-Multimer, or
    pickled objects.
    """
    with open_parameters(path) as file:
        config = infer_config(file, num_structure_layers)
        rows = model_rows(config)
        file.check(rows)
        model = allocate_model(config)
        targets = model.state_dict()
        with torch.no_grad():
            for row in rows:
                for name, array in zip(row.our_names(), _per_block(file, row), strict=True):
                    targets[name][row.place].copy_(torch.from_numpy(array))
    return model


def allocate_model(config: EvoformerConfig) -> EvoformerModel:
    """A model on the CPU whose parameters are not initialised yet: drawing 93 million numbers takes seconds."""
    with torch.device("meta"):
        model = EvoformerModel(config)
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(torch.empty(parameter.shape)))
        for name, buffer in module.named_buffers(recurse=False):
            if buffer.is_meta:
                raise RuntimeError(f"the buffer {name} of {type(module).__name__} has no content")
    return model


def export_alphafold(source: ParameterFile, config: EvoformerConfig, output: Path) -> int:
    """Write AlphaFold's `.npz`; returns the number of arrays. Raises: BioattnError when it cannot be written."""
    rows = checked_rows(source, config)
    with npz_output(output) as archive:
        for row in rows:
            array = from_canonical(
                source.read(row), row.row.layout, row.num_heads, stacked=row.num_blocks is not None
            )
            archive.write(ALPHAFOLD_PREFIX + row.row.alphafold, array)
    return len(rows)


def export_openfold(source: ParameterFile, config: EvoformerConfig, output: Path) -> int:
    """Write a state dict with OpenFold's names; returns the number of tensors.

    Raises: BioattnError when it cannot be written.
    """
    tensors: dict[str, torch.Tensor] = {}
    for row in checked_rows(source, config):
        for name, array in zip(row.canonical_names(), _per_block(source, row), strict=True):
            # A copy of its own: torch would store all that a view is a view of.
            tensors[name] = torch.from_numpy(array.copy(order="C"))
    # Through an open file: given a name, torch writes that name, the temporary one, into the file.
    with atomic_output(output) as temporary, temporary.open("wb") as file:
        torch.save(tensors, file)
    return len(tensors)


def checked_rows(source: ParameterFile, config: EvoformerConfig) -> list[ModelRow]:
    """The rows of the table the model has, when they are all of the model.

    Raises: BioattnError when the model does something that the published forms have no place for; FormatError as
    `ParameterFile.check`.
    """
    if config.uniform_msa_attention:
        raise BioattnError(
            f"{source.path}: the model attends uniformly, which neither AlphaFold's nor OpenFold's files can say"
        )
    rows = model_rows(config)
    source.check(rows)
    return rows


def _per_block(source: ParameterFile, row: ModelRow) -> Iterator[NDArray[np.float32]]:
    array = source.read(row)
    yield from (array if row.num_blocks is not None else [array])
