"""From parameters to a model: its architecture inferred from shapes, its weights read array by array.

Arrays are read one by one into the model's parameters, which are therefore never in memory twice. The number of
structure module layers cannot be inferred, because they share their weights.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.models.evoformer.config import (
    EvoformerConfig,
    InputSettings,
    StructureModuleConfig,
    TemplateConfig,
)
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_files import ModelRow, ParameterFile, model_rows, open_parameters
from bioattn.models.evoformer.parameter_table import Shape

_BLOCK = "evoformer.blocks.0"
_EXTRA_BLOCK = "extra_msa_stack.blocks.0"


NOT_INFERRED = ("uniform_msa_attention", "centred_outer_product", "tied_row_heads", "pair_features")
"""Settings that shapes do not tell; they are AlphaFold 2's in every parameter file."""


def infer_config(file: ParameterFile, num_structure_layers: int | None = None) -> EvoformerConfig:
    """The config of the model a parameter file belongs to.

    num_structure_layers: layers of the structure module; None = the 8 of AlphaFold 2.

    Raises: FormatError naming the array that is missing or has an impossible shape; BioattnError when layers are
    asked for and there is no structure module.
    """
    sizes = _Sizes(file)
    structure = None
    if sizes.has("structure_module."):
        structure = _structure_config(sizes)
        if num_structure_layers is not None:
            structure = replace(structure, num_layers=num_structure_layers)
    elif num_structure_layers is not None:
        raise BioattnError(f"{file.path}: has no structure module, so no layers of one can be asked for")
    has_extra_stack = sizes.has("extra_msa_stack.")
    values = {
        "msa_channels": sizes("input_embedder.linear_msa_m.weight", 0),
        "pair_channels": sizes("input_embedder.linear_tf_z_i.weight", 0),
        "single_channels": sizes("evoformer.linear.weight", 0),
        "msa_heads": sizes(f"{_BLOCK}.msa_att_row.linear_z.weight", 0),
        "pair_heads": sizes(f"{_BLOCK}.pair_stack.tri_att_start.linear.weight", 0),
        "outer_product_channels": sizes(f"{_BLOCK}.outer_product_mean.linear_1.weight", 0),
        "triangle_multiplication_channels": sizes(f"{_BLOCK}.pair_stack.tri_mul_out.linear_a_p.weight", 0),
        "transition_factor": sizes(f"{_BLOCK}.msa_transition.linear_1.weight", 0)
        // max(1, sizes(f"{_BLOCK}.msa_transition.linear_1.weight", 1)),
        "num_blocks": sizes.blocks("evoformer.blocks."),
        "num_extra_msa_blocks": sizes.blocks("extra_msa_stack.blocks."),
        "target_features": sizes("input_embedder.linear_tf_m.weight", 1),
        "msa_features": sizes("input_embedder.linear_msa_m.weight", 1),
        "max_relative_position": (sizes("input_embedder.linear_relpos.weight", 1) - 1) // 2,
    }
    if has_extra_stack:
        values["extra_msa_channels"] = sizes("extra_msa_embedder.linear.weight", 0)
        values["extra_msa_heads"] = sizes(f"{_EXTRA_BLOCK}.msa_att_row.linear_z.weight", 0)
    if sizes.has("aux_heads.distogram."):
        values["distogram_bins"] = sizes("aux_heads.distogram.linear.weight", 0)
    else:
        values["distogram_bins"] = 0
    if sizes.has("aux_heads.plddt."):
        values["plddt_channels"] = sizes("aux_heads.plddt.linear_1.weight", 0)
    try:
        return replace(
            EvoformerConfig(**values),  # type: ignore[arg-type]
            recycling=sizes.has("recycling_embedder."),
            structure_module=structure,
            templates=_template_config(sizes, file) if sizes.has("template_embedder.") else None,
            masked_msa_head=sizes.has("aux_heads.masked_msa."),
            aligned_error_head=sizes.has("aux_heads.tm."),
            experimentally_resolved_head=sizes.has("aux_heads.experimentally_resolved."),
        )
    except SettingsError as error:
        raise FormatError(f"{file.path}: the shapes of its arrays fit no model ({error})") from error


def _structure_config(sizes: "_Sizes") -> StructureModuleConfig:
    attention = "structure_module.ipa"
    heads = max(1, sizes(f"{attention}.head_weights", 0))
    query_points = sizes(f"{attention}.linear_q_points.linear.weight", 0) // (3 * heads)
    return StructureModuleConfig(
        num_heads=heads,
        head_channels=sizes(f"{attention}.linear_q.weight", 0) // heads,
        num_query_points=query_points,
        num_value_points=sizes(f"{attention}.linear_kv_points.linear.weight", 0) // (3 * heads)
        - query_points,
        angle_channels=sizes("structure_module.angle_resnet.linear_in.weight", 0),
    )


def _template_config(sizes: "_Sizes", file: ParameterFile) -> TemplateConfig:
    stack = "template_embedder.template_pair_stack.blocks."
    query = "template_embedder.template_pointwise_att.mha.linear_q.weight"
    channels = sizes("template_embedder.template_pair_embedder.linear.weight", 0)
    query_shape = file.own_shape(query) or ()
    return TemplateConfig(
        channels=channels,
        num_blocks=sizes.blocks(stack),
        pair_heads=sizes(f"{stack}0.tri_att_start.linear.weight", 0),
        triangle_multiplication_channels=sizes(f"{stack}0.tri_mul_out.linear_a_p.weight", 0),
        transition_factor=sizes(f"{stack}0.pair_transition.linear_1.weight", 0) // max(1, channels),
        # OpenFold's shapes do not tell.
        attention_heads=query_shape[1] if len(query_shape) == 3 else TemplateConfig().attention_heads,
        attention_channels=sizes(query, 0),
    )


class _Sizes:
    def __init__(self, file: ParameterFile) -> None:
        self._file = file
        self._shapes: Mapping[str, Shape] = file.shapes

    def __call__(self, name: str, axis: int) -> int:
        shape = self._shapes.get(name)
        own = self._file.own_name(name)
        if shape is None:
            raise FormatError(f"{self._file.path}: the array {own} is missing from {self._file.kind}")
        if axis >= len(shape):
            raise FormatError(f"{self._file.path}: the array {own} has shape {shape}, it lacks an axis")
        return shape[axis]

    def has(self, prefix: str) -> bool:
        """Whether the file has an array of a part of the model."""
        return any(name.startswith(prefix) for name in self._shapes)

    def blocks(self, prefix: str) -> int:
        return len({name[len(prefix) :].split(".")[0] for name in self._shapes if name.startswith(prefix)})


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
            usual = EvoformerConfig()
            unusual = (config.msa_channels, config.num_blocks) != (usual.msa_channels, usual.num_blocks)
            LOGGER.log(
                logging.WARNING if unusual else logging.DEBUG,
                f"{path}: parameters do not tell how many layers the structure module has (they share their "
                f"weights); {config.structure_module.num_layers} are assumed; structure_layers (in [parameters] "
                "of --config, or --structure-layers) says otherwise",
            )
        rows = model_rows(config)
        file.check(rows)
        model = allocate_model(config)
        targets = model.state_dict()
        with torch.no_grad():
            for row in rows:
                for name, array in zip(row.our_names(), per_block(file, row), strict=True):
                    targets[name][row.place].copy_(torch.from_numpy(array))
    inputs = published_inputs(path, has_templates=config.templates is not None)
    return model, inputs if config.recycling else replace(inputs, num_recycles=0)


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
