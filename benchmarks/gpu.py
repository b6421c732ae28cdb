"""A GPU: MSA/pair blocks beside a plain block, a protein from start to end, training and maps beside the CPU.

    python benchmarks/gpu.py -o gpu.md [blocks protein training maps]

`blocks`: one Evoformer block of AlphaFold's widths (`benchmarks/evoformer_block.py` has inputs and the plain one),
median of five runs; a fraction is that of torch.mm of 8,192³ in the same run; memory is the peak while it runs,
less inputs and weights. `protein`: `run evoformer` with a random model of AlphaFold's shape. `training`: time
of an update, from two lengths of `train` with the same model. `maps`: `export attention` of promoters to a file.
Products of float32 are exact (no TF32) where no row says otherwise. A row is written when it is known.
"""

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import options, run
from benchmarks.evoformer_block import block_flops, make_block, make_inputs
from benchmarks.evoformer_plain import PlainBlock
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, StructureModuleConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.run import write_evoformer_model

SIZES = ((128, 256), (512, 256), (512, 384), (512, 768), (512, 1536))
"""Rows and residues."""
LENGTH, ROWS = 350, 2000
TRAINED = {
    "promoter": ("promoter promoters.dataset.h5 --no-baselines", "--epochs", (3, 23), (2, 6), 20),
    "evoformer": ("evoformer contacts.dataset.h5", "--steps", (5, 65), (2, 12), 1),
    "language": ("language words.dataset.h5", "--steps", (5, 65), (2, 8), 1),
    "translation": ("translation pairs.dataset.h5", "--steps", (5, 65), (2, 8), 1),
}
"""What is trained with default settings, the option for how long, shorter and longer on both devices, updates of
one of these."""
INPUTS = """
simulate promoters -o made --genes 1600 --treatments 10 --length 600
prepare promoters made/genome.fa made/annotation.gff3 --upstream 600 --downstream 0 --flank 20 -o promoters.fa
prepare dataset promoters.fa made/responses.tsv --treatment-table made/treatments.tsv -o promoters.dataset.h5
prepare language promoters.fa -o words.dataset.h5 --alphabet dna --split record
simulate msa -o families --families 4 --depth 100:120
prepare contacts families/PAIRS.tsv -o contacts.dataset.h5
simulate translation --task reverse-complement --pairs 1000 --shortest 200 --longest 300 -o pairs
prepare translation pairs --source-alphabet dna --target-alphabet dna --split record -o pairs.dataset.h5
"""


