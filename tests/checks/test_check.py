"""`bioattn explain check` from front to back: the file, the words, what is skipped and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.checks.next_steps import Names
from bioattn.checks.record import read_check
from bioattn.choices import TRAIN
from bioattn.models.evaluation import Evaluation, Row
from bioattn.models.promoter.controls import quick_check
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.promoter_fasta import Promoter, write_promoters
from tests.making import bioattn
from tests.training.promoter.conftest import make_dataset, write_dataset
from tests.training.runs import CPU, train

DATA = Path(__file__).parents[2] / "data"
MODEL = {"channels": 16, "kernel": 7, "num_heads": 2, "head_channels": 8, "hidden_channels": 16}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small dataset with a motif per treatment, its promoters, and models trained on it for a moment."""
    folder = tmp_path_factory.mktemp("made")
    torch.set_num_threads(1)
    write_dataset(folder / "small.dataset.h5", make_dataset(genes=300))
    dataset = read_dataset(folder / "small.dataset.h5")
    rows = zip(dataset.gene_ids, dataset.start, dataset.end, dataset.codes, strict=True)
    promoters = (Promoter(name, "chr1", *place, "+", dataset.flank, codes) for name, *place, codes in rows)
    write_promoters(folder / "promoters.fa", promoters)
    for name, settings, seed in (("model", {}, 0), ("other", {}, 1), ("concat", CONCAT, 0)):
        job = PromoterTrainingSettings(
            dataset=folder / "small.dataset.h5",
            output=folder / name,
            model=settings or {**MODEL, "position_bias": "shared"},
            training={"seed": seed, "epochs": 3, "learning_rate": 5e-3, "batch_size": 32},
            baselines=name == "model",
            check=name == "model",
        )
        train(job)
    return folder


CONCAT = {
    "conditioning": "concat",
    "concat_channels": (8, 8),
    "concat_kernels": (9, 3),
    "concat_pools": (7, 2),
    "concat_condition_channels": 8,
    "concat_hidden": (8, 8, 8),
}


def check(folder, output, *arguments):
    """Run the command on the model and promoters of `folder`."""
    command = ["explain", "check", folder / "model", folder / "promoters.fa", "-o", output, "--samples", "40"]
    return bioattn(*(*command, *arguments, "--threads", "1", "-q"))


def test_model_and_promoters_alone(made, tmp_path, capsys):
    assert check(made, tmp_path / "check.json") == 0
    content = json.loads((tmp_path / "check.json").read_text())
    assert (content["format"], content["format_version"]) == ("bioattn-check", "1.0")
    printed = capsys.readouterr().out
    assert printed.startswith(content["verdict"]["sentence"])
    assert content["verdict"]["code"].split("-")[0] in ("faithful", "unfaithful")
    assert any("record of its training" in caveat for caveat in content["verdict"]["caveats"])
    names = [measure["name"] for measure in content["measures"]]
    assert len(set(names)) == len(names)
    assert {"recorded_skill", "swapped_predictions", "deletion", "insertion", "randomised_weights"} <= set(
        names
    )
    assert "best_simple_model" in names
    skipped = {entry["name"]: entry["why"] for entry in content["skipped"]}
    assert set(skipped) >= {"skill", "swapped_skill", "uniform_control", "shared_control", "seed_stability"}
    assert all("--dataset" in skipped[name] for name in ("skill", "uniform_control"))
    assert set(content["curves"]) == {"deletion", "insertion"}
    for curve in content["curves"].values():
        assert len(curve["fraction"]) == len(curve["top"]) == len(curve["random"])
    assert [(head["site"], head["head"]) for head in content["heads"]] == [
        ("promoter.cross.0", 0),
        ("promoter.cross.0", 1),
    ]
    assert content["settings"]["promoters"] == 40
    for measure in content["measures"]:
        assert measure["label"] in printed
        assert "nan" not in measure["sentence"]
    page = (DATA.parent / "docs" / "formats" / "check.md").read_text()
    assert all(f"| `{name}` |" in page for name in names)
    assert f"`{content['verdict']['code']}`" in page
    assert bioattn("validate", tmp_path / "check.json") == 0
    assert bioattn("inspect", tmp_path / "check.json") == 0
    seen = capsys.readouterr().out
    assert f"verdict: {content['verdict']['code']}" in seen
    (tmp_path / "broken.json").write_text(json.dumps({**content, "measures": None}))
    assert bioattn("validate", tmp_path / "broken.json") == 1
    assert "is incomplete" in capsys.readouterr().out
    record = json.loads((tmp_path / "bioattn-records/check.json.json").read_text())
    assert record["verdict"] == content["verdict"]["code"]
    assert read_check(tmp_path / "check.json").to_json() == content


