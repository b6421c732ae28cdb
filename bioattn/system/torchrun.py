"""What torchrun says of this process by environment variables: which of how many it is. Imports no torch."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Which process of a run this is; numbers from 0."""

    rank: int = 0
    """Among all."""
    count: int = 1
    local_rank: int = 0
    """Among those of this machine."""
    local_count: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0


def launch() -> Launch:
    """The place of this process in its run; alone where nobody launched several."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    numbers = [os.environ.get(name, "") for name in names]
    if not all(number.isdecimal() for number in numbers) or int(numbers[1]) < 2:
        return Launch()
    rank, count, local_rank, local_count = map(int, numbers)
    return Launch(rank=rank, count=count, local_rank=local_rank, local_count=local_count)
