"""Tables, fits and estimates out of the figures that `scale.py` keeps.

    python benchmarks/scale_tables.py DIR/points.jsonl

A step's CPU time is fitted by a sum of terms, each a product of sizes (genes × bases, say), with factors of least
squares of the relative error that are not negative; points measured once are left out of the fit and foretold by
it. The time of Evoformer blocks is that of their matrix products at one rate.
"""

import json
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measured_process import processor
from scale import POINTS, SIZES, Point
from scale_estimates import block_flops, print_estimates
from scipy.optimize import nnls

TERMS: dict[str, tuple[str, ...]] = {
    "prepare promoters": ("", "genes", "megabases"),
    "prepare dataset": ("", "genes bases", "genes treatments"),
    "train": ("genes bases", "genes bases treatments", "genes treatments"),
    "baselines": ("", "genes bases", "genes treatments", "treatments"),
    "run": ("", "genes bases", "genes bases treatments", "genes treatments"),
    "export": ("", "genes bases", "genes bases treatments", "genes treatments"),
    "attribution": ("", "genes bases", "genes bases bases", "genes bases treatments"),
    "check": ("", "samples bases", "samples bases treatments", "samples treatments"),
    "small evoformer": ("", "rows residues", "residues residues", "residues residues residues"),
}
"""What the time of a step is made of; the empty term is what it takes to start."""


class Measured(NamedTuple):
    """Medians of a point."""

    point: Point
    cpu: float
    peak: float
    bytes: float
    repeats: list[float]


class Fit(NamedTuple):
    """CPU seconds as a sum of terms."""

    terms: tuple[str, ...]
    factors: list[float]

    def seconds(self, sizes: Mapping[str, int]) -> float:
        """What the fit says."""
        return sum(
            factor * term_of(term, sizes) for factor, term in zip(self.factors, self.terms, strict=True)
        )

    def __str__(self) -> str:
        parts = [
            f"{factor:.2g} s" + "".join(f" × {name}" for name in term.split())
            for factor, term in zip(self.factors, self.terms, strict=True)
            if factor > 0
        ]
        return " + ".join(parts)


def term_of(term: str, sizes: Mapping[str, int]) -> float:
    """The product of the sizes that a term names."""
    return float(math.prod(sizes[name] for name in term.split()))


def read(path: Path) -> dict[str, Measured]:
    """Medians over rounds by the names of points."""
    rounds: dict[str, list[dict[str, float]]] = defaultdict(list)
    for line in path.read_text().splitlines():
        found = json.loads(line)
        rounds[found["name"]].append(found)
    medians = {}
    for each in POINTS:
        if found := rounds.get(each.name):
            middle = {key: statistics.median(one[key] for one in found) for key in ("cpu", "peak", "bytes")}
            medians[each.name] = Measured(each, **middle, repeats=sorted(one["cpu"] for one in found))
    return medians


def fit(measured: list[Measured], terms: tuple[str, ...]) -> Fit:
    """Factors that leave the least relative errors."""
    design = np.array([[term_of(term, dict(one.point.sizes)) for term in terms] for one in measured])
    seconds = np.array([one.cpu for one in measured])
    scale = design.max(0)
    factors, _ = nnls(design / scale / seconds[:, None], np.ones(len(seconds)))
    return Fit(terms, list(factors / scale))


def fits(medians: Mapping[str, Measured]) -> dict[str, Fit]:
    """Every step that enough sizes of were measured."""
    found = {}
    for task, terms in TERMS.items():
        used = [
            one
            for one in medians.values()
            if one.point.task == task and not one.point.variant and not one.point.once
        ]
        if len(used) >= len(terms):
            found[task] = fit(used, terms)
    return found


def exponents(medians: Mapping[str, Measured], task: str, start: float) -> str:
    """How CPU time above `start` grows with each size alone: the least and the largest slope in logarithms."""
    used = [one for one in medians.values() if one.point.task == task and not one.point.variant]
    text = []
    for name in SIZES[task]:
        slopes = []
        for small in used:
            for large in used:
                first, second = dict(small.point.sizes), dict(large.point.sizes)
                alone = all((first[key] == second[key]) == (key != name) for key in first)
                if alone and first[name] < second[name] and small.cpu > start:
                    ratio = math.log((large.cpu - start) / (small.cpu - start))
                    slopes.append((first[name], second[name], ratio / math.log(second[name] / first[name])))
        if slopes:
            lowest, highest = min(slopes), max(slopes)
            text.append(
                f"{name}: {lowest[2]:.2f} ({lowest[0]:,} to {lowest[1]:,})"
                + (f", {highest[2]:.2f} ({highest[0]:,} to {highest[1]:,})" if highest != lowest else "")
            )
    return "; ".join(text)