def test_training_ends_with_a_quick_check(made):
    model = load_promoter_model(made / "model", CPU)
    names = Names.of("promoter", made / "model", None, made / "small.dataset.h5")
    dataset = read_dataset(made / "small.dataset.h5")
    said = quick_check(model, dataset, names)
    untrained = int((dataset.gene_split != TRAIN).sum())
    assert said["check"].startswith(f"Quick check of {min(untrained, 120)} promoters: ")
    assert said["check"] in (made / "model" / "README.md").read_text()
    assert not said["next"]
    # A model that is no better than guessing has no maps to believe, however well they point.
    rows = [
        Row(name="this model", cells="test genes", figures={"pearson": 0.02}),
        Row(name="ridge", cells="test genes", figures={"pearson": 0.3}),
    ]
    guess = Evaluation(task="regression", rows=rows, per_treatment={}, simple_model="ridge")
    poor = quick_check(model, dataset, names, guess)
    assert poor["verdict"] == "model-not-predictive"
    assert "predicts too little on genes it was not trained on" in poor["check"]
    assert "ridge has a median Pearson r of 0.30 on test genes, this model 0.02" in poor["next"][0]
    with torch.no_grad():
        for weights in model.model.parameters():
            weights.zero_()
    assert f"explain check {made / 'model'} INPUT" in quick_check(model, dataset, names)["next"][0]
    assert str(made) not in (made / "model" / "README.md").read_text()
    assert quick_check(load_promoter_model(made / "concat", CPU), dataset, names) == {}


def test_with_dataset_controls_and_another_model(made, tmp_path):
    controls = tmp_path / "controls"
    evidence = ["--dataset", made / "small.dataset.h5", "--controls", controls, "--seeds", "0"]
    evidence += ["--other-model", made / "other"]
    assert check(made, tmp_path / "check.json", *evidence) == 0
    content = json.loads((tmp_path / "check.json").read_text())
    measures = {measure["name"]: measure for measure in content["measures"]}
    assert {"skill", "uniform_retrained", "shared_retrained", "swapped_skill", "seed_stability"} <= set(
        measures
    )
    assert "recorded_skill" not in measures
    assert content["settings"]["held_out_promoters"] is True
    assert content["settings"]["split"] == "test"
    assert sorted(path.name.split("-")[0] for path in controls.iterdir()) == [
        *("gain", "position", "shared", "uniform")
    ]
    # What the file calls skill, by hand.
    dataset = read_dataset(made / "small.dataset.h5")
    model = load_promoter_model(made / "model", CPU)
    rows = np.flatnonzero(dataset.gene_split == 2)
    codes = torch.from_numpy(dataset.codes[rows, dataset.flank : -dataset.flank].copy())
    with torch.inference_mode():
        answer = model.model(codes, model.encode_treatments(model.treatments)).numpy()
    each = []
    for treatment in range(3):
        truth = dataset.targets[rows, treatment]
        known = ~np.isnan(truth)
        each.append(np.corrcoef(truth[known], answer[known, treatment])[0, 1])
    assert measures["skill"]["value"] == pytest.approx(np.mean(each), abs=1e-5)
    # The controls are used again, and the same is said.
    before = {path: path.stat().st_mtime_ns for path in controls.glob("*/model.safetensors")}
    assert check(made, tmp_path / "again.json", *evidence) == 0
    assert {path: path.stat().st_mtime_ns for path in controls.glob("*/model.safetensors")} == before
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "check.json").read_bytes()


