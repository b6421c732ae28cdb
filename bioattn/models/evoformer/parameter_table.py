"""One table of every array of an MSA/pair model: our name, AlphaFold's key, OpenFold's name, AlphaFold's layout.

AlphaFold's keys stand without `alphafold/alphafold_iteration/`; `{block}` in the other names is a block number,
which AlphaFold has as axis 0. Where we keep several projections as one matrix (`fused`), each part is a row of the
table. Canonical arrays, as the table speaks of them, are OpenFold's: one per block, weights as (outputs, inputs).
AlphaFold (Haiku) stores weights input first, and the heads of an attention layer on an axis of their own.
"""

import math
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.model_folder import without_values

Shape = tuple[int, ...]


class Layout(Enum):
    """Shape of an array as AlphaFold publishes it, without its block axis → canonical shape."""

    AS_IS = auto()
    """(N) → (N): biases, layer norms."""
    LINEAR = auto()
    """(in, out) → (out, in)."""
    HEADS = auto()
    """(in, H, c) → (H·c, in): queries, keys, values and gates."""
    HEAD_BIAS = auto()
    """(H, c) → (H·c)."""
    OUTPUT = auto()
    """(H, c, out) → (out, H·c): the way out of the heads."""
    OUTER = auto()
    """(c, c, out) → (out, c·c): the outer product; the first c is the left one."""


_AXES = {Layout.LINEAR: 2, Layout.HEADS: 3, Layout.HEAD_BIAS: 2, Layout.OUTPUT: 3, Layout.OUTER: 3}


def canonical_shape(shape: Shape, layout: Layout) -> Shape:
    """The canonical shape of an array of AlphaFold's. Raises: FormatError when it has too many or too few axes."""
    if layout in _AXES and len(shape) != _AXES[layout]:
        raise FormatError(f"has shape {shape}, {_AXES[layout]} axes are needed")
    return to_canonical(np.broadcast_to(0, shape), layout).shape


