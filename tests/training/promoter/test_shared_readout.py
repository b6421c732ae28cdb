"""`--readout shared` from the command line: defaults, units, and contributions that add up to predictions."""

from dataclasses import replace

import numpy as np
import pandas as pd
import torch

import bioattn
from bioattn.formats.nucleotides import decode
from bioattn.models.promoter.layers import drop_channels, part_of_batch
from bioattn.models.promoter.training.data import TargetScale, log_odds
from bioattn.promoters.dataset import TRAIN, read_dataset, write_dataset
from tests.making import bioattn as command

LEVELS = np.array([-30.0, 0.0, 200.0], np.float32)
SPREADS = np.array([0.5, 1.0, 20.0], np.float32)


def dataset_of_different_levels(dataset_path, folder):
    """The dataset with responses in other units for each treatment, its file, and a FASTA of its promoters."""
    dataset = read_dataset(dataset_path)
    dataset = replace(dataset, targets=(dataset.targets - 5) * SPREADS + LEVELS)
    write_dataset(folder / "x.dataset.h5", dataset)
    window = slice(dataset.flank, dataset.flank + dataset.length)
    records = zip(dataset.gene_ids[:30], dataset.codes[:30, window], strict=True)
    (folder / "x.fa").write_text("".join(f">{gene}\n{decode(codes)}\n" for gene, codes in records))
    return dataset, folder / "x.dataset.h5", folder / "x.fa"


def test_contributions_and_intercept_are_the_prediction_in_its_units(dataset_path, tmp_path):
    dataset, path, fasta = dataset_of_different_levels(dataset_path, tmp_path)
    config = tmp_path / "small.toml"
    config.write_text("[model]\nchannels = 16\n")
    model, maps, table = tmp_path / "model", tmp_path / "maps.h5", tmp_path / "table.tsv"
    training = ("--epochs", 2, "--readout", "shared", "--config", config, "--no-baselines", "-q")
    assert command("train", "promoter", path, "-o", model, *training) == 0
    assert command("export", "attention", model, fasta, "-o", maps, "-q") == 0
    assert command("run", "promoter", model, fasta, "-o", table, "-q") == 0
    site = bioattn.open(maps).sites["promoter.cross.0"]
    assert site.null_key
    summed = bioattn.open(maps).array(contributions=True).values.sum((2, 3)) + site.intercept
    predicted = pd.read_csv(table, sep="\t", index_col=0).to_numpy()
    np.testing.assert_array_less(np.abs(summed - predicted), 1e-5 * np.maximum(np.abs(predicted), SPREADS))
    # The levels and sizes of responses are those of training; what is common to all treatments is learned.
    targets_GT = dataset.targets[dataset.genes_in(TRAIN)].astype(np.float64)
    common = (site.intercept - np.nanmean(targets_GT, 0)) / np.nanstd(targets_GT, 0)
    np.testing.assert_allclose(common, common[0], atol=1e-4)


def test_a_binary_model_starts_from_the_odds_of_each_treatment(binary_path, tmp_path):
    dataset = read_dataset(binary_path)
    targets = np.where(np.isnan(dataset.targets), np.nan, np.maximum(dataset.targets, [[0, 0, 1]])).astype(
        "f4"
    )
    targets[:, 0] = np.where(np.arange(len(targets)) % 5 == 0, targets[:, 0], 0)
    write_dataset(tmp_path / "x.dataset.h5", replace(dataset, targets=targets))
    model = tmp_path / "model"
    words = ("--epochs", 1, "--readout", "shared", "--no-baselines", "-q")
    assert command("train", "promoter", tmp_path / "x.dataset.h5", "-o", model, *words) == 0
    (fasta := tmp_path / "x.fa").write_text(f">n\n{'N' * dataset.length}\n")
    train_GT = targets[dataset.genes_in(TRAIN)]
    share_T = np.nanmean(train_GT, axis=0)
    predicted_T = bioattn.load_model(model).predict(fasta).to_numpy()[0]
    assert (np.diff(predicted_T[np.argsort(share_T)]) > 0.1).all()
    np.testing.assert_allclose(log_odds(np.array([[1, 0], [1, np.nan]], np.float32)), [np.log(5), -np.log(3)])


def test_each_treatment_has_its_own_units_where_it_can():
    targets_GT = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, 7.0], [np.nan, 5.0, np.nan]], np.float32)
    scale = TargetScale.of(targets_GT, binary=False, each=True)
    common = np.nanmean(targets_GT), np.nanstd(targets_GT)
    np.testing.assert_allclose(scale.mean_T, [2.0, common[0], common[0]])
    np.testing.assert_allclose(scale.sd_T, [1.0, common[1], common[1]])
    shared = TargetScale.of(targets_GT, binary=False, each=False)
    np.testing.assert_allclose(shared.mean_T, common[0])
    np.testing.assert_allclose(shared.sd_T, common[1])


def test_dropped_channels_are_dropped_from_all_bins_alike():
    ones_BPC = torch.ones(6, 4, 500)
    torch.manual_seed(0)
    whole = drop_channels(ones_BPC, 0.3)
    assert set(whole.unique().tolist()) == {0.0, torch.tensor(1 / 0.7).item()}
    assert (whole == whole[:, :1]).all()
    assert abs(float((whole == 0).float().mean()) - 0.3) < 0.03
    torch.manual_seed(0)
    with part_of_batch(slice(2, 4), 6):
        assert (drop_channels(ones_BPC[2:4], 0.3) == whole[2:4]).all()