def test_one_treatment_has_nobody_to_exchange_maps_with(made, tmp_path):
    assert (
        check(made, tmp_path / "check.json", "--treatment", "b", "--dataset", made / "small.dataset.h5") == 0
    )
    content = json.loads((tmp_path / "check.json").read_text())
    skipped = {entry["name"]: entry["why"] for entry in content["skipped"]}
    assert "one treatment" in skipped["swapped_predictions"]
    assert content["settings"]["probed_treatments"] == ["b"]
    # Of what is missing only the folder of controls is asked for.
    assert "give --controls DIR" in skipped["uniform_control"]
    assert not any("--dataset" in text for text in [*skipped.values(), *content["verdict"]["caveats"]])
    assert content["verdict"]["code"] in ("faithful", "unfaithful", "model-not-predictive")


def test_a_model_that_predicts_nothing_is_called_so_and_no_control_is_trained(made, tmp_path, capsys):
    folder = tmp_path / "noise"
    folder.mkdir()
    shutil.copy(made / "promoters.fa", folder)
    dataset = make_dataset(genes=900)
    dataset = replace(
        dataset, gene_split=np.where(np.arange(900) % 3 > 0, 2, dataset.gene_split).astype("u1")
    )
    targets = np.random.default_rng(0).normal(size=dataset.targets.shape).astype(np.float32)
    write_dataset(folder / "small.dataset.h5", replace(dataset, targets=targets))
    job = PromoterTrainingSettings(
        dataset=folder / "small.dataset.h5",
        output=folder / "model",
        model=MODEL,
        training={"epochs": 1},
        baselines=False,
    )
    train(job)
    controls = tmp_path / "controls"
    assert (
        check(folder, tmp_path / "c.json", "--dataset", folder / "small.dataset.h5", "--controls", controls)
        == 0
    )
    content = json.loads((tmp_path / "c.json").read_text())
    assert content["verdict"]["code"] == "model-not-predictive"
    said = capsys.readouterr().out
    assert "predicts nothing" in said
    assert f"bioattn train promoter {folder / 'small.dataset.h5'} -o {folder / 'model'}-2" in said
    assert content["verdict"]["next"][0] in said
    assert not controls.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--controls", "C"], 2, "--dataset"),
        (["--seeds", "2"], 2, "--controls"),
        (["--treatment", "nobody"], 1, "--treatment 'nobody': the model holds no such treatment"),
        (["--dataset", "DATASET", "--controls", "MODEL"], 2, "--controls"),
        (["--dataset", "OTHER"], 1, "is not the dataset this model was trained on"),
        (["--other-model", "CONCAT"], 1, "this model is concat"),
        (["-o", "MODEL"], 1, "is a folder"),
    ],
)
def test_what_does_not_go_together(made, tmp_path, capsys, arguments, code, words):
    write_dataset(tmp_path / "other.dataset.h5", make_dataset(genes=200, seed=5))
    places = {
        "DATASET": made / "small.dataset.h5",
        "OTHER": tmp_path / "other.dataset.h5",
        "CONCAT": made / "concat",
        "MODEL": made / "model",
        "C": tmp_path / "c",
    }
    assert check(made, tmp_path / "check.json", *(places.get(word, word) for word in arguments)) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "check.json").exists()


def test_models_and_promoters_that_cannot_be_checked(made, tmp_path, capsys):
    few = tmp_path / "few.fa"
    few.write_text("".join(f">g{n}\n{'ACGT' * 16}\n" for n in range(5)))
    output = str(tmp_path / "check.json")
    assert bioattn("explain", "check", made / "model", few, "-o", output, "-q") == 1
    assert "5 promoters" in capsys.readouterr().err
    assert bioattn("explain", "check", made / "concat", made / "promoters.fa", "-o", output, "-q") == 1
    assert "cross only; this model is concat" in capsys.readouterr().err
    assert not (tmp_path / "check.json").exists()
