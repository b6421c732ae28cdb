"""What a verdict says to do next: commands with the user's names, and a number of samples that does decide."""

from pathlib import Path

import numpy as np
import pytest

from bioattn.checks.engine import CheckSettings, Evidence
from bioattn.checks.measures import Code, Measure, Verdict
from bioattn.checks.next_steps import Names, beaten, next_steps, samples_needed
from bioattn.promoters.response_metrics import estimate
from bioattn.store.training_record import Comparison
from tests.checks.conftest import probe_of

NAMES = Names.of("promoter", Path("my model"), Path("a.fa"), Path("d.h5"))


def test_so_many_samples_leave_the_threshold_out():
    values = np.random.default_rng(0).normal(0.5, 2.0, 100_000)

    def mean(number):
        return estimate(lambda weights_RN: weights_RN @ values[:number] / number, number)

    first = mean(200)
    measure = Measure(
        name="", label="", value=first.value, interval=first[1:], threshold=0.3, passed=True, sentence=""
    )
    assert measure.unclear
    assert measure.outcome == "undecided"
    more = samples_needed(measure, 200)
    assert more > 200
    # About the same value in a narrower interval: its end lies at the threshold, within a fifth of its width.
    end = (first[1] - first[0]) * np.sqrt(200 / more) + first[0]
    assert end == pytest.approx(0.3, abs=0.01)
    low, high = mean(4 * more)[1:]
    assert not low < 0.3 < high


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            Code.UNFAITHFUL,
            ["explain attribution 'my model' a.fa", "train promoter d.h5 -o 'my model-shared'"],
        ),
        (Code.NOT_USED, ["explain attribution 'my model' a.fa -o attribution.h5"]),
        (Code.NOT_SPECIFIC, ["--readout shared"]),
        (Code.NOT_PREDICTIVE, ["train promoter d.h5 -o 'my model-2'"]),
        (Code.SPECIFIC, []),
    ],
)
def test_a_negative_verdict_names_a_command(code, words, make_model, codes):
    steps = next_steps(probe_of(make_model(), codes), Verdict(code, "", [], ["deletion"]), NAMES)
    assert all(any(word in step for step in steps) for word in words)
    assert bool(steps) == bool(words)
    assert all(step[0].isupper() and step.endswith(".") for step in steps)


def test_an_open_question_asks_for_more_samples(make_model, codes):
    probe = probe_of(make_model(), codes)
    probe.settings = CheckSettings(samples=25)
    probe.evidence = Evidence(dataset=Path("d.h5"), treatments=("heat", "low salt"))
    probe.measures.add("deletion", "deletion", estimate_of(0.2, 0.1, 0.3), "", least=0.15)
    probe.measures.add("deletion_against_mutagenesis", "", 0.9, "", least=0.7)
    verdict = probe.verdict()
    assert verdict.code == "undecided"
    assert "0.200" in verdict.sentence
    step = next_steps(probe, verdict, NAMES)[0]
    assert "--samples 100`" in step
    assert "explain check 'my model' a.fa -o check.json --dataset d.h5" in step
    assert "--treatment heat --treatment 'low salt'" in step
    probe.measures.add("best_simple_model", "", 0.5, "A simple model predicts better.", most=0.4)
    assert "--keep-best`" in next_steps(probe, verdict, NAMES)[-1]
    probe.settings = CheckSettings(samples=300)  # all that there are were used
    assert "--samples" not in next_steps(probe, verdict, NAMES)[0]


def estimate_of(value, low, high):
    return type(estimate(lambda weights_RN: weights_RN.mean(1), 3))(value, low, high)


def test_a_simple_model_that_wins_can_be_kept():
    r = Comparison("test genes", "median r over treatments", 0.3, "6-mer ridge", 0.4)
    assert "--keep-best" in beaten(r, NAMES)
    assert "6-mer ridge" in beaten(r, NAMES)
    assert "--keep-best" not in beaten(r._replace(figure="AUROC"), NAMES)
