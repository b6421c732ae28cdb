"""Damaged model folders: whatever the file and the byte, one sentence and exit code 1."""

from pathlib import Path

import pytest
import torch

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import sha256_of, write_json
from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.promoters.treatments import named_treatments
from tests.making import untrained_model

CPU = torch.device("cpu")


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
    other = Path(__file__).parents[2] / "data" / "models" / "evoformer-contacts"
    with pytest.raises(FormatError, match=r"this is an evoformer model .*a promoter model is needed"):
        load_promoter_model(other, torch.device("cpu"))
