"""What bioattn runs on: versions, device, threads, memory and one forward pass; behind `bioattn doctor`."""

import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import bioattn
from bioattn.system.device import choose_device, describe_device, granted_cores
from bioattn.system.memory import cpu_quota, free_memory, memory_limit
from bioattn.text import human_bytes

if TYPE_CHECKING:
    import torch

MODULES = {"biopython": "Bio", "scikit-bio": "skbio"}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One fact about the machine or the installation."""

    topic: str
    """`versions`, `device`, `threads` or `memory`."""
    name: str
    text: str
    advice: str = ""
    broken: bool = False


def examine() -> list[Diagnosis]:
    """Look at versions, device, threads and memory, and compute one attention layer on the device."""
    cores, quota = granted_cores(), cpu_quota()
    of_quota = "" if quota is None else f", CPU quota {quota:g}"
    granted = f"{cores} granted of {os.cpu_count() or cores}{of_quota}"
    diagnoses = [*_versions(), *_device(), Diagnosis("threads", "cores", granted)]
    if (told := os.environ.get("OMP_NUM_THREADS")) is not None:
        obeyed = told.isdecimal() and 1 <= int(told) <= cores
        advice = "" if obeyed else f"set it to 1 … {cores}, or unset it"
        diagnoses.append(Diagnosis("threads", "OMP_NUM_THREADS", told, advice))
    free, limit = free_memory(), memory_limit()
    text = "unknown" if free is None else human_bytes(free)
    little = free is not None and free < 1_000_000_000
    diagnoses.append(Diagnosis("memory", "free", text, "too little for most models" * little))
    if limit is not None:
        diagnoses.append(Diagnosis("memory", "control group", f"at most {human_bytes(limit)}"))
    return diagnoses


def as_text(diagnoses: Sequence[Diagnosis]) -> str:
    """A line for each diagnosis; `X` marks what is broken, `!` what has advice."""
    width = max(len(diagnosis.name) for diagnosis in diagnoses)
    lines = []
    for topic in dict.fromkeys(diagnosis.topic for diagnosis in diagnoses):
        lines += ["", topic.capitalize()]
        for diagnosis in diagnoses:
            if diagnosis.topic == topic:
                mark = "X" if diagnosis.broken else "!" if diagnosis.advice else " "
                advice = f"; {diagnosis.advice}" if diagnosis.advice else ""
                lines.append(f"{mark} {diagnosis.name:<{width}}  {diagnosis.text}{advice}")
    return "\n".join(lines[1:])


def _versions() -> Iterator[Diagnosis]:
    yield Diagnosis("versions", "bioattn", f"{bioattn.__version__} in {Path(bioattn.__file__).parent}")
    yield Diagnosis(
        "versions", "Python", f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"
    )
    for package, extra in sorted(_requirements(), key=lambda requirement: requirement[1]):
        needed = "" if not extra else f" (extra {extra})"
        advice = f"pip install 'bioattn[{extra}]'" if extra else f"pip install '{package}'"
        try:
            import_module(MODULES.get(package, package))
            yield Diagnosis("versions", package, metadata.version(package))
        except ModuleNotFoundError:  # also of metadata
            text = f"not installed{needed}"
            yield Diagnosis("versions", package, text, "" if extra else advice, broken=not extra)
        except Exception as error:  # noqa: BLE001 - a broken installation fails in any way it likes
            text = f"cannot be imported ({_first_line(error)}){needed}"
            yield Diagnosis("versions", package, text, advice, broken=not extra)


def _requirements() -> Iterator[tuple[str, str]]:
    """Package and extra ("" for what is always needed), as pyproject.toml has them."""
    try:
        declared = metadata.requires("bioattn") or []
    except metadata.PackageNotFoundError:  # run from its sources
        declared = []
    for line in declared:
        found = re.fullmatch(r"([\w.-]+)>=[\d.]+(?:; extra == ['\"](\w+)['\"])?", line)
        if found and found[2] not in ("all", "test", "dev"):
            yield found[1], found[2] or ""


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _device() -> Iterator[Diagnosis]:
    try:
        import torch

        device = choose_device("auto")
        build = f"torch is built for {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'the CPU'}"
        yield Diagnosis("device", "auto", f"takes {describe_device(device)}; {build}")
        began = time.perf_counter()
        difference = _forward(device)
        milliseconds = 1000 * (time.perf_counter() - began)
        wrong = not difference < 1e-2
        text = f"an attention layer in {milliseconds:.0f} ms, within {difference:.0e} of the CPU"
        yield Diagnosis("device", "forward pass", text, "give --device cpu" * wrong, wrong)
    except Exception as error:  # noqa: BLE001 - anything that a driver raises
        advice = "use a build of torch for this device and its driver, or --device cpu"
        yield Diagnosis("device", "forward pass", _first_line(error), advice, broken=True)


def _forward(device: "torch.device") -> float:
    """The largest difference between an attention layer on `device` and the same on the CPU."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(0)
        layer, inputs = torch.nn.MultiheadAttention(32, 4, batch_first=True), torch.randn(2, 50, 32)
        expected, _ = layer(inputs, inputs, inputs)
        there = inputs.to(device)
        computed, _ = layer.to(device)(there, there, there)
        return float((computed.cpu() - expected).abs().max())
