"""What `inspect` says of HDF5 files of bioattn."""

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bioattn.errors import BioattnError
from bioattn.io.hdf5_input import open_hdf5, text_attribute
from bioattn.store.attention_reader import AttentionFile
from bioattn.store.attribution_reader import AttributionFile
from bioattn.store.attribution_schema import ATTRIBUTION_FORMAT
from bioattn.store.description import Description, describe, some
from bioattn.store.distogram_file import (
    DISTOGRAM_FORMAT,
    REPRESENTATIONS_FORMAT,
    describe_prediction_file,
)
from bioattn.store.schema import FORMAT
from bioattn.store.shard_record import read_shard


def inspect_hdf5(path: Path) -> Description:
    """Raises: BioattnError when it is nothing that bioattn writes; FormatError when it is damaged."""
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
        if kind == FORMAT:
            return _attention(path, file)
        if kind == ATTRIBUTION_FORMAT:
            return _attribution(path, file)
    if kind == "bioattn-promoter-dataset":
        return _dataset(path)
    if kind == "bioattn-contact-dataset":
        return _contact_dataset(path)
    if kind in (DISTOGRAM_FORMAT, REPRESENTATIONS_FORMAT):
        return describe(kind.removeprefix("bioattn-"), **describe_prediction_file(path))
    raise BioattnError(f"{path}: is HDF5 but not written by bioattn (no known 'format' attribute)")


def _attention(path: Path, file: h5py.File) -> Description:
    attention = AttentionFile(path, file)
    samples = attention.samples
    if attention.over_alignments:
        return _alignment_attention(attention, file)
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
    return describe(
        "attention",
        **_shard(path, file),
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


def _attribution(path: Path, file: h5py.File) -> Description:
    attribution = AttributionFile(path, file)
    samples = attribution.samples
    gap = attribution.completeness_gap()
    more = {} if gap is None or gap.empty else {"largest_completeness_gap": float(gap.abs().to_numpy().max())}
    return describe(
        "attribution",
        **_shard(path, file),
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


def _alignment_attention(attention: AttentionFile, file: h5py.File) -> Description:
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
    return describe(
        "attention",
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


def _dataset(path: Path) -> Description:
    from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset

    dataset = read_dataset(path)
    return describe(
        "dataset",
        task=dataset.task,
        genes=dataset.num_genes,
        treatments=some(dataset.treatments.names),
        length=dataset.length,
        flank=dataset.flank,
        missing_targets=int(np.isnan(dataset.targets).sum()),
        genes_per_split={name: len(dataset.genes_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        treatments_per_split={
            name: len(dataset.treatments_in(code)) for code, name in enumerate(SPLIT_NAMES)
        },
        treatment_features=list(dataset.treatments.columns),
    )


def _contact_dataset(path: Path) -> Description:
    from bioattn.alignments.contact_dataset import SPLIT_NAMES, open_contact_dataset

    dataset = open_contact_dataset(path)
    return describe(
        "contact-dataset",
        proteins=some(dataset.ids),
        groups=len(set(dataset.groups)),
        proteins_per_split={name: len(dataset.proteins_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        rows={"fewest": int(dataset.num_rows.min()), "most": int(dataset.num_rows.max())},
        columns={"fewest": int(dataset.num_columns.min()), "most": int(dataset.num_columns.max())},
        mapped_columns=int(dataset.num_mapped.sum()),
        settings=dataset.metadata,
    )
