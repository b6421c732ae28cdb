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
"""Names by which packages are imported, where they are others."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One fact about the machine or the installation."""

    topic: str
    """`versions`, `device`, `threads` or `memory`."""
    name: str
    text: str
    advice: str = ""
    """What to do about it, where something is wrong."""
    broken: bool = False
    """Whether bioattn cannot work with it."""


def examine() -> list[Diagnosis]:
    """Look at versions, device, threads and memory, and compute one attention layer on the device."""
    return [*_versions(), *_device(), *_threads(), *_memory()]


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
    for package, least, extra in sorted(_requirements(), key=lambda requirement: requirement[2]):
        reinstall = f"pip install 'bioattn[{extra}]'" if extra else f"pip install '{package}>={least}'"
        try:
            import_module(MODULES.get(package, package))
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            yield Diagnosis("versions", package, "of unknown version")
        except Exception as error:  # noqa: BLE001 - a broken installation fails in any way it likes
            absent = isinstance(error, ModuleNotFoundError)
            said = next(iter(str(error).splitlines()), type(error).__name__)
            text = "not installed" if absent else f"cannot be imported ({said})"
            text += f" (extra {extra})" * bool(extra)
            advice = "" if extra and absent else reinstall
            yield Diagnosis("versions", package, text, advice, broken=not extra)
        else:
            old = _numbers(version) < _numbers(least)
            text = f"{version}; {least} or later is needed" if old else version
            yield Diagnosis("versions", package, text, reinstall if old else "", broken=old and not extra)


def _requirements() -> Iterator[tuple[str, str, str]]:
    """Package, least version and extra ("" for what is always needed), as pyproject.toml has them."""
    try:
        declared = metadata.requires("bioattn") or []
    except metadata.PackageNotFoundError:  # run from its sources
        declared = []
    for line in declared:
        found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(?:; extra == ['\"](\w+)['\"])?", line)
        if found and found[3] not in ("all", "test", "dev"):
            yield found[1], found[2], found[3] or ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.split("+")[0])[:3]))


def _device() -> Iterator[Diagnosis]:
    try:
        import torch

        device = choose_device("auto")
    except Exception as error:  # noqa: BLE001 - told below, as anything that a driver raises
        yield Diagnosis("device", "auto", f"{error}", "repair the installation of torch", broken=True)
        return
    build = f"torch is built for {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'the CPU'}"
    yield Diagnosis("device", "auto", f"takes {describe_device(device)}; {build}")
    try:
        began = time.perf_counter()
        difference = _forward(device)
        milliseconds = 1000 * (time.perf_counter() - began)
        wrong = not difference < 1e-2
        text = f"an attention layer in {milliseconds:.0f} ms, within {difference:.0e} of the CPU"
        yield Diagnosis("device", "forward pass", text, "give --device cpu" * wrong, wrong)
    except Exception as error:  # noqa: BLE001 - as above
        said = next(iter(str(error).splitlines()), type(error).__name__)
        advice = "use a build of torch for this device and its driver, or --device cpu"
        yield Diagnosis("device", "forward pass", said, advice, broken=True)


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


def _threads() -> Iterator[Diagnosis]:
    cores, quota = granted_cores(), cpu_quota()
    of_quota = "" if quota is None else f", CPU quota {quota:g}"
    yield Diagnosis("threads", "cores", f"{cores} granted of {os.cpu_count() or cores}{of_quota}")
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        if (told := os.environ.get(variable)) is not None:
            obeyed = told.isdecimal() and 1 <= int(told) <= cores
            yield Diagnosis(
                "threads", variable, told, "" if obeyed else f"set it to 1 … {cores}, or unset it"
            )


def _memory() -> Iterator[Diagnosis]:
    free, limit = free_memory(), memory_limit()
    text = "unknown" if free is None else human_bytes(free)
    little = free is not None and free < 1_000_000_000
    yield Diagnosis("memory", "free", text, "too little for most models" * little)
    if limit is not None:
        yield Diagnosis("memory", "control group", f"at most {human_bytes(limit)}")
