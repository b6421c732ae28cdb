"""Golden cases of the trunk: configs, and our layers with the golden parameters."""

import json
from pathlib import Path

import numpy as np
import torch

from bioattn.models.evoformer.config import EvoformerConfig

CASES = ("tiny", "wide")


def golden_config(folder: Path, case: str) -> EvoformerConfig:
    """Our config of a golden case."""
    dims = json.loads((folder / "config.json").read_text())[case]["D"]
    return EvoformerConfig(
        msa_channels=dims["c_m"],
        pair_channels=dims["c_z"],
        extra_msa_channels=dims["c_e"],
        single_channels=dims["c_s"],
        msa_heads=dims["h_m"],
        pair_heads=dims["h_z"],
        extra_msa_heads=dims["h_e"],
        outer_product_channels=dims["c_opm"],
        triangle_multiplication_channels=dims["c_mul"],
        transition_factor=dims["n_tr"],
        num_blocks=dims["blocks"],
        num_extra_msa_blocks=dims["extra_blocks"],
    )


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def attention_names(ours: str, theirs: str) -> dict[str, list[str]]:
    """Our gated attention: each of our parameters and the OpenFold ones it is made of, stacked on axis 0."""
    return {
        f"{ours}.project_qkvg.weight": [f"{theirs}.linear_{part}.weight" for part in "qkvg"],
        f"{ours}.gate_bias": [f"{theirs}.linear_g.bias"],
        **plain_names(f"{ours}.project_output", f"{theirs}.linear_o"),
    }


def plain_names(ours: str, theirs: str) -> dict[str, list[str]]:
    """A layer with a weight and a bias."""
    return {f"{ours}.{part}": [f"{theirs}.{part}"] for part in ("weight", "bias")}


def block_names(extra_msa: bool) -> dict[str, list[str]]:
    """Each parameter of our block and the OpenFold parameters it is made of, stacked on axis 0."""
    names = {
        **plain_names("msa_row_attention.normalise", "msa_att_row.layer_norm_m"),
        **plain_names("msa_row_attention.normalise_pair", "msa_att_row.layer_norm_z"),
        "msa_row_attention.project_pair_bias.weight": ["msa_att_row.linear_z.weight"],
        **attention_names("msa_row_attention.attention", "msa_att_row.mha"),
        **plain_names("outer_product_mean.normalise", "outer_product_mean.layer_norm"),
        "outer_product_mean.project_factors.weight": [
            f"outer_product_mean.linear_{i}.weight" for i in (1, 2)
        ],
        "outer_product_mean.project_factors.bias": [f"outer_product_mean.linear_{i}.bias" for i in (1, 2)],
        **plain_names("outer_product_mean.project_output", "outer_product_mean.linear_out"),
    }
    if extra_msa:
        names |= plain_names("msa_column_attention.normalise", "msa_att_col.layer_norm_m")
        theirs = "msa_att_col.global_attention"
        names["msa_column_attention.project_query.weight"] = [f"{theirs}.linear_q.weight"]
        names["msa_column_attention.project_kvg.weight"] = [
            f"{theirs}.linear_{part}.weight" for part in "kvg"
        ]
        names["msa_column_attention.gate_bias"] = [f"{theirs}.linear_g.bias"]
        names |= plain_names("msa_column_attention.project_output", f"{theirs}.linear_o")
    else:
        names |= plain_names("msa_column_attention.normalise", "msa_att_col._msa_att.layer_norm_m")
        names |= attention_names("msa_column_attention.attention", "msa_att_col._msa_att.mha")
    for ours, theirs in (
        ("msa_transition", "msa_transition"),
        ("pair_transition", "pair_stack.pair_transition"),
    ):
        names |= plain_names(f"{ours}.normalise", f"{theirs}.layer_norm")
        names |= plain_names(f"{ours}.expand", f"{theirs}.linear_1")
        names |= plain_names(f"{ours}.contract", f"{theirs}.linear_2")
    for direction, theirs, order in (
        ("outgoing", "pair_stack.tri_mul_out", ("a_p", "b_p", "a_g", "b_g", "g")),
        ("incoming", "pair_stack.tri_mul_in", ("b_p", "a_p", "b_g", "a_g", "g")),
    ):
        ours = f"triangle_multiplication_{direction}"
        names |= plain_names(f"{ours}.normalise", f"{theirs}.layer_norm_in")
        for kind in ("weight", "bias"):
            names[f"{ours}.project_factors.{kind}"] = [f"{theirs}.linear_{part}.{kind}" for part in order]
        names |= plain_names(f"{ours}.normalise_product", f"{theirs}.layer_norm_out")
        names |= plain_names(f"{ours}.project_output", f"{theirs}.linear_z")
    for node, theirs in (("starting", "pair_stack.tri_att_start"), ("ending", "pair_stack.tri_att_end")):
        ours = f"triangle_attention_{node}"
        names |= plain_names(f"{ours}.normalise", f"{theirs}.layer_norm")
        names[f"{ours}.project_pair_bias.weight"] = [f"{theirs}.linear.weight"]
        names |= attention_names(f"{ours}.attention", f"{theirs}.mha")
    return names


def stacked(
    arrays: dict[str, np.ndarray], prefix: str, names: dict[str, list[str]]
) -> dict[str, torch.Tensor]:
    """Our parameters, or their gradients, out of arrays under OpenFold's names."""
    return {
        ours: torch.from_numpy(np.concatenate([arrays[prefix + name] for name in theirs]))
        for ours, theirs in names.items()
    }


def assert_close(actual: torch.Tensor, expected: np.ndarray, largest_input: float) -> None:
    """Element by element, as the golden files' README asks."""
    np.testing.assert_allclose(
        actual.detach().numpy(), expected, rtol=1e-4, atol=1e-5 * (1 + largest_input), strict=True
    )
