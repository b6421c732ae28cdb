"""Model folders: the record of the training and its digests; damaged ones, in one sentence."""

import json
from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import sha256_of, write_json
from bioattn.models.evaluation import read_history
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.treatments import named_treatments
from bioattn.store.inspection import is_valid, validate_file
from bioattn_cli.main import main
from tests.making import untrained_model

CPU = torch.device("cpu")
CONTACTS = Path(__file__).parents[2] / "data" / "models" / "evoformer-contacts"


@pytest.fixture
def folder(tmp_path):
    table = named_treatments(["heat", "salt"])
    untrained_model(PromoterModelConfig(length=40, channels=4), table).write(tmp_path)
    return tmp_path


def test_digests_speak_before_what_follows_from_the_damage(folder):
    names = ("config.json", "treatments.json", "model.safetensors")
    write_json(folder / "training.json", {"sha256": {name: sha256_of(folder / name) for name in names}})
    load_promoter_model(folder, CPU)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"channels": 4', '"channels": 5'))
    with pytest.raises(FormatError, match=r"config\.json: differs from the digest"):
        load_promoter_model(folder, CPU)


def test_a_folder_that_is_not_there_and_a_model_of_another_kind_are_named(tmp_path):
    with pytest.raises(BioattnError, match=r"none: no such file or folder$"):
        load_promoter_model(tmp_path / "none", torch.device("cpu"))
    with pytest.raises(FormatError, match=r"this is an evoformer model .*a promoter model is needed"):
        load_promoter_model(CONTACTS, torch.device("cpu"))


def test_validate_finds_another_digit_in_a_history(tmp_path, capsys):
    for path in CONTACTS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"2.39902", b"2.39302"))
    assert (tmp_path / "history.csv").read_bytes() != (CONTACTS / "history.csv").read_bytes()
    for command in ("validate", "inspect"):
        assert main([command, str(tmp_path)]) == 1
        assert "history.csv: differs from the digest" in "".join(capsys.readouterr())


def test_folders_without_a_history_or_its_digest_are_read(tmp_path):
    for path in CONTACTS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "training.json").read_text())
    (tmp_path / "history.csv").unlink()
    assert is_valid(validate_file(tmp_path))
    (tmp_path / "history.csv").write_text("step,training_loss\n1,2\n")
    assert not is_valid(validate_file(tmp_path))
    del content["sha256"]["history.csv"]
    (tmp_path / "training.json").write_text(json.dumps(content))
    assert is_valid(validate_file(tmp_path))
    assert read_history(tmp_path).columns["training_loss"].tolist() == [2]
    (tmp_path / "training.json").write_text("[1]")
    assert not is_valid(validate_file(tmp_path))
