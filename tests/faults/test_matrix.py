"""Commands under faults of the machine: one sentence or the usual result, and nothing lost; the short version.

The long one, every command under every fault, is `make torture`.
"""

import pytest

from tests.faults.commands import BY_NAME
from tests.faults.matrix import FAULTS, can_mount, cases_of, run_case
from tests.faults.torture import Torture

SHORT = {
    "disk full": ["run promoter", "merge"],
    "file size limit": ["export attention"],
    "read-only output": ["report"],
    "another run": ["run promoter"],
    "file handles": ["export tracks"],
    "memory": ["prepare contacts"],
    "input changed": ["simulate score"],
    "clock": ["prepare msa"],
    "stdout closed": ["simulate score"],
    "stdout full": ["simulate score"],
    "stdout without reader": ["simulate score"],
    "stderr closed": ["export tracks"],
    "stderr full": ["prepare msa"],
    "stderr without reader": ["prepare msa"],
    "stdin closed": ["prepare msa"],
    "environment": ["prepare promoters"],
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_nothing_is_lost(fault, torture: Torture) -> None:
    if fault.needs_root and not can_mount():
        pytest.skip("only root can make a small disk")
    for name in SHORT[fault.name]:
        command = BY_NAME[name]
        cases = cases_of(torture, fault, command)
        for case, run in cases[:: max(1, len(cases) // 3)]:
            result = run_case(torture, fault, command, case, run)
            assert not result.problems, f"{name}, {case}"
