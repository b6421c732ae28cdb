"""What is said of devices, threads and memory, on machines that are made up."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bioattn.system import cgroups as control_group
from bioattn.system.doctor import compute
from bioattn.system.doctor.compute import device_diagnoses, memory_diagnoses, thread_diagnoses
from bioattn.system.doctor.diagnosis import Diagnosis, Status


def of(diagnoses, name: str) -> Diagnosis:
    (found,) = [diagnosis for diagnosis in diagnoses if diagnosis.name == name]
    return found


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """A torch built for CUDA, and no driver until its file is written."""
    driver = tmp_path / "driver"
    monkeypatch.setattr(compute, "_NVIDIA_DRIVER", driver)
    monkeypatch.setattr(compute, "_AMD_DRIVER", tmp_path / "kfd")
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    return SimpleNamespace(driver=driver)


def test_a_build_for_the_cpu_says_so(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.ABSENT
    assert "build for the CPU" in cuda.text
    gpu.driver.write_text("")
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.WARNING
    assert "there is a GPU driver" in cuda.text


def test_a_build_for_cuda_without_a_gpu_says_why(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = of(device_diagnoses(), "CUDA")
    assert (cuda.status, cuda.value) == (Status.WARNING, 0)
    assert "built for CUDA 12.6: there is no GPU driver" in cuda.text
    gpu.driver.write_text("")
    assert "the driver is there but offers no device" in of(device_diagnoses(), "CUDA").text

    def warns() -> bool:
        import warnings

        warnings.warn("The NVIDIA driver on your\n system is too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", warns)
    assert "The NVIDIA driver on your system is too old" in of(device_diagnoses(), "CUDA").text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "CUDA_VISIBLE_DEVICES is '', which hides every GPU" in of(device_diagnoses(), "CUDA").text


def test_a_gpu_that_does_not_compute_is_an_error(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Old GPU")
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8 * 10**9)
    )
    ones = torch.ones

    def no_kernel(*size: int, device: str) -> torch.Tensor:
        raise RuntimeError("CUDA error: no kernel image is available\nmore")

    monkeypatch.setattr(torch, "ones", no_kernel)
    cuda = of(device_diagnoses(), "CUDA")
    assert cuda.status is Status.ERROR
    assert cuda.text == "GPU 0 is there but does not compute (CUDA error: no kernel image is available)"

    monkeypatch.setattr(torch, "ones", lambda *size, device: ones(*size))
    diagnoses = list(device_diagnoses())
    assert of(diagnoses, "CUDA").text == "Old GPU (8 GB); torch is built for CUDA 12.6"
    assert of(diagnoses, "--device auto").value == "cuda"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_gpu_is_named() -> None:
    assert torch.cuda.get_device_name(0) in of(device_diagnoses(), "CUDA").text


@pytest.mark.parametrize(
    ("told", "status", "says"),
    [
        (None, Status.ABSENT, "not set: bioattn takes 4 threads"),
        ("1", Status.WARNING, "1: bioattn uses one of 4 cores"),
        ("2", Status.OK, "2"),
        ("4", Status.OK, "4"),
        ("5", Status.WARNING, "5: more threads than cores"),
        ("0", Status.WARNING, "'0', which is not a number of threads"),
        ("4,2", Status.WARNING, "'4,2', which is not a number of threads"),
    ],
)
def test_variables_that_hurt(
    told: str | None, status: Status, says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(control_group, "MOUNT", tmp_path)
    (tmp_path / "cpu.max").write_text("350000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    if told is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    diagnoses = list(thread_diagnoses())
    assert of(diagnoses, "cores").value == 4
    assert "CPU quota 3.5" in of(diagnoses, "cores").text
    variable = of(diagnoses, "OMP_NUM_THREADS")
    assert variable.status is status
    assert variable.text.startswith(says)


def test_other_variables_are_looked_at_when_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    assert "MKL_NUM_THREADS" not in {diagnosis.name for diagnosis in thread_diagnoses()}
    monkeypatch.setenv("MKL_NUM_THREADS", "100000")
    assert of(thread_diagnoses(), "MKL_NUM_THREADS").status is Status.WARNING


def test_a_container_short_of_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(control_group, "MOUNT", tmp_path)
    (tmp_path / "memory.max").write_text("900000000\n")
    (tmp_path / "memory.current").write_text("300000000\n")
    (tmp_path / "memory.stat").write_text("inactive_file 0\n")
    diagnoses = list(memory_diagnoses())
    assert of(diagnoses, "control group").value == 900_000_000
    free = of(diagnoses, "free")
    assert (free.value, free.status) == (600_000_000, Status.WARNING)
