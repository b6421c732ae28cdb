"""Language models of genomes and of a protein family, beside counts and profiles on the same split.

    python benchmarks/language.py ecoli yeast --work DIR --seeds 0
    python benchmarks/language.py family --work DIR --seeds 0 1 2

ecoli, yeast: bits per base given those before it, on positions whose 16 preceding bases occur on neither strand of
the training side (E. coli: 0-80 % train, 80-90 % validation, 90-100 % test; yeast: VII and X, IV and XV). Beside
it `counts`: every order from 0 to the longest, each with the order below as its Dirichlet prior, whose strength is
chosen on such positions of the validation side; and, where an annotation says it, order 5 given strand and place
in the codon.
family: perplexity of the residues of held-out rows of PF13354, left to right, gaps given, and Spearman of scores
with the fitness of TEM-1 mutants; beside them the profile (rows weighted at 80 %, pseudocount 5). Splits:
../shared/data/splits/README.md. Intervals: 2,000 resamples of blocks of 1,000 bases, of rows, of mutants; 95 %.
A model that stands in DIR is not trained again.
"""

import gzip
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import SHARED, bootstrap, options, report, run

from bioattn.alignments.alphabet import msa_codes
from bioattn.alignments.weights import sequence_weights
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import encode, reverse_complement
from bioattn.models.language.folder import load_language_model
from bioattn.models.language.simple_models import Profile
from bioattn.sequences.sequence_dataset import open_sequence_dataset
from bioattn.sequences.vocabulary import CLS, SPECIAL

REPOSITORY = Path(__file__).resolve().parent.parent
DATA = SHARED / "data"
SETTINGS = REPOSITORY / "data" / "settings"
SEEN = 16
"""Bases before a position that make it unique where training has none like them."""
SKIPPED = 24
"""Positions at the start of a test sequence that have too few bases before them."""
BLOCK = 1_000
LONGEST_TABLE = 11
"""Orders below this one are counted in a table, others among the words that occur."""
STRENGTHS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, np.inf)
FRAME_STRENGTH = 16.0


def words_before(codes: np.ndarray, order: int) -> np.ndarray:
    """Of each base the `order` bases before it as one number; −1 where there are fewer, or one is unknown."""
    padded = np.concatenate([np.full(order, 4, np.int64), codes.astype(np.int64)])
    number, unknown = np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_)
    for back in range(order, 0, -1):
        base = padded[order - back : len(padded) - back]
        number, unknown = number * 4 + base % 4, unknown | (base > 3)
    return np.where(unknown, -1, number)


def followers(training: list[np.ndarray], asked: Sequence[np.ndarray], order: int) -> list[np.ndarray]:
    """How often A, C, G, T follow the `order` bases before each base of `asked`: (bases, 4) each."""
    contexts = np.concatenate([words_before(codes, order) for codes in training])
    bases = np.concatenate(training).astype(np.int64)
    known = (contexts >= 0) & (bases < 4)
    words = contexts[known] * 4 + bases[known]
    wanted = [words_before(codes, order)[:, None] * 4 + np.arange(4) for codes in asked]
    if order < LONGEST_TABLE:
        table = np.append(np.bincount(words, minlength=4 ** (order + 1)), 0)
        return [table[np.maximum(each, -1)].astype(np.float64) for each in wanted]
    values, counts = np.unique(words, return_counts=True)
    places = [np.minimum(np.searchsorted(values, each), len(values) - 1) for each in wanted]
    return [
        np.where(values[place] == each, counts[place], 0).astype(np.float64)
        for place, each in zip(places, wanted, strict=True)
    ]


