"""Heads of language models are named, weighed and removed, and attention is checked, on models made by hand."""

import csv
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from bioattn.attention.capture import hand_over
from bioattn.attention.measures import masked_heads
from bioattn.attention.site import AttentionSite, Axis
from bioattn.checks.engine import CheckSettings, Evidence, check_model
from bioattn.checks.record import read_check
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.inference.passes import IGNORED
from bioattn.interpret.heads import head_name, head_patterns
from bioattn.models.language.checks import LanguageHeadScorer, make_probe
from bioattn.models.language.config import Shape
from bioattn.models.language.model import LanguageModel
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import RESIDUES, SPECIAL
from bioattn.system.progress import SILENT
from tests.making import bioattn
from tests.models.language import made_models as made
from tests.models.language.made_models import loaded_of, make_config, saved

SETTINGS = CheckSettings(samples=60, mutated=20, backgrounds=2)
SMALL = {"layers": 1, "channels": 12, "num_heads": 3, "hidden_channels": 8, "context": 40}
SMALL["alphabet"] = Alphabet.PROTEIN


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Repeats as FASTA and dataset, and the model of induction."""
    folder = tmp_path_factory.mktemp("heads")
    write_letters(folder / "repeats.fa", [letters for letters, *_ in made.sequences_with_repeats(200)])
    words = ("--alphabet", "protein", "--split", "record", "--holdout", "validation=0.3")
    assert bioattn("prepare", "language", folder / "repeats.fa", "-o", folder / "x.dataset.h5", *words) == 0
    saved(folder / "model", made.induction_model(heads=2).model)
    return folder


def write_letters(path, sequences):
    write_fasta(path, [FastaRecord(f"s{number}", "", letters) for number, letters in enumerate(sequences)])
    return path


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def second_copies_right(loaded, masks=None):
    """Share of the letters behind the first one of the second copies that are the likeliest."""
    right = []
    with torch.no_grad(), masked_heads(loaded.model, masks or {}):
        for letters, first, second in made.sequences_with_repeats(50, seed=1):
            assert letters[first : first + 8] == letters[second:]
            tokens = np.concatenate([[1], loaded.vocabulary.words(letters, "")])
            likeliest = loaded.model(torch.from_numpy(tokens[None])[:, :-1])[0].argmax(-1).numpy()
            right += (likeliest == tokens[1:])[second + 1 :].tolist()
    return np.mean(right)


def test_heads_that_copy_are_named_and_needed(folder):
    """The two that were made for it, and no other: without either nothing is copied."""
    loaded = made.induction_model(heads=2)
    assert second_copies_right(loaded) == 1
    for site in ("language.decoder.0", "language.decoder.1"):
        assert second_copies_right(loaded, {site: torch.tensor([0.0, 1.0])}) < 0.2
    others = {f"language.decoder.{layer}": torch.tensor([1.0, 0.0]) for layer in (0, 1)}
    assert second_copies_right(loaded, others) == 1
    output = folder / "heads"
    assert bioattn("explain", "heads", folder / "model", folder / "x.dataset.h5", "-o", output) == 0
    assert bioattn("inspect", output) == bioattn("validate", output) == 0
    found = {(row["site"], row["head"]): row for row in rows(output / "heads.tsv")}
    assert found["language.decoder.0", "0"]["name"] == "previous"
    assert found["language.decoder.1", "0"]["name"] == "induction"
    assert all(found[site, "1"]["name"] == "uniform" for site, _ in found)
    whole = json.loads((output / "heads.json").read_text())["whole"]
    for (_, head), row in found.items():
        needed = head == "0"
        assert (float(row["importance"]) > 1e-3) == needed
        assert (float(row["accuracy_without"]) < whole["accuracy"] - 0.2) == needed
    assert {row["removed_head"] for row in rows(output / "pruning.tsv")[1:]} == {"1"}
    assert len({row["window"] for row in rows(output / "windows.tsv")}) == 60


@pytest.mark.parametrize("shape", Shape)
def test_importance_is_the_mean_size_of_the_loss_s_slope(folder, shape):
    """Window by window, head by head, by moving its mask to either side of 1, in double precision."""
    torch.manual_seed(0)
    loaded = loaded_of(LanguageModel(make_config(shape, **SMALL)))
    scorer = LanguageHeadScorer(loaded, folder / "x.dataset.h5", "validation", SILENT)
    found = scorer.importance()
    loaded.model.double()
    step = 1e-4
    for (site, head), by_window in list(found.items())[:: 1 if shape is Shape.DECODER else 2]:
        sides = []
        for sign in (1, -1):
            mask = torch.ones(3, dtype=torch.float64)
            mask[head] += sign * step
            losses = []
            with torch.no_grad(), masked_heads(loaded.model, {site: mask}):
                for part in scorer.parts:
                    logits = loaded.model(part.tokens_BL, part.source_BS)
                    losses += [
                        F.cross_entropy(own[target != IGNORED], target[target != IGNORED])
                        for own, target in zip(logits, part.targets_BL, strict=True)
                    ]
            sides.append(torch.stack(losses))
        slopes = ((sides[0] - sides[1]) / (2 * step)).abs().numpy()
        np.testing.assert_allclose(by_window, slopes, rtol=2e-3, atol=1e-7)


def test_figures_of_maps_made_by_hand():
    """One head each: the place before, itself, uniform, near, the first, and a copy eight places back."""
    length = 24
    tokens = Axis("query", "token"), Axis("key", "token")
    names = ["previous", "itself", "uniform", "local", "first", "induction"]
    site = AttentionSite(
        name="made", axes=(Axis("sample"), Axis("head"), *tokens), heads=tuple(range(len(names)))
    )
    places = torch.arange(length)
    earlier = (places <= places[:, None]).float()
    near = earlier * (places >= places[:, None] - 4)
    maps = torch.stack(
        [
            F.one_hot((places - 1).clamp(min=0), length).float(),
            torch.eye(length),
            earlier / earlier.sum(-1, keepdim=True),
            near / near.sum(-1, keepdim=True),
            F.one_hot(places * 0, length).float(),
            F.one_hot((places - 8).clamp(min=0), length).float(),
        ]
    )
    queries = np.arange(12, 24)

    def run():
        hand_over(site, maps[None])

    scorer = SimpleNamespace(
        sites={"made": site},
        item="window",
        items=[],
        importance=len,
        overall=len,
        record=len,
        passes=lambda: [run, run],
        copies=lambda: [(run, queries, queries - 8)],
    )
    found = head_patterns(scorer)
    assert [head_name(found["made", head]) for head in range(len(names))] == names
    assert found["made", 5]["induction"] == 1
    assert found["made", 2]["entropy"] == pytest.approx(1)
    assert found["made", 0]["entropy"] == pytest.approx(1 / length)  # one query has one key only
    assert found["made", 2]["distance"] == pytest.approx(np.mean([query / 2 for query in range(length)]))
    assert found["made", 3]["local"] == pytest.approx(1)
    assert found["made", 2]["previous"] == pytest.approx(np.mean([0, *(1 / n for n in range(2, length + 1))]))


def checked(loaded, path, dataset=None):
    report = check_model(loaded, path, Evidence(dataset=dataset), settings=SETTINGS)
    assert report.verdict.sentence in report.text()
    return report


def test_a_model_that_needs_its_attention_passes(folder):
    report = checked(made.induction_model(), folder / "repeats.fa", folder / "x.dataset.h5")
    assert report.verdict.code == "faithful"
    assert all(measure.passed is not False for measure in report.measures)
    assert report.settings["tokens_per_window"] == 29


def markov_model():
    """The next residue follows from the last one alone, by the feed-forward network; values are all zero."""
    loaded = made.blank(1)
    made.look_back(loaded.model.decoder[0].self_attention, gain=0.0)
    with torch.no_grad():
        words = len(SPECIAL) + torch.arange(20)
        block = loaded.model.decoder[0]
        block.widen.weight[words, words] = 1.0
        block.narrow.weight[torch.roll(words, -1), words] = 2.0
    return loaded, ["".join(RESIDUES[(first + step) % 20] for step in range(40)) for first in range(40)]


def counting_model():
    """Few residues in each sequence: the mean over all tokens tells which, wherever they stand."""
    loaded = made.blank(1)
    made.attend_to_all(loaded.model.decoder[0].self_attention)
    random = np.random.default_rng(0)
    return loaded, ["".join(random.choice(random.permutation(list(RESIDUES))[:3], 40)) for _ in range(40)]


def period_model():
    """Every second residue is the same: attention to the token before, whatever it is."""
    loaded = made.blank(1)
    made.look_back(loaded.model.decoder[0].self_attention, into=made.TOKEN, gain=8.0)
    random = np.random.default_rng(0)
    return loaded, ["".join(random.permutation(list(RESIDUES))[:2]) * 20 for _ in range(40)]


@pytest.mark.parametrize(
    ("case", "code"),
    [(markov_model, "not-used"), (counting_model, "not-used"), (period_model, "position-only")],
)
def test_cheats_fail_each_its_own_question(case, code, tmp_path):
    """Attention of zero values, uniform maps, and maps that are those of any sequence."""
    loaded, sequences = case()
    report = checked(loaded, write_letters(tmp_path / "s.fa", sequences))
    assert report.verdict.code == code
    assert {measure.name: measure.passed for measure in report.measures}["skill"]


def test_weights_of_a_probe_are_those_of_the_model(folder):
    """An encoder's: its words hidden one place at a time, by a call for each."""
    torch.manual_seed(0)
    loaded = loaded_of(LanguageModel(make_config(**SMALL)))
    probe = make_probe(loaded, folder / "repeats.fa", CheckSettings(samples=20), Evidence())
    places = np.array([3, 9, 28, 1, 7])
    found = probe.word_log_likelihoods(probe.tokens_NL[:5], np.arange(5), places)
    whole = probe.true_log_likelihoods()
    for row, place in enumerate(places):
        tokens = torch.from_numpy(probe.tokens_NL[[row]])
        hidden = tokens.clone()
        hidden[0, place] = probe.hidden
        with torch.no_grad():
            words = loaded.model(hidden)[0, place, len(SPECIAL) :].log_softmax(-1)
            hidden = tokens.clone()
            hidden[0, probe.positions_M] = probe.hidden
            all_hidden = loaded.model(hidden)[0].log_softmax(-1)[
                probe.positions_M, tokens[0, probe.positions_M]
            ]
        np.testing.assert_allclose(found[row], words, atol=1e-5)
        np.testing.assert_allclose(whole[row], all_hidden, atol=1e-5)


def test_a_check_through_the_commands(folder, capsys):
    output = folder / "check.json"
    words = ("explain", "check", folder / "model", folder / "repeats.fa", "-o", output, "--samples", "30")
    assert bioattn(*words, "--dataset", folder / "x.dataset.h5") == 0
    assert "Attention is used" in capsys.readouterr().out
    assert read_check(output).is_provisional
    assert bioattn("inspect", output) == bioattn("validate", output) == 0
    for option, value in (("--controls", folder / "c"), ("--treatment", "heat")):
        assert bioattn(*words, "--dataset", folder / "x.dataset.h5", option, value) == 2
        assert f"{option}: is not for models of the family language" in capsys.readouterr().err
    write_letters(folder / "few.fa", ["ACDEFGHIKL"] * 3)
    assert bioattn("explain", "check", folder / "model", folder / "few.fa", "-o", output) == 1
    assert "the checks need 20 or more" in capsys.readouterr().err
