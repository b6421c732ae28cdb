"""Where, with how many threads and at which precision a model runs. Torch is imported when a choice is made."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from bioattn.errors import BioattnError, SettingsError
from bioattn.io.settings import RUNNING, option
from bioattn.system.memory import cpu_quota

if TYPE_CHECKING:
    from concurrent.futures import Future

    import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Device(StrEnum):
    """Where a model runs."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    MPS = "mps"


DEVICE: Any = option(
    "Device of the model; auto takes a GPU if one is present.", default=Device.AUTO, group=RUNNING
)


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


class Precision(StrEnum):
    """Arithmetic of the forward pass; weights, and what residual layers add up, stay float32."""

    FP32 = "fp32"
    BF16 = "bf16"

    def autocast(self, device: "torch.device") -> AbstractContextManager[object]:
        """The context in which a forward pass has this precision."""
        import torch

        return torch.autocast(device.type, dtype=torch.bfloat16) if self is Precision.BF16 else nullcontext()


class Compile(StrEnum):
    """Whether `torch.compile` makes one program of the layers of a block."""

    AUTO = "auto"
    """On a GPU, where the work ahead pays for the time that it takes."""
    ON = "on"
    OFF = "off"


class Kernels(StrEnum):
    """Whose kernels run on a GPU."""

    AUTO = "auto"
    """Also those of Triton and cuEquivariance, where they are installed and a trial agrees with torch's."""
    TORCH = "torch"


class RunPrecision(StrEnum):
    """Arithmetic, and type of the weights, of a model that only runs."""

    AUTO = "auto"
    FP32 = "fp32"
    TF32 = "tf32"
    """Products alone, of float32 rounded to 11 bits."""
    BF16 = "bf16"
    FP16 = "fp16"

    def on(self, device: "torch.device", *, tolerant: bool) -> "RunPrecision":
        """The one that is taken on a device, with the settings of torch that it needs; auto: bf16 where a GPU has
        it and the task is `tolerant`, else fp32.

        Raises: SettingsError for tf32 without a GPU of NVIDIA.
        """
        import torch

        if self is RunPrecision.TF32 and device.type != "cuda":
            raise SettingsError(
                f"--precision tf32: only GPUs of NVIDIA have it; the model runs on {device.type}"
            )
        if device.type == "cuda":
            torch.backends.cuda.matmul.allow_tf32 = self is RunPrecision.TF32
        if self is not RunPrecision.AUTO:
            return self
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return RunPrecision.BF16 if tolerant and fast else RunPrecision.FP32

    @property
    def dtype(self) -> "torch.dtype":
        """Of the weights."""
        import torch

        return {RunPrecision.BF16: torch.bfloat16, RunPrecision.FP16: torch.float16}.get(self, torch.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Which process of a run this is; numbers from 0."""

    rank: int = 0
    count: int = 1
    local_rank: int = 0
    """Among those of this machine."""
    local_count: int = 1


def launch() -> Launch:
    """The place of this process in its run; alone where nobody launched several."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    numbers = [os.environ.get(name, "") for name in names]
    if not all(number.isdecimal() for number in numbers) or int(numbers[1]) < 2:
        return Launch()
    rank, count, local_rank, local_count = map(int, numbers)
    return Launch(rank=rank, count=count, local_rank=local_rank, local_count=local_count)


def granted_cores() -> int:
    """The cores this process may run on: the affinity mask and the CPU quota, not the machine's core count, say
    what a batch system or container granted.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def granted_threads() -> int:
    """The cores granted, or OMP_NUM_THREADS if that is less, as Snakemake and batch systems set it.

    Processes that were launched together share the cores. torchrun sets OMP_NUM_THREADS to 1 where nobody else
    has, so there 1 says nothing.
    """
    processes = launch().local_count
    granted = max(1, granted_cores() // processes)
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told) > (processes > 1):
        granted = min(granted, int(told))
    return granted


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> Iterator[Result]:
    """Results in the order of `items`, at most two items per thread ahead of the one asked for.

    threads: None takes those granted; 1 works in the calling thread. When the caller stops, items not yet begun
    are dropped.
    """
    threads = threads or granted_threads()
    if threads == 1:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
