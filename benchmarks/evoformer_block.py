"""One Evoformer block on the CPU: speed beside torch.mm and a plain block, memory, training, cost of capture.

    python benchmarks/evoformer_block.py [--rounds 5] [--only forward memory training capture]

Prints Markdown. Every measurement is a process of its own on one thread with the default allocator; times are
process CPU time, because wall time tells more about what else a machine does. A round measures torch.mm (2048³)
before and after the block; a fraction is the block's FLOP/s over the mean of the two, and the table has the median
of the rounds. Widths are AlphaFold's (256 and 128 channels), masks ragged: rows are fragments, some rows and the
last residues are masked throughout. Memory is the highest resident size while the block runs less the resident
size before, inputs and parameters not counted, after a warm-up at a tiny size.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import options, table
from benchmarks.processes import in_own_process, peak_above

SIZES = ((128, 128), (128, 256), (512, 256))
TRAINING_SIZE = (64, 128)
MSA, PAIR, HIDDEN, OUTER = 256, 128, 128, 32


def block_flops(rows: int, residues: int) -> float:
    """Multiplications and additions of the matrix products of all layers."""
    msa, pair = 2.0 * rows * residues, 2.0 * residues**2
    multiplication = pair * (5 * PAIR * HIDDEN + PAIR * HIDDEN + residues * HIDDEN)
    attention = pair * (5 * PAIR**2 + 4 * PAIR + 2 * residues * PAIR)
    return (
        msa * (10 * MSA**2 + 2 * (rows + residues) * MSA + 8 * MSA**2 + 2 * OUTER * MSA)
        + pair * (8 * PAIR + OUTER**2 * (rows + PAIR) + 8 * PAIR**2)
        + 2 * (multiplication + attention)
    )


def make_block(precision: str) -> Any:
    """A block whose layers all do something: no weight is 0."""
    import torch

    from bioattn.models.evoformer.config import EvoformerConfig
    from bioattn.models.evoformer.layers import use_precision
    from bioattn.models.evoformer.stacks import EvoformerBlock

    torch.manual_seed(0)
    block = EvoformerBlock(EvoformerConfig(), 0)
    for parameter in block.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    if precision == "bfloat16":
        use_precision(block, torch.bfloat16)
    return block


def make_inputs(rows: int, residues: int) -> tuple[Any, ...]:
    """MSA and pair representations and ragged masks."""
    import torch

    random = torch.Generator().manual_seed(1)
    msa = torch.randn(rows, residues, MSA, generator=random)
    pair = torch.randn(residues, residues, PAIR, generator=random)
    seq_mask = torch.ones(residues)
    seq_mask[residues - residues // 32 :] = 0
    positions = torch.arange(residues)
    starts = torch.randint(0, residues // 4, (rows, 1), generator=random)
    ends = torch.randint(residues // 2, residues + 1, (rows, 1), generator=random)
    msa_mask = ((positions >= starts) & (positions < ends)).float() * seq_mask
    msa_mask[0] = seq_mask
    msa_mask[rows - rows // 16 :] = 0
    return msa, pair, msa_mask, seq_mask[:, None] * seq_mask


def cpu_seconds(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def product_rate(precision: str) -> float:
    """FLOP/s of torch.mm."""
    import torch

    square = torch.randn(2048, 2048).to(getattr(torch, precision))
    return 2 * 2048**3 / min(cpu_seconds(lambda: torch.mm(square, square)) for _ in range(3))


class Mean:
    """A receiver that keeps the sum over rows."""

    total: Any = None

    def over_rows(self, site: Any) -> str:
        return "sum"

    def receive_reduced(self, site: Any, weights: Any, tile: Any, number: int) -> None:
        self.total = weights

    def receive(self, site: Any, weights: Any, value_weighted: Any, tile: Any = None) -> None:
        part = weights.sum(0)
        self.total = part if self.total is None else self.total.add_(part)


def runner(task: str, which: str, precision: str, rows: int, residues: int) -> Callable[[], Any]:
    """What is measured, ready to be called any number of times."""
    import torch

    from benchmarks.evoformer_plain import PlainBlock
    from bioattn.attention.capture import capture

    block = make_block(precision)
    if which == "plain":
        block = PlainBlock(block)
    block.requires_grad_(task == "training")
    msa, pair, *masks = make_inputs(rows, residues)
    if task == "training":

        def train() -> None:
            new_msa, new_pair = block(msa, pair, *masks)
            (new_msa.square().mean() + new_pair.square().mean()).backward()
            block.zero_grad()

        return train
    if which == "plain":
        return torch.no_grad()(lambda: block(msa, pair, *masks))
    working = msa.clone(), pair.clone()

    def forward() -> None:
        # In place: start from the same numbers every time.
        working[0].copy_(msa)
        working[1].copy_(pair)
        if which == "captured":
            with capture(["evoformer.00.msa_row"], Mean()):
                block(*working, *masks)
        else:
            block(*working, *masks)

    return torch.no_grad()(forward)


def work(given: argparse.Namespace) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    rows, residues = given.size
    if given.task == "capture":
        alone, captured = (
            runner("forward", which, given.precision, rows, residues) for which in ("ours", "captured")
        )
        alone(), captured()
        times = [(cpu_seconds(alone), cpu_seconds(captured)) for _ in range(given.repeats)]
        return {"alone": min(a for a, _ in times), "captured": min(c for _, c in times)}
    if given.task == "error":
        return error(rows, residues)
    if given.task in ("memory", "training-memory"):
        task = "training" if given.task == "training-memory" else "forward"
        runner(task, given.which, given.precision, 16, 32)()
        run = runner(task, given.which, given.precision, rows, residues)
        return {"bytes": peak_above(run)}
    run = runner(given.task, given.which, given.precision, rows, residues)
    run()
    before = product_rate(given.precision)
    seconds = min(cpu_seconds(run) for _ in range(given.repeats))
    rate = (before + product_rate(given.precision)) / 2
    return {"seconds": seconds, "rate": rate}


def error(rows: int, residues: int) -> dict[str, Any]:
    """How far our block is from the plain one: ‖difference‖ / ‖block‖."""
    import torch

    from benchmarks.evoformer_plain import PlainBlock

    inputs = make_inputs(rows, residues)
    with torch.no_grad():
        plain = PlainBlock(make_block("float32"))(*inputs)
        results = {
            precision: make_block(precision)(*(t.clone() for t in inputs))
            for precision in ("float32", "bfloat16")
        }
    return {
        name: [float((one - other).norm() / other.norm()) for one, other in zip(states, plain, strict=True)]
        for name, states in results.items()
    }


def measure(
    task: str, size: tuple[int, int], which: str, precision: str = "float32", repeats: int = 2
) -> Any:
    words = f"--task {task.replace(' ', '-')} --which {which} --precision {precision} --repeats {repeats}"
    return in_own_process(__file__, *words.split(), "--size", *size)


KINDS = (("plain", "float32"), ("ours", "float32"), ("ours", "bfloat16"))


def median(runs: list[Any], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def forward_table(rounds: int) -> None:
    print("### Forward, one block, no gradients\n")
    rows = []
    for size in SIZES:
        found = [[measure("forward", size, *kind) for kind in KINDS] for _ in range(rounds)]
        plain = statistics.median(each[0]["seconds"] for each in found)
        for kind, runs in zip(KINDS, zip(*found, strict=True), strict=True):
            seconds, rate = median(list(runs), "seconds"), median(list(runs), "rate")
            shares = [block_flops(*size) / run["seconds"] / run["rate"] for run in runs]
            share = f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"
            rates = (f"{each / 1e9:.0f}" for each in (block_flops(*size) / seconds, rate))
            rows.append(
                [f"{size[0]}, {size[1]}", " ".join(kind), seconds, *rates, share, f"× {plain / seconds:.2f}"]
            )
    print(table(["S, R", "block", "s", "GFLOP/s", "torch.mm", "fraction (rounds)", "beside plain"], rows))
    print(
        "Distance from the plain block in float32, ‖d‖ / ‖block‖ for the MSA and for the pairs, at 128, 256:\n"
    )
    for name, (msa, pair) in measure("error", (128, 256), "ours").items():
        print(f"- {name}: {msa:.1e}, {pair:.1e}")


def megabytes(task: str, size: tuple[int, int], which: str, precision: str = "float32") -> str:
    return f"{measure(task, size, which, precision)['bytes'] / 1e6:.0f}"


def memory_table(_rounds: int) -> None:
    print("\n### Memory above inputs and parameters\n")
    rows = (
        [f"{size[0]}, {size[1]}", *(megabytes("memory", size, *kind) for kind in KINDS)] for size in SIZES
    )
    print(table(["S, R", "plain MB", "ours float32 MB", "ours bfloat16 MB"], rows))


def training_table(rounds: int) -> None:
    print(f"\n### Forward and backward at {TRAINING_SIZE[0]}, {TRAINING_SIZE[1]}, float32\n")
    rows = []
    for which in ("plain", "ours"):
        seconds = median([measure("training", TRAINING_SIZE, which) for _ in range(rounds)], "seconds")
        rate = f"{3 * block_flops(*TRAINING_SIZE) / seconds / 1e9:.0f}"
        rows.append([which, seconds, rate, megabytes("training memory", TRAINING_SIZE, which)])
    print(table(["block", "s", "GFLOP/s", "memory MB"], rows))


def capture_table(rounds: int) -> None:
    print("\n### Capturing the row attention of one layer (mean over rows)\n")
    rows = []
    for size in SIZES:
        for precision in ("float32", "bfloat16"):
            runs = [measure("capture", size, "both", precision, repeats=4) for _ in range(rounds)]
            costs = sorted(run["captured"] / run["alone"] - 1 for run in runs)
            cost = f"{statistics.median(costs):.1%} ({costs[0]:.1%} to {costs[-1]:.1%})"
            held = ", ".join(megabytes("memory", size, which, precision) for which in ("ours", "captured"))
            times = (median(runs, name) for name in ("alone", "captured"))
            rows.append([f"{size[0]}, {size[1]}", precision, *times, cost, held])
    print(table(["S, R", "precision", "block s", "captured s", "cost (rounds)", "MB: block, captured"], rows))


TABLES = {
    "forward": forward_table,
    "memory": memory_table,
    "training": training_table,
    "capture": capture_table,
}


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--task", help="of a process of its own, with its settings:")
    parser.add_argument("--which")
    parser.add_argument("--precision")
    parser.add_argument("--size", nargs=2, type=int)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    if given.task:
        print(json.dumps(work(given)))
        return
    for name in given.only:
        TABLES[name](given.rounds)


if __name__ == "__main__":
    main()
