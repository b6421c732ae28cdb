"""A GPU: MSA/pair blocks beside a plain block, gradients, maps, a protein from start to end, embeddings.

    python benchmarks/gpu.py -o gpu.md [blocks training maps protein language]

At most five minutes on an H100. `language` wants transformers; wheels that may be installed before:
cuequivariance-torch and cuequivariance-ops-torch-cu12 (or -cu13, as torch's CUDA).

Blocks have AlphaFold's widths (`benchmarks/evoformer_block.py` has inputs and the plain one) and bfloat16, the
plain one under autocast; medians of seven runs; a fraction is that of torch.mm of 8,192³; memory is the peak while
it runs, less inputs and weights. `protein` and `language` time whole commands of random models of AlphaFold's and
ESM-2 650M's shape; of the embeddings' time that of one protein, the start, is taken off.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.common import options
from benchmarks.evoformer_block import Mean, block_flops, make_block, make_inputs
from benchmarks.evoformer_plain import PlainBlock
from bioattn.attention.capture import capture
from bioattn.attention.kernels import Used
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, StructureModuleConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.pair_updates import CUEQUIVARIANCE_LEAST, use_kernels
from bioattn.models.evoformer.run import write_evoformer_model
from bioattn.models.evoformer.stacks import compile_blocks
from bioattn.system.device import Compile, Kernels

SIZES = ((128, 256), (512, 384), (512, 768))
"""Rows and residues."""
SMALL = (4, 12)
PROTEINS = 64
AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
TOKENS = ("<cls>", "<pad>", "<eos>", "<unk>", *"LAGVSERTIDPKQNFYMHWCXBUZO.-", "<null_1>", "<mask>")


def measured(work: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Milliseconds, the median of seven runs, and GB at most; not a number where memory does not suffice."""
    seconds, before = [], 0
    try:
        for _ in range(9):
            if device.type == "cuda":
                before = torch.cuda.memory_allocated(device)
                torch.cuda.reset_peak_memory_stats(device)
            began = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds.append(time.perf_counter() - began)
        peak = (torch.cuda.max_memory_allocated(device) - before) / 1e9 if before else 0.0
    except torch.OutOfMemoryError:
        return float("nan"), float("nan")
    return 1e3 * statistics.median(seconds[2:]), peak


def ours(device: torch.device, compiled: Compile) -> Any:
    block = make_block("bfloat16").to(device)
    compile_blocks(block, compiled, device, 0)
    return block


@torch.no_grad()
def blocks(device: torch.device, small: bool) -> Iterator[str]:
    used = use_kernels(Kernels.AUTO, device)
    yield f"| rows × residues | kernels: {used} | masks | ms | of torch.mm | GB | plain takes | full masks |"
    side = 8192 if device.type == "cuda" else 512
    square = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    rate = 2 * side**3 / measured(lambda: square @ square, device)[0]
    plain, triangle = PlainBlock(make_block("float32")).to(device), Used.triangle
    for rows, residues in [SMALL] if small else SIZES:
        msa, pair, *ragged = (each.to(device) for each in make_inputs(rows, residues))
        ones = [torch.ones_like(mask) for mask in ragged]
        ways: list[tuple[str, Any, bool]] = [("plain, autocast", plain, False)]
        ways += [
            ("bioattn", ours(device, Compile.OFF), False),
            ("bioattn, compiled", ours(device, Compile.ON), False),
        ]
        if triangle and residues >= CUEQUIVARIANCE_LEAST:
            ways.append(("bioattn, compiled, cuEquivariance", ours(device, Compile.ON), True))
        rival = float("nan")
        for name, block, Used.triangle in ways:
            full = None
            for masks in [ones] if block is plain else [(None, None), ragged]:
                with torch.autocast(device.type, torch.bfloat16, enabled=block is plain):
                    ms, peak = measured(partial(block, msa, pair, *masks), device)
                rival, full = ms if block is plain else rival, full or ms
                yield (
                    f"| {rows} × {residues} | {name} | {'ragged' if masks is ragged else 'full'} | {ms:.2f} | "
                    f"{block_flops(rows, residues) / ms / rate:.1%} | {peak:.2f} | "
                    f"{rival / ms:.2f} × as long | {ms / full:.2f} × |"
                )
        torch._dynamo.reset()


def training(device: torch.device, small: bool) -> Iterator[str]:
    size = SMALL if small else (128, 384)
    yield f"| forward and backward, {size[0]} × {size[1]}, bfloat16 | ms | GB | plain takes |"
    msa, pair, *ragged = (each.to(device) for each in make_inputs(*size))
    leaves, ones = (msa.requires_grad_(), pair.requires_grad_()), [torch.ones_like(mask) for mask in ragged]

    def step(block: Any, masks: Sequence[Any], autocast: bool) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            states = block(*leaves, *masks)
        sum(state.float().square().mean() for state in states).backward()

    plain, rival = PlainBlock(make_block("float32")).to(device), None
    for name, block, masks in (
        ("plain, autocast", plain, ones),
        ("bioattn", ours(device, Compile.OFF), (None, None)),
        ("bioattn, compiled", ours(device, Compile.ON), (None, None)),
        ("bioattn, compiled, ragged masks", ours(device, Compile.ON), ragged),
    ):
        found = measured(lambda b=block, m=masks: step(b, m, b is plain), device)
        rival = rival or found
        yield f"| {name} | {found[0]:.1f} | {found[1]:.2f} | {rival[0] / found[0]:.2f} × as long |"
    torch._dynamo.reset()


