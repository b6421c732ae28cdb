"""Flipped bits and cuts in every kind of file: refused, or the same result (`make torture` tries thousands)."""

import pytest

from tests.faults.flip_bits import KINDS, Flips
from tests.faults.torture import Torture

PLACES = 7
"""Of each kind."""


@pytest.fixture(scope="module")
def flips(torture: Torture, tmp_path_factory: pytest.TempPathFactory) -> Flips:
    """Files of every kind."""
    return Flips(torture.forks, tmp_path_factory.mktemp("flips"), torture.inputs)


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_refused_or_changes_nothing(flips: Flips, name: str) -> None:
    tally = flips.run_kind(name, PLACES)
    assert not tally.problems, tally.examples
    assert tally.places == tally.refused + tally.same == PLACES
    if not KINDS[name].path.endswith("model"):  # whose README and record of training are nobody's input
        assert tally.refused == PLACES
