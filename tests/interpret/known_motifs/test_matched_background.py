"""The matched background against loops over every window."""

import numpy as np

from bioattn.interpret.known_motifs.matched_background import (
    LEAST_WINDOWS,
    POSITION_STEP,
    MatchedBackground,
    window_sums,
)

WIDTH, LENGTH = 6, 53


def example(number: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, size=(number, LENGTH)).astype(np.uint8)
    codes[3, :20] = 4
    return codes, rng.normal(size=(number, 2, LENGTH))


def described(codes: np.ndarray, row: int, start: int) -> tuple[int, int] | None:
    window = codes[row, start : start + WIDTH]
    if 4 in window:
        return None
    distance = LENGTH - (start + WIDTH)
    return distance // POSITION_STEP, sum(base in (1, 2) for base in window.tolist())


def test_means_are_those_of_windows_alike_in_place_and_composition() -> None:
    codes, values = example(60)
    background = MatchedBackground(WIDTH, LENGTH, 2)
    for part in (slice(0, 17), slice(17, 60)):
        background.add(window_sums(values[part], WIDTH) / WIDTH, background.strata(codes[part]))
    means, strata = background.means(), background.strata(codes)
    pools: dict[tuple[int, int], list[np.ndarray]] = {}
    for row in range(60):
        for start in range(LENGTH - WIDTH + 1):
            kind = described(codes, row, start)
            assert (kind is None) == (strata[row, start] < 0)
            if kind is not None:
                pools.setdefault(kind, []).append(values[row, :, start : start + WIDTH].mean(axis=1))
    compared = 0
    for row in range(0, 60, 7):
        for start in range(LENGTH - WIDTH + 1):
            kind = described(codes, row, start)
            if kind is not None and len(pools[kind]) >= LEAST_WINDOWS:
                np.testing.assert_allclose(means[strata[row, start]], np.mean(pools[kind], axis=0))
                compared += 1
    assert compared > 200


def test_rare_compositions_borrow_from_their_neighbours() -> None:
    codes = np.zeros((30, LENGTH), dtype=np.uint8)  # all A: no G or C anywhere
    codes[0, -WIDTH:] = 1
    background = MatchedBackground(WIDTH, LENGTH, 1)
    values = np.ones((30, 1, LENGTH))
    values[0, 0, -WIDTH:] = 7
    background.add(window_sums(values, WIDTH), background.strata(codes))
    lone = background.strata(codes)[0, -1]
    assert background.counts_S[lone] == 1
    # Its own window and those of fewer G and C, down to the many of none.
    assert WIDTH < background.means()[lone, 0] < 7 * WIDTH


def test_a_signal_of_place_and_composition_alone_has_no_effect() -> None:
    codes, _ = example(400)
    strong = window_sums(((codes == 1) | (codes == 2))[:, None], WIDTH)[:, 0]
    steps = (LENGTH - WIDTH - np.arange(LENGTH - WIDTH + 1)) // POSITION_STEP
    windows = (np.sin(strong) + 3.0 * steps)[:, None]
    background = MatchedBackground(WIDTH, LENGTH, 1)
    strata = background.strata(codes)
    background.add(windows, strata)
    known = strata >= 0
    enough = background.counts_S[strata] >= LEAST_WINDOWS
    differences = windows[:, 0] - background.means()[strata, 0]
    np.testing.assert_allclose(differences[known & enough], 0, atol=1e-9)