@torch.no_grad()
def maps(device: torch.device, small: bool) -> Iterator[str]:
    size = SMALL if small else (512, 384)
    yield f"| a block of {size[0]} × {size[1]}, bfloat16 | ms | GB | with the mean map | GB | cost |"
    msa, pair, *_ = (each.to(device) for each in make_inputs(*size))
    used = use_kernels(Kernels.AUTO, device)
    for compiled in (Compile.OFF, Compile.ON):
        work = partial(ours(device, compiled), msa, pair, None, None)
        alone = measured(work, device)
        with capture(["evoformer.00.msa_row"], Mean()):
            kept = measured(work, device)
        cells = " | ".join(f"{value:.2f}" for value in (*alone, *kept))
        yield f"| compiled: {compiled}; kernels: {used} | {cells} | {kept[0] / alone[0] - 1:+.1%} |"
    torch._dynamo.reset()


def command(*words: str) -> float:
    """Wall seconds of a command in a process of its own."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "bioattn_cli", *words, "--quiet"], check=True)
    return time.perf_counter() - began


def protein(device: torch.device, small: bool) -> Iterator[str]:
    torch.manual_seed(0)
    model = EvoformerModel(
        EvoformerConfig(num_blocks=1 if small else 48, structure_module=StructureModuleConfig())
    )
    Path("model").mkdir()
    write_evoformer_model(Path("model"), model, InputSettings(max_msa_clusters=512, max_extra_msa=1024))
    length, rows = (24, 40) if small else (350, 2000)
    letters, generator = np.array(list(AMINO_ACIDS)), np.random.default_rng(0)
    query = generator.choice(letters, length)
    with Path("x.a3m").open("w") as file:
        for row in range(rows):
            mutated = generator.random(length) < 0.4 * bool(row)
            file.write(f">r{row}\n{''.join(np.where(mutated, generator.choice(letters, length), query))}\n")
    yield f"| `run evoformer --precision bf16`, {length} residues, 512 + 1,024 rows, 4 passes | seconds |"
    words = (
        f"run evoformer x.a3m --model model --precision bf16 --device {device.type} -o out --force".split()
    )
    kept = ["--attention", "maps.h5", "--sites", "evoformer.*.msa_row"]
    for name, more in (
        ("as it is, no compile cache", []),
        ("maps of all row attentions kept", kept),
        ("--compile on, no compile cache", ["--compile", "on"]),
        ("--compile on, a warm cache", ["--compile", "on"]),
    ):
        yield f"| {name} | {command(*words, *more):.1f} |"


def language(device: torch.device, small: bool) -> Iterator[str]:
    from transformers import EsmConfig, EsmForMaskedLM, EsmTokenizer

    Path("vocab.txt").write_text("\n".join(TOKENS))
    tokenizer = EsmTokenizer("vocab.txt")
    widths = (64, 3, 4, 128) if small else (1280, 33, 20, 5120)
    names = "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"
    shape: dict[str, Any] = dict(zip(names, widths, strict=True)) | {"position_embedding_type": "rotary"}
    shape |= {"token_dropout": True, "mask_token_id": 32, "pad_token_id": 1, "max_position_embeddings": 1026}
    with device:
        EsmForMaskedLM(EsmConfig(vocab_size=len(TOKENS), **shape)).save_pretrained("esm")
    tokenizer.save_pretrained("esm")
    random = np.random.default_rng(1)
    proteins = ["".join(random.choice(list(AMINO_ACIDS), random.integers(100, 501))) for _ in range(PROTEINS)]
    records = [f">p{number}\n{letters}\n" for number, letters in enumerate(proteins)]
    Path("all.fa").write_text("".join(records))
    Path("one.fa").write_text(records[0])
    rival = EsmForMaskedLM.from_pretrained("esm", dtype=torch.bfloat16, attn_implementation="sdpa")
    rival, ordered = rival.to(device).eval(), sorted(proteins, key=len)

    @torch.no_grad()
    def embed() -> None:
        for start in range(0, PROTEINS, 16):
            batch = tokenizer(ordered[start : start + 16], return_tensors="pt", padding=True).to(device)
            rival.esm(**batch).last_hidden_state.float().mean(1).cpu()

    seconds = measured(embed, device)[0] / 1e3
    words = ["--precision", "bf16", "--device", device.type, "--embeddings", "x.h5"]
    one, every = (command("run", "language", "esm", f"{name}.fa", *words) for name in ("one", "all"))
    yield f"| embeddings of {PROTEINS} proteins, {widths[1]} layers, bfloat16 | seconds |"
    yield f"| transformers, SDPA, batches of 16 | {seconds:.2f} |"
    yield f"| `run language`, above the start of {one:.1f} s | {every - one:.2f} |"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help="blocks, training, maps, protein, language [default: all]")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes that a CPU can do")
    given = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{root / 'cli'}"
    with (
        (given.output or Path("/dev/stdout")).open("w") as file,
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
    ):
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{folder}/compiled"
        for part in given.parts or ("blocks", "training", "maps", "protein", "language"):
            for number, row in enumerate(globals()[part](torch.device(given.device), given.small)):
                rule = "" if number else "\n" + "| --- " * (row.count("|") - 1) + "|"
                print(row + rule, file=file, flush=True)
            print(file=file)


if __name__ == "__main__":
    main()
