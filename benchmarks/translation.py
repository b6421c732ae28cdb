"""Translation models: codons of a host from proteins, proteins from genes, and copies beyond the trained lengths.

    BIOATTN_SHARED=… python benchmarks/translation.py codons ecoli --seed 0 1 2 --keep models -o codons.md
    BIOATTN_SHARED=… python benchmarks/translation.py proteins --seed 0 -o proteins.md
    BIOATTN_SHARED=… python benchmarks/translation.py constraints --keep models -o constraints.md
    python benchmarks/translation.py lengths --seed 0 -o lengths.md

`codons`: perplexity and accuracy of every test codon but the first and those of M and W, given the true prefix,
with the probabilities of the codons of a residue scaled to a sum of 1. `proteins`: coding DNA of yeast, read as
codons, to protein, with and without attention, by quintile of length. `constraints`: 500 outputs of the first
model of `codons`. `lengths`: wrong bases of the likeliest output. A row is written when it is known; --only names
the model to train.
"""

import itertools
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from Bio.Data import CodonTable
from Bio.Seq import Seq
from common import SHARED, options, run

from bioattn.attention.capture import capture
from bioattn.choices import TEST
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.translation.batches import batch_of, with_ends
from bioattn.models.translation.family import PairTask
from bioattn.models.translation.pairs import simulated_pair
from bioattn.models.translation.run import LoadedTranslator, load_translator, with_others
from bioattn.models.translation.search import Constraint, Search, given_score, translate
from bioattn.sequences.pairs import Pair, open_pair_dataset
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL
from bioattn.store.schema import AttentionOptions

DATA = {"ecoli": ("ecoli/K12_MG1655", 11), "yeast": ("yeast/R64_genbank", 1)}
"""Files and genetic code."""
ATTENTION = "`recurrent-attention`"
MODELS = {
    ATTENTION: ("--architecture", "recurrent-attention", "-c", "model.score=dot"),
    "`recurrent`, LSTM": ("--architecture", "recurrent", "-c", "model.cell=lstm"),
    "`transformer`": ("--architecture", "transformer"),
}
CODONS = {"`recurrent`": ("--architecture", "recurrent"), ATTENTION: MODELS[ATTENTION]}
"""Models of codons: both read the residue that they write; one attends, the other has the mean of the source."""
EQUAL = ("-c", "model.channels=120")
"""Of an LSTM with about as many weights as `ATTENTION` has."""
CPU = torch.device("cpu")
DNA = "--source-alphabet dna --target-alphabet dna --split record"

SETTINGS = Path(__file__).parent.parent / "data" / "settings" / "translation-codons.toml"
SMALL = """
[model]
layers = 1
channels = {channels}
[training]
steps_per_round = 50
longest = {longest}
batch_size = 8
learning_rate = 1e-2
average_decay = 0.9
validation_pairs = 16
"""
TRAINED = 300
"""Codons of the longest gene that `proteins` trains on."""
SITES = {
    "EcoRI": "GAATTC",
    "BamHI": "GGATCC",
    "HindIII": "AAGCTT",
    "NdeI": "CATATG",
    "XhoI": "CTCGAG",
    "BsaI": "GGTCTC",
}
OUTPUTS = 500


def prepared(folder: Path, host: str, *sides: str) -> Path:
    """A dataset from one side, `protein` or `codon`, to the other, by the fixed split."""
    files, code = DATA[host]
    pairs = [SHARED / f"data/{files}.{'cds' if side == 'codon' else side}.fa.gz" for side in sides]
    alphabets = f"--source-alphabet {sides[0]} --target-alphabet {sides[1]} --genetic-code {code}"
    dataset, split = folder / f"{host}-{sides[0]}.dataset.h5", SHARED / f"data/splits/codons_{host}.tsv.gz"
    run(f"prepare translation {alphabets} --split-table {split} -o {dataset} -q", *pairs)
    return dataset


