"""Planted truth: does `bioattn explain check` call good attention good, and everything else by its name?

    python benchmarks/check.py --seeds 0 1 2 3 4 --folder check-runs -o check.md

Ten cases per seed, each a model and a dataset whose truth is known because it was made here:

- `good`: `cross` on promoters with a motif per treatment, which counts in the half next to the gene only;
- `one motif for all`: the same where every treatment answers to the same motif;
- `counting`: responses are sums over the copies of a motif, wherever they lie: a mean over all positions will do;
- `smeared keys`: `key_layers = 1`, a convolution over bins before keys and values; accurate, useless maps;
- `shuffled labels`: `good`, trained and tested on responses shuffled between promoters;
- `random weights`: the promoters of `good`, trained at a rate of 1e-12;
- `one reader`: the promoters of `good`, one reader for all treatments, a null key, own position biases;
- `own gain only`: one reader; treatments share the shape and differ in the weight of the null key alone, with as
  many heads as treatments;
- `own constant bins only`: the same without a null key: treatments differ in the weight alone that they put on
  bins which are the same in all promoters;
- `own position bias only`: no query; a motif that counts for each treatment in a zone of its own.

Then the command a user would type is run on each, of the first six with retrained controls, and its verdict
compared with the right one; of the last three also whether the measure made for them fails. The thresholds of
`bioattn/checks/thresholds.py` were set on seeds 0-4, those of gain and shape before any of the last four
models was made; nothing was changed for the other seeds. Everything lies in --folder and is used again: a run that
was cut short goes on.
"""

import contextlib
import json
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import options, run, table
from numpy.typing import NDArray

from bioattn.checks.promoters import read_maps
from bioattn.choices import TEST
from bioattn.io.files import read_json
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.cross import PositionCurve
from bioattn.models.promoter.family import FAMILY, PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.dataset import PromoterDataset, write_dataset
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from bioattn.promoters.treatments import named_treatments
from bioattn.simulate.promoters import (
    SimulatedPromoters,
    plant_motifs,
    simulate_promoters,
    simulation_settings,
)
from bioattn.simulate.truth import CAUSAL, PlantedSite
from bioattn.training.run import is_finished, train

GENES, NUM_TREATMENTS, LENGTH = 1800, 6, 160
TRAIN_GENES, VALIDATION_GENES = 1200, 200
PRESENCE, NOISE = 0.7, 0.4
"""Chance of a motif per promoter; about half of them lie where they count."""
COPIES = 3
"""Most copies of a motif in `counting`; each is there with half that chance."""
MODEL: dict[str, Any] = {
    "channels": 32,
    "num_heads": 2,
    "head_channels": 16,
    "kernel": 11,
    "hidden_channels": 64,
}
"""Small, so that a seed takes minutes; fewer heads than treatments, so that no head has one to itself."""
TRAINING: dict[str, Any] = {"epochs": 10, "patience": 3, "batch_size": 32, "learning_rate": 4e-3}
UNTRAINED = {"epochs": 1, "learning_rate": 1e-12, "warm_start": False}
"""No step moves a weight."""
CPU = torch.device("cpu")
GOOD, ONE_MOTIF, COUNTING = "good", "one motif for all", "counting"
SMEARED, SHUFFLED, RANDOM = "smeared keys", "shuffled labels", "random weights"
ONE_READER, GAIN, CONSTANT, POSITION = (
    "one reader",
    "own gain only",
    "own constant bins only",
    "own position bias only",
)
CONSTANT_BASES = 40
"""Last bases of a promoter in `own constant bins only`: they are the same in all."""
READER = {"readout": "shared", "sink": True, "position_bias": "treatment"}
HEADS = {"num_heads": NUM_TREATMENTS, "head_channels": 8}


@dataclass(frozen=True)
class Case:
    """A kind of model and what is to be said of it."""

    verdict: str
    """The right one."""
    model: dict[str, Any] = field(default_factory=dict)
    other_seeds: int = 0
    """How many the check retrains: the stability of maps is of interest where they are good."""
    controls: bool = True
    """Whether controls are retrained."""
    caught_by: str = ""
    """The measure that fails."""
    weights: bool = False
    """Whether weights are judged: contributions hold in every model, and what is wrong lies in the weights."""


