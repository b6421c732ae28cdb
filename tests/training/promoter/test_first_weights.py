"""The first weights of a promoter model, and the readout that all treatments share."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import conv1d

import bioattn
from bioattn.choices import TRAIN
from bioattn.errors import Interrupted
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.io.files import read_json
from bioattn.models.evaluation import read_history
from bioattn.models.promoter.config import PromoterModelConfig, Stem
from bioattn.models.promoter.family import PromoterTrainingSettings
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.model import PromoterModel
from bioattn.models.promoter.stem import ConvStem, one_hot
from bioattn.models.promoter.training.baselines import BaselineData, component_ridge
from bioattn.models.promoter.training.data import TargetScale, centred_windows, log_odds
from bioattn.models.promoter.training.first_weights import (
    MIN_GENES,
    enriched_kmers,
    gated_programmes,
    start_filters,
    start_for_clear_motifs,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
from bioattn.promoters.dataset import read_dataset, write_dataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn.system.signals import StopRequest
from tests.making import bioattn as command
from tests.training.runs import CPU, Notes, StopAfter, same_folders, train


def holds(codes, letters):
    """Whether a gene holds a k-mer on either strand, by looking for it in text."""
    other = decode(reverse_complement(encode(letters)))
    return np.array([letters in text or other in text for text in map(decode, codes)], dtype=float)


def test_the_pursuit_is_that_of_plain_loops(dataset_path):
    dataset = read_dataset(dataset_path)
    genes = dataset.num_genes
    responses = np.nan_to_num(dataset.targets.astype(float), nan=5.0)
    found = enriched_kmers(dataset.codes, responses, number=3, lengths=[4])
    residual = (responses - responses.mean(0)) / responses.std(0)
    for kmer in found:
        best = ("", 0, 0.0)
        for number in range(4**4):
            letters = "".join("ACGT"[number >> 2 * place & 3] for place in range(4))
            presence = holds(dataset.codes, letters)
            if not MIN_GENES <= presence.sum() <= genes - MIN_GENES:
                continue
            standard = (presence - presence.mean()) / presence.std()
            for direction in range(3):
                z = (standard * residual[:, direction]).sum() / np.sqrt(genes)
                if abs(z) > abs(best[2]) + 1e-9:
                    best = (letters, direction, z)
        letters, direction, z = best
        assert kmer.letters in (letters, decode(reverse_complement(encode(letters))))
        assert kmer.direction == direction
        assert kmer.r == pytest.approx(z / np.sqrt(genes), rel=1e-5)
        presence = holds(dataset.codes, letters)
        standard = (presence - presence.mean()) / presence.std()
        residual -= standard[:, None] * (standard @ residual / genes)


@pytest.mark.parametrize(
    ("task", "stem"), [("dataset_path", Stem.CONV), ("binary_path", Stem.CONV), ("dataset_path", Stem.BOTH)]
)
def test_planted_motifs_are_found_for_their_treatments(task, stem, motifs, request):
    dataset = read_dataset(request.getfixturevalue(task))
    config = PromoterModelConfig(length=dataset.length, channels=64 if stem is Stem.BOTH else 32, stem=stem)
    vocabulary = TreatmentVocabulary.learn(
        dataset.treatments, encoding=config.treatment_encoder, unconditional=True, columns=()
    )
    torch.manual_seed(0)
    model = PromoterModel([config], vocabulary)
    convolution = next(module.convolution for module in model.modules() if isinstance(module, ConvStem))
    before = convolution.weight.detach().clone()
    found = start_filters(model, dataset)
    assert 3 <= len(found) <= 16
    # Of a 7-base motif 6 bases in a row are counted, with up to two bases beside it 8.
    for kmer in found[:3]:
        motif = motifs[kmer.direction]
        texts = (kmer.letters, decode(reverse_complement(encode(kmer.letters))))
        assert any(motif[:6] in text or motif[1:] in text for text in texts), (kmer, motif)
    assert {kmer.direction for kmer in found[:3]} == {0, 1, 2}
    filters = convolution.weight
    torch.testing.assert_close(filters[len(found) :], before[len(found) :])
    for number, kmer in enumerate(found):
        texts = ("C" * 8 + kmer.letters + "C" * 8, "C" * 24)
        match = [
            conv1d(one_hot(torch.from_numpy(encode(text))[None]), filters[number, None]).max()
            for text in texts
        ]
        assert match[0] > match[1] + 1


@pytest.mark.parametrize("heads", [1, 4, 5])
def test_every_key_is_favoured_by_one_head_of_a_pair(heads):
    table = TreatmentTable(pd.DataFrame({"treatment": ["heat", "cold"]}))
    config = PromoterModelConfig(length=64, num_heads=heads)
    vocabulary = TreatmentVocabulary.learn(
        table, encoding=config.treatment_encoder, unconditional=False, columns=()
    )
    model = PromoterModel([config], vocabulary)
    start_for_clear_motifs(model)
    network = model.members[0].network
    (attention,) = network.hops
    queries, keys = (
        torch.randn(7, linear.in_features) for linear in (attention.project_query, attention.project_key)
    )
    query_HQD, key_HKD = (
        projected.unflatten(-1, (heads, -1)).transpose(0, 1)
        for projected in (attention.project_query(queries), attention.project_key(keys))
    )
    logits = query_HQD @ key_HKD.mT
    pairs = heads // 2
    assert logits.abs().amin(dim=(1, 2)).gt(0).all()
    torch.testing.assert_close(logits[1::2], -logits[0 : 2 * pairs : 2])
    assert not network.readout.reader(torch.randn(2, config.treatment_channels)).any()


KMER = {"stem": "kmer", "kmer": 4, "channels": 16, "num_heads": 4, "head_channels": 8, "pool": 2}
KMER |= {"readout": "shared"}


def start(dataset_path, output, **model):
    """Train with a rate that changes nothing."""
    job = PromoterTrainingSettings(
        dataset=dataset_path,
        output=output,
        model={**KMER, **model},
        training={
            "epochs": 1,
            "learning_rate": 1e-12,
            "weight_decay": 0.0,
            "warm_start": True,
            "max_shift": 0,
            "average_decay": 0.0,
        },
        baselines=False,
    )
    train(job)
    return load_promoter_model(output, CPU)


@pytest.mark.parametrize(
    ("encoder", "stem"),
    [("id", {}), ("features", {"num_heads": 6, "stem": "both", "channels": 32})],
    ids=["id", "features-beside-filters"],
)
def test_the_start_answers_what_the_ridge_answers(dataset_path, tmp_path, encoder, stem):
    dataset = read_dataset(dataset_path)
    data = BaselineData(dataset)
    ridge = component_ridge(data, [KMER["kmer"]]).model
    loaded = start(dataset_path, tmp_path / "m", treatment_encoder=encoder, treatment_channels=8, **stem)
    with torch.inference_mode():
        codes = centred_windows(dataset, data.test)
        answers = loaded.model(codes, loaded.encode_treatments(loaded.treatments)).numpy()
    expected = ridge.predict(data.codes[data.test])
    for treatment in range(answers.shape[1]):
        assert np.corrcoef(answers[:, treatment], expected[:, treatment])[0, 1] > 0.98
    assert np.abs(answers - expected).mean() < 0.1 * expected.std()


def test_programmes_follow_treatments_of_both_signs():
    """Rank 3 of either sign needs at most six heads with gates between 0 and 1, and more than two."""
    random = np.random.default_rng(0)
    readers_TC = random.normal(size=(20, 3)) @ random.normal(size=(3, 8))
    for heads in (6, 7):
        gates_TH, programmes_HC = gated_programmes(readers_TC, heads)
        assert gates_TH.shape == (20, heads)
        assert ((gates_TH > 0) & (gates_TH < 1)).all()
        np.testing.assert_allclose(gates_TH @ programmes_HC, readers_TC, atol=0.05 * np.abs(readers_TC).max())
    too_few = gated_programmes(readers_TC, 2)
    assert np.abs(too_few[0] @ too_few[1] - readers_TC).max() > 0.1 * np.abs(readers_TC).max()


def test_the_start_is_kept_where_training_only_makes_it_worse(dataset_path, tmp_path):
    """Epoch 0: a rate that ruins the model at once; stopped and resumed, the same bytes."""
    destructive = {
        "epochs": 5,
        "patience": 2,
        "learning_rate": 3.0,
        "warmup_fraction": 0.0,
        "warm_start": True,
    }
    job = PromoterTrainingSettings(
        dataset=dataset_path, output=tmp_path / "m", model=KMER, training=destructive, baselines=False
    )
    notes = Notes()
    train(job, progress=notes)
    record = read_json(tmp_path / "m" / "training.json")
    assert (record["best_epoch"], record["epochs_trained"]) == (0, 2)  # patience counts from the start
    assert "the weights of epoch 0 are kept" in notes.notes[-1]
    assert next(note for note in notes.notes if "epoch 0/5" in note).startswith(
        "epoch 0/5: the start; validation"
    )
    history = read_history(tmp_path / "m")
    assert (history.steps, history.best) == ([0, 1, 2], 0)
    dataset = read_dataset(dataset_path)
    data = BaselineData(dataset)
    ridge = component_ridge(data, [KMER["kmer"]])
    loaded = load_promoter_model(tmp_path / "m", CPU)
    with torch.inference_mode():
        answers = loaded.model(
            centred_windows(dataset, data.test), loaded.encode_treatments(loaded.treatments)
        )
    assert np.corrcoef(answers.numpy().ravel(), ridge.predictions[data.test].ravel())[0, 1] > 0.98

    stopped = replace(job, output=tmp_path / "stopped")
    request = StopRequest()
    with pytest.raises(Interrupted):
        train(stopped, progress=StopAfter(1, request), stop=request)
    train(stopped, resume=True)
    same_folders(tmp_path / "m", tmp_path / "stopped")


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
