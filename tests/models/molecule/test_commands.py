"""Molecule models through the commands: simulation, dataset, training, predictions, attention, figures."""

import gzip
import json
import re
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.choices import SPLIT_NAMES, TEST, TRAIN
from bioattn.figures.molecule import read_coloured_molecule
from bioattn.models.model_folder import write_model
from bioattn.models.molecule.check import NO_MAPS
from bioattn.models.molecule.model import molecule_batch
from bioattn.models.molecule.run import load_molecule_model
from bioattn.molecules.chemistry import MoleculeError, clean_molecules, read_molecule, read_records
from bioattn.molecules.dataset import open_molecule_dataset
from bioattn.molecules.similarity import NadarayaWatson, TanimotoProcess
from bioattn.promoters.response_metrics import auroc
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.result_files import assert_same_content

chem = pytest.importorskip("rdkit.Chem", reason="no RDKit here (pip install rdkit)")

SETTINGS = """
[model]
gaussian_process = false
channels = 24
slots = 32
radius = 2
hidden = 0
[training]
steps = 200
steps_per_round = 100
learning_rate = 1e-2
average_decay = 0.9
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Simulated molecules, and models that have learned them."""
    folder = tmp_path_factory.mktemp("molecules")
    (folder / "settings.toml").write_text(SETTINGS)
    assert bioattn("simulate", "molecules", "--molecules", 300, "-o", folder / "made") == 0
    table = folder / "made" / "molecules.tsv"
    assert bioattn("prepare", "molecules", table, "--split", "random", "-o", folder / "x.dataset.h5") == 0
    for encoder in ("fingerprint", "attention"):
        words = ("--config", folder / "settings.toml", "--encoder", encoder, "-o", folder / encoder)
        assert bioattn("train", "molecule", folder / "x.dataset.h5", *words) == 0
        output = folder / f"{encoder}.h5"
        assert bioattn("export", "attention", folder / encoder, table, "-o", output) == 0
    return folder


@pytest.mark.parametrize("encoder", ["fingerprint", "attention"])
def test_the_planted_substructure_is_found(folder, encoder):
    record = json.loads((folder / encoder / "training.json").read_text())
    figures = {(row["side"], row["name"]): row["rmse"] for row in record["evaluation"]}
    simple = ("Nadaraya-Watson (Tanimoto)", "Gaussian process (Tanimoto)")
    assert figures["test", "this model"] < 0.47 < min(figures["test", name] for name in simple)
    truth = pd.read_csv(folder / "made" / "truth.tsv", sep="\t", index_col=0, keep_default_na=False)
    found = {by_attention: [] for by_attention in ([False, True] if encoder == "attention" else [False])}
    with open_attention(folder / f"{encoder}.h5") as file:
        for name, atoms in truth["atoms"].items():
            for by_attention, areas in found.items() if atoms else ():
                values = read_coloured_molecule(file, sample=name, by_attention=by_attention).values
                labels = np.zeros(len(values))
                labels[np.array(atoms.split(","), int) - 1] = 1
                areas.append(auroc(labels[:, None], values[:, None])[0, 0])
    for areas in found.values():
        assert np.mean(areas) > 0.85


def test_predictions_are_those_of_the_contributions(folder):
    """Without a hidden layer contributions and a constant are the prediction, in the units of the data."""
    output = folder / "predictions.tsv"
    table = folder / "made" / "molecules.tsv"
    assert bioattn("run", "molecule", folder / "attention", table, "-o", output) == 0
    predicted = pd.read_csv(output, sep="\t", index_col="id")
    spread = json.loads((folder / "attention" / "config.json").read_text())["architecture"]["spread"][0]
    with open_attention(folder / "attention.h5") as file:
        assert file.samples["smiles"].tolist() == predicted["smiles"].tolist()
        sums = [file.atom_contributions(name)[1].sum() * spread for name in predicted.index]
        weights = file.weights("molecule.atoms", sample="molecule3")
        assert weights.shape == (3, 4, file.samples.loc["molecule3", "atoms"])
    constant = predicted["activity"] - sums
    np.testing.assert_allclose(constant, constant.mean(), atol=1e-4)
    for name in ("attention", "attention.h5", "x.dataset.h5", "made"):
        assert bioattn("inspect", folder / name) == 0
        assert name == "made" or bioattn("validate", folder / name) == 0
    shards = [folder / f"part{number}.h5" for number in (1, 2)]
    for number, shard in enumerate(shards, start=1):
        words = ("export", "attention", folder / "attention", table, "-o", shard, "--shard", f"{number}/2")
        assert bioattn(*words) == 0
    assert bioattn("merge", *shards, "-o", folder / "merged.h5") == 0
    assert_same_content(folder / "merged.h5", folder / "attention.h5")


