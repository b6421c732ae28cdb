"""The record of a training, and the digests in it."""

import json
from pathlib import Path

from bioattn.models.training_history import read_history
from bioattn.store.inspection import is_valid, validate_file
from bioattn_cli.main import main

CONTACTS = Path(__file__).parents[2] / "data" / "models" / "evoformer-contacts"


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
