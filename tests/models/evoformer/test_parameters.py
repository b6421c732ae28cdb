"""Parameters of AlphaFold and OpenFold against each other, against the shapes of the real files, and damaged."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.models.evoformer.config import (
    EvoformerConfig,
    InputSettings,
    StructureModuleConfig,
    TemplateConfig,
)
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_export import export_parameters
from bioattn.models.evoformer.parameter_files import load_parameters, published_inputs
from bioattn.models.evoformer.parameter_table import model_rows
from bioattn.models.evoformer.run import load_evoformer_model, write_evoformer_model
from bioattn.models.model_folder import without_values
from bioattn.store.inspection import inspect_file, is_valid, validate_file
from bioattn_cli.main import main
from tests.making import small_evoformer
from tests.models.evoformer.golden import CASES, Golden, read_arrays

PREFIX = "alphafold/alphafold_iteration/"
QUERY = PREFIX + "evoformer/evoformer_iteration/msa_column_attention/attention//query_w"
CPU = torch.device("cpu")
SMALL = small_evoformer(
    transition_factor=2,
    num_blocks=2,
    structure_module=StructureModuleConfig(
        num_heads=2, head_channels=3, num_query_points=2, num_value_points=3, angle_channels=4
    ),
    plddt_channels=9,
    aligned_error_head=True,
)


@pytest.fixture(scope="module")
def small_made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    torch.manual_seed(1)
    model = EvoformerModel(SMALL)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    (folder / "model").mkdir()
    write_evoformer_model(folder / "model", model, InputSettings())
    export_parameters(folder / "model", folder / "params.npz")
    export_parameters(folder / "model", folder / "params.pt")
    return folder


@pytest.fixture
def small(small_made_once, tmp_path):
    """A folder with a small model in it, its parameters as AlphaFold's and as OpenFold's file."""
    shutil.copytree(small_made_once, tmp_path, dirs_exist_ok=True)
    return tmp_path


def assert_same_weights(first, second):
    theirs = second.state_dict()
    assert set(theirs) == set(first.state_dict())
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_golden_parameters_of_both_kinds_are_the_same_model(case, shared, tmp_path):
    golden = shared / "golden"
    independent = Golden(golden, case).model  # golden outputs are those of this one
    layers = independent.config.structure_module.num_layers
    theirs = read_arrays(golden / f"{case}_params_openfold.npz")
    torch.save({name: torch.from_numpy(array) for name, array in theirs.items()}, tmp_path / "x.pt")
    named = [golden / f"{case}_params_{kind}.npz" for kind in ("af2", "openfold")]
    for path in (*named, tmp_path / "x.pt"):
        model = load_parameters(path, layers)[0]
        assert model.config == independent.config
        assert_same_weights(model, independent)


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_golden_parameters_come_back_bit_for_bit(case, shared, tmp_path):
    for name, suffix, other in (("af2", ".npz", ".pt"), ("openfold", ".pt", ".npz")):
        source = shared / "golden" / f"{case}_params_{name}.npz"
        export_parameters(source, tmp_path / "folder", force=True)
        export_parameters(tmp_path / "folder", tmp_path / f"one{other}")
        export_parameters(tmp_path / f"one{other}", tmp_path / f"two{suffix}")
        original = read_arrays(source)
        if suffix == ".npz":
            returned = read_arrays(tmp_path / "two.npz")
        else:
            loaded = torch.load(tmp_path / "two.pt", weights_only=True)
            returned = {key: tensor.numpy() for key, tensor in loaded.items()}
        assert set(returned) == set(original)
        for key, array in original.items():
            assert returned[key].dtype == array.dtype
            np.testing.assert_array_equal(returned[key], array, err_msg=key)


@pytest.mark.shared
def test_every_array_of_the_real_files_has_its_place(shared):
    """Names and shapes that AlphaFold's own code gives for the published models."""
    golden = shared / "golden"
    alphafold = json.loads((golden / "af2_param_shapes_model_3_ptm.json").read_text())
    openfold = json.loads((golden / "openfold_param_shapes_model_3_ptm.json").read_text())
    with_templates = json.loads((golden / "af2_param_shapes_model_1.json").read_text())
    rows = model_rows(EvoformerConfig(aligned_error_head=True))
    assert {PREFIX + row.row.alphafold: list(row.alphafold_shape) for row in rows} == alphafold
    assert {name: list(row.shape) for row in rows for name in row.canonical_names()} == openfold
    rows = model_rows(EvoformerConfig(templates=TemplateConfig()))
    assert {PREFIX + row.row.alphafold: list(row.alphafold_shape) for row in rows} == with_templates
    # As OpenFold's TemplateEmbedder and its TemplatePairStackBlock name their modules.
    names = {name for row in rows for name in row.canonical_names() if name.startswith("template_embedder.")}
    block = ("tri_att_start", "tri_att_end", "tri_mul_out", "tri_mul_in", "pair_transition")
    for part in (
        *("template_single_embedder.linear_1", "template_single_embedder.linear_2"),
        *("template_pair_embedder.linear", "template_pair_stack.layer_norm"),
        *(f"template_pair_stack.blocks.{number}.{layer}" for number in range(2) for layer in block),
        *(f"template_pointwise_att.mha.linear_{letter}" for letter in "qkvo"),
    ):
        of_part = {name for name in names if name.startswith(f"template_embedder.{part}.")}
        assert of_part
        names -= of_part
    assert not names
    with without_values():
        count = sum(p.numel() for p in EvoformerModel(EvoformerConfig(aligned_error_head=True)).parameters())
    assert count == 92_907_930


