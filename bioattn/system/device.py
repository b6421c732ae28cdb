"""Choosing where and with how many threads a model runs. Torch is imported when a choice is made."""

import os
from enum import StrEnum
from typing import TYPE_CHECKING

from bioattn.errors import BioattnError
from bioattn.system.threads import granted_threads
from bioattn.system.torchrun import launch

if TYPE_CHECKING:
    import torch


class Device(StrEnum):
    """Where a model runs."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


def choose_device(name: str) -> "torch.device":
    """`auto` takes CUDA, then MPS, then the CPU; any other name must be there.

    Of several processes on one machine each takes a GPU of its own; together they do not work on MPS.

    Raises: BioattnError when the device asked for is absent, or there are more processes than GPUs.
    """
    import torch

    here = launch()
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    available["mps"] &= here.count == 1
    if name == "auto":
        name = next(device for device in ("cuda", "mps", "cpu") if available[device])
    if not available.get(name, False):
        present = ", ".join(device for device, there in available.items() if there)
        raise BioattnError(f"--device {name}: torch sees no such device here; available: {present}")
    if name == "cuda" and here.count > 1:
        if here.local_rank >= torch.cuda.device_count():
            raise BioattnError(
                f"{here.local_count} processes on a machine with {torch.cuda.device_count()} GPUs; start as many "
                "as there are GPUs (torchrun --nproc-per-node), or choose --device cpu"
            )
        torch.cuda.set_device(here.local_rank)
        return torch.device(name, here.local_rank)
    return torch.device(name)


def describe_device(device: "torch.device") -> str:
    """For example `cuda (NVIDIA H200)` or `cpu (2 threads)`."""
    import torch

    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type == "cpu":
        threads = torch.get_num_threads()
        return f"cpu ({threads} thread{'s' * (threads != 1)})"
    return device.type


def set_threads(threads: int | None) -> int:
    """Use `threads` CPU threads, or as many as this process was granted; returns the number.

    This holds for torch and for the linear algebra of NumPy and SciPy, whose sums depend on it in the last bits.
    More threads than cores make small convolutions several times slower.
    """
    import torch
    from threadpoolctl import threadpool_limits

    chosen = threads or granted_threads()
    torch.set_num_threads(chosen)
    threadpool_limits(chosen, user_api="blas")
    os.environ["OPENBLAS_NUM_THREADS"] = str(chosen)  # SciPy's library, where it is loaded later
    return chosen
