"""Do contributions of a plant core promoter model lie on the elements that act in each expression system?

    BIOATTN_SHARED=../shared python benchmarks/plant_core_maps.py --seeds 0 -o plant-core-maps.md

Trains `--readout shared --position-bias treatment` on the shared split (benchmarks/plant_core.py) and exports
the contributions of test promoters (`--phases 8`: bins of one base). The sum of contributions over an element's
site is compared with two controls, each at the same distance from the start:

- GC content: windows without a site, in promoters of the same tenth by GC content;
- shuffled: where the element lies in dinucleotide-shuffled copies of the same promoter, read on the promoter's own
  map, both less the mean of all promoters at that place.

Intervals are over promoters (95 %, 1,000 resamples). Beside the model stands a ridge on 5-mers in three windows,
whose coefficients are shared by the bases of each 5-mer.
"""

import argparse
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from plant_core import MODELS, prepare, train
from planted_rules import report, run

import bioattn
from bioattn.formats.nucleotides import decode
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.dinucleotide_shuffle import dinucleotide_shuffled

START = 165
"""Bases before the start of transcription."""
SHUFFLES, RESAMPLES, TENTHS, SMOOTHED = 5, 1000, 10, 9
PENALTIES = (30, 100, 300, 1000, 3000)


class Element(NamedTuple):
    """A pattern, the region of its sites (from the start), and the systems in which it should raise."""

    name: str
    pattern: str
    width: int
    region: tuple[int, int]
    systems: tuple[str, ...]


LEAF, PROTOPLAST = "tobacco_leaf", "maize_protoplast"
UPSTREAM = (-165, -45)
ELEMENTS = (
    Element("TATA box (TATAWA)", "TATA[AT]A", 6, (-45, 5), (LEAF, PROTOPLAST)),
    Element("AT-rich (8 A or T)", "[AT]{8}", 8, UPSTREAM, (LEAF,)),
    Element("CCGG", "CCGG", 4, UPSTREAM, (PROTOPLAST,)),
    Element("GGCG or CGCC", "GGCG|CGCC", 4, UPSTREAM, (PROTOPLAST,)),
)


def sites_of(element: Element, codes_GL: np.ndarray) -> np.ndarray:
    """(2, sites): promoter and first base of every site, left to right without overlaps."""
    low, high = (START + each for each in element.region)
    found = [
        (row, match.start())
        for row, codes in enumerate(codes_GL)
        for match in re.finditer(element.pattern, decode(codes))
        if low <= match.start() and match.end() <= high
    ]
    return np.array(found, dtype=np.int64).reshape(-1, 2).T


def window_sums(values_GL: np.ndarray, width: int) -> np.ndarray:
    """(G, L - width + 1)."""
    running = np.pad(np.cumsum(values_GL, axis=1), ((0, 0), (1, 0)))
    return running[:, width:] - running[:, :-width]


def smoothed(values_GN: np.ndarray) -> np.ndarray:
    """(N,) means of what is known, over promoters and `SMOOTHED` neighbouring starts."""
    kernel, known_GN = np.ones(SMOOTHED), np.isfinite(values_GN)
    totals_N = np.convolve(np.where(known_GN, values_GN, 0).sum(axis=0), kernel, "same")
    return totals_N / np.maximum(np.convolve(known_GN.sum(axis=0), kernel, "same"), 1)


