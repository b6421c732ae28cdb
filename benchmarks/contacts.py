"""Contacts of families no model was trained on: couplings, networks on maps, the MSA/pair stack; as Markdown.

    python benchmarks/contacts.py INDEX.tsv -o WORK [--methods NAME…] [--folds K] [--only 0,1] [--leave-out ID…]

INDEX.tsv is a table of `bioattn prepare contacts`. Proteins related by sequence stay in one of K folds; each fold
is predicted by models trained on the others only. The MSA/pair models start from one that has seen simulated
families on generated folds only, so that one start serves all folds. Every figure is kept in WORK, and a run that
was stopped goes on where it was. Settings stand below; none was chosen by a test score
(docs/models/evoformer-training.md says how they were found).
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from contacts_cnn import coupling_maps, predict, profile_maps, train_network

from bioattn.alignments.contact_dataset import TEST, TRAIN, open_contact_dataset
from bioattn.alignments.contact_dataset_output import write_contact_dataset
from bioattn.alignments.contact_preparation import ContactSettings, prepare_contacts
from bioattn.config_file import build
from bioattn.models.evoformer.folder import load_evoformer_model
from bioattn.stop_request import StopRequest, stop_on_signals
from bioattn.training.evoformer.config import EvoformerTrainingConfig
from bioattn.training.evoformer.contact_metrics import ContactScores, bootstrap_interval, contact_scores
from bioattn.training.evoformer.evaluation import coupling_scores
from bioattn.training.evoformer.families import TrainingFamily
from bioattn.training.evoformer.prediction import score_family
from bioattn.training.evoformer.train import EvoformerTrainingJob, train_evoformer

CNN_STEPS = {profile_maps: (100, 600), coupling_maps: (300, 300)}
"""Steps, and the length of their schedule: the network on profiles is at its best early and then overfits."""
PRETRAINING = {"steps": 0, "simulated_steps": 1600}
TRAINING = {"steps": 400, "simulated_share": 0.3}
CONTROLS = {
    "evoformer": {},
    "evoformer-uniform": {"uniform_msa_attention": True},
    "evoformer-covariance": {"pair_features": 3},
    "evoformer-covariance-uniform": {"pair_features": 3, "uniform_msa_attention": True},
}
"""Model settings of the MSA/pair models."""
ROWS = {
    "mutual-information": "mutual information, APC, light pseudocount",
    "mean-field": "mean-field DCA",
    "cnn-profile": "2-D CNN on profiles",
    "evoformer": "(i) MSA/pair model, alignment alone",
    "evoformer-uniform": "(i) the same, uniform MSA attention",
    "cnn-couplings": "2-D CNN on DCA and MI maps",
    "evoformer-covariance": "(ii) MSA/pair model, with covariances",
    "evoformer-covariance-uniform": "(ii) the same, uniform MSA attention",
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


def read_families(path: Path, split: int) -> list[TrainingFamily]:
    """The proteins of one side of a fold."""
    dataset = open_contact_dataset(path)
    return [TrainingFamily(dataset.protein(int(i))) for i in dataset.proteins_in(split)]


def network_scores(
    path: Path, maps_of: Callable[[TrainingFamily], np.ndarray], cache: Path
) -> dict[str, ContactScores]:
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
    name: str, path: Path, output: Path, initial: Path | None, settings: dict, stop: StopRequest
) -> None:
    """Train an MSA/pair model into `output`, unless it is there."""
    if output.exists():
        return
    job = EvoformerTrainingJob(
        dataset_path=path,
        output=output,
        model={} if initial else CONTROLS[name],
        training=build(EvoformerTrainingConfig, settings, "benchmark"),
        initial=initial,
    )
    train_evoformer(job, device=torch.device("cpu"), resume=True, stop=stop)


def model_scores(
    name: str, path: Path, output: Path, work: Path, stop: StopRequest
) -> dict[str, ContactScores]:
    """Test scores of an MSA/pair model that starts from its pre-trained one and learns the fold's families."""
    pretrained = work / f"{name}.pretrained"
    train_model(name, path, pretrained, None, PRETRAINING, stop)
    train_model(name, path, output, pretrained, TRAINING, stop)
    loaded = load_evoformer_model(output, torch.device("cpu"))
    return {
        family.protein.id: score_family(loaded.model, family, loaded.inputs)
        for family in read_families(path, TEST)
    }


def scores_of(method: str, path: Path, fold: int, work: Path, stop: StopRequest) -> dict[str, ContactScores]:
    """Test scores of one method on one fold."""
    if method in ("mutual-information", "mean-field"):
        both = {family.protein.id: coupling_scores(family) for family in read_families(path, TEST)}
        place = 0 if method == "mutual-information" else 1
        return {name: list(scores.values())[place] for name, scores in both.items()}
    if method == "cnn-profile":
        return network_scores(path, profile_maps, work)
    if method == "cnn-couplings":
        return network_scores(path, coupling_maps, work)
    return model_scores(method, path, work / f"{method}.fold{fold}", work, stop)


def table(found: dict[str, dict[str, ContactScores]], chosen: Callable[[str], bool]) -> list[str]:
    """Markdown rows: means over the proteins that every method has, with bootstrap intervals."""
    common = [name for name in next(iter(found.values())) if chosen(name)]
    common = [name for name in common if all(name in scores for scores in found.values())]
    lines = [
        f"{len(common)} proteins",
        "",
        "| predictor | P@L/5 | 95 % | P@L | 95 % |",
        "| --- | --- | --- | --- | --- |",
    ]
    for method, scores in found.items():
        cells = [ROWS[method]]
        for values in (
            [scores[name].precision_l5 for name in common],
            [scores[name].precision_l for name in common],
        ):
            low, high = bootstrap_interval(values)
            cells += [f"{np.mean(values):.3f}", f"{low:.2f}-{high:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser()
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
        prepare_contacts(arguments.index, whole, ContactSettings())
    dataset = open_contact_dataset(whole)
    folds = assign_folds(dataset.groups, arguments.folds)
    now = range(arguments.folds) if arguments.only is None else [int(k) for k in arguments.only.split(",")]
    found: dict[str, dict[str, ContactScores]] = {}
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
                    file.write_text(json.dumps({k: v.as_figures() for k, v in scores.items()}, indent=1))
                    print(f"{method}, fold {fold}: done", file=sys.stderr, flush=True)
                for name, figures in json.loads(file.read_text()).items():
                    found.setdefault(method, {})[name] = ContactScores(
                        precision_l5=figures["P@L/5"], precision_l=figures["P@L"]
                    )
    print("\n".join(["Pfam pairs: ", *table(found, lambda name: name.startswith("PF"))]))
    print("\n".join(["", "All pairs: ", *table(found, lambda name: True)]))


if __name__ == "__main__":
    main()
