"""What `bioattn inspect` says of files of attention and attribution."""

import re
from pathlib import Path
from typing import Any

import h5py

from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.store.attention_reader import AttentionFile
from bioattn.store.attribution_reader import AttributionFile
from bioattn.store.shard_record import read_shard
from bioattn.text import some


def describe_attention(path: Path) -> dict[str, Any]:
    """The main figures of an attention file. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        attention = AttentionFile(path, file)
        return (
            _alignment_attention(attention, file)
            if attention.over_alignments
            else _attention(attention, file)
        )


def describe_attribution(path: Path) -> dict[str, Any]:
    """The main figures of an attribution file. Raises: FormatError when it is damaged."""
    with open_hdf5(path) as file:
        return _attribution(AttributionFile(path, file), file)


def _attention(attention: AttentionFile, file: h5py.File) -> dict[str, Any]:
    samples = attention.samples
    sites = {
        info.name: {
            "shape": dict(zip(info.dims, info.shape, strict=True)),
            "dtype": str(info.dtype),
            "reduce": str(info.reduce),
            "heads": list(info.heads),
            "receptive_field": info.receptive_field,
            **({"phases": info.phases} if info.phases > 1 else {}),
            "sink": info.sink,
            "value_weighted": info.has_value_weighted,
        }
        for info in attention.sites.values()
    }
    return dict(
        **_shard(attention.path, file),
        format_version=text_attribute(file, "format_version"),
        generated_by=text_attribute(file, "generated_by"),
        model_sha256=attention.model_sha256,
        input_sha256=attention.input_sha256,
        task=attention.task,
        window_length=attention.window_length,
        downstream=attention.downstream,
        genes=len(samples),
        first_genes=some([str(name) for name in samples.index]),
        chromosomes=some(sorted(set(samples["chrom"]) - {""})),
        treatments=some(attention.treatments),
        sites=sites,
    )


def _attribution(attribution: AttributionFile, file: h5py.File) -> dict[str, Any]:
    samples = attribution.samples
    gap = attribution.completeness_gap()
    more = {} if gap is None or gap.empty else {"largest_completeness_gap": float(gap.abs().to_numpy().max())}
    return dict(
        **_shard(attribution.path, file),
        format_version=text_attribute(file, "format_version"),
        generated_by=text_attribute(file, "generated_by"),
        method=attribution.method,
        method_settings=attribution.method_settings,
        model_sha256=attribution.model_sha256,
        input_sha256=attribution.input_sha256,
        task=attribution.task,
        window_length=attribution.window_length,
        downstream=attribution.downstream,
        genes=len(samples),
        first_genes=some([str(name) for name in samples.index]),
        chromosomes=some(sorted(set(samples["chrom"]) - {""})),
        treatments=some(attribution.treatments),
        **more,
    )


def _alignment_attention(attention: AttentionFile, file: h5py.File) -> dict[str, Any]:
    samples = attention.samples
    sites: dict[str, dict[str, Any]] = {}
    for info in attention.sites.values():
        layer = re.sub(r"\.\d+(?=\.|$)", ".*", info.name)
        figures = sites.setdefault(
            layer,
            {
                "sites": 0,
                "first_shape": dict(zip(info.dims, info.shape, strict=True)),
                "dtype": str(info.dtype),
                "reduce": str(info.reduce),
                "heads": list(info.heads),
                "keys": f"{info.keys}s",
            },
        )
        figures["sites"] += 1
    ranges = {"residues": "length", "msa_rows": "rows", "extra_msa_rows": "extra_rows"}
    return dict(
        **_shard(attention.path, file),
        format_version=text_attribute(file, "format_version"),
        generated_by=text_attribute(file, "generated_by"),
        model_sha256=attention.model_sha256,
        inputs="alignments",
        alignments=len(samples),
        first_alignments=some([str(name) for name in samples.index]),
        **{
            name: f"{samples[column].min():,} to {samples[column].max():,}"
            for name, column in ranges.items()
            if len(samples)
        },
        sites=sites,
    )


def _shard(path: Path, file: h5py.File) -> dict[str, str]:
    """Which part of which whole the file is, if it is one."""
    record = read_shard(path, file)
    return {} if record is None else record.figures()