def by_promoter(rows: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    """(G,) means of the values of each promoter; NaN without any."""
    counts = np.bincount(rows, minlength=number)
    return np.where(counts > 0, np.bincount(rows, values, number) / np.maximum(counts, 1), np.nan)


def effects(
    element: Element, map_GL: np.ndarray, codes_GL: np.ndarray, shuffled: list[np.ndarray]
) -> np.ndarray:
    """(3, G): of promoters with sites (else NaN) their mean contribution, and what it is beyond either control."""
    sums_GN = window_sums(map_GL, element.width)
    number, num_starts = sums_GN.shape
    rows, starts = sites_of(element, codes_GL)
    with_site_GN = np.zeros(sums_GN.shape, dtype=bool)
    for offset in range(1 - element.width, element.width):
        with_site_GN[rows, np.clip(starts + offset, 0, num_starts - 1)] = True
    gc_G = np.isin(codes_GL, (1, 2)).mean(axis=1)
    tenth_G = np.argsort(np.argsort(gc_G)) * TENTHS // number
    free_GN = np.where(with_site_GN, np.nan, sums_GN)
    usual_TN = np.stack([smoothed(free_GN[tenth_G == tenth]) for tenth in range(TENTHS)])
    risen_GN = sums_GN - sums_GN.mean(axis=0)
    other_rows, other_starts = np.hstack([sites_of(element, codes) for codes in shuffled])
    at_shuffled_G = by_promoter(other_rows, risen_GN[other_rows, other_starts], number)
    return np.stack(
        [
            by_promoter(rows, sums_GN[rows, starts], number),
            by_promoter(rows, sums_GN[rows, starts] - usual_TN[tenth_G[rows], starts], number),
            by_promoter(rows, risen_GN[rows, starts], number) - at_shuffled_G,
        ]
    )


def interval(values: np.ndarray, rng: np.random.Generator) -> str:
    """The mean of what is known, and its interval over promoters."""
    known = values[np.isfinite(values)]
    draws = rng.choice(known, (RESAMPLES, len(known))).mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{known.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def r_of(predicted_GT: np.ndarray, data: PromoterDataset, side: np.ndarray) -> list[float]:
    """r of each system over the promoters of a side."""
    measured_GT = data.targets[side]
    known_GT = np.isfinite(measured_GT)
    columns = zip(predicted_GT.T, measured_GT.T, known_GT.T, strict=True)
    return [float(np.corrcoef(ours[known], theirs[known])[0, 1]) for ours, theirs, known in columns]


def ridge_maps(data: PromoterDataset) -> tuple[np.ndarray, list[float]]:
    """Maps (G, T, L) of test promoters, and r of each system, of a ridge on 5-mers in three windows."""
    codes_GL = np.minimum(data.codes, 3).astype(np.int64)
    num_words = data.length - 4
    word_GN = sum(codes_GL[:, place : num_words + place] * 4 ** (4 - place) for place in range(5))
    word_GN = word_GN + 1024 * np.digitize(np.arange(num_words), [60, 120])
    counts_GF = np.zeros((len(codes_GL), 3 * 1024))
    np.add.at(counts_GF, (np.arange(len(codes_GL))[:, None], word_GN), 1)
    train, valid, test = (data.gene_split == side for side in range(3))
    counts_GF -= counts_GF[train].mean(axis=0)
    fits = []
    for measured_G in data.targets.T:
        known = train & np.isfinite(measured_G)
        values, vectors = np.linalg.eigh(counts_GF[known].T @ counts_GF[known])
        turned = vectors.T @ (counts_GF[known].T @ (measured_G[known] - measured_G[known].mean()))
        fits.append([vectors @ (turned / (values + penalty)) for penalty in PENALTIES])
    scores = [r_of(counts_GF[valid] @ np.transpose(pair), data, valid) for pair in zip(*fits, strict=True)]
    best_TF = np.stack([fits[t][int(np.argmax(np.array(scores)[:, t]))] for t in range(2)])
    maps = [window_sums(np.pad(fit_F[word_GN[test]] / 5, ((0, 0), (4, 4))), 5) for fit_F in best_TF]
    return np.stack(maps, axis=1), r_of(counts_GF[test] @ best_TF.T, data, test)


def measure(folder: Path, seed: int, epochs: int, name: str) -> list[dict[str, object]]:
    """Train and export; one row for each kind of map, element and system."""
    fasta, dataset = prepare(folder)
    data = bioattn.open(dataset)
    test = data.gene_split == 2
    codes_GL = data.codes[test]
    model, some, attention = folder / f"model-{seed}", folder / "test.fa", folder / f"attention-{seed}.h5"
    if not model.exists():
        train(folder, dataset, model, name, epochs, seed)
    record_of = {record.split()[0]: f">{record}" for record in fasta.read_text().split(">")[1:]}
    some.write_text("".join(record_of[gene] for gene, kept in zip(data.gene_ids, test, strict=True) if kept))
    run("export", "attention", model, some, "-o", attention, "--phases", 8, "-q")
    with bioattn.open(attention) as file:
        model_maps = file.at_bases(contributions=True).values, r_of(file.predictions().values, data, test)
    rng = np.random.default_rng(seed)
    shuffled = [dinucleotide_shuffled(codes_GL, rng) for _ in range(SHUFFLES)]
    rows: list[dict[str, object]] = []
    for kind, (maps_GTL, r_T) in (("model", model_maps), ("ridge", ridge_maps(data))):
        maps_of = f"{kind} (r {r_T[0]:.3f}, {r_T[1]:.3f})"
        for element in ELEMENTS:
            leaf, protoplast = (effects(element, maps_GTL[:, t], codes_GL, shuffled) for t in range(2))
            for where, (own, gc, others) in {
                LEAF: leaf,
                PROTOPLAST: protoplast,
                "leaf − protoplast": leaf - protoplast,
            }.items():
                rows.append(
                    {
                        "seed": seed,
                        "maps of": maps_of,
                        "element": element.name,
                        "system": f"**{where}**" if where in element.systems else where,
                        "promoters": int(np.isfinite(own).sum()),
                        "contribution of a site": f"{np.nanmean(own):+.3f}",
                        "beyond GC content": interval(gc, rng),
                        "beyond shuffled": interval(others, rng),
                    }
                )
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--model", choices=list(MODELS), default="shared readout")
    parser.add_argument("--work", type=Path, help="keep models and maps here, and use those that are there")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        report(
            [
                row
                for seed in arguments.seeds
                for row in measure(work, seed, arguments.epochs, arguments.model)
            ],
            arguments.output,
        )
