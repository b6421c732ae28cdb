"""One table of every array of an MSA/pair model: our name, AlphaFold's key, OpenFold's name, AlphaFold's layout.

AlphaFold's keys stand without `alphafold/alphafold_iteration/`; `{block}` in the other names is a block number,
which AlphaFold has as axis 0. Where we keep several projections as one matrix (`fused`), each part is a row of the
table. Canonical arrays, as the table speaks of them, are OpenFold's: one per block, weights as (outputs, inputs).
AlphaFold (Haiku) stores weights input first, and the heads of an attention layer on an axis of their own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import FormatError

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


_DIMENSIONS = {Layout.LINEAR: 2, Layout.HEADS: 3, Layout.HEAD_BIAS: 2, Layout.OUTPUT: 3, Layout.OUTER: 3}


def canonical_shape(shape: Shape, layout: Layout) -> Shape:
    """The canonical shape of an array of AlphaFold's. Raises: FormatError when it has too many or too few axes."""
    if layout in _DIMENSIONS and len(shape) != _DIMENSIONS[layout]:
        raise FormatError(f"has shape {shape}, {_DIMENSIONS[layout]} axes are needed")
    return to_canonical(np.broadcast_to(0, shape), layout, stacked=False).shape


def alphafold_shape(shape: Shape, layout: Layout, num_heads: int) -> Shape:
    """The inverse of `canonical_shape`; `num_heads` counts where the layout has heads."""
    match layout:
        case Layout.AS_IS:
            return shape
        case Layout.LINEAR:
            return (shape[1], shape[0])
        case Layout.HEADS:
            return (shape[1], num_heads, shape[0] // num_heads)
        case Layout.HEAD_BIAS:
            return (num_heads, shape[0] // num_heads)
        case Layout.OUTPUT:
            return (num_heads, shape[1] // num_heads, shape[0])
        case Layout.OUTER:
            side = math.isqrt(shape[1])
            return (side, side, shape[0])


def to_canonical(array: NDArray[Any], layout: Layout, *, stacked: bool) -> NDArray[Any]:
    """A view of AlphaFold's array in canonical layout; `stacked` keeps axis 0, the blocks."""
    blocks = array.shape[:1] if stacked else ()
    shape = array.shape[1:] if stacked else array.shape
    match layout:
        case Layout.AS_IS:
            return array
        case Layout.HEAD_BIAS:
            return array.reshape(*blocks, -1)
        case Layout.LINEAR | Layout.HEADS:
            return array.reshape(*blocks, shape[0], -1).swapaxes(-1, -2)
        case Layout.OUTPUT | Layout.OUTER:
            return array.reshape(*blocks, -1, shape[-1]).swapaxes(-1, -2)


def from_canonical(array: NDArray[Any], layout: Layout, num_heads: int, *, stacked: bool) -> NDArray[Any]:
    blocks = array.shape[:1] if stacked else ()
    shape = array.shape[1:] if stacked else array.shape
    if layout not in (Layout.AS_IS, Layout.HEAD_BIAS):
        array = array.swapaxes(-1, -2)
    return array.reshape(*blocks, *alphafold_shape(shape, layout, num_heads))


class Stack(Enum):
    """The stacks whose blocks AlphaFold keeps in one array."""

    EVOFORMER = auto()
    EXTRA_MSA = auto()
    TEMPLATE = auto()


class Heads(Enum):
    """The setting with the number of heads of an array."""

    NONE = auto()
    MSA = auto()
    PAIR = auto()
    EXTRA_MSA = auto()
    TEMPLATE_PAIR = auto()
    TEMPLATE = auto()


class Fused(Enum):
    """Projections that one matrix of ours holds, one after another along its rows."""

    QUERY_KEY_VALUE_GATE = auto()
    KEY_VALUE_GATE = auto()
    """Of global attention: key and value have the channels of one head."""
    FACTORS = auto()
    """Left and right factor of the outer product."""
    TRIANGLE = auto()
    """Left, right, gate of left, gate of right, gate of the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayRow:
    ours: str
    alphafold: str
    openfold: str
    layout: Layout
    heads: Heads = Heads.NONE
    stack: Stack | None = None
    fused: Fused | None = None
    part: int = 0
    """Part of the fused matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Names of a module in the three naming schemes; its arrays are named beneath it."""

    ours: str
    alphafold: str
    openfold: str
    stack: Stack | None = None

    def beneath(self, ours: str, alphafold: str, openfold: str) -> "_Place":
        return _Place(
            ours=_joined(".", self.ours, ours),
            alphafold=_joined("/", self.alphafold, alphafold),
            openfold=_joined(".", self.openfold, openfold),
            stack=self.stack,
        )

    def array(
        self,
        ours: str,
        alphafold: str,
        openfold: str,
        layout: Layout,
        *,
        heads: Heads = Heads.NONE,
        fused: Fused | None = None,
        part: int = 0,
    ) -> ArrayRow:
        """An array of this module; AlphaFold's name may go through a module within (`query_norm//scale`)."""
        return ArrayRow(
            ours=_joined(".", self.ours, ours),
            alphafold=_joined("/" if "//" in alphafold else "//", self.alphafold, alphafold),
            openfold=_joined(".", self.openfold, openfold),
            layout=layout,
            heads=heads,
            stack=self.stack,
            fused=fused,
            part=part,
        )

    def norm(self, ours: str, alphafold: str, openfold: str) -> Iterator[ArrayRow]:
        yield self.array(f"{ours}.weight", f"{alphafold}//scale", f"{openfold}.weight", Layout.AS_IS)
        yield self.array(f"{ours}.bias", f"{alphafold}//offset", f"{openfold}.bias", Layout.AS_IS)

    def linear(
        self, ours: str, alphafold: str, openfold: str, *, fused: Fused | None = None, part: int = 0
    ) -> Iterator[ArrayRow]:
        yield self.array(
            f"{ours}.weight",
            f"{alphafold}//weights",
            f"{openfold}.weight",
            Layout.LINEAR,
            fused=fused,
            part=part,
        )
        yield self.array(
            f"{ours}.bias", f"{alphafold}//bias", f"{openfold}.bias", Layout.AS_IS, fused=fused, part=part
        )

    def attention_output(self, heads: Heads) -> Iterator[ArrayRow]:
        """The projection out of the heads."""
        yield self.array("project_output.weight", "output_w", "linear_o.weight", Layout.OUTPUT, heads=heads)
        yield self.array("project_output.bias", "output_b", "linear_o.bias", Layout.AS_IS)

    def gated_attention(self, heads: Heads) -> Iterator[ArrayRow]:
        """Multi-head attention with gates."""
        for part, name in enumerate(("query", "key", "value", "gating")):
            yield self.array(
                "project_qkvg.weight",
                f"{name}_w",
                f"linear_{name[0]}.weight",
                Layout.HEADS,
                heads=heads,
                fused=Fused.QUERY_KEY_VALUE_GATE,
                part=part,
            )
        yield self.array("gate_bias", "gating_b", "linear_g.bias", Layout.HEAD_BIAS, heads=heads)
        yield from self.attention_output(heads)


def _joined(separator: str, before: str, name: str) -> str:
    return f"{before}{separator}{name}" if before and name else before or name


_ROOT = _Place(ours="", alphafold="", openfold="")


@cache
def parameter_table() -> tuple[ArrayRow, ...]:
    return (
        *_embedders(),
        *_templates(),
        *_block_stack(
            _Place(
                ours="extra_msa_stack.blocks.{block}",
                alphafold="evoformer/extra_msa_stack",
                openfold="extra_msa_stack.blocks.{block}",
                stack=Stack.EXTRA_MSA,
            ),
            Heads.EXTRA_MSA,
        ),
        *_block_stack(
            _Place(
                ours="evoformer.blocks.{block}",
                alphafold="evoformer/evoformer_iteration",
                openfold="evoformer.blocks.{block}",
                stack=Stack.EVOFORMER,
            ),
            Heads.MSA,
        ),
        *_ROOT.linear("evoformer.project_single", "evoformer/single_activations", "evoformer.linear"),
        *_structure_module(),
        *_heads(),
    )


def _embedders() -> Iterator[ArrayRow]:
    inputs = _Place(ours="input_embedder", alphafold="evoformer", openfold="input_embedder")
    yield from inputs.linear("project_target_left", "left_single", "linear_tf_z_i")
    yield from inputs.linear("project_target_right", "right_single", "linear_tf_z_j")
    yield from inputs.linear("project_target_msa", "preprocess_1d", "linear_tf_m")
    yield from inputs.linear("project_msa", "preprocess_msa", "linear_msa_m")
    # Spelt as in the published files.
    yield from inputs.linear("project_relative_position", "pair_activiations", "linear_relpos")
    recycling = _Place(ours="recycling_embedder", alphafold="evoformer", openfold="recycling_embedder")
    yield from recycling.norm("normalise_msa_row", "prev_msa_first_row_norm", "layer_norm_m")
    yield from recycling.norm("normalise_pair", "prev_pair_norm", "layer_norm_z")
    yield from recycling.linear("project_distances", "prev_pos_linear", "linear")
    yield from _ROOT.linear(
        "extra_msa_embedder.project_extra_msa", "evoformer/extra_msa_activations", "extra_msa_embedder.linear"
    )


def _block_stack(block: _Place, heads: Heads) -> Iterator[ArrayRow]:
    """One block of the Evoformer or of the extra-MSA stack."""
    row = block.beneath("msa_row_attention", "msa_row_attention_with_pair_bias", "msa_att_row")
    yield from row.norm("normalise", "query_norm", "layer_norm_m")
    yield from row.norm("normalise_pair", "feat_2d_norm", "layer_norm_z")
    yield row.array("project_pair_bias.weight", "feat_2d_weights", "linear_z.weight", Layout.LINEAR)
    yield from row.beneath("attention", "attention", "mha").gated_attention(heads)
    if heads is Heads.EXTRA_MSA:
        yield from _global_attention(block, heads)
    else:
        column = block.beneath("msa_column_attention", "msa_column_attention", "msa_att_col._msa_att")
        yield from column.norm("normalise", "query_norm", "layer_norm_m")
        yield from column.beneath("attention", "attention", "mha").gated_attention(heads)
    yield from _transition(block.beneath("msa_transition", "msa_transition", "msa_transition"))
    yield from _outer_product_mean(block.beneath(*["outer_product_mean"] * 3))
    yield from _pair_updates(block.beneath("", "", "pair_stack"), Heads.PAIR)


def _pair_updates(block: _Place, heads: Heads) -> Iterator[ArrayRow]:
    """The layers of a block that change the pairs alone."""
    for way, openfold in (("outgoing", "tri_mul_out"), ("incoming", "tri_mul_in")):
        name = f"triangle_multiplication_{way}"
        yield from _triangle_multiplication(block.beneath(name, name, openfold), outgoing=way == "outgoing")
    for way, openfold in (("starting", "tri_att_start"), ("ending", "tri_att_end")):
        name = f"triangle_attention_{way}"
        triangle = block.beneath(name, f"{name}_node", openfold)
        yield from triangle.norm("normalise", "query_norm", "layer_norm")
        yield triangle.array("project_pair_bias.weight", "feat_2d_weights", "linear.weight", Layout.LINEAR)
        yield from triangle.beneath("attention", "attention", "mha").gated_attention(heads)
    yield from _transition(block.beneath(*["pair_transition"] * 3))


def _templates() -> Iterator[ArrayRow]:
    place = _Place(ours="template_embedder", alphafold="evoformer", openfold="template_embedder")
    single = place.beneath("", "template_embedding/single_template_embedding", "")
    yield from single.linear("project_pair", "embedding2d", "template_pair_embedder.linear")
    stack = "template_pair_stack"
    blocks = single.beneath("blocks.{block}", f"{stack}/__layer_stack_no_state", f"{stack}.blocks.{{block}}")
    yield from _pair_updates(replace(blocks, stack=Stack.TEMPLATE), Heads.TEMPLATE_PAIR)
    yield from single.norm("normalise", "output_layer_norm", f"{stack}.layer_norm")
    attention = place.beneath("attention", "template_embedding/attention", "template_pointwise_att.mha")
    for name in ("query", "key", "value"):
        names = f"project_{name}.weight", f"{name}_w", f"linear_{name[0]}.weight"
        yield attention.array(*names, Layout.HEADS, heads=Heads.TEMPLATE)
    yield from attention.attention_output(Heads.TEMPLATE)
    angles = "template_single_embedder"
    yield from place.linear("project_angles", "template_single_embedding", f"{angles}.linear_1")
    yield from place.linear("project_rows", "template_projection", f"{angles}.linear_2")


def _global_attention(block: _Place, heads: Heads) -> Iterator[ArrayRow]:
    column = block.beneath("msa_column_attention", "msa_column_global_attention", "msa_att_col")
    yield from column.norm("normalise", "query_norm", "layer_norm_m")
    attention = _Place(
        ours=column.ours,
        alphafold=f"{column.alphafold}/attention",
        openfold=f"{column.openfold}.global_attention",
        stack=column.stack,
    )
    yield attention.array("project_query.weight", "query_w", "linear_q.weight", Layout.HEADS, heads=heads)
    for part, name in enumerate(("key", "value", "gating")):
        yield attention.array(
            "project_kvg.weight",
            f"{name}_w",
            f"linear_{name[0]}.weight",
            Layout.HEADS if name == "gating" else Layout.LINEAR,
            heads=heads if name == "gating" else Heads.NONE,
            fused=Fused.KEY_VALUE_GATE,
            part=part,
        )
    yield attention.array("gate_bias", "gating_b", "linear_g.bias", Layout.HEAD_BIAS, heads=heads)
    yield from attention.attention_output(heads)


def _transition(place: _Place) -> Iterator[ArrayRow]:
    yield from place.norm("normalise", "input_layer_norm", "layer_norm")
    yield from place.linear("expand", "transition1", "linear_1")
    yield from place.linear("contract", "transition2", "linear_2")


def _outer_product_mean(place: _Place) -> Iterator[ArrayRow]:
    yield from place.norm("normalise", "layer_norm_input", "layer_norm")
    yield from place.linear("project_factors", "left_projection", "linear_1", fused=Fused.FACTORS, part=0)
    yield from place.linear("project_factors", "right_projection", "linear_2", fused=Fused.FACTORS, part=1)
    yield place.array("project_output.weight", "output_w", "linear_out.weight", Layout.OUTER)
    yield place.array("project_output.bias", "output_b", "linear_out.bias", Layout.AS_IS)


def _triangle_multiplication(place: _Place, *, outgoing: bool) -> Iterator[ArrayRow]:
    # Of the incoming update OpenFold's a is AlphaFold's right and its b the left.
    left, right = ("a", "b") if outgoing else ("b", "a")
    yield from place.norm("normalise", "layer_norm_input", "layer_norm_in")
    names = {
        "left_projection": f"linear_{left}_p",
        "right_projection": f"linear_{right}_p",
        "left_gate": f"linear_{left}_g",
        "right_gate": f"linear_{right}_g",
        "gating_linear": "linear_g",
    }
    for part, (theirs, name) in enumerate(names.items()):
        yield from place.linear("project_factors", theirs, name, fused=Fused.TRIANGLE, part=part)
    yield from place.norm("normalise_product", "center_layer_norm", "layer_norm_out")
    yield from place.linear("project_output", "output_projection", "linear_z")


def _structure_module() -> Iterator[ArrayRow]:
    module = _ROOT.beneath(*["structure_module"] * 3)
    yield from module.norm("normalise_single", "single_layer_norm", "layer_norm_s")
    yield from module.norm("normalise_pair", "pair_layer_norm", "layer_norm_z")
    yield from module.linear("project_single", "initial_projection", "linear_in")
    attention = module.beneath("invariant_point_attention", "fold_iteration/invariant_point_attention", "ipa")
    yield attention.array("point_weight_H", "trainable_point_weights", "head_weights", Layout.AS_IS)
    yield from attention.linear("project_query", "q_scalar", "linear_q")
    yield from attention.linear("project_query_points", "q_point_local", "linear_q_points.linear")
    yield from attention.linear("project_key_value", "kv_scalar", "linear_kv")
    yield from attention.linear("project_key_value_points", "kv_point_local", "linear_kv_points.linear")
    yield from attention.linear("project_pair_bias", "attention_2d", "linear_b")
    yield from attention.linear("project_output", "output_projection", "linear_out")
    yield from module.norm("normalise_attended", "fold_iteration/attention_layer_norm", "layer_norm_ipa")
    yield from module.linear("transition.first", "fold_iteration/transition", "transition.layers.0.linear_1")
    yield from module.linear(
        "transition.second", "fold_iteration/transition_1", "transition.layers.0.linear_2"
    )
    yield from module.linear(
        "transition.third", "fold_iteration/transition_2", "transition.layers.0.linear_3"
    )
    yield from module.norm(
        "transition.normalise", "fold_iteration/transition_layer_norm", "transition.layer_norm"
    )
    yield from module.linear(
        "backbone_update.project_motion", "fold_iteration/affine_update", "bb_update.linear"
    )
    angles = module.beneath("angle_network", "fold_iteration/rigid_sidechain", "angle_resnet")
    yield from angles.linear("project_current", "input_projection", "linear_in")
    yield from angles.linear("project_initial", "input_projection_1", "linear_initial")
    for number, suffix in enumerate(("", "_1")):
        yield from angles.linear(f"blocks.{number}.first", f"resblock1{suffix}", f"layers.{number}.linear_1")
        yield from angles.linear(f"blocks.{number}.second", f"resblock2{suffix}", f"layers.{number}.linear_2")
    yield from angles.linear("project_output", "unnormalized_angles", "linear_out")


def _heads() -> Iterator[ArrayRow]:
    yield from _ROOT.linear(
        "distogram_head.project_pair", "distogram_head/half_logits", "aux_heads.distogram.linear"
    )
    yield from _ROOT.linear(
        "masked_msa_head.project_msa", "masked_msa_head/logits", "aux_heads.masked_msa.linear"
    )
    lddt = _Place(ours="plddt_head", alphafold="predicted_lddt_head", openfold="aux_heads.plddt")
    yield from lddt.norm("normalise", "input_layer_norm", "layer_norm")
    yield from lddt.linear("first", "act_0", "linear_1")
    yield from lddt.linear("second", "act_1", "linear_2")
    yield from lddt.linear("project_bins", "logits", "linear_3")
    yield from _ROOT.linear(
        "experimentally_resolved_head.project_single",
        "experimentally_resolved_head/logits",
        "aux_heads.experimentally_resolved.linear",
    )
    yield from _ROOT.linear(
        "aligned_error_head.project_pair", "predicted_aligned_error_head/logits", "aux_heads.tm.linear"
    )
