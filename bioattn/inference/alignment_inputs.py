"""Alignments that a command is given: which they are (files, folders, lists of files), reading them, and where
their results may go. No torch here."""

import hashlib
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import parse_records, read_with_digest
from bioattn.inference.inputs import HELD, path_in, sequences_in
from bioattn.io.files import check_apart, check_output, check_parent, read_lines, reading
from bioattn.system.shard import parse_shard

_NAMES = (
    "a2m a3m afa aln clu clustal clustalw clw fa faa fas fasta msa msf mfa nex nexus nxs phy phylip pir sth "
)
_NAMES += "sto stockholm stk"
SUFFIXES = frozenset(f".{name}" for name in _NAMES.split())
"""Files of a folder that are taken for alignments; a file that is named itself may be called anything."""
_PACKED = (".gz", ".xz")
_LIST_HEAD = 100
"""Lines but for comments in which a list has to name a file that is there."""
ALIGNED_LETTERS = ascii_uppercase + "-*"
"""Of a row without insertions: text of these alone is no path."""


class InputFile(NamedTuple):
    """One of several files that a command is given."""

    name: str
    """Without folder and suffixes; unique."""
    path: Path


class Given(NamedTuple):
    """An alignment, and what it is called."""

    source: InputFile
    alignment: Alignment
    sha256: str
    """Of its file; in memory, of names and rows."""


def alignments_in(inputs: Any) -> tuple[list[Given], bool]:
    """The alignments that the inputs are, and whether they were a folder or a list.

    inputs: the path of an alignment, or a folder or list of them; an `Alignment`; its rows by name, the target
    first, or a list of them, with insertions in lower case as in A3M.

    Raises: BioattnError for what cannot be read.
    """
    path = path_in(inputs, ALIGNED_LETTERS)
    if path is not None:
        sources, several = find_alignments(path)
        return [Given(source, *read_with_digest(source.path)) for source in sources], several
    if not isinstance(inputs, Alignment):
        rows = zip(*sequences_in(inputs)[:2], strict=True)
        text = "".join(f">{name}\n{row}\n" for name, row in rows)
        inputs = parse_records(str(HELD), text.encode())
    digest = hashlib.sha256(inputs.residues.tobytes())
    digest.update("\0".join(inputs.names).encode())
    return [Given(InputFile(name=inputs.names[0], path=HELD), inputs, digest.hexdigest())], False


def find_alignments(given: Path) -> tuple[list[InputFile], bool]:
    """The alignments that `given` stands for, and whether it was a folder or a list.

    A folder stands for the files in it with a suffix of alignments, in the order of their names; a list is a text
    file whose every line is the path of a file, from the folder of the list or from where the program runs, or a
    comment after `#`. A missing file that a list names counts: reading it fails.

    Raises: BioattnError when there is no such file, or no alignment in a folder, and when two alignments
    would have the same name.
    """
    if given.is_dir():
        with reading(given):
            paths = sorted(path for path in given.iterdir() if path.is_file() and _is_alignment(path))
        if not paths:
            raise BioattnError(
                f"{given}: no file in this folder has a suffix of alignments ({', '.join(sorted(SUFFIXES))})"
            )
    elif (listed := _listed(given)) is not None:
        paths = listed
    else:
        return [InputFile(name=_name(given), path=given)], False
    stems = Counter(map(_name, paths))
    # Those that differ in their suffixes only go by their whole names.
    sources = [
        InputFile(name=path.name if stems[_name(path)] > 1 else _name(path), path=path) for path in paths
    ]
    first: dict[str, Path] = {}
    for source in sources:
        other = first.setdefault(source.name, source.path)
        if other != source.path:
            raise BioattnError(
                f"{given}: {other.name} and {source.path.name} would both be written to {source.name}; "
                "rename one, or run them apart"
            )
    return sources, True


def alignments_for(settings: Any, model: Path, record_file: str) -> tuple[list[InputFile], bool]:
    """As `find_alignments`, for a command that writes a folder of results for each. Before any work is done it
    refuses outputs that would destroy an input, or cannot be written.

    settings: a `ResumableCommand` with `alignment`, `output` and `attention`. model: its file or folder. With
    several inputs the attention file may stand beside their folders, in `output` that is not there yet; the folder
    of one input appears only when it is whole, so nothing can be put in it.

    Raises: as `find_alignments`, `holds_result` and `check_apart`; SettingsError for `shard` that is no part and
    for attention in a folder of results; BioattnError for a place that is a file, missing or read-only.
    """
    if settings.shard is not None:
        parse_shard(settings.shard)
    sources, several = find_alignments(settings.alignment)
    output, attention = settings.output, settings.attention
    if output.name in ("", "-", ".."):
        raise SettingsError(f"--output {output}: give the name of a folder to make")
    if output.exists() and not output.is_dir():
        raise BioattnError(f"{output}: is a file, the results need a folder; choose another --output")
    check_parent(output)
    for source in sources:
        folder = output / source.name if several else output
        check_apart(folder, [model, source.path])
        if attention is not None and folder.resolve() in (attention.resolve(), *attention.resolve().parents):
            raise SettingsError(
                f"--attention {attention}: lies in {folder}, which appears only when its results are whole; put "
                f"it beside that folder, for example {output.with_name(output.name + '.attention.h5')}"
            )
    if not several:
        holds_result(output, record_file, resume=settings.resume, force=settings.force)
    if attention is not None:
        made = several and not output.exists() and attention.parent.resolve() == output.resolve()
        check = check_apart if made else check_output
        check(attention, [model, *(source.path for source in sources)], "--attention")
    return sources, several


def _is_alignment(path: Path) -> bool:
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _PACKED]
    return not path.name.startswith(".") and bool(suffixes) and suffixes[-1] in SUFFIXES


def _name(path: Path) -> str:
    name = path.name
    for packed in _PACKED:
        name = name.removesuffix(packed)
    stem, dot, suffix = name.rpartition(".")
    # `...a3m` is a good name of a file, and `..` would be the folder above that of the results.
    return stem if stem.strip(".") and dot + suffix.lower() in SUFFIXES else name


def _listed(path: Path) -> list[Path] | None:
    """What a list names, whether there is such a file or not; None when no line at its beginning names one."""

    def named(text: str) -> Path:
        beside, here = path.parent / text, Path(text)
        # os.path, unlike Path: a name that is longer than names can be names nothing
        return here if os.path.isfile(here) and not os.path.isfile(beside) else beside  # noqa: PTH113

    try:
        lines = (line.strip() for _, line in read_lines(path))
        entries = (named(line) for line in lines if line and not line.startswith("#"))
        head = list(islice(entries, _LIST_HEAD))
        if not any(map(os.path.isfile, head)):
            return None
        listed = list(dict.fromkeys([*head, *entries]))
        return None if any("\0" in each.name for each in listed) else listed  # no text either
    except FormatError:  # no text
        return None


def holds_result(folder: Path, record_file: str, *, resume: bool, force: bool) -> bool:
    """Whether a folder holds an earlier result that is to be kept, if it is of the same job.

    Raises: BioattnError when there is one and neither `resume` nor `force` is given, or the folder holds something
    else.
    """
    # os.path, unlike Path: a name that is longer than names can be names nothing
    if not os.path.exists(folder) or (folder.is_dir() and not any(folder.iterdir())):  # noqa: PTH110
        return False
    if not (folder / record_file).is_file():
        raise BioattnError(
            f"{folder}: exists and holds no earlier result, so it is not replaced; choose another --output"
        )
    if not (resume or force):
        raise BioattnError(f"{folder}: exists already; keep it with --resume, or replace it with --force")
    return resume
