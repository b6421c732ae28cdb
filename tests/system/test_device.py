"""Which device and how many threads."""

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.system.device import choose_device, describe_device, set_threads


def test_threads_granted_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    try:
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        assert set_threads(None) == 1
        assert describe_device(torch.device("cpu")) == "cpu (1 thread)"
        assert set_threads(2) == 2
        assert describe_device(torch.device("cpu")) == "cpu (2 threads)"
        for text in ("", "0", "many", "100000"):
            monkeypatch.setenv("OMP_NUM_THREADS", text)
            assert 1 <= set_threads(None) < 100000
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(
        BioattnError, match=r"--device cuda: torch sees no such device here; available: .*cpu"
    ):
        choose_device("cuda")
    assert choose_device("auto").type != "cuda"
