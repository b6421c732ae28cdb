"""Do contributions of a plant core promoter model lie on the elements that act in each expression system?

    BIOATTN_SHARED=../shared python benchmarks/plant_core_maps.py --seeds 0 1 2 -o plant-core-maps.md

Trains `--readout shared -c model.position_bias=treatment` on the shared split (benchmarks/plant_core.py) and
exports the contributions of test promoters (`--phases 8`: bins of one base), and their mean over several seeds.
The sum of contributions over an element's site is compared with two controls, each at the same distance from the
start:

- GC content: windows without a site, in promoters of the same tenth by GC content;
- shuffled: where the element lies in dinucleotide-shuffled copies of the same promoter, read on the promoter's own
  map, both less the mean of all promoters at that place.

Intervals are over promoters (95 %, 1,000 resamples). Beside the model stands a ridge on 5-mers in three windows,
whose coefficients are shared by the bases of each 5-mer. The last table: what a site adds to measured responses.
"""

import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import mean_interval, options, report, run
from plant_core import MODELS, accuracy, prepare, train

import bioattn
from bioattn.formats.nucleotides import decode, dinucleotide_shuffled
from bioattn.promoters.dataset import PromoterDataset

START = 165
"""Bases before the start of transcription."""
SHUFFLES, RESAMPLES, TENTHS, SMOOTHED = 100, 1000, 10, 9
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


def interval(values: np.ndarray) -> str:
    """The mean of what is known, and its interval over promoters."""
    low, high = mean_interval(values, RESAMPLES)
    return f"{np.nanmean(values):+.3f} [{low:+.3f}, {high:+.3f}]"


def measured_effects(data: PromoterDataset) -> list[dict[str, object]]:
    """What a site adds to the measured responses of all promoters, by least squares."""
    codes_GL = np.minimum(data.codes, 3).astype(np.int64)
    gc_G = np.isin(codes_GL, (1, 2)).mean(axis=1)
    tenths_GT = np.eye(TENTHS)[np.argsort(np.argsort(gc_G)) * TENTHS // len(gc_G)]
    pairs_GP = 4 * codes_GL[:, :-1] + codes_GL[:, 1:]
    given = {
        "given the tenth by GC content": tenths_GT,
        "given the numbers of dinucleotides": np.stack(
            [(pairs_GP == pair).sum(axis=1) for pair in range(16)], 1
        ),
    }
    rows: list[dict[str, object]] = []
    for element in ELEMENTS:
        sites_G = np.bincount(sites_of(element, codes_GL)[0], minlength=len(codes_GL))
        for system, measured_G in zip(data.treatments.names, data.targets.T, strict=True):
            known = np.isfinite(measured_G)
            row: dict[str, object] = {
                "element": element.name,
                "system": system,
                "promoters": (sites_G > 0).sum(),
            }
            for name, others_GF in given.items():
                inputs_GF = np.column_stack([sites_G, others_GF])[known].astype(float)
                inverse_FF = np.linalg.inv(inputs_GF.T @ inputs_GF)
                fit_F = inverse_FF @ (inputs_GF.T @ measured_G[known])
                noise = np.var(measured_G[known] - inputs_GF @ fit_F)
                half = 1.96 * np.sqrt(noise * inverse_FF[0, 0])
                row[name] = f"{fit_F[0]:+.3f} [{fit_F[0] - half:+.3f}, {fit_F[0] + half:+.3f}]"
            rows.append(row)
    return rows


def ridge_maps(data: PromoterDataset) -> tuple[np.ndarray, np.ndarray]:
    """Maps (G, T, L) of test promoters, and predictions (G, T), of a ridge on 5-mers in three windows."""
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
    predicted = (counts_GF[valid] @ np.transpose(pair) for pair in zip(*fits, strict=True))
    scores = np.array([accuracy(data.targets[valid], found_GT) for found_GT in predicted])
    best_TF = np.stack([fits[t][int(np.argmax(scores[:, t, 0]))] for t in range(2)])
    maps = [window_sums(np.pad(fit_F[word_GN[test]] / 5, ((0, 0), (4, 4))), 5) for fit_F in best_TF]
    return np.stack(maps, axis=1), counts_GF[test] @ best_TF.T


def model_maps(folder: Path, seed: int, epochs: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Train and export: maps (G, T, L) of test promoters, and their predictions (G, T)."""
    fasta, dataset = prepare(folder)
    data = bioattn.open(dataset)
    model, some, attention = folder / f"model-{seed}", folder / "test.fa", folder / f"attention-{seed}.h5"
    if not model.exists():
        train(folder, dataset, model, name, epochs, seed)
    record_of = {record.split()[0]: f">{record}" for record in fasta.read_text().split(">")[1:]}
    chosen = zip(data.gene_ids, data.gene_split == 2, strict=True)
    some.write_text("".join(record_of[gene] for gene, kept in chosen if kept))
    run("export", "attention", model, some, "-o", attention, "--phases", 8, "--force", "-q")
    with bioattn.open(attention) as file:
        return file.at_bases().values, file.predictions().values


def measure(folder: Path, seeds: list[int], epochs: int, name: str) -> list[dict[str, object]]:
    """One row for each kind of map, element and system; the contributions of several models' mean prediction are
    the means of theirs."""
    models = [model_maps(folder, seed, epochs, name) for seed in seeds]
    data = bioattn.open(prepare(folder)[1])
    kinds = {f"seed {seed}": found for seed, found in zip(seeds, models, strict=True)}
    if len(seeds) > 1:
        maps, predictions = (np.mean(each, axis=0) for each in zip(*models, strict=True))
        kinds[f"mean of {len(seeds)}"] = maps, predictions
    kinds["ridge"] = ridge_maps(data)
    test = data.gene_split == 2
    codes_GL, rng = data.codes[test], np.random.default_rng(0)
    shuffled = [dinucleotide_shuffled(codes_GL, rng) for _ in range(SHUFFLES)]
    rows: list[dict[str, object]] = []
    for kind, (maps_GTL, predicted_GT) in kinds.items():
        figures = accuracy(data.targets[test], predicted_GT)
        print(kind, *(f"r {r:.3f}, specific {specific:.3f}" for r, specific in figures), sep="; ")
        for element in ELEMENTS:
            leaf, protoplast = (effects(element, maps_GTL[:, t], codes_GL, shuffled) for t in range(2))
            for where, (own, gc, others) in {
                LEAF: leaf,
                PROTOPLAST: protoplast,
                "leaf − protoplast": leaf - protoplast,
            }.items():
                rows.append(
                    {
                        "maps of": kind,
                        "element": element.name,
                        "system": f"**{where}**" if where in element.systems else where,
                        "promoters": int(np.isfinite(own).sum()),
                        "contribution of a site": f"{np.nanmean(own):+.3f}",
                        "beyond GC content": interval(gc),
                        "beyond shuffled": interval(others),
                    }
                )
    return rows


if __name__ == "__main__":
    parser = options(__doc__, seeds=(0, 1, 2))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--model", choices=list(MODELS), default="shared readout")
    parser.add_argument("--work", type=Path, help="keep models and maps here, and use those that are there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.work or Path(scratch)
        report(measure(work, arguments.seeds, arguments.epochs, arguments.model), arguments.output)
        report(measured_effects(bioattn.open(prepare(work)[1])), None)
