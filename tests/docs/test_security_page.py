"""Every promise of SECURITY.md names a test, and every test it names is there."""

import re
from pathlib import Path

import pytest

from bioattn.io import unpacking

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
PROMISES = [line for line in PAGE.splitlines() if line.startswith("| ")][2:]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda text: text[2:40])
def test_every_promise_has_a_test(promise):
    tests = re.findall(r"`(tests/[^`]+)`", promise.rsplit("|", 2)[1])
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        assert f"def {name or 'test_'}" in text, test


def test_the_page_names_the_limits_as_they_are():
    assert unpacking.ALWAYS_ALLOWED == 1 << 30
    assert f"1 GiB or {unpacking.MOST_TIMES} times their size" in PAGE
    assert f"`{unpacking.LIMIT_VARIABLE}` (bytes)" in PAGE
