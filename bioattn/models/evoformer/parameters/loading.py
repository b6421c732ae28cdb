"""Loading published parameters into a model.

Arrays are read one by one into the model's parameters, which are therefore never in memory twice.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.input_settings import InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameters.files import ParameterFile, open_parameters
from bioattn.models.evoformer.parameters.inferred_config import infer_config
from bioattn.models.evoformer.parameters.shapes import ModelRow, model_rows

LOGGER = logging.getLogger("bioattn")


def load_parameters(
    path: Path, num_structure_layers: int | None = None
) -> tuple[EvoformerModel, InputSettings]:
    """The model that the parameters of AlphaFold (`.npz`) or OpenFold (`.pt`) belong to, on the CPU, and how it
    wants alignments presented.

    num_structure_layers: layers of the structure module, which share their weights and so cannot be counted;
    None = the 8 of AlphaFold 2.

    Raises: FormatError naming arrays that are missing, extra or misshapen, parameters of AlphaFold-Multimer, or
    pickled objects.
    """
    with open_parameters(path) as file:
        config = infer_config(file, num_structure_layers)
        if config.structure_module is not None and num_structure_layers is None:
            _tell_assumed_layers(path, config)
        rows = model_rows(config)
        file.check(rows)
        model = allocate_model(config)
        targets = model.state_dict()
        with torch.no_grad():
            for row in rows:
                for name, array in zip(row.our_names(), per_block(file, row), strict=True):
                    targets[name][row.place].copy_(torch.from_numpy(array))
    inputs = published_inputs(path, has_templates=file.has_templates)
    return model, inputs if config.recycling else replace(inputs, num_recycles=0)


def _tell_assumed_layers(path: Path, config: EvoformerConfig) -> None:
    assert config.structure_module is not None
    published = EvoformerConfig()
    unusual = (config.msa_channels, config.num_blocks) != (published.msa_channels, published.num_blocks)
    tell = LOGGER.warning if unusual else LOGGER.debug
    tell(
        f"{path}: parameters do not tell how many layers the structure module has (they share their weights); "
        f"{config.structure_module.num_layers} are assumed; structure_layers (in "
        "[parameters] of --config, or --structure-layers) says otherwise"
    )


def published_inputs(path: Path, *, has_templates: bool) -> InputSettings:
    """Numbers of rows that the published models take (AlphaFold's `config.py`).

    Models with a template embedder (1 and 2) keep 4 of 512 places for templates. Models 2 and 5 take 1,024 extra
    rows instead of 5,120, which only the file's name tells: `params_model_2_ptm.npz`.
    """
    few = re.search(r"model_[25](?![0-9])", path.name) is not None
    return InputSettings(max_msa_clusters=512 - 4 * has_templates, max_extra_msa=1024 if few else 5120)


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


def per_block(source: ParameterFile, row: ModelRow) -> Iterator[NDArray[np.float32]]:
    """The canonical arrays of a row of the table, one per block."""
    array = source.read(row)
    yield from (array if row.num_blocks is not None else [array])
