"""The training loop of every model family: updates, validation, best weights, saving and resuming.

Several processes hold identical weights, which equal one process's up to rounding: each computes the gradients of
its share of a step, their sum updates the weights of all, and the first process decides whatever is to be decided.

The curves can be watched as TensorBoard events. Events are a log: they hold the times at which they were
written, so two equal runs have different ones. What is to be the same again is in the model folder.
"""

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bioattn.errors import BioattnError, LostProcess, SettingsError
from bioattn.io.files import writing
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted, duration
from bioattn.training.distributed import Processes
from bioattn.training.state import Position, load_state, save_state
from bioattn.training.task import AdamW, Judgement, Round, Step, Training, WeightAverage, rounds_of

TRAINING, VALIDATION = "training_", "validation_"
"""How the columns of a history begin that make a group of curves."""


def open_events(folder: Path, output: Path, step: int) -> Any:
    """A writer of TensorBoard events that goes on at update `step`: later ones, which an interrupted run left, are
    hidden. output: the model folder, which is replaced as a whole and so holds no logs.

    Raises: BioattnError when TensorBoard is not installed; SettingsError for a folder in `output`.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise BioattnError(
            "log_dir needs tensorboard, which is not installed: pip install tensorboard"
        ) from error
    if folder.resolve().is_relative_to(output.resolve()):
        raise SettingsError(f"log_dir {folder}: is in the model folder {output}; give one beside it")
    return SummaryWriter(str(folder), purge_step=step)


def add_events(writer: Any, step: int, row: Mapping[str, float]) -> None:
    """Write the figures of a row of the history; `training_loss` is the curve `training/loss`."""
    with writing(Path(writer.log_dir)):
        for name, value in row.items():
            group = next((each for each in (TRAINING, VALIDATION) if name.startswith(each)), "")
            writer.add_scalar(f"{group[:-1] or 'training'}/{name.removeprefix(group)}", value, step)
        writer.flush()


@dataclass(kw_only=True)
class Trainer:
    """One training run of one task."""

    task: Training
    job: dict[str, Any]
    state_path: Path | None
    """Where the first process saves its state; None in the others."""
    progress: Progress
    stop: StopRequest
    processes: Processes
    output: Path
    log_dir: Path | None = None
    """Where the first process logs the rounds."""
    position: Position = field(default_factory=Position, init=False)
    best_weights: dict[str, Tensor] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.rounds = rounds_of(self.task.stages)
        self.ends = [0, *itertools.accumulate(each.steps for each in self.rounds)]
        """Steps before each round, and of all of them."""
        self.counts = [*range(len(self.ends))] if self.task.counts == "epoch" else self.ends
        """Epochs or steps of the first rounds, by the number of these."""

    def run(self, *, resume: bool) -> None:
        """Train to the end; `best_weights` of the first process are then those to keep, on the CPU.

        Raises: Interrupted when a signal came to any process, after the step is finished and the state saved;
        LostProcess when another process ended, after the state is saved; BioattnError when the loss is no longer a
        number, or the saved state belongs to another job.
        """
        task, rounds = self.task, self.rounds
        saved = self.state_path if resume and self.state_path is not None else None
        if saved is not None and not saved.exists():
            saved = None
        if self.processes.is_first and saved is None:
            task.begin()
        self._begin_stage()
        if saved is not None:
            self.position, self.best_weights = load_state(
                saved, self.job, task.model, self.average.model, self.optimizer
            )
        if self.processes.count > 1:
            self.position = self.processes.share_state(
                self.position, task.model, self.average.model, self.optimizer
            )
        done = self.ends[self.position.round] + self.position.step
        self.events = None if self.log_dir is None else open_events(self.log_dir, self.output, done)
        self.progress.begin("training", self.ends[-1])
        self.progress.advance(done)
        if done and self.processes.is_first:
            self.progress.note(f"going on after {self._place(self.position.step)}")
        began = self.round_began = time.monotonic()
        if task.keeps_start and not self.position.history:
            self._finish_round(None)
            self._save()
        while (
            self.position.round < len(rounds)
            and self.position.round - 1 - self.position.best_round < task.training.patience
        ):
            current = rounds[self.position.round]
            self.round_began = time.monotonic()
            try:
                while self.position.step < current.steps:
                    self._take_step(current)
                    self._end_if_stopped()
                self._finish_round(current)
            except LostProcess as error:
                self._save()
                raise LostProcess(f"{error}; go on with --resume, from what was saved last") from error
            self._save()
            # A signal that came during validation; several processes know of it after the next step.
            self._end_if_stopped()
        self.progress.end()
        if self.events is not None:
            self.events.close()
        if self.processes.is_first:
            self._tell_end(time.monotonic() - began)

    def _end_if_stopped(self) -> None:
        """Raises: Interrupted when a signal has come, after the state is saved."""
        alone = self.processes.count == 1
        signal = self.stop.signal if alone else self.processes.signal
        if signal is not None:
            self._save()
            if not alone:
                self.processes.from_first(None)  # nobody ends before the first process is here
            self.stop.signal = signal
            self.stop.check(
                f"training stopped after {self._place(self.position.step)} and saved; go on with --resume"
            )

    def _take_step(self, current: Round) -> None:
        """Raises: LostProcess before any weight is changed."""
        task, model, position, processes = self.task, self.task.model, self.position, self.processes
        step = Step(current.stage, current.stage_index, current.first + position.step)
        if step.number == 0 and step.stage_index > 0:
            model.load_state_dict(self.average.model.state_dict())
            self._begin_stage()
        model.train()
        model.zero_grad()
        losses = []
        # Made one at a time: each part keeps what its backward pass needs until that is done.
        for part in task.parts(step, processes.shard):
            part.backward()
            losses.append(part.detach())
        if processes.count > 1:
            device = next(model.parameters()).device
            own = torch.stack(losses).sum() if losses else torch.zeros((), device=device)
            losses = [processes.sum_gradients(model, own, self.stop)]
        torch.nn.utils.clip_grad_norm_(model.parameters(), task.training.gradient_clip)
        self.optimizer.step(step.stage.rate(step.number))
        loss = sum(float(loss) for loss in losses)
        if not math.isfinite(loss):
            raise BioattnError(
                f"the loss became {loss} in {self._place(position.step + 1)}; try a smaller learning_rate, or "
                "precision = 'fp32'"
            )
        position.round_loss += loss
        position.step += 1
        self.average.update(model, step.number + 1)
        beside: dict[str, float | str] = {"loss": position.round_loss / position.step}
        if task.counts == "epoch":
            beside = {"epoch": f"{position.round + 1}/{len(self.rounds)}", **beside}
        if position.best_score is not None:
            # The figure that tables show. Counted from the end: the history may begin with a row for the start.
            key, name = [("", task.metric), *task.shown.items()][-1]
            best = position.history[position.best_round - position.round]
            beside[f"best {name}"] = best.get(f"validation_{key}", position.best_score)
        self.progress.advance(1, **beside)

    def _begin_stage(self) -> None:
        """A new optimiser and a new average, which starts from the model's weights."""
        model, training = self.task.model, self.task.training
        self.optimizer = AdamW(model, weight_decay=training.weight_decay, betas=self.task.betas)
        self.average = WeightAverage(model, training.average_decay)

    def _finish_round(self, current: Round | None) -> None:
        """Validate, add a row to the history and keep the best weights; the first process decides which.

        current: None before the first step.
        """
        model = self.average.model
        model.eval()
        with torch.no_grad():
            values = self.task.validate(model, self.processes.shard)
        processes = self.processes
        if values is not None and processes.count > 1:
            values = processes.sum(values)
        if processes.is_first:
            self._note_round(current, None if values is None else self.task.judge(values))
        if processes.count > 1:
            self.position = processes.from_first(self.position)

    def _note_round(self, current: Round | None, judgement: Judgement | None) -> None:
        position = self.position
        if current is not None:
            position.round += 1
        row: dict[str, float] = {self.task.counts: float(self.counts[position.round])}
        if current is not None:
            row["learning_rate"] = current.stage.rate(current.first + current.steps - 1)
            row["training_loss"] = position.round_loss / current.steps
        if judgement is not None:
            row |= {f"validation_{name}": value for name, value in judgement.figures.items()}
        row = {name: value for name, value in row.items() if math.isfinite(value)}
        position.history.append(row)
        score, best = None if judgement is None else judgement.score, position.best_score
        can_be_best = current is None or current.stage.can_be_best
        if score is None or best is None or not math.isfinite(score):
            is_improved = score is None or math.isfinite(score)
        else:
            is_improved = score < best if self.task.smaller_is_better else score > best
            if score == best:  # such as the accuracy of saying the commonest class
                rows = row, position.history[position.best_round - position.round]
                now, before = (each.get("validation_loss", math.inf) for each in rows)
                is_improved = now < before
        if is_improved or not can_be_best or not self.best_weights:
            position.best_round = position.round - 1
            position.best_score = score if can_be_best else None
            weights = self.average.model.state_dict()
            self.best_weights = {name: each.detach().cpu().clone() for name, each in weights.items()}
        validation = best_so_far = ""
        if judgement is not None:
            figures = {name: judgement.figures.get(key, math.nan) for key, name in self.task.shown.items()}
            figures |= {self.task.metric: judgement.score}
            validation = "; validation " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        if position.best_score is not None:
            is_best = position.best_round == position.round - 1
            best_so_far = (
                "; best so far" if is_best else f"; best: {self._count_word(position.best_round + 1)}"
            )
        done = f"training loss {row['training_loss']:.4g}" if "training_loss" in row else "the start"
        self.progress.note(
            f"{self._count_word(position.round)}/{self.counts[-1]:,}: {done}{validation}{best_so_far} "
            f"({duration(time.monotonic() - self.round_began)})"
        )
        if self.events is not None:
            add_events(self.events, self.ends[position.round], row)
        position.step = 0
        position.round_loss = 0.0

    def _tell_end(self, seconds: float) -> None:
        position, task = self.position, self.task
        early = ""
        if position.round < len(self.rounds):
            rounds = counted(task.training.patience, "epoch" if task.counts == "epoch" else "round")
            early = f", {rounds} without a better {task.metric}"
        kept = f"the weights of {self._count_word(position.best_round + 1)} are kept"
        if position.best_score is not None:
            kept += f", the best {task.metric} on the validation data ({position.best_score:.3f})"
        self.progress.note(
            f"trained to {self._count_word(position.round)} in {duration(seconds)}{early}; {kept}"
        )

    def _count_word(self, rounds: int) -> str:
        """The end of the first `rounds` rounds: `epoch 3` or `step 1,200`."""
        return f"{self.task.counts} {self.counts[rounds]:,}"

    def _place(self, step: int) -> str:
        """Where step `step` of the current round is, counted from 1; step 0 is the end of the round before."""
        if self.task.counts == "step":
            return f"step {self.ends[self.position.round] + step}"
        return f"step {step} of epoch {self.position.round + 1}" if step else f"epoch {self.position.round}"

    def _save(self) -> None:
        if self.state_path is not None:
            save_state(
                self.state_path,
                self.job,
                self.position,
                self.task.model,
                self.average.model,
                self.best_weights,
                self.optimizer,
            )
