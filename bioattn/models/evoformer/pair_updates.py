"""Updates of the pairs: outer product mean of the MSA, triangular multiplication (Algorithms 10 to 12).

Shape suffixes: S MSA rows, R residues, T residues of a tile, N = T · R pairs of a tile, C pair channels, A and B
channels of the two factors of a product, M hidden channels (2M: left and right).
"""

import logging
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from bioattn.attention import cpu, kernels
from bioattn.attention.cpu.matmul import linear, matmul
from bioattn.attention.kernels import Used
from bioattn.attention.score import FusedForm
from bioattn.attention.site import AttentionSite
from bioattn.models.evoformer.layers import final_linear, tiled
from bioattn.models.evoformer.layers import linear as new_linear
from bioattn.system.device import Kernels

LOGGER = logging.getLogger("bioattn")
TILE_ELEMENTS = 1 << 18
"""Pair elements of a tile: 8 residues i, 256 residues j, 128 channels; outer products take 8 MB in float32, the
four factors of a triangle as much."""
TILE_MSA_ELEMENTS = 1 << 20
"""MSA elements of a tile: 16 rows of 256 residues with 256 channels."""
CUEQUIVARIANCE_LEAST = 384
"""Residues from which on cuEquivariance's triangular update is faster, measured on an H100."""
EPSILON = 1e-3
"""Added to the number of rows that cover a pair."""
LEAST_WEIGHT = 1e-10
"""Least ratio of a weight to a uniform one whose logarithm is told apart."""