def milliseconds(work: Callable[[], object], device: torch.device) -> float:
    """Median of five runs."""
    work()
    found = []
    for _ in range(5):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        found.append(1e3 * (time.perf_counter() - began))
    return statistics.median(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def blocks(device: torch.device, sizes: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """A row for each size and precision."""
    yield "| rows × residues | precision | bioattn, ms | of torch.mm | GB | plain, ms | GB | plain takes |"
    yield "| --- " * 8 + "|"
    for precision in ("float32", "TF32", "bfloat16"):
        torch.set_float32_matmul_precision("high" if precision == "TF32" else "highest")
        dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
        block = make_block(str(dtype).removeprefix("torch.")).to(device)
        plain = PlainBlock(make_block("float32")).to(device)
        side = 8192 if device.type == "cuda" else 1024
        square = torch.randn(side, side, device=device, dtype=dtype)
        rate = 2 * side**3 / milliseconds(lambda a=square: a @ a, device)
        for rows, residues in sizes:
            msa, pair, *masks = (each.to(device) for each in make_inputs(rows, residues))
            ours = _measured(lambda m=msa, p=pair, b=block, k=masks: b(m.clone(), p.clone(), *k), device)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16"):
                other = _measured(lambda m=msa, p=pair, b=plain, k=masks: b(m, p, *k), device)
            share = f"{block_flops(rows, residues) / ours[0] / rate:.0%}" if ours else "–"
            longer = f"{other[0] / ours[0]:.2f} × as long" if ours and other else "–"
            one, two = (each or ("out of memory", "–") for each in (ours, other))
            yield (
                f"| {rows} × {residues} | {precision} | {_shown(one[0])} | {share} | {_shown(one[1])} | "
                f"{_shown(two[0])} | {_shown(two[1])} | {longer} |"
            )


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}"


@torch.no_grad()
def _measured(work: Callable[[], object], device: torch.device) -> tuple[float, float] | None:
    """Milliseconds, and GB at most; None where memory does not suffice."""
    if device.type != "cuda":
        return milliseconds(work, device), 0.0
    torch.cuda.empty_cache()
    try:
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        peak = torch.cuda.max_memory_allocated(device) - before
        return milliseconds(work, device), peak / 1e9
    except torch.OutOfMemoryError:
        return None


def protein(device: torch.device, blocks: int) -> Iterator[str]:
    """Wall seconds of whole commands, with four passes and 512 + 1,024 rows."""
    torch.manual_seed(0)
    model = EvoformerModel(EvoformerConfig(num_blocks=blocks, structure_module=StructureModuleConfig()))
    Path("model").mkdir()
    write_evoformer_model(Path("model"), model, InputSettings(max_msa_clusters=512, max_extra_msa=1024))
    letters = np.array(list("ACDEFGHIKLMNPQRSTVWY"))
    generator = np.random.default_rng(0)
    query = generator.choice(letters, LENGTH)
    with Path("x.a3m").open("w") as file:
        for row in range(ROWS):
            own = np.where(
                generator.random(LENGTH) < 0.4 * bool(row), generator.choice(letters, LENGTH), query
            )
            file.write(f">r{row}\n{''.join(own)}\n")
    yield "| `run evoformer`, 350 residues, 512 + 1,024 rows, 4 passes | seconds | GB at most |"
    yield "| --- | --- | --- |"
    maps = " --attention maps.h5 --sites evoformer.*.msa_row"
    for name, words in (("fp32", ""), ("bf16", ""), ("bf16", maps)):
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        began = time.perf_counter()
        given = f"run evoformer x.a3m --model model --precision {name} --device {device.type} -o out --force"
        run(given + words)
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else 0.0
        what = f"{name}{', maps of all 48 row attentions kept' if words else ''}"
        yield f"| {what} | {seconds:.1f} | {peak:.1f} |"


def training(device: torch.device) -> Iterator[str]:
    """A row for each family."""
    yield "| training, default settings | GPU, ms an update | CPU, ms an update | GPU is |"
    yield "| --- " * 4 + "|"
    for name, (words, option, on_gpu, on_cpu, updates) in TRAINED.items():
        found = []
        for place, (where, lengths) in enumerate(((device.type, on_gpu), ("cpu", on_cpu))):
            seconds = []
            for number in lengths:
                began = time.perf_counter()
                run(f"train {words} -o {name}-{place}-{number} {option} {number} --device {where}")
                seconds.append(time.perf_counter() - began)
            found.append(1e3 * (seconds[1] - seconds[0]) / (lengths[1] - lengths[0]) / updates)
        yield f"| {name} | {found[0]:.1f} | {found[1]:.1f} | {found[1] / found[0]:.1f} × as fast |"


def maps(device: torch.device) -> Iterator[str]:
    """Wall seconds of whole commands."""
    yield "| `export attention`, 1,600 promoters × 10 treatments × 600 bases | seconds |"
    yield "| --- | --- |"
    run("train promoter promoters.dataset.h5 -o maps-model --epochs 3 --no-baselines")
    for where in (device.type, "cpu"):
        began = time.perf_counter()
        run(f"export attention maps-model promoters.fa --device {where} -o {where}.h5")
        yield f"| {where} | {time.perf_counter() - began:.1f} |"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help="blocks, protein, maps, training [default: all]")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes that a CPU can do, to see that it runs")
    given = parser.parse_args()
    device = torch.device(given.device)
    parts = given.parts or ["blocks", "protein", "maps", "training"]
    with (
        (given.output or Path("/dev/stdout")).open("w") as file,
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        for line in INPUTS.strip().splitlines() if {"training", "maps"} & set(parts) else ():
            run(line)
        made = {
            "blocks": lambda: blocks(device, ((16, 32),) if given.small else SIZES),
            "protein": lambda: protein(device, 1 if given.small else 48),
            "training": lambda: training(device),
            "maps": lambda: maps(device),
        }
        for part in parts:
            began = time.perf_counter()
            for row in made[part]():
                print(row, file=file, flush=True)
            print(f"\n{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            print(file=file)


if __name__ == "__main__":
    main()
