"""`bioattn train promoter` and the use of its model through the front door: choices, mistakes, damaged folders."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.making import bioattn

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "data" / "tiny"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with promoters.fa and tiny.dataset.h5."""
    folder = tmp_path_factory.mktemp("tiny")
    promoters, dataset = folder / "promoters.fa", folder / "tiny.dataset.h5"
    assert (
        bioattn(
            *("prepare", "promoters", TINY / "genome.fa", TINY / "annotation.gff3", "-o", promoters),
            *("--upstream", 120, "--downstream", 0, "--flank", 10, "-q"),
        )
        == 0
    )
    assert (
        bioattn(
            *("prepare", "dataset", promoters, TINY / "responses.tsv", "-o", dataset, "-q"),
            *("--treatment-table", TINY / "treatments.tsv"),
        )
        == 0
    )
    return folder


@pytest.fixture(scope="module")
def trained(prepared):
    """A model folder, trained for one epoch."""
    folder = prepared / "model"
    words = ("--epochs", 1, "--no-baselines", "--threads", 1, "-q")
    assert bioattn("train", "promoter", prepared / "tiny.dataset.h5", "-o", folder, *words) == 0
    return folder


def test_options_win_over_the_config_file(prepared, tmp_path):
    settings = tmp_path / "settings.toml"
    settings.write_text("[model]\nhops = 2\nnum_heads = 2\n[training]\nepochs = 9\nlearning_rate = 1e-3\n")
    output = tmp_path / "m"
    words = ("-c", settings, "-c", "model.hops=3", "--epochs", 1, "--no-baselines", "-t", 1, "-q")
    assert bioattn("train", "promoter", prepared / "tiny.dataset.h5", "-o", output, *words) == 0
    architecture = json.loads((output / "config.json").read_text())["networks"][0]
    assert (architecture["hops"], architecture["num_heads"]) == (3, 2)
    training = json.loads((output / "training.json").read_text())["networks"][0]["training"]
    assert (training["epochs"], training["learning_rate"]) == (1, 1e-3)
    record = json.loads((tmp_path / "bioattn-records/m.json").read_text())
    assert record["command"][:3] == ["bioattn", "train", "promoter"]
    assert set(record["inputs"]) == {"dataset", "config 1"}


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[model]\nchanels = 8\n", "unknown setting 'chanels'; did you mean channels?"),
        ("[model]\nchannels = 'many'\n", "channels is 'many'; a value of type int is needed"),
        ("[model]\nconcat_pools = [1]\n", "concat_pools is [1]; a list of 2 is needed"),
        ("[training]\nmax_shift = 11\n", "max_shift is 11, the dataset stores a flank of 10"),
        ("[training]\nmetric = 'auroc'\n", "metric = auroc does not fit the dataset"),
        ("[model\n", "not valid TOML"),
        ("treatment_columns = ['dose']\n[model]\ntreatment_encoder = 'features'\n", "'dose'"),
    ],
)
def test_wrong_settings_are_one_sentence_and_code_1(prepared, tmp_path, capsys, toml, sentence):
    settings = tmp_path / "settings.toml"
    settings.write_text(toml)
    code = bioattn("train", "promoter", prepared / "tiny.dataset.h5", "-o", tmp_path / "m", "-c", settings)
    check_mistake(code, 1, sentence, capsys)
    assert {path.name for path in tmp_path.iterdir()} == {"settings.toml"}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("{dataset} --conditioning magic", 2, "'--conditioning': 'magic' is not one of 'concat'"),
        ("{dataset} -c model.hops=0", 2, "hops is 0"),
        ("{dataset} -c model.hops=2 --conditioning film", 2, "hops = 2 is for"),
        (
            "{dataset} -c model.position=learned --stem kmer",
            2,
            "position = learned is for --stem transformer",
        ),
        ("{dataset} --reference nobody", 1, "'nobody' is no training treatment"),
        ("{promoters}", 1, "promoters.fa"),
    ],
)
def test_mistakes_leave_nothing_behind(prepared, tmp_path, capsys, words, code, sentence):
    places = {"dataset": prepared / "tiny.dataset.h5", "promoters": prepared / "promoters.fa"}
    given = bioattn("train", "promoter", *words.format(**places).split(), "-o", tmp_path / "m")
    check_mistake(given, code, sentence, capsys)
    assert not list(tmp_path.iterdir())


