"""What much larger jobs would cost: arithmetic on measured fits, counted multiplications and published figures.

Nothing here was measured at the size it speaks of. 1 multiplication and 1 addition count
as 2 floating-point operations (FLOP).
"""

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Protocol

HOUR, DAY = 3600.0, 86400.0
EPOCHS = 20
GENOMES = ((20_000, 1000), (20_000, 2000), (60_000, 1000), (60_000, 2000))
TREATMENTS = 1000
HEADS, BIN = 4, 8
"""Of the default promoter model."""

PROTEINS = 10_000
MEDIAN_LENGTH, SPREAD, LONGEST = 290.0, 0.62, 1500
"""Log-normal, mean 350 (UniProt 2023_03 has 349 on average), cut at `LONGEST`."""
CLUSTERS, EXTRA, PASSES = 512, 5120, 4
BLOCKS, EXTRA_BLOCKS = 48, 4
MSA, EXTRA_MSA, PAIR, OUTER = 256, 64, 128, 32
MSA_HEADS, PAIR_HEADS = 8, 4

TFLOPS = {
    "V100, fp32": 15.7,
    "A100, fp32": 19.5,
    "A100, bf16": 312.0,
    "H100 SXM, fp32": 66.9,
    "H100 SXM, bf16": 989.4,
}
"""Peaks of the makers' data sheets, without sparsity."""
UTILISATION = {"fp32": 0.20, "bf16": 0.02}
PROMOTER_UTILISATION = 0.05
"""Of the fp32 peak: kernels are small and wait for memory. An assumption; nothing was measured."""
ALPHAFOLD_V100 = {256: 0.6 * 60, 384: 1.1 * 60, 2500: 2.1 * HOUR}
"""Seconds of one model without ensembling, by residues (Jumper et al. 2021, Methods)."""


class Seconds(Protocol):
    """A fit of CPU time."""

    def seconds(self, sizes: Mapping[str, int]) -> float:
        """What it says for these sizes."""


def block_flops(rows: int, residues: int, *, extra: bool = False) -> float:
    """Operations of the matrix products of one block of AlphaFold's widths; `extra`: of the extra-MSA stack."""
    channels = EXTRA_MSA if extra else MSA
    cells, pairs = 2.0 * rows * residues, 2.0 * residues**2
    row_attention = cells * (5 * channels**2 + 2 * residues * channels) + pairs * MSA_HEADS * PAIR
    if extra:
        head = channels // MSA_HEADS
        column_attention = cells * (channels * (2 * head + channels) + channels**2 + 2 * channels)
        column_attention += 2.0 * residues * channels**2
    else:
        column_attention = cells * (5 * channels**2 + 2 * rows * channels)
    transition = cells * 8 * channels**2
    outer_product = cells * 2 * OUTER * channels + pairs * OUTER**2 * (rows + PAIR)
    multiplication = pairs * (6 * PAIR * PAIR + residues * PAIR)
    attention = pairs * (5 * PAIR**2 + PAIR_HEADS * PAIR + 2 * residues * PAIR)
    pair_transition = pairs * 8 * PAIR**2
    return (
        row_attention
        + column_attention
        + transition
        + outer_product
        + 2 * multiplication
        + 2 * attention
        + pair_transition
    )


def pass_flops(residues: int) -> float:
    """Operations of both stacks in one pass."""
    extra = EXTRA_BLOCKS * block_flops(EXTRA, residues, extra=True)
    return BLOCKS * block_flops(CLUSTERS, residues) + extra


def promoter_flops(bases: int, treatments: int, *, training: bool) -> float:
    """Operations of one promoter through the default `cross` model; training: forward and backward.

    Stem: 64 filters of 15 bases, both strands. Per bin: a convolution over 5 bins, keys, values. Per treatment and
    bin: scores and means over 64 channels. Per treatment: questions, output and readout.
    """
    bins = bases / BIN
    stem = 2.0 * bases * 4 * 15 * 64 * 2
    per_bin = 2.0 * bins * (5 * 64 * 64 + 2 * 64 * 64)
    per_cell = 2.0 * treatments * bins * 2 * 64
    per_treatment = 2.0 * treatments * (64 * 64 + (64 + 32) * 128 + 128)
    behind = per_bin + per_cell + per_treatment
    # Bases have no gradient, so the stem is gone through twice, what is behind it three times.
    return 2 * stem + 3 * behind if training else stem + behind


