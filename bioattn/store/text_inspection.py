"""What `inspect` says of text: promoters, JSON, contacts, structures and tables."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bioattn.errors import FormatError
from bioattn.formats.bed import read_bed
from bioattn.formats.rr import read_rr
from bioattn.io.files import read_json, read_lines
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.alignment_inspection import statistics_figures
from bioattn.store.contact_regression import read_regression
from bioattn.store.description import Description, describe, some
from bioattn.store.prediction_table import open_part
from bioattn.store.shard_folder import SHARD_FORMAT, shard_figures
from bioattn.store.simulation_inspection import SIMULATIONS, simulation_figures
from bioattn.text import counted

_PDB_START = re.compile(
    rb"(HEADER|TITLE |COMPND|SOURCE|KEYWDS|EXPDTA|AUTHOR|REVDAT|REMARK|SEQRES|CRYST1|PARENT|MODEL |ATOM  |HETATM)"
    rb"[ 0-9]"
)


def looks_like_structure(head: bytes) -> bool:
    """Whether the first bytes of a file are those of PDB or mmCIF."""
    text = re.sub(rb"\A(\s|#[^\n]*\n)*", b"", head)
    return text.startswith(b"data_") or _PDB_START.match(text) is not None


def inspect_structure(path: Path) -> Description:
    """The protein chains of a PDB or mmCIF file. Raises: FormatError when it cannot be read."""
    from bioattn.structures.chain import read_chains

    chains = read_chains(path)
    return describe(
        "structure",
        chains={chain.name: len(chain) for chain in chains},
        missing_cb=sum(chain.num_missing_cb for chain in chains),
    )


def inspect_contacts(path: Path) -> Description:
    """A CASP RR file. Raises: FormatError naming the line that is none of it."""
    found = read_rr(path)
    return describe(
        "contacts",
        target=found.target,
        residues=len(found.sequence),
        pairs=len(found.pairs),
        likeliest=found.pairs[0].probability if found.pairs else None,
    )


def inspect_promoters(path: Path) -> Description:
    """A promoter FASTA. Raises: FormatError naming the record that is none."""
    number = located = unknown = bases = 0
    shortest, longest = math.inf, 0
    flanks: set[int] = set()
    chromosomes: set[str] = set()
    for promoter in read_promoters(path):
        number += 1
        located += promoter.strand in ("+", "-")
        window = promoter.codes.size - 2 * promoter.flank
        shortest, longest = min(shortest, window), max(longest, window)
        bases += promoter.codes.size
        unknown += int((promoter.codes > 3).sum())
        flanks.add(promoter.flank)
        if promoter.chrom:
            chromosomes.add(promoter.chrom)
    return describe(
        "promoters",
        promoters=number,
        with_location=located,
        shortest=int(shortest),
        longest=longest,
        flanks=sorted(flanks),
        chromosomes=some(sorted(chromosomes)),
        unknown_bases=f"{100 * unknown / bases:.3g} %",
    )


def inspect_json(path: Path) -> Description:
    """JSON, of bioattn or not. Raises: FormatError when it is damaged."""
    content = read_json(path)
    if not isinstance(content, dict):
        return describe("json", entries=len(content))
    if "command" in content and "bioattn_version" in content:
        return describe("run-record", **content)
    if content.get("format") == "bioattn-msa-statistics":
        return describe("msa-statistics", **statistics_figures(path, content))
    if content.get("format") == "bioattn-contact-regression":
        return _contact_regression(path)
    if content.get("format") == "bioattn-check":
        return describe("check", **_check_figures(path, content))
    if content.get("format") == SHARD_FORMAT:
        return describe("shard", **shard_figures(path.parent))
    if content.get("format") in SIMULATIONS:
        return describe(SIMULATIONS[content["format"]], **simulation_figures(path, content))
    return describe("json", keys=some(list(content)))


def _check_figures(path: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Figures of a file of `explain check`. Raises: FormatError when it lacks what a reader may rely on."""
    try:
        passed = [measure["passed"] for measure in content["measures"]]
        return {
            "version": content["format_version"],
            "verdict": content["verdict"]["code"],
            "sentence": content["verdict"]["sentence"],
            "caveats": content["verdict"]["caveats"],
            "measures": len(passed),
            "passed": passed.count(True),
            "failed": some(
                [measure["name"] for measure in content["measures"] if measure["passed"] is False]
            ),
            "skipped": some([entry["name"] for entry in content["skipped"]]),
            "promoters": content["settings"]["promoters"],
            "treatments": content["settings"]["treatments"],
        }
    except (KeyError, TypeError) as error:
        raise FormatError(
            f"{path}: is not a complete check ({error!r}); run `bioattn explain check` again"
        ) from error


