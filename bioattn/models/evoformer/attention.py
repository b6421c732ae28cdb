"""Attention layers of the trunk (AlphaFold 2 supplement, Algorithms 7, 8, 13, 14 and 19).

Shape suffixes: S MSA rows, R residues, T rows or residues of a tile, B sequences attended apart, N positions, H
heads, C channels, D channels of a head.
"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from bioattn.attention import cpu
from bioattn.attention.capture import makes_weights
from bioattn.attention.operator import attend, attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Tile
from bioattn.models.evoformer.layers import (
    Projection,
    final_linear,
    linear,
    rows_per_tile,
    tiled,
    tiles,
    tiles_of_at_most,
)

TILE_ELEMENTS = 1 << 19
"""Elements of a tile: 8 MSA rows of 256 residues and 256 channels, or 16 pair rows with 128 channels. Its
intermediates (16 MB in float32) fit a shared cache; smaller tiles cost more calls, larger ones more memory."""
EPSILON = 1e-10
"""Rows added to the count of a column's mean, so that a column without rows has mean 0."""
TILE_LEAST = 8
"""Least rows of a tile with pair bias: the bias is prepared once per tile, which costs as much as one row."""


WEIGHTS_AT_ONCE = 1 << 26
"""Weights that are written down for a listener at a time (256 MB), where a layer is computed whole."""


class GatedAttention(nn.Module):
    """Multi-head self-attention whose heads are gated before the output projection.

    `project_qkvg.weight` (4·C, C) holds query, key, value and gate one after another, each head-major (H·D rows).
    """

    def __init__(self, channels: int, site: AttentionSite | int, *, uniform: bool = False) -> None:
        """`site`: number of heads if nobody listens. `uniform`: unmasked keys weigh alike, queries aside."""
        super().__init__()
        self.site = None if isinstance(site, int) else site
        self.num_heads = site if isinstance(site, int) else site.num_heads
        self.uniform = uniform
        self.score = DotScore()
        self.project_qkvg = linear(channels, 4 * channels, bias=False)
        self.gate_bias = nn.Parameter(torch.ones(channels))
        self.project_output = final_linear(channels, channels)
        with torch.no_grad():
            self.project_qkvg.weight[3 * channels :] = 0

    def forward(
        self, normed_BNC: Tensor, key_mask_BN: Tensor | None, bias_HNN: Tensor | None, tile: Tile | None
    ) -> Tensor:
        """(B, N, C), LayerNormed → the update (B, N, C).

        key_mask_BN: bool, True = may be attended; None = all. bias_HNN: added to the logits, the same for all B.
        tile: which part of the site's outer axis B is.
        """
        query_BNC, key_BNC, value_BNC, gate_BNC = self.project_qkvg(normed_BNC).chunk(4, dim=-1)
        query_BHND, key_BHND, value_BHND = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part in (query_BNC, key_BNC, value_BNC)
        )
        if self.uniform:
            query_BHND, bias_HNN = torch.zeros_like(query_BHND), None
        if key_mask_BN is not None and cpu.on_cpu(key_mask_BN) and bool(key_mask_BN.all()):
            key_mask_BN = None
        attended_BHND = attend(
            query_BHND,
            key_BHND,
            value_BHND,
            score=self.score,
            mask=None if key_mask_BN is None else key_mask_BN[:, None, None, :],
            bias=bias_HNN,
            site=self.site,
            tile=tile,
        )
        attended_BNC = attended_BHND.transpose(1, 2).flatten(2)
        if torch.is_grad_enabled():
            gated_BNC = attended_BNC * torch.sigmoid(gate_BNC + self.gate_bias)
        else:
            gated_BNC = attended_BNC.mul_(gate_BNC.add_(self.gate_bias).sigmoid_())
        return self.project_output(gated_BNC)


