"""All checks of a model on the user's promoters, in order, and the verdict (`bioattn explain check`)."""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bioattn import __version__
from bioattn.errors import BioattnError
from bioattn.faithfulness.accuracy import held_out_genes
from bioattn.faithfulness.accuracy_checks import (
    NO_CONTROLS,
    NO_SKILL,
    check_recorded_skill,
    check_skill,
    compare_skills,
)
from bioattn.faithfulness.controls import (
    Control,
    ControlFolder,
    TrainingRecord,
    controls_wanted,
    described,
    read_training_record,
)
from bioattn.faithfulness.map_checks import check_maps
from bioattn.faithfulness.maps import HeadSpread, read_maps, require_checkable
from bioattn.faithfulness.measures import Measures, rounded
from bioattn.faithfulness.pointing_checks import Curves, check_pointing
from bioattn.faithfulness.samples import draw_sample, draw_treatments
from bioattn.faithfulness.subject import CheckSettings, Subject
from bioattn.faithfulness.verdict import Verdict, judge
from bioattn.io.files import sha256_of
from bioattn.models.promoter.folder import LoadedPromoterModel
from bioattn.promoters.dataset import TRAIN, PromoterDataset, read_dataset
from bioattn.system.progress import NoProgress, Progress
from bioattn.system.signals import StopRequest

LOGGER = logging.getLogger("bioattn")

