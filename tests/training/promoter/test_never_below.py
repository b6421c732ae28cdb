"""Settings chosen by the data, and simple models kept as model folders."""

import dataclasses
import logging
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import bioattn
from bioattn.choices import TRAIN
from bioattn.errors import Interrupted
from bioattn.io.files import read_json
from bioattn.io.settings import read_toml
from bioattn.models.promoter.config import TreatmentEncoding
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training import task
from bioattn.models.promoter.training.baselines import (
    NO_SEQUENCE,
    BaselineData,
    as_promoter_model,
    default_baselines,
)
from bioattn.models.promoter.training.task import WARM, matching_dropout
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.system.signals import StopRequest
from bioattn_cli.main import main
from tests.training.runs import StopAfter, same_folders, train

SETTINGS = Path(__file__).resolve().parents[3] / "data" / "settings"


@pytest.fixture(scope="module")
def noisy_path(dataset_path, tmp_path_factory):
    """Responses that are nearly all noise, standardised as `prepare` does."""
    dataset = read_dataset(dataset_path)
    targets = dataset.targets + np.random.default_rng(1).normal(0, 3, dataset.targets.shape).astype(
        np.float32
    )
    train_genes = dataset.gene_split == TRAIN
    mean, sd = np.nanmean(targets[train_genes], axis=0), np.nanstd(targets[train_genes], axis=0)
    path = tmp_path_factory.mktemp("noisy") / "noisy.dataset.h5"
    write_dataset(
        path,
        dataclasses.replace(
            dataset,
            targets=((targets - mean) / sd).astype(np.float32),
            target_mean=mean.astype(np.float64),
            target_sd=sd.astype(np.float64),
        ),
    )
    return path


@pytest.fixture(scope="module")
def noisy_rows(noisy_path):
    return default_baselines(read_dataset(noisy_path))


def test_the_settings_are_those_of_the_file():
    assert read_toml(SETTINGS / "small-noisy.toml") == WARM


def test_with_the_matching_dropout_predictions_neither_shrink_nor_grow(noisy_path, noisy_rows):
    """The mean squared error of scaled predictions from k-mers of which a share is dropped at random."""
    dataset = read_dataset(noisy_path)
    filled = dataclasses.replace(dataset, targets=np.nan_to_num(dataset.targets))
    data = BaselineData(filled)
    ridge = next(row for row in default_baselines(filled) if row.name == "component ridge")
    share = matching_dropout(data, ridge)
    assert 0 < share < 1
    (standard,) = ridge.model.blocks
    block, coefficients = standard.block, standard.factor_F[:, None] * ridge.model.coefficients
    codes, random = data.codes[data.train], np.random.default_rng(0)
    offset = data.mean - standard.mean_F @ coefficients
    single = [
        dataclasses.replace(block, start=begin, stop=begin + block.k).count(codes)
        for begin in range(-codes.shape[1], 1 - block.k)
    ]
    added = np.stack(single) @ coefficients  # what the k-mer at each base adds
    total = np.zeros(3)
    for _ in range(40):
        kept = random.random(added.shape[:2]) >= share
        predicted = offset + (added * kept[..., None]).sum(0) / (1 - share) - data.mean
        total += [np.square(data.deviations - scale * predicted).mean() for scale in (0.7, 1.0, 1.3)]
    assert total[1] < min(total[0], total[2])
    flat = dataclasses.replace(ridge.model, coefficients=0 * ridge.model.coefficients)
    same = np.broadcast_to(data.mean, ridge.predictions.shape)
    assert matching_dropout(data, dataclasses.replace(ridge, model=flat, predictions=same)) == 0


def architectures(folder):
    return read_json(folder / "config.json")["networks"]


def test_a_plain_run_chooses_and_given_settings_do_not(noisy_path, tmp_path, caplog):
    caplog.set_level(logging.INFO, "bioattn")
    job = PromoterTrainingSettings(dataset=noisy_path, output=tmp_path / "m", training={"epochs": 1})
    train(job)
    record = read_json(tmp_path / "m" / "training.json")
    assert record["settings"] in caplog.text
    networks = [each for each in architectures(tmp_path / "m") if each["conditioning"] == "cross"]
    stems = [(each["stem"], each["readout"]) for each in networks]
    assert set(stems) <= {("conv", "own"), ("both", "shared")}
    assert [each["training"]["warm_start"] for each in record["networks"]] == [
        stem == "both" for stem, _ in stems
    ]
    assert {each["training"]["epochs"] for each in record["networks"]} == {1}
    assert train(job, resume=True) is None  # the same job, though its settings were chosen
    given = dataclasses.replace(job, output=tmp_path / "given", model={"channels": 16, "head_channels": 4})
    train(given)
    assert read_json(tmp_path / "given" / "training.json")["settings"] == "given"
    assert [each["stem"] for each in architectures(tmp_path / "given")] == ["conv"]


