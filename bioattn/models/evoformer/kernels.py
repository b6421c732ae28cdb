"""Kernels of other libraries: tried once on a small input beside torch's, and used where they agree."""

import logging
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec

import torch
from torch import Tensor

from bioattn.attention import kernels
from bioattn.attention.kernels import Used
from bioattn.attention.score import FusedForm
from bioattn.models.evoformer.pair_updates import TriangleMultiplication
from bioattn.system.device import Kernels

LOGGER = logging.getLogger("bioattn")
NEEDED = {"triton": ["triton"], "cuequivariance_torch": ["cuequivariance_torch", "cuequivariance_ops_torch"]}
"""Modules that a library consists of."""
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