def test_the_config_is_read_off_the_shapes(small):
    for name in ("params.npz", "params.pt"):
        assert load_parameters(small / name)[0].config == SMALL
    assert load_parameters(small / "params.npz", 3)[0].config.structure_module.num_layers == 3


def test_assumed_layers_are_said_where_they_may_be_wrong(small, caplog):
    caplog.set_level("WARNING", "bioattn")
    load_parameters(small / "params.npz", 8)
    assert not caplog.text
    load_parameters(small / "params.npz")
    assert "8 are assumed, as in AlphaFold 2" in caplog.text


def test_a_folder_comes_back(small):
    loaded = load_evoformer_model(small / "model", CPU)
    assert loaded.config == SMALL
    assert_same_weights(loaded.model, load_parameters(small / "params.npz")[0])
    # Not only parameters: tables that are no weights are there too.
    with torch.no_grad():
        fresh = EvoformerModel(SMALL)
    ours = dict(loaded.model.named_buffers())
    for name, buffer in fresh.named_buffers():
        assert torch.equal(ours[name], buffer), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({QUERY: None}, f"the array {QUERY} is missing"),
        ({PREFIX + "evoformer/new//weights": np.zeros(3, "f4")}, "evoformer/new//weights is unknown"),
        (
            {QUERY: np.zeros((2, 8, 2, 5), "f4")},
            rf"{QUERY} has shape \(2, 8, 2, 5\), .*\(2, 8, 2, 4\) is needed",
        ),
        ({QUERY: np.zeros((2, 8, 2, 4), "i4")}, f"{QUERY} has type int32"),
        ({QUERY: np.full((2, 8, 2, 4), np.nan, "f4")}, f"{QUERY} holds NaN"),
        ({QUERY: np.array([{}], dtype=object)}, rf"{QUERY} is damaged \(it holds pickled"),
        (
            {PREFIX + "evoformer/~_relative_encoding/position_activations//weights": np.zeros(3, "f4")},
            "AlphaFold-Multimer.*not supported",
        ),
    ],
)
def test_what_is_wrong_with_alphafolds_file_is_named(changes, message, small):
    arrays = read_arrays(small / "params.npz")
    for name, array in changes.items():
        if array is None:
            del arrays[name]
        else:
            arrays[name] = array
    np.savez(small / "bad.npz", **arrays)
    with pytest.raises(FormatError, match=message):
        load_parameters(small / "bad.npz")


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("evoformer.blocks.1.msa_att_row.mha.linear_q.weight", None, "is missing"),
        ("evoformer.blocks.1.msa_att_row.mha.linear_q.weight", (8, 9), r"has shape \(8, 9\)"),
        ("evoformer.blocks.1.surprise", (3,), "is unknown"),
        ("evoformer.blocks.0.pair_stack.tri_mul_out.linear_ab_p.weight", (3,), "AlphaFold-Multimer"),
    ],
)
def test_what_is_wrong_with_openfolds_file_is_named(name, shape, message, small):
    tensors = torch.load(small / "params.pt", weights_only=True)
    if shape is None:
        del tensors[name]
    else:
        tensors[name] = torch.zeros(shape)
    torch.save(tensors, small / "bad.pt")
    with pytest.raises(FormatError, match=rf"{name}.*{message}|{message}.*{name}"):
        load_parameters(small / "bad.pt")


