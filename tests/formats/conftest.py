"""The parser corpora of the shared data and what their index says about each file."""

import csv
from pathlib import Path
from typing import NamedTuple

import pytest


class CorpusFile(NamedTuple):
    """One file of a corpus."""

    path: Path
    verdict: str
    """What Biopython says: ok:N, error:…, or empty where it has no reader."""


@pytest.fixture(scope="session")
def corpus(shared):
    """Function that gives all files of one format."""
    folder = shared / "data" / "parsers"

    def of_format(name):
        with (folder / "INDEX.tsv").open() as file:
            return [
                CorpusFile(folder / row["file"], row["biopython_result"] or "")
                for row in csv.DictReader(file, delimiter="\t")
                if row["format"] == name
            ]

    return of_format
