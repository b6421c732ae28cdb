"""Contacts of families no model was trained on: couplings, networks on maps, the MSA/pair stack; as Markdown.

    python benchmarks/contacts.py INDEX.tsv -o WORK [--methods NAME…] [--folds K] [--only 0,1] [--leave-out ID…]

INDEX.tsv is a table of `bioattn prepare contacts`. Proteins related by sequence stay in one of K folds; each fold
is predicted by models trained on the others only. The MSA/pair models start from one that has seen simulated
families on generated folds only, so that one start serves all folds. Every figure is kept in WORK, and a run that
was stopped goes on where it was. Settings stand below; none was chosen by a test score
(docs/models/evoformer-training.md says how they were found).
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from common import mean_interval, options, table
from torch import nn

from bioattn.alignments.choices import PrepareContacts
from bioattn.alignments.contact_dataset import open_contact_dataset, write_contact_dataset
from bioattn.alignments.contact_preparation import prepare_contacts
from bioattn.alignments.couplings import column_states, covariance_features
from bioattn.choices import TEST, TRAIN
from bioattn.models.evoformer.family import FAMILY, EvoformerTrainingSettings
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.training_families import (
    MEAN_FIELD,
    MUTUAL_INFORMATION,
    TrainingFamily,
    coupling_scores,
    score_family,
)
from bioattn.structures.contacts import contact_scores, contacts, known_pairs
from bioattn.system.signals import StopRequest, stop_on_signals
from bioattn.training.run import train
from bioattn.training.task import WeightAverage

CHANNELS, DILATIONS = 32, (1, 2, 4, 8, 1, 2, 4, 8, 1, 1)
CROP = 96
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 0.01


def profile_maps(family: TrainingFamily) -> np.ndarray:
    """(C, R, R): frequencies and entropy of column i, the same of column j, and how far apart they stand."""
    states = column_states(family.protein.msa[:, family.columns])
    weights = family.weights / family.weights.sum()
    frequencies = np.stack([weights @ (states == state) for state in range(21)], axis=1)
    entropy = -(frequencies * np.log(np.maximum(frequencies, 1e-9))).sum(1, keepdims=True)
    column = np.concatenate([frequencies * 4, entropy - 1.5], axis=1).T
    width = column.shape[1]
    rows = np.broadcast_to(column[:, :, None], (*column.shape, width))
    return np.concatenate([rows, rows.transpose(0, 2, 1), separation_maps(width)]).astype(np.float32)


def coupling_maps(family: TrainingFamily) -> np.ndarray:
    """(C, R, R): mean-field DCA and mutual information, both APC-corrected, and how far apart columns stand."""
    features = covariance_features(column_states(family.protein.msa[:, family.columns]), family.weights)
    maps = features[..., :2].transpose(2, 0, 1)
    return np.concatenate([maps, separation_maps(maps.shape[1])]).astype(np.float32)


def separation_maps(width: int) -> np.ndarray:
    """(8, R, R): the distance in the chain as one of eight classes."""
    apart = np.abs(np.arange(width)[:, None] - np.arange(width)[None])
    classes = np.searchsorted([4, 6, 9, 14, 24, 48, 96], apart, side="right")
    return (classes[None] == np.arange(8)[:, None, None]).astype(np.float32)


class ContactNetwork(nn.Module):
    """Residual blocks of two 3 × 3 convolutions; the answer is made symmetric."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, CHANNELS, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.InstanceNorm2d(CHANNELS, affine=True),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=d, dilation=d),
                nn.InstanceNorm2d(CHANNELS, affine=True),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            )
            for d in DILATIONS
        )
        self.last = nn.Conv2d(CHANNELS, 1, 1)

    def forward(self, maps_1CRR: torch.Tensor) -> torch.Tensor:
        """Logits (R, R)."""
        hidden = self.first(maps_1CRR)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        logits = self.last(hidden)[0, 0]
        return (logits + logits.T) / 2


