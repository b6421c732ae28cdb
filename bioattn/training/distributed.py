"""One training run by several processes, which torchrun starts: what they say to each other.

Every process holds the same weights, draws the same batches and computes the gradients of its share; the sums go
through here, and whatever the first process decides for all. A process alone asks nobody.
"""

import logging
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn

from bioattn.errors import BioattnError, LostProcess
from bioattn.system.device import launch
from bioattn.system.shard import Shard
from bioattn.system.signals import StopRequest
from bioattn.training.state import Position, job_differences
from bioattn.training.task import AdamW

LOGGER = logging.getLogger("bioattn")
Value = TypeVar("Value")

TIMEOUT = timedelta(minutes=10)
"""How long a process waits for another that stands still; one that ended is noticed at once."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Stops that processes tell each other of; the first wins."""


class Processes:
    """The processes of a run, seen from one of them; alone by default."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank = rank
        self.count = count
        self.is_first = rank == 0
        self.shard = Shard(rank + 1, count)
        """Which share of a step's or a validation's work is this process's."""
        self.signal: signal.Signals | None = None
        """What has come to any process, and all know of."""

    def from_first(self, value: Value) -> Value:
        """What the first process has given; its own value there. Raises: LostProcess."""
        held = [value]
        with _collective():
            distributed.broadcast_object_list(held, src=0)
        return held[0]

    def sum(self, values: Tensor) -> Tensor:
        """The sum over processes of a tensor on the CPU. Raises: LostProcess."""
        with _collective():
            distributed.all_reduce(values)
        return values

    def sum_gradients(self, model: nn.Module, loss: Tensor, stop: StopRequest) -> Tensor:
        """Sum gradients over processes, in place, and `loss`, which is returned; agree on whether to stop.

        All of it travels in one message. A gradient that no process has stays None: AdamW then leaves the weight
        alone. Of running statistics (BatchNorm) the mean is kept.

        Raises: LostProcess; gradients are then of no use, weights as they were.
        """
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        norms = [module for module in model.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
        statistics = [
            each for norm in norms for each in (norm.running_mean, norm.running_var) if each is not None
        ]
        notes = [weight.grad is not None for weight in weights] + [stop.signal is each for each in SIGNALS]
        message = torch.cat(
            [
                *((torch.zeros_like(w) if w.grad is None else w.grad).flatten() for w in weights),
                *(each.flatten() / self.count for each in statistics),
                loss.reshape(1),
                torch.tensor(notes, dtype=torch.float32, device=loss.device),
            ]
        )
        with _collective():
            distributed.all_reduce(message)
        sizes = [each.numel() for each in (*weights, *statistics)]
        *summed, total, told = message.split([*sizes, 1, len(notes)])
        found = told.tolist()
        for weight, gradient, held in zip(weights, summed, found, strict=False):
            weight.grad = gradient.view_as(weight) if held else None
        for statistic, mean in zip(statistics, summed[len(weights) :], strict=True):
            statistic.copy_(mean.view_as(statistic))
        came = [number for number, has_come in zip(SIGNALS, found[len(weights) :], strict=True) if has_come]
        if came and self.signal is None:
            self.signal = came[0]
        return cast(Tensor, total[0])

    def share_state(
        self, position: Position, model: nn.Module, average: nn.Module, optimizer: AdamW
    ) -> Position:
        """Give all processes the first one's weights, optimiser state and position. Raises: LostProcess."""
        state: Any = None
        if self.is_first:
            state = _on_cpu((model.state_dict(), average.state_dict(), optimizer.state_dict(), position))
        weights, averages, moments, position = self.from_first(state)
        if not self.is_first:
            model.load_state_dict(weights)
            average.load_state_dict(averages)
            optimizer.load_state_dict(moments)
        return position

    def require_same_job(self, job: Mapping[str, Any]) -> None:
        """Raises: BioattnError in a process whose data or settings are not the first one's; LostProcess."""
        if different := job_differences(self.from_first(job), job):
            raise BioattnError(
                f"other data or settings than those of process 0 (different: {', '.join(different)}); give all "
                "processes the same files and options"
            )


ALONE = Processes()


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that were launched with this one, once all are there; nothing to wait for without any.

    Raises: BioattnError when the others do not come.
    """
    here = launch()
    if here.count == 1:
        yield Processes()
        return
    _join(here.rank, here.count)
    try:
        yield Processes(here.rank, here.count)
    finally:
        distributed.destroy_process_group()


def _join(rank: int, count: int) -> None:
    # Waiting for the others happens outside Python, where its signal handlers do not run; nothing is begun yet.
    handlers = {each: signal.signal(each, signal.SIG_DFL) for each in SIGNALS}
    backend = "gloo"
    if torch.cuda.is_available() and distributed.is_nccl_available():
        backend = "cpu:gloo,cuda:nccl"
    try:
        distributed.init_process_group(backend, rank=rank, world_size=count, timeout=TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise BioattnError(
            f"did not find the other processes of {count} ({str(error).splitlines()[0]}); start them with "
            "torchrun, and see that the machines reach each other"
        ) from error
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)


@contextmanager
def _collective() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        LOGGER.debug(f"talking to the other processes failed: {error}")
        stands_still = re.search(r"time(d )?out", str(error), re.IGNORECASE)
        happened = f"did not answer for {TIMEOUT.seconds} seconds" if stands_still else "ended"
        raise LostProcess(f"another process of this run {happened}") from error


def _on_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, Mapping):
        return {key: _on_cpu(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_on_cpu(each) for each in value)
    return value
