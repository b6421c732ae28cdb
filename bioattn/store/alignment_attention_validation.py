"""Checking an attention file over alignments against its schema, a few megabytes at a time."""

from collections import Counter
from collections.abc import Iterator

import h5py
import numpy as np
from numpy.typing import NDArray

from bioattn.attention.site import AXES
from bioattn.io.hdf5_input import strings, text_attribute
from bioattn.store.alignment_schema import (
    COLUMNS,
    EXTRA_ROW_NAMES,
    KEY_INDEX,
    RANK,
    ROW_NAMES,
    SAMPLE_FIELDS,
    AlignmentReduction,
    AlignmentSizes,
    runs_over_residues,
    sample_group,
    slabs,
)
from bioattn.store.attention_checks import WEIGHT_TYPES, digest_of, dimensions, slab_problem
from bioattn.store.findings import Finding, error
from bioattn.store.schema import DIGEST, WEIGHTS, Digest, row_sum_tolerance
from bioattn.system.progress import Progress

TEXT_COLUMNS = ("id", "query", "input_sha256")


def validate_alignments(file: h5py.File, progress: Progress) -> Iterator[Finding]:
    """Everything wrong with the samples and sites of an open attention file over alignments."""
    findings = list(sample_findings(file["samples"]))
    yield from findings
    if findings:
        return  # the shapes of all arrays follow from the samples
    group = file["samples"]
    ids = strings(group["id"])
    sizes = [
        AlignmentSizes(int(rows), int(extra), int(length))
        for rows, extra, length in zip(
            group["rows"][:], group["extra_rows"][:], group["length"][:], strict=True
        )
    ]
    progress.begin("checking", len(file["sites"]) * len(ids))
    for site in file["sites"].values():
        yield from _site(site, ids, sizes, progress)


def sample_findings(group: h5py.Group) -> Iterator[Finding]:
    """What is wrong with the samples of a file."""
    numbers = set()
    for name in SAMPLE_FIELDS:
        dataset = group.get(name)
        where = f"/samples/{name}"
        if not isinstance(dataset, h5py.Dataset):
            yield error(where, "the dataset is missing")
            return
        if dataset.ndim != 1:
            yield error(where, f"has {dataset.ndim} axes, one is needed")
            return
        if name in TEXT_COLUMNS:
            yield from digest_of(dataset, strings(dataset))
        elif dataset.dtype.kind != "i":
            yield error(where, f"has dtype {dataset.dtype}, integers are needed")
            return
        else:
            values = dataset[:]
            yield from digest_of(dataset, values)
            if (values < 1).any():
                yield error(where, f"has {values.min()}, at least 1 is needed")
                return
        numbers.add(len(dataset))
    if len(numbers) != 1:
        yield error("/samples", f"the datasets differ in length: {sorted(numbers)}")
        return
    twice = next((name for name, times in Counter(strings(group["id"])).items() if times > 1), None)
    if twice is not None:
        yield error("/samples/id", f"{twice!r} occurs more than once")
    lengths, widths = group["length"][:], group["alignment_columns"][:]
    for number, (query, length, width) in enumerate(
        zip(strings(group["query"]), lengths, widths, strict=True)
    ):
        if len(query) != length:
            yield error("/samples/query", f"a query of {len(query)} letters has length {length}")
            return
        where = f"/samples/{COLUMNS}/{sample_group(number)}"
        columns = group.get(f"{COLUMNS}/{sample_group(number)}")
        if not isinstance(columns, h5py.Dataset) or columns.shape != (length,) or columns.dtype.kind != "i":
            yield error(where, f"{length} integers are needed")
            return
        values = columns[:]
        yield from digest_of(columns, values)
        if values[0] < 0 or values[-1] >= width or (np.diff(values) <= 0).any():
            yield error(where, f"is not an ascending choice of the columns 0 to {width - 1}")
            return
    for name, counts in ((ROW_NAMES, "rows"), (EXTRA_ROW_NAMES, "extra_rows")):
        if isinstance(group.get(name), h5py.Dataset):
            yield error(f"/samples/{name}", "is a dataset, a group is needed")
            continue
        for number, wanted in enumerate(group[counts][:]):
            names = group.get(f"{name}/{sample_group(number)}")
            if names is None:
                continue  # optional
            texts = strings(names)
            yield from digest_of(names, texts)
            if len(texts) != wanted:
                yield error(names.name, f"has {len(texts)} names for {wanted} rows")


