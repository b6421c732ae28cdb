"""What a file is: `inspect_file` looks at content, not at names, and gives its main figures."""

import json
import math
import re
import shlex
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from bioattn.errors import BioattnError, FormatError
from bioattn.files import decompression_errors, open_bytes, read_json, read_lines, unreadable
from bioattn.formats.bed import read_bed
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.alignment_inspection import alignment_figures, looks_like_alignment, statistics_figures
from bioattn.store.attention_reader import AttentionFile
from bioattn.store.distogram_file import (
    DISTOGRAM_FORMAT,
    REPRESENTATIONS_FORMAT,
    describe_prediction_file,
)
from bioattn.store.hdf5_access import HDF5_MAGIC, open_hdf5, text_attribute
from bioattn.store.schema import FORMAT

if TYPE_CHECKING:
    from bioattn.models.evoformer.config import EvoformerConfig

SHOWN = 8
"""Names shown of a list."""


@dataclass(frozen=True, slots=True)
class Description:
    """A kind of file and its main figures, in the order worth reading."""

    kind: str
    """One of `KINDS`."""
    title: str
    """The kind in words."""
    figures: dict[str, Any]
    """JSON values by name."""


KINDS = {
    "attention": "attention HDF5",
    "attention-parts": "parts of an unfinished attention export",
    "dataset": "promoter dataset HDF5",
    "contact-dataset": "contact dataset HDF5",
    "model": "promoter model folder",
    "evoformer-model": "MSA/pair model folder",
    "parameters": "parameters of an MSA/pair model",
    "promoters": "promoter FASTA",
    "alignment": "protein alignment",
    "msa-statistics": "statistics of a prepared alignment",
    "prediction": "prediction of an MSA/pair model",
    "predictions": "folder of predictions",
    "distogram": "predicted distances",
    "representations": "representations of an MSA/pair model",
    "json": "JSON file",
    "contact-regression": "contact regression of attention heads",
    "run-record": "run record of an output",
    "audit": "audit of promoter preparation",
    "bed": "BED",
    "table": "table",
}


def inspect_file(path: Path) -> Description:
    """What `path` is and its main figures.

    Raises: BioattnError when it cannot be read or is nothing that bioattn knows; FormatError when it is of a known
    kind but damaged.
    """
    if path.is_dir():
        return _folder(path)
    if _is_zip(path):
        return _parameters(path)
    with open_bytes(path) as file, decompression_errors(path):
        head = file.read(4096)
    if head.startswith(HDF5_MAGIC):
        return _hdf5(path)
    if not head.strip():
        raise FormatError(f"{path}: is empty")
    if looks_like_alignment(head):
        return _describe("alignment", **alignment_figures(path))
    if head.lstrip().startswith(b">"):
        return _fasta(path)
    if head.lstrip().startswith((b"{", b"[")):
        return _json(path)
    first_line = head.splitlines()[0]
    if b"\0" in head or not (b"\t" in first_line or b"," in first_line):
        raise BioattnError(f"{path}: is none of the files bioattn reads or writes")
    return _table(path)


