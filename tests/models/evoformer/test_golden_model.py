"""Embedders, structure module, heads and the whole model against the golden vectors; A3M to coordinates."""

import numpy as np
import pytest
import torch

from bioattn.alignments.input_features import assemble_features, encode_alignment
from bioattn.attention.capture import capture
from bioattn.formats.alignment_file import read_alignment
from bioattn.models.evoformer.embedders import Recycled
from bioattn.models.evoformer.heads import plddt, predicted_aligned_error, predicted_tm_score
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.structure_module import BackboneFrames
from tests.models.evoformer.golden import CASES, Golden, assert_close, model_inputs, read_arrays

pytestmark = pytest.mark.shared


@pytest.fixture(params=CASES, scope="module")
def golden(request, shared):
    return Golden(shared / "golden", request.param)


@pytest.fixture(params=[True, False], ids=["no_grad", "grad"], autouse=True)
def _autograd(request):
    """With autograd and without it other code runs."""
    with torch.set_grad_enabled(not request.param):
        yield


def test_embedders(golden):
    arrays = golden.arrays("embedders")
    tensors = {name.removeprefix("in/"): torch.from_numpy(array) for name, array in arrays.items()}
    residues = tensors["target_feat"].shape[0]
    inputs = ModelInputs(
        aatype=torch.zeros(residues, dtype=torch.int64),
        residue_index=tensors["residue_index"].long(),
        seq_mask=torch.ones(residues),
        target_feat=tensors["target_feat"],
        msa_feat=tensors["msa_feat"],
        msa_mask=torch.ones(tensors["msa_feat"].shape[:2]),
    )
    msa, pair = golden.model.input_embedder(inputs)
    assert_close(msa, arrays["out/input_m"], 1)
    assert_close(pair, arrays["out/input_z"], 1)

    recycled = Recycled(tensors["prev_msa_first_row"], tensors["prev_pair"], tensors["prev_pseudo_beta"])
    largest = float(max(recycled.msa_first_row.abs().max(), recycled.pair.abs().max()))
    zeros = torch.zeros(2, *recycled.msa_first_row.shape), torch.zeros_like(recycled.pair)
    msa, pair = golden.model.recycling_embedder(*zeros, recycled)
    assert_close(msa[0], arrays["out/recycle_m"], largest)
    assert not msa[1].any()
    assert_close(pair, arrays["out/recycle_z"], largest)

    # Their features are any numbers; ours can only be what an extra MSA has: a class and two deletion features.
    embedder = golden.model.extra_msa_embedder
    features = tensors["extra_msa_feat"]
    assert_close(embedder.project_extra_msa(features), arrays["out/extra_m"], float(features.abs().max()))
    classes = features[..., :23].argmax(-1)
    one_hot = torch.nn.functional.one_hot(classes, 23)
    torch.testing.assert_close(
        embedder(classes, features[..., 23], features[..., 24]),
        embedder.project_extra_msa(torch.cat([one_hot, features[..., 23:]], dim=-1)),
    )


def test_structure_module(golden):
    arrays = golden.arrays("structure_module")
    aatype = torch.from_numpy(arrays["in/aatype"]).long()
    single, pair, mask = (torch.from_numpy(arrays[f"in/{name}"]) for name in ("single", "pair", "seq_mask"))
    largest = float(max(single.abs().max(), pair.abs().max()))
    structure = golden.model.structure_module(single, pair, aatype, mask)
    for name in (
        "frames",
        "sidechain_frames",
        "unnormalized_angles",
        "angles",
        "positions",
        "states",
        "single",
    ):
        assert_close(getattr(structure, name), arrays[f"out/{name}"], largest)
    logits = golden.model.plddt_head(structure.single)
    assert_close(logits, arrays["out/lddt_logits"], largest)
    assert_close(plddt(logits), arrays["out/plddt"], largest)
    assert_close(golden.model.aligned_error_head(pair), arrays["out/tm_logits"], largest)
    assert_close(
        golden.model.experimentally_resolved_head(single),
        arrays["out/experimentally_resolved_logits"],
        largest,
    )


