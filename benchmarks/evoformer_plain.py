"""The rival of the Evoformer benchmark: one block written straight from the supplement's algorithms.

No fusion, no tiles, no in-place update: every projection is a `Linear` of its own, every softmax is written down,
every intermediate is whole. Functions are named and numbered as in the AlphaFold 2 supplement. Shape suffixes:
S MSA rows, R residues, H heads, C channels, D channels of a head.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.evoformer.stacks import EvoformerBlock


class PlainBlock(nn.Module):
    """The block with one tensor per projection, copied out of ours."""

    def __init__(self, block: EvoformerBlock) -> None:
        super().__init__()
        self.msa_heads = block.msa_row_attention.attention.num_heads
        self.pair_heads = block.triangle_attention_starting.attention.num_heads
        self.tensors = nn.ParameterDict()
        hidden_channels = block.triangle_multiplication_outgoing.hidden_channels
        for name, parameter in block.named_parameters():
            for part, tensor in split(name, parameter.detach(), hidden_channels).items():
                self.tensors[part.replace(".", "/")] = nn.Parameter(tensor.clone())

    def get(self, name: str) -> Tensor | None:
        key = name.replace(".", "/")
        return self.tensors.get(key)

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def layer_norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def attention(self, x: Tensor, mask: Tensor, bias: Tensor | None, heads: int, name: str) -> Tensor:
        """Gated attention of (..., N, C) over its second-last axis; mask (..., N), bias (H, N, N)."""
        query, key, value = (
            self.linear(x, f"{name}.{part}").unflatten(-1, (heads, -1)).transpose(-2, -3)
            for part in ("query", "key", "value")
        )
        gate = torch.sigmoid(self.linear(x, f"{name}.gate"))
        logits = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
        logits = logits + 1e9 * (mask - 1)[..., None, None, :]
        if bias is not None:
            logits = logits + bias
        weights = torch.softmax(logits, dim=-1)
        attended = (weights @ value).transpose(-2, -3).flatten(-2)
        return self.linear(gate * attended, f"{name}.project_output")

    def msa_row_attention_7(self, msa_SRC: Tensor, pair_RRC: Tensor, mask_SR: Tensor) -> Tensor:
        layer = "msa_row_attention"
        normed = self.layer_norm(msa_SRC, f"{layer}.normalise")
        bias = self.linear(self.layer_norm(pair_RRC, f"{layer}.normalise_pair"), f"{layer}.project_pair_bias")
        return self.attention(normed, mask_SR, bias.movedim(-1, 0), self.msa_heads, f"{layer}.attention")

    def msa_column_attention_8(self, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        layer = "msa_column_attention"
        normed = self.layer_norm(msa_SRC.transpose(0, 1), f"{layer}.normalise")
        attended = self.attention(normed, mask_SR.T, None, self.msa_heads, f"{layer}.attention")
        return attended.transpose(0, 1)

    def transition_9_15(self, state: Tensor, layer: str) -> Tensor:
        hidden = torch.relu(self.linear(self.layer_norm(state, f"{layer}.normalise"), f"{layer}.expand"))
        return self.linear(hidden, f"{layer}.contract")

    def outer_product_mean_10(self, msa_SRC: Tensor, mask_SR: Tensor) -> Tensor:
        layer = "outer_product_mean"
        normed = self.layer_norm(msa_SRC, f"{layer}.normalise")
        left = self.linear(normed, f"{layer}.left") * mask_SR[..., None]
        right = self.linear(normed, f"{layer}.right") * mask_SR[..., None]
        outer = torch.einsum("sia,sjb->ijab", left, right).flatten(-2)
        count = torch.einsum("si,sj->ij", mask_SR, mask_SR)
        return self.linear(outer, f"{layer}.project_output") / (1e-3 + count)[..., None]

    def triangle_multiplication_11_12(self, pair_RRC: Tensor, mask_RR: Tensor, layer: str) -> Tensor:
        normed = self.layer_norm(pair_RRC, f"{layer}.normalise")
        left, right = (
            mask_RR[..., None]
            * torch.sigmoid(self.linear(normed, f"{layer}.{side}_gate"))
            * self.linear(normed, f"{layer}.{side}")
            for side in ("left", "right")
        )
        formula = "ikc,jkc->ijc" if layer.endswith("outgoing") else "kjc,kic->ijc"
        product = torch.einsum(formula, left, right)
        gate = torch.sigmoid(self.linear(normed, f"{layer}.gate"))
        return gate * self.linear(
            self.layer_norm(product, f"{layer}.normalise_product"), f"{layer}.project_output"
        )

    def triangle_attention_13_14(self, pair_RRC: Tensor, mask_RR: Tensor, layer: str) -> Tensor:
        if layer.endswith("ending"):
            pair_RRC, mask_RR = pair_RRC.transpose(0, 1), mask_RR.T
        normed = self.layer_norm(pair_RRC, f"{layer}.normalise")
        bias = self.linear(normed, f"{layer}.project_pair_bias").movedim(-1, 0)
        attended = self.attention(normed, mask_RR, bias, self.pair_heads, f"{layer}.attention")
        return attended.transpose(0, 1) if layer.endswith("ending") else attended

    def forward(
        self, msa_SRC: Tensor, pair_RRC: Tensor, msa_mask_SR: Tensor, pair_mask_RR: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Algorithm 6, lines 2 to 10."""
        msa_SRC = msa_SRC + self.msa_row_attention_7(msa_SRC, pair_RRC, msa_mask_SR)
        msa_SRC = msa_SRC + self.msa_column_attention_8(msa_SRC, msa_mask_SR)
        msa_SRC = msa_SRC + self.transition_9_15(msa_SRC, "msa_transition")
        pair_RRC = pair_RRC + self.outer_product_mean_10(msa_SRC, msa_mask_SR)
        for direction in ("outgoing", "incoming"):
            pair_RRC = pair_RRC + self.triangle_multiplication_11_12(
                pair_RRC, pair_mask_RR, f"triangle_multiplication_{direction}"
            )
        for node in ("starting", "ending"):
            pair_RRC = pair_RRC + self.triangle_attention_13_14(
                pair_RRC, pair_mask_RR, f"triangle_attention_{node}"
            )
        pair_RRC = pair_RRC + self.transition_9_15(pair_RRC, "pair_transition")
        return msa_SRC, pair_RRC


def split(name: str, tensor: Tensor, hidden_channels: int) -> dict[str, Tensor]:
    """One of our fused parameters → the parameters of the projections it is made of."""
    owner, kind = name.rsplit(".", 1)
    layer, projection = owner.rsplit(".", 1) if "." in owner else (owner, "")
    if kind == "gate_bias":
        return {f"{owner}.gate.bias": tensor}
    if projection == "project_qkvg":
        parts, sizes = ["query", "key", "value", "gate"], [len(tensor) // 4] * 4
    elif projection == "project_factors" and layer == "outer_product_mean":
        parts, sizes = ["left", "right"], [len(tensor) // 2] * 2
    elif projection == "project_factors":
        parts = ["left", "right", "left_gate", "right_gate", "gate"]
        sizes = [hidden_channels] * 4 + [len(tensor) - 4 * hidden_channels]
    else:
        return {name: tensor}
    return {f"{layer}.{part}.{kind}": rows for part, rows in zip(parts, tensor.split(sizes), strict=True)}
