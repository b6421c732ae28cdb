"""Which kernels beside torch's are used; `bioattn.models.evoformer.pair_updates` tries them and turns them on."""

import torch
from torch import Tensor

from bioattn.attention.score import FusedForm


class Used:
    """The kernels in use."""

    attention = False
    """`bioattn.attention.triton_kernels`."""
    triangle = False
    """The triangular multiplicative update of cuEquivariance."""


def fits(form: FusedForm, value: Tensor, mask: Tensor | None, bias: Tensor | None) -> bool:
    """Whether `attend` takes these arguments of `bioattn.attention.operator.attend`."""
    return (
        Used.attention
        and form.bias is None
        and not torch.is_grad_enabled()
        and form.query.dim() == 4
        and form.query.shape[:2] == form.key.shape[:2] == value.shape[:2]
        and form.query.shape[-1] == value.shape[-1]
        and (mask is None or mask.shape == (len(form.query), 1, 1, form.key.shape[2]))
        and (bias is None or bias.shape == (*form.query.shape[1:3], form.key.shape[2]))
    )


def attend(
    form: FusedForm, value: Tensor, mask: Tensor | None, bias: Tensor | None, reduce: str = ""
) -> tuple[Tensor, Tensor]:
    """As `bioattn.attention.triton_kernels.attend`."""
    from bioattn.attention.triton_kernels import attend

    mask_NK = None if mask is None else mask[:, 0, 0]
    attended, maps = attend(form.query, form.key, value, bias, mask_NK, form.scale, reduce)
    return attended, maps
