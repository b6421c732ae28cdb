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
_SHARE = {"min": 0, "max": 1, "format": "{:,.3f}"}
_NUMBER = {"min": 0, "format": "{:,.0f}"}
_FIGURE = {"format": "{:,.3f}"}


def _column(title: str, look: Mapping[str, Any] | None = None, description: str = "") -> dict[str, Any]:
    """Headers of one column; look: as MultiQC has numbers shown."""
    return {"title": title, **({"description": description} if description else {}), **(look or {})}


def _table(name: str, description: str, **headers: dict[str, Any]) -> dict[str, Any]:
    return {"plot_type": "table", "section_name": name, "description": description, "headers": headers}


def _losses(name: str, description: str, x_title: str) -> dict[str, Any]:
    axes = {"xlab": x_title, "ylab": "Loss"}
    return {"plot_type": "linegraph", "section_name": name, "description": description, "pconfig": axes}


_NEFF = {"title": "Neff", "format": "{:,.1f}", "min": 0}
_CONTACTS = _column("Contacts", _SHARE, "Mean probability of the L likeliest contacts, L the length")
_PLDDT = {"title": "pLDDT", "min": 0, "max": 100, "format": "{:,.1f}"}

SECTIONS: Mapping[str, Mapping[str, Any]] = {
    "general": {
        "plot_type": "generalstats",
        "headers": {
            "promoters": _column("Promoters", _NUMBER, "Promoters kept or trimmed"),
            "accuracy": _column(
                "Accuracy", _FIGURE, "Of the model on genes held out: median r, or AUROC, over treatments"
            ),
            "verdict": _column("Attention", description="Verdict of `bioattn explain check`"),
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
    "datasets": _table(
        "Datasets",
        "Genes, treatments and splits (<code>bioattn prepare dataset</code>).",
        genes=_column("Genes", _NUMBER),
        treatments=_column("Treatments", _NUMBER),
        measured=_column("Measured", _SHARE, "Share of responses measured"),
        train=_column("Train genes", _NUMBER),
        validation=_column("Validation genes", _NUMBER),
        test=_column("Test genes", _NUMBER),
    ),
    "loss_epoch": _losses(
        "Training loss of promoter models", "By epoch (<code>bioattn train promoter</code>).", "Epoch"
    ),
    "loss_step": _losses(
        "Training loss of MSA/pair models", "By step (<code>bioattn train evoformer</code>).", "Step"
    ),
    "accuracy": _table(
        "Accuracy",
        "On genes held out, beside the best simple model: where that is as good, attention was not needed.",
        model=_column("Model", _FIGURE),
        baseline=_column("Best simple model", _FIGURE),
        baseline_name=_column("Which"),
        specific=_column(
            "Specific", {**_SHARE, "min": -1}, "Median r after taking away what all treatments share"
        ),
        metric=_column("Figure"),
        cells=_column("On"),
    ),
    "checks": _table(
        "Attention checks",
        "Whether the maps may be believed (<code>bioattn explain check</code>).",
        verdict=_column("Verdict"),
        sentence=_column("In words"),
        passed=_column("Passed", _NUMBER, "Measures passed"),
        undecided=_column("Undecided", _NUMBER, "Measures whose interval holds the threshold"),
        failed=_column("Failed", _NUMBER, "Measures failed"),
        not_taken=_column("Not taken", {**_NUMBER, "hidden": True}, "Measures not taken"),
    ),
    "alignments": _table(
        "Alignments",
        "Depth and diversity (<code>bioattn prepare msa</code>).",
        depth=_column("Rows", _NUMBER),
        columns=_column("Columns", _NUMBER),
        neff=_NEFF,
        gaps=_column("Gaps", _SHARE, "Share of gaps"),
        query_identity=_column("Identity", _SHARE, "Median identity of rows to the query"),
        warnings=_column("Warnings", _NUMBER),
    ),
    "predictions": _table(
        "Predictions from alignments",
        "Contacts and structures (<code>bioattn run evoformer</code>).",
        rows=_column("Rows", _NUMBER),
        columns=_column("Columns", _NUMBER),
        contact_probability=_CONTACTS,
        plddt=_PLDDT,
    ),
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
                entries = data.setdefault(section, {})
                if SECTIONS[section]["plot_type"] == "linegraph":
                    entries.update({f"{name} {line}": points for line, points in figures.items()})
                    continue
                for key, value in figures.items():
                    if value is not None:
                        text = html.escape(value) if isinstance(value, str) else value
                        entries.setdefault(name, {})[key] = text
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
            f"{path} ({kind.title}): a MultiQC report shows nothing of it; give promoters, audits, datasets, "
            "models, checks, alignment statistics or predictions"
        )
    return [kind.multiqc(path)]


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