OF_WEIGHTS: dict[str, Any] = {"controls": False, "weights": True}
CASES = {
    GOOD: Case("used-treatment-specific", other_seeds=1),
    ONE_MOTIF: Case("used-not-treatment-specific", other_seeds=1),
    COUNTING: Case("not-used"),
    SMEARED: Case("unfaithful", {"key_layers": 1, "value_kernel": 7}, weights=True),
    SHUFFLED: Case("model-not-predictive"),
    RANDOM: Case("model-not-predictive"),
    ONE_READER: Case("faithful-treatment-specific", READER, controls=False),
    GAIN: Case(
        "faithful-not-treatment-specific",
        {**READER, **HEADS, "attention_query": "gain", "position_bias": "shared"},
        caught_by="swapped_shapes_skill",
        **OF_WEIGHTS,
    ),
    CONSTANT: Case(
        "unfaithful",
        {**READER, **HEADS, "attention_query": "shared", "sink": False},
        caught_by="swapped_shapes_skill",
        **OF_WEIGHTS,
    ),
    POSITION: Case(
        "unfaithful", {**READER, "attention_query": "position"}, caught_by="mean_shapes_skill", **OF_WEIGHTS
    ),
}


def simulated(seed: int, **chosen: Any) -> SimulatedPromoters:
    """Promoters with a motif per treatment, and two decoys."""
    settings = {"treatments": NUM_TREATMENTS, "decoys": 2, "presence": PRESENCE, **chosen}
    return simulate_promoters(
        simulation_settings(genes=GENES, length=LENGTH, noise=0.0, seed=seed, **settings)
    )


def case_sample(case: str, seed: int) -> SimulatedPromoters:
    """The promoters of a case (but `counting`)."""
    # One motif says little of a promoter; unsubstituted, it is enough to learn where it counts.
    one = {"treatments": 1, "decoys": 1 + NUM_TREATMENTS, "substitution_rate": 0.0}
    sample = simulated(seed, **(one if case in (ONE_MOTIF, POSITION) else {}))
    if case == CONSTANT:
        constant = np.random.default_rng([seed, 4]).integers(4, size=CONSTANT_BASES, dtype=np.uint8)
        sample.codes[:, -CONSTANT_BASES:] = constant
    return sample