def train_network(
    maps: list[np.ndarray], families: list[TrainingFamily], *, steps: int, schedule: int, seed: int
) -> ContactNetwork:
    """Train on crops of the families' maps; the weights returned are a running average.

    schedule: steps over which the rate would fall to its end, of which `steps` are taken.
    """
    torch.manual_seed(seed)
    network = ContactNetwork(len(maps[0]))
    average = WeightAverage(network, 0.99)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    truth = []
    for family in families:
        pairs = np.ix_(family.columns, family.columns)
        cb = family.protein.cb
        truth.append((contacts(cb)[pairs], known_pairs(cb)[pairs]))
    for step in range(steps):
        random = np.random.default_rng([seed, step])
        turn, place = divmod(step, len(maps))
        index = int(np.random.default_rng([seed, 1, turn]).permutation(len(maps))[place])
        start = int(random.integers(max(1, maps[index].shape[1] - CROP + 1)))
        window = slice(start, start + CROP)
        near, known = (torch.from_numpy(part[window, window]) for part in truth[index])
        share = min(1, (step + 1) / 30) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / schedule)))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * share
        if known.any():
            logits = network(torch.from_numpy(maps[index][None, :, window, window]))
            loss = F.binary_cross_entropy_with_logits(logits[known], near[known].float())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        average.update(network, step + 1)
    network.load_state_dict(average.model.state_dict())
    return network.eval()


def predict(network: ContactNetwork, maps: np.ndarray) -> np.ndarray:
    """Logits (R, R)."""
    with torch.no_grad():
        return network(torch.from_numpy(maps[None])).numpy()


CNN_STEPS = {profile_maps: (100, 600), coupling_maps: (300, 300)}
"""Steps, and the length of their schedule: the network on profiles is at its best early and then overfits."""
PRETRAINING = {"steps": 0, "simulated_steps": 1600}
TRAINING = {"steps": 400, "simulated_share": 0.3}
# Covariances of simulated families would take longer than all steps.
TRAINING_WITH_COVARIANCE = {"steps": 400}
LARGER = {"crop": 112, "max_extra_msa": 512}
COVARIANCE, UNIFORM, TIED = {"pair_features": 3}, {"uniform_msa_attention": True}, {"tied_row_heads": 16}
STARTS = {
    "start": ({}, PRETRAINING),
    "start-uniform": (UNIFORM, PRETRAINING),
    "start-tied": (TIED, PRETRAINING),
    "start-tied-uniform": (TIED | UNIFORM, PRETRAINING),
    "start-tied-larger": (TIED, PRETRAINING | LARGER),
}
"""Models that have seen simulated families alone: what their shape has other than the defaults, and training."""
MODELS = {
    "evoformer": ("start", {}, TRAINING),
    "evoformer-uniform": ("start-uniform", {}, TRAINING),
    "evoformer-covariance": ("start", COVARIANCE, TRAINING_WITH_COVARIANCE),
    "evoformer-covariance-uniform": ("start-uniform", COVARIANCE, TRAINING_WITH_COVARIANCE),
    "evoformer-covariance-larger": ("start", COVARIANCE, TRAINING_WITH_COVARIANCE | LARGER),
    "evoformer-tied": ("start-tied", {}, TRAINING),
    "evoformer-tied-uniform": ("start-tied-uniform", {}, TRAINING),
    "evoformer-tied-larger": ("start-tied-larger", {}, TRAINING | LARGER),
}
"""What each model starts from, what it has beside, and its training on the fold's families."""
WIDE = 115
"""Columns above which a chain counts as long."""
COUPLINGS = {"mutual-information": MUTUAL_INFORMATION, "mean-field": MEAN_FIELD}
SET_APART = (
    "PF00076_2X1B_A",
    "PF00254_2PPN_A",
    "PF00486_2ZXJ_A",
    "PF00582_2Z3V_A",
    "PF01029_1TZV_A",
    "PF02823_1AQT_A",
    "PF08666_1UCS_A",
)
"""Families that models trained on the others were judged by when the settings here were found."""
ROWS = {
    "mutual-information": "mutual information, APC, light pseudocount",
    "mean-field": "mean-field DCA",
    "cnn-profile": "2-D CNN on profiles",
    "evoformer": "(i) MSA/pair model, alignment alone",
    "evoformer-uniform": "(i) the same, uniform MSA attention",
    "cnn-couplings": "2-D CNN on DCA and MI maps",
    "evoformer-covariance": "(ii) MSA/pair model, with covariances",
    "evoformer-covariance-uniform": "(ii) the same, uniform MSA attention",
    "evoformer-covariance-larger": "(ii) the same, larger crops, more rows",
    "evoformer-tied": "(iii) tied rows, alignment alone",
    "evoformer-tied-uniform": "(iii) the same, uniform MSA attention",
    "evoformer-tied-larger": "(iii) the same, larger crops, more rows",
}


