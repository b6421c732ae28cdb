"""Differentiable memories: a Turing machine far beyond the trained lengths, memory networks on cascades and yeast.

    python benchmarks/memory.py copies --task copy --seed 0 -o copy-0.md
    python benchmarks/memory.py cascade --seed 0 -o cascade-0.md
    BIOATTN_SHARED=… python benchmarks/memory.py yeast --seed 0 -o yeast-0.md

`copies`: wrong bases of the likeliest outputs, of a Turing machine and an LSTM of about as many weights, trained
on pairs of at most 20 bases. `cascade`: questions for the regulator three steps upstream, 12 facts each, of 20
genes; with one hop, with answers alone, and trained on 12 facts of 62 genes and asked with 50. `yeast`: stories of
twelve measured facts; test genes are never asked about in training. --only takes the rows whose name holds a word.
"""

import csv
import gzip
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import SHARED, options, run
from translation import CPU, DNA, wrong_share

from bioattn.models.translation.run import load_translator

SETTINGS = Path(__file__).parents[1] / "data" / "settings"
TURING = str(SETTINGS / "translation-turing.toml")
LSTM = ("-c", "model.cell=lstm", "-c", "model.channels=72", "-c", "model.layers=1", "--steps", "800")
MACHINES = {
    "Turing machine": ("--architecture", "turing-machine", "--config", TURING),
    "LSTM": ("--architecture", "recurrent", *LSTM),
}
LENGTHS = (20, 120, 1000)
ANSWERS_ALONE = "[training]\nhop_weight = 0.0\n"
NUM_FACTS = 12
TEST_GENES = 0.2
"""Share of the genes of yeast that are asked about in the test alone."""


def copies(folder: Path, task: str, seed: int, only: str) -> list[str]:
    rows = []
    pairs, dataset = folder / task, folder / f"{task}.dataset.h5"
    run(f"simulate translation --task {task} --pairs 5000 --seed {seed} -o {pairs} -q")
    run(f"prepare translation {pairs} {DNA} -o {dataset} -q")
    for name, words in MACHINES.items():
        if only not in name:
            continue
        began, model = time.process_time(), folder / f"{task}-{name}"
        run(f"train translation {dataset} --seed {seed} -q", *words, "-o", model)
        minutes = (time.process_time() - began) / 60
        weights = sum(each.numel() for each in load_translator(model, CPU).model.parameters())
        shares = [
            f"{wrong_share(model, task, length, seed, max(2, 1200 // length)):.2%}" for length in LENGTHS
        ]
        rows.append(f"| {task} | {name} ({weights:,}) | {seed} | {' | '.join(shares)} | {minutes:.2f} |")
    return rows


def trained(
    folder: Path, name: str, tables: Path, seed: int, words: Sequence[str] = (), config: str = ""
) -> tuple[Path, float]:
    """A memory network, and its CPU minutes."""
    (folder / f"{name}.toml").write_text(config)
    began, model = time.process_time(), folder / name
    run(f"train memory {tables}/facts.tsv -c {folder}/{name}.toml --seed {seed} -o {model} -q", *words)
    return model, (time.process_time() - began) / 60


def asked(folder: Path, model: Path, tables: Path, hops: int) -> list[float]:
    """Share of right answers to the questions of a folder, and of true facts that each hop reads most."""
    output = folder / f"{model.name}-{tables.name}.tsv"
    run(f"run memory {model} {tables} -o {output} -q")
    with output.open() as answers, (tables / "questions.tsv").open() as questions:
        rows = zip(
            csv.DictReader(answers, delimiter="\t"), csv.DictReader(questions, delimiter="\t"), strict=True
        )
        hits = []
        for own, wanted in rows:
            if wanted.get("split", "test") == "test":
                true = wanted["facts"].split(",")
                read = [own[f"hop{hop + 1}"] == true[hop] for hop in range(hops)]
                hits.append([own["right"] == "yes", *read])
    return np.mean(hits, axis=0).tolist()