class OuterProductMean(nn.Module):
    """Mean over rows of the outer product of two projections of columns i and j.

    `project_factors.weight` (A + B, C) holds the factor of i and that of j; `project_output.weight` (C, A·B) has
    the channel of i as the slower one. The output bias is divided by the count too: a pair that no row covers
    gets bias / 1e-3, as in AlphaFold.
    """

    def __init__(
        self, msa_channels: int, pair_channels: int, hidden_channels: int, *, centred: bool = False
    ) -> None:
        """`centred`: the mean over the rows of a column is subtracted from each projection first, so that the
        layer gives covariances of columns instead of mean products. AlphaFold does not do this; its pairs must
        learn to subtract what two columns share by chance, for which few families are too little data."""
        super().__init__()
        self.centred = centred
        self.normalise = nn.LayerNorm(msa_channels)
        self.project_factors = new_linear(msa_channels, 2 * hidden_channels)
        self.project_output = final_linear(hidden_channels * hidden_channels, pair_channels)

    def forward(self, pair_RRC: Tensor, msa_SRC: Tensor, mask_SR: Tensor | None) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = residue, 0 = masked; None = nothing is."""
        if mask_SR is None:
            mask_SR = msa_SRC.new_ones(msa_SRC.shape[:2])
        count_RR = mask_SR.T @ mask_SR + EPSILON
        shape_SRX = (*msa_SRC.shape[:2], self.project_factors.out_features)
        factors_SRX = tiled(
            self._factors,
            TILE_MSA_ELEMENTS,
            sliced=(msa_SRC, mask_SR),
            parameters=[*self.normalise.parameters(), *self.project_factors.parameters()],
            new_output=lambda: msa_SRC.new_empty(shape_SRX, dtype=self.project_factors.weight.dtype),
        )
        if self.centred:
            mask_SR1 = mask_SR.unsqueeze(-1).to(factors_SRX.dtype)
            factors_SRX = factors_SRX - mask_SR1 * (factors_SRX.sum(0) / (mask_SR1.sum(0) + EPSILON))
        first_SRA, second_SRB = factors_SRX.chunk(2, dim=-1)
        return tiled(
            self._update,
            TILE_ELEMENTS,
            sliced=(pair_RRC, first_SRA.permute(1, 2, 0), count_RR),
            # (B·R, S): the products of one residue then lie as (A·B, R), ready for the output projection.
            whole=(second_SRB.permute(2, 1, 0).reshape(-1, len(msa_SRC)),),
            parameters=self.project_output.parameters(),
        )

    def _factors(self, _rows: slice, msa_TRC: Tensor, mask_TR: Tensor) -> Tensor:
        """Both factors (T, R, A + B) of some rows, 0 where masked."""
        factors: Tensor = self.project_factors(self.normalise(msa_TRC))
        return factors * mask_TR.unsqueeze(-1).to(factors.dtype)

    def _update(
        self, _rows: slice, pair_TRC: Tensor, first_TAS: Tensor, count_TR: Tensor, second_XS: Tensor
    ) -> Tensor:
        """Update of the pairs of some residues i with all residues j."""
        num_residues, channels = pair_TRC.shape[1], first_TAS.shape[1]
        outer = linear(first_TAS.flatten(0, 1), second_XS)
        outer_TXR = outer.view(-1, channels * channels, num_residues)
        weight, bias_C1 = self.project_output.weight, self.project_output.bias.unsqueeze(-1)
        if cpu.on_cpu(pair_TRC) and not torch.is_grad_enabled():
            update_TRC = torch.empty_like(pair_TRC)
            for outer_XR, count_R, update_RC in zip(outer_TXR, count_TR, update_TRC, strict=True):
                torch.div(matmul(weight, outer_XR).add_(bias_C1), count_R, out=update_RC.T)
            return update_TRC
        if cpu.on_cpu(pair_TRC):
            projected_TCR = torch.stack([linear(weight, outer_XR.T) for outer_XR in outer_TXR.unbind()])
        else:
            projected_TCR = weight @ outer_TXR
        return (projected_TCR + bias_C1).transpose(1, 2) / count_TR.unsqueeze(-1)


class MapsToPairs(nn.Module):
    """In place of the outer product mean: logarithms of tied row attention's weights, in both directions.

    They are those of the weight over a uniform one, so that uniform attention tells the pairs nothing.
    `project_output.weight` (C, 2·H): of each head the weight of j for i, then that of i for j.
    """

    def __init__(self, pair_channels: int, site: AttentionSite) -> None:
        """site: that of the row attention."""
        super().__init__()
        self.site = site
        self.project_output = new_linear(2 * site.num_heads, pair_channels, bias=False)

    def forward(self, pair_RRC: Tensor, maps_HRR: Tensor, mask_SR: Tensor | None) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = residue, 0 = masked; None = nothing is."""
        num_columns = len(pair_RRC) if mask_SR is None else (mask_SR > 0).any(0).sum()
        logs_HRR = (maps_HRR * num_columns).clamp_min(LEAST_WEIGHT).log()
        both_RRX = torch.stack([logs_HRR, logs_HRR.mT], dim=1).permute(2, 3, 0, 1).flatten(2)

        def update(_rows: slice, _pair_TRC: Tensor, both_TRX: Tensor) -> Tensor:
            return self.project_output(both_TRX)

        return tiled(
            update, TILE_ELEMENTS, sliced=(pair_RRC, both_RRX), parameters=self.project_output.parameters()
        )