def trained(dataset: Path, output: Path, *words: object) -> float:
    """Train a model, or go on; returns CPU minutes."""
    began = time.process_time()
    run(f"train translation {dataset} -o {output} --resume -q", *words, show=True)
    return (time.process_time() - began) / 60


def codons(
    folder: Path, host: str, keep: Path, only: Sequence[object], seeds: Sequence[int], words: Sequence[object]
) -> Iterator[str]:
    """A row for each model and seed, and one for the mean of the seeds' probabilities."""
    dataset = prepared(folder, host, "protein", "codon")
    yield "| model | seeds | perplexity | accuracy | codons | CPU minutes |"
    yield "| --- " * 6 + "|"
    for name, model in CODONS.items():
        if only and name.strip("`") not in only:
            continue
        outputs = [keep / f"{host}-{name.strip('`')[:19]}{f'-{seed}' if seed else ''}" for seed in seeds]
        minutes = []
        for seed, output in zip(seeds, outputs, strict=True):
            minutes.append(trained(dataset, output, *model, "--seed", str(seed), *words))
            yield f"| {name} | {seed} | {codon_figures(dataset, [output], DATA[host][1])} | {minutes[-1]:.1f} |"
        if len(outputs) > 1:
            figures = codon_figures(dataset, outputs, DATA[host][1])
            yield f"| {name} | mean of the models | {figures} | {sum(minutes):.1f} |"


def codon_figures(dataset_path: Path, models: Sequence[Path], genetic_code: int) -> str:
    """Perplexity, accuracy and number of the test codons that count, by the mean of the models."""
    dataset = open_pair_dataset(dataset_path)
    loaded = with_others(load_translator(models[0], CPU), models[1:])
    forward = CodonTable.unambiguous_dna_by_id[genetic_code].forward_table
    residue_of = np.array([forward.get(token, "") for token in dataset.target.tokens])
    nats, right, number = 0.0, 0, 0
    for pair in dataset.side(TEST):
        batch = batch_of([pair])
        with torch.inference_mode():
            likely_TV = loaded.model(batch.source_BS, batch.prefix_BT)[0].double().log_softmax(-1)
        for place, codon in enumerate(pair.target.tolist()):
            residue = residue_of[codon]
            if place and residue not in ("", "M", "W"):
                own_V = np.where(residue_of == residue, likely_TV[place].numpy(), -np.inf)
                nats += float(np.logaddexp.reduce(own_V) - own_V[codon])
                right += int(own_V.argmax() == codon)
                number += 1
    return f"{math.exp(nats / number):.3f} | {right / number:.4f} | {number:,}"


def proteins(folder: Path, steps: int, words: Sequence[object]) -> Iterator[str]:
    """Hits of both models by quintile of length of the test genes, and what the one with attention writes."""
    dataset = prepared(folder, "yeast", "codon", "protein")
    pairs = sorted(open_pair_dataset(dataset).side(TEST), key=lambda pair: len(pair.source))
    share, said = {}, []
    for name, channels, more in ((ATTENTION, 64, 1.0), ("`recurrent`, LSTM", 64, 4.0)):
        (folder / "small.toml").write_text(SMALL.format(channels=channels, longest=TRAINED))
        output = folder / f"proteins-{len(share)}"
        own = ("-c", folder / "small.toml", *MODELS[name], *words, "--steps", round(more * steps))
        minutes = trained(dataset, output, *own)
        loaded = load_translator(output, CPU)
        weights = sum(each.numel() for each in loaded.model.parameters())
        said.append(f"{name}: {weights:,} weights, {minutes:.1f} CPU minutes")
        share[name] = np.array([given_score(loaded, pair)[2] / (len(pair.target) + 1) for pair in pairs])
        if name == ATTENTION:
            said.append(_written(loaded, pairs))
    yield from (f"{each}\n" for each in said)
    yield f"| codons | {' | '.join(share)} | gain [95 % interval] |"
    yield "| --- " * 4 + "|"
    one, other = share.values()
    gains, random = one - other, np.random.default_rng(0)
    groups = np.array_split(np.arange(len(pairs)), 5)
    draws = np.array([[random.choice(gains[own], len(own)).mean() for own in groups] for _ in range(2000)])
    for own, drawn in zip(groups, draws.T, strict=True):
        low, high = np.quantile(drawn, [0.025, 0.975])
        lengths_of = f"{len(pairs[own[0]].source)} to {len(pairs[own[-1]].source)}"
        rates = f"{one[own].mean():.4f} | {other[own].mean():.4f}"
        yield f"| {lengths_of} | {rates} | {gains[own].mean():+.4f} [{low:+.4f}, {high:+.4f}] |"
    low, high = np.quantile(draws @ np.array([-2, -1, 0, 1, 2]) / 10, [0.025, 0.975])
    yield f"\nGrowth of the gain by quintile: [{low:+.4f}, {high:+.4f}]"