@pytest.fixture(scope="module")
def plain(noisy_path, tmp_path_factory):
    """A run of one epoch whose settings are chosen, finished."""
    output = tmp_path_factory.mktemp("plain") / "m"
    job = PromoterTrainingSettings(dataset=noisy_path, output=output, training={"epochs": 1})
    train(job)
    return job


def test_members_have_the_shares_that_are_named(noisy_path, plain):
    record = read_json(plain.output / "training.json")
    rows = {row["name"]: row for row in record["evaluation"]["rows"] if row["cells"] == "validation genes"}
    members = [name.removeprefix("member: ") for name in rows if name.startswith("member")]
    assert [name.split()[1] for name in members][:2] == ["cold", "warm"]
    kept = [name for name in members if not name.startswith("0%")]
    assert record["settings"].partition(": on validation genes")[0] == " and ".join(kept)
    low, high = record["evaluation"]["interval"]
    on_test = next(row for row in record["evaluation"]["rows"] if row["cells"] == "test genes")
    assert low < on_test["pearson"] < high
    assert "weights of epoch" not in (plain.output / "README.md").read_text()  # each network has its own
    shapes = {"cold": ("cross", "own"), "warm": ("cross", "shared"), "ridge": ("ridge", "own")}
    wanted = [shape for kind, shape in shapes.items() if any(kind in name for name in kept)]
    assert [(each["conditioning"], each["readout"]) for each in architectures(plain.output)] == wanted

    # The mean of members, with these shares, is what the folder predicts.
    model, units = load_promoter_model(plain.output, torch.device("cpu")).model, []
    dataset = read_dataset(noisy_path)
    for member in model.members:
        units.append(float((member.response_sd_T / torch.from_numpy(dataset.target_sd)).mean()))
    named = [int(name.partition("%")[0]) / 100 for name in kept]
    np.testing.assert_allclose(units, named, atol=0.006)
    assert rows["this model"]["pearson"] >= max(rows[f"member: {name}"]["pearson"] for name in members) - 0.02


def test_a_run_stopped_in_its_second_network_goes_on_to_the_same_bytes(plain, tmp_path, monkeypatch):
    """And fits no simple model again."""
    # Of seven simple models and a network: an epoch of 300 promoters in batches of 64.
    steps = 7 + 300 // 64
    stopped, request = dataclasses.replace(plain, output=tmp_path / "stopped"), StopRequest()
    with pytest.raises(Interrupted):
        train(stopped, progress=StopAfter(steps + 2, request), stop=request)
    states = sorted(path.name for path in (tmp_path / "stopped.partial").iterdir())
    assert states == [f"trainer_state{which}.safetensors" for which in (".1", "", ".simple")]
    monkeypatch.setattr(task, "default_baselines", None)
    train(stopped, resume=True)
    same_folders(plain.output, tmp_path / "stopped")


def test_a_clear_motif_is_left_to_one_network(dataset_path, tmp_path):
    settings = {"training": {"epochs": 1}, "check": False}
    train(PromoterTrainingSettings(dataset=dataset_path, output=tmp_path / "m", **settings))
    first, *others = architectures(tmp_path / "m")
    assert (first["readout"], first["reader"], first["stem"]) == ("own", "linear", "conv")
    assert [each["conditioning"] for each in others] in ([], ["ridge"])


def test_contributions_of_ridges_are_what_their_bases_add(noisy_path, noisy_rows):
    """They add up; and a bin's are those of its own k-mers, where counts are no logarithms."""
    dataset = read_dataset(noisy_path)
    vocabulary = TreatmentVocabulary.learn(
        dataset.treatments, encoding=TreatmentEncoding.ID, unconditional=True
    )
    batch = vocabulary.encode(dataset.treatments)
    codes = torch.from_numpy(dataset.codes[:20, dataset.flank : dataset.flank + dataset.length].copy())
    codes[3, 10:14] = 4
    for row in noisy_rows:
        if row.model is None:
            continue
        model = as_promoter_model(row, vocabulary, dataset.length, np.zeros(3), np.ones(3))
        ridge = model.members[0].network
        with torch.no_grad():
            added_BPT = ridge.contributions(codes)
            total_BT = added_BPT.sum(1) + ridge.intercept(batch)
            np.testing.assert_allclose(total_BT, model(codes, batch), atol=1e-5)
        if not any(block.log for block in ridge.blocks):
            right = codes.clone()
            right[:, : model.config.bin_edges[4]] = 4
            with torch.no_grad():
                few_BPT = ridge.contributions(right)
            np.testing.assert_allclose(few_BPT[:, :4], 0, atol=1e-7)
            np.testing.assert_allclose(few_BPT[:, -3:], added_BPT[:, -3:], atol=1e-5)


