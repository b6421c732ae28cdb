"""What a convolution, a recurrent layer and self-attention cost at equal width, over lengths from 64 to 8,192.

    python benchmarks/layers.py --figure docs/figures/layers.png

One forward pass over one sequence without gradients, one thread. Operations are multiply-adds, counted while the
layer runs. Time is CPU time, the least of several turns, each over all layers and lengths. Memory is the
most that torch's allocator gives at once. The path is measured with a number that is none: an input of NaN makes
NaN of every output that depends on it. Shape suffixes: L positions, C channels.
"""

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from bioattn.attention.capture import capture
from bioattn.attention.choices import AttentionScore
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis
from bioattn.figures.style import CYCLE, new_figure, styled, write_figure

WIDTH, KERNEL = 128, 9
LENGTHS = tuple(64 * 2**octave for octave in range(8))
TOP = LENGTHS[-4:]
"""The ends of the top three octaves."""
CONVOLUTION, RECURRENT, ATTENTION, KEPT = (
    "convolution",
    "recurrent layer",
    "self-attention",
    "self-attention, weights kept",
)
KERNEL_OF_TORCH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")
TURNS = 4
Layer = Callable[[Tensor], Tensor]


class Nobody:
    """A receiver that keeps nothing; with it, attention makes all its weights."""

    def receive(self, *_given: Any) -> None:
        """Take weights."""


def make_layers() -> dict[str, Layer]:
    """What makes outputs (1, L, C) of inputs (1, L, C)."""
    torch.manual_seed(0)
    convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)
    recurrent = nn.RNN(WIDTH, WIDTH, batch_first=True)
    axes = Axis("sample"), Axis("head"), Axis("query"), Axis("key")
    attention = MultiHeadAttention(
        query_channels=WIDTH,
        key_channels=WIDTH,
        value_channels=WIDTH,
        output_channels=WIDTH,
        num_heads=1,
        head_channels=WIDTH,
        score=AttentionScore.DOT,
        site=AttentionSite(name="self", axes=axes, heads=(0,)),
    )

    def kept(inputs: Tensor) -> Tensor:
        with capture(["self"], Nobody()):
            return attention(inputs, inputs, inputs)

    return {
        CONVOLUTION: lambda inputs: convolution(inputs.mT).mT,
        RECURRENT: lambda inputs: recurrent(inputs)[0],
        ATTENTION: lambda inputs: attention(inputs, inputs, inputs),
        KEPT: kept,
    }


def theory(name: str, length: int) -> int:
    """Multiply-adds of a layer."""
    if name == CONVOLUTION:
        return KERNEL * length * WIDTH**2
    if name == RECURRENT:  # products with the input and with the state
        return 2 * length * WIDTH**2
    return 2 * length**2 * WIDTH + 4 * length * WIDTH**2  # logits, mixing; queries, keys, values, outputs


