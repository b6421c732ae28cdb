"""Everything a report says, collected from its inputs before a line of HTML is written."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bioattn.checks.measures import Code
from bioattn.checks.record import CheckRecord, read_check, tone_of
from bioattn.errors import BioattnError, FormatError
from bioattn.interpret.motifs.motif_folder import MotifTables, read_motif_export
from bioattn.io.files import read_json, sha256_of
from bioattn.models.evaluation import (
    Evaluation,
    TrainingHistory,
    find_history,
    read_evaluation,
)
from bioattn.promoters.dataset import read_dataset
from bioattn.report import findings
from bioattn.report.alignments import AlignmentPage, collect_alignments
from bioattn.report.findings import Finding
from bioattn.report.inputs import ReportInputs, Source
from bioattn.report.promoter_maps import shown_maps
from bioattn.report.promoters import PromoterBrowser, collect_browser
from bioattn.store.kinds import ResultTable
from bioattn.store.reader import open_attention
from bioattn.store.training_record import read_training_record
from bioattn.system.progress import SILENT, Progress

LEADING = 3
"""Findings on the first screen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a page; a part that was not given is None or empty."""

    title: str
    headline: str
    """Bad news of the accuracy, as a part of the title; empty without any."""
    asked: list[str]
    found: list[Finding]
    accuracy: Evaluation | None
    check: CheckRecord | None
    quick: str
    """Without one, what the quick check at the end of the training says; empty where nothing is known."""
    disbelieved: bool
    """Whether either says that the maps explain nothing, or mislead."""
    browser: PromoterBrowser | None
    motifs: MotifTables | None
    histories: list[tuple[str, TrainingHistory]]
    """Name of the model folder, and how it was trained."""
    pages: list[AlignmentPage]
    left_out: list[str]
    settings: dict[str, Any]
    tables: list[ResultTable]
    sources: list[Source]

    @property
    def first_findings(self) -> tuple[list[Finding], list[Finding]]:
        """The findings of the first screen, those that lead before others, and the rest."""
        ordered = sorted(self.found, key=lambda finding: not finding.leads)[:LEADING]
        return ordered, [finding for finding in self.found if finding not in ordered]


def collect_report(
    inputs: ReportInputs,
    *,
    title: str | None = None,
    genes: Sequence[str] = (),
    treatments: Sequence[str] = (),
    progress: Progress = SILENT,
) -> Report:
    """Read all inputs and see that they belong together.

    title: None = made of the names of the inputs. genes: to be shown in full before others. treatments: the only
    ones to be shown; empty = all.

    Raises: BioattnError when two inputs belong to different models or data, or a gene or treatment is not there;
    FormatError when one is damaged.
    """
    dataset = None if inputs.dataset is None else read_dataset(inputs.dataset)
    config, record, accuracy = {}, {}, None
    if inputs.model is not None:
        config, record = read_json(inputs.model / "config.json"), read_training_record(inputs.model)
        accuracy = read_evaluation(inputs.model, record, str(config.get("task", "regression")))
    motifs = None if inputs.motif_export is None else read_motif_export(inputs.motif_export)
    check = None if inputs.check is None else read_check(inputs.check)
    _require_one_model(inputs, motifs, check)
    predictions = None if inputs.predictions_table is None else _predictions(inputs.predictions_table)
    code, quick = ("", "") if accuracy is None else (accuracy.verdict, accuracy.check)
    browser = None
    if inputs.attention is not None:
        with open_attention(inputs.attention) as attention:
            code = attention.verdict or code
            if attention.treatments:
                predictions = attention.predictions()
            if shown_maps(attention):
                browser = collect_browser(
                    attention,
                    inputs,
                    dataset,
                    predictions,
                    motifs,
                    genes=genes,
                    treatments=treatments,
                    progress=progress,
                )
    elif genes or treatments:
        raise BioattnError("--genes and --treatment choose from an attention file over promoters; give one")
    pages, left_out = collect_alignments(inputs, progress)
    others = [each for each in (inputs.evoformer_model, *inputs.trained_model) if each is not None]
    models = others if inputs.model is None else [inputs.model, *others]
    histories = [(_label(each), history) for each in models if (history := find_history(each)) is not None]
    if check is not None:
        code, quick = str(check.verdict.code), ""
    believed = tone_of(code) != "bad"
    specific = code in ("", Code.SPECIFIC, Code.FAITHFUL_SPECIFIC)
    conditioning = next((each.get("conditioning") for each in config.get("networks", ())), None)
    records = {each: read_training_record(each) for each in models}
    found = [
        *(finding for each in others for finding in findings.comparison_findings(each, records[each])),
        *findings.accuracy_findings(accuracy, inputs.model is not None),
        *findings.data_findings(inputs.dataset if inputs.of_other_data() else None),
        *(finding for each in models for finding in findings.next_findings(each, records[each])),
        *findings.check_findings(check, browser is not None or inputs.model is not None, quick, code),
        *findings.map_findings(browser, specific=specific),
        *findings.motif_findings(motifs, believed=believed),
        *findings.alignment_findings(pages, left_out),
        *(Finding(table.title, text) for table in inputs.tables for text in table.sentences),
    ]
    return Report(
        title=title or _title(inputs, pages),
        headline=findings.headline(found),
        asked=findings.questions(dataset, browser, conditioning, pages),
        found=found,
        accuracy=accuracy,
        check=check,
        quick=quick,
        disbelieved=not believed,
        browser=browser,
        motifs=motifs,
        histories=histories,
        pages=pages,
        left_out=left_out,
        settings=_settings(config, record),
        tables=inputs.tables,
        sources=inputs.sources,
    )


def _label(path: Path) -> str:
    return path.name or path.resolve().name


def _title(inputs: ReportInputs, pages: Sequence[AlignmentPage]) -> str:
    if pages and inputs.model is None and inputs.attention is None:
        where = pages[0].id if len(pages) == 1 else f"{len(pages):,} proteins"
        return f"What the model attends to in {where}"
    named = [inputs.model, inputs.attention, *inputs.prediction, *inputs.alignment_attention, inputs.dataset]
    named += [inputs.evoformer_model, *inputs.trained_model, *inputs.results]
    path = next(filter(None, named), None)
    return f"What {'the model' if path is None else _label(path)} attends to"


def _require_one_model(inputs: ReportInputs, motifs: MotifTables | None, check: CheckRecord | None) -> None:
    """Attention, check, motifs and model must be of the same weights."""
    made_with: list[tuple[Path | None, str]] = []
    if inputs.model is not None:
        made_with.append((inputs.model, sha256_of(inputs.model / "model.safetensors")))
    if inputs.attention is not None:
        with open_attention(inputs.attention) as attention:
            made_with.append((inputs.attention, attention.model_sha256))
    if motifs is not None:
        made_with.append((inputs.motif_export, motifs.model_sha256))
    if check is not None:
        made_with.append((inputs.check, check.model_sha256))
    known = [(path, digest) for path, digest in made_with if digest]
    for path, digest in known[1:]:
        if digest != known[0][1]:
            raise BioattnError(
                f"{path}: was made with other weights than {known[0][0]}; a report is about one model"
            )


def _predictions(path: Path) -> pd.DataFrame:
    """The table of `run promoter`. Raises: FormatError when it is none."""
    try:
        # Written without quotes: a quote belongs to a name.
        types = {"gene_id": str}
        table = pd.read_csv(path, sep="\t", index_col="gene_id", dtype=types, quoting=csv.QUOTE_NONE)
        return table.drop(columns="gene_name", errors="ignore").astype("float64")
    except (ValueError, KeyError, pd.errors.ParserError) as error:
        why = str(error).splitlines()[0]
        raise FormatError(f"{path}: is no table of predictions, genes × treatments ({why})") from error


_SHOWN_SETTINGS = (
    *("conditioning", "stem", "readout", "treatment_encoder", "attention_query", "attention_score"),
    *("num_heads", "hops", "pool", "kernel", "position_bias", "sink"),
)
_SHOWN_TRAINING = ("seed", "epochs", "batch_size", "learning_rate")


def _settings(config: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Settings of all networks of a promoter model; where they differ, those of each."""
    shown: dict[str, Any] = {}
    trainings = [each.get("training", {}) for each in record.get("networks", ())]
    for names, networks in ((_SHOWN_SETTINGS, config.get("networks", ())), (_SHOWN_TRAINING, trainings)):
        for name in names:
            values = [each[name] for each in networks if name in each]
            if values:
                shown[name] = values[0] if len(set(values)) == 1 else ", ".join(map(str, values))
    return shown