def test_a_dataset_in_the_folder_that_is_replaced_stays(prepared, trained, tmp_path):
    model = shutil.copytree(trained, tmp_path / "m")
    dataset = shutil.copy(prepared / "tiny.dataset.h5", model)
    (model / "settings.toml").write_text("[training]\nepochs = 1\n")
    assert bioattn("train", "promoter", dataset, "-o", model, "--force", "-q") == 2
    words = ("-o", model, "--force", "--config", model / "settings.toml", "-q")
    assert bioattn("train", "promoter", prepared / "tiny.dataset.h5", *words) == 2
    assert (model / "tiny.dataset.h5").is_file()
    assert (model / "settings.toml").is_file()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_says_how_to_go_on_and_does(prepared, tmp_path, bioattn_folder, number, code):
    words = [
        *(str(bioattn_folder / "bioattn"), "train", "promoter", str(prepared / "tiny.dataset.h5")),
        *("-o", str(tmp_path / "m"), "--no-baselines", "--threads", "1", "--epochs", "3000"),
    ]
    settings = tmp_path / "settings.toml"
    settings.write_text("[training]\npatience = 3000\n")
    process = subprocess.Popen([*words, "-c", str(settings)], stderr=subprocess.PIPE, text=True)
    state = tmp_path / "m.partial" / "trainer_state.safetensors"
    while not state.exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "and saved; go on with --resume" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "m").exists()
    assert state.exists()


def test_a_run_killed_before_it_wrote_its_record_gets_one_on_resume(prepared, trained, tmp_path, monkeypatch):
    model, record = tmp_path / "model", tmp_path / "bioattn-records/model.json"
    words = ("train", "promoter", prepared / "tiny.dataset.h5", "-o", model, "--epochs", 1, "--no-baselines")
    shutil.copytree(trained, model)
    record.parent.mkdir()
    record.write_text("of the model that is replaced")

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("bioattn_cli.command.write_run_record", killed)
        assert bioattn(*words, "--threads", 1, "-q", "--force") == 130
    assert not record.exists()
    assert bioattn(*words, "--threads", 1, "-q", "--resume") == 0
    written = record.read_bytes()
    assert json.loads(written)["finished_before"] is True
    assert list(json.loads(written)["inputs"]) == ["dataset"]
    assert bioattn(*words, "--threads", 1, "-q", "--resume") == 0
    assert record.read_bytes() == written


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_last_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def replace(old, new):
    def change(path):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def narrow(path):
    path.write_text(re.sub(r'"channels": \d+', '"channels": 12', path.read_text()))


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("model.safetensors", Path.unlink, "not a model folder, model.safetensors is missing"),
        ("config.json", replace('"format_version": 1', '"format_version": 2'), "version 2"),
        ("config.json", narrow, "config.json"),
        ("config.json", cut_in_half, "config.json"),
        ("treatments.json", replace("treatment1", "treatment9"), "treatments.json"),
        ("model.safetensors", flip_last_bit, "model.safetensors: differs from the digest"),
    ],
)
def test_damaged_models_are_one_sentence_and_code_1(
    prepared, trained, tmp_path, capsys, name, damage, sentence
):
    model = tmp_path / "damaged"
    shutil.copytree(trained, model)
    damage(model / name)
    promoters = prepared / "promoters.fa"
    check_mistake(bioattn("run", "promoter", model, promoters, "-o", tmp_path / "x.tsv"), 1, sentence, capsys)
    check_mistake(
        bioattn("export", "attention", model, promoters, "-o", tmp_path / "x.h5"), 1, sentence, capsys
    )
    assert {path.name for path in tmp_path.iterdir()} == {"damaged"}
    assert bioattn("validate", model) == 1
    captured = capsys.readouterr()
    assert captured.out.endswith("invalid\n") or "bioattn: error: " in captured.err
    assert "Traceback" not in captured.err


def check_mistake(given, code, sentence, capsys):
    captured = capsys.readouterr()
    assert given == code, captured.err
    assert sentence in captured.err
    assert sum(line.startswith("bioattn: error: ") for line in captured.err.splitlines()) == 1
    assert "Traceback" not in captured.err
    assert captured.out == ""
