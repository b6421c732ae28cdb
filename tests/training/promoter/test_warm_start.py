"""The warm start: a model that has not been trained yet answers what the ridge answers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bioattn.errors import BioattnError, Interrupted
from bioattn.io.files import read_json
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge
from bioattn.models.promoter.training.data import centred_windows
from bioattn.models.promoter.training.first_weights import gated_programmes
from bioattn.models.training_history import read_history
from bioattn.promoters.dataset import read_dataset
from bioattn.system.signals import StopRequest
from tests.training.runs import CPU, Notes, StopAfter, same_folders, train

KMER = {"stem": "kmer", "kmer": 4, "channels": 16, "num_heads": 2, "head_channels": 8, "pool": 2}


def start(dataset_path, output, **model):
    """Train with a rate that changes nothing."""
    job = PromoterTrainingSettings(
        dataset=dataset_path,
        output=output,
        model={**KMER, **model},
        training={
            "epochs": 1,
            "learning_rate": 1e-12,
            "weight_decay": 0.0,
            "warm_start": True,
            "max_shift": 0,
            "average_decay": 0.0,
        },
        baselines=False,
    )
    train(job)
    return load_promoter_model(output, CPU)


@pytest.mark.parametrize(
    ("encoder", "stem"),
    [
        ("id", {}),
        ("features", {}),
        ("id", {"stem": "both", "channels": 32, "num_heads": 4}),
        ("id", {"readout": "shared", "num_heads": 4}),
        ("features", {"readout": "shared", "num_heads": 6, "stem": "both", "channels": 32}),
    ],
    ids=["id", "features", "beside-filters", "shared", "shared-beside-filters"],
)
def test_the_start_answers_what_the_ridge_answers(dataset_path, tmp_path, encoder, stem):
    dataset = read_dataset(dataset_path)
    data = BaselineData(dataset)
    ridge = component_ridge(data, [KMER["kmer"]]).model
    loaded = start(dataset_path, tmp_path / "m", treatment_encoder=encoder, treatment_channels=8, **stem)
    with torch.inference_mode():
        codes = centred_windows(dataset, data.test)
        answers = loaded.model(codes, loaded.encode_treatments(loaded.treatments)).numpy()
    expected = ridge.predict(data.codes[data.test])
    for treatment in range(answers.shape[1]):
        assert np.corrcoef(answers[:, treatment], expected[:, treatment])[0, 1] > 0.98
    assert np.abs(answers - expected).mean() < 0.1 * expected.std()


def test_programmes_follow_treatments_of_both_signs():
    """Rank 3 of either sign needs at most six heads with gates between 0 and 1, and more than two."""
    random = np.random.default_rng(0)
    readers_TC = random.normal(size=(20, 3)) @ random.normal(size=(3, 8))
    for heads in (6, 7):
        gates_TH, programmes_HC = gated_programmes(readers_TC, heads)
        assert gates_TH.shape == (20, heads)
        assert ((gates_TH > 0) & (gates_TH < 1)).all()
        np.testing.assert_allclose(gates_TH @ programmes_HC, readers_TC, atol=0.05 * np.abs(readers_TC).max())
    too_few = gated_programmes(readers_TC, 2)
    assert np.abs(too_few[0] @ too_few[1] - readers_TC).max() > 0.1 * np.abs(readers_TC).max()


def test_the_start_is_kept_where_training_only_makes_it_worse(dataset_path, tmp_path):
    """Epoch 0: a rate that ruins the model at once; stopped and resumed, the same bytes."""
    destructive = {
        "epochs": 5,
        "patience": 2,
        "learning_rate": 3.0,
        "warmup_fraction": 0.0,
        "warm_start": True,
    }
    job = PromoterTrainingSettings(
        dataset=dataset_path, output=tmp_path / "m", model=KMER, training=destructive, baselines=False
    )
    notes = Notes()
    train(job, progress=notes)
    record = read_json(tmp_path / "m" / "training.json")
    assert (record["best_epoch"], record["epochs_trained"]) == (0, 2)  # patience counts from the start
    assert "the weights of epoch 0 are kept" in notes.notes[-1]
    assert next(note for note in notes.notes if "epoch 0/5" in note).startswith(
        "epoch 0/5: the start; validation"
    )
    history = read_history(tmp_path / "m")
    assert (history.steps, history.best) == ([0, 1, 2], 0)
    dataset = read_dataset(dataset_path)
    data = BaselineData(dataset)
    ridge = component_ridge(data, [KMER["kmer"]])
    loaded = load_promoter_model(tmp_path / "m", CPU)
    with torch.inference_mode():
        answers = loaded.model(
            centred_windows(dataset, data.test), loaded.encode_treatments(loaded.treatments)
        )
    assert np.corrcoef(answers.numpy().ravel(), ridge.predictions[data.test].ravel())[0, 1] > 0.98

    stopped = replace(job, output=tmp_path / "stopped")
    request = StopRequest()
    with pytest.raises(Interrupted):
        train(stopped, progress=StopAfter(1, request), stop=request)
    train(stopped, resume=True)
    same_folders(tmp_path / "m", tmp_path / "stopped")


def test_it_needs_the_kmer_stem_and_regression(dataset_path, binary_path, tmp_path):
    with pytest.raises(BioattnError, match="warm_start needs --conditioning cross, stem = kmer"):
        start(dataset_path, tmp_path / "m", stem="conv")
    with pytest.raises(BioattnError, match="num_heads × head_channels = channels, here 3 × 8 and 16"):
        start(dataset_path, tmp_path / "m", num_heads=3)
    with pytest.raises(
        BioattnError, match="warm_start with --readout shared needs position_bias = treatment"
    ):
        start(dataset_path, tmp_path / "m", readout="shared", position_bias="shared")
    with pytest.raises(BioattnError, match="warm_start needs a regression task"):
        start(binary_path, tmp_path / "m")
