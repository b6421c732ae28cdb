"""Memory networks: layers against plain loops, cascades with known true facts through the commands, bad tables."""

import json

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.figures.alignments import read_alignments
from bioattn.inference.attention_receiver import BatchReceiver
from bioattn.models.memory.family import MemoryModelConfig
from bioattn.models.memory.model import MemoryNetwork
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from tests.making import bioattn

SETTINGS = """
[training]
steps = 250
steps_per_round = 125
learning_rate = 1.5e-2
average_decay = 0.9
"""


@pytest.mark.parametrize("linear", [False, True])
@torch.no_grad()
def test_hops_are_those_of_a_plain_loop(linear):
    """Sukhbaatar et al. 2015, section 2: three words, two hops, a shorter story."""
    config = MemoryModelConfig(words=("a", "b", "c"), answers=("a", "c"), places=2, hops=2, channels=4)
    torch.manual_seed(0)
    model = MemoryNetwork(config)
    for word in (1, 2):  # (1 − w/W) − (d/D)(1 − 2 w/W)
        wanted = [(1 - word / 2) - d / 4 * (1 - 2 * word / 2) for d in (1, 2, 3, 4)]
        assert model.places[0, word - 1].tolist() == pytest.approx(wanted)
    for parameter in model.parameters():
        parameter += torch.randn_like(parameter)
    questions = [[2], [3, 1]]
    stories = [[[1, 2], [3], [2, 2]], [[3, 3], [1, 3]]]
    filled = torch.zeros(2, 3, 2, dtype=torch.int64)
    for row, story in enumerate(stories):
        for place, fact in enumerate(story):
            filled[row, place, : len(fact)] = torch.tensor(fact)
    receiver = BatchReceiver(AttentionOptions())
    with capture(["memory.read"], receiver):
        reading = model(torch.tensor([[2, 0], [3, 1]]), filled, linear=linear)
    words, places = (each.numpy() for each in (model.words, model.places))

    def embedded(text, table):
        return sum(words[table, word] * places[table, place] for place, word in enumerate(text))

    for row, (question, story) in enumerate(zip(questions, stories, strict=True)):
        state = embedded(question, 0)
        for hop in range(2):
            facts = [[embedded(fact, table) for fact in story] for table in (hop, hop + 1)]
            weights = np.array([state @ key for key in facts[0]])
            if not linear:
                weights = np.exp(weights) / np.exp(weights).sum()
            assert np.allclose(reading.weights_BKF[row, hop, : len(story)], weights, atol=1e-4)
            assert not reading.weights_BKF[row, hop, len(story) :].any()
            state = state + weights @ np.array(facts[1])
        assert np.allclose(reading.logits_BA[row], words[2, [1, 3]] @ state, atol=1e-3)
    if not linear:
        assert np.array_equal(receiver.take()["sites/memory.read"]["weights"], reading.weights_BKF)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Cascades of eight genes, and a model that has learned them."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "settings.toml").write_text(SETTINGS)
    for name, seed, pairs in (("train", 0, 600), ("new", 1, 60)):
        words = ("--task", "cascade", "--genes", 8, "--shortest", 4, "--longest", 6, "--pairs", pairs)
        assert bioattn("simulate", "translation", *words, "--seed", seed, "-o", folder / name) == 0
    words = ("--config", folder / "settings.toml", "-o", folder / "model")
    assert bioattn("train", "memory", folder / "train", *words) == 0
    return folder


def test_every_hop_reads_its_true_fact(folder):
    output, attention = folder / "answers.tsv", folder / "attention.h5"
    words = ("run", "memory", folder / "model", folder / "new", "-o", output, "--attention", attention)
    attention.write_bytes(b"of an earlier run")
    assert bioattn(*words) == 0
    assert bioattn("validate", attention, folder / "model") == 0
    lines = (folder / "new" / "questions.tsv").read_text().splitlines()[1:]
    true = {line.split("\t")[1]: line.split("\t") for line in lines}
    header, *rows = (line.split("\t") for line in output.read_text().splitlines())
    assert len(rows) == 60
    right = hops = 0
    with open_attention(attention) as file:
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            _, _, _, answer, facts = true[cells["question"]]
            assert (cells["right"] == "yes") == (cells["answer"] == answer)
            right += cells["right"] == "yes"
            weights_KF = file.weights("memory.read", sample=cells["question"])
            assert np.allclose(weights_KF.sum(-1), 1, atol=1e-5)
            told = [f"f{place + 1}" for place in weights_KF.argmax(-1)]
            assert told == [cells[f"hop{hop}"] for hop in (1, 2, 3)]
            hops += sum(a == b for a, b in zip(told, facts.split(","), strict=True))
        _, (drawn,) = read_alignments(file, sample=rows[3][0])
    assert right >= 57
    assert hops >= 171
    assert drawn.kinds == ("hop", "fact")
    told = [line.split("\t") for line in (folder / "new" / "facts.tsv").read_text().splitlines()[1:]]
    assert drawn.keys == [text for story, _, text in told if story == rows[3][1]]
    assert bioattn("plot", attention, "-o", folder / "a.png") == 0


def test_one_hop_cannot_answer(folder, capsys):
    """And the record tells both beside the most frequent answer."""
    (folder / "answers.toml").write_text(SETTINGS + "hop_weight = 0\n")
    one, words = folder / "one", ("--config", folder / "answers.toml", "--hops", 1)
    assert bioattn("train", "memory", folder / "train", "-o", one, *words) == 0
    figures = [
        {
            (row["side"], row["name"]): row
            for row in json.loads((path / "training.json").read_text())["evaluation"]
        }
        for path in (folder / "model", one)
    ]
    assert figures[0]["test", "this model"]["accuracy"] > 0.9
    assert figures[0]["test", "this model"]["hop 3"] > 0.9
    assert figures[1]["test", "this model"]["accuracy"] < 0.6
    assert figures[0]["test", "most frequent answer"]["accuracy"] < 0.4


FACTS = "story\tfact\ttext\ns1\tf1\ta b\ns1\tf2\tb c\n"
QUESTIONS = "story\tquestion\ttext\tanswer\tfacts\tsplit\ns1\tq1\ta\tc\tf1,f2\ttrain\ns1\tq2\tb\tc\t\ttest\n"


@pytest.mark.parametrize(
    ("facts", "questions", "words", "said"),
    [
        (FACTS, QUESTIONS.replace("s1\tq2", "s2\tq2"), (), "facts.tsv holds no fact of the story 's2'"),
        (
            FACTS,
            QUESTIONS.replace("f1,f2", "f1,f9"),
            (),
            "questions.tsv:2: names the fact 'f9', which its story lacks",
        ),
        (
            FACTS,
            QUESTIONS.replace("q2\tb", "q2\tz"),
            ("--hops", 2),
            "questions.tsv:3: 'z' stands in no story",
        ),
    ],
)
def test_bad_tables_are_named(tmp_path, facts, questions, words, said, capsys):
    (tmp_path / "facts.tsv").write_text(facts)
    (tmp_path / "questions.tsv").write_text(questions)
    assert bioattn("train", "memory", tmp_path / "facts.tsv", "-o", tmp_path / "m", *words) in (1, 2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "m").exists()