def print_task(task: str, medians: Mapping[str, Measured], found: Fit | None) -> None:
    """One step: what was measured and what the fit makes of it."""
    rows = [one for one in medians.values() if one.point.task == task]
    if not rows:
        return
    print(f"\n### {task}\n")
    print("| " + " | ".join(SIZES[task]) + " | CPU s (rounds) | fit | memory MB | disk MB |")
    print("| --- " * (len(SIZES[task]) + 4) + "|")
    for one in rows:
        sizes = dict(one.point.sizes)
        foretold = ""
        if found is not None and not one.point.variant:
            seconds = found.seconds(sizes)
            foretold = f"{seconds:.2f} ({seconds / one.cpu - 1:+.0%})" + (
                " **foretold**" if one.point.once else ""
            )
        spread = "" if len(one.repeats) < 2 else f" ({one.repeats[0]:.2f} to {one.repeats[-1]:.2f})"
        variant = f" `{one.point.variant}`" if one.point.variant else ""
        print(
            f"| {' | '.join(f'{size:,}' for size in sizes.values())}{variant} | {one.cpu:.2f}{spread} "
            f"| {foretold} | {one.peak / 1e6:.0f} | {one.bytes / 1e6:.1f} |"
        )
    if found is not None:
        start = dict(zip(found.terms, found.factors, strict=True)).get("", 0.0)
        print(f"\nCPU time ≈ {found}.")
        print(f"\nExponents of the time above the start: {exponents(medians, task, start)}.")


def print_blocks(medians: Mapping[str, Measured]) -> dict[tuple[bool, str], float]:
    """Blocks of the Evoformer; gives FLOP/s by (extra MSA, precision), the median over sizes."""
    rates: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for task in ("block", "extra block"):
        rows = [one for one in medians.values() if one.point.task == task]
        if not rows:
            continue
        print(f"\n### {task}\n")
        print("| rows | residues | precision | GFLOP | CPU s (rounds) | GFLOP/s | memory MB |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for one in rows:
            sizes, precision = dict(one.point.sizes), one.point.variant or "fp32"
            flops = block_flops(sizes["rows"], sizes["residues"], extra=task == "extra block")
            rates[task == "extra block", precision].append(flops / one.cpu)
            print(
                f"| {sizes['rows']:,} | {sizes['residues']:,} | {precision} | {flops / 1e9:.0f} "
                f"| {one.cpu:.2f} ({one.repeats[0]:.2f} to {one.repeats[-1]:.2f}) | {flops / one.cpu / 1e9:.0f} "
                f"| {one.peak / 1e6:.0f} |"
            )
    return {key: statistics.median(found) for key, found in rates.items()}


def print_evoformer(medians: Mapping[str, Measured], rates: Mapping[tuple[bool, str], float]) -> Fit | None:
    """Whole passes; gives the fit of all that is not a block."""
    rows = [one for one in medians.values() if one.point.task == "evoformer"]
    if not rows or (False, "fp32") not in rates or (True, "fp32") not in rates:
        return None

    def stacks(sizes: Mapping[str, int]) -> float:
        residues, rows = sizes["residues"], min(128, sizes["rows"])
        extra = max(1, sizes["rows"] - 128)
        return (
            sizes["blocks"] * block_flops(rows, residues) / rates[False, "fp32"]
            + sizes["extra_blocks"] * block_flops(extra, residues, extra=True) / rates[True, "fp32"]
        )

    rest = [
        one._replace(cpu=max(0.1, one.cpu - stacks(dict(one.point.sizes))))
        for one in rows
        if not one.point.once
    ]
    found = fit(rest, ("", "residues", "residues residues"))
    print("\n### evoformer: whole passes\n")
    print(
        "| blocks + extra | rows | residues | CPU s (rounds) | stacks, from blocks | the rest, fitted | sum "
        "| memory MB |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for one in rows:
        sizes = dict(one.point.sizes)
        parts = stacks(sizes), found.seconds(sizes)
        print(
            f"| {sizes['blocks']} + {sizes['extra_blocks']} | {sizes['rows']:,} | {sizes['residues']:,} "
            f"| {one.cpu:.1f} ({one.repeats[0]:.1f} to {one.repeats[-1]:.1f}) | {parts[0]:.1f} | {parts[1]:.1f} "
            f"| {sum(parts):.1f} ({sum(parts) / one.cpu - 1:+.0%}){' **foretold**' if one.point.once else ''} "
            f"| {one.peak / 1e6:.0f} |"
        )
    print(f"\nThe rest (start, embedders, structure module, heads, files) ≈ {found}.")
    return found


def main() -> None:
    medians = read(Path(sys.argv[1]))
    found = fits(medians)
    print(f"{processor()}, one thread; MB = 10⁶ bytes; medians (least to most of the rounds)")
    for task in SIZES:
        if task not in ("block", "extra block", "evoformer"):
            print_task(task, medians, found.get(task))
    rates = print_blocks(medians)
    rest = print_evoformer(medians, rates)
    print_estimates(found, rates, rest)


if __name__ == "__main__":
    main()
