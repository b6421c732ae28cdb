"""docs/known-motifs.md explains every column and option there is."""

import re
from pathlib import Path

from bioattn.interpret.known_motifs.enrichment import COLUMNS, LEAST_SHUFFLED
from bioattn.interpret.known_motifs.expected_motifs import DIRECTIONS, parse_consensus
from bioattn.interpret.known_motifs.expected_sites import LEAST_PROMOTERS, LEAST_SHUFFLED_PROMOTERS
from bioattn.interpret.known_motifs.matched_background import POSITION_STEP

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "known-motifs.md").read_text(encoding="utf-8")


def test_every_column_and_direction_is_explained() -> None:
    missing = [name for name in (*COLUMNS, *DIRECTIONS) if f"`{name}`" not in PAGE]
    assert not missing


def test_the_patterns_shown_are_patterns() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `consensus`"))
    shown = [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", row)[1:]]
    assert len(shown) == 4
    assert all(parse_consensus(text) for text in shown)
    assert parse_consensus("TGAAAAATTT-like") is None


def test_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"the same {POSITION_STEP} bases" in text
    assert f"fewer than {LEAST_PROMOTERS} promoters are not scored" in text
    assert f"sites in {LEAST_SHUFFLED_PROMOTERS} promoters or more; fewer than {LEAST_SHUFFLED}" in text
