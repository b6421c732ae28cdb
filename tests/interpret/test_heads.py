"""`bioattn explain heads` through the front door: tables, the pruned folder, both kinds of model, refusals."""

import csv
import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.choices import SPLIT_NAMES, TEST
from bioattn.models.evoformer.heads import distance_bins
from bioattn.models.evoformer.inputs import AlignmentInputs
from bioattn.models.evoformer.run import load_evoformer_model
from bioattn.models.evoformer.training_families import TrainingFamily
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.training.data import centred_windows
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.treatments import named_treatments
from bioattn.store.reader import open_attention
from tests.making import bioattn, untrained_model

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
SETTINGS = """
[model]
channels = 16
kernel = 9
num_heads = 3
head_channels = 8
hidden_channels = 16
[training]
epochs = 2
"""


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of three heads, trained through the commands on simulated promoters."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "settings.toml").write_text(SETTINGS)
    sim = folder / "sim"
    for command in (
        f"simulate promoters -o {sim} --genes 160 --treatments 3 --length 200",
        f"prepare promoters {sim}/genome.fa {sim}/annotation.gff3 --upstream 200 --downstream 0 -o {folder}/p.fa",
        f"prepare dataset {folder}/p.fa {sim}/responses.tsv --holdout validation=chr7 --holdout test=chr8 "
        f"-o {folder}/x.dataset.h5",
        f"train promoter {folder}/x.dataset.h5 -o {folder}/model -c {folder}/settings.toml --no-baselines -t 1",
    ):
        assert bioattn(*command.split(), "--quiet") == 0, command
    return folder


def explain(*arguments):
    return bioattn("explain", "heads", *arguments, "-t", "1")


def test_tables_and_a_pruned_model(trained, tmp_path, capsys):
    model, dataset = trained / "model", trained / "x.dataset.h5"
    small = tmp_path / "small"
    assert explain(model, dataset, "-o", tmp_path / "heads", "--prune-to", 2, "--pruned-model", small) == 0
    talk = capsys.readouterr().err
    assert "3 heads at 1 site" in talk
    assert "on test genes: accuracy" in talk
    heads, curve = rows(tmp_path / "heads" / "heads.tsv"), rows(tmp_path / "heads" / "pruning.tsv")
    record = json.loads((tmp_path / "heads" / "heads.json").read_text())
    assert [row["head"] for row in heads] == ["0", "1", "2"]
    least = min(heads, key=lambda row: float(row["importance"]))
    assert [row["heads_left"] for row in curve] == ["3", "2", "1"]
    assert curve[0]["removed_head"] == ""
    assert curve[1]["removed_head"] == least["head"]
    assert curve[1]["loss"] == least["loss_without"]
    by_treatment = pd.read_csv(tmp_path / "heads" / "treatments.tsv", sep="\t")
    assert len(by_treatment) == 3 * 3
    left = sorted({0, 1, 2} - {int(least["head"])})
    assert record["pruned"]["heads"] == {"promoter.cross.0": left}

    whole, pruned = load_promoter_model(model, CPU), load_promoter_model(small, CPU)
    data = read_dataset(dataset)
    codes = centred_windows(data, data.genes_in(TEST))
    mask = torch.tensor([float(head in left) for head in range(3)])
    with torch.inference_mode():
        treatments = whole.encode_treatments(whole.treatments)
        with masked_heads(whole.model, {"promoter.cross.0": mask}):
            expected = whole.model(codes, treatments)
        found = pruned.model(codes, treatments)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    card = (small / "README.md").read_text()
    assert "heads left by pruning: promoter.cross.0 " + ", ".join(map(str, left)) in card

    run = f"run promoter {small} {trained}/p.fa -o {tmp_path}/p.tsv -t 1 -q".split()
    assert bioattn(*run) == 0
    table = pd.read_csv(tmp_path / "p.tsv", sep="\t", index_col=0)
    names = [data.gene_ids[gene] for gene in data.genes_in(TEST)]
    np.testing.assert_allclose(table.loc[names].to_numpy(), expected.numpy(), atol=1e-4)
    attention = tmp_path / "a.h5"
    export = ["export", "attention", small, trained / "p.fa", "-o", attention, "-t", "1", "-q"]
    assert bioattn(*export) == 0
    with open_attention(attention) as file:
        assert file.sites["promoter.cross.0"].heads == tuple(left)
    with h5py.File(attention) as file:
        assert file["sites/promoter.cross.0/head"][:].tolist() == left
    assert bioattn(*export, "--heads", left[1]) == 0
    with open_attention(attention) as file:
        assert file.sites["promoter.cross.0"].heads == (left[1],)
    capsys.readouterr()
    assert bioattn(*export, "--heads", least["head"]) == 1
    assert f"but {least['head']} was asked for" in capsys.readouterr().err
    assert bioattn("validate", small, "-q") == 0
    assert bioattn("inspect", small, "-q") == 0
    # What was pruned can be pruned further, by the numbers it had.
    assert explain(small, dataset, "-o", tmp_path / "again", "-q") == 0
    assert [row["head"] for row in rows(tmp_path / "again" / "heads.tsv")] == [str(head) for head in left]


