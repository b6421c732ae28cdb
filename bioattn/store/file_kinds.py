"""The kinds of files that this room owns: attention, attribution, tables, JSON, and parts of sharded runs.

Checking files of results: that bytes are those that were written is HDF5's to check (every value is read once),
and what cannot be read the reader's to say. Here names and shapes are held against the samples, and values
against what they promise: rows of weights sum to 1, values of attribution to 0.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Reduction
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.tables import open_table, refuse_duplicate_columns
from bioattn.io.files import read_json, read_lines
from bioattn.io.hdf5 import damage_named, open_hdf5, strings, text_attribute
from bioattn.store import schema
from bioattn.store.attribution import ATTRIBUTION, SEQUENCE, VALUES, Attribution
from bioattn.store.contents import Stored, read_samples
from bioattn.store.field_kinds import FIELD_KINDS, audit_sample
from bioattn.store.kinds import FileKind, Problem, ReportInput, ResultTable, hdf5, read_table, starts_with
from bioattn.store.reader import Attention, Results
from bioattn.store.schema import ATTRIBUTION_FORMAT, FORMAT
from bioattn.store.shards import PART_START, UNFINISHED, shard_of_hdf5, shard_of_table
from bioattn.store.windows import PROMOTERS
from bioattn.system.progress import SILENT, Progress
from bioattn.text import some

_NEEDED = {
    schema.FORMAT: ("generated_by", "model_sha256", "inputs"),
    schema.ATTRIBUTION_FORMAT: ("generated_by", "model_sha256", "inputs", "method", "method_settings"),
}
_NEEDED_OF_PROMOTERS = ("input_sha256", "task", "window_length")
_CENTRED = 1e-5
"""How far the values of a position may sum from 0, as a share of the largest of them."""

Slab = Mapping[str, NDArray[Any]]


def validate_results(path: Path, progress: Progress = SILENT) -> list[Problem]:
    """Everything wrong with a file of attention or attribution; an empty list when it keeps its contract.

    A file that cannot be read further is a problem too, never an exception.
    """
    problems: list[Problem] = []
    try:
        with open_hdf5(path) as file:
            is_attribution = text_attribute(file, "format") == schema.ATTRIBUTION_FORMAT
            layout = Stored(path, file, schema.ATTRIBUTION_FORMAT if is_attribution else schema.FORMAT).layout
            samples = read_samples(file, layout.columns, layout.lists)
            problems += _table_problems(file, layout, samples)
            if problems:
                return problems  # the shapes of all arrays follow from the samples
            progress.begin("checking", len(layout.groups) * len(samples))
            for group in layout.groups:
                with damage_named(path):
                    problems += _group_problems(file[group.path], group, samples, progress)
            if UNFINISHED in file.attrs:
                problems.append(Problem("", "is unfinished: repeat the command that made it with --resume"))
    except BioattnError as problem:
        problems.append(Problem("", str(problem).removeprefix(f"{path}: ")))
    finally:
        progress.end()
    return problems


def _table_problems(file: h5py.File, layout: schema.FileLayout, samples: schema.Samples) -> Iterator[Problem]:
    """What is wrong with the attributes of the root, and with the names and lists of the samples."""
    for name in _NEEDED[layout.format] + (_NEEDED_OF_PROMOTERS if layout.inputs == PROMOTERS else ()):
        if name not in file.attrs:
            yield Problem("/", f"the attribute {name!r} is missing")
    if layout.format == schema.ATTRIBUTION_FORMAT and all(
        group.path != ATTRIBUTION for group in layout.groups
    ):
        yield Problem(f"/{ATTRIBUTION}", "the group is missing")
    columns = samples.columns
    if len({len(values) for values in columns.values()}) > 1:
        yield Problem("/samples", "the columns differ in length")
        return
    twice = next((name for name, times in Counter(samples.ids).items() if times > 1), None)
    if twice is not None:
        yield Problem("/samples/id", f"{twice!r} occurs more than once")
    for listed in layout.lists:
        for number, (values, length) in enumerate(
            zip(samples.lists[listed.name], columns[listed.lengths], strict=True)
        ):
            has = 0 if values is None else len(values)
            if has != length and not (values is None and listed.dtype == schema.TEXT):  # names are optional
                where = f"/samples/{listed.name}/{schema.sample_group(number)}"
                yield Problem(where, f"has {has} entries for {length} {listed.lengths}")


def _group_problems(
    holder: h5py.Group, group: schema.GroupLayout, samples: schema.Samples, progress: Progress
) -> Iterator[Problem]:
    if not group.per_sample:
        if strings(holder[schema.SAMPLE]) != samples.ids:
            yield Problem(f"{holder.name}/{schema.SAMPLE}", "differs from /samples/id")
        yield from _array_problems(holder, group, samples, None, progress)
        return
    names = [schema.sample_group(number) for number in range(len(samples))]
    for name in sorted({*names} ^ {*holder}):
        yield Problem(f"{holder.name}/{name}", "is missing" if name in names else "belongs to no sample")
    for number, name in enumerate(names):
        if name in holder:
            if (said := text_attribute(holder[name], schema.SAMPLE)) != samples.ids[number]:
                where = f"{holder.name}/{name}"
                yield Problem(where, f"says that it is of {said!r}, /samples says {samples.ids[number]!r}")
            yield from _array_problems(holder[name], group, samples, number, progress)
        progress.advance()


def _array_problems(
    holder: h5py.Group,
    group: schema.GroupLayout,
    samples: schema.Samples,
    number: int | None,
    progress: Progress,
) -> Iterator[Problem]:
    """Wrong shapes, or the first wrong value, of the arrays of all samples, or of those of the sample `number`."""
    lengths = None if number is None else samples.lengths(number)
    before = () if number is not None else (len(samples),)
    fits = True
    for array in group.arrays:
        found = holder[array.name].shape if array.name in holder else None
        shape = (*before, *group.shape(array, lengths))
        if found != shape:
            fits = False
            wrong = "the dataset is missing" if found is None else f"has shape {found}, {shape} is needed"
            yield Problem(f"{holder.name}/{array.name}", wrong)
    told = not fits
    for first, slab in _slabs(holder, group, len(samples), number) if fits else ():
        problem = None if told else _wrong_value(group, slab, samples, first)
        if problem is not None:
            name, place, message = problem
            yield Problem(f"{holder.name}/{name}", f"{samples.ids[first + place]!r}: {message}")
            told = True
        progress.advance(len(next(iter(slab.values()))) if number is None else 0)


def _slabs(
    holder: h5py.Group, group: schema.GroupLayout, num_samples: int, number: int | None
) -> Iterator[tuple[int, Slab]]:
    """Some megabytes of all arrays at a time, with the number of the first sample in them."""
    arrays = group.arrays
    if number is not None:
        # All arrays of a sample's own have one shape, so that one index is good for all.
        for index in schema.slabs(holder[arrays[0].name].shape, max(array.itemsize for array in arrays)):
            yield number, {array.name: holder[array.name][index][None] for array in arrays}
        return
    step = max(1, schema.SLAB_BYTES // max(1, group.bytes_of_sample()))
    for first in range(0, num_samples, step):
        yield first, {array.name: holder[array.name][first : first + step] for array in arrays}


def _wrong_value(
    group: schema.GroupLayout, slab: Slab, samples: schema.Samples, first: int
) -> tuple[str, int, str] | None:
    """The name of an array, the place of the first sample whose values are impossible, and why."""
    for name, values in slab.items():
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            return name, int(np.argmin(finite)), "holds NaN or infinities"
    checks: list[tuple[str, NDArray[np.bool_], str]] = []
    if group.path == ATTRIBUTION:
        values = slab[VALUES]
        tolerance = _CENTRED * (np.abs(values).max(axis=-1) + np.finfo(np.float32).tiny)
        sums = np.abs(values.sum(axis=-1, dtype=np.float64))
        checks = [
            (SEQUENCE, slab[SEQUENCE] > 4, "holds codes above 4"),
            (VALUES, sums > tolerance, "values of a position do not sum to 0"),
        ]
    elif schema.WEIGHTS in slab:
        stored = [name for name in (schema.WEIGHTS, schema.VALUE_WEIGHTED) if name in slab]
        checks = [(name, slab[name] < 0, "holds negative values") for name in stored]
        sums = slab[schema.WEIGHTS].sum(axis=-1, dtype=np.float32)
        # Rounding to float16 moves each weight by up to 2^-11.
        error, reduce = 2e-3 if slab[schema.WEIGHTS].dtype == np.float16 else 1e-4, group.attributes["reduce"]
        low = 0.0 if group.attributes.get("sink") or reduce == Reduction.TOP_K else 1 - error
        high = np.inf if reduce in (Reduction.MAX_HEADS, Reduction.MAX_ROWS) else 1 + error
        wrong = (sums < low) | (sums > high)
        if group.ragged and not group.per_sample:  # rows behind a sample's end are 0
            weights = next(array for array in group.arrays if array.name == schema.WEIGHTS)
            for place in range(len(wrong)):
                *within, _ = group.within(weights, samples.lengths(first + place))
                inside = np.zeros_like(wrong[place])
                inside[tuple(within)] = True
                wrong[place] &= inside
        worst = f" to {sums[wrong].flat[0]:.6g}" if wrong.any() else ""
        checks.append((schema.WEIGHTS, wrong, f"a row of weights sums{worst}"))
    for name, wrong, message in checks:
        by_sample = wrong.reshape(len(wrong), -1).any(axis=1)
        if by_sample.any():
            return name, int(np.argmax(by_sample)), message
    return None


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
    is_predictions = open_table(path).header[0] == "gene_id"
    return ReportInput("predictions_table", _describe_table(path)) if is_predictions else None


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
    table = open_table(path)
    status = table.header.index("status")
    statuses = Counter(cells[status] for _, cells in table.rows())
    return {"genes": statuses.total(), "genes_per_status": dict(sorted(statuses.items()))}


def _describe_table(path: Path) -> dict[str, Any]:
    table = open_table(path)
    refuse_duplicate_columns(table)
    if not table.sample and "\t" not in next(read_lines(path))[1]:  # as any text may begin
        raise FormatError(
            f"{path}:1: a line with commas and no rows below; this is none of the files bioattn reads or writes"
        )
    return {
        "rows": sum(1 for _ in table.rows()),
        "columns": len(table.header),
        "names": some(list(table.header)),
    }


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
