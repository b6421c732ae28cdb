"""Shards: together they are all inputs in order, none twice, in whole units, and alike in size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import SettingsError
from bioattn.system.shard import WHOLE, Shard, parse_shard


@given(total=st.integers(0, 500), count=st.integers(1, 60), unit=st.integers(1, 70))
def test_shards_cover_all_in_order_and_cut_no_unit(total: int, count: int, unit: int) -> None:
    slices = [Shard(number, count).slice(total, unit) for number in range(1, count + 1)]
    assert [index for each in slices for index in range(total)[each]] == list(range(total))
    assert all(each.start % unit == 0 or each.start == total for each in slices)
    units = [-(-(each.stop - each.start) // unit) for each in slices]
    assert max(units) - min(units) <= 1
    assert units == sorted(units, reverse=True)


def test_a_shard_follows_from_the_number_of_inputs_alone() -> None:
    assert Shard(3, 8).slice(3) == slice(2, 3)
    assert Shard(8, 8).slice(3) == slice(3, 3)
    assert Shard(2, 2).slice(130, unit=64) == slice(128, 130)
    assert WHOLE.slice(7) == slice(0, 7)


def test_a_shard_is_read_as_it_is_written() -> None:
    assert parse_shard("3/8") == Shard(3, 8)
    assert str(parse_shard(" 03 / 8 ")) == "3/8"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "0/8",
        "9/8",
        "1/0",
        "-1/8",
        "1/8/2",
        "a/b",
        "1.5/8",
        "²/8",
        "1/8\n2",
        "1/8\0",
        "+1/8",
        "1/8;ls",
        "../1/8",
        "1_0/20",
        "٣/8",
        "nan/inf",
        "1/" + "9" * 5000,
    ],
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="such as 1/8"):
        parse_shard(text)
