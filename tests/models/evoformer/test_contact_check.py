"""`explain check` of MSA/pair models: what is done to a model and its alignments, verdicts, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.alignments.contact_dataset import write_contact_dataset
from bioattn.attention.capture import capture, substitute
from bioattn.checks.engine import CheckSettings
from bioattn.checks.measures import Measures
from bioattn.checks.weights import all_visible, uniform
from bioattn.models.evoformer.config import InputSettings
from bioattn.models.evoformer.contact_probe import (
    QUESTIONS,
    ContactProbe,
    MeanMaps,
    make_probe,
    shuffle_columns,
)
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.run import (
    load_evoformer_model,
    most_alike,
    read_families,
    write_evoformer_model,
)
from bioattn.models.evoformer.training_families import simulated_family
from bioattn.structures.predictions import read_scores
from tests.making import bioattn, shaken, small_evoformer
from tests.result_files import Heard

SETTINGS = CheckSettings(samples=20)
INPUTS = InputSettings(max_msa_clusters=6, max_extra_msa=9, min_extra_share=0.5, num_recycles=0)


def write_model(folder, *, uniform=False, tied_row_heads=0):
    """A model whose every parameter counts; with the same weights whether uniform or not."""
    torch.manual_seed(1)
    config = small_evoformer(
        recycling=False,
        experimentally_resolved_head=False,
        uniform_msa_attention=uniform,
        tied_row_heads=tied_row_heads,
    )
    folder.mkdir()
    write_evoformer_model(folder, shaken(EvoformerModel(config)), INPUTS)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, the same with uniform attention, and a dataset of two simulated families."""
    folder = tmp_path_factory.mktemp("checked")
    write_model(folder / "model")
    write_model(folder / "uniform", uniform=True)
    write_model(folder / "tied", tied_row_heads=3)
    write_model(folder / "tied uniform", uniform=True, tied_row_heads=3)
    write_contact_dataset(
        folder / "x.dataset.h5", [simulated_family(3, number).protein for number in (0, 1)], {}
    )
    return folder


def load(path):
    return load_evoformer_model(path, torch.device("cpu"))


@pytest.mark.parametrize("names", [("model", "uniform"), ("tied", "tied uniform")])
def test_uniform_weights_are_those_of_a_uniform_model(folder, names):
    model, other = (make_probe(load(folder / name), folder / "x.dataset.h5", SETTINGS) for name in names)
    found = model.contacts(0, substitute(model.sites["msa"], uniform(all_visible)))
    assert np.abs(found - model.contacts(0)).max() > 1e-3
    np.testing.assert_allclose(found, other.contacts(0), atol=1e-5)


@pytest.mark.parametrize("name", ["model", "tied"])
def test_mean_maps_keep_heads_and_can_be_attended_with(folder, name):
    probe = make_probe(load(folder / name), folder / "x.dataset.h5", SETTINGS)
    maps, heard, sites = MeanMaps(), Heard(), probe.sites["msa"]
    for receiver in (maps, heard):
        probe.contacts(0, capture(sites, receiver))
    whole = heard.by_site
    assert set(maps.by_site) == set(whole) == set(sites)
    for site, parts in whole.items():
        tied = name == "tied" and site.endswith("msa_row")
        torch.testing.assert_close(maps.by_site[site], parts[0] if tied else torch.cat(parts).mean(0))
    longer = torch.rand(3, 2, 5, 6)  # of five rows here: their maps are cut, or their last row is repeated
    maps.by_site["cut"] = longer[0].double()
    site = load(folder / name).sites[sites[0]]
    maps.by_site[site.name] = longer[0]
    got = maps(site, torch.zeros(4, 2, 7, 3), None)
    wanted = longer[0][:, [0, 1, 2, 3, 4, 4, 4]][..., :3]
    torch.testing.assert_close(got[2], wanted / wanted.sum(-1, keepdim=True))


def test_shuffled_columns_keep_their_residues_and_lose_their_partners(folder):
    probe = make_probe(load(folder / "model"), folder / "x.dataset.h5", SETTINGS)
    inputs = probe.aligned[0].inputs.sample(0, 0)
    columns = np.arange(len(inputs.aatype)) % 3 == 0
    other = shuffle_columns(inputs, columns)
    for name in ("msa_feat", "extra_msa", "extra_has_deletion", "extra_deletion_value"):
        before, after = getattr(inputs, name), getattr(other, name)
        torch.testing.assert_close(after[:, ~columns], before[:, ~columns])
        torch.testing.assert_close(after.sort(0).values, before.sort(0).values)
    torch.testing.assert_close(other.msa_feat[0], inputs.msa_feat[0])
    assert (other.extra_msa != inputs.extra_msa)[:, columns].any()


NAMES = [name for question in QUESTIONS for name in question.measures]


def verdict(proteins=8, held_out="test", relatives=None, **values):
    """That on measures that pass but for those given, with their value and whether they pass."""
    measures = Measures()
    for name in NAMES:
        measures.add(name, name, 0.5, "As measured.", least=0.1)
    for name, (value, passes) in values.items():
        measures.add(name, name, value, "As measured.", least=value if passes else value + 1)
    about = {"inputs": "x", "ids": ["p"] * proteins, "sha256": "", "held_out": held_out}
    about |= {"relatives": relatives}
    return ContactProbe(model=None, aligned=[], settings=SETTINGS, measures=measures, **about).verdict()


