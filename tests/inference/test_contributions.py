"""Contributions of a model whose readout all treatments share: they add up to the prediction."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import bioattn
from bioattn.attention.capture import substitute
from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.promoter_windows import make_batch
from bioattn.models.promoter.config import PromoterModelConfig, Readout, Stem
from bioattn.models.promoter.model import PromoterModel
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.file_kinds import validate_results
from bioattn.store.reader import open_attention
from tests.making import bioattn as command


@pytest.fixture
def promoters(make_promoters):
    return make_promoters()


SHARED = {"readout": "shared", "position_bias": "treatment", "sink": True}


@pytest.mark.parametrize("shape", [{"hops": 2}, {"sink": True}, {"stem": Stem.TRANSFORMER}])
def test_readers_of_treatments_add_up_too_and_have_signs_of_their_own(make_model, promoters, shape):
    model = bioattn.load_model(make_model(**{"hops": 1, "reader": "linear", **shape}))
    maps = model.attention(promoters)
    (name,) = [name for name, site in maps.sites.items() if site.has_contributions]
    contributions = maps.array(name, contributions=True).values
    summed = contributions.sum((2, 3)) + maps.sites[name].intercept
    np.testing.assert_allclose(summed, model.predict(promoters), atol=1e-5)
    numbers = contributions / np.maximum(maps.array(name).values, 1e-30)
    assert (np.sign(numbers[:, 0]) != np.sign(numbers[:, 1])).any()


def test_contributions_of_all_members_add_up(make_model, promoters):
    """A mean of networks of three kinds: readers of treatments, one reader, integrated gradients."""
    shapes = ({"hops": 1, "reader": "linear"}, {"hops": 1, **SHARED}, {"hops": 2, **SHARED})
    alone = [bioattn.load_model(make_model(name=f"model{n}", **shape)) for n, shape in enumerate(shapes)]
    first = alone[0]
    together = PromoterModel.mean([each.model for each in alone], first.vocabulary)
    mean = replace(first, model=together)
    predicted = mean.predict(promoters)
    np.testing.assert_allclose(predicted, sum(each.predict(promoters) for each in alone) / 3, atol=1e-5)
    maps = mean.attention(promoters)
    assert list(maps.sites) == [f"promoter.cross.{number}" for number in range(4)]
    total = sum(
        maps.array(name, contributions=True).values.sum((2, 3)) + site.intercept
        for name, site in maps.sites.items()
    )
    np.testing.assert_allclose(total, predicted, rtol=1e-3, atol=1e-4)


def test_centred_heads_give_0_in_the_mean_and_predictions_stay(make_model, promoters):
    model = bioattn.load_model(make_model(hops=1, reader="linear"))
    before = model.predict(promoters)
    codes = torch.from_numpy(make_batch(list(read_promoters(promoters)), model.length).codes)
    network = model.model.members[0].network
    network.centre(codes, model.encode_treatments(model.treatments))
    attended = []
    network.hops[0].project_output.register_forward_pre_hook(lambda _module, given: attended.append(given[0]))
    np.testing.assert_allclose(model.predict(promoters), before, atol=1e-5)
    assert attended[0].abs().max() > 1e-3
    assert attended[0].mean((0, 1)).abs().max() < 1e-6


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_they_add_up_to_the_prediction(make_model, promoters, tmp_path, task):
    model = make_model(task=task, hops=1, **SHARED)
    output = tmp_path / "attention.h5"
    assert command("export", "attention", model, promoters, "-o", output, "--device", "cpu") == 0
    assert validate_results(output) == []
    with open_attention(output) as file:
        intercept = file.sites["promoter.cross.0"].intercept
        contributions = file.contributions("promoter.cross.0")
        weights = file.weights("promoter.cross.0")
        predictions = file.predictions().to_numpy()
    expected = np.log(predictions / (1 - predictions)) if task == "binary" else predictions
    np.testing.assert_allclose(contributions.sum((2, 3)) + intercept, expected, atol=1e-5)
    assert (contributions < 0).any()
    assert (contributions > 0).any()
    # What a bin is read as does not depend on the treatment.
    numbers = contributions / np.where(weights > 0, weights, np.nan)
    np.testing.assert_allclose(numbers, np.broadcast_to(numbers[:, :1], numbers.shape), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [{"hops": 2}, {"hops": 2, "reader": "hidden"}, {"reader": "hidden", "stem": Stem.TRANSFORMER}]
)
def test_integrated_gradients_are_complete_and_those_of_a_plain_loop(make_model, promoters, tmp_path, shape):
    """The loop moves one weight after the other, and takes differences where the product takes gradients."""
    folder = make_model(**{**SHARED, "hops": 1, **shape})
    model = sharpened(folder)
    output = tmp_path / "attention.h5"
    words = ("-o", output, "--device", "cpu", "--value-weighted")
    assert command("export", "attention", folder, promoters, *words) == 0
    assert validate_results(output) == []
    with open_attention(output) as file:
        assert all(site.has_contributions or site.has_value_weighted for site in file.sites.values())
        sites = [name for name, site in file.sites.items() if site.has_contributions]
        contributions = np.stack([file.contributions(name) for name in sites])
        intercept = file.sites[sites[-1]].intercept
        predictions = file.predictions().to_numpy()
    difference = predictions - intercept
    whole = bioattn.open(output).at_bases().values.sum(-1)
    np.testing.assert_allclose(whole, difference, rtol=1e-3, atol=1e-5)
    assert np.abs(difference).max() > 0.1
    np.testing.assert_allclose(contributions.sum((0, 3, 4)), difference, rtol=1e-3, atol=1e-5)

    codes = torch.from_numpy(make_batch(list(read_promoters(promoters))[:1], model.length).codes)
    treatments = model.encode_treatments(model.treatments)
    shape_HTK = contributions.shape[3], contributions.shape[2], contributions.shape[4]
    treatment, step, points = 1, 1e-3, 50

    def answer(factors):
        def scaled(site, weights, _tile):
            return torch.cat([weights[..., :-1] * factors[site.name], weights[..., -1:]], -1)

        with torch.no_grad(), substitute(sites, scaled):
            return float(model.model.double()(codes, treatments)[0, treatment])

    for site, head, key in [(0, 0, 3), (len(sites) - 1, 1, 10)]:
        total = 0.0
        for point in range(points):
            factors = {name: torch.full(shape_HTK, (point + 0.5) / points).double() for name in sites}
            factors[sites[site]][head, treatment, key] += step
            above = answer(factors)
            factors[sites[site]][head, treatment, key] -= 2 * step
            total += (above - answer(factors)) / (2 * step) / points
        np.testing.assert_allclose(contributions[site, 0, treatment, head, key], total, rtol=5e-3, atol=1e-5)


def sharpened(folder):
    """A random model with weights so large that attention and the hidden layer are far from linear."""
    weights = load_file(folder / "model.safetensors")
    for name, tensor in weights.items():
        if "project_query.weight" in name or "readout.reader.0.weight" in name or "project_value" in name:
            tensor *= 4
    save_file(weights, folder / "model.safetensors")
    return bioattn.load_model(folder)


@pytest.mark.parametrize("shape", [{"hops": 2}, {"reader": "hidden"}])
def test_integrated_gradients_need_the_null_key(shape):
    with pytest.raises(
        SettingsError, match="needs sink = true: contributions are counted from all weight on"
    ):
        PromoterModelConfig(length=120, readout=Readout.SHARED, **shape)


def test_numbers_are_those_of_the_bins_alone(make_model, promoters, tmp_path):
    """By hand: a bin's channels through the reader, times the weight, in response units."""
    model = bioattn.load_model(make_model(hops=1, **SHARED))
    network = model.model.members[0]
    with torch.no_grad():
        network.response_mean_T.copy_(torch.linspace(-1, 2, len(network.response_mean_T)))
        network.response_sd_T.copy_(torch.linspace(0.5, 3, len(network.response_sd_T)))
        network.network.readout.intercept.fill_(0.25)
    maps = model.attention(promoters)
    records = list(read_promoters(promoters))
    batch = make_batch(records, model.length)
    cross = network.network
    with torch.no_grad():
        bins_BPC, _ = cross.stem(torch.from_numpy(batch.codes))
        value = cross.hops[0].project_value
        hidden = torch.nn.functional.gelu(
            bins_BPC @ cross.readout.hidden.weight.T + cross.readout.hidden.bias
        )
        numbers_BPH = ((bins_BPC + hidden) @ value.weight.T + value.bias).numpy()
    expected = maps.array().values * numbers_BPH.transpose(0, 2, 1)[:, None]
    expected = expected * network.response_sd_T.numpy()[:, None, None]
    np.testing.assert_allclose(maps.array(contributions=True), expected, atol=1e-5)
    intercept = maps.sites["promoter.cross.0"].intercept
    np.testing.assert_allclose(maps.at_bases().values.sum(-1) + intercept, maps.predictions(), atol=1e-5)
    one = maps.samples.index[2]
    np.testing.assert_allclose(
        maps.array(samples=one, contributions=True), maps.array(contributions=True).values[2], atol=1e-6
    )


def test_shards_and_reductions(make_model, promoters, tmp_path):
    model = make_model(hops=1, **SHARED)
    words = ("export", "attention", model, promoters, "--device", "cpu", "--batch-size", 4)
    assert command(*words, "-o", tmp_path / "whole.h5") == 0
    for part in (1, 2):
        assert command(*words, "-o", tmp_path / f"{part}.h5", "--shard", f"{part}/2") == 0
    assert command("merge", tmp_path / "1.h5", tmp_path / "2.h5", "-o", tmp_path / "merged.h5") == 0
    whole, merged = (bioattn.open(tmp_path / name) for name in ("whole.h5", "merged.h5"))
    np.testing.assert_array_equal(whole.array(contributions=True), merged.array(contributions=True))
    assert command(*words, "-o", tmp_path / "mean.h5", "--reduce", "mean-heads") == 0
    with pytest.raises(BioattnError, match="export without --reduce"):
        bioattn.open(tmp_path / "mean.h5").array(contributions=True)