def bits(probability: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """−log2 of the probability (bases, 4) of each base; NaN for an unknown one."""
    own = -np.log2(np.take_along_axis(probability, np.minimum(codes, 3)[:, None].astype(int), 1)[:, 0])
    return np.where(codes < 4, own, np.nan)


def mixed(counts: np.ndarray, below: np.ndarray, strength: float) -> np.ndarray:
    """Probabilities by counts (bases, 4) with those of the order below as their Dirichlet prior."""
    if np.isinf(strength):
        return below
    return (counts + strength * below) / (counts.sum(-1, keepdims=True) + strength)


def counts_bits(
    training: list[np.ndarray], validation: np.ndarray, asked: np.ndarray, test: np.ndarray, orders: int
) -> dict[int, np.ndarray]:
    """Bits of each base of `test`, by the longest order.

    asked: positions of `validation` by which the strengths of priors are chosen.
    """
    both = [np.full((len(codes), 4), 0.25) for codes in (validation, test)]
    found = {}
    for order in range(orders + 1):
        counts = followers(training, (validation, test), order)
        loss = [
            np.nanmean(bits(mixed(counts[0], both[0], strength), validation)[asked]) for strength in STRENGTHS
        ]
        best = STRENGTHS[int(np.argmin(loss))]
        both = [mixed(each, below, best) for each, below in zip(counts, both, strict=True)]
        found[order] = bits(both[1], test)
    return found


def frames(genome: np.ndarray, annotation: Path) -> np.ndarray:
    """Of each base its place in a codon: 1 to 3 forward, 4 to 6 on the other strand, 0 outside genes."""
    frame = np.zeros(len(genome), np.int64)
    with gzip.open(annotation, "rt") as file:
        rows = [line.split("\t") for line in file if line[0] != "#"]
    for row in rows:
        if row[2] == "CDS":
            place = np.arange(int(row[3]) - 1, int(row[4]))
            forward = row[6] == "+"
            offset = place - place[0] if forward else place[-1] - place
            frame[place] = (offset - int(row[7])) % 3 + (1 if forward else 4)
    return frame


def frame_bits(genome: np.ndarray, frame: np.ndarray, train_end: int, test_start: int) -> np.ndarray:
    """Bits of each base of the test side by order 5 given the frame; the prior of an order is the one below."""
    turned = frame[:train_end][::-1]
    training = [
        (genome[:train_end], frame[:train_end]),
        (reverse_complement(genome[:train_end]), np.where(turned > 0, (turned + 2) % 6 + 1, 0)),
    ]
    test, own_frame = genome[test_start:], frame[test_start:]
    probability = np.full((len(test), 4), 0.25)
    for order in range(6):
        counts = np.zeros((7, 4**order, 4))
        for codes, frames_of in training:
            context = words_before(codes, order)
            known = (context >= 0) & (codes < 4)
            np.add.at(counts, (frames_of[known], context[known], codes[known]), 1)
        own = counts[own_frame, np.maximum(words_before(test, order), 0)]
        probability = mixed(own, probability, FRAME_STRENGTH)
    return bits(probability, test)


def network_bits(folder: Path, codes: np.ndarray, stride: int = 128) -> np.ndarray:
    """Bits of each base by a decoder that sees at least context − stride tokens before it (less at the start)."""
    model = load_language_model(folder, torch.device("cpu")).model
    size = model.config.context - 1
    starts = range(0, max(1, len(codes) - size + stride), stride)
    found = np.full(len(codes), np.nan)
    for first in range(0, len(starts), 64):
        own = [codes[start : start + size] for start in starts[first : first + 64]]
        tokens = np.full((len(own), max(map(len, own)) + 1), CLS)
        for row, each in zip(tokens, own, strict=True):
            row[1 : len(each) + 1] = each.astype(np.int64) + len(SPECIAL)
        with torch.inference_mode():
            logits = model(torch.from_numpy(tokens[:, :-1]))[..., len(SPECIAL) :][..., :4]
            probability = logits.float().softmax(-1).numpy()
        for start, each, given in zip(starts[first : first + 64], own, probability, strict=True):
            new = 0 if start == 0 else size - stride
            found[start + new : start + len(each)] = bits(given[: len(each)], each)[new:]
    return found


def paired(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Mean difference in bits of positions with its interval, by blocks; NaN is left out."""
    blocks = np.arange(len(ours)) // BLOCK
    known = np.isfinite(ours) & np.isfinite(theirs)
    sums = np.bincount(blocks[known], (ours - theirs)[known], minlength=blocks[-1] + 1)
    sizes = np.bincount(blocks[known], minlength=blocks[-1] + 1)
    low, high = bootstrap(lambda chosen: sums[chosen].sum() / sizes[chosen].sum(), len(sums))
    return f"{sums.sum() / sizes.sum():+.4f} [{low:+.4f}, {high:+.4f}]"


def train(dataset: Path, output: Path, settings: str, seed: int, steps: int | None) -> float:
    """Train a model where it is not there. Returns the CPU minutes it took; NaN for one that was there."""
    if output.exists():
        return float("nan")
    began = time.process_time()
    given = ("--steps", steps) if steps else ()
    config = ("--config", SETTINGS / settings)
    run("train", "language", dataset, "-o", output, *config, "--seed", seed, "--no-baselines", *given, "-q")
    return (time.process_time() - began) / 60


def next_base(work: Path, genome: str, seed: int, steps: int | None) -> list[dict[str, object]]:
    """One row of bits per base for each predictor."""
    fasta, split, orders = {
        "ecoli": ("ecoli/GCF_000005845.2_ASM584v2_genomic.fna.gz", ("--split", "position"), 24),
        "yeast": (
            "yeast/R64_ensembl.genome.fa.gz",
            ("--split", "record", "--holdout", "validation=VII,X", "--holdout", "test=IV,XV"),
            8,
        ),
    }[genome]
    path = work / f"{genome}.dataset.h5"
    if not path.exists():
        run("prepare", "language", DATA / fasta, *split, "-o", path, "-q")
    minutes = train(path, work / f"{genome}-{seed}", "language-genome.toml", seed, steps)
    data = open_sequence_dataset(path)
    sides = [[np.asarray(data.segment(n)) for n in data.segments_in(side)] for side in range(3)]
    training = [strand for codes in sides[0] for strand in (codes, reverse_complement(codes))]
    # The last bases of a sequence do not stand before the first ones of the next.
    validation, test = (
        np.concatenate([np.append(codes, np.full(SKIPPED, 4, np.uint8)) for codes in side])
        for side in sides[1:]
    )
    known = (words_before(test, SKIPPED) >= 0) & (test < 4)
    predicted = {
        "this network": np.concatenate(
            [
                np.append(network_bits(work / f"{genome}-{seed}", codes), np.full(SKIPPED, np.nan))
                for codes in sides[2]
            ]
        )
    }
    of_training = np.concatenate([words_before(codes, SEEN) for codes in training])
    asked = ~np.isin(words_before(validation, SEEN), of_training)
    by_order = counts_bits(training, validation, asked, test, orders)
    predicted |= {f"counts, orders 0 to {order}": by_order[order] for order in (6, orders)}
    if genome == "ecoli":
        (record,) = read_fasta(DATA / fasta)
        whole = encode(record.sequence)
        frame = frames(whole, DATA / "ecoli/GCF_000005845.2_ASM584v2_genomic.gff.gz")
        own = frame_bits(whole, frame, len(sides[0][0]), len(whole) - len(sides[2][0]))
        predicted["order 5 given the frame"] = np.append(own, np.full(SKIPPED, np.nan))
    unique = known & ~np.isin(words_before(test, SEEN), of_training)
    rows: list[dict[str, object]] = []
    for name, each in predicted.items():
        difference = paired(
            *(np.where(unique, values, np.nan) for values in (predicted["this network"], each))
        )
        rows.append(
            {
                "genome": genome,
                "seed": seed,
                "predictor": name,
                "bits, unique": f"{np.nanmean(each[unique]):.4f}",
                "network less this": difference,
                "bits, all": f"{np.nanmean(each[known]):.4f}",
                "positions seen": f"{1 - unique.sum() / known.sum():.4f}",
                "CPU minutes": minutes,
            }
        )
    return rows


def spearman(x: np.ndarray, y: np.ndarray) -> float:
    return float(pd.Series(x).corr(pd.Series(y), method="spearman"))


def family(work: Path, seed: int, steps: int | None) -> list[dict[str, object]]:
    """Perplexity of held-out rows and Spearman of mutants, of the network and of the profile."""
    work.mkdir(parents=True, exist_ok=True)
    rows = list(read_fasta(DATA / "msa_structure/msa/pfam_PF13354_1FQG.fasta.gz"))
    split = pd.read_csv(DATA / "splits/pf13354_rows.tsv.gz", sep="\t")
    side = dict(zip(split["id"], split["split"].replace("near", "validation"), strict=True))
    fasta, table, path = work / "family.fa", work / "family.split.tsv", work / "family.dataset.h5"
    fasta.write_text("".join(f">{row.name}\n{row.sequence}\n" for row in rows))
    table.write_text("gene\tsplit\n" + "".join(f"{name}\t{value}\n" for name, value in side.items()))
    if not path.exists():
        alphabet = ("--alphabet", "alignment", "--split-table", table)
        run("prepare", "language", fasta, *alphabet, "-o", path, "-q")
    model = work / f"family-{seed}"
    minutes = train(path, model, "language-family.toml", seed, steps)

    letters = np.frombuffer("".join(row.sequence for row in rows).encode(), np.uint8).reshape(len(rows), -1)
    sides = np.array([side[row.name] for row in rows])
    vocabulary = load_language_model(model, torch.device("cpu")).vocabulary
    tokens = [vocabulary.tokenize(vocabulary.encode(row.sequence, row.name)) for row in rows]
    training = np.flatnonzero(sides == "train")
    weights = sequence_weights(msa_codes(letters[training]))
    profile = Profile.counted((tokens[row] for row in training), weights, len(vocabulary.tokens)).nats_LV
    residues = len(SPECIAL) + np.flatnonzero(np.array(list(vocabulary.letters)) != "-")
    profile = profile - np.logaddexp.reduce(profile[:, residues], axis=1)[:, None]

    test = np.flatnonzero(sides == "test")
    (work / "test.fa").write_text("".join(f">{rows[n].name}\n{rows[n].sequence}\n" for n in test))
    run("run", "language", model, work / "test.fa", "-o", work / "test.tsv", "-q")
    ours = pd.read_csv(work / "test.tsv", sep="\t")
    theirs = np.array([_row_nats(profile, tokens[n], vocabulary.gap) for n in test])
    words = ours["words"].to_numpy()
    perplexities = [
        lambda chosen, nats=nats: float(np.exp(-nats[chosen].sum() / words[chosen].sum()))
        for nats in (ours["log_likelihood"].to_numpy(), theirs)
    ]
    everyone = np.arange(len(test))
    ratio = bootstrap(lambda chosen: perplexities[0](chosen) - perplexities[1](chosen), len(test))

    fitness = pd.read_csv(DATA / "variants/tem1_blat_ecolx.tsv.gz", sep="\t").set_index("mutant")
    columns = pd.read_csv(DATA / "splits/tem1_columns.tsv.gz", sep="\t").set_index("mutant")
    columns = columns.join(fitness["fitness_2500"]).dropna()
    row = np.full(letters.shape[1], "-")
    for mutant, column in columns["alignment_column"].items():
        row[column] = mutant[0]
    (work / "tem1.fa").write_text(f">TEM-1\n{''.join(row)}\n")
    in_columns = [
        f"{mutant[0]}{column + 1}{mutant[-1]}" for mutant, column in columns["alignment_column"].items()
    ]
    (work / "tem1.tsv").write_text(
        "sequence\tmutant\n" + "".join(f"TEM-1\t{mutant}\n" for mutant in in_columns)
    )
    scores = work / f"scores-{seed}.tsv"
    run("run", "language", model, work / "tem1.fa", "--variants", work / "tem1.tsv", "-o", scores, "-q")
    scored = pd.read_csv(scores, sep="\t")["score"].to_numpy()
    mean = sum(pd.read_csv(path, sep="\t")["score"] for path in work.glob("scores-*.tsv")).to_numpy()
    number = {letter: len(SPECIAL) + place for place, letter in enumerate(vocabulary.letters)}
    simple = np.array(
        [
            profile[column, number[mutant[-1]]] - profile[column, number[mutant[0]]]
            for mutant, column in columns["alignment_column"].items()
        ]
    )
    measured = columns["fitness_2500"].to_numpy()

    def gain(scored: np.ndarray) -> tuple[float, float]:
        return bootstrap(
            lambda chosen: (
                spearman(scored[chosen], measured[chosen]) - spearman(simple[chosen], measured[chosen])
            ),
            len(measured),
            500,
        )

    return [
        {
            "seed": seed,
            "figure": name,
            "network": f"{own:.3f}",
            "profile": f"{other:.3f}",
            "difference": f"[{low:+.3f}, {high:+.3f}]",
            "number": count,
            "CPU minutes": minutes,
        }
        for name, own, other, (low, high), count in (
            ("perplexity", perplexities[0](everyone), perplexities[1](everyone), ratio, len(test)),
            ("Spearman", spearman(scored, measured), spearman(simple, measured), gain(scored), len(measured)),
            (
                "Spearman, mean of the seeds so far",
                spearman(mean, measured),
                spearman(simple, measured),
                gain(mean),
                len(measured),
            ),
        )
    ]


def _row_nats(profile: np.ndarray, tokens: np.ndarray, gap: int | None) -> float:
    own = profile[np.arange(len(tokens)), tokens]
    return float(own[tokens != gap].sum())


if __name__ == "__main__":
    parser = options(__doc__, seeds=(0,))
    parser.add_argument("rows", nargs="+", choices=["ecoli", "yeast", "family"])
    parser.add_argument("--work", type=Path, required=True, help="folder of datasets and models")
    parser.add_argument("--steps", type=int, help="steps of training (default: those of the settings)")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for each in arguments.rows:
        figures: list[dict[str, object]] = []
        for one in arguments.seeds:
            if each == "family":
                figures += family(arguments.work, one, arguments.steps)
            else:
                figures += next_base(arguments.work, each, one, arguments.steps)
        report(figures, arguments.output)