def _contact_regression(path: Path) -> Description:
    regression = read_regression(path)
    return describe(
        "contact-regression",
        model_sha256=regression.model_sha256,
        proteins=some(list(regression.proteins)),
        sites=len(regression.weights),
        heads=sum(len(heads) for heads in regression.weights.values()),
        heads_in_use=regression.num_heads_used,
    )


def inspect_part(path: Path) -> Description:
    """A part of a table of predictions. Raises: FormatError when it is not what was written."""
    with open_part(path) as part:
        names = part.header.split("\t")
        rows = sum(1 for _ in part.rows())
        return describe(
            "predictions-part", **part.record.figures(), rows=rows, columns=len(names), names=some(names)
        )


def inspect_table(path: Path) -> Description:
    """A table, an audit or BED. Raises: FormatError naming the line that has other columns than the header."""
    lines = read_lines(path)
    _, header = next(lines)
    separator = "\t" if "\t" in header else ","
    columns = header.split("\t") if separator == "\t" else next(csv.reader([header]))
    if separator == "\t" and len(columns) >= 6 and columns[1].isdecimal() and columns[2].isdecimal():
        return _bed(path)
    # The row names of R and pandas have no header.
    if not all(name.strip() for name in columns[1:]):
        raise FormatError(f"{path}:1: is no header of a table, a column has no name")
    if twice := [name for name, number in Counter(columns).items() if number > 1]:
        raise FormatError(f"{path}:1: is no header of a table, {twice[0]!r} names two columns")
    status = columns.index("status") if {"gene_id", "status"} <= set(columns) else None
    statuses: Counter[str] = Counter()
    rows = 0
    for number, cells in _rows(path, lines, separator):
        rows += 1
        if len(cells) != len(columns):
            found = f"has {counted(len(cells), 'column')}, the header has {len(columns)}"
            if rows == 1 and separator == ",":
                # Any text may have a comma in its first line.
                raise FormatError(
                    f"{path}: is none of the files bioattn reads or writes (line {number} {found})"
                )
            raise FormatError(f"{path}:{number}: {found}")
        if status is not None:
            statuses[cells[status]] += 1
    if status is not None:
        return describe("audit", genes=rows, genes_per_status=dict(sorted(statuses.items())))
    if not rows and separator == ",":
        raise FormatError(
            f"{path}: is none of the files bioattn reads or writes (a line with commas and no rows below)"
        )
    return describe("table", rows=rows, columns=len(columns), names=some(columns))


def _rows(path: Path, lines: Iterator[tuple[int, str]], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Line numbers and cells below the header; blank lines are passed over. Cells between commas may be quoted."""
    if separator == "\t":
        yield from ((number, line.split("\t")) for number, line in lines if line)
        return
    reader = csv.reader(line for _, line in lines)
    try:
        yield from ((reader.line_num + 1, cells) for cells in reader if cells)
    except csv.Error as error:
        raise FormatError(f"{path}:{reader.line_num + 1}: is no row of a table ({error})") from error


def _bed(path: Path) -> Description:
    genes = read_bed(path).genes
    chromosomes = {place.chrom for gene in genes for place in gene.places}
    return describe("bed", genes=len(genes), chromosomes=some(sorted(chromosomes)))