def _site(
    group: h5py.Group, ids: list[str], sizes: list[AlignmentSizes], progress: Progress
) -> Iterator[Finding]:
    where = group.name
    reduce = text_attribute(group, "reduce")
    if reduce not in tuple(AlignmentReduction):
        allowed = ", ".join(AlignmentReduction)
        yield error(where, f"the attribute 'reduce' is {reduce!r}, one of {allowed} is needed")
        return
    if text_attribute(group, "keys") not in ("residue", "row"):
        yield error(where, "the attribute 'keys' is neither 'residue' nor 'row'")
        return
    for name in ("heads", "extra_rows", *(("top_k",) if reduce == AlignmentReduction.TOP_K else ())):
        if name not in group.attrs:
            yield error(where, f"the attribute {name!r} is missing")
            return
    if group.attrs["extra_rows"] not in (0, 1):
        yield error(where, f"the attribute 'extra_rows' is {group.attrs['extra_rows']}, 0 or 1 is needed")
        return
    wanted = {sample_group(number) for number in range(len(ids))}
    for name in sorted(wanted ^ set(group)):
        yield error(f"{where}/{name}", "is missing" if name in wanted else "belongs to no sample")
    for number, (sample, size) in enumerate(zip(ids, sizes, strict=True)):
        arrays = group.get(sample_group(number))
        if arrays is not None and not isinstance(arrays, h5py.Group):
            yield error(arrays.name, "is a dataset, a group is needed")
        elif arrays is not None:
            columns = group.file[f"samples/{COLUMNS}/{sample_group(number)}"][:]
            yield from _arrays(arrays, group, sample, size, columns, AlignmentReduction(reduce))
        progress.advance()


def _arrays(
    arrays: h5py.Group,
    site: h5py.Group,
    sample: str,
    size: AlignmentSizes,
    columns: NDArray[np.integer],
    reduce: AlignmentReduction,
) -> Iterator[Finding]:
    """The arrays of one sample at one site; columns: what residue axes count."""
    where = f"{arrays.name}/{WEIGHTS}"
    if text_attribute(arrays, "sample") != sample:
        yield error(
            arrays.name, f"says that it is of {arrays.attrs.get('sample')!r}, /samples says {sample!r}"
        )
    quantities = (WEIGHTS, KEY_INDEX) if reduce is AlignmentReduction.TOP_K else (WEIGHTS,)
    for quantity in quantities:
        if not isinstance(arrays.get(quantity), h5py.Dataset):
            yield error(f"{arrays.name}/{quantity}", "the dataset is missing")
            return
    weights = arrays[WEIGHTS]
    dims = tuple(str(dim.label) for dim in weights.dims)
    last = RANK if reduce is AlignmentReduction.TOP_K else "key"
    if not dims or dims[-1] != last or dims[:-1] != tuple(axis for axis in AXES[2:-1] if axis in dims):
        yield error(
            where, f"has axes {dims}, a selection of {AXES[2:-1]} in this order and {last} are needed"
        )
        return
    if weights.dtype not in WEIGHT_TYPES:
        yield error(where, f"has dtype {weights.dtype}, float32 or float16 is needed")
        return
    expected = _shape(dims, site, size)
    for quantity in quantities:
        if arrays[quantity].shape != expected:
            yield error(
                f"{arrays.name}/{quantity}", f"has shape {arrays[quantity].shape}, {expected} is needed"
            )
            return
        yield from dimensions(f"{arrays.name}/{quantity}", arrays, arrays[quantity], dims)
    keys = text_attribute(site, "keys") or ""
    for dim in dims:
        if not isinstance(arrays.get(dim), h5py.Dataset):
            continue  # reported with the dimensions
        yield from digest_of(arrays[dim], arrays[dim][:])
        if runs_over_residues(dim, keys) and not np.array_equal(arrays[dim][:], columns):
            yield error(arrays[dim].name, f"differs from /samples/{COLUMNS}")
        if dim == "head" and not np.array_equal(arrays[dim][:], site.attrs["heads"]):
            yield error(arrays[dim].name, "differs from the attribute 'heads' of the site")
    num_keys = size.residues if keys == "residue" else _rows(site, size)
    if reduce is AlignmentReduction.TOP_K:
        index = arrays[KEY_INDEX]
        if index.dtype.kind != "i":
            yield error(f"{arrays.name}/{KEY_INDEX}", f"has dtype {index.dtype}, integers are needed")
            return
        yield from _values(weights, index, sample, _bounds(weights, reduce, num_keys), num_keys)
    else:
        yield from _values(weights, None, sample, _bounds(weights, reduce, num_keys), num_keys)


