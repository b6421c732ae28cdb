"""Diffusion models through the commands: promoters with a planted motif, training, designs, shards, kept parts."""

import json
import shutil

import h5py
import numpy as np
import pytest
import torch

from bioattn.choices import Noise
from bioattn.formats.fasta import read_fasta
from bioattn.formats.nucleotides import decode, encode
from bioattn.models.diffusion.run import load_denoiser
from bioattn.models.diffusion.sampling import classifier_guide
from bioattn.models.family import load_runner
from bioattn.store.reader import open_attention
from tests.conftest import made_once
from tests.making import bioattn

MOTIF = "GATTACA"
LENGTH = 24
SETTINGS = """
[model]
channels = 32
stages = 2
condition = "CONDITION"
[training]
steps = 100
steps_per_round = 50
learning_rate = 5e-3
average_decay = 0.98
"""


def make_dataset(folder, number, length, motif):
    """Promoters that hold a motif for heat, at any place; nothing tells of cold."""
    rng = np.random.default_rng(0)
    lines, rows = [], ["gene\theat\tcold"]
    for gene in range(number):
        codes = rng.integers(0, 4, length).astype(np.uint8)
        heat, cold = rng.integers(0, 2, 2)
        if heat:
            place = rng.integers(length - len(motif) + 1)
            codes[place : place + len(motif)] = encode(motif)
        lines.append(f">g{gene} chr{gene % 6}:{gene * 50}-{gene * 50 + length}(+)\n{decode(codes)}\n")
        rows.append(f"g{gene}\t{heat}\t{cold}")
    (folder / "promoters.fa").write_text("".join(lines))
    (folder / "responses.tsv").write_text("\n".join(rows) + "\n")
    sides = ("--holdout", "validation=chr4", "--holdout", "test=chr5", "--task", "binary", "--threshold", 0.5)
    inputs = (folder / "promoters.fa", folder / "responses.tsv")
    assert bioattn("prepare", "dataset", *inputs, "-o", folder / "x.dataset.h5", *sides) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of such promoters, in a folder for the files of this module's tests."""

    def make(folder):
        make_dataset(folder, 600, LENGTH, MOTIF)
        (folder / "settings.toml").write_text(SETTINGS.replace("CONDITION", "both"))
        words = ("-c", folder / "settings.toml", "-o", folder / "model", "-t", 1)
        assert bioattn("train", "diffusion", folder / "x.dataset.h5", *words) == 0

    made = made_once(tmp_path_factory, "diffusion", make)
    return shutil.copytree(made, tmp_path_factory.mktemp("diffusion") / "own")


def generate(folder, name, *words, steps=LENGTH):
    command = ("generate", "promoters", folder / "model", "-o", folder / name, "-t", 1, "--steps", steps)
    return bioattn(*command, *words)


def records(path):
    return list(read_fasta(path))


def share_with_motif(path, motif=MOTIF):
    return np.mean([motif in record.sequence for record in records(path)])


def test_designs_have_the_motif_where_it_was_asked_for(folder):
    assert generate(folder, "on.fa", "--treatment", "heat", "-n", 64) == 0
    assert generate(folder, "off.fa", "--not", "heat", "--treatment", "cold", "-n", 64) == 0
    assert share_with_motif(folder / "on.fa") > 0.75
    assert share_with_motif(folder / "off.fa") < 0.05
    first = records(folder / "on.fa")[0]
    assert first.description.startswith("treatment=heat not= guidance=2 steps=24 seed=0 model=")
    assert len(first.description.split("model=")[1]) == 64


def test_shards_and_a_resumed_run_are_the_whole(folder):
    words = ("--treatment", "heat", "-n", 200, "--seed", 3)
    assert generate(folder, "whole.fa", *words, steps=4) == 0
    for shard in (1, 2, 3):
        assert generate(folder, f"part{shard}.fa", *words, "--shard", f"{shard}/3", steps=4) == 0
    joined = b"".join((folder / f"part{shard}.fa").read_bytes() for shard in (1, 2, 3))
    assert joined == (folder / "whole.fa").read_bytes()
    assert not list(folder.glob("*.partial")) + list(folder.glob("*.designs.h5"))


