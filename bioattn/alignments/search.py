"""Building an alignment by searching a sequence database with a query, as jackhmmer does, in this process.

The first iteration searches with the query alone, every further one with a profile of what was found so far, whose
columns stay the query's. The work is pyhmmer's (HMMER 3), the optional dependency of the extra `msa`.
"""

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bioattn.alignments.choices import SearchSettings
from bioattn.alignments.rows import find_name
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.alignment import Alignment, looks_like_nucleotides, split_insertions
from bioattn.formats.alignment_file import read_alignment
from bioattn.formats.fasta import FastaRecord, read_fasta
from bioattn.io.files import decompression_errors, open_bytes, read_lines
from bioattn.system.device import map_in_order
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted

LOGGER = logging.getLogger("bioattn")
_HMMER_SEED = 42
"""HMMER's own; its sampling is no choice of the user, and 0 would mean the clock."""
_MAX_LENGTH = 100_000
"""Residues of a sequence that HMMER still compares."""
_RESIDUES_AT_ONCE = 500_000
_SEQUENCES_LOOKED_AT = 100
_EASEL_LINE = re.compile(r"Line (\d+): (.*)", re.DOTALL)


class SearchRound(NamedTuple):
    """What one iteration found."""

    database: str
    """Name of the file."""
    sequences: int
    """Sequences of the database that were looked at."""
    domains: int
    """Rows of the alignment, without the query."""
    new_sequences: int
    """Sequences not among those of the iteration before."""


def read_search_query(source: Path, name: str | None) -> FastaRecord:
    """The sequence to search with, without gaps: the only one of `source`, or the one called `name`.

    source: FASTA, aligned or not, or an alignment.

    Raises: BioattnError when there are several and no name, or none is called so.
    """
    lines = (line for _, line in read_lines(source))
    if not next((line for line in lines if line.strip() and not line.startswith(";")), ">").startswith(">"):
        alignment = read_alignment(source)
        records = [
            FastaRecord(alignment.names[row], alignment.descriptions[row], alignment.sequence(row))
            for row in range(alignment.num_rows)
        ]
    else:
        records = list(read_fasta(source))
    if name is None and len(records) > 1:
        raise BioattnError(
            f"{source} holds {counted(len(records), 'sequence')}; a search starts from one: name it with --query, "
            f"for example --query {shlex.quote(records[0].name)}"
        )
    record = (
        records[0] if name is None else records[find_name([each.name for each in records], name, str(source))]
    )
    return record._replace(sequence=re.sub("[-.]", "", record.sequence).removesuffix("*"))


def search_database(
    query: FastaRecord,
    database: Path,
    settings: SearchSettings,
    *,
    threads: int | None = None,
    progress: Progress = SILENT,
) -> tuple[Alignment, list[SearchRound]]:
    """Search protein FASTA (plain, gzip or xz) with `query`; returns the alignment and what each iteration found.

    The alignment has one match column per query residue and the query, whole, as row 0; then one row per domain
    found, named `sequence/start-end`, best first. The database is read anew in each iteration, a part at a time,
    so memory holds the hits only. Results do not depend on `threads`.

    Raises: BioattnError when pyhmmer is not installed; FormatError for a query or database that is not protein, or
    not FASTA.
    """
    try:
        import pyhmmer as hmmer
    except ImportError as error:
        raise BioattnError("--search needs pyhmmer, which is not installed: pip install pyhmmer") from error
    alphabet = hmmer.easel.Alphabet.amino()
    sequence = _digital_query(query, hmmer, alphabet)
    builder = hmmer.plan7.Builder(alphabet, architecture="hand", seed=_HMMER_SEED)
    background = hmmer.plan7.Background(alphabet)
    faux_trace = hmmer.plan7.Trace.from_sequence(sequence)
    ranking = hmmer.easel.KeyHash()
    model, _, _ = builder.build(sequence, background)
    rounds: list[SearchRound] = []
    known_rows = 1
    for iteration in range(1, settings.iterations + 1):
        of_all = f" {database.name}"
        if settings.iterations > 1:
            of_all += f" {iteration}/{settings.iterations}"
        progress.begin(f"search{of_all} (sequences)", rounds[0].sequences if rounds else None)
        blocks = _read_blocks(hmmer, alphabet, database, say_what_is_left_out=not rounds)

        def search(block: Any, model: Any = model) -> tuple[Any, int]:
            pipeline = hmmer.plan7.Pipeline(
                alphabet, seed=_HMMER_SEED, incE=settings.max_evalue, incdomE=settings.max_evalue
            )
            return pipeline.search_hmm(model, block), len(block)

        parts, looked_at = [], 0
        for part, size in map_in_order(search, blocks, threads):
            parts.append(part)
            looked_at += size
            progress.advance(size, hits=sum(len(each) for each in parts))
        progress.end()
        hits = parts[0].merge(*parts[1:]) if len(parts) > 1 else parts[0]
        hits.sort(by="key")
        new = hits.compare_ranking(ranking)
        found = hits.to_msa(
            alphabet, sequences=[sequence], traces=[faux_trace], all_consensus_cols=True, digitize=True
        )
        rows = len(found.names)
        rounds.append(SearchRound(database.name, looked_at, rows - 1, new))
        LOGGER.info(
            f"search{of_all}: {counted(rows - 1, 'domain')} among {counted(looked_at, 'sequence')}, "
            f"{counted(new, 'sequence')} new"
        )
        if iteration == settings.iterations or (new == 0 and rows <= known_rows):
            break
        known_rows = rows
        found.name = sequence.name
        model, _, _ = builder.build_msa(found, background)
    text = hits.to_msa(alphabet, sequences=[sequence], traces=[faux_trace], all_consensus_cols=True)
    return _as_alignment(text, query), rounds


