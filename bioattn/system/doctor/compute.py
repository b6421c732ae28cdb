"""Devices, threads and memory: what there is, what this process was granted of it, and what torch makes of it."""

import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bioattn.system import cgroups
from bioattn.system.doctor.diagnosis import Diagnosis, Status
from bioattn.system.memory import free_memory
from bioattn.system.threads import granted_cores
from bioattn.text import counted, human_bytes

LEAST_MEMORY = 1_000_000_000
"""Bytes: below, only the smallest models run; Python with torch takes 0.3 GB before it does anything."""
_NVIDIA_DRIVER = Path("/proc/driver/nvidia/version")
_AMD_DRIVER = Path("/dev/kfd")


def device_diagnoses() -> Iterator[Diagnosis]:
    """What torch sees, and why not more. Nothing when torch cannot be imported, which the versions tell of."""
    try:
        import torch
    except (ImportError, OSError):
        return
    cuda = _cuda()
    yield cuda
    apple = torch.backends.mps.is_available()
    if apple:
        text = "available"
    elif torch.backends.mps.is_built():
        text = "none: this torch knows it, but macOS offers no such device here"
    else:
        text = "none: it is for Macs with Apple's processors, and this torch is not built for them"
    yield Diagnosis("device", "MPS", text, apple, Status.OK if apple else Status.ABSENT)
    chosen = "cuda" if cuda.value else "mps" if apple else "cpu"
    yield Diagnosis("device", "--device auto", f"takes {chosen}", chosen)


def _cuda() -> Diagnosis:
    import torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    said = " ".join(str(caught[0].message).split()) if caught else ""
    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else None
    if built_for is None and torch.version.hip:
        built_for = f"ROCm {torch.version.hip}"
    if available:
        return _cuda_that_computes(built_for or "CUDA")
    if built_for is None:
        text = f"none: this torch ({torch.__version__}) is a build for the CPU"
        if not (_NVIDIA_DRIVER.exists() or _AMD_DRIVER.exists()):
            return Diagnosis("device", "CUDA", text, 0, Status.ABSENT)
        advice = "install a build of torch for this GPU (pytorch.org/get-started)"
        return Diagnosis("device", "CUDA", f"{text}, but there is a GPU driver", 0, Status.WARNING, advice)
    why, advice = _why_no_gpu(said)
    text = f"none, although this torch ({torch.__version__}) is built for {built_for}: {why}"
    return Diagnosis("device", "CUDA", text, 0, Status.WARNING, advice)


def _cuda_that_computes(built_for: str) -> Diagnosis:
    """Try each GPU: one that is there but fails would be taken by `--device auto`."""
    import torch

    described = []
    for number in range(torch.cuda.device_count()):
        try:
            name = torch.cuda.get_device_name(number)
            memory = human_bytes(torch.cuda.get_device_properties(number).total_memory)
            computed = float(torch.ones(8, device=f"cuda:{number}").sum())
            if computed != 8:
                raise RuntimeError(f"eight ones add up to {computed:g}")
        except (RuntimeError, AssertionError) as error:
            text = f"GPU {number} is there but does not compute ({str(error).splitlines()[0]})"
            advice = "use a build of torch that supports this GPU and its driver, or give --device cpu"
            return Diagnosis("device", "CUDA", text, 0, Status.ERROR, advice)
        described.append(f"{name} ({memory})")
    text = f"{', '.join(described)}; torch is built for {built_for}"
    return Diagnosis("device", "CUDA", text, len(described))


def _why_no_gpu(said: str) -> tuple[str, str]:
    """The likeliest reason, and what to do. said: what torch warned of when it was asked."""
    for variable in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if os.environ.get(variable, "0") in ("", "-1", "NoDevFiles"):
            return (
                f"{variable} is {os.environ[variable]!r}, which hides every GPU",
                f"unset {variable}, or ask the batch system for a GPU",
            )
    if not _NVIDIA_DRIVER.exists() and not _AMD_DRIVER.exists():
        return (
            "there is no GPU driver",
            "nothing, if this machine has no GPU (the CPU build of torch is smaller: "
            "download.pytorch.org/whl/cpu); in a container, start it with --gpus all or --nv",
        )
    return (
        said or "the driver is there but offers no device",
        "look at nvidia-smi; the driver may be older than this torch needs",
    )


def thread_diagnoses() -> Iterator[Diagnosis]:
    """Cores of the machine, those granted, and variables that ask for more or fewer."""
    cores = granted_cores()
    quota = cgroups.cpu_quota()
    of_quota = "" if quota is None else f", CPU quota {quota:g}"
    text = f"{cores} granted of {os.cpu_count() or cores} in the machine{of_quota}"
    yield Diagnosis("threads", "cores", text, cores)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        told = os.environ.get(variable)
        if told is not None:
            yield _thread_variable(variable, told, cores)
        elif variable == "OMP_NUM_THREADS":
            text = f"not set: bioattn takes {counted(cores, 'thread')}, or --threads"
            yield Diagnosis("threads", variable, text, status=Status.ABSENT)


def _thread_variable(variable: str, told: str, cores: int) -> Diagnosis:
    number = int(told) if told.isdecimal() else 0
    text, advice = told, ""
    if number < 1:
        text = f"{told!r}, which is not a number of threads and is not obeyed"
        advice = f"unset {variable}, or set it to the cores granted ({cores})"
    elif number > cores:
        text = f"{number}: more threads than cores, which makes small models several times slower"
        advice = f"set {variable} to {cores}, or ask for more cores"
    elif variable == "OMP_NUM_THREADS" and number == 1 and cores > 1:
        text = f"1: bioattn uses one of {cores} cores"
        advice = f"unset {variable}, or give --threads {cores}, unless other work shares the machine"
    status = Status.WARNING if advice else Status.OK
    return Diagnosis("threads", variable, text, number or None, status, advice)


def memory_diagnoses() -> Iterator[Diagnosis]:
    """Memory of the machine, the limits on this process, and what is free under all of them."""
    with suppress(OSError, ValueError, AttributeError):
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        yield Diagnosis("memory", "machine", human_bytes(machine), machine)
    limit = cgroups.memory_limit()
    if limit is not None:
        yield Diagnosis("memory", "control group", f"at most {human_bytes(limit)}", limit)
    free = free_memory()
    if free is None:
        yield Diagnosis("memory", "free", "this system does not say", status=Status.ABSENT)
    elif free < LEAST_MEMORY:
        text = f"{human_bytes(free)}, too little for most models"
        advice = "ask for more memory, or end what else takes it"
        yield Diagnosis("memory", "free", text, free, Status.WARNING, advice)
    else:
        yield Diagnosis("memory", "free", human_bytes(free), free)
