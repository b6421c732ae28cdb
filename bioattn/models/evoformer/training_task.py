"""How an MSA/pair model is trained: what `training/trainer.py` asks of this family.

Two stages: first families simulated on generated folds, where asked for, then those of the dataset.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
from torch import Tensor, nn

from bioattn.alignments.alphabet import letters_of
from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.couplings import FEATURE_NAMES
from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError
from bioattn.formats.tables import write_table
from bioattn.io.files import sha256_of
from bioattn.io.settings import build, settings_error
from bioattn.models.evoformer.config import SMALL_MODEL, EvoformerConfig, EvoformerTrainingConfig
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.heads import sample_losses
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.run import (
    FAMILIES_TABLE,
    load_evoformer_model,
    read_evoformer_config,
    write_evoformer_model,
)
from bioattn.models.evoformer.stacks import compile_blocks
from bioattn.models.evoformer.training_families import (
    Evaluation,
    Sample,
    TrainingFamily,
    TrainingSamples,
    evaluate_families,
    load_families,
    score_family,
)
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.structures.contacts import FIGURES
from bioattn.system.progress import Progress
from bioattn.system.shard import Shard
from bioattn.text import counted, quoted
from bioattn.training.task import ConfiguredTask, Judgement, Stage, Step, figures_by_part


class EvoformerTask(ConfiguredTask):
    """One training run of an MSA/pair model."""

    metric = "P@L"
    betas = (0.9, 0.98)
    shown: Mapping[str, str] = {"P@L/5": "P@L/5", "P@L": "P@L"}
    model: EvoformerModel
    training: EvoformerTrainingConfig
    family, training_kind = "evoformer", EvoformerTrainingConfig

    def __init__(self, settings: EvoformerTrainingSettings, device: torch.device) -> None:
        super().__init__(settings, device)
        covariance = {"pair_features": len(FEATURE_NAMES)} if settings.covariance else {}
        self.config = model_config(
            {**settings.model, **covariance}, settings.initial_model, settings.source("model")
        )
        initial = settings.initial_model
        self.decided_by(dataset=settings.dataset)
        self.digest = {
            **self.digest,
            "exclude": sorted(settings.exclude),
            "initial_model": None if initial is None else sha256_of(initial / WEIGHTS),
        }

    def prepare(self, progress: Progress) -> None:
        training = self.training
        dataset = open_contact_dataset(self.settings.dataset)
        unknown = [name for name in self.settings.exclude if name not in dataset.ids]
        if unknown:
            raise BioattnError(
                f"--exclude {quoted(unknown)}: {dataset.path} has no such protein; it has {quoted(dataset.ids)}"
            )
        used = [i for i, name in enumerate(dataset.ids) if name not in self.settings.exclude]
        self.families = {
            split: [i for i in used if dataset.splits[i] == split] for split in (TRAIN, VALIDATION, TEST)
        }
        if training.steps and not self.families[TRAIN]:
            raise BioattnError(
                f"{self.settings.dataset}: has no training proteins left; prepare another split"
            )
        covariance = self.config.pair_features > 0
        train, self.validation, self.test = (
            load_families(dataset, each, covariance=covariance, progress=progress)
            for each in self.families.values()
        )
        torch.manual_seed(training.seed)
        self.model = EvoformerModel(self.config)
        if self.settings.initial_model is not None:
            initial = load_evoformer_model(self.settings.initial_model, torch.device("cpu"))
            added = self.model.input_embedder.project_pair_features
            self.model.load_state_dict(initial.model.state_dict(), strict=initial.config == self.config)
            if added is not None and not initial.config.pair_features:  # these start at 0
                torch.nn.init.zeros_(added.weight)
                torch.nn.init.zeros_(added.bias)
        self.model.to(self.device)
        crop = training.crop * (training.crop + training.max_msa_clusters + training.max_extra_msa)
        # A backward pass takes twice as long as the pass before.
        cells = 3 * self.config.num_blocks * crop * training.families_per_step * training.total_steps
        compile_blocks(self.model, training.compile, self.device, cells)
        self.samples = TrainingSamples(train, training, covariance)
        self.stages = _stages(training)
        self.work_per_step = ("families_per_step", training.families_per_step)
        self.summary = f"{self.weights} on {counted(len(train), 'family')}" + (
            f" and {training.simulated_families} simulated ones" if training.simulated_steps else ""
        )

    def parts(self, step: Step, shard: Shard) -> Iterator[Tensor]:
        number = self.training.families_per_step
        simulated = self.training.simulated_steps > 0 and step.stage_index == 0
        for sample in self.samples.step(step.number, shard.slice(number), simulated=simulated):
            loss = self._loss(sample) / number
            yield loss

    def _loss(self, sample: Sample) -> Tensor:
        inputs = sample.inputs.to(self.device)
        with self.training.precision.autocast(self.device):
            outputs = self.model(inputs, recompute=self.training.activation_checkpointing)
        assert outputs.distogram_logits is not None
        index = inputs.residue_index
        losses = sample_losses(
            outputs.distogram_logits.float(),
            None if outputs.masked_msa_logits is None else outputs.masked_msa_logits.float(),
            sample.distances_RR.to(self.device),
            index[:, None] - index[None, :],
            sample.true_msa_SR.to(self.device),
            sample.chosen_SR.to(self.device),
        )
        return (
            self.training.distogram_weight * losses.distogram
            + self.training.contact_weight * losses.contact
            + self.training.masked_msa_weight * losses.masked_msa
        )

    def validate(self, model: nn.Module, shard: Shard) -> Tensor | None:
        """Precisions of the validation families: float64 (families, 2)."""
        if not self.validation:
            return None

        def precisions(family: TrainingFamily) -> Tensor:
            scores = score_family(cast(EvoformerModel, model), family, self.training.round_inputs)
            return torch.tensor([*scores.values()], dtype=torch.float64)

        with self.training.precision.autocast(self.device):
            return figures_by_part(self.validation, shard, 2, precisions)

    def judge(self, values: Tensor) -> Judgement:
        means = dict(zip(FIGURES, values.nanmean(0).tolist(), strict=True))
        return Judgement(means["P@L"], means)

    def evaluate(self, progress: Progress) -> Evaluation:
        inputs = self.training.prediction_inputs
        sides = {"validation": self.validation, "test": self.test}
        return evaluate_families(self.model, sides, inputs, progress)

    def write(self, folder: Path) -> Sequence[str]:
        write_evoformer_model(folder, self.model, self.training.prediction_inputs)
        dataset = open_contact_dataset(self.settings.dataset)
        proteins = map(dataset.protein, self.families[TRAIN])
        rows = [(each.id, each.group, len(each.msa), letters_of(each.aatype)) for each in proteins]
        table = pd.DataFrame(rows, columns=["family", "group", "rows", "sequence"])
        write_table(folder / FAMILIES_TABLE, table)
        return (WEIGHTS, CONFIG, FAMILIES_TABLE)

    def record(self) -> dict[str, Any]:
        record = super().record()
        record["dataset"]["excluded"] = list(self.settings.exclude)
        record["families"] = {SPLIT_NAMES[split]: len(rows) for split, rows in self.families.items()}
        return record

    def describe(self) -> tuple[str, str]:
        source = "alignment and covariance features" if self.config.pair_features else "alignment alone"
        blocks = counted(self.config.num_blocks, "Evoformer block")
        judged = "Precision of the best L/5 and L pairs (CB < 8 Å, 6 or more columns apart), means:"
        return (
            "MSA/pair model for contacts",
            f"Predicts distances between residues from the {source}: {blocks}, "
            f"{self.weights}. Trained by bioattn on `{self.settings.dataset.name}` "
            f"({counted(len(self.families[TRAIN]), 'family')}, in `{FAMILIES_TABLE}`).\n\n"
            + (
                judged
                if self.families[VALIDATION] or self.families[TEST]
                else "No family was held out: this folder alone does not say how good the model is."
            ),
        )


def model_config(
    settings: Mapping[str, Any], initial: Path | None = None, source: str = "options"
) -> EvoformerConfig:
    """The shape of the model: that of `initial`, or the settings given over those of the small model.

    To `initial` pair features may be added; no other setting may be given with it. source: where the settings come
    from, for messages.

    Raises: as `settings_error`, when one is, or a setting is unknown or contradicts another.
    """
    if initial is None:
        config = build(EvoformerConfig, {**SMALL_MODEL, **settings}, source)
    else:
        config, _ = read_evoformer_config(initial)
        others = [name for name in settings if name != "pair_features"]
        if others:
            names = ", ".join(others)
            raise settings_error(
                source, f"{names}: --initial-model brings its own shape; leave out one of the two"
            )
        config = replace(config, pair_features=settings.get("pair_features", config.pair_features))
    unfit = {
        "a structure module": config.structure_module is not None,
        "recycling": config.recycling,
        "templates": config.templates is not None,
        "no distogram head": not config.distogram_bins,
    }
    if found := " and ".join(name for name, is_so in unfit.items() if is_so):
        where = source if initial is None else f"--initial-model {initial}"
        raise BioattnError(
            f"{where}: has {found}, but training covers the trunk with its distogram and masked-MSA heads; leave "
            "structure_module, recycling and templates out, and distogram_bins out or above 0"
        )
    if config.pair_features not in (0, len(FEATURE_NAMES)):
        raise settings_error(
            source, f"pair_features is {config.pair_features}; 0 (none) or {len(FEATURE_NAMES)} (covariances)"
        )
    return config


def _stages(training: EvoformerTrainingConfig) -> list[Stage]:
    """Simulated families first, where asked for, then those of the dataset."""
    simulated = Stage(
        steps=training.simulated_steps,
        steps_per_round=training.steps_per_round,
        learning_rate=training.simulated_learning_rate,
        warmup_fraction=training.warmup_fraction,
        # While only simulated families are seen, nothing of the dataset is learnt that could be best.
        can_be_best=not training.steps,
    )
    real = replace(simulated, steps=training.steps, learning_rate=training.learning_rate, can_be_best=True)
    return [stage for stage in (simulated, real) if stage.steps]