@pytest.mark.shared
@pytest.mark.parametrize("case", CASES)
def test_template_parameters_come_back_bit_for_bit(case, shared, tmp_path):
    source = shared / f"golden/templates/{case}_params_af2_templates.npz"
    original = read_arrays(source)
    export_parameters(source, tmp_path / "folder")
    last = "folder"
    if case == "wide":
        export_parameters(tmp_path / "folder", tmp_path / "new.pt")
        # Older checkpoints have the modules of the template embedder at the top.
        older = {
            name.removeprefix("template_embedder.").replace("template_single_", "template_angle_"): tensor
            for name, tensor in torch.load(tmp_path / "new.pt", weights_only=True).items()
        }
        torch.save(older, tmp_path / (last := "old.pt"))
    else:  # two heads attend to templates, which OpenFold's shapes do not tell
        with pytest.raises(BioattnError, match="2 heads attend to templates"):
            export_parameters(source, tmp_path / "x.pt")
    export_parameters(tmp_path / last, tmp_path / "again.npz")
    returned = read_arrays(tmp_path / "again.npz")
    assert set(returned) == set(original)
    for key, array in original.items():
        np.testing.assert_array_equal(returned[key], array, err_msg=key)
    del original[PREFIX + "evoformer/template_projection//bias"]
    np.savez(tmp_path / "bad.npz", **original)
    with pytest.raises(FormatError, match="template_projection//bias is missing"):
        load_parameters(tmp_path / "bad.npz")


def test_older_and_wrapped_checkpoints_are_understood(small):
    tensors = torch.load(small / "params.pt", weights_only=True)
    expected = load_parameters(small / "params.pt")[0]
    older = {}
    for name, tensor in tensors.items():
        for part in ("msa_transition", "outer_product_mean", "pair_stack"):
            name = name.replace(f".{part}.", ".core." + ("" if part == "pair_stack" else f"{part}."))
        older[name.replace("points.linear.", "points.")] = tensor
    assert set(older) != set(tensors)
    wrapped = {
        "ema": {"params": {f"module.model.{name}": t for name, t in older.items()}, "decay": 0.999},
        "module": {name: torch.zeros_like(tensor) for name, tensor in tensors.items()},
        "global_step": 5,
    }
    torch.save(wrapped, small / "old.pt")
    torch.save({"state_dict": tensors}, small / "legacy.pt", _use_new_zipfile_serialization=False)
    assert_same_weights(load_parameters(small / "old.pt")[0], expected)
    assert_same_weights(load_parameters(small / "legacy.pt")[0], expected)
    assert inspect_file(small / "legacy.pt").kind == "parameters"
    assert validate_file(small / "legacy.pt") == []


def test_what_is_no_parameter_file_is_refused(small):
    (small / "text").write_text("hello")
    with pytest.raises(FormatError, match="no parameter file"):
        load_parameters(small / "text")
    with pytest.raises(BioattnError, match="no such file"):
        load_parameters(small / "absent.npz")
    with pytest.raises(SettingsError, match=r"\.npz"):
        export_parameters(small / "params.npz", small / "x.safetensors")
    with pytest.raises(BioattnError, match="model folder already"):
        export_parameters(small / "model", small / "other")
    with pytest.raises(BioattnError, match="exists already"):
        export_parameters(small / "params.npz", small / "model")