def assign_folds(groups: Sequence[str], number: int) -> list[int]:
    """A fold per protein: groups, in the order they come, go to the fold with fewest proteins so far."""
    sizes = [0] * number
    fold_of: dict[str, int] = {}
    for group in dict.fromkeys(groups):
        fold = int(np.argmin(sizes))
        fold_of[group] = fold
        sizes[fold] += sum(each == group for each in groups)
    return [fold_of[group] for group in groups]


def fold_dataset(whole: Path, fold: int, folds: Sequence[int], left_out: Sequence[str], path: Path) -> Path:
    """A dataset in which the proteins of `fold` are the test split and the others train, less those left out."""
    if not path.exists():
        dataset = open_contact_dataset(whole)
        proteins = (
            replace(dataset.protein(i), split=TEST if folds[i] == fold else TRAIN)
            for i, name in enumerate(dataset.ids)
            if name not in left_out
        )
        write_contact_dataset(path, proteins, {"fold": fold})
    return path


Scores = dict[str, dict[str, float]]
"""Precisions of contacts by protein."""


def read_families(path: Path, split: int) -> list[TrainingFamily]:
    dataset = open_contact_dataset(path)
    return [TrainingFamily(dataset.protein(int(i))) for i in dataset.proteins_in(split)]


def network_scores(path: Path, maps_of: Callable[[TrainingFamily], np.ndarray], cache: Path) -> Scores:
    """Test scores of a network trained on the fold's training families."""

    def maps(family: TrainingFamily) -> np.ndarray:
        file = cache / f"{maps_of.__name__}.{family.protein.id}.npy"
        if not file.exists():
            np.save(file, maps_of(family))
        return np.load(file)

    train, test = read_families(path, TRAIN), read_families(path, TEST)
    steps, schedule = CNN_STEPS[maps_of]
    network = train_network([maps(family) for family in train], train, steps=steps, schedule=schedule, seed=0)
    return {
        family.protein.id: contact_scores(predict(network, maps(family)), family.protein.cb, family.columns)
        for family in test
    }


def train_model(
    path: Path, output: Path, model: dict, settings: dict, stop: StopRequest, initial: Path | None = None
) -> None:
    """Train an MSA/pair model into `output`, unless it is there."""
    if output.exists():
        return
    run = EvoformerTrainingSettings(
        dataset=path, output=output, model=model, training=settings, initial_model=initial, resume=True
    )
    train(FAMILY, run, device=torch.device("cpu"), stop=stop)


def model_scores(method: str, path: Path, fold: int, work: Path, stop: StopRequest) -> Scores:
    """Test scores of an MSA/pair model that has seen simulated families and learns the fold's."""
    name, features, training = MODELS[method]
    shape, pretraining = STARTS[name]
    start, output = work / name, work / f"{method}.fold{fold}"
    train_model(path, start, shape, pretraining, stop)
    train_model(path, output, features, training, stop, start)
    loaded = load_evoformer_model(output, torch.device("cpu"))
    return {
        family.protein.id: score_family(loaded.model, family, loaded.inputs)
        for family in read_families(path, TEST)
    }


