"""What a training run says while it goes on and at its end, and what it logs for TensorBoard."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from bioattn.errors import Interrupted
from bioattn.io.files import read_json
from bioattn.models.evoformer.family import EvoformerTrainingSettings
from bioattn.models.promoter.training.baselines import Baseline, best_simple
from bioattn.store.training_record import Comparison
from bioattn.system.signals import StopRequest
from bioattn.training.predicted_tokens import Evaluation, Row
from bioattn.training.trainer import add_events, open_events
from bioattn_cli.main import main
from tests.training.runs import (
    EVOFORMER,
    PROMOTER,
    STAGES,
    Notes,
    StopAfter,
    promoter_job,
    train,
    write_settings,
)

EPOCH = re.compile(
    r"epoch (\d+)/\d+: training loss [\d.]+; validation loss [\d.]+, median r (-?[\d.]+), mean r (-?[\d.]+)"
    r"; best(?:: epoch (\d+)| so far) \([\d.]+ m?s\)"
)


def test_every_epoch_has_a_line_and_the_kept_one_is_that_of_the_table(dataset_path, tmp_path):
    progress = Notes()
    job = promoter_job(dataset_path, tmp_path / "m", epochs=5, learning_rate=0.05, patience=2)
    evaluation = train(job, progress=progress)
    lines = [EPOCH.fullmatch(note) for note in progress.notes[:-1]]
    assert all(lines), progress.notes
    assert [int(line[1]) for line in lines] == list(range(1, len(lines) + 1))
    best = 0
    for number, line in enumerate(lines):
        if float(line[3]) > float(lines[best][3]) or number == 0:
            best = number
        assert line[4] == (None if best == number else str(best + 1))
    record = read_json(tmp_path / "m" / "training.json")
    assert record["best_epoch"] == best + 1
    table = evaluation.tables()[0]
    model = next(row for row in table if row[:2] == ["this model", "validation genes"])
    assert float(model[table[0].index("median r over treatments")]) == pytest.approx(
        float(lines[best][2]), abs=1.1e-3
    )
    # Beside the bar the figure stands as it was before the last round.
    assert "best median r" in progress.status
    ended = progress.notes[-1]
    assert re.match(rf"trained to epoch {len(lines)} in [\d.]+ s", ended)
    assert f"the weights of epoch {best + 1} are kept, the best mean r on the validation data" in ended
    assert ("2 epochs without a better mean r" in ended) == (len(lines) < 5)


def test_steps_of_two_stages_and_a_resumed_run(contact_dataset, tmp_path):
    tables = EVOFORMER | {"training": EVOFORMER["training"] | STAGES}
    job = EvoformerTrainingSettings(dataset=contact_dataset, output=tmp_path / "m", **tables)
    request = StopRequest()
    with pytest.raises(Interrupted):
        train(job, progress=StopAfter(5, request), stop=request)
    progress = Notes()
    train(job, resume=True, progress=progress)
    first, *rounds, ended = (note for note in progress.notes if " scored, " not in note)
    assert first == "going on after step 5"
    assert [line.partition(":")[0] for line in rounds] == ["step 7/9", "step 9/9"]
    assert all(re.search(r"; validation P@L/5 [\d.]+, P@L [\d.]+; best", line) for line in rounds)
    assert "best P@L" in progress.status
    assert ended.startswith("trained to step 9 in ")


@pytest.mark.parametrize("family", ["promoter", "evoformer"])
def test_a_model_below_a_simple_one_says_so_everywhere(
    dataset_path, contact_dataset, tmp_path, capsys, family
):
    """A model that learns nothing: in the last line, in the card and in the record."""
    dataset, steps = (
        (dataset_path, ["--epochs", "1"]) if family == "promoter" else (contact_dataset, ["--steps", "1"])
    )
    tables = PROMOTER if family == "promoter" else EVOFORMER
    config = write_settings(tmp_path / "settings.toml", tables["model"], {"learning_rate": 1e-9})
    model = tmp_path / "m"
    words = ["train", family, str(dataset), "-o", str(model), "-c", str(config), *steps, "--threads", "1"]
    assert main(words) == 0
    captured = capsys.readouterr()
    (last,) = [line for line in captured.err.splitlines() if "ends below a simple model" in line]
    assert last.startswith("this model ends below a simple model: ")
    assert f"Note: {last}." in (model / "README.md").read_text()
    comparison = read_json(model / "training.json")["comparison"]
    assert comparison["below_simple_model"] is True
    rows = [line.split("\t") for line in captured.out.splitlines()]
    column = rows[0].index(comparison["figure"])
    # The rows of the promoter's table begin with the predictor, those of the other with the split.
    cells, predictor = (1, 0) if family == "promoter" else (0, 1)
    wanted = comparison["cells"].removesuffix(" families")
    by_name = {row[predictor]: row[column] for row in rows if len(row) > column and row[cells] == wanted}
    assert f"{comparison['model_figure']:.3f}" == by_name["this model"]
    assert f"{comparison['simple_model_figure']:.3f}" == by_name[comparison["simple_model"]]


def test_the_simple_model_is_chosen_on_validation_genes():
    """One that is better on the test genes by luck is not the one to compare with."""
    rows = [
        Baseline(
            name=name,
            choice="",
            predictions=np.zeros((1, 1), np.float32),
            validation={"pearson": validation},
            test={"pearson": test},
        )
        for name, validation, test in (("mean", np.nan, 0.0), ("good", 0.6, 0.4), ("lucky", 0.1, 0.8))
    ]
    best = best_simple(rows, "regression")
    assert best is rows[1]
    assert best_simple([], "regression") is None


def test_a_figure_of_which_less_is_better_is_told_as_in_tables():
    rows = [
        Row(side, name, {"bits": bits})
        for side in ("validation", "test")
        for name, bits in (("this model", 1.95), ("counts", 1.9))
    ]
    comparison = Evaluation(rows, "next tokens", gains={"counts": (-0.06, -0.04)}).comparison()
    assert comparison.model == -1.95
    assert comparison.sentence() == (
        "this model ends below a simple model: bits per token on test next tokens 1.950, that of counts 1.900 "
        "(difference 0.040 to 0.060)"
    )


@pytest.mark.parametrize(
    ("model", "simple", "gain", "says"),
    [
        (
            0.398,
            0.5,
            (-0.302, 0.047),
            "is neither clearly better nor clearly worse than the best simple model: ",
        ),
        (
            0.295,
            0.708,
            (-2.0, 0.0),
            "is neither clearly better nor clearly worse than the best simple model: ",
        ),
        (0.6, 0.5, (0.02, 0.2), "is better than the best simple model: "),
        (math.nan, math.nan, None, "predicts anything is not known: test genes are too few for AUROC"),
    ],
)
def test_what_the_test_genes_cannot_tell_is_not_said(model, simple, gain, says):
    comparison = Comparison("test genes", "AUROC", model, "a ridge", simple, gain)
    assert says in comparison.sentence()
    assert not comparison.below


def events_of(folder):
    accumulation = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accumulator = accumulation.EventAccumulator(str(folder))
    accumulator.Reload()
    return {
        name: [(event.step, event.value) for event in accumulator.Scalars(name)]
        for name in accumulator.Tags()["scalars"]
    }


def test_events_are_the_history_also_of_a_resumed_run(dataset_path, tmp_path):
    pytest.importorskip("tensorboard")
    job = replace(promoter_job(dataset_path, tmp_path / "m"), log_dir=str(tmp_path / "log"))
    request = StopRequest()
    with pytest.raises(Interrupted):
        train(job, progress=StopAfter(14, request), stop=request)
    assert [step for step, _ in events_of(tmp_path / "log")["training/loss"]] == [10]
    # As a run leaves it that is killed after it logged a round and before it saved its state.
    killed = open_events(tmp_path / "log", tmp_path / "m", 14)
    add_events(killed, 20, {"training_loss": 99.0})
    killed.close()
    train(job, resume=True)
    header, *rows = [line.split(",") for line in (tmp_path / "m" / "history.csv").read_text().splitlines()]
    found = events_of(tmp_path / "log")
    for name, tag in (
        ("training_loss", "training/loss"),
        ("learning_rate", "training/learning_rate"),
        ("validation_mean_pearson", "validation/mean_pearson"),
    ):
        expected = [(10 * (number + 1), float(row[header.index(name)])) for number, row in enumerate(rows)]
        assert found[tag] == [(step, pytest.approx(value, rel=1e-6)) for step, value in expected]
    without = replace(job, output=tmp_path / "without", log_dir=None)
    train(without)
    for file in ("model.safetensors", "training.json", "history.csv"):
        assert (tmp_path / "m" / file).read_bytes() == (tmp_path / "without" / file).read_bytes()
