"""The training loop of the MSA/pair stack: steps, rounds, validation, saving and going on.

A run has two stages, each with its own warm-up, cosine, optimiser state and average: simulated families first,
where asked for, then the dataset's. The second starts from the first one's average, so that one run of both gives
the weights of two runs, the second with the first one's model as initial model. It is counted in rounds of
`steps_per_round` updates; `Position.epoch` is the round.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from bioattn.errors import BioattnError
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.config import EvoformerTrainingConfig
from bioattn.models.evoformer.training.families import TrainingFamily
from bioattn.models.evoformer.training.losses import Losses, sample_losses
from bioattn.models.evoformer.training.prediction import score_family
from bioattn.models.evoformer.training.samples import Sample, TrainingSamples
from bioattn.structures.contact_metrics import ContactScores, mean_scores
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.training.distributed import ALONE, Processes, saved_if_others_end
from bioattn.training.optimisation import copied_weights, make_optimizer, warm_up_and_cosine
from bioattn.training.state import Position, load_state, save_state
from bioattn.training.update import PartLoss, update_weights
from bioattn.training.weight_average import WeightAverage

BETAS = (0.9, 0.98)
"""Of AdamW."""


@dataclass(slots=True, kw_only=True)
class EvoformerTrainer:
    """One training run of one model."""

    model: EvoformerModel
    samples: TrainingSamples
    validation: Sequence[TrainingFamily]
    """Families on which rounds are judged; without any, all steps are run and the last average is kept."""
    config: EvoformerTrainingConfig
    device: torch.device
    job: Mapping[str, Any]
    """Data and settings: a saved state of another job is refused."""
    state_path: Path | None
    """Where the first process saves; None in the others."""
    processes: Processes = ALONE
    average: WeightAverage = field(init=False)
    best: dict[str, Tensor] = field(init=False)
    """The weights to keep; the first process has them."""

    def run(
        self, *, resume: bool, progress: Progress, stop: StopRequest
    ) -> tuple[Position, dict[str, Tensor]]:
        """Train to the end; return the history and the weights to keep (empty but in the first process).

        Raises: Interrupted when `stop` was requested in any process, after the step is finished and the state
        saved. LostProcess when another process ended, after the state is saved. BioattnError when the loss is no
        longer a number.
        """
        config = self.config
        optimizer = self._optimizer()
        self.average = WeightAverage(self.model, config.average_decay)
        position = Position()
        self.best = {}
        if resume and self.state_path is not None and self.state_path.exists():
            position, self.best = load_state(
                self.state_path, self.job, self.model, self.average.model, optimizer
            )
        position = self.processes.share_state(position, self.model, self.average.model, optimizer)
        rounds = math.ceil(config.total_steps / config.steps_per_round)
        progress.begin("training", config.total_steps)
        progress.advance(self._done(position))
        while position.epoch < rounds and not self._out_of_patience(position):
            in_round = min(
                config.steps_per_round, config.total_steps - position.epoch * config.steps_per_round
            )
            while position.step < in_round:
                if 0 < self._done(position) == config.simulated_steps:
                    self.model.load_state_dict(self.average.model.state_dict())
                    self.average = WeightAverage(self.model, config.average_decay)
                    optimizer = self._optimizer()
                with saved_if_others_end(partial(self._save, position, optimizer)):
                    position.epoch_loss += self._step(self._done(position), optimizer, stop)
                position.step += 1
                self.average.update(self.model, self._in_stage(self._done(position)))
                progress.advance(1, loss=position.epoch_loss / position.step, **_best_status(position))
                if self.processes.stopping(stop):
                    self._save(position, optimizer)
                    self.processes.wait_for_first()
                    stop.check(_stopped(self._done(position)))
            with saved_if_others_end(partial(self._save, position, optimizer)):
                position = self._finish_round(position, optimizer)
            self._save(position, optimizer)
            # A signal that came while the round was judged; of several processes, the next step will tell all.
            if self.processes.stopping(stop):
                stop.check(_stopped(self._done(position)))
        progress.end()
        return position, self.best

    def _done(self, position: Position) -> int:
        """Updates made."""
        return position.epoch * self.config.steps_per_round + position.step

    def _in_stage(self, step: int) -> int:
        """Steps of this stage among the first `step` steps, at least one of which is taken."""
        simulated = self.config.simulated_steps
        return step if step <= simulated else step - simulated

    def _step(self, step: int, optimizer: torch.optim.Optimizer, stop: StopRequest) -> float:
        """One update; returns its loss."""
        self.model.train()
        total = update_weights(
            self.model,
            optimizer,
            self._parts(step),
            learning_rate=self._learning_rate(step),
            gradient_clip=self.config.gradient_clip,
            processes=self.processes,
            stop=stop,
        )
        if not math.isfinite(total):
            raise BioattnError(
                f"the loss became {total} in step {step + 1}; try a smaller learning_rate, or precision = 'fp32'"
            )
        return total

    def _parts(self, step: int) -> Iterator[PartLoss]:
        """This process's samples of a step, one after the other."""
        number = self.config.families_per_step
        for sample in self.samples.step(step, self.processes.share(number)):
            loss = self._weighted(self._losses(sample)) / number
            yield PartLoss(loss, loss)

    def _losses(self, sample: Sample) -> Losses:
        inputs = sample.inputs.to(self.device)
        with self._autocast():
            outputs = self.model(inputs, recompute=self.config.activation_checkpointing)
        assert outputs.distogram_logits is not None
        index = inputs.residue_index
        return sample_losses(
            outputs.distogram_logits.float(),
            None if outputs.masked_msa_logits is None else outputs.masked_msa_logits.float(),
            sample.distances_RR.to(self.device),
            index[:, None] - index[None, :],
            sample.true_msa_SR.to(self.device),
            sample.chosen_SR.to(self.device),
        )

    def _weighted(self, losses: Losses) -> Tensor:
        config = self.config
        return (
            config.distogram_weight * losses.distogram
            + config.contact_weight * losses.contact
            + config.masked_msa_weight * losses.masked_msa
        )

    def _finish_round(self, position: Position, optimizer: torch.optim.Optimizer) -> Position:
        """Validate, note the history, keep the best weights; the first process decides which."""
        scores = self._validate() if self.validation else None
        if self.processes.is_first:
            self._note_round(position, scores)
        return self.processes.hold_together(position, self.model, self.average.model, optimizer)

    def _note_round(self, position: Position, scores: ContactScores | None) -> None:
        done = self._done(position)
        row = {
            "step": float(done),
            "learning_rate": self._learning_rate(done - 1),
            "training_loss": position.epoch_loss / max(1, position.step),
        }
        position.epoch += 1
        position.step = 0
        position.epoch_loss = 0.0
        score: float | None = None
        if scores is not None:
            row |= {f"validation_{name}": value for name, value in scores.as_figures().items()}
            score = scores.precision_l
        position.history.append({name: value for name, value in row.items() if math.isfinite(value)})
        # While only simulated families are seen, nothing of the dataset is learnt that could be best.
        simulated_only = done <= self.config.simulated_steps and self.config.steps > 0
        improved = score is None or position.best_score is None or score > position.best_score
        if improved or simulated_only or not self.best:
            position.best_epoch = position.epoch - 1
            position.best_score = None if simulated_only else score
            self.best = copied_weights(self.average.model)

    def _validate(self) -> ContactScores:
        """Mean scores of the validation families, which the processes share."""
        model = cast(EvoformerModel, self.average.model)
        model.eval()
        settings = self.config.prediction_inputs
        own = self.processes.share(len(self.validation))
        found = torch.zeros(len(self.validation), 2, dtype=torch.float64)
        with self._autocast():
            for number in range(own.start, own.stop):
                scores = score_family(model, self.validation[number], settings)
                found[number] = torch.tensor([scores.precision_l5, scores.precision_l], dtype=torch.float64)
        return mean_scores(
            [
                ContactScores(precision_l5=few, precision_l=all_)
                for few, all_ in self.processes.sum(found).tolist()
            ]
        )

    def _out_of_patience(self, position: Position) -> bool:
        return bool(self.validation) and position.epoch - 1 - position.best_epoch >= self.config.patience

    def _learning_rate(self, step: int) -> float:
        """The schedule of each stage begins anew."""
        config = self.config
        first = step < config.simulated_steps
        total = config.simulated_steps if first else config.steps
        now = step if first else step - config.simulated_steps
        peak = config.simulated_learning_rate if first else config.learning_rate
        return warm_up_and_cosine(now, total, peak=peak, warmup_fraction=config.warmup_fraction)

    def _optimizer(self) -> torch.optim.Optimizer:
        config = self.config
        return make_optimizer(
            self.model, learning_rate=config.learning_rate, weight_decay=config.weight_decay, betas=BETAS
        )

    def _save(self, position: Position, optimizer: torch.optim.Optimizer) -> None:
        if self.state_path is not None:
            save_state(
                self.state_path, self.job, position, self.model, self.average.model, self.best, optimizer
            )

    def _autocast(self) -> AbstractContextManager[object]:
        return self.config.precision.autocast(self.device)


def _stopped(step: int) -> str:
    return f"training stopped after step {step} and saved; go on with --resume"


def _best_status(position: Position) -> dict[str, float]:
    """The best validation score so far, under its name."""
    return {} if position.best_score is None else {"best P@L": position.best_score}