def _is_zip(path: Path) -> bool:
    """Whether a file is an archive of arrays: AlphaFold's parameters, or a PyTorch checkpoint."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise unreadable(path, error) from error


def _describe(kind: str, **figures: Any) -> Description:
    return Description(kind, KINDS[kind], figures)


def _folder(path: Path) -> Description:
    if (path / "config.json").is_file() and (path / "model.safetensors").is_file():
        return _model(path)
    if (path / "job.json").is_file():
        job = read_json(path / "job.json")
        whole = len(list(path.glob("part-*.h5")))
        samples = job.get("num_promoters", job.get("num_alignments", 0))
        parts = math.ceil(samples / max(1, job.get("part_samples", 1)))
        return _describe("attention-parts", complete_parts=whole, all_parts=parts, **job)
    if (path / "scores.json").is_file():
        return _prediction(path)
    if names := sorted(each.parent.name for each in path.glob("*/scores.json")):
        return _describe("predictions", predictions=len(names), alignments=_some(names))
    raise BioattnError(
        f"{path}: is a folder but no model (config.json and model.safetensors are not both there)"
    )


def _prediction(path: Path) -> Description:
    scores = read_json(path / "scores.json")
    if not isinstance(scores, dict) or scores.get("format") != "bioattn-prediction":
        raise FormatError(f"{path / 'scores.json'}: not the scores of a prediction of bioattn")
    kept = {name: value for name, value in scores.items() if name not in ("format", "plddt", "settings")}
    return _describe(
        "prediction", **kept, files=sorted(each.name for each in path.iterdir() if each.is_file())
    )


def _model(path: Path) -> Description:
    from bioattn.models.model_folder import check_model_config

    content = read_json(path / "config.json")
    check_model_config(path / "config.json", content)
    if content.get("model_type") == "evoformer":
        return _evoformer_model(path)
    return _promoter_model(path)


def _evoformer_model(path: Path) -> Description:
    import torch

    from bioattn.models.evoformer.folder import load_evoformer_model

    model = load_evoformer_model(path, torch.device("cpu"))
    config = read_json(path / "config.json")
    return _describe(
        "evoformer-model",
        generated_by=config.get("generated_by"),
        sha256=model.sha256,
        **_architecture(model.config),
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        attention_sites=_some(list(model.sites)),
    )


def _parameters(path: Path) -> Description:
    from bioattn.models.evoformer.parameter_config import infer_config
    from bioattn.models.evoformer.parameter_files import open_parameters
    from bioattn.models.evoformer.parameter_shapes import model_rows

    with open_parameters(path) as file:
        config = infer_config(file)
        file.check(model_rows(config))
        return _describe(
            "parameters",
            form=file.kind,
            **_architecture(config),
            parameters=sum(math.prod(shape) for shape in file.shapes.values()),
        )


def _architecture(config: "EvoformerConfig") -> dict[str, Any]:
    """The figures people compare models by."""
    return {
        "blocks": config.num_blocks,
        "extra_msa_blocks": config.num_extra_msa_blocks,
        "msa_channels": config.msa_channels,
        "pair_channels": config.pair_channels,
        "msa_heads": config.msa_heads,
        "pair_heads": config.pair_heads,
        "recycling": config.recycling,
        "structure_module": config.structure_module is not None,
        "aligned_error_head": config.aligned_error_head,
        "pair_features": config.pair_features,
    }


def _promoter_model(path: Path) -> Description:
    import torch

    from bioattn.models.promoter.folder import load_promoter_model

    model = load_promoter_model(path, torch.device("cpu"))
    config = read_json(path / "config.json")
    return _describe(
        "model",
        generated_by=config.get("generated_by"),
        task=model.task,
        length=model.length,
        conditioning=str(model.config.conditioning),
        treatment_encoder=str(model.config.treatment_encoder),
        unconditional=model.config.unconditional,
        reference_treatment=model.reference,
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        sha256=model.sha256,
        treatments=_some(model.treatments.names),
        treatment_features=list(model.treatments.columns),
        attention_sites=list(model.sites),
    )


def _hdf5(path: Path) -> Description:
    with open_hdf5(path) as file:
        kind = text_attribute(file, "format")
        if kind == FORMAT:
            return _attention(path, file)
    if kind == "bioattn-promoter-dataset":
        return _dataset(path)
    if kind == "bioattn-contact-dataset":
        return _contact_dataset(path)
    if kind in (DISTOGRAM_FORMAT, REPRESENTATIONS_FORMAT):
        return _describe(kind.removeprefix("bioattn-"), **describe_prediction_file(path))
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
            "sink": info.sink,
            "value_weighted": info.has_value_weighted,
        }
        for info in attention.sites.values()
    }
    return _describe(
        "attention",
        format_version=text_attribute(file, "format_version"),
        generated_by=text_attribute(file, "generated_by"),
        model_sha256=attention.model_sha256,
        input_sha256=attention.input_sha256,
        task=attention.task,
        window_length=attention.window_length,
        genes=len(samples),
        first_genes=_some([str(name) for name in samples.index]),
        chromosomes=_some(sorted(set(samples["chrom"]) - {""})),
        treatments=_some(attention.treatments),
        sites=sites,
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
    return _describe(
        "attention",
        format_version=text_attribute(file, "format_version"),
        generated_by=text_attribute(file, "generated_by"),
        model_sha256=attention.model_sha256,
        inputs="alignments",
        alignments=len(samples),
        first_alignments=_some([str(name) for name in samples.index]),
        residues=f"{samples['length'].min():,} to {samples['length'].max():,}",
        msa_rows=f"{samples['rows'].min():,} to {samples['rows'].max():,}",
        extra_msa_rows=f"{samples['extra_rows'].min():,} to {samples['extra_rows'].max():,}",
        sites=sites,
    )


def _dataset(path: Path) -> Description:
    from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset

    dataset = read_dataset(path)
    return _describe(
        "dataset",
        task=dataset.task,
        genes=dataset.num_genes,
        treatments=_some(dataset.treatments.names),
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
    return _describe(
        "contact-dataset",
        proteins=_some(dataset.ids),
        groups=len(set(dataset.groups)),
        proteins_per_split={name: len(dataset.proteins_in(code)) for code, name in enumerate(SPLIT_NAMES)},
        rows={"fewest": int(dataset.num_rows.min()), "most": int(dataset.num_rows.max())},
        columns={"fewest": int(dataset.num_columns.min()), "most": int(dataset.num_columns.max())},
        mapped_columns=int(dataset.num_mapped.sum()),
        settings=dataset.metadata,
    )


def _fasta(path: Path) -> Description:
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
    return _describe(
        "promoters",
        promoters=number,
        with_location=located,
        shortest=int(shortest),
        longest=longest,
        flanks=sorted(flanks),
        chromosomes=_some(sorted(chromosomes)),
        unknown_bases=f"{100 * unknown / bases:.3g} %",
    )


def _json(path: Path) -> Description:
    content = read_json(path)
    if not isinstance(content, dict):
        return _describe("json", entries=len(content))
    if "command" in content and "bioattn_version" in content:
        return _describe("run-record", **content)
    if content.get("format") == "bioattn-msa-statistics":
        return _describe("msa-statistics", **statistics_figures(path, content))
    if content.get("format") == "bioattn-contact-regression":
        return _contact_regression(path)
    return _describe("json", keys=_some(list(content)))


def _contact_regression(path: Path) -> Description:
    from bioattn.interpret.contact_regression import read_regression

    regression = read_regression(path)
    return _describe(
        "contact-regression",
        model_sha256=regression.model_sha256,
        proteins=_some(list(regression.proteins)),
        sites=len(regression.weights),
        heads=sum(len(heads) for heads in regression.weights.values()),
        heads_in_use=regression.num_heads_used,
    )


def _table(path: Path) -> Description:
    lines = read_lines(path)
    _, header = next(lines)
    separator = "\t" if "\t" in header else ","
    columns = header.split(separator)
    if separator == "\t" and len(columns) >= 6 and columns[1].isdecimal() and columns[2].isdecimal():
        return _bed(path)
    status = columns.index("status") if {"gene_id", "status"} <= set(columns) else None
    statuses: Counter[str] = Counter()
    rows = 0
    for number, line in lines:
        if not line:
            continue
        rows += 1
        if separator == "\t" and line.count("\t") + 1 != len(columns):
            raise FormatError(
                f"{path}:{number}: has {line.count(separator) + 1} columns, the header has {len(columns)}"
            )
        if status is not None:
            statuses[line.split(separator)[status]] += 1
    if status is not None:
        return _describe("audit", genes=rows, genes_per_status=dict(sorted(statuses.items())))
    return _describe("table", rows=rows, columns=len(columns), names=_some(columns))


def _bed(path: Path) -> Description:
    genes = read_bed(path).genes
    chromosomes = {place.chrom for gene in genes for place in gene.places}
    return _describe("bed", genes=len(genes), chromosomes=_some(sorted(chromosomes)))


def _some(names: list[str]) -> list[str] | dict[str, Any]:
    """All names, or how many and the first ones."""
    return names if len(names) <= SHOWN else {"count": len(names), "first": list(islice(names, SHOWN))}


def as_text(description: Description, name: str) -> str:
    """Lines `figure: value` for people."""
    lines = [f"{name}: {description.title}"]
    for key, value in description.figures.items():
        lines += _lines(key, value, "  ")
    return "\n".join(lines)


def as_json(description: Description) -> str:
    """The same for programs."""
    return json.dumps({"kind": description.kind, **description.figures}, indent=2)


def _lines(key: str, value: Any, indent: str) -> list[str]:
    key = key if "." in key else key.replace("_", " ")  # site names keep theirs
    if isinstance(value, dict) and set(value) == {"count", "first"}:
        return [f"{indent}{key}: {value['count']:,} ({', '.join(map(str, value['first']))}, …)"]
    if isinstance(value, dict) and value and all(isinstance(v, int) for v in value.values()):
        return [f"{indent}{key}: " + ", ".join(f"{k} {v:,}" for k, v in value.items())]
    if isinstance(value, dict):
        return [
            f"{indent}{key}:",
            *(line for k, v in value.items() for line in _lines(str(k), v, indent + "  ")),
        ]
    if key == "command" and isinstance(value, list):
        return [f"{indent}{key}: {shlex.join(map(str, value))}"]
    if isinstance(value, list):
        return [f"{indent}{key}: {', '.join(map(str, value)) or 'none'}"]
    if isinstance(value, bool) or value is None:
        return [f"{indent}{key}: {'yes' if value else 'no' if value is False else 'not given'}"]
    return [f"{indent}{key}: {value:,}" if isinstance(value, int) else f"{indent}{key}: {value}"]
