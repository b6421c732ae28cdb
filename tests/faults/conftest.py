"""The server of runs and the inputs that all tests of faults share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.forked import Forks
from tests.faults.torture import Torture


@pytest.fixture(scope="package")
def torture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Torture]:
    scratch: Path = tmp_path_factory.mktemp("faults")
    with Forks(scratch) as forks:
        yield Torture(forks, scratch)