def test_figures_of_contributions_and_attention(folder, capsys):
    pytest.importorskip("matplotlib")
    common = ("plot", folder / "attention.h5", "--sample", "molecule3", "-o", folder / "x.svg")
    assert bioattn(*common) == 0
    assert bioattn(*common, "--as", "attention") == 0
    text = (folder / "x.svg").read_text()
    assert "S" in text
    assert bioattn("plot", folder / "fingerprint.h5", "--as", "attention", "-o", folder / "y.svg") == 1
    assert "attend to slots" in capsys.readouterr().err
    assert bioattn(*common, "--show", "activty") == 1
    assert "near: 'activity'" in capsys.readouterr().err


def checked(model, dataset, output):
    """The check of a model, its measures by name."""
    assert bioattn("explain", "check", model, dataset, "-o", output) == 0
    found = json.loads(output.read_text())
    return {**found, **{each["name"]: each for each in found["measures"]}}


@pytest.mark.parametrize("encoder", ["fingerprint", "attention"])
def test_attention_that_learned_the_substructure_passes_its_check(folder, capsys, encoder):
    """Figures are those of the files of predictions and attention, by plain loops."""
    table, check = folder / "made" / "molecules.tsv", folder / "check.json"
    found = checked(folder / encoder, folder / "x.dataset.h5", check)
    assert found["verdict"]["code"] == "faithful"
    assert found["verdict"]["sentence"] in capsys.readouterr().out
    other = "shuffled_weights" if encoder == "attention" else "other_molecules_weights"
    assert all(found[name]["passed"] for name in ("skill", "uniform_weights", other))
    assert bioattn("report", folder / encoder, check, "-o", folder / "report.html") == 0
    assert found["verdict"]["sentence"] in (folder / "report.html").read_text()

    assert bioattn("run", "molecule", folder / encoder, table, "-o", folder / "predictions.tsv") == 0
    dataset = open_molecule_dataset(folder / "x.dataset.h5")
    own = [dataset.molecules.ids[row] for row in dataset.side(TEST)]
    predicted = pd.read_csv(folder / "predictions.tsv", sep="\t", index_col="id").loc[own, "activity"]
    truth, train = (dataset.targets_NT[dataset.side(side), 0] for side in (TEST, TRAIN))
    saved = 1 - ((predicted - truth) ** 2).sum() / ((train.mean() - truth) ** 2).sum()
    assert found["skill"]["value"] == pytest.approx(saved, abs=1e-5)

    distance = predicted - predicted.mean()
    standing_out = distance.abs().nlargest(len(own) // 2).index
    taken, everything = {"own": 0.0, "contributions": 0.0}, 0.0
    with open_attention(folder / f"{encoder}.h5") as file:
        for name in standing_out:
            contributions = np.sign(distance[name]) * file.atom_contributions(name)[1][0].sum(0)
            scores = {"contributions": contributions}
            if encoder == "attention":
                scores["own"] = file.weights("molecule.atoms", sample=name).mean((0, 1))
            for score, values in scores.items():
                number = max(1, int(len(contributions) / 10 + 0.5))
                taken[score] += contributions[np.argsort(-values)[:number]].sum()
            everything += contributions.sum()
    share = f"{round(100 * taken['contributions'] / everything)} % of what it loses"
    assert share in found["deletion_by_contributions"]["sentence"]
    if encoder == "attention":
        curve = found["curves"]["deletion"]
        assert curve["top"][curve["fraction"].index(0.1)] == pytest.approx(
            taken["own"] / everything, abs=1e-4
        )
    else:
        assert found["skipped"] == [{"name": "deletion", "why": NO_MAPS}]


def test_a_check_on_another_split_says_that_molecules_may_be_known(folder, tmp_path):
    other = tmp_path / "x.dataset.h5"
    words = ("prepare", "molecules", folder / "made" / "molecules.tsv", "--split", "random", "--seed", 7)
    assert bioattn(*words, "-o", other) == 0
    for dataset, told in ((folder / "x.dataset.h5", False), (other, True)):
        caveats = checked(folder / "fingerprint", dataset, tmp_path / "check.json")["verdict"]["caveats"]
        assert any("was trained on these molecules is not known" in caveat for caveat in caveats) is told


def test_attention_without_use_fails_its_check(folder, tmp_path, capsys):
    """Uniform attention, heads that stare and write nothing, a network that adds nothing to its Gaussian process,
    and one that was not trained."""
    dataset, words = folder / "x.dataset.h5", ("--config", folder / "settings.toml", "--steps", 1)
    for name, process in (("untrained", "false"), ("process", "true")):
        more = ("-c", f"model.gaussian_process={process}", "-o", tmp_path / name)
        assert bioattn("train", "molecule", dataset, *words, *more) == 0
    for change in (uniform, idle):
        write_changed(folder / "attention", dataset, tmp_path / change.__name__, change)
    found = {
        name: checked(tmp_path / name, dataset, tmp_path / "check.json")
        for name in ("untrained", "process", "uniform", "idle")
    }
    assert {name: each["verdict"]["code"] for name, each in found.items()} == {
        "untrained": "model-not-predictive",
        "process": "not-used",
        "uniform": "not-used",
        "idle": "unfaithful",
    }
    assert found["process"]["skill"]["passed"]
    assert found["process"]["without_network"]["value"] == pytest.approx(0, abs=1e-3)
    assert found["uniform"]["skill"]["passed"]
    assert not found["uniform"]["deletion"]["passed"]
    for name in ("uniform_weights", "shuffled_weights"):
        assert found["uniform"][name]["value"] == pytest.approx(0, abs=1e-4)


def uniform(encoder):
    """Queries and biases of 0."""
    for name, weights in encoder.named_parameters():
        if "query" in name or "bond_bias" in name:
            weights.zero_()


def idle(encoder):
    """Two of four heads look at one atom, where they looked least, and write nothing."""
    encoder.query_RHD[:, :2] *= -20
    for value in encoder.project_value:
        half = len(value.bias) // 2
        value.weight[:half], value.bias[:half] = 0, 0


def write_changed(trained, dataset, output, change):
    """The model with a changed encoder, whose linear layer was fitted again by least squares."""
    loaded, dataset = load_molecule_model(trained, torch.device("cpu")), open_molecule_dataset(dataset)
    model, rows = loaded.model, dataset.side(TRAIN)
    with torch.no_grad():
        change(model.encoder)
        graphs = molecule_batch(dataset.molecules, rows, loaded.device).graphs
        written = model.encoder(graphs).sum((1, 2)).double().numpy()
        wanted = (dataset.targets_NT[rows, 0] - loaded.config.mean[0]) / loaded.config.spread[0]
        fitted = np.linalg.lstsq(np.c_[written, np.ones(len(rows))], wanted, rcond=1e-3)[0]
        model.linear.weight[0], model.linear.bias[0] = torch.from_numpy(fitted[:-1]), float(fitted[-1])
    output.mkdir()
    write_model(output, "molecule", model, architecture=asdict(model.config))


def test_a_check_of_classes_with_missing_values(folder, tmp_path, capsys):
    """The error is the log loss, beside how often classes are in the training, over what was measured."""
    table = pd.read_csv(folder / "made" / "molecules.tsv", sep="\t")
    table["active"] = (table.pop("activity") > 1).astype(int)
    table["oxygen"] = table["smiles"].str.contains("O").astype(float).where(table.index % 3 > 0)
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    dataset, model = tmp_path / "x.dataset.h5", tmp_path / "model"
    assert bioattn("prepare", "molecules", tmp_path / "t.tsv", "--split", "random", "-o", dataset) == 0
    words = ("--config", folder / "settings.toml", "-c", "model.gaussian_process=true", "--steps", 1)
    assert bioattn("train", "molecule", dataset, *words, "-o", model) == 0
    assert bioattn("run", "molecule", model, tmp_path / "t.tsv", "-o", tmp_path / "p.tsv") == 0
    opened = open_molecule_dataset(dataset)
    test, train = (opened.targets_NT[opened.side(side)] for side in (TEST, TRAIN))
    own = [opened.molecules.ids[row] for row in opened.side(TEST)]
    predicted = pd.read_csv(tmp_path / "p.tsv", sep="\t", index_col="id").loc[own, opened.tasks].to_numpy()

    def loss(chance):
        return -np.nansum(
            np.where(test == 1, np.log(chance), np.log(1 - chance)) * np.where(test >= 0, 1, np.nan)
        )

    found = checked(model, dataset, tmp_path / "check.json")
    saved = 1 - loss(predicted) / loss(np.nanmean(train, axis=0))
    assert found["skill"]["value"] == pytest.approx(saved, abs=1e-4)
    words = ("explain", "check", folder / "attention", dataset, "-o", tmp_path / "check.json")
    assert bioattn(*words) == 1
    said = "measures ['active', 'oxygen'] (binary), the model predicts ['activity']"
    assert said in capsys.readouterr().err
    words = ("explain", "check", model, dataset, "-o", tmp_path / "check.json")
    assert bioattn(*words, "--controls", tmp_path / "c", "--dataset", dataset) == 2
    assert "--controls: is not for models of the family molecule" in capsys.readouterr().err


BAD = {
    "C1CC": "is not valid SMILES",
    "C[cH-](C)C": "non-ring atom 1 marked aromatic",
    "": "is empty",
    "C[Hg]C": "holds Hg",
    "C" * 10_000: "SMILES of 10,000 letters",
    "C" * 300: "has 300 heavy atoms",
    "NCCc1ccccc1.OCCc1ccccc1": "is a mixture",
}


@pytest.mark.parametrize("smiles", BAD)
def test_what_is_no_molecule_is_refused(smiles):
    with pytest.raises(MoleculeError, match=BAD[smiles].replace("(", r"\(").replace("#", r"\#")):
        read_molecule(smiles)


@pytest.mark.parametrize(
    ("smiles", "clean", "note"),
    [
        ("CC(=O)[O-].[Na+]", "CC(=O)O", "salt or solvent removed: [Na+]; charge -1 neutralised"),
        ("[Na+].[Cl-]", "[Cl-].[Na+]", ""),
        ("[Fe+2].CCCc1ccc[cH-]1", "CCCc1ccc[cH-]1", "salt or solvent removed: [Fe+2]; charge -1"),
        ("C[N+](C)(C)C", "C[N+](C)(C)C", "charge +1"),
        ("CCO.CCO", "CCO", "one of several equal fragments kept"),
        ("C[C@H](N)C(=O)O", "C[C@H](N)C(=O)O", ""),
        ("CC(N)C(=O)O", "CC(N)C(=O)O", "1 of 1 stereo centres not given"),
        ("OO", "OO", ""),
        ("C[C@H](N)C(=O)O |&1:1|", "CC(N)C(=O)O", "1 of 1 stereo centres not given"),
        ("C[C@H](N)C(=O)O |a:1|", "C[C@H](N)C(=O)O", ""),
        (
            "NCCc1ccccc1.OC(=O)CC(O)(CC(=O)O)C(=O)O",  # the citrate is the larger one
            "NCCc1ccccc1",
            "salt or solvent removed: O=C(O)CC(O)(CC(=O)O)C(=O)O",
        ),
        (
            "C[C@@H]([NH3+])Cc1ccccc1.OC(=O)[C@H](O)[C@@H](O)C(=O)[O-]",
            "C[C@@H](N)Cc1ccccc1",
            "salt or solvent removed: O=C([O-])[C@H](O)[C@@H](O)C(=O)O; charge +1 neutralised",
        ),
        (
            "[Na+].OC(=O)CC(O)(CC(=O)O)C(=O)[O-]",
            "O=C(O)CC(O)(CC(=O)O)C(=O)O",
            "salt or solvent removed: [Na+]; charge -1 neutralised",
        ),
        ("NCCc1ccccc1.F[P-](F)(F)(F)(F)F", "NCCc1ccccc1", "salt or solvent removed: F[P-](F)(F)(F)(F)F"),
    ],
)
def test_what_is_cleaned_is_noted(smiles, clean, note):
    molecule = read_molecule(smiles)
    assert (molecule.smiles, "; ".join(molecule.notes)) == (clean, note)
    assert read_molecule(clean).smiles == clean
    mol = chem.MolFromSmiles(clean)
    assert [atom.GetDegree() for atom in mol.GetAtoms()] == molecule.atoms[:, 1].tolist()
    assert len(molecule.bonds) == mol.GetNumBonds()


TABLE = """name,SMILES,dose,colour,ph
a,CCO,1.5,red,
b,OCC,2.5,blue,7
c,xyz,1,red,7
a,CCC,1,red,7
d,c1ccccc1,0.5,blue,6.5
e,CC(=O)[O-].[Na+],3,,7
"""


def test_every_record_is_accounted_for(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "split.tsv").write_text("name\tsplit\na\ttrain\nd\ttest\ne\ttrain\n")
    words = ("--split-table", tmp_path / "split.tsv", "-o", tmp_path / "x.dataset.h5")
    common = ("prepare", "molecules", tmp_path / "t.csv", *words)
    assert bioattn(*common, "--target", "dose", "--target", "colour") == 0
    assert (
        "3 records left out; the first: b is the same molecule as a, whose values are learned"
        in capsys.readouterr().err
    )
    audit = pd.read_csv(tmp_path / "x.dataset.audit.tsv", sep="\t", keep_default_na=False)
    assert audit["status"].tolist() == ["kept", "dropped", "dropped", "dropped", "kept", "kept"]
    assert audit["reason"][2:4].tolist() == ["is not valid SMILES", "the name occurs above already"]
    dataset = open_molecule_dataset(tmp_path / "x.dataset.h5")
    assert dataset.tasks == ["dose", "colour=blue"]
    np.testing.assert_array_equal(dataset.targets_NT, [[1.5, 0], [0.5, 1], [3, np.nan]])
    assert dataset.split.tolist() == [0, 2, 0]
    before = (tmp_path / "x.dataset.h5").read_bytes()
    assert bioattn(*common, "--target", "dose", "--target", "colour") == 0
    assert (tmp_path / "x.dataset.h5").read_bytes() == before
    (tmp_path / "t.csv").write_text(TABLE.replace("0.5,blue", ">5,blue"))
    assert bioattn(*common) == 0
    assert "the column 'dose' is not learned: '>5' is no number" in capsys.readouterr().err
    assert open_molecule_dataset(tmp_path / "x.dataset.h5").tasks == ["ph"]
    assert bioattn(*common, "--target", "dose") == 1
    assert "column 'dose' mixes numbers and words, such as '>5'" in capsys.readouterr().err
    assert bioattn(*common, "--target", "mass") == 1
    assert "there is no column 'mass'" in capsys.readouterr().err
    assert bioattn("prepare", "molecules", tmp_path / "split.tsv", "-o", tmp_path / "y.h5") == 1
    assert "there is no column 'smiles'" in capsys.readouterr().err


@pytest.mark.parametrize("cell", [">10", "< 0,5", "~3", "10 uM", "1.5±0.2"])
def test_measured_values_that_are_no_numbers_are_told(tmp_path, capsys, cell):
    """Even where most of a column are none; a column of words and numbered names are passed over."""
    rows = [
        (f"m{n}", "C" * n, str(n) if n < 3 else cell, "n.d." if n < 7 else cell, f"{n}-a", n)
        for n in range(1, 9)
    ]
    text = "\n".join(
        "\t".join(map(str, row)) for row in [("id", "smiles", "IC50", "Ki", "cas", "logP"), *rows]
    )
    (tmp_path / "t.tsv").write_text(text)
    words = ("prepare", "molecules", tmp_path / "t.tsv", "--split", "random", "-o", tmp_path / "x.dataset.h5")
    assert bioattn(*words) == 0
    told = "".join(line for line in capsys.readouterr().err.splitlines() if "is not learned" in line)
    assert [f"{name!r}" in told for name in ("IC50", "Ki", "cas")] == [True, True, False]
    assert open_molecule_dataset(tmp_path / "x.dataset.h5").tasks == ["logP"]


def test_numbers_with_commas_become_no_classes(tmp_path, capsys):
    rows = "".join(f"m{n};{'C' * (n + 1)};{n},5\n" for n in range(12))
    quoted = re.sub(r"(\d+,5)", r'"\1"', rows).replace(";", ",")
    (tmp_path / "t.csv").write_text(f"name,smiles,dose\n{quoted}")
    words = ("prepare", "molecules", tmp_path / "t.csv", "--split", "random", "-o", tmp_path / "x.dataset.h5")
    assert bioattn(*words, "--target", "dose") == 1
    assert "t.csv: m0, column 'dose': '0,5' has a comma" in capsys.readouterr().err
    assert bioattn(*words) == 1
    said = capsys.readouterr().err
    assert "the column 'dose' is not learned: '0,5' is no number" in said
    assert "one column names the molecules" in said
    assert not (tmp_path / "x.dataset.h5").exists()
    (tmp_path / "t.csv").write_text(f"name;smiles;dose\n{rows}")
    (tmp_path / "r.csv").write_text("name;pH\nm3;7,25\n")
    for more, name, values in (
        ((), "dose", np.arange(12) + 0.5),
        (("--responses", tmp_path / "r.csv"), "pH", [*[np.nan] * 3, 7.25, *[np.nan] * 8]),
    ):
        assert bioattn(*words, *more) == 0
        dataset = open_molecule_dataset(tmp_path / "x.dataset.h5")
        assert dataset.tasks[-1] == name
        np.testing.assert_array_equal(dataset.targets_NT[:, -1], np.float32(values))


def test_few_actives_are_counted_and_learned_once(tmp_path, capsys):
    """As words and as numbers: figures of a class and its complement have no mean."""
    active = np.random.default_rng(0).random(60) < 0.2
    table = pd.DataFrame({"id": [f"m{n}" for n in range(60)], "smiles": ["C" * (n + 1) for n in range(60)]})
    table["Outcome"] = np.where(active, "active", "inactive")
    table["IC50"] = [f"{n + 0.5} uM" for n in range(60)]
    table["nM"] = 10.0 ** (np.arange(60) % 7)
    table["class"] = np.where(active, "<1 uM", ">1 uM")
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ("prepare", "molecules", tmp_path / "t.csv", "--split", "random", "-o", tmp_path / "x.dataset.h5")
    assert bioattn(*words, "--target", "Outcome", "--target", "class") == 0
    dataset = open_molecule_dataset(tmp_path / "x.dataset.h5")
    assert dataset.tasks == ["Outcome=active", "class=<1 uM"]
    np.testing.assert_array_equal(dataset.targets_NT, np.stack([active, active], 1))
    sides = ((name, active[dataset.split == side]) for side, name in enumerate(SPLIT_NAMES))
    counts = ", ".join(f"{name} {2 * own.sum()} of {2 * len(own)}" for name, own in sides)
    assert f"of which are 1: {counts})" in capsys.readouterr().err
    assert bioattn(*words, "--target", "nM", "--target", "nM") == 0
    assert open_molecule_dataset(tmp_path / "x.dataset.h5").tasks == ["nM"]
    assert "values of 'nM' lie between 1 and 1e+06" in capsys.readouterr().err
    assert bioattn(*words, "--target", "IC50") == 1
    assert "column 'IC50' mixes numbers and words, such as '0.5 uM'" in capsys.readouterr().err


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("number", [1, 3])
def test_constant_values_give_models_without_a_warning(number):
    fingerprints = np.random.default_rng(0).integers(1, 255, (number, 256), dtype=np.uint8)
    values = np.full((number, 1), 1.5)
    for model in (NadarayaWatson(fingerprints, values), TanimotoProcess(fingerprints, values)):
        np.testing.assert_allclose(model.predict(fingerprints), values)


def test_sdf_gives_what_smiles_give(tmp_path):
    records = []
    for name, smiles, value in (("a", "C[C@H](N)C(=O)O", 1.5), ("b", "c1ccccc1O", 2.5), ("c", "CCN", 0.5)):
        mol = chem.MolFromSmiles(smiles)
        mol.SetProp("_Name", name)
        more = ">  <pH>\n7\n\n" * (name == "b")  # other records have no such property
        records.append(f"{chem.MolToMolBlock(mol)}>  <logS>\n{value}\n\n{more}$$$$\n")
    (tmp_path / "x.sdf.gz").write_bytes(gzip.compress("".join(records).encode()))
    words = ("--split", "random", "--holdout", "test=0", "--holdout", "validation=0")
    assert bioattn("prepare", "molecules", tmp_path / "x.sdf.gz", *words, "-o", tmp_path / "x.h5") == 0
    dataset = open_molecule_dataset(tmp_path / "x.h5")
    assert dataset.molecules.smiles[1:] == ["Oc1ccccc1", "CCN"]
    assert dataset.molecules.ids == ["a", "b", "c"]
    assert dataset.tasks == ["logS", "pH"]
    np.testing.assert_array_equal(dataset.targets_NT, [[1.5, np.nan], [2.5, 7], [0.5, np.nan]])
    for name in ("X.SDF", "x.sd", "x"):
        (tmp_path / name).write_text("".join(records))
        assert bioattn("prepare", "molecules", tmp_path / name, *words, "-o", tmp_path / "z.h5") == 0
        assert open_molecule_dataset(tmp_path / "z.h5").molecules.smiles == dataset.molecules.smiles
    (tmp_path / "cut.sdf").write_text(records[0].replace("$$$$", ""))
    assert bioattn("prepare", "molecules", tmp_path / "cut.sdf", "-o", tmp_path / "y.h5") == 1


@pytest.mark.parametrize(
    ("text", "names", "columns"),
    [
        ("smiles,logS\nCCO,1.5\nCCC,2.5\nCCCC,-3\n", None, ["logS"]),
        ("smiles,FDA,TOX\nCCO,1,0\nCCC,1,0\nCCCC,0,1\n", None, ["FDA", "TOX"]),
        ("NR-AR,SR-p53,mol_id,smiles\n0,1,a,CCO\n0,,b,CCC\n1,0,c,CCCC\n", "abc", ["NR-AR", "SR-p53"]),
        ("num,name,p_np,canonical_smiles\n1,x,1,CCO\n2,x,1,CCC\n3,z,0,CCCC\n", "123", ["name", "p_np"]),
        ("smiles,IC50,CID\nCCO,>10,7\nCCC,>20,8\nCCCC,3,9\n", "789", ["IC50"]),
        ("smiles,IC50\nCCO,1.0 nM\nCCC,2 uM\nCCCC,3 nM\n", None, ["IC50"]),
        ("smiles,y\nCCO,1.0 ± 0.1\nCCC,2.5 ± 0.3\nCCCC,3 ± 1\n", None, ["y"]),
        ("CCO a\nCCC |$_AV:Q$| b\nCCCC c\n", "abc", []),
        ("CCO\nCCC\nCCCC\n", None, []),
    ],
)
def test_columns_that_name_molecules(tmp_path, text, names, columns):
    path = tmp_path / "m.smi"
    path.write_text(text)
    records = list(clean_molecules(read_records(path), path))
    assert [record.name for record in records] == list(names or ["molecule1", "molecule2", "molecule3"])
    assert [record.molecule.smiles for record in records] == ["CCO", "CCC", "CCCC"]
    assert all(list(record.columns) == columns for record in records)


def test_values_beyond_what_was_measured_in_a_column_of_signs(tmp_path, capsys):
    rows = [[f"m{n}", "C" * (n + 1), n, f"'{'>' if n > 9 else '='}'", "nM" if n else "µM"] for n in range(12)]
    table = pd.DataFrame(rows, columns=["Molecule", "Smiles", "Value", "Relation", "Units"])
    table["Standard Type"] = ["IC50", "Ki"] * 6
    table.to_csv(tmp_path / "t.csv", sep=";", index=False)
    words = ("prepare", "molecules", tmp_path / "t.csv", "--split", "random", "-o", tmp_path / "x.dataset.h5")
    assert bioattn(*words, "--target", "Value") == 0
    said = capsys.readouterr().err
    assert "the column 'Relation' says of 2 values ('>')" in said
    assert "several units ('nM', 'µM' in the column 'Units')" in said
    assert "several types ('IC50', 'Ki' in the column 'Standard Type')" in said
    pytest.importorskip("openpyxl")
    table.to_excel(tmp_path / "t.xlsx", index=False)
    first, second = (
        list(clean_molecules(read_records(path), path)) for path in (tmp_path / "t.csv", tmp_path / "t.xlsx")
    )
    assert [record.molecule.smiles for record in first] == [record.molecule.smiles for record in second]


def test_a_prediction_is_missing_where_there_is_no_molecule(folder, tmp_path):
    (tmp_path / "t.tsv").write_text("id\tsmiles\na\tCCO\nb\tC1CC\nc\tOCC\n")
    output = tmp_path / "p.tsv"
    assert bioattn("run", "molecule", folder / "fingerprint", tmp_path / "t.tsv", "-o", output) == 0
    found = pd.read_csv(output, sep="\t", keep_default_na=False)
    assert found["id"].tolist() == ["a", "b", "c"]
    assert found["note"][1] == "is not valid SMILES"
    assert found["activity"][1] == ""
    assert found["activity"][0] == found["activity"][2] != ""


def test_without_the_extra_the_command_says_what_to_install(tmp_path):
    (tmp_path / "t.tsv").write_text("id\tsmiles\na\tCCO\n")
    program = (
        "import sys; sys.modules['rdkit'] = None; from bioattn_cli.main import main;"
        f"sys.exit(main(['prepare', 'molecules', '{tmp_path}/t.tsv', '-o', '{tmp_path}/x.h5']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install rdkit" in done.stderr


def test_one_held_out_molecule_has_no_correlation(tmp_path):
    """The table of the end leaves it open, and the record holds valid JSON."""
    rows = [f"m{n}{end}\t{'C' * n}{end}\t{n}" for n in range(1, 5) for end in ("O", "N")]
    (tmp_path / "m.tsv").write_text("\n".join(["id\tsmiles\tactivity", *rows, ""]))
    dataset, model = tmp_path / "x.dataset.h5", tmp_path / "model"
    assert bioattn("prepare", "molecules", tmp_path / "m.tsv", "--split", "random", "-o", dataset) == 0
    assert bioattn("train", "molecule", dataset, "-o", model, "--steps", 2) == 0
    record = json.loads((model / "training.json").read_text())
    assert {row["pearson"] for row in record["evaluation"]} == {None}
    assert bioattn("inspect", model) == 0
    assert bioattn("report", model, "-o", tmp_path / "report.html") == 0