def test_parts_stay_and_other_lengths_are_written(folder):
    kept = "N" * 10 + "ACGTACGT" + "N" * 12
    (folder / "keep.fa").write_text(f">mine\n{kept.replace('N', 'C')}\n")
    (folder / "keep.bed").write_text("mine\t10\t14\nmine\t14\t18\n")
    words = ("--keep", folder / "keep.fa", "--parts", folder / "keep.bed", "--length", 30, "-n", 5)
    assert generate(folder, "kept.fa", *words) == 0
    for record in records(folder / "kept.fa"):
        assert record.sequence[10:18] == "ACGTACGT"
        assert len(record.sequence) == 30
    assert len({record.sequence for record in records(folder / "kept.fa")}) == 5


def test_attention_and_trajectory_of_every_step(folder):
    words = ("--treatment", "heat", "-n", 3, "--attention", folder / "a.h5", "--trajectory", folder / "t.fa")
    assert generate(folder, "shown.fa", *words, steps=4) == 0
    assert bioattn("validate", folder / "a.h5") == 0
    with open_attention(folder / "a.h5") as attention:
        weights = attention.weights("diffusion.down.1")
    assert weights.shape == (3, 4, 2, LENGTH // 2, 3)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
    steps = {record.name: record.sequence for record in records(folder / "t.fa")}
    assert list(steps)[:4] == [f"design_1/{step}" for step in range(1, 5)]
    assert [steps[f"design_2/{step}"].count("N") for step in range(1, 5)] == [18, 12, 6, 0]
    assert [steps[f"{each.name}/4"] for each in records(folder / "shown.fa")] == [
        each.sequence for each in records(folder / "shown.fa")
    ]


def test_the_effect_map_lies_on_the_motif(folder):
    """And is the divergence of the probabilities that the model gives, hidden base by hidden base."""
    promoters = records(folder / "promoters.fa")[:150]
    (folder / "some.fa").write_text("".join(f">{each.name}\n{each.sequence}\n" for each in promoters))
    words = ("--sites", "diffusion.up.*", "-t", 1)
    command = ("export", "attention", folder / "model", folder / "some.fa", "-o", folder / "maps.h5")
    assert bioattn(*command, *words) == 0
    assert bioattn("validate", folder / "maps.h5") == 0
    with h5py.File(folder / "maps.h5") as file:
        effect = file["effect/values"][:]
        weights = file["sites/diffusion.up.0/weights"][:]
        assert list(file["effect/treatment"].asstr()) == ["heat", "cold"]
    assert effect.shape == (150, 2, 4, LENGTH)
    assert weights.shape == (150, 4, 2, LENGTH, 3)
    inside = np.zeros((150, LENGTH), bool)
    for row, record in zip(inside, promoters, strict=True):
        if (place := record.sequence.find(MOTIF)) >= 0:
            row[place : place + len(MOTIF)] = True
    holds = inside.any(1)
    heat, cold = effect[holds, :, :2].mean(2).transpose(1, 0, 2)
    assert heat[inside[holds]].mean() > 10 * heat[~inside[holds]].mean()
    assert cold[inside[holds]].mean() < 0.1 * heat[inside[holds]].mean()

    model = load_denoiser(folder / "model", torch.device("cpu")).model
    codes = torch.from_numpy(encode(promoters[5].sequence))
    hidden = torch.arange(LENGTH) % 4 == 3
    shown = torch.where(hidden, 4, codes)[None, None]
    with torch.inference_mode():
        on, off = (
            model(shown, torch.tensor([[0.25]]), torch.tensor([[level, 0]]))[0, 0].log_softmax(-1)
            for level in (2, 1)
        )
    wanted = torch.nn.functional.kl_div(off, on, reduction="none", log_target=True).sum(-1)
    np.testing.assert_allclose(effect[5, 0, 1, 3::4], wanted[3::4], atol=1e-5)


def test_designs_are_checked_drawn_and_reported(folder, capsys):
    assert generate(folder, "checked.fa", "--treatment", "heat", "--guidance", 1, "-n", 64, steps=20) == 0
    words = (folder / "model", folder / "checked.fa", "--dataset", folder / "x.dataset.h5", "-t", 1)
    (folder / "motifs.meme").write_text(
        "MEME version 4\n\nMOTIF heat_motif\nletter-probability matrix: alength= 4 w= 7 nsites= 100\n"
        + "".join(" ".join("0.97" if base == one else "0.01" for base in "ACGT") + "\n" for one in MOTIF)
    )
    more = ("--samples", 20, "--motifs", folder / "motifs.meme", "-o", folder / "check.json")
    assert bioattn("explain", "check", *words, *more) == 0
    assert "By the held-out oracle designs for heat gain" in capsys.readouterr().out
    check = json.loads((folder / "check.json").read_text())
    agreement = check["settings"]["attention_agreement"]
    assert -1 <= agreement <= 1
    assert ("do not read these" in " ".join(check["verdict"]["sentences"])) == (agreement < 0.5)
    designs, real = check["rows"][:2]
    assert designs["effect"] > 0.8 * real["effect"]
    assert designs["distance_6"] < 1.3
    assert [row["guidance"] for row in check["guidance"]] == [0, 0.5, 1, 2, 4, 8]
    (rates,) = check["motifs"]
    assert rates["designs"] > 0.7 > 0.3 > rates["Markov chain of order 3"]
    assert bioattn("plot", folder / "check.json", "-o", folder / "check.png") == 0
    assert bioattn("report", folder / "check.json", "-o", folder / "report.html") == 0
    assert "By the held-out oracle" in (folder / "report.html").read_text()


def test_a_classifier_that_saw_masked_bases_guides(folder, capsys):
    (folder / "classifier.toml").write_text(
        '[model]\nchannels = 32\npool = 4\nreader = "hidden"\n[training]\nnoise = "masked"\n'
    )
    common = ("--no-baselines", "-t", 1, "--epochs")
    words = (*common, 12, "-c", folder / "classifier.toml", "-o", folder / "classifier")
    assert bioattn("train", "promoter", folder / "x.dataset.h5", *words) == 0
    shares = []
    for guidance in (0, 8):
        words = ("--treatment", "heat", "-n", 64, "--guidance", guidance)
        assert generate(folder, "guided.fa", *words, "--classifier", folder / "classifier") == 0
        shares.append(share_with_motif(folder / "guided.fa"))
    assert shares[1] > shares[0] + 0.12
    assert "classifier=" in records(folder / "guided.fa")[0].description
    assert bioattn("train", "promoter", folder / "x.dataset.h5", *common, 1, "-o", folder / "clean") == 0
    capsys.readouterr()
    assert generate(folder, "no.fa", "--treatment", "heat", "--classifier", folder / "clean") == 1
    assert "was trained on promoters with no noise" in capsys.readouterr().err


def test_treatments_known_by_the_frozen_vectors_of_a_promoter_model(tmp_path, folder, capsys):
    """They stay as that model has them, and say enough to write by."""
    (tmp_path / "promoter.toml").write_text("[training]\nepochs = 1\n[model]\ntreatment_channels = 6\n")
    words = ("-c", tmp_path / "promoter.toml", "-o", tmp_path / "promoter", "-t", 1, "--no-baselines")
    assert bioattn("train", "promoter", folder / "x.dataset.h5", *words) == 0
    (tmp_path / "settings.toml").write_text(SETTINGS.replace("CONDITION", "both"))
    words = ("-c", tmp_path / "settings.toml", "--tokens-from", tmp_path / "promoter", "-t", 1)
    assert bioattn("train", "diffusion", folder / "x.dataset.h5", *words, "-o", tmp_path / "model") == 0
    words = ("--treatment", "heat", "--not", "cold", "-n", 64, "--steps", LENGTH, "-t", 1)
    assert bioattn("generate", "promoters", tmp_path / "model", "-o", tmp_path / "on.fa", *words) == 0
    assert share_with_motif(tmp_path / "on.fa") > 0.75

    given = load_runner(tmp_path / "promoter", torch.device("cpu"))
    heat_cold = given.treatment_vectors(given.treatments).numpy()
    kept = load_denoiser(tmp_path / "model", torch.device("cpu")).model.tokens.given_TG.numpy()
    np.testing.assert_allclose(kept, np.sign(heat_cold - heat_cold.mean(0)), atol=1e-3)
    words = ("--tokens-from", folder / "model", "-o", tmp_path / "refused")
    assert bioattn("train", "diffusion", folder / "x.dataset.h5", *words) == 1
    said = "--tokens-from: models of the family diffusion cannot give treatments vectors"
    assert said in capsys.readouterr().err


def test_gaussian_designs_follow_the_gradient_of_a_classifier(tmp_path, folder, capsys):
    """Which is that of finite differences; a classifier of another noise is refused."""
    motif, length = "GATTA", 16
    make_dataset(tmp_path, 600, length, motif)
    (tmp_path / "writer.toml").write_text(
        '[model]\nnoise = "gaussian"\nchannels = 32\nstages = 1\ncondition = "adagn"\n'
        "[training]\nsteps = 250\nsteps_per_round = 250\nlearning_rate = 5e-3\naverage_decay = 0.98\n"
    )
    (tmp_path / "classifier.toml").write_text(
        "[model]\nchannels = 32\npool = 16\nkernel = 7\n"
        '[training]\nnoise = "gaussian"\nbatch_size = 32\nmetric = "loss"\nepochs = 8\n'
    )
    dataset, classifier = tmp_path / "x.dataset.h5", tmp_path / "classifier"
    words = ("-c", tmp_path / "writer.toml", "-o", tmp_path / "model", "-t", 1)
    assert bioattn("train", "diffusion", dataset, *words) == 0
    words = ("-c", tmp_path / "classifier.toml", "-o", classifier, "-t", 1, "--no-baselines")
    assert bioattn("train", "promoter", dataset, *words) == 0
    shares = []
    for guidance in (0, 20):
        words = ("--treatment", "heat", "-n", 192, "--guidance", guidance, "--classifier", classifier)
        assert generate(tmp_path, f"{guidance}.fa", *words, steps=24) == 0
        shares.append(share_with_motif(tmp_path / f"{guidance}.fa", motif))
    assert shares[1] > shares[0] + 0.15
    capsys.readouterr()
    words = ("--treatment", "heat", "-n", 3, "--classifier", classifier, "--length", length)
    assert generate(folder, "no.fa", *words) == 1
    assert "was trained on promoters with gaussian noise" in capsys.readouterr().err
    assert not (folder / "no.fa").exists()

    torch.manual_seed(0)
    cpu, (noised, *ways) = torch.device("cpu"), torch.randn(4, 1, length, 4)
    gradient = classifier_guide(classifier, Noise.GAUSSIAN, ["heat"], ["cold"], length, cpu)(noised, None)
    predictor = load_runner(classifier, cpu).predictor()

    def worth(bases):
        heat, cold = predictor.forward(torch.zeros(1, length, dtype=torch.uint8), bases.softmax(-1))[0]
        return heat.sigmoid().log() + (-cold).sigmoid().log()

    for way in ways:
        slope = (worth(noised + 1e-3 * way) - worth(noised - 1e-3 * way)) / 2e-3
        assert (gradient * way).sum().item() == pytest.approx(slope.item(), rel=0.02, abs=1e-3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--treatment", "haet"), "/model holds no such treatment; near: 'heat'"),
        (("--keep", "keep.fa", "--parts", "short.bed"), "mine has 8 bases, designs have 24"),
        (("--keep", "n.fa", "--parts", "n.bed", "--length", 8), "the part holds an N (base 3 of mine)"),
    ],
)
def test_bad_input_is_one_sentence(folder, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "model", "model")
    for name, text in {
        **{"keep.fa": ">mine\nACGTACGT\n", "n.fa": ">mine\nACNTACGT\n", "short.bed": "mine 0 4\n"},
        **{"n.bed": "mine 1 5\n", "far.bed": "mine 4 9\n"},
    }.items():
        (tmp_path / name).write_text(text)
    assert generate(tmp_path, "bad.fa", "-n", 3, *words) in (1, 2)
    message = capsys.readouterr().err
    assert said in message
    assert "Traceback" not in message
    assert not (tmp_path / "bad.fa").exists()
