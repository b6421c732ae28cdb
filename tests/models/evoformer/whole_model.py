"""Golden cases of the whole model: configs, our models with the golden parameters, inputs.

Names are mapped here once more, apart from the library's own table, so that an error there shows.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bioattn.models.evoformer.config import EvoformerConfig, StructureModuleConfig
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.model import EvoformerModel
from tests.models.evoformer.trunk import block_names, golden_config, plain_names, read_arrays, stacked

_PLAIN = {
    "input_embedder.project_target_left": "input_embedder.linear_tf_z_i",
    "input_embedder.project_target_right": "input_embedder.linear_tf_z_j",
    "input_embedder.project_target_msa": "input_embedder.linear_tf_m",
    "input_embedder.project_msa": "input_embedder.linear_msa_m",
    "input_embedder.project_relative_position": "input_embedder.linear_relpos",
    "recycling_embedder.normalise_msa_row": "recycling_embedder.layer_norm_m",
    "recycling_embedder.normalise_pair": "recycling_embedder.layer_norm_z",
    "recycling_embedder.project_distances": "recycling_embedder.linear",
    "extra_msa_embedder.project_extra_msa": "extra_msa_embedder.linear",
    "evoformer.project_single": "evoformer.linear",
    "structure_module.normalise_single": "structure_module.layer_norm_s",
    "structure_module.normalise_pair": "structure_module.layer_norm_z",
    "structure_module.project_single": "structure_module.linear_in",
    "structure_module.invariant_point_attention.project_query": "structure_module.ipa.linear_q",
    "structure_module.invariant_point_attention.project_key_value": "structure_module.ipa.linear_kv",
    "structure_module.invariant_point_attention.project_query_points": (
        "structure_module.ipa.linear_q_points.linear"
    ),
    "structure_module.invariant_point_attention.project_key_value_points": (
        "structure_module.ipa.linear_kv_points.linear"
    ),
    "structure_module.invariant_point_attention.project_pair_bias": "structure_module.ipa.linear_b",
    "structure_module.invariant_point_attention.project_output": "structure_module.ipa.linear_out",
    "structure_module.normalise_attended": "structure_module.layer_norm_ipa",
    "structure_module.transition.first": "structure_module.transition.layers.0.linear_1",
    "structure_module.transition.second": "structure_module.transition.layers.0.linear_2",
    "structure_module.transition.third": "structure_module.transition.layers.0.linear_3",
    "structure_module.transition.normalise": "structure_module.transition.layer_norm",
    "structure_module.backbone_update.project_motion": "structure_module.bb_update.linear",
    "structure_module.angle_network.project_current": "structure_module.angle_resnet.linear_in",
    "structure_module.angle_network.project_initial": "structure_module.angle_resnet.linear_initial",
    "structure_module.angle_network.blocks.0.first": "structure_module.angle_resnet.layers.0.linear_1",
    "structure_module.angle_network.blocks.0.second": "structure_module.angle_resnet.layers.0.linear_2",
    "structure_module.angle_network.blocks.1.first": "structure_module.angle_resnet.layers.1.linear_1",
    "structure_module.angle_network.blocks.1.second": "structure_module.angle_resnet.layers.1.linear_2",
    "structure_module.angle_network.project_output": "structure_module.angle_resnet.linear_out",
    "distogram_head.project_pair": "aux_heads.distogram.linear",
    "masked_msa_head.project_msa": "aux_heads.masked_msa.linear",
    "plddt_head.normalise": "aux_heads.plddt.layer_norm",
    "plddt_head.first": "aux_heads.plddt.linear_1",
    "plddt_head.second": "aux_heads.plddt.linear_2",
    "plddt_head.project_bins": "aux_heads.plddt.linear_3",
    "aligned_error_head.project_pair": "aux_heads.tm.linear",
    "experimentally_resolved_head.project_single": "aux_heads.experimentally_resolved.linear",
}
"""Our layer with weight and bias: OpenFold's."""


def model_config(folder: Path, case: str) -> EvoformerConfig:
    """Our config of a golden case, structure module and heads included."""
    dims = json.loads((folder / "config.json").read_text())[case]["D"]
    structure = StructureModuleConfig(
        num_layers=dims["sm_blocks"],
        num_heads=dims["h_ipa"],
        head_channels=dims["c_ipa"],
        num_query_points=dims["qk"],
        num_value_points=dims["vp"],
        angle_channels=dims["c_res"],
    )
    return replace(
        golden_config(folder, case),
        structure_module=structure,
        plddt_channels=dims["c_lddt"],
        aligned_error_head=True,
    )


def golden_model(folder: Path, case: str) -> EvoformerModel:
    """Our model with the parameters of a golden case; every one of ours and of theirs is used."""
    config = model_config(folder, case)
    theirs = read_arrays(folder / f"{case}_params_openfold.npz")
    names: dict[str, list[str]] = {
        "structure_module.invariant_point_attention.point_weight_H": ["structure_module.ipa.head_weights"]
    }
    for ours, name in _PLAIN.items():
        names |= plain_names(ours, name)
    for stack, extra, count in (
        ("evoformer", False, config.num_blocks),
        ("extra_msa_stack", True, config.num_extra_msa_blocks),
    ):
        for i in range(count):
            prefix = f"{stack}.blocks.{i}."
            names |= {
                prefix + ours: [prefix + part for part in parts] for ours, parts in block_names(extra).items()
            }
    assert {part for parts in names.values() for part in parts} == set(theirs)
    model = EvoformerModel(config)
    model.load_state_dict(stacked(theirs, "", names))
    return model


def model_inputs(arrays: Mapping[str, np.ndarray], prefix: str = "in/") -> ModelInputs:
    """The inputs of a golden file."""
    fields = {name: torch.from_numpy(arrays[prefix + name].copy()) for name in ModelInputs._fields[:-1]}
    for name in ("aatype", "residue_index", "extra_msa"):
        fields[name] = fields[name].long()
    return ModelInputs(**fields)
