"""The kinds of files that this room owns: attention, attribution, tables, JSON, and parts of sharded runs."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import h5py

from bioattn.errors import FormatError
from bioattn.io.files import read_json, read_lines
from bioattn.io.hdf5 import open_hdf5, text_attribute
from bioattn.store.attribution import Attribution
from bioattn.store.contents import Stored
from bioattn.store.field_kinds import FIELD_KINDS, audit_sample
from bioattn.store.kinds import FileKind, ReportInput, ResultTable, hdf5, read_table, starts_with
from bioattn.store.reader import Attention, Results
from bioattn.store.result_validation import validate_results
from bioattn.store.schema import ATTRIBUTION_FORMAT, FORMAT
from bioattn.store.shards import PART_START, shard_of_hdf5, shard_of_table
from bioattn.store.windows import PROMOTERS
from bioattn.text import counted, some

_RANGES = {"length": "residues", "rows": "msa_rows", "extra_rows": "extra_msa_rows"}


def describe_attention(path: Path) -> dict[str, Any]:
    """The main figures of an attention file. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        attention = Attention(Stored(path, file))
        if attention.inputs == PROMOTERS:
            return {**_windows(path, attention, file), "sites": _sites(attention)}
        samples, noun = attention.samples, attention.inputs
        columns = [str(name) for name in samples if samples[name].dtype.kind in "iu"] if len(samples) else []
        names = _RANGES if noun == "alignments" else {}
        return {
            **_origin(path, attention, file),
            "inputs": noun,
            noun: len(samples),
            f"first_{noun}": some([str(name) for name in samples.index]),
            **{
                names.get(name, name): f"{samples[name].min():,} to {samples[name].max():,}"
                for name in columns
            },
            "sites": _sites_by_layer(attention),
        }