class TriangleMultiplication(nn.Module):
    """Edge ij is updated from the two other edges of every triangle ijk.

    outgoing (Algorithm 11): sum over k of left_ik · right_jk. Incoming (Algorithm 12): of left_kj · right_ki, left
    and right as AlphaFold's parameters name them (in the supplement and in OpenFold a = right, b = left there).

    `project_factors.weight` (4·M + C, C) holds left, right, gate of left, gate of right, gate of the output.
    """

    def __init__(self, pair_channels: int, hidden_channels: int, *, outgoing: bool) -> None:
        super().__init__()
        self.outgoing = outgoing
        self.hidden_channels = hidden_channels
        self.normalise = nn.LayerNorm(pair_channels)
        self.project_factors = new_linear(pair_channels, 4 * hidden_channels + pair_channels)
        self.normalise_product = nn.LayerNorm(hidden_channels)
        self.project_output = final_linear(hidden_channels, pair_channels)
        with torch.no_grad():
            self.project_factors.weight[2 * hidden_channels :] = 0
            self.project_factors.bias[2 * hidden_channels :] = 1

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor | None) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = both residues exist, 0 = masked; None = nothing
        is."""
        if mask_RR is None:
            mask_RR = pair_RRC.new_ones(pair_RRC.shape[:2])
        weight = self.project_output.weight
        fits = weight.dtype != torch.float32 and not any(number % 32 for number in weight.shape)
        if Used.triangle and fits and len(pair_RRC) >= CUEQUIVARIANCE_LEAST:
            return self.by_cuequivariance(pair_RRC, mask_RR)
        # Residues of the incoming update are swapped: the product of either update is then one of rows with rows.
        swapped_RRC, swapped_mask_RR = pair_RRC, mask_RR
        if not self.outgoing:
            swapped_RRC, swapped_mask_RR = pair_RRC.transpose(0, 1), mask_RR.T
        shape_2MRR = (2 * self.hidden_channels, *mask_RR.shape)
        factors_2MRR = tiled(
            self._factors,
            TILE_ELEMENTS,
            sliced=(swapped_RRC, swapped_mask_RR),
            parameters=[*self.normalise.parameters(), *self.project_factors.parameters()],
            new_output=lambda: pair_RRC.new_empty(
                shape_2MRR, dtype=self.project_factors.weight.dtype
            ).transpose(0, 1),
        ).transpose(0, 1)
        left_MRR, right_MRR = factors_2MRR.chunk(2)
        first_MRR, second_MRR = (left_MRR, right_MRR) if self.outgoing else (right_MRR, left_MRR)
        if torch.is_grad_enabled() or not cpu.on_cpu(pair_RRC):
            product_MRR = first_MRR @ second_MRR.mT
        else:
            product_MRR = first_MRR
            for first_RR, second_RR in zip(first_MRR, second_MRR, strict=True):
                first_RR.copy_(matmul(first_RR, second_RR.T))
        return tiled(
            self._update,
            TILE_ELEMENTS,
            sliced=(pair_RRC, product_MRR.transpose(0, 1)),
            parameters=self.parameters(),
        )

    def by_cuequivariance(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
        """As `forward`, by cuEquivariance, not in place."""
        from cuequivariance_torch import triangle_multiplicative_update

        sizes = 4 * [self.hidden_channels] + [pair_RRC.shape[-1]]
        factors, output = self.project_factors, self.project_output
        weights, biases = factors.weight.split(sizes), factors.bias.split(sizes)
        # Their incoming update sums over k of first_ki · second_kj; ours has left at j and right at i.
        first, second = (0, 1) if self.outgoing else (1, 0)
        dtype = factors.weight.dtype
        before, after = self.normalise, self.normalise_product
        update: Tensor = triangle_multiplicative_update(
            pair_RRC.to(dtype)[None],
            direction="outgoing" if self.outgoing else "incoming",
            mask=mask_RR.to(dtype)[None],
            **{"norm_in_weight": before.weight.to(dtype), "norm_in_bias": before.bias.to(dtype)},
            **{"norm_out_weight": after.weight.to(dtype), "norm_out_bias": after.bias.to(dtype)},
            p_in_weight=torch.cat([weights[first], weights[second]]),
            p_in_bias=torch.cat([biases[first], biases[second]]),
            g_in_weight=torch.cat([weights[2 + first], weights[2 + second]]),
            g_in_bias=torch.cat([biases[2 + first], biases[2 + second]]),
            **{"g_out_weight": weights[4], "g_out_bias": biases[4]},
            **{"p_out_weight": output.weight, "p_out_bias": output.bias},
            eps=before.eps,
        )
        return pair_RRC + update[0]

    def _factors(self, _rows: slice, pair_TRC: Tensor, mask_TR: Tensor) -> Tensor:
        """Left and right of some rows, (T, 2·M, R)."""
        num_factors = 2 * self.hidden_channels
        weight = self.project_factors.weight[: 2 * num_factors]
        bias_N1 = self.project_factors.bias[: 2 * num_factors].unsqueeze(-1)
        normed_NC = self.normalise(pair_TRC).to(weight.dtype).flatten(0, 1)
        mask_N = mask_TR.to(weight.dtype).flatten()
        if torch.is_grad_enabled():
            projected = linear(weight, normed_NC) + bias_N1
            factors = projected[:num_factors] * torch.sigmoid(projected[num_factors:]) * mask_N
        else:
            projected = linear(weight, normed_NC).add_(bias_N1)
            factors = projected[:num_factors].mul_(projected[num_factors:].sigmoid_()).mul_(mask_N)
        return factors.view(num_factors, *mask_TR.shape).transpose(0, 1)

    def _update(self, _rows: slice, pair_TRC: Tensor, product_TMR: Tensor) -> Tensor:
        first_row = 4 * self.hidden_channels
        weight, bias = self.project_factors.weight[first_row:], self.project_factors.bias[first_row:]
        gate_TRC = linear(self.normalise(pair_TRC).to(weight.dtype), weight, bias)
        if torch.is_grad_enabled() or not cpu.on_cpu(pair_TRC):
            product_TRM = product_TMR.transpose(1, 2)
        else:
            # Dense float32 first: torch transposes that block by block, anything else number by number.
            product_MN = product_TMR.transpose(0, 1).float().contiguous().view(self.hidden_channels, -1)
            product_TRM = product_MN.T.contiguous().view(*pair_TRC.shape[:2], -1)
        update: Tensor = self.project_output(self.normalise_product(product_TRM.float()))
        if torch.is_grad_enabled():
            return update * torch.sigmoid(gate_TRC)
        return update.mul_(gate_TRC.sigmoid_())


# --- kernels of other libraries: tried once on a small input beside torch's, and used where they agree ---

NEEDED = {"triton": ["triton"], "cuequivariance_torch": ["cuequivariance_torch", "cuequivariance_ops_torch"]}
TOLERANCE = 2e-2
"""Relative to the largest number; products are bfloat16."""


def use_kernels(
    wanted: Kernels, device: torch.device, *, attention: bool = True, triangle: bool = True
) -> dict[str, str]:
    """Turn on what is wanted, installed and agrees, and the rest off; returns versions by name, for records.

    attention, triangle: whether there is work that pays for loading Triton or cuEquivariance.
    """
    possible = wanted is Kernels.AUTO and device.type == "cuda"
    Used.attention = possible and attention and _agrees("triton", device)
    Used.triangle = possible and triangle and _agrees("cuequivariance_torch", device)
    used = {"triton": Used.attention, "cuequivariance_torch": Used.triangle}
    return {name: version(name) for name, is_used in used.items() if is_used}


@cache
@torch.no_grad()
def _agrees(name: str, device: torch.device) -> bool:
    """Whether a library is installed and near torch."""
    if not all(map(find_spec, NEEDED[name])):
        return False
    with torch.random.fork_rng([device] if torch.cuda.is_available() else []):
        torch.manual_seed(0)
        try:
            error = _try_attention(device) if name == "triton" else _try_triangle(device)
        except Exception as failure:  # noqa: BLE001 - whatever another library raises where it cannot run
            reason = f"fails here ({(str(failure).strip() or repr(failure)).splitlines()[0]})"
        else:
            if error <= TOLERANCE:
                return True
            reason = f"is {error:.1g} off in a trial"
    LOGGER.warning(f"{name} {reason}: torch's kernels are used (--kernels torch)")
    return False


def _try_attention(device: torch.device) -> float:
    """How far attention and the sum of its maps are from the plain way; a sequence has no key."""
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    query, key, value = torch.randn(3, 3, 2, 40, 32, device=device).to(dtype)
    bias, mask = torch.randn(2, 40, 40, device=device).to(dtype), torch.rand(3, 1, 1, 40, device=device) < 0.7
    mask[0] = False
    logits = query.float() @ key.float().mT * 32**-0.5 + bias.float() + torch.where(mask, 0.0, -1e30)
    weights = logits.softmax(-1)
    attended, maps = kernels.attend(FusedForm(query, key, 32**-0.5, None), value, mask, bias, "sum")
    return max(_error(attended, weights @ value.float()), _error(maps, weights.sum(0)))


def _try_triangle(device: torch.device) -> float:
    """How far both triangular multiplicative updates are from ours."""
    pair, mask = torch.randn(40, 40, 128, device=device), torch.ones(40, 40, device=device)
    mask[-5:] = mask[:, -5:] = 0
    errors = []
    for outgoing in (True, False):
        layer = TriangleMultiplication(128, 128, outgoing=outgoing).to(device)
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
        for projection in (layer.project_factors, layer.project_output):
            projection.to(torch.bfloat16)
        errors.append(_error(layer.by_cuequivariance(pair, mask), layer(pair.clone(), mask)))
    return max(errors)


def _error(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max() / other.abs().max())