def test_members_are_networks_of_other_seeds_whose_mean_is_predicted(noisy_path, tmp_path):
    given = {"channels": 16, "head_channels": 4}
    make = partial(PromoterTrainingSettings, dataset=noisy_path, baselines=False, check=False, model=given)
    train(make(output=tmp_path / "two", members=2, training={"epochs": 1}))
    one, other = (tmp_path / name for name in ("one", "other"))
    train(make(output=one, training={"epochs": 1}))
    train(make(output=other, training={"epochs": 1, "seed": 1}))
    promoters = ["ACGT" * 16, "TTGACG" * 10]
    two, *alone = (bioattn.load_model(each).predict(promoters) for each in (tmp_path / "two", one, other))
    np.testing.assert_allclose(two, (alone[0] + alone[1]) / 2, atol=1e-5)


def test_every_simple_model_is_a_promoter_model(noisy_path, noisy_rows):
    dataset = read_dataset(noisy_path)
    vocabulary = TreatmentVocabulary.learn(
        dataset.treatments, encoding=TreatmentEncoding.ID, unconditional=False
    )
    batch = vocabulary.encode(dataset.treatments)
    codes = dataset.codes[:, dataset.flank : dataset.flank + dataset.length].copy()
    codes[5, :20] = 4
    codes[6, 30] = 4
    bases = torch.nn.functional.one_hot(torch.from_numpy(codes).long(), 5)[..., :4].float()
    for row in noisy_rows:
        if row.name == NO_SEQUENCE:
            continue
        model = as_promoter_model(row, vocabulary, dataset.length, np.zeros(3), np.ones(3))
        expected = row.predictions if row.model is None else row.model.predict(codes)
        with torch.no_grad():
            assert np.abs(model(torch.from_numpy(codes), batch).numpy() - expected).max() < 1e-5
            by_bases = model(torch.from_numpy(codes[:9]), batch, bases[:9]).numpy()
        assert np.abs(by_bases - expected[:9]).max() < 1e-5


def test_keep_best_writes_the_ridge_under_the_same_contract(noisy_path, noisy_rows, tmp_path, capsys):
    """A network that cannot learn; the folder then predicts what the best simple model does, in response units."""
    settings = tmp_path / "s.toml"
    settings.write_text("[model]\nchannels = 16\n[training]\nlearning_rate = 1e-9\n")
    folder = tmp_path / "m"
    command = ["train", "promoter", str(noisy_path), "-o", str(folder), "-c", str(settings), "--epochs", "1"]
    assert main([*command, "--keep-best"]) == 0
    said = capsys.readouterr()
    best = max(noisy_rows, key=lambda row: row.validation["pearson"])
    assert f"the {best.name} is kept: better than the network on validation genes" in said.err
    assert "trained network" in said.out
    record = read_json(folder / "training.json")
    assert record["kept"]["simple_model"] == best.name
    assert "**No network**" in (folder / "README.md").read_text()
    assert main([*command, "--keep-best", "--resume"]) == 0

    dataset = read_dataset(noisy_path)
    fasta = tmp_path / "p.fa"
    letters = np.array(list("ACGTN"))[dataset.codes[:, dataset.flank : dataset.flank + dataset.length]]
    fasta.write_text(
        "".join(f">{name}\n{''.join(row)}\n" for name, row in zip(dataset.gene_ids, letters, strict=True))
    )
    assert main(["run", "promoter", str(folder), str(fasta), "-o", str(tmp_path / "p.tsv"), "-q"]) == 0
    predicted = pd.read_csv(tmp_path / "p.tsv", sep="\t", index_col=0).to_numpy()
    expected = best.predictions * dataset.target_sd + dataset.target_mean
    assert np.abs(predicted - expected).max() < 1e-4

    assert main(["inspect", str(folder)]) == 0
    assert main(["validate", str(folder), "-q"]) == 0
    explain = ["explain", "attribution", str(folder), str(fasta), "-o", str(tmp_path / "a.h5"), "-q"]
    assert main([*explain, "--genes", "g1"]) == 0
    capsys.readouterr()
    assert main(["export", "attention", str(folder), str(fasta), "-o", str(tmp_path / "x.h5"), "-q"]) == 0
    maps = bioattn.open(tmp_path / "x.h5")
    total = maps.array(contributions=True).values.sum((2, 3)) + maps.sites["promoter.ridge.0"].intercept
    assert np.abs(total - predicted).max() < 1e-4
    assert main(["explain", "check", str(folder), str(noisy_path), "-o", str(tmp_path / "c")]) == 1
    assert "this model is ridge" in capsys.readouterr().err.splitlines()[-1]
