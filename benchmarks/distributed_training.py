"""Summing gradients of two CPU processes: bioattn's one message a step beside torch's DistributedDataParallel.

    OMP_NUM_THREADS=1 python benchmarks/distributed_training.py [--rounds 12]

Both ways in the same two processes, turn about, on the same batches: forward, backward, sum, without the
optimiser. Prints CPU time a step and process (medians over rounds, with quartiles), wall time, and the largest
difference of any gradient between the two ways. `share` is what remains of a step when nothing is summed.
"""

import argparse
import copy
import socket
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.multiprocessing
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.training.config import SMALL_MODEL, EvoformerTrainingConfig
from bioattn.models.evoformer.training.samples import SimulatedFamilies, TrainingSamples
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.treatments import named_treatments
from bioattn.system.signals import StopRequest
from bioattn.training.distributed import Processes

COUNT = 2
STEPS = 4
"""Of a round."""


class Promoters(nn.Module):
    """The default promoter model on half a batch of 64 promoters of 1,000 bases, under 36 treatments."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        names = [f"t{i}" for i in range(36)]
        config = PromoterModelConfig(length=1000, dropout=0.0)
        table = named_treatments(names)
        by_id = TreatmentEncoding.ID
        vocabulary = TreatmentVocabulary.learn(table, encoding=by_id, unconditional=True, columns=())
        self.model = PromoterModel(config, vocabulary)
        self.treatments = vocabulary.encode(table)
        random = np.random.default_rng(rank)
        self.codes_BL = torch.from_numpy(random.integers(0, 4, (32, 1000)).astype(np.uint8))
        self.targets_BT = torch.from_numpy(random.normal(size=(32, 36)).astype(np.float32))

    def forward(self) -> Tensor:
        """The sum that a process adds to the loss of the step."""
        answers_BT = self.model.standardised(self.codes_BL, self.treatments)
        return (answers_BT - self.targets_BT).square().sum() / (COUNT * self.targets_BT.numel())


class Families(nn.Module):
    """The small MSA/pair model on one simulated family, cut as in training."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.model = EvoformerModel(EvoformerConfig(**SMALL_MODEL))
        with torch.no_grad():  # blocks and heads begin at zero, and so would almost all gradients
            for parameter in self.model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        config = EvoformerTrainingConfig(simulated_steps=1, steps=0, families_per_step=COUNT)
        samples = TrainingSamples([], SimulatedFamilies(0, 8), config, covariance=False)
        (self.sample,) = samples.step(0, slice(rank, rank + 1), simulated=True)

    def forward(self) -> Tensor:
        """A stand-in for the loss that reaches every weight the loss does."""
        outputs = self.model(self.sample.inputs)
        return (outputs.distogram_logits.square().mean() + outputs.masked_msa_logits.square().mean()) / COUNT


def measure(rank: int, port: int, rounds: int) -> None:
    """One of the processes; the first prints."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=COUNT)
    processes, stop = Processes(rank, COUNT), StopRequest()
    for name, kind in (("promoters", Promoters), ("families", Families)):
        torch.manual_seed(0)
        task = kind(rank)
        # Of a copy: it hangs hooks on the weights, which fire in whatever backward pass.
        wrapped = DistributedDataParallel(copy.deepcopy(task), find_unused_parameters=kind is Families)

        def alone(task: nn.Module = task) -> None:
            task().backward()

        def summed(task: nn.Module = task) -> None:
            loss = task()
            loss.backward()
            processes.sum_gradients(task, loss.detach(), stop)

        def ddp(wrapped: nn.Module = wrapped) -> None:
            # It averages where we sum; the value of the loss and the wish to stop need a message of their own.
            loss = wrapped() * COUNT
            loss.backward()
            distributed.all_reduce(torch.stack([loss.detach(), torch.zeros(())]))

        ways: dict[str, Callable[[], None]] = {"share": alone, "one message": summed, "DDP": ddp}
        modules = {"share": task, "one message": task, "DDP": wrapped}
        gradients = {way: _gradients(modules[way], run) for way, run in ways.items()}
        both = gradients["one message"], gradients["DDP"]
        largest = max(float((one - other).abs().max()) for one, other in zip(*both, strict=True))
        size = max(float(one.abs().max()) for one in both[0])
        spent: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for turn in range(rounds):
            for way in sorted(ways, key=lambda way: (list(ways).index(way) + turn) % len(ways)):
                distributed.barrier()
                cpu, wall = time.process_time(), time.perf_counter()
                for _ in range(STEPS):
                    modules[way].zero_grad(set_to_none=True)
                    ways[way]()
                spent[way].append(((time.process_time() - cpu) / STEPS, (time.perf_counter() - wall) / STEPS))
        if rank == 0:
            weights = sum(weight.numel() for weight in task.parameters())
            print(
                f"{name}: {weights:,} weights; gradients of the two ways differ by {largest:.1e} of {size:.1e}"
            )
            print("way\tCPU ms a step (quartiles)\twall ms a step")
            for way, pairs in spent.items():
                cpus, walls = ([1000 * pair[i] for pair in pairs] for i in (0, 1))
                low, middle, high = statistics.quantiles(cpus, n=4)
                print(f"{way}\t{middle:.1f} ({low:.1f}-{high:.1f})\t{statistics.median(walls):.1f}")
    distributed.destroy_process_group()


def _gradients(task: nn.Module, run: Callable[[], None]) -> list[Tensor]:
    task.zero_grad(set_to_none=True)
    run()
    return [weight.grad.clone() for weight in task.parameters() if weight.grad is not None]


def main() -> None:
    """Start the two processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(measure, args=(port, rounds), nprocs=COUNT)


if __name__ == "__main__":
    main()
