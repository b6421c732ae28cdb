"""Work spread over threads, and what memory is said to be free."""

import os
import subprocess
import sys
import threading

import pytest

from bioattn import memory
from bioattn.memory import free_memory
from bioattn.threads import map_in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order(threads: int) -> None:
    assert list(map_in_order(lambda number: number**2, range(100), threads)) == [n**2 for n in range(100)]


def test_items_are_taken_no_further_ahead_than_needed() -> None:
    taken: list[int] = []

    def items():
        for number in range(1000):
            taken.append(number)
            yield number

    results = map_in_order(lambda number: number, items(), 2)
    assert next(results) == 0
    results.close()
    assert len(taken) <= 6


def test_a_failure_reaches_the_caller_and_ends_the_rest() -> None:
    begun: list[int] = []
    gate = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise ValueError("number 1")
        gate.wait(0.01)
        return number

    with pytest.raises(ValueError, match="number 1"):
        list(map_in_order(work, range(1000), 2))
    assert len(begun) < 20


def test_the_least_of_all_limits_counts(tmp_path, monkeypatch) -> None:
    whole = free_memory()
    if whole is None:
        pytest.skip("this system does not say how much memory is free")
    assert 0 < whole <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    (tmp_path / "memory.max").write_text("9000000\n")
    (tmp_path / "memory.current").write_text("5000000\n")
    (tmp_path / "memory.stat").write_text("anon 3000000\ninactive_file 1000000\n")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert free_memory() == 5_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 5_000_000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ulimit -v is Linux's")
def test_ulimit_counts() -> None:
    code = "from bioattn.memory import free_memory; print(free_memory())"
    command = f"ulimit -v 2000000; exec '{sys.executable}' -c '{code}'"
    said = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True).stdout
    assert 0 < int(said) < 2_000_000 * 1024
