"""Real yeast: do attention and attribution lie on known motifs in the conditions in which they should answer?

    python benchmarks/yeast_motifs.py --work DIR                 # trains, exports, scores: an hour on one core
    python benchmarks/yeast_motifs.py --work DIR --genes all     # attribution of all promoters, three times that
    python benchmarks/yeast_motifs.py --work DIR --match matrix  # sites by JASPAR matrices, not by consensus
    python benchmarks/yeast_motifs.py --work DIR --train "--config X.toml --readout shared" --without-attribution

The data of benchmarks/yeast.py, group means as treatments, and the table of expected pairs (BIOATTN_SHARED).
`cross` trains with data/settings/small-noisy.toml, or as --train says (in a folder of its own); a shared
readout has contributions, which are scored, too. Beside attention and in-silico mutagenesis stand, scored in
the same way, what mutations do in the 6-mer ridges that know nothing of attention, and what can be seen without
any model: Welch's t of the measured responses of genes with sites against those without. What is there already
is not made again. Prints Markdown.
"""

import argparse
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from common import options as command_line
from common import run, table
from scipy import stats
from yeast_data import build_dataset

from bioattn.choices import TRAIN
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.promoter_windows import hold_promoters
from bioattn.interpret.choices import ExplainMotifs, MatchBy
from bioattn.interpret.choices import KnownMotifSettings as Settings
from bioattn.interpret.motifs.expected_motifs import locate, read_expected
from bioattn.interpret.motifs.known_motifs import (
    BACKGROUND,
    score_known_motifs,
    score_pairs,
    summaries,
    write_known_motifs,
)
from bioattn.interpret.promoter_maps import PromoterMaps, Quantity, SiteMaps
from bioattn.models.promoter.training.baselines import (
    KMERS,
    Baseline,
    BaselineData,
    by_penalty,
    component_ridge,
    kmer_windows,
)
from bioattn.promoters.dataset import PromoterDataset, read_dataset

REPOSITORY = Path(__file__).resolve().parent.parent
CONTRASTS = (
    "heat_shock_25_37:aa_starvation",
    "aa_starvation:heat_shock_25_37",
    "H2O2:H2O2_yap1_mutant",
    "carbon_galactose:carbon_glucose",
)
PAIR = ["factor", "condition_group", "direction"]


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets, models and results")
    parser.add_argument("--seeds", default="0", help="comma-separated seeds; their signals are averaged")
    parser.add_argument("--genes", choices=("held-out", "all"), default="held-out", help="promoters scored")
    parser.add_argument("--match", choices=("consensus", "matrix"), default="consensus")
    parser.add_argument("--shuffles", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--train",
        metavar="OPTIONS",
        default=f"--config {REPOSITORY}/data/settings/small-noisy.toml",
        help="of `train promoter`",
    )
    parser.add_argument("--without-attribution", action="store_true", help="attention and ridges only")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    shared = Path(os.environ.get("BIOATTN_SHARED", REPOSITORY.parent / "shared"))
    if not (shared / "data" / "yeast").is_dir():
        raise SystemExit(f"no yeast data under {shared}; set BIOATTN_SHARED")
    dataset_path = build_dataset(shared, options.work, "upstream", "groups")
    dataset = read_dataset(dataset_path)
    promoters = dataset_path.parent / "promoters.fa"
    genes = held_out_genes(dataset, dataset_path.parent) if options.genes == "held-out" else None
    attention, attribution = model_results(dataset_path, promoters, genes, options)
    settings = Settings(
        contrasts=CONTRASTS,
        genes=(str(genes),) if genes else (),
        match_by=MatchBy(options.match),
        num_shuffled=options.shuffles,
    )
    expected = shared / "data" / "yeast" / "expected_motif_condition.tsv"
    motifs = shared / "data" / "motifs" / "JASPAR2024_CORE_fungi.meme"
    tables = [ridge_table(dataset, promoters, expected, motifs, settings)]
    output = options.work / f"known-motifs.{options.genes}.{options.match}.tsv"
    for results in filter(None, (attention, attribution)):
        given = ExplainMotifs(
            results=tuple(results),
            output=output,
            expected=expected,
            motif_database=motifs,
            promoters=promoters,
            settings=settings,
        )
        tables.append(score_known_motifs(given)[0])
    table = pd.concat(tables, ignore_index=True)
    write_known_motifs(output, table)
    print_tables(table, measured_effects(dataset, expected, motifs, settings), options)


