"""Results as MultiQC's custom content: a folder of `*_mqc.json`, one file for each section of a MultiQC report.

MultiQC joins sections of the same id from any number of such folders, sample by sample. So every section holds one
entry (or lines of a plot) per sample, and all its columns, as those of the file read last are the ones that count.
What MultiQC shows is HTML: texts are escaped, and names of samples keep only characters that are inert there and
that it does not cut names at.
"""

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError, SettingsError
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder
from bioattn.store.kinds import Sample, recognise

VERSIONS_FILE = "bioattn_mqc_versions.yml"
PARENT = {
    "parent_id": "bioattn",
    "parent_name": "bioattn",
    "parent_description": "trains attention models on biological sequences and keeps every attention map.",
}
_NEFF = {"title": "Neff", "format": "{:,.1f}", "min": 0}
_SHARE = {"min": 0, "max": 1, "format": "{:,.3f}"}
_NUMBER = {"min": 0, "format": "{:,.0f}"}
_CORRELATION = {"min": -1, "max": 1, "format": "{:,.3f}"}
_HIDDEN = {"hidden": True}
_CONTACTS = {
    "title": "Contacts",
    "description": "Mean probability of the L likeliest contacts, L the length",
    **_SHARE,
}
_PLDDT = {"title": "pLDDT", "min": 0, "max": 100, "format": "{:,.1f}"}

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "general": {
        "plot_type": "generalstats",
        "headers": {
            "promoters": {"title": "Promoters", "description": "Promoters kept or trimmed", **_NUMBER},
            "accuracy": {
                "title": "Accuracy",
                "description": "Of the model on genes held out: median r, or AUROC, over treatments",
                "format": "{:,.3f}",
            },
            "verdict": {"title": "Attention", "description": "Verdict of `bioattn explain check`"},
            "neff": {**_NEFF, "description": "Effective sequences of the alignment"},
            "contact_probability": _CONTACTS,
            "plddt": {**_PLDDT, "description": "Mean predicted LDDT of the structure"},
        },
    },
    "promoters": {
        "plot_type": "bargraph",
        "section_name": "Promoters",
        "description": "Genes of the annotation: kept, trimmed, and dropped by reason "
        "(<code>bioattn prepare promoters</code>).",
        "pconfig": {"ylab": "Genes"},
    },
    "datasets": {
        "plot_type": "table",
        "section_name": "Datasets",
        "description": "Genes, treatments and splits (<code>bioattn prepare dataset</code>).",
        "headers": {
            "genes": {"title": "Genes", **_NUMBER},
            "treatments": {"title": "Treatments", **_NUMBER},
            "measured": {"title": "Measured", "description": "Share of responses measured", **_SHARE},
            "train": {"title": "Train genes", **_NUMBER},
            "validation": {"title": "Validation genes", **_NUMBER},
            "test": {"title": "Test genes", **_NUMBER},
        },
    },
    "loss_epoch": {
        "plot_type": "linegraph",
        "section_name": "Training loss of promoter models",
        "description": "By epoch (<code>bioattn train promoter</code>).",
        "pconfig": {"xlab": "Epoch", "ylab": "Loss"},
    },
    "loss_step": {
        "plot_type": "linegraph",
        "section_name": "Training loss of MSA/pair models",
        "description": "By step (<code>bioattn train evoformer</code>).",
        "pconfig": {"xlab": "Step", "ylab": "Loss"},
    },
    "accuracy": {
        "plot_type": "table",
        "section_name": "Accuracy",
        "description": "On genes held out, beside the best simple model: where that is as good, attention was not "
        "needed.",
        "headers": {
            "model": {"title": "Model", "format": "{:,.3f}"},
            "baseline": {"title": "Best simple model", "format": "{:,.3f}"},
            "baseline_name": {"title": "Which"},
            "specific": {
                "title": "Specific",
                "description": "Median r after taking away what all treatments share",
                **_CORRELATION,
            },
            "metric": {"title": "Figure"},
            "cells": {"title": "On"},
        },
    },
    "checks": {
        "plot_type": "table",
        "section_name": "Attention checks",
        "description": "Whether the maps may be believed (<code>bioattn explain check</code>).",
        "headers": {
            "verdict": {"title": "Verdict"},
            "sentence": {"title": "In words"},
            "passed": {"title": "Passed", "description": "Measures passed", **_NUMBER},
            "undecided": {
                "title": "Undecided",
                "description": "Measures whose interval holds the threshold",
                **_NUMBER,
            },
            "failed": {"title": "Failed", "description": "Measures failed", **_NUMBER},
            "not_taken": {"title": "Not taken", "description": "Measures not taken", **_NUMBER, **_HIDDEN},
        },
    },
    "alignments": {
        "plot_type": "table",
        "section_name": "Alignments",
        "description": "Depth and diversity (<code>bioattn prepare msa</code>).",
        "headers": {
            "depth": {"title": "Rows", **_NUMBER},
            "columns": {"title": "Columns", **_NUMBER},
            "neff": _NEFF,
            "gaps": {"title": "Gaps", "description": "Share of gaps", **_SHARE},
            "query_identity": {
                "title": "Identity",
                "description": "Median identity of rows to the query",
                **_SHARE,
            },
            "warnings": {"title": "Warnings", **_NUMBER},
        },
    },
    "predictions": {
        "plot_type": "table",
        "section_name": "Predictions from alignments",
        "description": "Contacts and structures (<code>bioattn run evoformer</code>).",
        "headers": {
            "rows": {"title": "Rows", **_NUMBER},
            "columns": {"title": "Columns", **_NUMBER},
            "contact_probability": _CONTACTS,
            "plddt": _PLDDT,
        },
    },
}
"""Sections by the end of their id, without data."""


