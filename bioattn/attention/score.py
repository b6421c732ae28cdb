"""The three scoring functions of a query and a key: their logits and, where it exists, the form in which a fused
kernel computes the same softmax.

Shape suffixes: Q queries, K keys, D channels of a head, H heads; leading batch axes are `...`.
"""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from bioattn.choices import AttentionScore


class FusedForm(NamedTuple):
    """Inputs of scaled-dot-product attention whose softmax equals that of the scoring function."""

    query: Tensor
    key: Tensor
    scale: float
    bias: Tensor | None
    """(..., 1, K), added to the logits; None for nothing."""


class Score(Protocol):
    """A scoring function on queries (..., H, Q, D) and keys (..., H, K, D)."""

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """Logits (..., H, Q, K)."""

    def fused_form(self, query: Tensor, key: Tensor) -> FusedForm | None:
        """The dot-product form with the same softmax, or None where none exists."""


class DotScore(nn.Module):
    """qᵀk/√d (Vaswani et al. 2017)."""

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        return (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)

    def fused_form(self, query: Tensor, key: Tensor) -> FusedForm:
        """The dot product is its own fused form."""
        return FusedForm(query, key, 1 / math.sqrt(query.shape[-1]), None)


class AdditiveScore(nn.Module):
    """wᵀ tanh(q + k) with w per head (Bahdanau, Cho, Bengio 2014); W_q and W_k are the module's projections."""

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        self.weight_HD = nn.Parameter(torch.empty(num_heads, head_dim).normal_(std=head_dim**-0.5))

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """Logits (..., H, Q, K); the (..., H, Q, K, D) sum exists while they are computed."""
        summed = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
        return torch.einsum("...hqkd,hd->...hqk", summed, self.weight_HD)

    def fused_form(self, query: Tensor, key: Tensor) -> None:
        """None: tanh does not factor into a dot product."""
        return


class GaussianScore(nn.Module):
    """−½‖(q − k) w‖² with a width w per head and channel (Nadaraya 1964, Watson 1964)."""

    def __init__(self, num_heads: int, head_dim: int) -> None:
        super().__init__()
        # √(1/√d) makes the first logits as large as those of the scaled dot product.
        self.width_HD = nn.Parameter(torch.full((num_heads, head_dim), head_dim**-0.25))

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        """Logits (..., H, Q, K), at most 0."""
        form = self.fused_form(query, key)
        assert form.bias is not None
        return (
            form.query @ form.key.transpose(-2, -1)
            + form.bias
            - 0.5 * form.query.square().sum(-1, keepdim=True)
        )

    def fused_form(self, query: Tensor, key: Tensor) -> FusedForm:
        """−½‖a − b‖² = aᵀb − ½‖b‖² − ½‖a‖²; the last term is the same for all keys and leaves the softmax."""
        width = self.width_HD.unsqueeze(-2)
        scaled_key = key * width
        return FusedForm(query * width, scaled_key, 1.0, -0.5 * scaled_key.square().sum(-1).unsqueeze(-2))


class CosineScore:
    """Cosine of query and key times a strength (..., H, Q, 1) (content addressing, Graves et al. 2014)."""

    def __init__(self, strength: Tensor) -> None:
        self.strength = strength

    def logits(self, query: Tensor, key: Tensor) -> Tensor:
        lengths = key.norm(dim=-1).unsqueeze(-2).clamp(min=1e-6)
        cosines: Tensor = functional.normalize(query, dim=-1) @ key.transpose(-2, -1) / lengths
        return cosines * self.strength

    def fused_form(self, query: Tensor, key: Tensor) -> None:
        """None: it is for layers that need the weights."""
        return


def make_score(
    name: AttentionScore, num_heads: int, head_dim: int
) -> DotScore | AdditiveScore | GaussianScore:
    """The scoring function called `name`, with its own parameters where it has any."""
    match name:
        case AttentionScore.DOT:
            return DotScore()
        case AttentionScore.ADDITIVE:
            return AdditiveScore(num_heads, head_dim)
        case AttentionScore.GAUSSIAN:
            return GaussianScore(num_heads, head_dim)
