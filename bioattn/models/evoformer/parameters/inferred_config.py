"""The architecture of a model, inferred from the shapes of its parameters.

The number of structure module layers cannot be inferred, because they share their weights.
"""

from collections.abc import Mapping
from dataclasses import replace

from bioattn.errors import FormatError, SettingsError
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.parameters.files import ParameterFile
from bioattn.models.evoformer.parameters.layout import Shape
from bioattn.models.evoformer.structure_module.config import StructureModuleConfig

_BLOCK = "evoformer.blocks.0"
_EXTRA_BLOCK = "extra_msa_stack.blocks.0"


INFERRED = frozenset(
    {
        "msa_channels",
        "pair_channels",
        "extra_msa_channels",
        "single_channels",
        "msa_heads",
        "pair_heads",
        "extra_msa_heads",
        "outer_product_channels",
        "triangle_multiplication_channels",
        "transition_factor",
        "num_blocks",
        "num_extra_msa_blocks",
        "target_features",
        "msa_features",
        "max_relative_position",
        "recycling",
        "structure_module",
        "distogram_bins",
        "masked_msa_head",
        "plddt_channels",
        "aligned_error_head",
        "experimentally_resolved_head",
    }
)
"""Settings inferred from shapes; the others are AlphaFold 2's in every parameter file."""


def infer_config(file: ParameterFile, num_structure_layers: int | None = None) -> EvoformerConfig:
    """The config of the model a parameter file belongs to.

    num_structure_layers: layers of the structure module; None = the 8 of AlphaFold 2.

    Raises: FormatError naming the array that is missing or has an impossible shape; SettingsError when layers are
    asked for and there is no structure module.
    """
    sizes = _Sizes(file)
    structure = None
    if sizes.has("structure_module."):
        structure = _structure_config(sizes)
        if num_structure_layers is not None:
            structure = replace(structure, num_layers=num_structure_layers)
    elif num_structure_layers is not None:
        raise SettingsError(f"{file.path}: has no structure module, so no layers of one can be asked for")
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


class _Sizes:
    """Looks up one axis of a canonical array."""

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
        """Number of blocks of a stack."""
        return len({name[len(prefix) :].split(".")[0] for name in self._shapes if name.startswith(prefix)})
