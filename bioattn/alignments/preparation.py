"""From an alignment as found, or a query and a database, to the A3M a model is given, and its statistics."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bioattn.alignments.alphabet import msa_codes
from bioattn.alignments.choices import PreparationSettings, PrepareMsa
from bioattn.alignments.rows import (
    FORMAT,
    FORMAT_VERSION,
    AlignmentStatistics,
    alignment_statistics,
    centre_on_query,
    columns_within_gaps,
    count_residues,
    find_name,
    first_of_each,
    random_rows,
    rows_near_query,
    rows_with_residues,
    rows_within_gaps,
)
from bioattn.alignments.search import SearchRound, read_search_query, search_database
from bioattn.alignments.weights import filter_order, non_redundant, sequence_weights
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.alignment import Alignment, join_rows, require_proteins
from bioattn.formats.alignment_file import read_alignment, write_a3m
from bioattn.io.files import check_output, write_json
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, percentage

LOGGER = logging.getLogger("bioattn")
OUTPUT_SUFFIXES = (".a3m", ".a3m.gz")


def prepare_msa(given: PrepareMsa, progress: Progress = SILENT) -> AlignmentStatistics:
    """Prepare an alignment and write it as A3M, and its statistics if a file is named.

    What a search of several databases finds are the hits in the first, then those in the next, as AlphaFold joins
    them. Files appear when they are complete.

    Raises: SettingsError for an output of another name or one that is an input; BioattnError for a query that is
    not there or has no residue, an alignment of DNA, or one that needs more memory than there is; FormatError as
    the readers do.
    """
    source, output, settings, databases = given.alignment, given.output, given.preparation, given.databases
    inputs = [source, *databases]
    check_output(output, inputs)
    if not output.name.endswith(OUTPUT_SUFFIXES):
        raise SettingsError(
            f"--output {output}: the result is A3M; give it a name that ends in .a3m or .a3m.gz"
        )
    if given.stats is not None:
        check_output(given.stats, [output, *inputs], "--stats")
    rounds: list[SearchRound] = []
    if not databases:
        alignment = read_alignment(source)
        require_proteins(alignment, str(source))
    else:
        query = read_search_query(source, settings.query)
        found: list[Alignment] = []
        for database in databases:
            hits, of_database = search_database(
                query, database, given.search, threads=given.threads, progress=progress
            )
            rounds += of_database
            found.append(hits.select_rows(range(1, hits.num_rows)) if found else hits)
        alignment = join_rows(found)
    what = f"found in {' and '.join(map(str, databases))}, with the query" if databases else str(source)
    LOGGER.info(f"{what}: {counted(alignment.num_rows, 'row')} of {counted(alignment.num_columns, 'column')}")
    alignment = prepare_alignment(
        alignment, settings, str(source), centred=bool(databases), progress=progress
    )
    identity = settings.weight_identity
    codes = msa_codes(alignment.residues)
    weights = sequence_weights(codes, identity, threads=given.threads, progress=progress)
    statistics = alignment_statistics(codes, weights, identity)
    write_a3m(alignment, output)
    if given.stats is not None:
        write_json(given.stats, statistics_json(alignment.names[0], statistics, rounds))
    LOGGER.info(
        f"{counted(statistics.depth, 'row')} of {counted(statistics.columns, 'column')}, "
        f"Neff {statistics.neff:.1f} at {percentage(identity)} identity"
    )
    for warning in statistics.warnings():
        LOGGER.warning(f"{output}: {warning}")
    return statistics


def prepare_alignment(
    alignment: Alignment,
    settings: PreparationSettings,
    source: str,
    *,
    centred: bool = False,
    progress: Progress = SILENT,
) -> Alignment:
    """Apply the steps that `settings` ask for, in the order of the fields; log those that remove something.

    Duplicates and rows without a residue always go, after the columns are settled. centred: it is one of the
    query's columns already.

    Raises: BioattnError when no column or no residue of the query is left, and as `find_name`.
    """

    def step(name: str, changed: Alignment) -> None:
        nonlocal alignment
        rows, columns = np.subtract(alignment.residues.shape, changed.residues.shape).tolist()
        parts = []
        if columns > 0:
            parts.append(f"{counted(columns, 'column')} made insertions, {changed.num_columns:,} stay")
        if columns < 0:
            parts.append(f"{counted(-columns, 'column')} more than before, {changed.num_columns:,} in all")
        if rows:
            parts.append(f"{counted(rows, 'row')} left out, {changed.num_rows:,} stay")
        if parts:
            LOGGER.info(f"{name}: {'; '.join(parts)}")
        alignment = changed

    if settings.query is not None and not centred:
        query = find_name(alignment.names, settings.query, source)
        step("query columns", centre_on_query(alignment, query, source))
    codes = msa_codes(alignment.residues)
    if settings.max_gap_column is not None:
        columns = columns_within_gaps(codes, settings.max_gap_column)
        if not columns.size:
            raise BioattnError(
                f"{source}: --max-gap-column {settings.max_gap_column:g} leaves no column; every one has more gaps"
            )
        step("gap columns", alignment.keep_as_match(columns))
        codes = codes[:, columns]
    if not count_residues(codes[:1])[0]:
        raise BioattnError(
            f"{source}: the query, {alignment.names[0]}, has no residue in the columns that are left"
        )

    def keep(name: str, rows: NDArray[np.intp]) -> None:
        nonlocal codes
        step(name, alignment if len(rows) == len(codes) else alignment.select_rows(rows))
        codes = codes[rows]

    keep("duplicates", first_of_each(alignment.residues))
    keep("empty rows", rows_with_residues(codes))
    # hhfilter looks at rows in an order that comes from all of them, also those other criteria leave out.
    whole, order = codes, filter_order(count_residues(codes))
    kept = np.arange(len(codes))
    if settings.max_gap_row is not None:
        kept = rows_within_gaps(codes, settings.max_gap_row)
        keep("gap rows", kept)
    if settings.min_query_identity is not None:
        rows = rows_near_query(codes, settings.min_query_identity)
        kept = kept[rows]
        keep("query identity", rows)
    if settings.max_identity is not None:
        order = order[np.isin(order, kept)]
        chosen = non_redundant(whole, settings.max_identity, order, progress=progress)
        keep("redundant rows", np.searchsorted(kept, chosen))
    if settings.max_depth is not None:
        random = np.random.default_rng(settings.seed)
        keep("depth", random_rows(len(codes), settings.max_depth, random))
    return alignment


def statistics_json(
    query: str, statistics: AlignmentStatistics, rounds: Sequence[SearchRound]
) -> dict[str, Any]:
    """The content of the statistics file; query: name of row 1."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "query": query,
        "search": [each._asdict() for each in rounds],
        **statistics.as_json(),
        "warnings": statistics.warnings(),
    }