def counting_zone(case: str, column: int) -> tuple[int, int]:
    """Where a treatment's motif counts: its first and last start in bases from the promoter's first base."""
    zones = {CONSTANT: (0, LENGTH - CONSTANT_BASES - 10), POSITION: (20 * column, 20 * column + 60)}
    return zones.get(case, (LENGTH // 2, LENGTH))


def zone_responses(case: str, sample: SimulatedPromoters, seed: int) -> NDArray[np.float64]:
    """(genes, treatments) responses to the motifs that lie where they count, with noise. Where one treatment was
    simulated, all answer to its motif."""
    genes = {gene_id: row for row, gene_id in enumerate(sample.gene_ids)}
    columns = {rule.treatment: column for column, rule in enumerate(sample.rules)}
    counts = np.zeros((GENES, NUM_TREATMENTS), np.bool_)
    for site in sample.sites:
        for column in answering(sample, site, columns):
            first, last = counting_zone(case, column)
            if site.role == CAUSAL and first <= site.start <= last:
                counts[genes[site.gene_id], column] = True
    responses = np.broadcast_to(sample.responses, (GENES, NUM_TREATMENTS)) * counts
    noise = np.random.default_rng([seed, 1]).standard_normal((GENES, NUM_TREATMENTS))
    return responses + NOISE * noise


def answering(sample: SimulatedPromoters, site: PlantedSite, columns: dict[str, int]) -> Iterable[int]:
    """The treatments that answer to a site's motif."""
    if sample.responses.shape[1] == 1:
        return range(NUM_TREATMENTS)
    return [columns[site.treatment]] if site.treatment in columns else []


def counted_copies(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Codes and responses that are sums over a motif's copies, wherever they lie: nothing has to be chosen."""
    sample = simulated(seed, treatments=NUM_TREATMENTS, presence=0.0, decoys=0)
    rng = np.random.default_rng([seed, 2])
    carried = rng.random((GENES, COPIES * NUM_TREATMENTS)) < PRESENCE / 2
    plant_motifs(rng, sample.codes, sample.motifs * COPIES, carried)
    copies = carried.reshape(GENES, COPIES, NUM_TREATMENTS).sum(1)
    effects = np.array([rule.effect for rule in sample.rules]) / 2
    responses: NDArray[np.float64] = copies * effects + NOISE * rng.standard_normal(copies.shape)
    return sample.codes, responses


def make_dataset(codes: NDArray[np.uint8], responses: NDArray[np.float64]) -> PromoterDataset:
    """70 % training, 15 % validation, 15 % test promoters; they are independent, so any will do."""
    split = np.repeat(
        np.array([0, 1, 2], np.uint8), [GENES - 2 * (GENES * 15 // 100), *2 * [GENES * 15 // 100]]
    )
    return PromoterDataset(
        gene_ids=[f"G{number:04d}" for number in range(1, GENES + 1)],
        chrom=[""] * GENES,
        start=np.full(GENES, -1),
        end=np.full(GENES, -1),
        strand=["."] * GENES,
        codes=codes,
        flank=0,
        targets=responses.astype(np.float32),
        treatments=named_treatments([f"treatment{number}" for number in range(1, NUM_TREATMENTS + 1)]),
        gene_split=split,
        treatment_split=np.zeros(NUM_TREATMENTS, np.uint8),
        task="regression",
        metadata={},
    )


def write_case_data(case: str, seed: int, folder: Path) -> Path:
    """The dataset of a case and the FASTA of its test promoters, in `folder`."""
    path = folder / "promoters.dataset.h5"
    if case == COUNTING:
        dataset = make_dataset(*counted_copies(seed))
    else:
        sample = case_sample(case, seed)
        responses = zone_responses(case, sample, seed)
        if case == SHUFFLED:
            responses = np.random.default_rng([seed, 3]).permuted(responses, axis=0)
        dataset = make_dataset(sample.codes, responses)
    write_dataset(path, dataset)
    write_promoters(
        folder / "promoters.fa",
        (
            Promoter(dataset.gene_ids[gene], "", -1, -1, ".", 0, dataset.codes[gene])
            for gene in dataset.genes_in(TEST)
        ),
    )
    return path


def case_folder(case: str, seed: int, root: Path) -> Path:
    return root / f"seed-{seed}" / case.replace(" ", "-")


def prepare_case(case: str, seed: int, root: Path) -> Path:
    """Data and model of a case, unless they lie there; returns their folder."""
    folder = case_folder(case, seed, root)
    model = folder / "model"
    if is_finished(model):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    dataset = write_case_data(case, seed, folder)
    settings = PromoterTrainingSettings(
        dataset=dataset,
        output=model,
        model={**MODEL, **CASES[case].model},
        training={"seed": seed, **TRAINING, **(UNTRAINED if case == RANDOM else {})},
        baselines=False,
        force=True,
    )
    with own_bias_on_constant_bins() if case == CONSTANT else contextlib.nullcontext():
        train(FAMILY, settings, device=CPU)
    return folder


@contextlib.contextmanager
def own_bias_on_constant_bins() -> Iterator[None]:
    """Own position biases that reach no farther than the constant bases: those at their other knots stay 0."""
    make = PositionCurve.__init__

    def make_short(curve: PositionCurve, config: PromoterModelConfig) -> None:
        make(curve, config)
        curve.share_KP[1:] = 0

    PositionCurve.__init__ = make_short  # type: ignore[method-assign]
    try:
        yield
    finally:
        PositionCurve.__init__ = make  # type: ignore[method-assign]


def check_case(case: str, seed: int, root: Path) -> dict[str, Any]:
    """Run `bioattn explain check` as a user would, once; returns its JSON."""
    folder = prepare_case(case, seed, root)
    of = CASES[case]
    controls = f"--controls {folder}/controls --seeds {of.other_seeds}" if of.controls else ""
    controls += " --weights" * of.weights
    words = f"--dataset {folder}/promoters.dataset.h5 --seed {seed} --threads 1 -q {controls}"
    run(f"explain check {folder}/model {folder}/promoters.fa -o {folder}/check.json {words}")
    content: dict[str, Any] = read_json(folder / "check.json")
    return content


def top_bin_on_motif(case: str, seed: int, root: Path) -> float | None:
    """What the check does not know: of held-out promoters with a motif that counts, the share whose most attended
    bin lies on it. None where no motif is planted for a treatment to find, or several copies are."""
    if case in (COUNTING, SHUFFLED):
        return None
    folder = prepare_case(case, seed, root)
    model = load_promoter_model(folder / "model", CPU)
    sample = case_sample(case, seed)
    genes = np.arange(TRAIN_GENES + VALIDATION_GENES, GENES)
    maps = read_maps(model.predictor(), sample.codes[genes])
    edges, values_BTP = maps.key_edges, maps.block(slice(None))
    columns = {rule.treatment: column for column, rule in enumerate(sample.rules)}
    rows = {sample.gene_ids[gene]: row for row, gene in enumerate(genes)}
    hits = []
    for site in sample.sites:
        if site.role != CAUSAL or site.gene_id not in rows:
            continue
        for treatment in answering(sample, site, columns):
            first, last = counting_zone(case, treatment)
            if first <= site.start <= last:
                top = int(np.abs(values_BTP[rows[site.gene_id], treatment]).argmax())
                hits.append(bool(edges[top] < site.end and edges[top + 1] > site.start))
    return float(np.mean(hits))


SHOWN = (
    ("skill", "skill"),
    ("uniform_retrained", "share of skill lost, uniform attention"),
    ("shared_retrained", "share lost, one query"),
    ("swapped_skill", "share lost, maps swapped"),
    ("swapped_shapes_skill", "share lost, shapes swapped"),
    ("mean_shapes_skill", "share lost, mean shapes"),
    ("swapped_gains_skill", "share lost, gains swapped"),
    ("deletion", "deletion"),
    ("deletion_against_mutagenesis", "deletion ÷ mutagenesis's"),
    ("deletion_of_other_treatments", "deletion less other treatments'"),
    ("randomised_weights", "Spearman with random weights"),
    ("seed_stability", "Spearman with another seed"),
)
"""Measures in the table, and their headings."""


def markdown(results: dict[int, dict[str, dict[str, Any]]], root: Path, cases: list[str]) -> str:
    """The confusion table, and the range of every measure by case."""
    found = {case: Counter(result[case]["verdict"]["code"] for result in results.values()) for case in cases}
    codes = list(
        dict.fromkeys([*(CASES[case].verdict for case in cases), *(c for case in cases for c in found[case])])
    )
    verdicts = (
        [
            case,
            *(f"**{found[case][c]}**" if c == CASES[case].verdict else found[case][c] or "" for c in codes),
        ]
        for case in cases
    )
    failing = "".join(
        f"- {case}: `{CASES[case].caught_by}` fails in {caught(case, results)} of {len(results)} seeds.\n"
        for case in cases
        if CASES[case].caught_by
    )
    measures = (
        [
            case,
            *(spread([measured(result[case], name) for result in results.values()]) for name, _ in SHOWN),
            spread([top_bin_on_motif(case, seed, root) for seed in results]),
        ]
        for case in cases
    )
    headings = [*(heading for _, heading in SHOWN), "truth: top bin on the motif"]
    return (
        f"Seeds {' '.join(map(str, results))}; verdicts in {len(results)} seeds (right ones bold).\n\n"
        f"{table(['case', *(f'`{code}`' for code in codes)], verdicts)}\n{failing}\n"
        f"{table(['case', *headings], measures)}"
    )


def caught(case: str, results: dict[int, dict[str, dict[str, Any]]]) -> int:
    """In how many seeds the measure that a case is caught by fails, and the model is not called specific."""
    return sum(
        not result[case]["verdict"]["code"].endswith(
            ("used-treatment-specific", "faithful-treatment-specific")
        )
        and any(
            measure["name"] == CASES[case].caught_by and measure["passed"] is False
            for measure in result[case]["measures"]
        )
        for result in results.values()
    )


def spread(values: list[float | None]) -> str:
    """Mean and range over the seeds that have a value."""
    known = [value for value in values if value is not None]
    return f"{np.mean(known):.2f} ({min(known):.2f} to {max(known):.2f})" if known else ""


def measured(content: dict[str, Any], name: str) -> float | None:
    """The value of a measure, None where it was skipped or cannot be computed."""
    return next((measure["value"] for measure in content["measures"] if measure["name"] == name), None)


def main() -> None:
    """Run every case of every seed, print the tables."""
    parser = options(__doc__, seeds=(0, 1, 2, 3, 4))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--folder", type=Path, required=True, help="where models and checks are kept")
    parser.add_argument("--tables", action="store_true", help="only tables, of checks that lie in --folder")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.folder.mkdir(exist_ok=True)
    head = (
        f"Command: `python benchmarks/check.py {' '.join(sys.argv[1:])}` ({platform.machine()}, 1 thread, torch "
        f"{torch.__version__}, Python {platform.python_version()})\n\n"
    )
    results: dict[int, dict[str, dict[str, Any]]] = {}
    for seed in given.seeds:
        results[seed] = {
            case: read_json(case_folder(case, seed, given.folder) / "check.json")
            if given.tables
            else check_case(case, seed, given.folder)
            for case in given.cases
        }
        verdicts = {case: result["verdict"]["code"] for case, result in results[seed].items()}
        print(f"seed {seed}: {json.dumps(verdicts)}", file=sys.stderr, flush=True)
        text = head + markdown(results, given.folder, given.cases)
        if given.output is not None:  # after every seed: a long run may be cut short
            given.output.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