def describe_attribution(path: Path) -> dict[str, Any]:
    """The main figures of an attribution file. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        attribution = Attribution(Stored(path, file, ATTRIBUTION_FORMAT))
        gap = attribution.completeness_gap()
        figures = _windows(
            path, attribution, file, method=attribution.method, method_settings=attribution.method_settings
        )
        if gap is not None and not gap.empty:
            figures["largest_completeness_gap"] = float(gap.abs().to_numpy().max())
        return figures


def _sites(attention: Attention) -> dict[str, dict[str, Any]]:
    return {
        info.name: {
            "shape": dict(zip(info.dims, info.shape, strict=True)),
            "dtype": str(info.dtype),
            "reduce": str(info.reduce),
            "heads": list(info.heads),
            "receptive_field": info.receptive_field,
            **({"phases": info.phases} if info.phases > 1 else {}),
            "sink": info.null_key,
            "value_weighted": info.has_value_weighted,
        }
        for info in attention.sites.values()
    }


def _sites_by_layer(attention: Attention) -> dict[str, dict[str, Any]]:
    """Sites whose names differ by a number only, as one."""
    sites: dict[str, dict[str, Any]] = {}
    for info in attention.sites.values():
        layer = re.sub(r"\.\d+(?=\.|$)", ".*", info.name)
        figures = sites.setdefault(
            layer,
            {
                "sites": 0,
                "first_shape": dict(zip(info.dims, info.shape, strict=False)),
                "dtype": str(info.dtype),
                "reduce": str(info.reduce),
                "heads": list(info.heads),
                "keys": f"{info.kind('key').replace('_', ' ')}s",
            },
        )
        figures["sites"] += 1
    return sites


def _origin(path: Path, result: Results, file: h5py.File) -> dict[str, Any]:
    """Which part of which whole the file is, if it is one, and where it comes from."""
    record = shard_of_hdf5(path, file)
    return {
        **({} if record is None else record.figures()),
        "format_version": text_attribute(file, "format_version"),
        "generated_by": text_attribute(file, "generated_by"),
        "model_sha256": result.model_sha256,
    }


def _windows(path: Path, result: Results, file: h5py.File, **more: str) -> dict[str, Any]:
    samples = result.samples
    return {
        **_origin(path, result, file),
        **more,
        "input_sha256": result.input_sha256,
        "task": result.task,
        "window_length": result.window_length,
        "downstream": result.downstream,
        "genes": len(samples),
        "first_genes": some([str(name) for name in samples.index]),
        "chromosomes": some(sorted(set(samples["chrom"]) - {""})),
        "treatments": some(result.treatments),
    }


_DRAWN = {"promoters": "attention", "alignments": "alignment_attention"}


def _report_attention(path: Path) -> ReportInput:
    """Over promoters and alignments a report draws maps; over other inputs it lists the sites."""
    figures = describe_attention(path)
    inputs = figures.get("inputs", "promoters")
    if inputs in _DRAWN:
        return ReportInput(_DRAWN[inputs], figures)
    table = ResultTable(
        title=f"Attention over {inputs}",
        sentences=[f"{path.name} holds attention over {figures[inputs]:,} {inputs}."],
        columns=("layer", "sites", "heads", "keys", "stored as"),
        rows=[
            (layer, site["sites"], len(site["heads"]), site["keys"], site["reduce"])
            for layer, site in figures["sites"].items()
        ],
    )
    return ReportInput("results", figures, table)


def _report_table(path: Path) -> ReportInput | None:
    header, _ = _read_table(path)
    return ReportInput("predictions_table", _describe_table(path)) if header[0] == "gene_id" else None


def _describe_json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    return {"keys": some(list(content))} if isinstance(content, dict) else {"entries": len(content)}


def _describe_part(path: Path) -> dict[str, Any]:
    record = shard_of_table(path)
    header, *rows = (line for number, line in read_lines(path) if number > 1)
    names = header.split("\t")
    figures = {} if record is None else record.figures()
    return {**figures, "rows": len(rows), "columns": len(names), "names": some(names)}


def _describe_audit(path: Path) -> dict[str, Any]:
    header, rows = _read_table(path)
    status = header.index("status")
    statuses = Counter(cells[status] for cells in rows)
    return {"genes": statuses.total(), "genes_per_status": dict(sorted(statuses.items()))}


def _describe_table(path: Path) -> dict[str, Any]:
    header, rows = _read_table(path)
    return {"rows": sum(1 for _ in rows), "columns": len(header), "names": some(header)}


def _read_table(path: Path) -> tuple[list[str], Iterator[list[str]]]:
    """The names of columns, and the cells of every row; blank lines are passed over. Cells between commas may be
    quoted.

    Raises: FormatError, also while the rows are read, naming the line that has other columns than the header.
    """
    lines = (line for _, line in read_lines(path))
    first = next(lines)
    tabs = "\t" in first
    quoting: Any = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    reader = csv.reader(chain([first], lines), delimiter="\t" if tabs else ",", quoting=quoting)
    header = next(reader)
    # The row names of R and pandas have no header.
    if not all(name.strip() for name in header[1:]):
        raise FormatError(f"{path}:1: is no header of a table, a column has no name")
    if twice := [name for name, number in Counter(header).items() if number > 1]:
        raise FormatError(f"{path}:1: is no header of a table, {twice[0]!r} names two columns")
    return header, _rows(path, reader, len(header), tabs)


def _rows(path: Path, reader: Any, num_columns: int, tabs: bool) -> Iterator[list[str]]:
    none_of_ours = "" if tabs else "; this is none of the files bioattn reads or writes"
    number = 0
    try:
        for number, cells in enumerate(filter(None, reader), start=1):
            if len(cells) != num_columns:
                problem = f"has {counted(len(cells), 'column')}, the header has {num_columns}"
                # Any text may have a comma in its first line.
                raise FormatError(f"{path}:{reader.line_num}: {problem}{none_of_ours if number == 1 else ''}")
            yield cells
    except csv.Error as problem:
        raise FormatError(f"{path}:{reader.line_num}: is no row of a table ({problem})") from problem
    if not number and not tabs:
        raise FormatError(f"{path}:1: a line with commas and no rows below{none_of_ours}")


FILE_KINDS: Sequence[FileKind] = (
    *FIELD_KINDS,
    FileKind(
        "attention",
        "attention HDF5",
        hdf5(FORMAT),
        describe_attention,
        validate=validate_results,
        report=_report_attention,
    ),
    FileKind(
        "attribution",
        "attribution HDF5",
        hdf5(ATTRIBUTION_FORMAT),
        describe_attribution,
        validate=validate_results,
        report=lambda path: ReportInput("attribution"),
    ),
    FileKind(
        "predictions-part", "part of a table of predictions", starts_with(PART_START.encode()), _describe_part
    ),
    FileKind(
        "run-record",
        "run record of a command",
        lambda candidate: (
            isinstance(candidate.json, dict) and {"command", "bioattn_version"} <= set(candidate.json)
        ),
        read_json,
        read_json,
        order=-1,
    ),
    FileKind(
        "json", "JSON file", lambda candidate: candidate.json is not None, _describe_json, read_json, order=1
    ),
    FileKind(
        "audit",
        "audit of promoter preparation",
        lambda candidate: {"gene_id", "status"} <= set(candidate.columns),
        _describe_audit,
        read_table,
        multiqc=audit_sample,
        order=2,
    ),
    FileKind(
        "table",
        "table",
        lambda candidate: bool(candidate.columns) and not candidate.head.startswith(b"track "),  # bedGraph
        _describe_table,
        read_table,
        report=_report_table,
        order=3,
    ),
)
