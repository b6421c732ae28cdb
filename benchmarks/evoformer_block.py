"""One Evoformer block on the CPU: speed beside torch.mm and a plain block, memory, training, cost of capture.

    python benchmarks/evoformer_block.py [--rounds 5] [--only forward layers memory training capture growth]
        [--figure docs/figures/evoformer_growth.png]

Prints Markdown. Every measurement is a process of its own on one thread with the default allocator; times are
process CPU time, because wall time tells more about what else a machine does. A round measures torch.mm (2048³)
before and after the block; a fraction is the block's FLOP/s over the mean of the two, and the table has the median
of the rounds. Widths are AlphaFold's (256 and 128 channels), masks ragged: rows are fragments, some rows and the
last residues are masked throughout. Memory is the highest resident size while the block runs less the resident
size before, inputs and parameters not counted, after a warm-up at a tiny size.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SIZES = ((128, 128), (128, 256), (512, 256))
TRAINING_SIZE = (64, 128)
BY_RESIDUES = ((128, 64), (128, 128), (128, 256), (128, 384))
BY_ROWS = ((32, 256), (128, 256), (256, 256), (512, 256), (1024, 256))
GIGAFLOP = {(128, 128): 71.5, (128, 256): 216.0, (512, 256): 593.0}
MSA, PAIR, HIDDEN, OUTER = 256, 128, 128, 32


def layer_flops(rows: int, residues: int) -> dict[str, float]:
    """Multiplications and additions of matrix products, by layer."""
    msa, pair = 2.0 * rows * residues, 2.0 * residues**2
    multiplication = pair * (5 * PAIR * HIDDEN + PAIR * HIDDEN + residues * HIDDEN)
    attention = pair * (5 * PAIR**2 + 4 * PAIR + 2 * residues * PAIR)
    return {
        "msa_row_attention": msa * (5 * MSA**2 + 2 * residues * MSA) + pair * 8 * PAIR,
        "msa_column_attention": msa * (5 * MSA**2 + 2 * rows * MSA),
        "msa_transition": msa * 8 * MSA**2,
        "outer_product_mean": msa * 2 * OUTER * MSA + pair * OUTER**2 * (rows + PAIR),
        "triangle_multiplication_outgoing": multiplication,
        "triangle_multiplication_incoming": multiplication,
        "triangle_attention_starting": attention,
        "triangle_attention_ending": attention,
        "pair_transition": pair * 8 * PAIR**2,
    }


def block_flops(rows: int, residues: int) -> float:
    """All layers; the sizes of the table have their numbers fixed."""
    if (rows, residues) in GIGAFLOP:
        return GIGAFLOP[rows, residues] * 1e9
    return sum(layer_flops(rows, residues).values())


def memory(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def make_block(precision: str) -> Any:
    """A block whose layers all do something: no weight is 0."""
    import torch

    from bioattn.models.evoformer.config import EvoformerConfig
    from bioattn.models.evoformer.projection import use_precision
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
    """A receiver that keeps the mean over rows."""

    def __init__(self) -> None:
        self.total: Any = None

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


def work(options: argparse.Namespace) -> dict[str, Any]:
    """One measurement, in this process."""
    import torch

    torch.set_num_threads(1)
    rows, residues = options.size
    if options.task == "layers":
        return layers(options)
    if options.task == "capture":
        alone, captured = (
            runner("forward", which, options.precision, rows, residues) for which in ("ours", "captured")
        )
        alone(), captured()
        times = [(cpu_seconds(alone), cpu_seconds(captured)) for _ in range(options.repeats)]
        return {"alone": min(a for a, _ in times), "captured": min(c for _, c in times)}
    if options.task == "error":
        return error(rows, residues)
    if options.task in ("memory", "training memory"):
        task = "training" if options.task == "training memory" else "forward"
        runner(task, options.which, options.precision, 16, 32)()
        run = runner(task, options.which, options.precision, rows, residues)
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        run()
        return {"bytes": memory("VmHWM") - before}
    run = runner(options.task, options.which, options.precision, rows, residues)
    run()
    before = product_rate(options.precision)
    seconds = min(cpu_seconds(run) for _ in range(options.repeats))
    rate = (before + product_rate(options.precision)) / 2
    return {"seconds": seconds, "rate": rate}


def layers(options: argparse.Namespace) -> dict[str, Any]:
    """Every layer by itself, over the mean of the products before and after."""
    import torch

    block = make_block(options.precision)
    msa, pair, msa_mask, pair_mask = make_inputs(*options.size)
    arguments = {
        "msa_row_attention": (msa, pair, msa_mask),
        "msa_column_attention": (msa, msa_mask),
        "msa_transition": (msa,),
        "outer_product_mean": (pair, msa, msa_mask),
        "pair_transition": (pair,),
    }
    seconds = {}
    before = product_rate(options.precision)
    for name in layer_flops(1, 1):
        first, *others = arguments.get(name, (pair, pair_mask))
        state, layer = first.clone(), getattr(block, name)

        @torch.no_grad()
        def run(layer: Any = layer, state: Any = state, others: Any = others) -> None:
            layer(state, *others)

        run()
        times = []
        for _ in range(options.repeats):
            state.copy_(first)
            times.append(cpu_seconds(run))
        seconds[name] = min(times)
    return {"seconds": seconds, "rate": (before + product_rate(options.precision)) / 2}


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
    """One measurement in a process of its own."""
    done = subprocess.run(
        [
            *(sys.executable, __file__, "--task", task, "--which", which, "--precision", precision),
            *("--size", str(size[0]), str(size[1]), "--repeats", str(repeats)),
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout)


def forward_table(rounds: int) -> None:
    print("### Forward, one block, no gradients\n")
    print("| S, R | block | s | GFLOP/s | torch.mm | fraction of torch.mm (rounds) | beside plain |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for size in SIZES:
        figures: dict[str, list[Any]] = {}
        for _ in range(rounds):
            for which, precision in (("plain", "float32"), ("ours", "float32"), ("ours", "bfloat16")):
                figures.setdefault(f"{which} {precision}", []).append(
                    measure("forward", size, which, precision)
                )
        plain = statistics.median(run["seconds"] for run in figures["plain float32"])
        for name, runs in figures.items():
            seconds = statistics.median(run["seconds"] for run in runs)
            fractions = [block_flops(*size) / run["seconds"] / run["rate"] for run in runs]
            print(
                f"| {size[0]}, {size[1]} | {name} | {seconds:.3f} | {block_flops(*size) / seconds / 1e9:.0f} | "
                f"{statistics.median(run['rate'] for run in runs) / 1e9:.0f} | "
                f"{statistics.median(fractions):.0%} ({min(fractions):.0%} to {max(fractions):.0%}) | "
                f"× {plain / seconds:.2f} |",
                flush=True,
            )
    print(
        "\nDistance from the plain block in float32, ‖d‖ / ‖block‖ for the MSA and for the pairs, at 128, 256:\n"
    )
    for name, (msa, pair) in measure("error", (128, 256), "ours").items():
        print(f"- {name}: {msa:.1e}, {pair:.1e}")


def layers_table(rounds: int) -> None:
    size = (128, 256)
    flops = layer_flops(*size)
    print("\n### By layer at 128, 256\n")
    print("| layer | GFLOP | float32 ms | of torch.mm | bfloat16 ms | of torch.mm |")
    print("| --- | --- | --- | --- | --- | --- |")
    runs = {
        precision: [measure("layers", size, "ours", precision) for _ in range(rounds)]
        for precision in ("float32", "bfloat16")
    }
    names = [[name] for name in flops]
    names.append([name for name in flops if name.startswith("triangle")])
    for group in names:
        cells = []
        for precision_runs in runs.values():
            milliseconds = statistics.median(sum(run["seconds"][n] for n in group) for run in precision_runs)
            fraction = statistics.median(
                sum(flops[n] for n in group) / sum(run["seconds"][n] for n in group) / run["rate"]
                for run in precision_runs
            )
            cells += [f"{1000 * milliseconds:.0f}", f"{fraction:.0%}"]
        label = group[0] if len(group) == 1 else "**triangle layers together**"
        print(f"| {label} | {sum(flops[n] for n in group) / 1e9:.1f} | {' | '.join(cells)} |")


def memory_table(rounds: int) -> None:
    print("\n### Memory above inputs and parameters\n")
    print("| S, R | plain MB | ours float32 MB | ours bfloat16 MB |")
    print("| --- | --- | --- | --- |")
    for size in SIZES:
        cells = [
            max(measure("memory", size, which, precision)["bytes"] for _ in range(min(rounds, 2))) / 1e6
            for which, precision in (("plain", "float32"), ("ours", "float32"), ("ours", "bfloat16"))
        ]
        print(f"| {size[0]}, {size[1]} | {' | '.join(f'{cell:.0f}' for cell in cells)} |", flush=True)


def training_table(rounds: int) -> None:
    print(f"\n### Forward and backward at {TRAINING_SIZE[0]}, {TRAINING_SIZE[1]}, float32\n")
    print("| block | s | GFLOP/s | beside plain | memory MB | beside plain |")
    print("| --- | --- | --- | --- | --- | --- |")
    seconds, held = {}, {}
    for which in ("plain", "ours"):
        runs = [measure("training", TRAINING_SIZE, which) for _ in range(rounds)]
        seconds[which] = statistics.median(run["seconds"] for run in runs)
        held[which] = measure("training memory", TRAINING_SIZE, which)["bytes"] / 1e6
        print(
            f"| {which} | {seconds[which]:.2f} | {3 * block_flops(*TRAINING_SIZE) / seconds[which] / 1e9:.0f} | "
            f"× {seconds['plain'] / seconds[which]:.2f} | {held[which]:.0f} | "
            f"{held[which] / held['plain']:.2f} |"
        )


def capture_table(rounds: int) -> None:
    print("\n### Capturing the row attention of one layer (mean over rows)\n")
    print("| S, R | precision | block s | with capture s | cost (rounds) | memory MB: block, with capture |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in SIZES:
        for precision in ("float32", "bfloat16"):
            runs = [measure("capture", size, "both", precision, repeats=4) for _ in range(rounds)]
            alone, captured = (statistics.median(run[name] for run in runs) for name in ("alone", "captured"))
            costs = sorted(run["captured"] / run["alone"] - 1 for run in runs)
            held = [
                measure("memory", size, which, precision)["bytes"] / 1e6 for which in ("ours", "captured")
            ]
            print(
                f"| {size[0]}, {size[1]} | {precision} | {alone:.3f} | {captured:.3f} | "
                f"{statistics.median(costs):.1%} ({costs[0]:.1%} to {costs[-1]:.1%}) | "
                f"{held[0]:.0f}, {held[1]:.0f} |",
                flush=True,
            )


def growth_table(rounds: int, figure: Path | None = None) -> None:
    print("\n### Growth with S and R, float32\n")
    print("| S, R | GFLOP | s | GFLOP/s |")
    print("| --- | --- | --- | --- |")
    points = {}
    for size in sorted({*BY_RESIDUES, *BY_ROWS}):
        runs = [measure("forward", size, "ours") for _ in range(min(rounds, 3))]
        seconds = statistics.median(run["seconds"] for run in runs)
        flops = block_flops(*size)
        points[size] = flops, seconds, statistics.median(run["rate"] for run in runs)
        print(f"| {size[0]}, {size[1]} | {flops / 1e9:.1f} | {seconds:.3f} | {flops / seconds / 1e9:.0f} |")
    if figure is not None:
        draw_growth(points, figure)


def draw_growth(points: dict[tuple[int, int], tuple[float, float, float]], path: Path) -> None:
    """Seconds over FLOPs, and what torch.mm would take for as many."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for label, sizes, marker in (
        ("128 rows, 64 to 384 residues", BY_RESIDUES, "o"),
        ("256 residues, 32 to 1024 rows", BY_ROWS, "s"),
    ):
        flops, seconds, _ = zip(*(points[size] for size in sizes), strict=True)
        axes.loglog([f / 1e9 for f in flops], seconds, marker=marker, label=label)
    ends = [min(f for f, _, _ in points.values()), max(f for f, _, _ in points.values())]
    rate = statistics.median(r for _, _, r in points.values())
    axes.loglog([f / 1e9 for f in ends], [f / rate for f in ends], "k:", label="as many FLOPs by torch.mm")
    axes.set_xlabel("GFLOP of one Evoformer block, float32")
    axes.set_ylabel("CPU seconds, one thread")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


TABLES = {
    "forward": forward_table,
    "layers": layers_table,
    "memory": memory_table,
    "training": training_table,
    "capture": capture_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*TABLES, "growth"], default=[*TABLES, "growth"])
    parser.add_argument("--figure", type=Path, help="draw the growth into this file (needs matplotlib)")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--which", help=argparse.SUPPRESS)
    parser.add_argument("--precision", help=argparse.SUPPRESS)
    parser.add_argument("--size", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--repeats", type=int, default=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(work(options)))
        return
    for name in options.only:
        if name == "growth":
            growth_table(options.rounds, options.figure)
        else:
            TABLES[name](options.rounds)


if __name__ == "__main__":
    main()