def scores_of(method: str, path: Path, fold: int, work: Path, stop: StopRequest) -> Scores:
    if method in COUPLINGS:
        file = work / f"couplings.fold{fold}.json"
        if not file.exists():
            both = {family.protein.id: coupling_scores(family) for family in read_families(path, TEST)}
            file.write_text(json.dumps(both, indent=1))
        return {id: each[COUPLINGS[method]] for id, each in json.loads(file.read_text()).items()}
    if method == "cnn-profile":
        return network_scores(path, profile_maps, work)
    if method == "cnn-couplings":
        return network_scores(path, coupling_maps, work)
    return model_scores(method, path, fold, work, stop)


def shown(values: list[float], sign: str = "") -> list[str]:
    """A mean and its interval over proteins."""
    low, high = mean_interval(values, 10_000)
    return [f"{np.mean(values):{sign}.3f}", f"{low:{sign}.2f} to {high:{sign}.2f}"]


def tables(title: str, found: dict[str, Scores], chosen: Callable[[str], bool]) -> str:
    """Means over the proteins that every method has, and differences from the first model of each kind."""
    common = [
        name
        for name in next(iter(found.values()), {})
        if chosen(name) and all(name in scores for scores in found.values())
    ]
    if not common:
        return ""

    def less(one: str, other: str) -> list[str]:
        pairs = [(found[one][name], found[other][name]) for name in common]
        return shown([ours["P@L"] - theirs["P@L"] for ours, theirs in pairs], "+")

    rows = [
        [
            ROWS[method],
            *shown([scores[name]["P@L/5"] for name in common]),
            *shown([scores[name]["P@L"] for name in common]),
            *(less("evoformer", method) if "evoformer" in found and method != "evoformer" else ["", ""]),
        ]
        for method, scores in found.items()
    ]
    controls = [
        f"{ROWS[method]}, less uniform: P@L {' ('.join(less(method, f'{method}-uniform'))})\n"
        for method in found
        if f"{method}-uniform" in found
    ]
    header = ["predictor", "P@L/5", "95 %", "P@L", "95 %", "(i) less this, P@L", "95 %"]
    return f"{title}: {len(common)} proteins\n\n{table(header, rows)}\n" + "\n".join(controls)


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("index", type=Path)
    parser.add_argument("-o", "--work", type=Path, required=True)
    parser.add_argument("--methods", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", default=None, help="folds to run now, for example 0,2")
    parser.add_argument("--leave-out", nargs="*", default=["of_1UBQ"], help="proteins of no use for any mean")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    work = arguments.work
    work.mkdir(exist_ok=True)
    whole = work / "all.dataset.h5"
    if not whole.exists():
        prepare_contacts(PrepareContacts(pairs=arguments.index, output=whole))
    dataset = open_contact_dataset(whole)
    folds = assign_folds(dataset.groups, arguments.folds)
    widths = {name: len(TrainingFamily(dataset.protein(i)).columns) for i, name in enumerate(dataset.ids)}
    now = range(arguments.folds) if arguments.only is None else [int(k) for k in arguments.only.split(",")]
    found: dict[str, Scores] = {}
    with stop_on_signals() as stop:
        for method in arguments.methods:
            for fold in range(arguments.folds):
                file = work / f"{method}.fold{fold}.json"
                if not file.exists():
                    if fold not in now:
                        continue
                    path = fold_dataset(
                        whole, fold, folds, arguments.leave_out, work / f"fold{fold}.dataset.h5"
                    )
                    scores = scores_of(method, path, fold, work, stop)
                    file.write_text(json.dumps(scores, indent=1))
                    print(f"{method}, fold {fold}: done", file=sys.stderr, flush=True)
                found.setdefault(method, {}).update(json.loads(file.read_text()))
    for title, chosen in (
        ("Pfam pairs", lambda name: name.startswith("PF")),
        ("Chains above 115 columns", lambda name: widths[name] > WIDE),
        (
            "Pfam pairs that settings were not found on",
            lambda name: name.startswith("PF") and name not in SET_APART,
        ),
        ("All pairs", lambda name: True),
    ):
        print(tables(title, found, chosen))


if __name__ == "__main__":
    main()
