"""Language models of the rows of an alignment: the profile they start from, what they learn, what is refused."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.alignments.alphabet import msa_codes
from bioattn.alignments.weights import sequence_weights
from bioattn.formats.fasta import read_fasta
from bioattn.models.language.family import LanguageTrainingSettings
from bioattn.models.language.folder import load_language_model
from bioattn.models.language.task import LanguageTask
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL
from bioattn.system.progress import Progress
from tests.making import bioattn
from tests.models.language.made_models import log_likelihoods

COLUMNS = 10
MODEL = {
    "positions": "learned",
    "layers": 1,
    "channels": 16,
    "num_heads": 2,
    "hidden_channels": 16,
    "dropout": 0.0,
}
TRAINING = {
    "steps": 200,
    "steps_per_round": 50,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "average_decay": 0.9,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose last residue is that of the first column, which a profile cannot know; some gaps."""
    folder = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(0)
    rows = []
    for number in range(200):
        row = random.choice(list("DEKR"), size=COLUMNS)
        row[-1] = row[0]
        row[4] = "-" if number % 3 else "W"
        rows.append(f">r{number}\n{''.join(row)}\n")
    (folder / "rows.fa").write_text("".join(rows))
    (folder / "few.fa").write_text("".join(rows[:4]))
    table = "".join(f"{k} = {json.dumps(v)}\n" for k, v in MODEL.items())
    training = "".join(f"{k} = {v}\n" for k, v in TRAINING.items())
    (folder / "settings.toml").write_text(f"[model]\n{table}[training]\n{training}")
    words = ("prepare", "language", folder / "rows.fa", "--alphabet", "alignment")
    assert bioattn(*words, "-o", folder / "x.dataset.h5") == 0
    return folder


@pytest.fixture(scope="module", params=["encoder", "decoder"])
def model(request: pytest.FixtureRequest, folder: Path) -> Path:
    output = folder / request.param
    words = ("train", "language", folder / "x.dataset.h5", "-o", output)
    assert bioattn(*words, "--config", folder / "settings.toml", "--shape", request.param) == 0
    return output


@pytest.mark.parametrize("shape", ["encoder", "decoder"])
def test_training_starts_from_the_weighted_frequencies_of_columns(shape: str, folder: Path):
    settings = LanguageTrainingSettings(
        dataset=folder / "x.dataset.h5",
        output=folder / "none",
        model={**MODEL, "shape": shape},
        training=TRAINING,
    )
    task = LanguageTask(settings, torch.device("cpu"))
    task.prepare(Progress())
    task.begin()
    dataset, letters = task.dataset, np.array(list(task.dataset.vocabulary.letters))
    rows = ["".join(letters[dataset.segment(number)]) for number in dataset.segments_in(0)]
    weights = sequence_weights(msa_codes(np.array([np.frombuffer(row.encode(), np.uint8) for row in rows])))
    assert task.model.profile_LV is not None
    profile = task.model.profile_LV.detach().numpy()
    for column in range(COLUMNS):
        place = column if shape == "decoder" else column + 1
        for number, letter in enumerate(letters):
            own = sum(weight for row, weight in zip(rows, weights, strict=True) if row[column] == letter)
            share = (own + 5 / 21) / (weights.sum() + 5)
            assert math.exp(profile[place, len(SPECIAL) + number]) == pytest.approx(share, rel=0.01)


def test_what_a_profile_cannot_know_is_learned(model: Path):
    rows = {
        (row["side"], row["name"]): row["bits"]
        for row in json.loads((model / "training.json").read_text())["evaluation"]
    }
    assert rows["test", "this model"] < rows["test", "profile of the alignment"] - 0.05


def test_residues_are_scored_given_the_gaps(model: Path, folder: Path):
    loaded = load_language_model(model, torch.device("cpu"))
    vocabulary = loaded.vocabulary
    assert bioattn("run", "language", model, folder / "few.fa", "-o", folder / "scores.tsv") == 0
    with (folder / "scores.tsv").open() as file:
        scores = list(csv.DictReader(file, delimiter="\t"))
    for score, record in zip(scores, read_fasta(folder / "few.fa"), strict=True):
        words = vocabulary.words(record.sequence, "row")
        tokens = np.concatenate([[CLS], words, [EOS]])
        likely = log_likelihoods(loaded, tokens)[:COLUMNS]
        is_gap = np.array([letter == "-" for letter in record.sequence])
        assert np.array_equal(np.isnan(likely), is_gap)
        assert int(score["words"]) == (~is_gap).sum()
        assert float(score["log_likelihood"]) == pytest.approx(np.nansum(likely), abs=1e-4)
    # The probabilities of the twenty residues and the special tokens add up to 1.
    row = next(read_fasta(folder / "few.fa")).sequence
    total = 0.0
    for letter in "ACDEFGHIKLMNPQRSTVWY":
        tokens = np.concatenate([[CLS], vocabulary.words(letter + row[1:], "row"), [EOS]])
        total += math.exp(log_likelihoods(loaded, tokens)[0])
    assert total == pytest.approx(1, abs=0.02)
