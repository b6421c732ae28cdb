"""`validate` reads all of a parameter file: a flipped bit in any array is found."""

import zipfile

import numpy as np
import pytest
import torch

from bioattn.models.evoformer.config import InputSettings
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_export import export_parameters
from bioattn.models.evoformer.run import write_evoformer_model
from bioattn.store.inspection import inspect_file, is_valid, validate_file
from bioattn_cli.main import main
from tests.making import small_evoformer


@pytest.fixture(scope="module")
def parameters(tmp_path_factory):
    """A folder with the parameters of a small model in AlphaFold's and in OpenFold's form."""
    folder = tmp_path_factory.mktemp("parameters")
    torch.manual_seed(0)
    (folder / "model").mkdir()
    write_evoformer_model(folder / "model", EvoformerModel(small_evoformer()), InputSettings())
    for name in ("params.npz", "params.pt"):
        export_parameters(folder / "model", folder / name)
    return folder


@pytest.mark.parametrize("name", ["params.npz", "params.pt"])
def test_a_flipped_bit_in_any_array_is_found(name, parameters, tmp_path, capsys):
    whole = (parameters / name).read_bytes()
    assert validate_file(parameters / name) == []
    path = tmp_path / name
    with zipfile.ZipFile(parameters / name) as archive:
        members = [member for member in archive.infolist() if member.file_size > 64]
    assert len(members) > 20
    for member in members[:: len(members) // 8]:
        name_length, extra_length = np.frombuffer(whole, "<u2", 2, member.header_offset + 26)
        end = member.header_offset + 30 + int(name_length) + int(extra_length) + member.file_size
        damaged = bytearray(whole)
        damaged[end - 3] ^= 1  # a low bit of the last number
        path.write_bytes(damaged)
        findings = validate_file(path)
        assert not is_valid(findings)
        assert member.filename.removesuffix(".npy") in str(findings[0])
    assert main(["validate", str(path)]) == 1
    assert capsys.readouterr().out.endswith(f"{path}: invalid\n")


def test_a_checkpoint_without_check_sums_is_valid_with_a_warning(parameters, tmp_path):
    content = torch.load(parameters / "params.pt", weights_only=True)
    path = tmp_path / "params.pt"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(content, path)
    finally:
        torch.serialization.set_crc32_options(True)
    (finding,) = validate_file(path)
    assert "without check sums" in str(finding)
    assert is_valid([finding])


def test_numbers_that_are_none_are_found(parameters, tmp_path):
    content = torch.load(parameters / "params.pt", weights_only=True)
    name = "evoformer.linear.weight"
    content[name][0, 0] = float("nan")
    path = tmp_path / "params.pt"
    torch.save(content, path)
    (finding,) = validate_file(path)
    assert f"the array {name} holds NaN" in str(finding)


def test_checkpoints_of_old_programs_are_known(parameters, tmp_path):
    content = torch.load(parameters / "params.pt", weights_only=True)
    path = tmp_path / "params.pt"
    torch.save(content, path, _use_new_zipfile_serialization=False)
    assert inspect_file(path).kind == "parameters"
    assert validate_file(path) == []
