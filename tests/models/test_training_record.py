"""The record of a training and its digests: what is damaged is refused by whoever reads it."""

import hashlib
import json
from pathlib import Path

import pytest

from bioattn.errors import FormatError
from bioattn.models.training_history import find_history, read_history
from bioattn.store.inspection import is_valid, validate_file
from bioattn.store.training_record import check_history, read_training_record, write_training_record
from bioattn_cli.main import main

CONTACTS = Path(__file__).parents[2] / "data" / "models" / "evoformer-contacts"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "history.csv").write_text("epoch,training_loss,validation_pearson\n1,2.5,0.25\n2,1.5,0.5\n")
    record = {"best_epoch": 2, "evaluation": {"rows": [], "per_treatment": {"Salz ü": 0.125}}}
    write_training_record(tmp_path, record, ["history.csv"])
    return tmp_path


def test_the_digest_is_that_of_the_rest_in_canonical_json(folder):
    content = json.loads((folder / "training.json").read_text())
    stored = content.pop("record_sha256")
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert stored == hashlib.sha256(text.encode()).hexdigest()
    assert content["sha256"] == {
        "history.csv": hashlib.sha256((folder / "history.csv").read_bytes()).hexdigest()
    }
    before = (folder / "training.json").read_bytes()
    write_training_record(folder, read_training_record(folder), ["history.csv"])
    assert (folder / "training.json").read_bytes() == before


def test_a_flipped_bit_in_any_byte_of_the_record_is_found_or_changes_no_value(folder):
    path = folder / "training.json"
    whole = path.read_bytes()
    values = {name: value for name, value in read_training_record(folder).items() if name != "record_sha256"}
    found = 0
    for where in range(len(whole)):
        changed = bytearray(whole)
        changed[where] ^= 1 << where % 8
        path.write_bytes(changed)
        try:
            content = read_training_record(folder)
        except FormatError:
            found += 1
            continue
        # the name of the digest itself may be hurt, and one kind of white space may become another
        assert values.items() <= content.items(), where
    assert found > 0.8 * len(whole)


def test_a_digit_of_the_history_that_was_changed_is_found_wherever_it_is_read(folder):
    assert read_history(folder).columns["training_loss"].tolist() == [2.5, 1.5]
    text = (folder / "history.csv").read_text()
    (folder / "history.csv").write_text(text.replace("1.5", "1.7"))
    for read in (
        lambda: check_history(folder),
        lambda: read_history(folder),
        lambda: read_history(folder / "history.csv"),
        lambda: find_history(folder),
    ):
        with pytest.raises(FormatError, match=r"history\.csv: differs from the digest in training\.json"):
            read()


@pytest.mark.parametrize(("name", "old", "new"), [
    ("training.json", '"steps_trained": 2000', '"steps_trained": 3000'),
    ("history.csv", "2.39902", "2.39302"),
])  # fmt: skip
def test_commands_refuse_a_model_folder_with_another_digit(name, old, new, tmp_path, capsys):
    folder = tmp_path / "model"
    folder.mkdir()
    for path in CONTACTS.iterdir():
        text = path.read_bytes()
        (folder / path.name).write_bytes(text.replace(old.encode(), new.encode()))
    assert (folder / name).read_bytes() != (CONTACTS / name).read_bytes()
    plot = ["plot", str(folder), "-o", str(tmp_path / "x.png")]
    for words in (["validate", str(folder)], ["inspect", str(folder)], plot):
        assert main(words) == 1, words
        assert name in "".join(capsys.readouterr()), words
    assert not (tmp_path / "x.png").exists()


def test_folders_of_earlier_versions_and_without_a_history_are_read(tmp_path):
    for path in CONTACTS.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = json.loads((tmp_path / "training.json").read_text())
    (tmp_path / "history.csv").unlink()
    assert is_valid(validate_file(tmp_path))
    (tmp_path / "history.csv").write_text("step,training_loss\n1,2\n")
    assert not is_valid(validate_file(tmp_path))
    del content["record_sha256"], content["sha256"]["history.csv"]
    (tmp_path / "training.json").write_text(json.dumps(content))
    assert is_valid(validate_file(tmp_path))
    assert read_history(tmp_path).columns["training_loss"].tolist() == [2]
    (tmp_path / "training.json").write_text("[1]")
    assert not is_valid(validate_file(tmp_path))