def held_out_genes(dataset: PromoterDataset, folder: Path) -> Path:
    """The genes of the validation and test chromosomes, one a line."""
    path = folder / "held-out-genes.txt"
    names = [name for name, split in zip(dataset.gene_ids, dataset.gene_split, strict=True) if split != TRAIN]
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def model_results(
    dataset: Path, promoters: Path, genes: Path | None, options: argparse.Namespace
) -> tuple[list[Path], list[Path]]:
    """Attention and attribution files of the models of all seeds, made where they are missing."""
    folder, threads = dataset.parent, f"--threads {options.threads} -q"
    attention, attribution = [], []
    for seed in options.seeds.split(","):
        model = folder / f"motifs-model-{seed}"
        if not (model / "model.safetensors").exists():
            run(f"train promoter {dataset} -o {model} {options.train} --device cpu --seed {seed} {threads}")
        attention.append(folder / f"motifs-attention-{seed}.h5")
        if not attention[-1].exists():
            run(
                f"export attention {model} {promoters} -o {attention[-1]} --value-weighted --device cpu {threads}"
            )
        if options.without_attribution:
            continue
        attribution.append(folder / f"motifs-explain-{options.genes}-{seed}.h5")
        if not attribution[-1].exists():
            chosen = f"--genes {genes}" if genes else ""
            run(
                f"explain attribution {model} {promoters} -o {attribution[-1]} --method ism {chosen} --device cpu "
                f"{threads}"
            )
    return attention, attribution


def ridge_maps(
    ridge: Baseline, dataset: PromoterDataset, names: list[str], codes: np.ndarray
) -> PromoterMaps:
    """What mutations do in a linear model of k-mer counts: exact, without running it on mutants."""
    assert ridge.model is not None
    (block,), length = ridge.model.standardiser.blocks, dataset.length
    # What one occurrence of each k-mer adds, times the weight of its place.
    word_KT = (ridge.model.standardiser.factors[0][:, None] * ridge.model.coefficients)[block.columns]
    place_W = block.weights(length)[: length - block.k + 1]
    treatments = list(dataset.treatments.names)

    def read(rows: slice, chosen: list[str]) -> np.ndarray:
        words = word_KT[:, [treatments.index(name) for name in chosen]]
        return mutations(np.minimum(codes[rows], 3).astype(np.int64), block.k, words, place_W)[:, None]

    return PromoterMaps(
        quantity=Quantity.ATTRIBUTION,
        path=Path(ridge.name),
        sites=[SiteMaps(name=ridge.name, heads=[ridge.name], read=read)],
        samples=pd.DataFrame(index=names),
        treatments=treatments,
        window_length=length,
        key_edges=np.arange(length + 1),
    )


def mutations(codes_BL: np.ndarray, k: int, word_KT: np.ndarray, place_W: np.ndarray) -> np.ndarray:
    """(B, T, L): minus the mean over the four bases of what the mutation to each does."""
    windows = codes_BL.shape[1] - k + 1
    digits = 4 ** np.arange(k - 1, -1, -1)
    word_BW = sum(codes_BL[:, i : i + windows] * digit for i, digit in enumerate(digits))
    present_BWT = word_KT[word_BW]
    contributions_BLT = np.zeros((*codes_BL.shape, word_KT.shape[1]))
    for offset, digit in enumerate(digits):
        base_BW = codes_BL[:, offset : offset + windows]
        for step in (1, 2, 3):
            mutant_BW = word_BW + ((base_BW + step) % 4 - base_BW) * digit
            change_BWT = (word_KT[mutant_BW] - present_BWT) * place_W[:, None]
            contributions_BLT[:, offset : offset + windows] -= change_BWT / 4
    return contributions_BLT.transpose(0, 2, 1)


