"""Names that an output has while it is made, and names of what stands beside it."""

import os
import re
from pathlib import Path

OUTPUT_SUFFIXES = ("", ".partial", ".run.json")
"""What is written for an output: itself, the folder it is made in, and its run record."""
_TEMPORARY = re.compile(r"(?<![^/])\.tmp-\d+-(?=[^/])")


def temporary_path(path: Path) -> Path:
    """Temporary name under which this process writes `path`; the suffixes stay."""
    return path.with_name(f".tmp-{os.getpid()}-{path.name}")


def is_temporary(path: Path) -> bool:
    """Tell whether a file has the temporary name of an output of any process."""
    return _TEMPORARY.match(path.name) is not None


def final_name(name: str) -> str:
    """The name of a file, or a path, without what `temporary_path` puts before names.

    >>> final_name("out/.tmp-17-x.tsv"), final_name("x.tsv")
    ('out/x.tsv', 'x.tsv')
    """
    return _TEMPORARY.sub("", name)


def partial_path(output: Path) -> Path:
    """The name of what is kept of an output whose making was interrupted, a file or a folder."""
    return output.with_name(f"{output.name}.partial")


def aside_path(path: Path) -> Path:
    """The name of an old folder while a new one gets its name."""
    return path.with_name(f".tmp-old-{path.name}")


def run_record_path(output: Path) -> Path:
    return output.with_name(f"{output.name}.run.json")
