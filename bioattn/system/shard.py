"""One job on several machines: which of its inputs a machine takes, by their order alone.

Every machine is given the same inputs and its own shard, `1/8` to `8/8`; no two agree on anything else, and
`bioattn.store.merging` puts together what they made.
"""

import re
from dataclasses import dataclass

from bioattn.errors import SettingsError


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """Shard `number` of `count`, both from 1.

    Raises: SettingsError for a number that is not among them.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise SettingsError(
                f"--shard {self.number}/{self.count}: the number runs from 1 to the number of shards, such as 1/8"
            )

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def slice(self, total: int, unit: int = 1) -> slice:
        """The inputs (0-based, half-open, consecutive) of `total` that are this shard's.

        unit: inputs that stay together, as a batch whose results follow from what is in it; only the last unit may
        be shorter. Shards differ by at most one unit, the first ones are the larger; with more shards than units
        the last ones are empty.

        >>> Shard(2, 3).slice(10)
        slice(4, 7, None)
        >>> Shard(2, 3).slice(10, unit=4)
        slice(4, 8, None)
        """
        units = -(-total // unit)
        each, larger = divmod(units, self.count)
        first = (self.number - 1) * each + min(self.number - 1, larger)
        stop = first + each + (self.number <= larger)
        return slice(min(first * unit, total), min(stop * unit, total))


def parse_shard(text: str) -> Shard:
    """`1/8` → `Shard(1, 8)`. Raises: SettingsError when it does not read so."""
    if not (match := re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)):
        raise SettingsError(f"--shard {text!r}: give the number of this shard and of all, such as 1/8")
    return Shard(int(match[1]), int(match[2]))