@pytest.mark.parametrize(
    "setting", [{"uniform_msa_attention": True}, {"pair_features": 3}, {"tied_row_heads": 2}]
)
def test_models_that_the_published_forms_cannot_say_are_not_exported(setting, tmp_path):
    config = small_evoformer(num_extra_msa_blocks=0, **setting)
    (tmp_path / "m").mkdir()
    write_evoformer_model(tmp_path / "m", EvoformerModel(config), InputSettings())
    with pytest.raises(BioattnError, match=next(iter(setting))):
        export_parameters(tmp_path / "m", tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


def test_a_trunk_alone_goes_to_both_forms_and_back(tmp_path):
    config = small_evoformer(num_extra_msa_blocks=0, recycling=False, experimentally_resolved_head=False)
    model = EvoformerModel(config)
    (tmp_path / "m").mkdir()
    write_evoformer_model(tmp_path / "m", model, InputSettings())
    for name in ("x.npz", "x.pt"):
        export_parameters(tmp_path / "m", tmp_path / name)
        loaded = load_parameters(tmp_path / name)[0]
        assert_same_weights(loaded, model)
        for field in (
            "num_extra_msa_blocks",
            "structure_module",
            "recycling",
            "experimentally_resolved_head",
        ):
            assert getattr(loaded.config, field) == getattr(config, field)
    with pytest.raises(BioattnError, match="no structure module"):
        load_parameters(tmp_path / "x.npz", 8)


def test_inspect_and_validate_know_folder_and_parameter_files(small):
    kinds = {"model": "evoformer-model", "params.npz": "parameters", "params.pt": "parameters"}
    for name, kind in kinds.items():
        figures = inspect_file(small / name)
        assert (figures.kind, figures.figures["blocks"]) == (kind, 2)
        assert figures.figures["parameters"] == sum(
            p.numel() for p in load_evoformer_model(small / "model", CPU).model.parameters()
        )
        assert figures.figures["tied_row_heads"] == 0
        assert validate_file(small / name) == []
    content = json.loads((small / "model/config.json").read_text())
    content["architecture"]["structure_module"]["num_heads"] = "many"
    (small / "model/config.json").write_text(json.dumps(content))
    (finding,) = validate_file(small / "model")
    assert "structure_module: num_heads is 'many'" in str(finding)


def test_through_the_front_door(small, capsys):
    out = small / "door.npz"
    assert main(["export", "parameters", str(small / "model"), "-o", str(out)]) == 0
    assert out.read_bytes() == (small / "params.npz").read_bytes()
    record = json.loads((small / "bioattn-records/door.npz.json").read_text())
    assert record["parameters"] == sum(
        p.numel() for p in load_evoformer_model(small / "model", CPU).model.parameters()
    )
    assert main(["export", "parameters", str(out), "-o", str(small / "x.bin")]) == 2
    assert main(["export", "parameters", str(small / "absent"), "-o", str(small / "x.pt")]) == 1
    assert main(["export", "parameters", str(out), "-o", str(small / "model"), "--force"]) == 0
    assert main(["export", "parameters", str(out), "-o", str(small / "model")]) == 1
    assert "exists already" in capsys.readouterr().err
    assert not list(small.glob("*.partial"))
    assert not list(small.glob(".tmp*"))


@pytest.mark.parametrize(
    ("name", "templates", "clusters", "extra"),
    [
        ("params_model_1.npz", True, 508, 5120),
        ("params_model_2_ptm.npz", True, 508, 1024),
        ("params_model_3_ptm.npz", False, 512, 5120),
        ("params_model_5.npz", False, 512, 1024),
        ("finetuning_ptm_2.pt", False, 512, 5120),
    ],
)
def test_published_models_take_their_own_numbers_of_rows(name, templates, clusters, extra):
    inputs = published_inputs(Path(name), has_templates=templates)
    assert (inputs.max_msa_clusters, inputs.max_extra_msa) == (clusters, extra)
    assert (inputs.num_recycles, inputs.masked_fraction) == (3, 0.15)


@pytest.mark.parametrize("name", ["params.npz", "params.pt"])
def test_a_flipped_bit_is_found(name, small, capsys):
    whole = (small / name).read_bytes()
    assert validate_file(small / name) == []
    path = small / f"bad-{name}"
    with zipfile.ZipFile(small / name) as archive:
        member = [member for member in archive.infolist() if member.file_size > 64][-1]
    name_length, extra_length = np.frombuffer(whole, "<u2", 2, member.header_offset + 26)
    end = member.header_offset + 30 + int(name_length) + int(extra_length) + member.file_size
    path.write_bytes(whole[: end - 3] + bytes([whole[end - 3] ^ 1]) + whole[end - 2 :])
    findings = validate_file(path)
    assert not is_valid(findings)
    assert member.filename.removesuffix(".npy") in str(findings[0])
    assert main(["validate", str(path)]) == 1
    assert capsys.readouterr().out.endswith(f"{path}: invalid\n")
