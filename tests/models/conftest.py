"""Devices that model tests run on."""

import pytest
import torch

collect_ignore = ["toy"]
"""A family that is imported as `bioattn.models.toy` only (`test_family.py`)."""


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """The CPU, and CUDA where there is one."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.device(request.param)