def ridge_table(
    dataset: PromoterDataset, promoters: Path, expected: Path, motifs: Path, settings: Settings
) -> pd.DataFrame:
    """The k-mer ridge and the component ridge, scored as the models are."""
    batches = list(hold_promoters(promoters, dataset.length).batches(1000))
    names = [name for batch in batches for name in batch.samples.ids]
    codes = np.concatenate([batch.codes for batch in batches])
    wanted = set(Path(settings.genes[0]).read_text().split()) if settings.genes else set(names)
    codes[[name not in wanted for name in names]] = UNKNOWN
    pairs, groups = read_expected(expected), {name: [name] for name in dataset.treatments.names}
    located = locate(pairs, codes, read_meme(motifs), settings)
    data = BaselineData(dataset)
    contrasts = [(contrast.split(":")[0], contrast.split(":")[1]) for contrast in settings.contrasts]
    return pd.concat(
        score_pairs(
            [ridge_maps(row, dataset, names, codes)], codes, pairs, located, groups, contrasts
        ).assign(signal=row.name)
        for row in (data.fitted("k-mer ridge", kmer_windows(data, KMERS), by_penalty), component_ridge(data))
    )


def measured_effects(dataset: PromoterDataset, expected: Path, motifs: Path, settings: Settings) -> pd.Series:
    """Welch's t of the measured responses of all genes with sites against those without, in the order of pairs."""
    codes = dataset.codes[:, dataset.flank : dataset.flank + dataset.length]
    pairs = read_expected(expected)
    located = locate(pairs, codes, read_meme(motifs), replace(settings, num_shuffled=0))
    names = list(dataset.treatments.names)
    found = {}
    for pair, each in zip(pairs, located, strict=True):
        values = dataset.targets[:, names.index(pair.condition)]
        has = np.zeros(dataset.num_genes, bool)
        has[each.sites.rows] = True
        known = ~np.isnan(values)
        test = stats.ttest_ind(values[known & has], values[known & ~has], equal_var=False)
        told = f"{pair.direction} ({pair.remark})" if pair.remark else pair.direction
        found[pair.factor, pair.condition, told] = float(test.statistic)
    return pd.Series(found)


def print_tables(found: pd.DataFrame, measured: pd.Series, given: argparse.Namespace) -> None:
    """Summaries by signal, then pairs by signal."""
    print(f"### Known motifs, {given.genes} promoters, sites by {given.match}\n")
    rows = []
    for each in summaries(found):
        own = found[(found["signal"] == each.signal) & (found["against"] == BACKGROUND)]
        shares = (each.shuffled_passing or 0, own["shuffled_significant"].astype(float).mean())
        passed = (
            f"{each.expected_passed} of {each.expected}",
            each.specific,
            f"{each.none_passed} of {each.none}",
        )
        rows.append([each.signal, *passed, *(f"{share:.1%}" for share in shares)])
    heading = ("signal", "expected pairs found", "also against all treatments", "silent as they should be")
    print(table([*heading, "shuffled motifs that pass", "significant against the background alone"], rows))
    signals = list(found["signal"].drop_duplicates())
    for against in [BACKGROUND, "treatments", *dict.fromkeys(text.split(":")[1] for text in CONTRASTS)]:
        chosen = found[found["against"] == against]
        if against not in (BACKGROUND, "treatments"):
            chosen = chosen[[f"{name}:{against}" in CONTRASTS for name in chosen["condition_group"]]]
        rows = [
            [*pair, f"{measured[pair]:.1f}", *(_cell(own[own["signal"] == each].iloc[0]) for each in signals)]
            for pair, own in chosen.groupby(PAIR, sort=False)
        ]
        print(f"Effect [95 % interval], share of shuffled motifs as large; against {against}\n")
        print(table(["motif", "condition", "expected", "measured t", *signals], rows))


def _cell(row: pd.Series) -> str:
    if np.isnan(row["effect"]):
        return "too few sites"
    mark = {True: "✓", False: "✗"}.get(row["passed"], "·")
    return (
        f"{mark} {row['effect']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}], {row['shuffled_p_value']:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
