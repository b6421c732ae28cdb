"""Training through the library: it learns, it repeats, and it refuses what cannot be."""

import numpy as np
import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.models.promoter.config import Loss, Metric
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.treatments import TreatmentTable, named_treatments
from tests.training.runs import CPU, promoter_job, train

CONCAT = {"conditioning": "concat", "concat_pools": [4, 4], "concat_hidden": [32, 16, 8]}


def job(dataset, output, model=None, **training):
    return promoter_job(dataset, output, model, **{"epochs": 4, "batch_size": 16, **training})


def weights_of(folder):
    return (folder / "model.safetensors").read_bytes()


FAST = {"learning_rate": 1e-2, "max_shift": 2}


@pytest.mark.parametrize(("score", "epochs"), [("dot", 2), ("additive", 4), ("gaussian", 2)])
def test_cross_learns_the_planted_motifs(dataset_path, tmp_path, score, epochs):
    model = {"attention_score": score, "hops": 2 if score == "dot" else 1}
    evaluation = train(job(dataset_path, tmp_path / "m", model, epochs=epochs, **FAST))
    test = {row.cells: row.figures for row in evaluation.rows}["test genes"]
    assert test["pearson"] > 0.8
    history = (tmp_path / "m" / "history.csv").read_text().splitlines()
    assert history[0].startswith("epoch,learning_rate,training_loss,validation_loss")


@pytest.mark.parametrize(
    "model",
    [
        CONCAT,
        {"conditioning": "film"},
        {"conditioning": "cross-all", "treatment_encoder": "features"},
        {"treatment_encoder": "features", "sink": True},
    ],
    ids=["concat", "film", "cross-all-features", "cross-features-sink"],
)
def test_other_shapes_learn_and_repeat(dataset_path, tmp_path, model):
    settings = {"treatments_per_step": 2, "max_shift": 0, "learning_rate": 1e-2}
    settings["epochs"] = 3 if model is CONCAT else 2
    for name in ("first", "second"):
        evaluation = train(job(dataset_path, tmp_path / name, model, **settings))
        assert evaluation.rows[0].figures["pearson"] > 0.6
    assert weights_of(tmp_path / "first") == weights_of(tmp_path / "second")


@pytest.fixture(scope="module")
def trained(dataset_path, tmp_path_factory):
    """A model of two epochs."""
    folder = tmp_path_factory.mktemp("trained") / "m"
    train(job(dataset_path, folder, epochs=2))
    return folder


def test_answers_come_in_response_units(trained):
    """The responses lie around 5 or 7, so an untransformed answer would be far off."""
    loaded = load_promoter_model(trained, CPU)
    codes = torch.randint(0, 4, (32, loaded.length), dtype=torch.uint8)
    with torch.inference_mode():
        answers = loaded.model(codes, loaded.encode_treatments(loaded.treatments))
    assert 4 < float(answers.mean()) < 8


def test_a_binary_task(binary_path, tmp_path):
    evaluation = train(job(binary_path, tmp_path / "m", epochs=2, **FAST))
    assert evaluation.rows[-1].figures["auroc"] > 0.8
    with pytest.raises(BioattnError, match="metric = pearson does not fit"):
        train(job(binary_path, tmp_path / "n", metric=Metric.PEARSON))
    with pytest.raises(BioattnError, match="loss = mse does not fit"):
        train(job(binary_path, tmp_path / "o", loss=Loss.MSE))


def test_the_unconditional_token_predicts_the_mean_response(dataset_path, tmp_path):
    train(job(dataset_path, tmp_path / "m", unconditional_probability=0.4, epochs=8, **FAST))
    loaded = load_promoter_model(tmp_path / "m", CPU)
    random = np.random.default_rng(5)
    codes = torch.from_numpy(random.integers(0, 4, (200, loaded.length)).astype(np.uint8))
    with torch.inference_mode():
        each = loaded.model(codes, loaded.encode_treatments(named_treatments(["a", "b", "c"])))
        mean = loaded.model(codes, loaded.encode_treatments(named_treatments(["unconditional"])))
    correlation = np.corrcoef(each.mean(1).numpy(), mean[:, 0].numpy())[0, 1]
    assert correlation > 0.8


def test_features_answer_unseen_doses_and_times(dataset_path, tmp_path):
    train(job(dataset_path, tmp_path / "m", {"treatment_encoder": "features"}, epochs=1))
    loaded = load_promoter_model(tmp_path / "m", CPU)
    frame = loaded.treatments.frame.iloc[[0, 0]].copy()
    frame.index = ["seen", "between"]
    frame.loc["between", "minutes"] = 15.0
    batch = loaded.encode_treatments(TreatmentTable(frame=frame))
    codes = torch.randint(0, 4, (8, loaded.length), dtype=torch.uint8)
    with torch.inference_mode():
        new = loaded.model(codes, batch)
        known = loaded.model(codes, loaded.encode_treatments(named_treatments(["a"])))
    torch.testing.assert_close(new[:, :1], known)
    assert not torch.allclose(new[:, 0], new[:, 1])
    frame.loc["between", "agent"] = "acid"
    with pytest.raises(BioattnError, match="'between' has agent = 'acid', which training never saw"):
        loaded.encode_treatments(TreatmentTable(frame=frame))