def to_canonical(array: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """AlphaFold's array of one block in canonical layout, a view."""
    match layout:
        case Layout.AS_IS:
            return array
        case Layout.HEAD_BIAS:
            return array.reshape(-1)
        case Layout.LINEAR | Layout.HEADS:
            return array.reshape(array.shape[0], -1).T
        case Layout.OUTPUT | Layout.OUTER:
            return array.reshape(-1, array.shape[-1]).T


def from_canonical(array: NDArray[Any], layout: Layout, num_heads: int) -> NDArray[Any]:
    """The inverse of `to_canonical`; `num_heads` counts where the layout has heads."""
    match layout:
        case Layout.AS_IS:
            return array
        case Layout.LINEAR:
            return array.T
        case Layout.HEADS:
            return array.T.reshape(array.shape[1], num_heads, -1)
        case Layout.HEAD_BIAS:
            return array.reshape(num_heads, -1)
        case Layout.OUTPUT:
            return array.T.reshape(num_heads, -1, array.shape[0])
        case Layout.OUTER:
            side = math.isqrt(array.shape[1])
            return array.T.reshape(side, side, array.shape[0])


class ArrayRow(NamedTuple):
    """A row of the table."""

    ours: str
    alphafold: str
    openfold: str
    layout: Layout
    heads: str = ""
    """The setting with the number of heads, of an array that has some."""
    blocks: str = ""
    """The setting with the number of blocks, of an array in a stack."""
    fused: str = ""
    """What our matrix holds, one after another along its rows: `qkvg` (query, key, value, gate), `kvg` of global
    attention (key and value have the channels of one head), `factors` of the outer product, or `triangle` (left,
    right, gate of left, gate of right, gate of the output)."""
    part: int = 0


# Each line: what it is, and its names in our, AlphaFold's and OpenFold's scheme (- for none), beneath the `module`
# before it. One array goes by its layout, two by `norm` and `linear`, and `attention` is a module of `_ATTENTION`.
# `name:fused.part` is a part of one matrix of ours.

_ATTENTION = """
HEADS      project_qkvg.weight:qkvg.0  query_w   linear_q.weight
HEADS      project_qkvg.weight:qkvg.1  key_w     linear_k.weight
HEADS      project_qkvg.weight:qkvg.2  value_w   linear_v.weight
HEADS      project_qkvg.weight:qkvg.3  gating_w  linear_g.weight
HEAD_BIAS  gate_bias                   gating_b  linear_g.bias
OUTPUT     project_output.weight       output_w  linear_o.weight
AS_IS      project_output.bias         output_b  linear_o.bias
"""

_EMBEDDERS = """
module  input_embedder             evoformer                input_embedder
linear  project_target_left        left_single              linear_tf_z_i
linear  project_target_right       right_single             linear_tf_z_j
linear  project_target_msa         preprocess_1d            linear_tf_m
linear  project_msa                preprocess_msa           linear_msa_m
linear  project_relative_position  pair_activiations        linear_relpos
module  recycling_embedder         evoformer                recycling_embedder
norm    normalise_msa_row          prev_msa_first_row_norm  layer_norm_m
norm    normalise_pair             prev_pair_norm           layer_norm_z
linear  project_distances          prev_pos_linear          linear
module  extra_msa_embedder         evoformer                extra_msa_embedder
linear  project_extra_msa          extra_msa_activations    linear
"""  # `pair_activiations` is spelt as in the published files

_ROW_ATTENTION = """
module     msa_row_attention         msa_row_attention_with_pair_bias  msa_att_row
norm       normalise                 query_norm                        layer_norm_m
norm       normalise_pair            feat_2d_norm                      layer_norm_z
LINEAR     project_pair_bias.weight  feat_2d_weights                   linear_z.weight
attention  attention                 attention                         mha
"""

_COLUMN_ATTENTION = """
module     msa_column_attention  msa_column_attention  msa_att_col._msa_att
norm       normalise             query_norm            layer_norm_m
attention  attention             attention             mha
"""

_GLOBAL_COLUMN_ATTENTION = """
module     msa_column_attention      msa_column_global_attention            msa_att_col
norm       normalise                 query_norm                             layer_norm_m
module     msa_column_attention      msa_column_global_attention/attention  msa_att_col.global_attention
HEADS      project_query.weight      query_w                                linear_q.weight
LINEAR     project_kvg.weight:kvg.0  key_w                                  linear_k.weight
LINEAR     project_kvg.weight:kvg.1  value_w                                linear_v.weight
HEADS      project_kvg.weight:kvg.2  gating_w                               linear_g.weight
HEAD_BIAS  gate_bias                 gating_b                               linear_g.bias
OUTPUT     project_output.weight     output_w                               linear_o.weight
AS_IS      project_output.bias       output_b                               linear_o.bias
"""

_TRANSITION_AND_PRODUCT = """
module  msa_transition             msa_transition      msa_transition
norm    normalise                  input_layer_norm    layer_norm
linear  expand                     transition1         linear_1
linear  contract                   transition2         linear_2
module  outer_product_mean         outer_product_mean  outer_product_mean
norm    normalise                  layer_norm_input    layer_norm
linear  project_factors:factors.0  left_projection     linear_1
linear  project_factors:factors.1  right_projection    linear_2
OUTER   project_output.weight      output_w            linear_out.weight
AS_IS   project_output.bias        output_b            linear_out.bias
"""

# Of the incoming update OpenFold's a is AlphaFold's right and its b the left.
_PAIR_UPDATES = """
module     triangle_multiplication_outgoing  triangle_multiplication_outgoing  tri_mul_out
norm       normalise                         layer_norm_input                  layer_norm_in
linear     project_factors:triangle.0        left_projection                   linear_a_p
linear     project_factors:triangle.1        right_projection                  linear_b_p
linear     project_factors:triangle.2        left_gate                         linear_a_g
linear     project_factors:triangle.3        right_gate                        linear_b_g
linear     project_factors:triangle.4        gating_linear                     linear_g
norm       normalise_product                 center_layer_norm                 layer_norm_out
linear     project_output                    output_projection                 linear_z
module     triangle_multiplication_incoming  triangle_multiplication_incoming  tri_mul_in
norm       normalise                         layer_norm_input                  layer_norm_in
linear     project_factors:triangle.0        left_projection                   linear_b_p
linear     project_factors:triangle.1        right_projection                  linear_a_p
linear     project_factors:triangle.2        left_gate                         linear_b_g
linear     project_factors:triangle.3        right_gate                        linear_a_g
linear     project_factors:triangle.4        gating_linear                     linear_g
norm       normalise_product                 center_layer_norm                 layer_norm_out
linear     project_output                    output_projection                 linear_z
module     triangle_attention_starting       triangle_attention_starting_node  tri_att_start
norm       normalise                         query_norm                        layer_norm
LINEAR     project_pair_bias.weight          feat_2d_weights                   linear.weight
attention  attention                         attention                         mha
module     triangle_attention_ending         triangle_attention_ending_node    tri_att_end
norm       normalise                         query_norm                        layer_norm
LINEAR     project_pair_bias.weight          feat_2d_weights                   linear.weight
attention  attention                         attention                         mha
module     pair_transition                   pair_transition                   pair_transition
norm       normalise                         input_layer_norm                  layer_norm
linear     expand                            transition1                       linear_1
linear     contract                          transition2                       linear_2
"""

_TEMPLATE_ATTENTION = """
module  attention              template_embedding/attention  template_pointwise_att.mha
HEADS   project_query.weight   query_w                       linear_q.weight
HEADS   project_key.weight     key_w                         linear_k.weight
HEADS   project_value.weight   value_w                       linear_v.weight
OUTPUT  project_output.weight  output_w                      linear_o.weight
AS_IS   project_output.bias    output_b                      linear_o.bias
module  -                      -                             template_single_embedder
linear  project_angles         template_single_embedding     linear_1
linear  project_rows           template_projection           linear_2
"""

_STRUCTURE_MODULE = """
module  -                               -                                         -
norm    normalise_single                single_layer_norm                         layer_norm_s
norm    normalise_pair                  pair_layer_norm                           layer_norm_z
linear  project_single                  initial_projection                        linear_in
module  invariant_point_attention       fold_iteration/invariant_point_attention  ipa
AS_IS   point_weight_H                  trainable_point_weights                   head_weights
linear  project_query                   q_scalar                                  linear_q
linear  project_query_points            q_point_local                             linear_q_points.linear
linear  project_key_value               kv_scalar                                 linear_kv
linear  project_key_value_points        kv_point_local                            linear_kv_points.linear
linear  project_pair_bias               attention_2d                              linear_b
linear  project_output                  output_projection                         linear_out
module  -                               fold_iteration                            -
norm    normalise_attended              attention_layer_norm                      layer_norm_ipa
linear  transition.first                transition                                transition.layers.0.linear_1
linear  transition.second               transition_1                              transition.layers.0.linear_2
linear  transition.third                transition_2                              transition.layers.0.linear_3
norm    transition.normalise            transition_layer_norm                     transition.layer_norm
linear  backbone_update.project_motion  affine_update                             bb_update.linear
module  angle_network                   fold_iteration/rigid_sidechain            angle_resnet
linear  project_current                 input_projection                          linear_in
linear  project_initial                 input_projection_1                        linear_initial
linear  blocks.0.first                  resblock1                                 layers.0.linear_1
linear  blocks.0.second                 resblock2                                 layers.0.linear_2
linear  blocks.1.first                  resblock1_1                               layers.1.linear_1
linear  blocks.1.second                 resblock2_1                               layers.1.linear_2
linear  project_output                  unnormalized_angles                       linear_out
"""

_HEADS = """
linear  distogram_head.project_pair   distogram_head/half_logits    aux_heads.distogram.linear
linear  masked_msa_head.project_msa   masked_msa_head/logits        aux_heads.masked_msa.linear
module  plddt_head                    predicted_lddt_head           aux_heads.plddt
norm    normalise                     input_layer_norm              layer_norm
linear  first                         act_0                         linear_1
linear  second                        act_1                         linear_2
linear  project_bins                  logits                        linear_3
module  experimentally_resolved_head  experimentally_resolved_head  aux_heads.experimentally_resolved
linear  project_single                logits                        linear
module  aligned_error_head            predicted_aligned_error_head  aux_heads.tm
linear  project_pair                  logits                        linear
"""

_TWO_ARRAYS = {
    "norm": (("weight", "scale", Layout.AS_IS), ("bias", "offset", Layout.AS_IS)),
    "linear": (("weight", "weights", Layout.LINEAR), ("bias", "bias", Layout.AS_IS)),
}
_WITH_HEADS = (Layout.HEADS, Layout.HEAD_BIAS, Layout.OUTPUT)
_Names = tuple[str, str, str]
"""Ours, AlphaFold's, OpenFold's."""


@cache
def parameter_table() -> tuple[ArrayRow, ...]:
    """All rows; AlphaFold's keys without what stands before all of them."""
    extra_msa = (
        "extra_msa_stack.blocks.{block}",
        "evoformer/extra_msa_stack",
        "extra_msa_stack.blocks.{block}",
    )
    evoformer = ("evoformer.blocks.{block}", "evoformer/evoformer_iteration", "evoformer.blocks.{block}")
    return (
        *_rows(_EMBEDDERS),
        *_templates(),
        *_block(_GLOBAL_COLUMN_ATTENTION, extra_msa, "num_extra_msa_blocks", "extra_msa_heads"),
        *_block(_COLUMN_ATTENTION, evoformer, "num_blocks", "msa_heads"),
        *_rows("linear evoformer.project_single evoformer/single_activations evoformer.linear"),
        *_rows(_STRUCTURE_MODULE, ("structure_module",) * 3),
        *_rows(_HEADS),
    )


def _block(column_attention: str, names: _Names, blocks: str, heads: str) -> Iterator[ArrayRow]:
    """A block of the Evoformer or of the extra-MSA stack."""
    for text in (_ROW_ATTENTION, column_attention, _TRANSITION_AND_PRODUCT):
        yield from _rows(text, names, blocks=blocks, heads=heads)
    yield from _rows(
        _PAIR_UPDATES, _beneath(names, ("", "", "pair_stack")), blocks=blocks, heads="pair_heads"
    )


def _templates() -> Iterator[ArrayRow]:
    embedder = ("template_embedder", "evoformer", "template_embedder")
    single = _beneath(embedder, ("", "template_embedding/single_template_embedding", ""))
    stack = "template_pair_stack"
    blocks = _beneath(
        single, ("blocks.{block}", f"{stack}/__layer_stack_no_state", f"{stack}.blocks.{{block}}")
    )
    yield from _rows("linear project_pair embedding2d template_pair_embedder.linear", single)
    yield from _rows(_PAIR_UPDATES, blocks, blocks="templates.num_blocks", heads="templates.pair_heads")
    yield from _rows(f"norm normalise output_layer_norm {stack}.layer_norm", single)
    yield from _rows(_TEMPLATE_ATTENTION, embedder, heads="templates.attention_heads")


def _rows(
    text: str, names: _Names = ("", "", ""), *, blocks: str = "", heads: str = ""
) -> Iterator[ArrayRow]:
    """The arrays of a text above, beneath the module of these names."""
    module = names
    for line in text.strip().split("\n"):
        kind, *words = line.split()
        ours, alphafold, openfold = ("" if word == "-" else word for word in words)
        if kind == "module":
            module = _beneath(names, (ours, alphafold, openfold))
            continue
        if kind == "attention":
            inner = _beneath(module, (ours, alphafold, openfold))
            yield from _rows(_ATTENTION, inner, blocks=blocks, heads=heads)
            continue
        ours, _, fused = ours.partition(":")
        fused, _, part = fused.partition(".")
        for name, array, layout in _TWO_ARRAYS.get(kind) or [("", "", Layout[kind])]:
            beneath = _beneath(module, (_joined(".", ours, name), alphafold, _joined(".", openfold, name)))
            yield ArrayRow(
                ours=beneath[0],
                alphafold=f"{beneath[1]}//{array}" if array else f"{module[1]}//{alphafold}",
                openfold=beneath[2],
                layout=layout,
                heads=heads if layout in _WITH_HEADS else "",
                blocks=blocks,
                fused=fused,
                part=int(part or 0),
            )


def _beneath(names: _Names, inner: _Names) -> _Names:
    """The names of a module in a module."""
    ours, alphafold, openfold = (
        _joined(separator, before, name) for separator, before, name in zip("./.", names, inner, strict=True)
    )
    return ours, alphafold, openfold


def _joined(separator: str, before: str, name: str) -> str:
    return f"{before}{separator}{name}" if before and name else before or name


class ModelRow(NamedTuple):
    """A row of the parameter table for one model."""

    row: ArrayRow
    shape: Shape
    """Of one canonical array."""
    num_blocks: int
    """Of the stack; 1 for an array outside of stacks."""
    num_heads: int
    rows: slice
    """Of our (fused) matrix, those that hold the array."""

    def canonical_names(self) -> list[str]:
        """OpenFold's names, one a block."""
        return [self.row.openfold.format(block=block) for block in range(self.num_blocks)]

    def our_names(self) -> list[str]:
        """Our names, one a block."""
        return [self.row.ours.format(block=block) for block in range(self.num_blocks)]

    @property
    def alphafold_shape(self) -> Shape:
        """Shape in AlphaFold's file, blocks on axis 0."""
        shape = from_canonical(np.broadcast_to(0, self.shape), self.row.layout, self.num_heads).shape
        return (self.num_blocks, *shape) if self.row.blocks else shape


@lru_cache(maxsize=4)
def model_rows(config: EvoformerConfig) -> list[ModelRow]:
    """The rows of the table that a model of this shape has."""
    with without_values():
        shapes = {name: tuple(tensor.shape) for name, tensor in EvoformerModel(config).state_dict().items()}
    found = []
    for row in parameter_table():
        shape = shapes.get(row.ours.format(block=0))
        if shape is not None:
            rows = _part(row, shape[0], config)
            blocks, heads = (attrgetter(name)(config) if name else 1 for name in (row.blocks, row.heads))
            found.append(ModelRow(row, (rows.stop - rows.start, *shape[1:]), blocks, heads, rows))
    return found


def _part(row: ArrayRow, total: int, config: EvoformerConfig) -> slice:
    match row.fused:
        case "qkvg":
            sizes = [total // 4] * 4
        case "factors":
            sizes = [total // 2] * 2
        case "kvg":
            head = config.extra_msa_channels // config.extra_msa_heads
            sizes = [head, head, total - 2 * head]
        case "triangle":
            pairs = (config.templates or TemplateConfig()) if row.blocks.startswith("templates.") else config
            hidden = pairs.triangle_multiplication_channels
            sizes = [hidden] * 4 + [total - 4 * hidden]
        case _:
            sizes = [total]
    first = sum(sizes[: row.part])
    return slice(first, first + sizes[row.part])