class Recorder:
    """A receiver that keeps the weights of each site."""

    def __init__(self):
        self.weights = {}

    def receive(self, site, weights, value_weighted, tile=None):
        assert site.dims == ("head", "query", "key")
        self.weights[site.name] = weights


def test_invariant_point_attention(golden):
    arrays = golden.arrays("structure_module")
    single, pair, frames = (torch.from_numpy(arrays[f"in/ipa_{name}"]) for name in ("s", "z", "frames7"))
    module = golden.model.structure_module
    recorder = Recorder()
    with capture(["structure.*"], recorder):
        update = module.invariant_point_attention(
            single,
            pair,
            BackboneFrames(frames[:, :4], frames[:, 4:]).rigid(),
            torch.from_numpy(arrays["in/seq_mask"]),
            module.sites[1],
        )
    assert_close(update, arrays["out/ipa"], float(max(single.abs().max(), pair.abs().max())))
    (weights,) = recorder.weights.values()
    assert list(recorder.weights) == ["structure.invariant_point.1"]
    present = arrays["in/seq_mask"] > 0
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert (weights[:, present][:, :, ~present] == 0).all()


@pytest.mark.parametrize("iterations", [1, 3])
def test_model(golden, iterations):
    arrays = golden.arrays("model")
    inputs = model_inputs(arrays)
    outputs = golden.model(inputs, num_recycles=iterations - 1)
    expect_outputs(outputs, arrays, f"out/iters{iterations}/", largest_input(arrays, "in/"))


@pytest.mark.parametrize("prefix", ["", "noextra/"])
@pytest.mark.parametrize("iterations", [1, 3])
def test_from_a3m_to_coordinates(shared, prefix, iterations):
    """Our reader, our features, our model: the coordinates that OpenFold and AlphaFold give."""
    folder = shared / "golden"
    arrays = read_arrays(folder / "tiny_from_a3m.npz")
    alignment = read_alignment(folder / "features_small.a3m")
    clusters, extra = (24, 4) if prefix else (6, 5)
    encoded = encode_alignment(alignment)
    centres = encoded.msa[:clusters]
    features = assemble_features(encoded, centres, np.zeros(centres.shape, np.bool_), extra)
    outputs = Golden(folder, "tiny").model(ModelInputs.from_features(features), num_recycles=iterations - 1)
    expected = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    # Padded rows of theirs, masked throughout, are not in ours.
    rows = features.msa_feat.shape[0]
    for name in list(expected):
        if name.endswith(("/msa", "/masked_msa_logits")):
            expected[name] = expected[name][:rows]
    expect_outputs(outputs, expected, f"out/iters{iterations}/", largest_input(expected, "in/"))


def largest_input(arrays, prefix):
    return max(np.abs(array).max() for name, array in arrays.items() if name.startswith(prefix))


def expect_outputs(outputs, arrays, prefix, largest):
    """Whatever of the golden outputs there is."""
    structure = outputs.structure
    ours = {
        "msa": outputs.msa,
        "pair": outputs.pair,
        "single": outputs.single,
        "final_atom_positions": structure.atom37,
        "final_atom_mask": structure.atom37_mask,
        "final_affine_tensor": structure.frames[-1],
        "lddt_logits": outputs.plddt_logits,
        "plddt": plddt(outputs.plddt_logits),
        "distogram_logits": outputs.distogram_logits,
        "masked_msa_logits": outputs.masked_msa_logits,
        "experimentally_resolved_logits": outputs.experimentally_resolved_logits,
        "tm_logits": outputs.aligned_error_logits,
        "predicted_aligned_error": predicted_aligned_error(outputs.aligned_error_logits),
        "ptm_score": predicted_tm_score(outputs.aligned_error_logits),
        "sm_single": structure.single,
        "sm_positions_atom14": structure.positions[-1],
        "sm_angles": structure.angles[-1],
    }
    wanted = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    assert len(wanted) >= 11
    assert set(wanted) <= set(ours)
    for name, array in wanted.items():
        try:
            assert_close(ours[name], array, largest)
        except AssertionError as error:
            raise AssertionError(f"{prefix}{name}: {error}") from error
