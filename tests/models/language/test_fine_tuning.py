"""Fine-tuning: planted rules are learned, tables are checked, adapters stay with their weights."""

import json
import shutil
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file

import bioattn as bioattn_package
from bioattn.models.language.config import Shape, Target, TargetKind
from bioattn.models.language.fine_tuning import with_replaced
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.simple_models import fit_linear, sequence_features
from bioattn.models.language.targets import Wanted, read_targets, wanted_of
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL, Vocabulary
from bioattn.store.inspection import as_text, inspect_file
from tests.making import bioattn
from tests.models.language.made_models import make_config, saved

SETTINGS = """
[training]
steps = 60
steps_per_round = 30
batch_size = 16
learning_rate = 1e-2
average_decay = 0.8
"""
CPU = torch.device("cpu")


def make_sequences(number: int) -> list[str]:
    random = np.random.default_rng(4)
    return ["".join(random.choice(list("ACGT"), size=random.integers(12, 30))) for _ in range(number)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sequences with the share of A in them, whether it is above a quarter, and a tag that says A or not."""
    folder = tmp_path_factory.mktemp("fine")
    sequences = make_sequences(160)
    (folder / "x.fa").write_text("".join(f">s{n}\n{each}\n" for n, each in enumerate(sequences)))
    rows = ["name\tsplit\tshare\tkind\ttags\n"]
    for number, each in enumerate(sequences):
        share = each.count("A") / len(each)
        side = ("test", "valid")[number % 4] if number % 4 < 2 else "train"
        number_cell = "NA" if number % 7 == 0 else f"{share:.4f}"
        kind = "" if number % 9 == 0 else "rich" if share > 0.25 else "poor"
        tags = each.translate(str.maketrans("ACGT", "aooo"))
        rows.append(f"s{number}\t{side}\t{number_cell}\t{kind}\t{'?' + tags[1:]}\n")
    (folder / "t.tsv").write_text("".join(rows))
    (folder / "settings.toml").write_text(SETTINGS)
    words = ("--split", "record", "--holdout", "test=0.2", "--holdout", "validation=0.2")
    assert bioattn("prepare", "language", folder / "x.fa", "-o", folder / "x.dataset.h5", *words) == 0
    torch.manual_seed(0)
    for shape in Shape:
        saved(folder / shape, LanguageModel(make_config(shape, layers=1, hidden_channels=32, context=32)))
    return folder


def words_of(folder: Path, output: str, shape: str) -> list[object]:
    words = ["train", "language", folder / "x.dataset.h5", "--from", folder / shape, "-o", folder / output]
    return [*words, "--targets", folder / "t.tsv", "--config", folder / "settings.toml"]


def train(folder: Path, output: str, shape: str, *words: object) -> int:
    return bioattn(*words_of(folder, output, shape), *words)


@pytest.fixture(scope="module", params=["encoder", "decoder-lora", "encoder-decoder"])
def model(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Fine-tuned models of each shape, one with adapters."""
    lora = ("--lora", 3) if request.param.endswith("lora") else ("--no-baselines",)
    assert train(folder, f"tuned-{request.param}", request.param.removesuffix("-lora"), *lora) == 0
    return folder / f"tuned-{request.param}"


def test_planted_rules_are_learned_and_compared(model: Path):
    record = json.loads((model / "training.json").read_text())
    rows = {(row["side"], row["target"], row["name"]): row for row in record["evaluation"]}
    assert rows["test", "tags", "this model"]["accuracy"] > 0.95
    assert rows["test", "share", "this model"]["Spearman"] > 0.5
    assert rows["test", "kind", "this model"]["AUROC"] > 0.7
    if "lora" in model.name:
        names = {name for _, target, name in rows if target == "share"}
        assert {"this model", "linear on mean token embedding"} < names
        assert any(name.startswith("linear on 1- to") for name in names)
        assert ("test", "tags", "linear on words within 7") in rows
        low, high = record["comparison"]["gain_interval"]
        gain = record["comparison"]["model_figure"] - record["comparison"]["simple_model_figure"]
        assert low - 0.05 < gain < high + 0.05


def test_predictions_are_those_of_the_layers(model: Path, folder: Path):
    output = folder / f"{model.name}.tsv"
    assert bioattn("run", "language", model, folder / "x.fa", "-o", output) == 0
    header, *rows = (line.split("\t") for line in output.read_text().splitlines())
    assert header == ["id", "share", "kind", "kind.poor", "kind.rich", "tags"]
    loaded = load_language_model(model, CPU)
    readout = loaded.model.readout
    assert readout is not None
    share = readout.fine_tuned.targets[0]
    for row, sequence in list(zip(rows, make_sequences(160), strict=True))[:9]:
        tokens = np.array([CLS, *(len(SPECIAL) + "ACGT".index(base) for base in sequence), EOS])
        with torch.no_grad():
            stack = loaded.model.encode if "encoder-decoder" in model.name else loaded.model.hidden
            hidden_LC = stack(torch.from_numpy(tokens)[None])[0]
            place = -1 if "decoder-lora" in model.name else 0
            outputs = [layer(hidden_LC[place]) for layer in readout.layers[:2]]
            tags = readout.layers[2](hidden_LC[1:-1]).argmax(-1)
        assert float(row[1]) == pytest.approx(outputs[0].item() * share.sd + share.mean, abs=1e-5)
        assert [float(each) for each in row[3:5]] == pytest.approx(outputs[1].softmax(-1).tolist(), abs=1e-5)
        assert row[2] == ("poor" if float(row[3]) > 0.5 else "rich")
        assert row[5] == "".join("ao"[each] for each in tags)
    assert bioattn("validate", model) == 0
    assert bioattn("export", "parameters", model, "-o", folder / "published") == 1
    variants = folder / "variants.tsv"
    variants.write_text("sequence\tmutant\ns0\tA1C\n")
    assert bioattn("run", "language", model, folder / "x.fa", "-o", output, "--variants", variants) != 0
    if "encoder" not in model.name:
        assert bioattn("generate", "language", model, "-o", folder / "new.fa") == 2
        assert not (folder / "new.fa").exists()


def test_varying_positions_are_read_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The target asks whether the letters at two places are the same, and no linear model of letters can tell."""
    random = np.random.default_rng(0)
    pairs = random.integers(4, size=(240, 2))
    sequences = [f"ACG{'ACGT'[a]}TTG{'ACGT'[b]}CA" for a, b in pairs]
    rows = [f"s{n}\t{('test', 'valid')[n % 4] if n % 4 < 2 else 'train'}\t" for n in range(240)]
    same = [f"{row}{'yes' if a == b else 'no'}\n" for row, (a, b) in zip(rows, pairs, strict=True)]
    (tmp_path / "t.tsv").write_text("id\tsplit\tsame\n" + "".join(same))
    (tmp_path / "x.fa").write_text("".join(f">s{n}\n{each}\n" for n, each in enumerate(sequences)))
    settings = SETTINGS.replace("steps = 60", "steps = 400") + 'pool = "varying"\nreadout_channels = 16\n'
    model = '[model]\nlayers = 1\nchannels = 16\nnum_heads = 2\nhidden_channels = 16\npositions = "learned"\n'
    (tmp_path / "settings.toml").write_text(model + settings)
    prepare = ("prepare", "language", tmp_path / "x.fa", "-o", tmp_path / "x.dataset.h5", "--split", "record")
    assert bioattn(*prepare) == 0
    words = ("--targets", tmp_path / "t.tsv", "--config", tmp_path / "settings.toml", "-o", tmp_path / "m")
    assert bioattn("train", "language", tmp_path / "x.dataset.h5", *words) == 0
    record = json.loads((tmp_path / "m" / "training.json").read_text())
    area = {row["name"]: row["AUROC"] for row in record["evaluation"] if row["side"] == "test"}
    assert area["this model"] > 0.95
    assert area["linear on words by position"] < 0.7
    assert bioattn("run", "language", tmp_path / "m", tmp_path / "x.fa", "-o", tmp_path / "y.tsv") == 0
    loaded = load_language_model(tmp_path / "m", CPU)
    tokens = np.array([CLS, *(len(SPECIAL) + "ACGT".index(base) for base in sequences[0]), EOS])
    with torch.no_grad():
        hidden_LC = loaded.model.hidden(torch.from_numpy(tokens)[None])[0]
        outputs = loaded.model.readout.layers[0](torch.cat([hidden_LC[4], hidden_LC[8]]))
    first = (tmp_path / "y.tsv").read_text().splitlines()[1].split("\t")
    assert [float(each) for each in first[2:]] == pytest.approx(outputs.softmax(-1).tolist(), abs=1e-5)
    (tmp_path / "longer.fa").write_text(">s\nACGATTGACAA\n")
    capsys.readouterr()
    assert bioattn("run", "language", tmp_path / "m", tmp_path / "longer.fa", "-o", tmp_path / "z.tsv") == 1
    assert "longer.fa: s: is 13 tokens long, special ones counted, and not 12" in capsys.readouterr().err
    assert not (tmp_path / "z.tsv").exists()


def test_adapters_add_a_product_and_leave_the_weights_alone(folder: Path, tmp_path: Path, capsys):
    assert train(folder, "low", "encoder", "--lora", 2, "--no-baselines", "--steps", 30) == 0
    base, tuned = (load_file(folder / name / "model.safetensors") for name in ("encoder", "low"))
    layer = "encoder.0.widen"
    for name, weight in base.items():
        own = name if name in tuned else name.replace(".weight", ".parametrizations.weight.original")
        assert (tuned[own] == weight).all(), name
    added = (
        tuned[f"{layer}.parametrizations.weight.0.up_OR"]
        @ tuned[f"{layer}.parametrizations.weight.0.down_RI"]
    )
    assert np.abs(added).max() > 0
    loaded = load_language_model(folder / "low", CPU).model
    widened = loaded.encoder[0].widen.weight.detach().numpy()
    assert np.allclose(widened, base[f"{layer}.weight"] + 16 / 2 * added, atol=1e-6)
    tokens = torch.tensor([[CLS, 5, 6, 7, EOS]])
    hidden = loaded.hidden(tokens)
    loaded.fine_tune(None)
    assert torch.allclose(loaded.hidden(tokens), hidden, atol=1e-6)
    assert set(loaded.state_dict()) == set(base)
    # Weights of another model beneath the adapters.
    shutil.copytree(folder / "low", tmp_path / "other")
    tuned["embed.weight"] = tuned["embed.weight"] + 1
    save_file(tuned, tmp_path / "other" / "model.safetensors")
    capsys.readouterr()
    assert bioattn("run", "language", tmp_path / "other", folder / "x.fa", "-o", tmp_path / "y.tsv") == 1
    assert "model.safetensors: differs from the digest in training.json" in capsys.readouterr().err


def test_what_a_column_holds(tmp_path: Path):
    lines = ["id\tbinary\tdigits\tnumber\tword", "a\t0\t010\t010\tx", "b\t1\t0011\t2.5\ty", "c\t1\t11\t7\tx"]
    lines += ["d\t0\t00\t\ty", "e\tNA\t?1\tNA\t."]
    (tmp_path / "t.tsv").write_text("\n".join(lines) + "\n")
    table = read_targets(tmp_path / "t.tsv", ())
    places = [np.ones(length, bool) for length in (3, 4, 2, 2, 2)]
    found = {name: wanted_of(table, name, places, np.ones(5, bool)).target for name in table.columns}
    assert found["binary"].kind is TargetKind.CLASS
    assert found["binary"].classes == ("0", "1")
    assert found["digits"].kind is TargetKind.TAGS
    assert found["number"].kind is TargetKind.NUMBER
    assert found["number"].mean == pytest.approx((10 + 2.5 + 7) / 3)
    assert found["word"].classes == ("x", "y")


def test_linear_models_minimise_what_they_say():
    random = np.random.default_rng(0)
    features_NF = random.normal(size=(50, 4)).astype(np.float32)
    truth = features_NF @ [1.0, -2.0, 0.0, 0.5] + 3 + random.normal(size=50)
    wanted = Wanted(Target(name="y", kind=TargetKind.NUMBER), truth.tolist())
    model = fit_linear(features_NF, wanted, wanted.of(np.arange(50)), lambda _: 0.0)
    centred = (features_NF - features_NF.mean(0)).astype(float)
    centred /= np.sqrt((centred**2).sum(1).mean())
    # The mean squared error and half the first penalty times the squared weights: one line of ridge regression.
    weights = np.linalg.solve(
        2 * centred.T @ centred / 50 + 1e-3 * np.eye(4), 2 * centred.T @ (truth - truth.mean()) / 50
    )
    assert model.outputs(features_NF)[:, 0].numpy() == pytest.approx(
        centred @ weights + truth.mean(), abs=1e-3
    )


def test_features_count_words_and_read_places():
    vocabulary, sequences = Vocabulary(Alphabet.DNA), ["ACGTAC", "AANGTT", "CCCCCC"]
    words = [vocabulary.words(each, "x") - len(SPECIAL) for each in sequences]
    found = dict(sequence_features(words, 4))
    counts = found["1- to 6-words"] ** 2
    for row, each in zip(counts, sequences, strict=True):
        pairs = Counter(each[place : place + 2] for place in range(5))
        plain = [pairs[a + b] / 5 for a in "ACGT" for b in "ACGT"]
        assert row[4:20] == pytest.approx(plain)
    assert found["words by position"].sum(1).tolist() == [6, 5, 6]


def test_a_share_of_the_words_is_replaced_and_no_special_token():
    torch.manual_seed(0)
    number = len(SPECIAL) + 4
    tokens_BL = torch.randint(0, number, (200, 50))
    replaced_BL = with_replaced(tokens_BL, 0.2, number)
    special_BL = tokens_BL < len(SPECIAL)
    assert torch.equal(replaced_BL[special_BL], tokens_BL[special_BL])
    words = replaced_BL[~special_BL]
    assert (words.min(), words.max()) == (len(SPECIAL), number - 1)
    changed = (words != tokens_BL[~special_BL]).double().mean().item()
    assert changed == pytest.approx(0.2 * 3 / 4, abs=0.02)  # a quarter becomes what it was
    assert with_replaced(tokens_BL, 0.0, number) is tokens_BL


def test_a_table_of_python_with_rare_and_unknown_classes(folder: Path, caplog: pytest.LogCaptureFixture):
    """The rare class is held out of validation; every fifth label is `?`, which is no class."""
    side = ["train", "?", "train", "validation", "test"] * 32
    kind = ["usual" if row % 7 or side[row] == "validation" else "rare" for row in range(160)]
    kind = ["?" if each == "?" else known for each, known in zip(side, kind, strict=True)]
    side = ["train" if each == "?" else each for each in side]
    table = pd.DataFrame({"id": [f"s{row}" for row in range(160)], "kind": kind, "split": side})
    with caplog.at_level("INFO", "bioattn"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tuned = train_in_python(folder, table, steps=2, training={"steps_per_round": 1})
    counts = Counter(each for each, where in zip(kind, side, strict=True) if where == "train")
    told = f"kind: rare {counts['rare']}, usual {counts['usual']}, {counts['?']} not known"
    assert told in caplog.text
    told = as_text(inspect_file(tuned.path), "it")
    assert "  trained on: x.dataset.h5\n  predicts:\n    kind: rare, usual\n" in told
    assert tuned.predict({"x": "ACGTACGTACGT"}).columns.tolist() == ["kind", "kind.rare", "kind.usual"]
    history = pd.read_csv(tuned.path / "history.csv")
    assert "validation_AUROC" not in history
    record = json.loads((tuned.path / "training.json").read_text())
    assert record["best_step"] == 1 + history["validation_loss"].argmin()


def test_of_equal_accuracies_the_smaller_loss_is_kept(folder: Path):
    """All rounds say the commonest of three classes, ever more surely."""
    kind = ["ab"[row // 8 % 2] if row % 8 == 0 else "usual" for row in range(160)]
    table = pd.DataFrame({"id": [f"s{row}" for row in range(160)], "kind": kind})
    training = {"steps_per_round": 2, "average_decay": 0.0, "learning_rate": 1e-4}
    tuned = train_in_python(folder, table, steps=6, training=training)
    history = pd.read_csv(tuned.path / "history.csv")
    assert history["validation_accuracy"].nunique() == 1
    assert history["validation_loss"].is_monotonic_decreasing
    assert json.loads((tuned.path / "training.json").read_text())["best_step"] == 6


def test_python_warns_of_a_model_that_ends_below_a_simple_one(folder: Path):
    table = pd.read_csv(folder / "t.tsv", sep="\t", usecols=["name", "split", "share"])
    with pytest.warns(UserWarning, match=r"ends below a simple model: Spearman on test sequences"):
        train_in_python(folder, table, steps=1)


def train_in_python(folder: Path, table: pd.DataFrame, **settings: object) -> LoadedLanguageModel:
    table.to_csv(folder / "of-python.tsv", sep="\t", index=False)
    words = {"start": folder / "encoder", "targets": folder / "of-python.tsv", "threads": 1}
    return bioattn_package.train("language", folder / "x.dataset.h5", **words, **settings)
