"""Training the MSA/pair stack: it learns planted contacts, repeats, and goes on to the same bytes."""

import json
from dataclasses import replace

import pytest
import torch

from bioattn.errors import SettingsError
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.training_families import MODEL
from bioattn_cli.main import main
from tests.training.runs import CPU, EVOFORMER, same_folders, train, write_settings

TINY = EVOFORMER["model"]


def job(dataset, output, model=None, initial=None, **training):
    return EvoformerTrainingSettings(
        dataset=dataset,
        output=output,
        model={} if initial else {**TINY, **(model or {})},
        training={**EVOFORMER["training"], **training},
        initial_model=initial,
    )


@pytest.mark.slow
def test_planted_contacts_of_families_never_seen_are_found(contact_dataset, tmp_path):
    """Trained on generated families; the dataset's own training families stay unused."""
    settings = {"simulated_families": 30, "max_extra_msa": 120, "crop": 40, "masked_fraction": 0.05}
    settings |= {"simulated_steps": 60, "steps": 0, "steps_per_round": 60, "simulated_learning_rate": 5e-3}
    scores = train(job(contact_dataset, tmp_path / "m", **settings)).scores
    own = scores[scores["predictor"] == MODEL]
    assert list(own["split"]) == ["validation", "test"]
    # Of all pairs about one in ten is a contact.
    assert own["P@L/5"].mean() > 0.35


@pytest.mark.parametrize(
    ("model", "training"),
    [
        (
            {"uniform_msa_attention": True, "centred_outer_product": False},
            {"families_per_step": 2, "steps": 3},
        ),
        (
            {"pair_features": 3},
            {"simulated_steps": 1, "simulated_share": 0.5, "simulated_families": 1, "steps": 2},
        ),
    ],
    ids=["uniform-accumulated", "covariance-simulated"],
)
def test_same_seed_same_bytes(contact_dataset, tmp_path, model, training):
    """Another seed: `test_trainer.py`."""
    for name in ("first", "second"):
        train(job(contact_dataset, tmp_path / name, model, **training))
    same_folders(tmp_path / "first", tmp_path / "second")


def test_two_stages_are_two_runs(contact_dataset, tmp_path):
    """One run on simulated, then real families has the weights of two, the second started from the first."""
    simulated = {"simulated_steps": 2, "simulated_families": 2, "steps_per_round": 2}
    for name, settings in (
        ("both", {**simulated, "steps": 2}),
        ("first", {**simulated, "steps": 0}),
        ("second", {"initial": tmp_path / "first", "steps": 2}),
    ):
        # Without validation families the last weights are kept, which are those handed on inside one run.
        trained = replace(job(contact_dataset, tmp_path / name, **settings), exclude=("simulated000004",))
        train(trained)
    both, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("both", "second"))
    assert both == second


@pytest.fixture(scope="module")
def two_steps(contact_dataset, tmp_path_factory):
    """The model of two steps."""
    folder = tmp_path_factory.mktemp("two") / "m"
    train(job(contact_dataset, folder, steps=2))
    return folder


def test_a_model_starts_from_another_ones_weights(contact_dataset, two_steps, tmp_path):
    start = job(contact_dataset, tmp_path / "next", initial=two_steps, steps=1, learning_rate=1e-12)
    train(start)
    first, following = (
        load_evoformer_model(folder, CPU).model.state_dict() for folder in (two_steps, tmp_path / "next")
    )
    for name, weight in first.items():
        torch.testing.assert_close(weight, following[name], rtol=0, atol=1e-9)
    with_features = job(contact_dataset, tmp_path / "wider", initial=two_steps, steps=1)
    with_features = replace(with_features, model={"pair_features": 3})
    train(with_features)
    assert load_evoformer_model(tmp_path / "wider", CPU).config.pair_features == 3
    with pytest.raises(SettingsError, match="--initial-model brings its own shape"):
        train(replace(start, output=tmp_path / "other", model={"num_blocks": 3}))
    record = json.loads((tmp_path / "next" / "training.json").read_text())
    digest = json.loads((two_steps / "training.json").read_text())["sha256"]["model.safetensors"]
    assert record["job"]["initial_model"] == digest


def test_excluded_proteins_are_not_used_and_the_figures_are_printed(contact_dataset, tmp_path, capsys):
    settings = write_settings(tmp_path / "settings.toml", TINY, {})
    words = ["train", "evoformer", str(contact_dataset), "-o", str(tmp_path / "m"), "-c", str(settings)]
    words += ["--steps", "2", "--exclude", "simulated000004", "-c", "model.uniform_msa_attention=true", "-q"]
    assert main(words) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["split", "predictor", "families", "P@L/5", "P@L"]
    assert [row[:3] for row in rows[1:]] == [
        ["test", "this model", "1"],
        ["test", "APC mutual information", "1"],
        ["test", "mean-field DCA", "1"],
    ]
    record = json.loads((tmp_path / "m" / "training.json").read_text())
    assert record["dataset"]["excluded"] == ["simulated000004"]
    assert record["families"] == {"train": 4, "validation": 0, "test": 1}
    card = (tmp_path / "m" / "README.md").read_text()
    assert "from the alignment alone" in card
    assert "| test | this model | 1 |" in card
    assert main(["inspect", str(tmp_path / "m")]) == 0
    ours, best = rows[1][4], max(rows[2][4], rows[3][4])
    assert f"P@L on test families {ours}, that of" in (said := capsys.readouterr().out)
    assert best in said


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--exclude", "1ABC"], 1, "--exclude '1ABC'"),
        (["--steps", "0"], 2, "steps and simulated_steps are both 0"),
        (["--initial-model", "missing"], 1, "missing"),
    ],
)
def test_mistakes_leave_nothing(contact_dataset, tmp_path, capsys, words, code, sentence):
    assert main(["train", "evoformer", str(contact_dataset), "-o", str(tmp_path / "m"), *words]) == code
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_activation_checkpointing_changes_no_gradient(contact_dataset, two_steps, tmp_path):
    """With it the backward pass runs each block again: weights agree to rounding."""
    train(job(contact_dataset, tmp_path / "again", activation_checkpointing=True, steps=2))
    kept, again = (
        load_evoformer_model(folder, CPU).model.state_dict() for folder in (two_steps, tmp_path / "again")
    )
    for name, weight in kept.items():
        torch.testing.assert_close(weight, again[name], rtol=1e-4, atol=1e-5)