def _rows(site: h5py.Group, size: AlignmentSizes) -> int:
    return size.extra_rows if site.attrs["extra_rows"] else size.rows


def _shape(dims: tuple[str, ...], site: h5py.Group, size: AlignmentSizes) -> tuple[int, ...]:
    rows = _rows(site, size)
    keys = size.residues if text_attribute(site, "keys") == "residue" else rows
    lengths = {
        "row": rows,
        "residue": size.residues,
        "head": len(site.attrs["heads"]),
        "query": keys,
        "key": keys,
        RANK: min(int(site.attrs.get("top_k", 0)), keys),
    }
    return tuple(lengths[dim] for dim in dims)


def _bounds(weights: h5py.Dataset, reduce: AlignmentReduction, num_keys: int) -> tuple[float, float]:
    """Between which sums the weights of a query lie."""
    tolerance = row_sum_tolerance(weights.dtype)
    match reduce:
        case AlignmentReduction.MAX_ROWS | AlignmentReduction.MAX_HEADS:
            return 1 - tolerance, np.inf
        case AlignmentReduction.TOP_K:  # the k largest of K weigh at least what k of K alike would
            return weights.shape[-1] / num_keys - tolerance, 1 + tolerance
        case _:
            return 1 - tolerance, 1 + tolerance


def _values(
    weights: h5py.Dataset,
    key_index: h5py.Dataset | None,
    sample: str,
    bounds: tuple[float, float],
    num_keys: int,
) -> Iterator[Finding]:
    """Digests, finiteness, range, sums and order of the arrays of one sample."""
    digests = {dataset.name: Digest() for dataset in (weights, key_index) if dataset is not None}
    problem: tuple[str, str] | None = None
    for index in slabs(weights.shape, weights.dtype.itemsize):
        slab = weights[index]
        digests[weights.name].add(slab)
        found = slab_problem(slab, bounds)
        if problem is None and found is not None:
            problem = weights.name, found[1]
        if key_index is None:
            continue
        keys = key_index[index]
        digests[key_index.name].add(keys)
        if problem is None:
            problem = _order_problem(weights.name, slab, key_index.name, keys, num_keys)
    if problem is not None:
        yield error(problem[0], f"sample {sample!r}: {problem[1]}")
    for dataset in (weights, key_index):
        if dataset is not None and text_attribute(dataset, DIGEST) != digests[dataset.name].hexdigest():
            yield error(dataset.name, f"the values are not those that were written ({DIGEST} differs)")


def _order_problem(
    weights_name: str,
    weights: NDArray[np.floating],
    keys_name: str,
    keys: NDArray[np.integer],
    num_keys: int,
) -> tuple[str, str] | None:
    """What is wrong with the order of the largest weights, or with the keys that they are of."""
    if (np.diff(weights, axis=-1) > 0).any():
        return weights_name, "the weights of a query do not fall from its largest on"
    if keys.size and (keys.min() < 0 or keys.max() >= num_keys):
        return keys_name, f"names a key outside 0 to {num_keys - 1}"
    ordered = np.sort(keys, axis=-1)
    if (np.diff(ordered, axis=-1) == 0).any():
        return keys_name, "names a key of a query twice"
    return None
