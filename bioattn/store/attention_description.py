"""What `bioattn inspect` says of files of attention and attribution."""

import re
from pathlib import Path
from typing import Any

import h5py

from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.store.attribution import AttributionFile
from bioattn.store.reader import AttentionFile, ResultFile
from bioattn.store.shard_record import read_shard
from bioattn.store.windows import PROMOTERS
from bioattn.text import some

_RANGES = {"length": "residues", "rows": "msa_rows", "extra_rows": "extra_msa_rows"}
"""What the columns of lengths of alignments are called."""


def describe_attention(path: Path) -> dict[str, Any]:
    """The main figures of an attention file. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        attention = AttentionFile(path, file)
        if attention.inputs == PROMOTERS:
            return {**_windows(attention, file), "sites": _sites(attention)}
        samples, noun = attention.samples, attention.inputs
        columns = [str(name) for name in samples if samples[name].dtype.kind in "iu"] if len(samples) else []
        names = _RANGES if noun == "alignments" else {}
        return {
            **_origin(attention, file),
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
        attribution = AttributionFile(path, file)
        gap = attribution.completeness_gap()
        figures = _windows(
            attribution, file, method=attribution.method, method_settings=attribution.method_settings
        )
        if gap is not None and not gap.empty:
            figures["largest_completeness_gap"] = float(gap.abs().to_numpy().max())
        return figures


def _sites(attention: AttentionFile) -> dict[str, dict[str, Any]]:
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


def _sites_by_layer(attention: AttentionFile) -> dict[str, dict[str, Any]]:
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


def _origin(result: ResultFile, file: h5py.File) -> dict[str, Any]:
    """Which part of which whole the file is, if it is one, and where it comes from."""
    record = read_shard(result.path, file)
    return {
        **({} if record is None else record.figures()),
        "format_version": text_attribute(file, "format_version"),
        "generated_by": text_attribute(file, "generated_by"),
        "model_sha256": result.model_sha256,
    }


def _windows(result: ResultFile, file: h5py.File, **more: str) -> dict[str, Any]:
    """The figures of a file over promoters."""
    samples = result.samples
    return {
        **_origin(result, file),
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