def lengths(number: int = 200) -> list[int]:
    """Lengths that stand for equal shares of the proteins."""
    normal = NormalDist(math.log(MEDIAN_LENGTH), SPREAD)
    return [min(LONGEST, round(math.exp(normal.inv_cdf((i + 0.5) / number)))) for i in range(number)]


def attention_bytes(genes: int, treatments: int, bases: int, *, heads: int = HEADS, width: int = 4) -> float:
    """Weights of the one site of `cross`."""
    return float(genes) * treatments * heads * -(-bases // BIN) * width


def alignment_attention_bytes(residues: int) -> dict[str, float]:
    """Bytes of one alignment's attention with `mean-rows` and float32, by kind of site, all blocks."""
    maps = 4.0 * residues**2
    return {
        "rows": (BLOCKS + EXTRA_BLOCKS) * MSA_HEADS * maps,
        "triangles": (BLOCKS + EXTRA_BLOCKS) * 2 * PAIR_HEADS * maps,
        "columns": BLOCKS * MSA_HEADS * 4.0 * CLUSTERS**2 + EXTRA_BLOCKS * MSA_HEADS * 4.0 * EXTRA,
        "points": 8 * 12 * maps,
    }


def print_estimates(
    fits: Mapping[str, Seconds], rates: Mapping[tuple[bool, str], float], rest: Seconds | None
) -> None:
    """Markdown of both."""
    print("\n## Estimates\n\nArithmetic on the figures above; **nothing below was run**.")
    if {"prepare dataset", "train", "baselines", "run", "export"} <= fits.keys():
        print_genome(fits)
    if len(rates) == 4 and rest is not None:
        print_proteins(rates, rest)


def print_genome(fits: Mapping[str, Seconds]) -> None:
    """A human genome's promoters."""
    print(f"\n### {TREATMENTS:,} treatments on promoters of a human genome\n")
    print("| | " + " | ".join(f"{genes:,} × {bases:,} bp" for genes, bases in GENOMES) + " |")
    print("| --- " * (len(GENOMES) + 1) + "|")

    def row(name: str, value: Callable[[int, int], str]) -> None:
        print(f"| {name} | " + " | ".join(value(genes, bases) for genes, bases in GENOMES) + " |")

    def cpu(task: str, factor: float = 1.0) -> Callable[[int, int], str]:
        return lambda genes, bases: hours(
            factor * fits[task].seconds({"genes": genes, "treatments": TREATMENTS, "bases": bases})
        )

    row("prepare dataset, core time", cpu("prepare dataset"))
    row("simple models of the same split, core time", cpu("baselines"))
    row(f"training, {EPOCHS} epochs, core time", cpu("train", EPOCHS))
    peak = TFLOPS["A100, fp32"] * PROMOTER_UTILISATION
    row(
        f"the same on one A100 at {PROMOTER_UTILISATION:.0%} of its fp32 peak",
        lambda genes, bases: hours(
            EPOCHS * genes * promoter_flops(bases, TREATMENTS, training=True) / (peak * 1e12)
        ),
    )
    row("run, core time", cpu("run"))
    row("export, core time", cpu("export"))
    row("attention, float32, all heads", lambda g, b: size(attention_bytes(g, TREATMENTS, b)))
    row("`--dtype float16`", lambda g, b: size(attention_bytes(g, TREATMENTS, b, width=2)))
    row("`--reduce mean-heads`", lambda g, b: size(attention_bytes(g, TREATMENTS, b, heads=1)))
    row("`--phases 4`", lambda g, b: size(4 * attention_bytes(g, TREATMENTS, b)))
    row("50 treatments, mean over heads", lambda g, b: size(attention_bytes(g, 50, b, heads=1)))
    row("mutagenesis of all: attribution file", lambda g, b: size(16.0 * g * TREATMENTS * b))
    if "attribution" in fits:
        row("mutagenesis of all, core time", cpu("attribution"))


def print_proteins(rates: Mapping[tuple[bool, str], float], rest: Seconds) -> None:
    """Ten thousand proteins through the published trunk."""
    found = lengths()
    share = PROTEINS / len(found)
    total = PASSES * share * sum(pass_flops(length) for length in found)
    mean = sum(found) / len(found)
    print(
        f"\n### {PROTEINS:,} proteins through AlphaFold's trunk\n\n"
        f"Lengths: log-normal, mean {mean:.0f}, a tenth above {found[int(0.9 * len(found))]:,}, a hundredth above "
        f"{found[int(0.99 * len(found))]:,}, cut at {LONGEST:,}. {CLUSTERS} + {EXTRA:,} rows, {PASSES} passes. "
        f"Both stacks take {total / 1e18:.2f} × 10¹⁸ FLOP in all; one protein of {mean:.0f} residues "
        f"{PASSES * pass_flops(round(mean)) / 1e12:.0f} × 10¹²."
    )
    print(
        "\nWhat AlphaFold's own times on a V100 say about the share of the peak that is reached (one model, "
        "without ensembling):\n"
    )
    print("| residues | seconds published | FLOP counted here | TFLOP/s | of 15.7 (fp32) |")
    print("| --- | --- | --- | --- | --- |")
    for residues, seconds in ALPHAFOLD_V100.items():
        flops = PASSES * pass_flops(residues)
        rate = flops / seconds / 1e12
        print(
            f"| {residues:,} | {seconds:,.0f} | {flops / 1e12:,.0f} × 10¹² | {rate:.1f} | {rate / 15.7:.0%} |"
        )
    print("\n| on | FLOP/s | share of the peak | all | one of 350 residues | of 1,000 | on 8 |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for precision in ("fp32", "bf16"):

        def cpu(residues: int, precision: str = precision) -> float:
            blocks = BLOCKS * block_flops(CLUSTERS, residues) / rates[False, precision]
            extra = EXTRA_BLOCKS * block_flops(EXTRA, residues, extra=True) / rates[True, precision]
            return PASSES * (blocks + extra + rest.seconds({"residues": residues}))

        whole = share * sum(cpu(length) for length in found)
        rate = f"{rates[False, precision] / 1e9:.0f} × 10⁹"
        print(
            f"| a core of this machine, {precision} | {rate} | measured | {hours(whole)} | {hours(cpu(350))} "
            f"| {hours(cpu(1000))} | {hours(whole / 8)} |"
        )
    for name, peak in TFLOPS.items():
        used = UTILISATION[name.split()[-1]]
        rate = peak * 1e12 * used
        print(
            f"| {name} | {rate / 1e12:.1f} × 10¹² | {used:.0%}, assumed | {hours(total / rate)} "
            f"| {hours(PASSES * pass_flops(350) / rate)} | {hours(PASSES * pass_flops(1000) / rate)} "
            f"| {hours(total / rate / 8)} |"
        )
    kinds = {
        kind: share * sum(alignment_attention_bytes(length)[kind] for length in found)
        for kind in alignment_attention_bytes(100)
    }
    print(
        f"\nAttention of all, `mean-rows`, float32: {size(sum(kinds.values()))} ("
        + ", ".join(f"{kind} {size(value)}" for kind, value in kinds.items())
        + f"); rows alone as float16 {size(kinds['rows'] / 2)}; the row attention of one block "
        f"{size(kinds['rows'] / (BLOCKS + EXTRA_BLOCKS))}."
    )


def hours(seconds: float) -> str:
    """In words that can be read."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * HOUR:
        return f"{seconds / 60:.0f} min"
    if seconds < 3 * DAY:
        return f"{seconds / HOUR:.1f} h"
    if seconds < 1000 * DAY:
        return f"{seconds / DAY:,.0f} d"
    return f"{seconds / DAY / 365:,.0f} years"


def size(number: float) -> str:
    """Bytes in powers of ten."""
    for unit, bytes_ in (("TB", 1e12), ("GB", 1e9)):
        if number >= bytes_:
            return f"{number / bytes_:,.1f} {unit}"
    return f"{number / 1e6:,.0f} MB"