class Calls(TorchDispatchMode):
    """Counts products of matrices."""

    number = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Pass a call on."""
        self.number += function.overloadpacket.__name__ in PRODUCTS
        return function(*args, **(kwargs or {}))


def counted(layer: Layer, length: int) -> tuple[int, int]:
    """Multiply-adds, and products of matrices (long attention makes them in pieces, which need not wait)."""
    others = {
        KERNEL_OF_TORCH: lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value),
        torch.ops.mkldnn._linear_pointwise: lambda left, right, *_, **__: 2 * math.prod(left) * right[0],
    }
    counter = FlopCounterMode(display=False, custom_mapping=others)
    with counter:
        layer(torch.randn(1, length, WIDTH))
    with Calls() as calls:
        layer(torch.randn(1, length, WIDTH))
    return counter.get_total_flops() // 2, calls.number


def path(layer: Layer, length: int) -> int:
    """Layers after which a change of the first input has reached the last output."""
    states = torch.zeros(1, length, WIDTH)
    states[0, 0] = math.nan
    for number in range(1, length + 1):
        states = torch.where(layer(states).isnan(), math.nan, 0.0)
        if bool(states[0, -1].isnan().any()):
            return number
    raise AssertionError("the last output does not depend on the first input")


def seconds(layers: dict[str, Layer], lengths: tuple[int, ...]) -> dict[str, np.ndarray]:
    """CPU seconds (lengths,) of each layer."""
    best = {name: np.full(len(lengths), np.inf) for name in layers}
    for _ in range(TURNS):
        for place, length in enumerate(lengths):
            inputs, times = torch.randn(1, length, WIDTH), max(1, 1024 // length)
            for name, layer in layers.items():
                layer(inputs)
                began = time.process_time()
                for _ in range(times):
                    layer(inputs)
                best[name][place] = min(best[name][place], (time.process_time() - began) / times)
    return best


def memory(layer: Layer, length: int) -> int:
    """Bytes that a pass holds at most beside its inputs."""
    inputs = torch.randn(1, length, WIDTH)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        layer(inputs)
    events = [each for each in profiler.profiler.kineto_results.events() if each.name() == "[memory]"]
    return int(np.cumsum([each.nbytes() for each in sorted(events, key=lambda each: each.start_ns())]).max())


def slope(values: np.ndarray) -> float:
    """By which power of the length values grow over the top three octaves."""
    return float(np.polyfit(np.log(TOP), np.log(values[-len(TOP) :]), 1)[0])


def crossing(lengths: np.ndarray, own: np.ndarray, other: np.ndarray) -> float:
    """The length from which on `own` is dearer, on straight lines between measured lengths."""
    above = np.log(own) - np.log(other)
    last = int(np.flatnonzero(above < 0).max())
    low, high = np.log(lengths[last]), np.log(lengths[last + 1])
    return float(np.exp(low + (high - low) * above[last] / (above[last] - above[last + 1])))


def predicted(times: dict[str, np.ndarray], other: str) -> float:
    """The same, foretold from times at the largest length alone, where all of an attention's time is n² d: its
    projections take 4 d² at the rate of a linear map, another layer takes as long for each position as there."""
    linear = nn.Linear(WIDTH, WIDTH)
    position = 4 * seconds({"": linear}, TOP[-1:])[""][0] / TOP[-1]
    square = times[ATTENTION][-1] / TOP[-1] ** 2 - position / TOP[-1]
    return float((times[other][-1] / TOP[-1] - position) / square)


@styled
def draw(times: dict[str, np.ndarray], bytes_of: dict[str, list[int]], output: Path) -> None:
    """Time and memory by length."""
    figure = new_figure(180, 75)
    for place, (what, values) in enumerate(
        (("CPU time (ms)", {name: 1e3 * each for name, each in times.items()}), ("memory (MB)", bytes_of))
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        for name, colour in zip(values, CYCLE, strict=False):
            shown = np.asarray(values[name], float)
            axes.loglog(
                LENGTHS, shown if place == 0 else shown / 1e6, "o-", color=colour, ms=3, lw=1, label=name
            )
        axes.set_xlabel("length")
        axes.set_ylabel(what)
        axes.set_xticks(LENGTHS, [f"{each:,}" for each in LENGTHS], rotation=45)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    axes.legend(frameon=False)
    write_figure(figure, output, dpi=150)


def main() -> None:
    """Measure, print tables, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        layers = make_layers()
        for layer in layers.values():
            layer(torch.randn(1, 512, WIDTH))
        for name, layer in layers.items():
            for length in LENGTHS[:6]:  # attention in pieces sums its weights by a product with ones
                assert counted(layer, length)[0] - theory(name, length) in (0, length**2 * ("att" in name))
        times = seconds(layers, LENGTHS)
        bytes_of = {name: [memory(layer, length) for length in LENGTHS] for name, layer in layers.items()}
        print("| layer | products at 32, 64 | layers at 64, 256 | slope: operations | CPU time | memory |")
        print("| --- " * 6 + "|")
        for name, layer in layers.items():
            calls = ", ".join(str(counted(layer, length)[1]) for length in (32, 64))
            reached = ", ".join(str(path(layer, length)) for length in (64, 256))
            exact = slope(np.array([theory(name, length) for length in LENGTHS], float))
            grown = slope(np.array(bytes_of[name], float))
            print(f"| {name} | {calls} | {reached} | {exact:.2f} | {slope(times[name]):.2f} | {grown:.2f} |")
        print("\n| CPU ms | " + " | ".join(f"{each:,}" for each in LENGTHS) + " |\n" + "| --- " * 9 + "|")
        for name, each in times.items():
            print(f"| {name} | " + " | ".join(f"{1e3 * value:.3g}" for value in each) + " |")
        print("\n| MB | " + " | ".join(f"{each:,}" for each in LENGTHS) + " |\n" + "| --- " * 9 + "|")
        for name, sizes in bytes_of.items():
            print(f"| {name} | " + " | ".join(f"{value / 1e6:.2g}" for value in sizes) + " |")
        fine = tuple(round(64 * 2 ** (step / 3)) for step in range(16))
        finer = seconds({name: layers[name] for name in (CONVOLUTION, RECURRENT, ATTENTION)}, fine)
        for name in (CONVOLUTION, RECURRENT):
            found = crossing(np.array(fine), finer[ATTENTION], finer[name])
            print(
                f"\n{ATTENTION} dearer than {name} from {found:.0f} on, foretold {predicted(times, name):.0f}"
            )
    if options.figure:
        draw(times, bytes_of, options.figure)


if __name__ == "__main__":
    main()