def pair_bias(pair_RRC: Tensor, normalise: nn.LayerNorm, project: Projection) -> Tensor:
    """A projection of the LayerNormed pairs to one number per head: (H, R, R), contiguous."""

    def bias(_rows: slice, pair_TRC: Tensor) -> Tensor:
        projected_TRH: Tensor = project(normalise(pair_TRC))
        return projected_TRH.transpose(1, 2)

    shape_HRR = (project.out_features, *pair_RRC.shape[:2])
    return (
        tiled(
            bias,
            TILE_ELEMENTS,
            sliced=(pair_RRC,),
            parameters=[*normalise.parameters(), *project.parameters()],
            new_output=lambda: pair_RRC.new_empty(shape_HRR, dtype=project.weight.dtype).transpose(0, 1),
        )
        .transpose(0, 1)
        .contiguous()
    )


def add_attention(
    attention: GatedAttention,
    normalise: nn.LayerNorm,
    state_BNC: Tensor,
    mask_BN: Tensor | None,
    bias_HNN: Tensor | None,
    dimension: str,
) -> Tensor:
    """state + attention within each of B sequences (in place without autograd), some at a time.

    mask_BN: 1 = may be attended; None = all. dimension: what the site calls B.
    """

    def update(rows: slice, part_TNC: Tensor, *others: Tensor) -> Tensor:
        allowed_TN = None if mask_BN is None else others[0]
        tile = Tile(dimension, rows.start, len(state_BNC))
        attended_TNC: Tensor = attention(
            normalise(part_TNC), allowed_TN, others[-1] if has_bias else None, tile
        )
        return attended_TNC

    has_bias, largest = bias_HNN is not None, None
    if makes_weights(attention.site):
        largest = max(1, WEIGHTS_AT_ONCE // (attention.num_heads * state_BNC.shape[1] ** 2))
    with tiles_of_at_most(largest) if largest else nullcontext():
        return tiled(
            update,
            TILE_ELEMENTS,
            least=TILE_LEAST if has_bias else 1,
            sliced=(state_BNC,) if mask_BN is None else (state_BNC, mask_BN > 0),
            whole=() if bias_HNN is None else (bias_HNN,),
            parameters=[*normalise.parameters(), *attention.parameters()],
        )


class MsaRowAttention(nn.Module):
    """Every residue of a row attends to the row's residues; the pair representation biases the logits."""

    def __init__(
        self, msa_channels: int, pair_channels: int, site: AttentionSite, *, uniform: bool = False
    ) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(msa_channels)
        self.normalise_pair = nn.LayerNorm(pair_channels)
        self.project_pair_bias = linear(pair_channels, site.num_heads, bias=False)
        self.attention = GatedAttention(msa_channels, site, uniform=uniform)

    def forward(self, msa_SRC: Tensor, pair_RRC: Tensor, mask_SR: Tensor | None) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked; None = nothing is.

        A row that is masked throughout attends to all its residues alike.
        """
        bias_HRR = pair_bias(pair_RRC, self.normalise_pair, self.project_pair_bias)
        return add_attention(self.attention, self.normalise, msa_SRC, mask_SR, bias_HRR, "row")


def _columns_of_heads(projected_TRX: Tensor, num_heads: int) -> Tensor:
    """(T, R, H·D) → (H, R, T·D): what a column holds in all rows, by head."""
    projected_TRHD = projected_TRX.unflatten(-1, (num_heads, projected_TRX.shape[-1] // num_heads))
    columns_HRX: Tensor = projected_TRHD.permute(2, 1, 0, 3).flatten(2)
    return columns_HRX


class SumOverRows(nn.Module):
    """The score of two columns: the sum over rows of query · key, times a scale of the head."""

    def __init__(self, msa_channels: int, num_heads: int, head_channels: int) -> None:
        super().__init__()
        self.project_query = linear(msa_channels, num_heads * head_channels, bias=False)
        self.project_key = linear(msa_channels, num_heads * head_channels, bias=False)
        self.scale = nn.Parameter(torch.full((num_heads,), 10 / head_channels**0.5))

    def logits(self, query_SRC: Tensor, key_SRC: Tensor) -> Tensor:
        """(H, R, R), float32, summed over some rows at a time."""
        sum_HRR = torch.zeros((), device=query_SRC.device)
        for rows in tiles(len(query_SRC), rows_per_tile(query_SRC, TILE_ELEMENTS)):
            query_HRX, key_HRX = (
                _columns_of_heads(projected_TRX, len(self.scale)).float()
                for projected_TRX in (self.project_query(query_SRC[rows]), self.project_key(key_SRC[rows]))
            )
            sum_HRR = sum_HRR + query_HRX @ key_HRX.mT
        return sum_HRR * self.scale[:, None, None]

    def fused_form(self, query_SRC: Tensor, key_SRC: Tensor) -> None:
        """None: no fused kernel sums over rows."""


class TiedRowAttention(nn.Module):
    """All rows share one map per head, whose logits are covariances of two columns over the rows.

    As in MSA Transformer (Rao et al. 2021), where the logits of a head are the sum over rows of query · key; here
    they are a mean, both are centred over the rows of their column first, and the pair representation biases the
    logits as in AlphaFold. `project_value_gate.weight` (2·H·D, C) holds value and gate one after another, each
    head-major.
    """

    def __init__(
        self,
        msa_channels: int,
        pair_channels: int,
        site: AttentionSite,
        head_channels: int,
        *,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        self.site, self.uniform = site, uniform
        width = site.num_heads * head_channels
        self.normalise = nn.LayerNorm(msa_channels)
        self.normalise_pair = nn.LayerNorm(pair_channels)
        self.project_pair_bias = linear(pair_channels, site.num_heads, bias=False)
        self.score = SumOverRows(msa_channels, site.num_heads, head_channels)
        self.project_value_gate = linear(msa_channels, 2 * width)
        self.project_output = final_linear(width, msa_channels)

    def maps(self, msa_SRC: Tensor, pair_RRC: Tensor, mask_SR: Tensor | None) -> Tensor:
        """The weights (H, R, R) of all rows; mask: 1 = residue, 0 = masked; None = nothing is.

        Where all columns are masked, every column attends to all alike.
        """
        bias_HRR = pair_bias(pair_RRC, self.normalise_pair, self.project_pair_bias).float()
        if mask_SR is None:
            mask_SR = msa_SRC.new_ones(msa_SRC.shape[:2])
        mask_SR1, count_R1 = mask_SR.unsqueeze(-1), mask_SR.sum(0).unsqueeze(-1) + EPSILON
        normed_SRC = self.normalise(msa_SRC) * mask_SR1
        key_SRC = normed_SRC - mask_SR1 * (normed_SRC.sum(0) / count_R1)
        query_SRC = key_SRC / count_R1
        if self.uniform:
            query_SRC, bias_HRR = torch.zeros_like(query_SRC), torch.zeros_like(bias_HRR)
        allowed_R = (mask_SR > 0).any(0)
        return attention_weights(
            query_SRC, key_SRC, score=self.score, mask=allowed_R, bias=bias_HRR, site=self.site
        )

    def forward(self, msa_SRC: Tensor, maps_HRR: Tensor) -> Tensor:
        """msa + update (in place without autograd)."""

        def update(_rows: slice, rows_TRC: Tensor, maps_HRR: Tensor) -> Tensor:
            value_TRX, gate_TRX = self.project_value_gate(self.normalise(rows_TRC)).chunk(2, dim=-1)
            value_HRX = _columns_of_heads(value_TRX, self.site.num_heads)
            attended_HRX = maps_HRR.to(value_HRX.dtype) @ value_HRX
            attended_TRX = attended_HRX.unflatten(2, (len(rows_TRC), -1)).permute(2, 1, 0, 3).flatten(2)
            return self.project_output(attended_TRX * torch.sigmoid(gate_TRX))

        return tiled(
            update, TILE_ELEMENTS, sliced=(msa_SRC,), whole=(maps_HRR,), parameters=self.parameters()
        )


class MsaColumnAttention(nn.Module):
    """Every row attends to the rows of the same column."""

    def __init__(self, msa_channels: int, site: AttentionSite, *, uniform: bool = False) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(msa_channels)
        self.attention = GatedAttention(msa_channels, site, uniform=uniform)

    def forward(self, msa_SRC: Tensor, mask_SR: Tensor | None) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked; None = nothing is.

        A column that is masked throughout attends to all its rows alike.
        """
        columns_RSC = msa_SRC.transpose(0, 1)
        mask_RS = None if mask_SR is None else mask_SR.T
        updated_RSC = add_attention(self.attention, self.normalise, columns_RSC, mask_RS, None, "residue")
        return updated_RSC.transpose(0, 1)


class MsaColumnGlobalAttention(nn.Module):
    """One query per column, the mean of its rows; keys and values are shared by all heads.

    `project_kvg.weight` (2·D + C, C) holds key, value and gate one after another, the gate head-major.
    """

    def __init__(self, msa_channels: int, site: AttentionSite, *, uniform: bool = False) -> None:
        super().__init__()
        self.site = site
        self.uniform = uniform
        self.head_channels = msa_channels // site.num_heads
        self.score = DotScore()
        self.normalise = nn.LayerNorm(msa_channels)
        self.project_query = linear(msa_channels, msa_channels, bias=False)
        self.project_kvg = linear(msa_channels, 2 * self.head_channels + msa_channels, bias=False)
        self.gate_bias = nn.Parameter(torch.ones(msa_channels))
        self.project_output = final_linear(msa_channels, msa_channels)
        with torch.no_grad():
            self.project_kvg.weight[2 * self.head_channels :] = 0

    def forward(self, msa_SRC: Tensor, mask_SR: Tensor | None) -> Tensor:
        """msa + update (in place without autograd); mask: 1 = residue, 0 = masked; None = nothing is."""
        if mask_SR is None:
            mask_SR = msa_SRC.new_ones(msa_SRC.shape[:2])

        def update(columns: slice, columns_TSC: Tensor, mask_TS: Tensor) -> Tensor:
            normed_TSC = self.normalise(columns_TSC)
            counted = mask_TS.unsqueeze(-1).to(normed_TSC.dtype)
            mean_TC = (normed_TSC * counted).sum(1) / (counted.sum(1) + EPSILON)
            query_THD = self.project_query(mean_TC).unflatten(-1, (-1, self.head_channels))
            if self.uniform:
                query_THD = torch.zeros_like(query_THD)
            kvg = self.project_kvg(normed_TSC)
            key_TSD, value_TSD, gate_TSC = kvg.split(
                [self.head_channels, self.head_channels, kvg.shape[-1] - 2 * self.head_channels], dim=-1
            )
            weights_THS = attention_weights(
                query_THD,
                key_TSD,
                score=self.score,
                mask=(mask_TS > 0).unsqueeze(1),
                site=self.site,
                tile=Tile("residue", columns.start, msa_SRC.shape[1]),
                value=value_TSD,
            )
            attended_T1C = (weights_THS @ value_TSD).flatten(1).unsqueeze(1)
            return self.project_output(attended_T1C * torch.sigmoid(gate_TSC + self.gate_bias))

        columns_RSC = msa_SRC.transpose(0, 1)
        return tiled(
            update, TILE_ELEMENTS, sliced=(columns_RSC, mask_SR.T), parameters=self.parameters()
        ).transpose(0, 1)


class TriangleAttention(nn.Module):
    """Edges that share their starting node attend to each other, biased by the third edge of the triangle.

    Around the ending node the same is done to the transposed pair representation.
    """

    def __init__(self, pair_channels: int, site: AttentionSite | int, *, starting: bool) -> None:
        """`site`: as for `GatedAttention`."""
        super().__init__()
        self.starting = starting
        self.normalise = nn.LayerNorm(pair_channels)
        num_heads = site if isinstance(site, int) else site.num_heads
        self.project_pair_bias = linear(pair_channels, num_heads, bias=False)
        self.attention = GatedAttention(pair_channels, site)

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor | None) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked; None = nothing is.

        Where all edges of a node are masked, its edges attend to all of them alike.
        """
        bias_HRR = pair_bias(pair_RRC, self.normalise, self.project_pair_bias)
        if self.starting:
            return add_attention(self.attention, self.normalise, pair_RRC, mask_RR, bias_HRR, "residue")
        updated_RRC = add_attention(
            self.attention,
            self.normalise,
            pair_RRC.transpose(0, 1),
            None if mask_RR is None else mask_RR.T,
            bias_HRR.transpose(1, 2).contiguous(),
            "residue",
        )
        return updated_RRC.transpose(0, 1)