def _digital_query(query: FastaRecord, hmmer: Any, alphabet: Any) -> Any:
    letters = query.sequence.upper()
    foreign = re.search("[^A-Z]", letters)
    if foreign:
        raise FormatError(
            f"query {query.name}, position {foreign.start() + 1:,}: {foreign.group()!r} is no residue; "
            "residues are the letters A to Z"
        )
    if not letters:
        raise FormatError(f"query {query.name} has no sequence")
    if len(letters) > _MAX_LENGTH:
        raise FormatError(
            f"query {query.name} has {len(letters):,} residues; HMMER takes at most {_MAX_LENGTH:,}"
        )
    _refuse_nucleotides([letters], f"query {query.name}")
    text = hmmer.easel.TextSequence(name=query.name, description=query.description, sequence=letters)
    return text.digitize(alphabet)


def _refuse_nucleotides(sequences: list[str], what: str) -> None:
    if looks_like_nucleotides(Alignment.plain([what], "".join(sequences).upper())):
        raise FormatError(f"{what}: looks like DNA or RNA; a search takes proteins")


def _read_blocks(hmmer: Any, alphabet: Any, database: Path, *, say_what_is_left_out: bool) -> Iterator[Any]:
    """The database, at least one block of it, without sequences that are empty or too long for HMMER."""
    too_long = 0
    with (
        open_bytes(database) as raw,
        decompression_errors(database),
        _easel_errors(database),
        hmmer.easel.SequenceFile(raw, format="fasta", digital=True, alphabet=alphabet) as file,
    ):
        first = True
        while block := file.read_block(residues=_RESIDUES_AT_ONCE):
            if first:
                sample = [each.textize().sequence for each in block[:_SEQUENCES_LOOKED_AT]]
                _refuse_nucleotides([re.sub("[^A-Za-z]", "", text) for text in sample], str(database))
                first = False
            fitting = [each for each in block if 0 < len(each) <= _MAX_LENGTH]
            if len(fitting) < len(block):
                too_long += sum(len(each) > _MAX_LENGTH for each in block)
                block = hmmer.easel.DigitalSequenceBlock(alphabet, fitting)
            yield block
    if too_long and say_what_is_left_out:
        LOGGER.warning(
            f"{database}: {counted(too_long, 'sequence')} of more than {_MAX_LENGTH:,} residues left out, "
            "which is more than HMMER takes"
        )


@contextmanager
def _easel_errors(database: Path) -> Iterator[None]:
    """Turn what pyhmmer's reader raises into one sentence; it counts lines from 0."""
    try:
        yield
    except EOFError as error:
        if "is empty" not in str(error):  # the end of damaged compression
            raise
        raise FormatError(f"{database}: is empty") from error
    except SystemError as error:  # how pyhmmer wraps what reading a compressed file raises
        raise error.__cause__ or error from None
    except ValueError as error:
        place = _EASEL_LINE.search(str(error))
        where, what = (f":{int(place[1]) + 1}", place[2].strip()) if place else ("", str(error))
        raise FormatError(
            f"{database}{where}: not FASTA of unaligned protein sequences ({what}); --search takes no other format"
        ) from error


def _as_alignment(msa: Any, query: FastaRecord) -> Alignment:
    """The alignment of pyhmmer, whose insertions are lower case and padded with dots."""
    texts, insertions = [], []
    for text in msa.alignment:
        match, inserted = split_insertions(text.replace(".", "").encode("ascii"))
        texts.append(match)
        insertions.append(inserted)
    residues = np.frombuffer(bytearray().join(texts), np.uint8).reshape(len(texts), -1)
    descriptions = []
    for row in list(msa.sequences)[1:]:
        # HMMER puts `[subseq from]` before what the database says of a sequence, or else before the name.
        said = (row.description or "").removeprefix("[subseq from] ")
        descriptions.append("" if said == row.name.rpartition("/")[0] else said)
    return Alignment(
        names=[query.name, *msa.names[1:]],
        descriptions=[query.description, *descriptions],
        residues=residues,
        insertions=insertions,
    )