CHECK_FORMAT = "bioattn-check"
CHECK_VERSION = "1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Results of all checks."""

    model_sha256: str
    input_sha256: str
    settings: dict[str, Any]
    verdict: Verdict
    measures: Measures
    curves: Curves
    heads: list[HeadSpread]

    def to_json(self) -> dict[str, Any]:
        """The content of a check file (`docs/formats/check.md`)."""
        return {
            "format": CHECK_FORMAT,
            "format_version": CHECK_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_sha256": self.model_sha256,
            "input_sha256": self.input_sha256,
            "settings": self.settings,
            "verdict": self.verdict.to_json(),
            "measures": [measure.to_json() for measure in self.measures],
            "curves": self.curves,
            "heads": [
                {
                    name: rounded(value) if isinstance(value, float) else value
                    for name, value in asdict(head).items()
                }
                for head in self.heads
            ],
            "skipped": [{"name": name, "why": why} for name, why in self.measures.skipped.items()],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Optional inputs besides the model and the promoters."""

    model_folder: Path
    """The model folder; its training record holds the settings for training controls."""
    dataset: Path | None = None
    """The dataset it was trained on."""
    controls: Path | None = None
    """Where retrained controls are kept; None: none are retrained."""
    other_models: Sequence[LoadedPromoterModel] = field(default_factory=tuple)
    """Model folders trained with other seeds."""


def check_model(
    model: LoadedPromoterModel,
    promoters: Path,
    evidence: Evidence,
    *,
    treatments: Sequence[str] = (),
    settings: CheckSettings | None = None,
    progress: Progress | None = None,
    stop: StopRequest | None = None,
) -> CheckReport:
    """Run every check that the evidence allows; the others are listed as skipped, each with its reason.

    treatments: names out of the training treatments; none = all. Memory is flat in the number of promoters.

    Raises: BioattnError for a model without attention over positions, promoters or a dataset that do not fit it;
    Interrupted when `stop` was requested (retrained controls go on from there).
    """
    settings = settings or CheckSettings()
    progress, stop = progress or NoProgress(), stop or StopRequest()
    require_checkable(model)
    record = read_training_record(evidence.model_folder)
    table = (
        model.treatments
        if not treatments
        else model.treatments.select(list(treatments), "--treatment", "the model")
    )
    dataset = None if evidence.dataset is None else _own_dataset(evidence.dataset, model, record)
    genes = None if dataset is None else held_out_genes(dataset, table.names)
    probed = draw_treatments(table.names, settings.probed, settings.seed)
    subject = Subject(
        model=model,
        names=table.names,
        treatments=model.encode_treatments(table),
        probed=[table.names.index(name) for name in probed],
        sample=draw_sample(
            promoters,
            model.length,
            settings.samples,
            settings.seed,
            None if dataset is None else _held_out_ids(dataset),
        ),
        genes=genes,
        settings=settings,
        progress=progress,
        stop=stop,
    )
    measures = Measures()
    check_recorded_skill(subject, record, measures)
    predictive = check_skill(subject, measures)
    retrained = _retrained(subject, evidence, record, measures, worth_it=predictive is not False)
    maps = read_maps(model, subject.treatments, subject.sample.codes)
    compare_skills(subject, retrained, measures)
    check_maps(subject, maps, [*evidence.other_models, *retrained[Control.SEED]], measures)
    curves = check_pointing(subject, maps, measures)
    return CheckReport(
        model_sha256=model.sha256,
        input_sha256=subject.sample.sha256,
        settings={
            **settings.to_json(),
            "promoters": len(subject.sample.ids),
            "held_out_promoters": subject.sample.held_out,
            "treatments": len(subject.names),
            "probed_treatments": probed,
            "held_out_genes": None if genes is None else len(genes.ids),
            "split": None if genes is None else genes.split,
            "dataset_sha256": None if evidence.dataset is None else sha256_of(evidence.dataset),
        },
        verdict=judge(measures),
        measures=measures,
        curves=curves,
        heads=maps.heads,
    )


def _own_dataset(path: Path, model: LoadedPromoterModel, record: TrainingRecord | None) -> PromoterDataset:
    """The dataset if the model was trained on it, else None: test genes of another may be training genes."""
    if record is not None and sha256_of(path) != record.dataset_sha256:
        raise BioattnError(
            f"{path}: is not the dataset this model was trained on (its digest differs from that in "
            "training.json); give that one with --dataset"
        )
    dataset = read_dataset(path)
    if dataset.length != model.length:
        raise BioattnError(
            f"{path}: promoters of {dataset.length:,} bases, the model sees {model.length:,}; give the dataset it "
            "was trained on"
        )
    return dataset


def _held_out_ids(dataset: PromoterDataset) -> set[str]:
    return {
        gene_id for gene_id, split in zip(dataset.gene_ids, dataset.gene_split, strict=True) if split != TRAIN
    }


def _retrained(
    subject: Subject,
    evidence: Evidence,
    record: TrainingRecord | None,
    measures: Measures,
    *,
    worth_it: bool,
) -> dict[str, list[LoadedPromoterModel]]:
    """The controls by name; missing ones are trained."""
    found: dict[str, list[LoadedPromoterModel]] = {control: [] for control in Control}
    wanted = controls_wanted(subject.model, subject.settings.other_seeds)
    why = None
    if evidence.dataset is None or evidence.controls is None:
        why = NO_CONTROLS
    elif record is None:
        why = "the model folder has no training.json that would say how to train a control"
    elif not worth_it:
        why = NO_SKILL
    if why is not None or evidence.dataset is None or evidence.controls is None or record is None:
        for control, _ in wanted:
            measures.skip(f"{control}_control", why or NO_CONTROLS)
        return found
    if all(control is not Control.SHARED for control, _ in wanted):
        measures.skip("shared_control", "the model itself has one query for all treatments")
    if record.unnamed:
        LOGGER.warning(
            f"{evidence.model_folder}: was trained by an earlier version, whose record does not name "
            f"{', '.join(record.unnamed)}; controls are trained with today's defaults, which may favour them"
        )
    folder = ControlFolder(folder=evidence.controls, dataset=evidence.dataset, record=record)
    for control, step in wanted:
        subject.stop.check()
        LOGGER.info(described(control, step))
        found[control].append(
            folder.retrained(subject.model, control, step=step, progress=subject.progress, stop=subject.stop)
        )
    return found
