"""Controls: models retrained like the user's with one difference (uniform attention, one query, …, another seed).

A control lies in `<folder>/<name>-<digest>`. The digest covers all that determines its weights: data,
settings, version. So one folder serves many models, a control is trained once, and interrupted training resumes.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bioattn import __version__
from bioattn.attention.site import Contribution
from bioattn.checks.engine import FEW, CheckSettings, Evidence, draw_names, draw_rows
from bioattn.checks.measures import Code
from bioattn.checks.next_steps import Names, next_steps
from bioattn.checks.pointing import check_pointing
from bioattn.checks.promoters import POINTING, HeldOut, PromoterProbe, draw_sample, read_maps
from bioattn.checks.skills import check_recorded_skill
from bioattn.choices import TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError, FormatError, Interrupted
from bioattn.io.files import partial_path, sha256_of
from bioattn.io.settings import build
from bioattn.models.evaluation import Evaluation, read_evaluation
from bioattn.models.promoter.config import (
    Conditioning,
    PositionBias,
    PromoterModelConfig,
    QuerySource,
    Readout,
    TrainingConfig,
)
from bioattn.models.promoter.family import FAMILY, PromoterTrainingSettings
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model
from bioattn.models.promoter.model import PromoterModel, RidgeModel
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.store.training_record import TRAINING_RECORD
from bioattn.store.training_record import read_training_record as read_training_json
from bioattn.text import counted
from bioattn.training.run import is_finished, train

MIN_GENES = 20
"""Least number of held-out genes; fewer give no usable skill."""


class Control(StrEnum):
    """The one difference between a control and the user's model."""

    UNIFORM = "uniform"
    """Uniform attention (Jain & Wallace 2019; Wiegreffe & Pinter 2019)."""
    SHARED = "shared"
    """One query, and one position bias, for all treatments: one map."""
    GAIN = "gain"
    """Treatments share query and position bias; each has its own weight of the null key."""
    POSITION = "position"
    """No query; each treatment has its own position bias."""
    QUERY = "query"
    """Each treatment has its own query, and all share the position bias."""
    SEED = "seed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """How a model was trained, from the `training.json` of its folder."""

    dataset_sha256: str
    networks: list[TrainingConfig]
    treatment_columns: tuple[str, ...]
    evaluation: Evaluation | None


def read_training_record(model: Path, task: str) -> TrainingRecord | None:
    """The record of a model folder, or None where it has none."""
    path = model / TRAINING_RECORD
    if not path.is_file():
        return None
    content = read_training_json(model)
    try:
        return TrainingRecord(
            dataset_sha256=content["dataset"]["sha256"],
            networks=[build(TrainingConfig, each["training"], str(path)) for each in content["networks"]],
            treatment_columns=tuple(content["treatment_columns"]),
            evaluation=read_evaluation(model, content, task),
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path}: is incomplete ({error!r})") from error


def make_probe(
    model: LoadedPromoterModel, inputs: Any, settings: CheckSettings, evidence: Evidence
) -> PromoterProbe:
    """Promoters to check the attention of a model with. inputs: as `model.read` takes them.

    Raises: BioattnError for a model without attention over positions, promoters or a dataset that do not fit it;
    FormatError for a damaged training record.
    """
    models = [model, *evidence.other_models]
    for each in models:
        require_checkable(each)
    training = None if model.path is None else read_training_record(model.path, model.task)
    table, names = model.treatments, list(evidence.treatments)
    if names:
        table = table.select(names, "--treatment", "the model")
    genes = None
    if evidence.dataset is not None:
        genes = held_out(model, training, evidence.dataset, table.names)
    source = model.read(inputs)
    sample = draw_sample(source, settings.samples, settings.seed, () if genes is None else genes.all_ids)
    return PromoterProbe(
        inputs=inputs,
        ids=sample.ids,
        sha256=source.sha256,
        held_out="held out" if sample.held_out else "",
        settings=settings,
        model=model,
        predictor=model.predictor(table),
        codes=sample.codes,
        genes=genes,
        untrained=model.untrained(settings.seed),
        evaluation=None if training is None else training.evaluation,
        controls=controls_wanted(model, settings.other_seeds),
        train_control=None if training is None else partial(train_control, model, training),
        other_readout=other_readout(model.config),
        probed=[
            table.names.index(name)
            for name in draw_names(table.names, max(2, settings.probed), settings.seed)
        ],
    )


QUICK = CheckSettings(samples=120, mutated=10, probed=4, backgrounds=1)


def quick_check(
    model: LoadedPromoterModel, dataset: PromoterDataset, names: Names, evaluation: Evaluation | None = None
) -> dict[str, Any]:
    """Check in seconds whether the model predicts enough, by its evaluation, for maps to be judged, and whether
    they point at what predictions depend on, of some promoters not trained on.

    Returns fields of an `Evaluation`: a verdict and a figure in words, the code of the verdict, and what to do
    next; none where a model has no attention over positions, or promoters are too few.
    """
    genes = np.flatnonzero(np.isin(dataset.gene_split, (VALIDATION, TEST)))
    genes = genes[draw_rows(len(genes), QUICK.samples, QUICK.seed)]
    try:
        require_checkable(model)
    except BioattnError:
        return {}
    if len(genes) < FEW:
        return {}
    treatments = model.treatments.names
    probe = PromoterProbe(
        inputs="",
        ids=[dataset.gene_ids[gene] for gene in genes],
        sha256="",
        settings=QUICK,
        model=model,
        predictor=model.predictor(),
        codes=dataset.codes[genes, dataset.flank : dataset.flank + dataset.length],
        genes=None,
        untrained=model,
        evaluation=evaluation,
        controls=[],
        train_control=None,
        probed=[treatments.index(name) for name in draw_names(treatments, QUICK.probed, QUICK.seed)],
        other_readout=other_readout(model.config),
    )
    maps = read_maps(probe.predictor, probe.codes)
    probe.quantity = maps.quantity
    check_recorded_skill(probe)
    check_pointing(probe, maps, curves=False)
    found, verdict = probe.measures.get("deletion_against_mutagenesis"), probe.verdict()
    said = "The model says the same of every promoter." if found is None else verdict.sentence
    predictive = verdict.code is not Code.NOT_PREDICTIVE
    more = f" {found.sentence}" if found is not None and predictive else ""
    sentence = f"Quick check of {counted(len(genes), 'promoter')}: {said}{more}"
    steps: list[str] = []
    if not predictive:
        steps = next_steps(probe, verdict, names)
    elif not all(probe.measures.passed(name) for name in POINTING) or verdict.code is Code.UNDECIDED:
        whole = f"bioattn explain check {names.model} {names.inputs} -o check.json --dataset {names.dataset}"
        steps = [f"Check it with more promoters: `{whole}`."]
        steps += [] if verdict.code is Code.UNDECIDED else next_steps(probe, verdict, names)
    return {"check": sentence, "verdict": verdict.code, "next": tuple(steps)}


def other_readout(config: PromoterModelConfig) -> tuple[str, str]:
    """What `PromoterProbe.other_readout` is of a model: a readout with contributions, or the other of those."""
    if config.contribution is Contribution.NONE:
        return "linear", "-c model.reader=linear"
    other = Readout.OWN if config.readout == Readout.SHARED else Readout.SHARED
    return str(other), f"--readout {other}"


def require_checkable(model: LoadedPromoterModel) -> None:
    """Raises: BioattnError when it has no attention over positions, or attends uniformly by design."""
    if model.config.conditioning is not Conditioning.CROSS:
        raise BioattnError(
            "explain check asks whether treatments attend to the right positions, which they do in "
            f"--conditioning cross only; this model is {model.config.conditioning}"
        )
    if model.config.attention_query is QuerySource.UNIFORM:
        raise BioattnError(
            "this model weighs all positions the same by design (attention_query = uniform): there is nothing to "
            "check"
        )


def held_out(
    model: LoadedPromoterModel, record: TrainingRecord | None, dataset: Path, treatments: Sequence[str]
) -> HeldOut:
    """Test genes, or validation genes where there are too few, under `treatments`.

    Raises: BioattnError when the model was trained on another dataset, which may have had those genes, or that has
    too few of them or lacks a treatment.
    """
    if record is not None and sha256_of(dataset) != record.dataset_sha256:
        raise BioattnError(
            f"{dataset}: is not the dataset this model was trained on (its digest differs from that in "
            "training.json); give that one with --dataset"
        )
    content = read_dataset(dataset)
    if content.length != model.length:
        raise BioattnError(
            f"{dataset}: promoters of {content.length:,} bases, the model sees {model.length:,}; give the dataset "
            "it was trained on"
        )
    content.treatments.select(treatments, "--treatment", dataset)
    columns = np.array([content.treatments.names.index(name) for name in treatments], np.int64)
    for split, name in ((TEST, "test"), (VALIDATION, "validation")):
        genes = content.genes_in(split)
        targets = content.targets[np.ix_(genes, columns)].astype(np.float64)
        measured = ~np.isnan(targets).all(axis=1)
        if measured.sum() >= MIN_GENES:
            genes = genes[measured]
            return HeldOut(
                split=name,
                ids=[content.gene_ids[gene] for gene in genes],
                codes=content.codes[genes, content.flank : content.flank + content.length],
                targets_BT=targets[measured],
                task=content.task,
                all_ids={
                    gene_id
                    for gene_id, split in zip(content.gene_ids, content.gene_split, strict=True)
                    if split != TRAIN
                },
            )
    raise BioattnError(
        f"--dataset: fewer than {MIN_GENES} test genes were measured, and as few validation genes; what a model "
        "predicts can be judged on genes only that it was not trained on"
    )


def controls_wanted(model: LoadedPromoterModel, other_seeds: int) -> list[tuple[str, int]]:
    """Which controls say something of this model, and the step of the seed of each."""
    wanted: list[tuple[str, int]] = [(Control.UNIFORM, 0)]
    if model.config.attention_query is QuerySource.TREATMENT:
        wanted.append((Control.SHARED, 0))
        if len(model.treatments.names) > 1:
            wanted += [(Control.GAIN, 0), (Control.POSITION, 0)]
            if model.config.position_bias == PositionBias.TREATMENT:
                wanted.append((Control.QUERY, 0))
    return [*wanted, *((Control.SEED, step) for step in range(1, other_seeds + 1))]


def train_control(
    model: LoadedPromoterModel, record: TrainingRecord, name: str, step: int, probe: PromoterProbe
) -> LoadedPromoterModel:
    """The control `name` (a `Control`), trained on the dataset of the evidence unless its folder holds it.

    step: added to the seed of `Control.SEED`.

    Raises: Interrupted when a stop was requested (the next call goes on); BioattnError when the folder cannot be
    written or the control cannot be trained.
    """
    dataset, folder = probe.evidence.dataset, probe.evidence.controls
    assert dataset is not None
    assert folder is not None
    settings = control_settings(model, record, Control(name), step, dataset, folder)
    if not is_finished(settings.output):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise BioattnError(f"--controls {folder}: cannot be made ({error.strerror or error})") from error
        try:
            train(FAMILY, settings, device=model.device, progress=probe.progress, stop=probe.stop)
        except Interrupted as stopped:
            raise Interrupted(
                f"stopped while a control was trained; what is done lies in {folder}: repeat the command to go on",
                stopped.exit_code,
            ) from stopped
    control = load_promoter_model(settings.output, model.device)
    return replace(control, model=PromoterModel.beside(control.model, model.model, model.vocabulary))


def control_settings(
    model: LoadedPromoterModel,
    record: TrainingRecord,
    control: Control,
    step: int,
    dataset: Path,
    folder: Path,
) -> PromoterTrainingSettings:
    """Settings that train a control. Arguments as of `train_control`."""
    networks = []
    trained = [member for member in model.model.members if not isinstance(member.network, RidgeModel)]
    for member, training in zip(trained, record.networks, strict=True):
        config, how = changed(member.config, training, control, step)
        settings = {name: value for name, value in asdict(config).items() if name != "length"}
        networks.append({"model": settings, "training": asdict(how)})
    content = {
        "bioattn_version": __version__,
        "dataset": record.dataset_sha256,
        "length": model.length,
        "networks": networks,
        "treatment_columns": record.treatment_columns,
        "reference": model.reference,
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    output = folder / f"{control}-{digest[:12]}"
    return PromoterTrainingSettings(
        dataset=dataset,
        output=output,
        networks=tuple(networks),
        treatment_columns=record.treatment_columns,
        reference=model.reference,
        baselines=False,
        check=False,
        encoder=None if model.config.encoder is None else model.path,
        resume=partial_path(output).exists(),
    )


def changed(
    config: PromoterModelConfig, training: TrainingConfig, control: Control, step: int
) -> tuple[PromoterModelConfig, TrainingConfig]:
    """The settings of a network with the one difference of a control; step: as `train_control` has it.

    A warm start needs queries and position biases of the treatments: controls without them start cold.
    """
    match control:
        case Control.SEED:
            return config, replace(training, seed=training.seed + step)
        case Control.QUERY:
            config = replace(config, position_bias=PositionBias.SHARED)
        case Control.SHARED:
            own = config.position_bias == PositionBias.TREATMENT
            bias = PositionBias.SHARED if own else config.position_bias
            config = replace(config, attention_query=QuerySource.SHARED, position_bias=bias)
        case Control.GAIN:
            config = replace(
                config, attention_query=QuerySource.GAIN, sink=True, position_bias=PositionBias.SHARED
            )
        case Control.POSITION:
            config = replace(
                config, attention_query=QuerySource.POSITION, position_bias=PositionBias.TREATMENT
            )
        case _:
            config = replace(config, attention_query=QuerySource(control))
    return config, replace(training, warm_start=False)