def cascade(folder: Path, seed: int, only: str) -> list[str]:
    """A row for each way to train and ask."""

    def made(name: str, pairs: int, genes: int, facts: int, seed: int) -> Path:
        sizes = f"--shortest {facts} --longest {facts} --genes {genes} --pairs {pairs} --seed {seed}"
        run(f"simulate translation --task cascade {sizes} -o {folder / name} -q")
        return folder / name

    rows = []
    small, test = made("small", 4000, 20, NUM_FACTS, seed), made("test", 1000, 20, NUM_FACTS, seed + 100)
    for name, words, config, hops in (
        ("three hops, true facts told", (), "", 3),
        ("three hops, answers alone (linear start)", (), ANSWERS_ALONE, 3),
        ("one hop, answers alone", ("--hops", "1"), ANSWERS_ALONE, 1),
    ):
        if only in name:
            model, minutes = trained(folder, name.replace(" ", "-"), small, seed, words, config)
            rows.append(row(f"20 genes, 12 facts: {name}", seed, asked(folder, model, test, hops), minutes))
    if only not in "62 genes":
        return rows
    large = made("large", 12000, 62, NUM_FACTS, seed)
    model, minutes = trained(folder, "wide", large, seed, ("-c", "model.channels=96"))
    for facts in (NUM_FACTS, 50):
        found = asked(folder, model, made(f"test{facts}", 1000, 62, facts, seed + 100), 3)
        rows.append(row(f"62 genes, trained on 12 facts, asked with {facts}", seed, found, minutes))
    return rows


def row(name: str, seed: int, found: Sequence[float], minutes: float) -> str:
    """Accuracy, and hits of the hops."""
    accuracy, *hops = found
    return (
        f"| {name} | {seed} | {accuracy:.3f} | {' / '.join(f'{hop:.3f}' for hop in hops)} | {minutes:.2f} |"
    )


def yeast(folder: Path, seed: int, _only: str) -> list[str]:
    """Regulators two steps upstream, from measured facts."""
    path = SHARED / "data" / "yeast" / "tf_target_gold_standard.tsv.gz"
    regulators = defaultdict(list)
    with gzip.open(path, "rt") as file:
        factors, *table = csv.reader(file, delimiter="\t")
        for gene, *cells in table:
            regulators[gene] += [
                factor for factor, cell in zip(factors, cells, strict=True) if cell != "0" and factor != gene
            ]
    random = np.random.default_rng(seed)
    genes = sorted(gene for gene, found in regulators.items() if any(regulators.get(each) for each in found))
    test_genes = set(random.permutation(genes)[: round(TEST_GENES * len(genes))].tolist())
    told, questions = ["story\tfact\ttext"], ["story\tquestion\ttext\tanswer\tfacts\tsplit"]
    sides, answer_of = defaultdict(Counter), []
    for number in range(5000):
        gene = str(random.choice(genes))
        side = "test" if gene in test_genes else "validation" if number % 20 == 0 else "train"
        first = str(random.choice([each for each in regulators[gene] if regulators.get(each)]))
        chain = {gene: first, first: str(random.choice(regulators[first]))}
        others = random.permutation([each for each in regulators if each not in chain and regulators[each]])
        chain |= {str(each): str(random.choice(regulators[each])) for each in others[: NUM_FACTS - 2]}
        order = random.permutation(list(chain)).tolist()
        name, answer = f"s{number}", chain[first]
        told += [f"{name}\tf{n}\t{each} regulated_by {chain[each]}" for n, each in enumerate(order)]
        true = f"f{order.index(gene)},f{order.index(first)}"
        questions.append(f"{name}\t{name}\t{gene}\t{answer}\t{true}\t{side}")
        sides[side][answer] += 1
        answer_of.append((side, answer))
    common = sides["train"].most_common(1)[0][0]
    tests = [answer for side, answer in answer_of if side == "test"]
    (folder / "yeast").mkdir()
    (folder / "yeast" / "facts.tsv").write_text("\n".join(told) + "\n")
    (folder / "yeast" / "questions.tsv").write_text("\n".join(questions) + "\n")
    model, minutes = trained(
        folder, "model", folder / "yeast", seed, ("--hops", "2", "-c", "model.channels=96")
    )
    found = asked(folder, model, folder / "yeast", 2)
    frequent = sum(answer == common for answer in tests) / len(tests)
    return [
        f"| look-up of the given facts, breadth first | {seed} | 1.000 | – | 0 |",
        row(
            f"memory network, two hops ({len(tests):,} questions about {len(test_genes)} genes)",
            seed,
            found,
            minutes,
        ),
        f"| most frequent answer | {seed} | {frequent:.3f} | – | 0 |",
    ]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("what", choices=("copies", "cascade", "yeast"))
    parser.add_argument("--task", choices=("copy", "reverse-complement"), default="copy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.what == "copies":
            rows = copies(folder, given.task, given.seed, given.only)
        else:
            rows = {"cascade": cascade, "yeast": yeast}[given.what](folder, given.seed, given.only)
    (given.output or Path("/dev/stdout")).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