def _written(loaded: LoadedTranslator, pairs: Sequence[Pair]) -> str:
    """Shares of genes whose likeliest output is right, and of steps whose highest weight is where it belongs."""
    found = []
    for name, longest in ((f"up to {TRAINED} codons", TRAINED), (f"up to {4 * TRAINED} codons", 4 * TRAINED)):
        known = [pair for pair in pairs if longest / 4 < len(pair.source) <= longest or longest == TRAINED]
        chosen = [pair for pair in known if len(pair.source) <= longest]
        chosen = chosen[:: max(1, len(chosen) // 60)]
        right = sum(
            translate(loaded, pair.source, Search(length=2 * longest), "")[0].tokens == pair.target.tolist()
            for pair in chosen
        )
        found.append(f"{right} of {len(chosen)} unseen genes {name} right")
    peaks = []
    for pair in pairs:
        receiver = BatchReceiver(AttentionOptions())
        batch = batch_of([pair])
        with torch.inference_mode(), capture(["translation.source"], receiver):
            loaded.model(batch.source_BS, batch.prefix_BT)
        (arrays,) = receiver.take().values()
        place = arrays["weights"][0].mean(0)[: len(pair.target)].argmax(-1)
        peaks.append(np.abs(place - 1 - np.arange(len(place))) <= 1)
    aligned = np.concatenate(peaks).mean()
    return f"{'; '.join(found)}; highest mean weight within one codon of the truth: {aligned:.2%}"


def constraints(folder: Path, keep: Path) -> Iterator[str]:
    """Outputs for the shortest held-out proteins under all sites, and under each pair of them."""
    dataset = open_pair_dataset(prepared(folder, "ecoli", "protein", "codon"))
    loaded = load_translator(keep / "ecoli-recurrent", CPU)
    sources = sorted((each.source for side in (1, 2) for each in dataset.side(side)), key=len)[:OUTPUTS]
    pairs = list(itertools.combinations(SITES, 2))
    forward = CodonTable.unambiguous_dna_by_id[11].forward_table
    yield "| forbidden | outputs | encode the protein | hold no site | likelihood of the beam (3) ≥ greedy |"
    yield "| --- " * 5 + "|"
    for what, chosen in (("all six sites", [tuple(SITES)] * len(sources)), ("each pair of sites", pairs)):
        right = clean = likelier = 0
        for number, source in enumerate(sources):
            own = {name: SITES[name] for name in chosen[number % len(chosen)]}
            constraint = Constraint(loaded.model.target, own, protein=True, genetic_code=11)
            greedy, best = (
                translate(loaded, source, Search(beam=beam, length_penalty=0), str(number), constraint)[0]
                for beam in (1, 3)
            )
            text = loaded.model.target.text(np.array(best.tokens, dtype=np.int64))
            residues = "".join(forward.get(text[place : place + 3], "*") for place in range(0, len(text), 3))
            wanted = loaded.model.source.text(source)
            right += residues.removesuffix("*") == wanted
            both = text + "|" + str(Seq(text).reverse_complement())
            clean += not any(site in both for site in own.values())
            likelier += best.log_likelihood >= greedy.log_likelihood
        yield f"| {what} | {len(sources)} | {right} | {clean} | {likelier} |"


def lengths(folder: Path, seed: int, only: Sequence[object], words: Sequence[object]) -> Iterator[str]:
    """A row for each task and model."""
    tested = (20, 120, 1000)
    yield from (
        f"| task | model (weights) | seed | {' | '.join(f'wrong at {n}' for n in tested)} | CPU minutes |",
        "| --- " * 7 + "|",
    )
    for task in (PairTask.COPY, PairTask.REVERSE_COMPLEMENT):
        pairs, dataset = folder / task, folder / f"{task}.dataset.h5"
        run(f"simulate translation --task {task} --pairs 5000 --seed {seed} -o {pairs} -q")
        run(f"prepare translation {pairs} {DNA} -o {dataset} -q")
        for number, (name, model) in enumerate(MODELS.items()):
            if only and not any(each in name for each in only):
                continue
            output = folder / f"{task}-{number}"
            minutes = trained(dataset, output, *model, *(EQUAL if "LSTM" in name else ()), *words)
            weights = sum(each.numel() for each in load_translator(output, CPU).model.parameters())
            shares = [f"{wrong_share(output, task, length, seed):.2%}" for length in tested]
            yield f"| {task} | {name} ({weights:,}) | {seed} | {' | '.join(shares)} | {minutes:.2f} |"


@torch.inference_mode()
def wrong_share(path: Path, task: PairTask, length: int, seed: int, number: int | None = None) -> float:
    """Share of the bases of targets that the likeliest outputs have not at their place."""
    model, generator = load_translator(path, CPU).model, np.random.default_rng([seed, length])
    pairs = [simulated_pair(task, length, generator) for _ in range(number or max(4, 2400 // length))]
    sources, targets = (
        np.stack([words.tokenize(pair[side], "") for pair in pairs])
        for side, words in enumerate((model.source, model.target))
    )
    state = model.begin(torch.from_numpy(np.stack([with_ends(source) for source in sources])))
    last_B1, ended_B1 = torch.full((len(pairs), 1), CLS), torch.zeros(len(pairs), 1, dtype=torch.bool)
    wrong = 0
    for place in range(2 * length):
        logits_BV = model.advance(last_B1, state)[:, -1]
        logits_BV[:, [token for token in range(len(SPECIAL)) if token != EOS]] = -torch.inf
        last_B1 = logits_BV.argmax(-1, keepdim=True)
        ended_B1 |= last_B1 == EOS
        if place < length:
            wanted_B = torch.from_numpy(targets[:, place])
            wrong += int((ended_B1[:, 0] | (last_B1[:, 0] != wanted_B)).sum())
        else:
            wrong += int((~ended_B1).sum())
        if bool(ended_B1.all()) and place >= length:
            break
    return wrong / (len(pairs) * length)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("what", choices=("codons", "proteins", "constraints", "lengths"))
    parser.add_argument("host", nargs="?", choices=list(DATA), default="ecoli")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="several: codons alone")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--config", type=Path, default=SETTINGS, help="settings of the models of codons")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--keep", type=Path, help="folder for the models of codons")
    given = parser.parse_args()
    words = ["--seed", str(given.seed[0])]
    steps = ["--steps", str(given.steps)] if given.steps else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keep = given.keep or folder
        keep.mkdir(exist_ok=True)
        match given.what:
            case "codons":
                config = ("--config", str(given.config))
                rows = codons(folder, given.host, keep, given.only, given.seed, [*config, *steps])
            case "proteins":
                rows = proteins(folder, given.steps or 150, words)
            case "constraints":
                rows = constraints(folder, keep)
            case _:
                rows = lengths(
                    folder, given.seed[0], given.only, [*words, "--steps", str(given.steps or 600)]
                )
        with (given.output or Path("/dev/stdout")).open("w") as file:
            for row in rows:
                print(row, file=file, flush=True)


if __name__ == "__main__":
    main()