def test_the_same_again_gives_the_same_bytes(trained, tmp_path):
    for name in ("one", "two"):
        assert explain(trained / "model", trained / "x.dataset.h5", "-o", tmp_path / name, "-q") == 0
    for path in sorted((tmp_path / "one").iterdir()):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert bioattn("validate", tmp_path / "one") == 0


def test_refusals(trained, tmp_path, capsys):
    model, dataset = trained / "model", trained / "x.dataset.h5"
    prune = ("--pruned-model", tmp_path / "small")
    concat = tmp_path / "concat"
    concat.mkdir()
    config = PromoterModelConfig(
        length=200, conditioning="concat", concat_pools=(4, 4), concat_hidden=(8, 8, 8)
    )
    untrained_model(config, named_treatments(["treatment1", "treatment2", "treatment3"])).write(concat)
    for arguments, code, sentence in (
        ((model, dataset, "-o", tmp_path / "h", "--prune-to", 2), 2, "go together"),
        ((model, dataset, "-o", tmp_path / "h", "--prune-to", 7, *prune), 1, "ask for 1 to 3"),
        ((concat, dataset, "-o", tmp_path / "h"), 1, "the model has no attention heads"),
    ):
        assert explain(*arguments) == code
        error = capsys.readouterr().err
        assert sentence in error
        assert "Traceback" not in error
        assert not (tmp_path / "h").exists()
        assert not (tmp_path / "small").exists()


@pytest.fixture(scope="module")
def contacts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contacts")
    prepare = f"prepare contacts {ROOT}/data/families/PAIRS.tsv -o {folder}/x.dataset.h5 --quiet"
    assert bioattn(*prepare.split()) == 0
    return folder / "x.dataset.h5"


def distogram_loss(model, family, site, head, factor):
    """Mean cross-entropy of the distogram, with what one head gives multiplied by a number."""
    mask = torch.ones(model.sites[site].num_heads)
    mask[head] = factor
    inputs = AlignmentInputs(
        encoded=family.protein.encoded(),
        columns=family.columns,
        settings=model.inputs,
        weights=family.weights,
        pair_feat=None,
    ).sample(0, 0)
    with torch.no_grad(), masked_heads(model.model, {site: mask}):
        logits = model.model(inputs).distogram_logits.double().numpy()
    cb = family.protein.cb[family.columns]
    apart = np.linalg.norm(cb[:, None] - cb[None], axis=-1)
    known = np.isfinite(apart)
    bins = distance_bins(torch.from_numpy(np.nan_to_num(apart)), logits.shape[-1]).numpy()
    own = np.take_along_axis(logits, bins[..., None], -1)[..., 0]
    return float((np.log(np.exp(logits).sum(-1)) - own)[known].mean())


def test_heads_of_an_alignment_model(contacts, tmp_path, capsys):
    model_path = ROOT / "data" / "models" / "evoformer-contacts"
    dataset = open_contact_dataset(contacts)
    split = next(name for number, name in enumerate(SPLIT_NAMES) if len(dataset.proteins_in(number)))
    assert explain(model_path, contacts, "-o", tmp_path / "heads", "--split", split, "-q") == 0
    found = pd.read_csv(tmp_path / "heads" / "heads.tsv", sep="\t")
    model = load_evoformer_model(model_path, CPU)
    heads = [(name, head) for name, (_, site) in attention_layers(model.model).items() for head in site.heads]
    assert list(zip(found["site"], found["head"], strict=True)) == heads
    assert {name for name in model.sites if not name.startswith("structure")} == set(found["site"])
    assert (found["importance"] >= 0).all()
    assert found["importance"].max() > 1e-6
    by_protein = pd.read_csv(tmp_path / "heads" / "proteins.tsv", sep="\t")
    means = by_protein.groupby(["site", "head"], sort=False)["importance"].mean().to_numpy()
    np.testing.assert_allclose(means, found["importance"], rtol=1e-4)
    protein = dataset.protein(int(dataset.proteins_in(SPLIT_NAMES.index(split))[0]))
    slopes = by_protein[by_protein["protein"] == protein.id].set_index(["site", "head"])["importance"]
    for site, head in [
        slopes.idxmax(),
        slopes[slopes.index.get_level_values(0).str.contains("triangle")].idxmax(),
    ]:
        sides = [
            distogram_loss(model, TrainingFamily(protein), site, head, 1 + step) for step in (0.02, -0.02)
        ]
        assert abs(sides[0] - sides[1]) / 0.04 == pytest.approx(slopes[site, head], rel=0.03)
    capsys.readouterr()
    prune = ("--prune-to", 3, "--pruned-model", tmp_path / "small")
    assert explain(model_path, contacts, "-o", tmp_path / "h", *prune) == 1
    assert "--prune-to: models of the family evoformer cannot be written" in capsys.readouterr().err