def section_file(section: str) -> str:
    """The name MultiQC finds the file of a section by."""
    return f"bioattn_{section}_mqc.json"


FILES = frozenset({VERSIONS_FILE, *(section_file(section) for section in SECTIONS)})


def write_multiqc(inputs: Sequence[Path], output: Path, sample: str | None = None) -> list[str]:
    """Write the sections that `inputs` fill as files in the folder `output`; returns the names of the sections.

    inputs: promoter FASTA, audit, dataset, model folder, check, statistics of an alignment, prediction or folder
    of predictions, each recognised by content. sample: the name of all; without it each is called by its file.

    Raises: BioattnError when an input is none of these, or a sample would have two entries in a section;
    SettingsError for a `sample` that is empty.
    """
    if sample is not None and not sample.strip():
        raise SettingsError("--title is empty; give a name")
    data: dict[str, dict[str, Any]] = {}
    whose: dict[tuple[str, str], tuple[Path, Mapping[str, Any]]] = {}
    for path in inputs:
        for result in _samples(path):
            name = _sample_name(sample or result.name)
            for section, figures in result.sections.items():
                if not figures:
                    continue
                earlier, theirs = whose.get((section, name), (path, figures))
                if section != "general" and theirs != figures:
                    raise BioattnError(
                        f"{path}: {earlier} has filled {SECTIONS[section]['section_name']!r} for the "
                        f"sample {name!r} already; name samples apart with --title, one call for each"
                    )
                whose[section, name] = path, figures
                _add(data.setdefault(section, {}), section, name, figures)
    with atomic_folder(output, FILES) as folder:
        for section in SECTIONS:
            if section in data:
                write_json(folder / section_file(section), _section(section, data[section]))
        with text_output(folder / VERSIONS_FILE) as file:
            file.write(f'bioattn:\n  bioattn: "{__version__}"\n')
    return [section for section in SECTIONS if section in data]


def _samples(path: Path) -> list[Sample]:
    """What one result says; several of a folder that holds several."""
    kind = recognise(path)
    if kind.members is not None:
        return [sample for member in kind.members(path) for sample in _samples(member)]
    if kind.multiqc is None:
        raise BioattnError(
            f"{path}: is {kind.title}, of which a MultiQC report shows nothing; give promoters, audits, datasets, "
            "models, checks, alignment statistics or predictions"
        )
    return [kind.multiqc(path)]


def _add(entries: dict[str, Any], section: str, name: str, figures: Mapping[str, Any]) -> None:
    if SECTIONS[section]["plot_type"] == "linegraph":
        for line, points in figures.items():
            entries[f"{name} {line}"] = points
        return
    for key, value in figures.items():
        if value is not None:
            entries.setdefault(name, {})[key] = html.escape(value) if isinstance(value, str) else value


def _section(section: str, data: dict[str, Any]) -> dict[str, Any]:
    settings = SECTIONS[section]
    content: dict[str, Any] = {"id": f"bioattn_{section}"}
    kind = settings["plot_type"]
    if kind == "generalstats":
        return {**content, "namespace": "bioattn", **settings, "data": data}
    plot = {
        "id": f"bioattn_{section}_{'table' if kind == 'table' else 'plot'}",
        "title": f"bioattn: {settings['section_name']}",
        **settings.get("pconfig", {}),
    }
    return {**content, **PARENT, **settings, "pconfig": plot, "data": data}


def _sample_name(name: str) -> str:
    """A name without markup, and without the slash and bar that MultiQC cuts names at.

    >>> _sample_name("<b onclick='x'>5/day</b>")
    'b onclick= x 5 day b'
    """
    return re.sub(r"[^\w.,:;=+@%()\[\]-]+", " ", name).strip() or "sample"