def test_each_question_presupposes_the_one_before():
    assert verdict().code == "faithful"
    assert verdict(uniform_retrained=(0.4, True)).code == "used"
    for number, question in enumerate(QUESTIONS):
        failing = verdict(**dict.fromkeys(NAMES[number:], (0.0, False)))
        assert (failing.code, failing.rests_on[-1]) == (question.code, NAMES[number])
    unfit = verdict(skill=(0.0, False))
    assert not any("--other-model" in caveat for caveat in unfit.caveats)
    needless = verdict(uniform_retrained=(-0.02, False))
    assert needless.code == "not-used"
    assert "As it was trained the model relies on it" in needless.sentence
    useless = verdict(uniform_retrained=(0.0, False), deletion=(0.0, False))
    assert useless.sentence.endswith("The maps explain nothing.")
    assert verdict(uniform_retrained=(0.05, False)).code == "undecided"
    trained_on = verdict(3, "train").caveats
    assert any("was trained on these proteins:" in caveat for caveat in trained_on)
    assert any("Fewer than 5 proteins" in caveat for caveat in trained_on)


def test_made_models_are_called_by_their_names(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    import check_alignments

    monkeypatch.setattr(check_alignments, "FAMILIES", 10)  # with 5 the intervals hold thresholds
    families = check_alignments.families(tmp_path, 100)
    for case in ("right columns", "wrong columns", "not needed"):
        report = check_alignments.check_case(case, 100, *families)
        assert report.verdict.code == check_alignments.CASES[case]


def test_the_command_with_structures_without_and_with_a_control(folder, tmp_path, capsys):
    check = tmp_path / "one.check.json"
    words = ("explain", "check", folder / "model")
    assert bioattn(*words, folder / "x.dataset.h5", "--other-model", folder / "uniform", "-o", check) == 0
    content = json.loads(check.read_text())
    assert content["settings"]["proteins"] == 2
    assert content["verdict"]["code"] == "model-not-predictive"  # its weights are random
    assert "≥ 0.005  FAIL" in capsys.readouterr().out
    alignments = tmp_path / "msa"
    made = ("simulate", "msa", "-o", tmp_path / "made", "--families", 2, "--depth", "60")
    assert bioattn(*made, "--length", "50") == 0
    (tmp_path / "made" / "msa").rename(alignments)
    assert bioattn(*words, alignments, "-o", check, "--seed", 3) == 0
    content = json.loads(check.read_text())
    assert {entry["name"] for entry in content["skipped"]} == {"skill", "uniform_control"}
    names = {measure["name"] for measure in content["measures"]}
    assert names >= {*NAMES[1:], "uniform_rows", "uniform_columns", "uniform_triangles"}
    assert any("no structures" in caveat for caveat in content["verdict"]["caveats"])
    assert bioattn("report", check, "-o", tmp_path / "report.html") == 0
    assert content["verdict"]["sentence"][:30] in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    for option, value, said in (
        ("--other-model", folder / "model", "attends by weights of its own"),
        ("--treatment", "dark", "is not for models of the family evoformer"),
        ("--dataset", folder / "x.dataset.h5", "is not for models of the family evoformer"),
    ):
        assert bioattn(*words, alignments, "-o", check, option, value) in (1, 2)
        assert said in capsys.readouterr().err
    alone = tmp_path / "short.a3m"
    alone.write_text(">a\nACD\n>b\nACE\n")
    assert bioattn(*words, alone, "-o", check) == 1
    assert "error: short: no two residues 6 or more columns apart" in capsys.readouterr().err


def test_a_query_like_a_family_of_the_training_is_told(tmp_path, capsys):
    shipped = Path("data/models/evoformer-contacts").resolve()
    families = read_families(shipped)
    assert len(families) == 37
    name, sequence = next(iter(families.items()))
    other = "".join(np.random.default_rng(0).permutation(list(sequence)))
    assert most_alike(sequence[5:], families) == (name, 1.0)
    assert most_alike(other, families) is most_alike("--", families) is None
    for query, told in ((sequence, True), (other, False)):
        (tmp_path / "q.a3m").write_text(f">q\n{query}\n>r\n{query}\n")
        words = ("run", "evoformer", tmp_path / "q.a3m", "--model", shipped, "-o", tmp_path / f"out{told}")
        assert bioattn(*words) == 0
        assert (f"q: is like {name}" in capsys.readouterr().err) is told
        assert read_scores(tmp_path / f"out{told}")["trained_on"] == (name if told else None)
        probe = make_probe(load(shipped), tmp_path / "q.a3m", SETTINGS)
        assert probe.relatives == (["q"] if told else [])
        said = " ".join(verdict(held_out="", relatives=probe.relatives).caveats)
        assert ("trained on proteins like q:" in said) is told
        assert "is not known" not in said
