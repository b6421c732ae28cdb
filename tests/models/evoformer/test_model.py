"""The whole model's parts, passes and sites, apart from the golden numbers."""

import numpy as np
import pytest
import torch

from bioattn.alignments.alphabet import RESIDUES
from bioattn.attention.capture import capture
from bioattn.formats.alignment import Alignment
from bioattn.models.evoformer.config import EvoformerConfig, InputSettings, StructureModuleConfig
from bioattn.models.evoformer.embedders import distance_bins
from bioattn.models.evoformer.heads import plddt, predicted_aligned_error, predicted_tm_score
from bioattn.models.evoformer.inputs import ModelInputs, prepare_inputs
from bioattn.models.evoformer.model import EvoformerModel
from tests.making import shaken, small_evoformer
from tests.result_files import Heard

SMALL = small_evoformer(
    transition_factor=2,
    num_blocks=2,
    structure_module=StructureModuleConfig(
        num_layers=2, num_heads=2, head_channels=4, num_query_points=2, num_value_points=2, angle_channels=8
    ),
    plddt_channels=6,
    aligned_error_head=True,
    distogram_bins=9,
)
TRUNK = small_evoformer(
    num_extra_msa_blocks=0,
    msa_features=30,
    pair_features=3,
    recycling=False,
    experimentally_resolved_head=False,
)


def model_of(config, seed=0):
    """A model whose every parameter counts: none at the 0 that training begins with."""
    torch.manual_seed(seed)
    return shaken(EvoformerModel(config))


def sample(config, rows=4, residues=7, extra=3, seed=0):
    random = torch.Generator().manual_seed(seed)
    aatype = torch.tensor([7, 0, 20, 5, 19, 3, 1])[:residues]

    def values(*shape):
        return torch.rand(*shape, generator=random)

    return ModelInputs(
        aatype=aatype,
        residue_index=torch.arange(residues),
        seq_mask=torch.ones(residues),
        target_feat=torch.nn.functional.one_hot(aatype + 1, 22).float(),
        msa_feat=values(rows, residues, config.msa_features),
        msa_mask=torch.ones(rows, residues),
        extra_msa=torch.randint(0, 23, (extra, residues), generator=random),
        extra_has_deletion=values(extra, residues).round(),
        extra_deletion_value=values(extra, residues),
        extra_msa_mask=torch.ones(extra, residues),
        pair_feat=values(residues, residues, config.pair_features) if config.pair_features else None,
    )


def tensors(outputs):
    """Every tensor of the outputs, by name."""
    found = {name: value for name, value in outputs._asdict().items() if isinstance(value, torch.Tensor)}
    if outputs.structure is not None:
        found |= {f"structure.{name}": value for name, value in outputs.structure._asdict().items()}
    return found


def assert_same(first, second, **tolerance):
    first, second = tensors(first), tensors(second)
    assert set(first) == set(second)
    for name in first:
        np.testing.assert_allclose(
            first[name].detach(), second[name].detach(), **tolerance, strict=True, err_msg=name
        )


def test_a_model_without_parts_is_a_config():
    model = model_of(TRUNK)
    outputs = model(sample(TRUNK))
    assert set(tensors(outputs)) == {"msa", "pair", "single", "distogram_logits", "masked_msa_logits"}
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {
        "input_embedder",
        "evoformer",
        "distogram_head",
        "masked_msa_head",
    }


def test_pair_features_count():
    model, inputs = model_of(TRUNK), sample(TRUNK)
    assert inputs.pair_feat is not None
    other = model(inputs._replace(pair_feat=inputs.pair_feat.flip(0)))
    assert not torch.allclose(other.distogram_logits, model(inputs).distogram_logits, atol=1e-3)


def test_a_model_without_recycling_makes_one_pass():
    with pytest.raises(ValueError, match="no recycling"):
        model_of(TRUNK)(sample(TRUNK), 1)


@torch.no_grad()
def test_passes_may_have_samples_of_their_own():
    model = model_of(SMALL)
    first, second = sample(SMALL, rows=4, seed=1), sample(SMALL, rows=2, extra=5, seed=2)
    assert_same(model([first, first].__getitem__, 1), model(first, 1), rtol=0, atol=0)
    mixed = model([first, second].__getitem__, 1)
    assert mixed.msa.shape[0] == 2
    for other in (model([second, second].__getitem__, 1), model(second)):
        assert not torch.allclose(mixed.structure.atom37, other.structure.atom37, atol=1e-2)


def test_autograd_changes_no_number():
    """Without it the representations are updated in place, tile by tile; with `recompute` blocks run twice."""
    model, inputs = model_of(SMALL), sample(SMALL)
    with torch.no_grad():
        plain = model(inputs, 2)
    assert_same(model(inputs, 2), plain, rtol=1e-4, atol=1e-4)
    assert_same(model(inputs, 2, recompute=True), plain, rtol=1e-4, atol=1e-4)


def test_inputs_are_left_as_they_were():
    model, inputs = model_of(SMALL), sample(SMALL)
    copies = [tensor.clone() for tensor in inputs if tensor is not None]
    with torch.no_grad():
        model(inputs, 1)
    for tensor, copy in zip((tensor for tensor in inputs if tensor is not None), copies, strict=True):
        assert torch.equal(tensor, copy)


def test_gradients_of_the_last_pass_reach_every_parameter():
    model, inputs = model_of(SMALL), sample(SMALL)
    outputs = model(inputs, 1, recompute=True)
    loss = sum(tensor.float().square().mean() for tensor in tensors(outputs).values() if tensor.requires_grad)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


@torch.no_grad()
def test_padding_changes_nothing():
    """Masked rows, extra rows and residues: what is padded beyond the real ones."""
    model, inputs = model_of(SMALL), sample(SMALL)
    padded = ModelInputs(
        **{
            name: torch.nn.functional.pad(
                tensor,
                {
                    "msa_feat": (0, 0, 0, 2, 0, 3),
                    "target_feat": (0, 0, 0, 2),
                    "aatype": (0, 2),
                    "seq_mask": (0, 2),
                    "residue_index": (0, 2),
                }.get(name, (0, 2, 0, 3)),
            )
            for name, tensor in inputs._asdict().items()
            if tensor is not None
        }
    )
    whole, alone = model(padded, 1), model(inputs, 1)
    for name, tensor in tensors(alone).items():
        cut = tensors(whole)[name][tuple(slice(length) for length in tensor.shape)]
        np.testing.assert_allclose(cut, tensor, rtol=1e-3, atol=1e-3, err_msg=name)


@torch.no_grad()
def test_autocast_rounds_the_stacks_only():
    model, inputs = model_of(SMALL), sample(SMALL)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(inputs, 1)
    names = [name for name in tensors(outputs) if name.startswith("structure") or name.endswith("logits")]
    assert all(tensors(outputs)[name].dtype == torch.float32 for name in names)
    again = model.structure_module(outputs.single, outputs.pair, inputs.aatype, inputs.seq_mask)
    assert torch.equal(outputs.structure.atom37, again.atom37)
    assert torch.equal(outputs.distogram_logits, model.distogram_head(outputs.pair))
    expected = model(inputs, 1)
    error = (outputs.pair.float() - expected.pair).norm() / expected.pair.norm()
    assert 0 < error < 0.2


@torch.no_grad()
def test_every_attention_is_a_site():
    recorder = Heard()
    with capture(["*"], recorder):
        model_of(SMALL)(sample(SMALL))
    layers = ["msa_row", "msa_column", "triangle_starting", "triangle_ending"]
    assert list(recorder.by_site) == [
        *(f"extra_msa.00.{layer}" for layer in ("msa_row", "msa_column_global", *layers[2:])),
        *(f"evoformer.{block:02d}.{layer}" for block in range(2) for layer in layers),
        *(f"structure.invariant_point.{layer}" for layer in range(2)),
    ]


@pytest.mark.parametrize(("rows", "residues", "extra"), [(1, 1, 1), (1, 7, 1), (4, 1, 1)])
@pytest.mark.parametrize("mask", [0.0, 1.0])
@torch.no_grad()
def test_the_smallest_and_the_wholly_masked_give_numbers(rows, residues, extra, mask):
    inputs = sample(SMALL, rows, residues, extra)
    masks = {name: getattr(inputs, name) * mask for name in ("seq_mask", "msa_mask", "extra_msa_mask")}
    outputs = model_of(SMALL)(inputs._replace(**masks), 1)
    assert all(torch.isfinite(tensor).all() for tensor in tensors(outputs).values())


def test_distances_on_an_edge_and_outside_are_in_no_bin():
    """Against the definition: one-hot of lower < d² < upper, both strict, edges squared in float32."""
    edges = np.linspace(3.25, 20.75, 15, dtype=np.float32) ** 2
    on_edge = float(np.linspace(3.25, 20.75, 15)[4])
    places = torch.tensor([[0.0, 0, 0], [on_edge, 0, 0], [3, 0, 0], [0, 3.3, 0], [0, 0, 500], [0, 0, 2e4]])
    bins = distance_bins(places)
    for i, first in enumerate(places):
        for j, second in enumerate(places):
            square = float((first - second).square().sum())
            found = [k for k in range(15) if edges[k] < square < (edges[k + 1] if k < 14 else 1e8)]
            assert bins[i, j] == (found[0] if found else 15)
    assert bins[0, 1] == 15
    assert bins[0, 4] == 14
    assert bins[0, 5] == 15


def test_confidence_of_logits_that_are_sure():
    plddt_logits = torch.full((3, 50), -50.0)
    for residue, place in enumerate((0, 25, 49)):
        plddt_logits[residue, place] = 50
    assert plddt(plddt_logits).tolist() == pytest.approx([1, 51, 99])
    error_logits = torch.full((30, 30, 64), -50.0)
    error_logits[..., 7] = 50
    error_logits[3, :, 7], error_logits[3, :, 1] = -50, 50
    errors = predicted_aligned_error(error_logits)
    assert errors[3].tolist() == pytest.approx([0.75] * 30)
    assert errors[4].tolist() == pytest.approx([3.75] * 30)
    d0 = 1.24 * 15 ** (1 / 3) - 1.8
    assert float(predicted_tm_score(error_logits)) == pytest.approx(1 / (1 + (0.75 / d0) ** 2))


@torch.no_grad()
def test_order_of_rows_does_not_count():
    """Of the clustered MSA's beyond the first, and of the extra MSA's."""
    model, inputs = model_of(SMALL), sample(SMALL, rows=5, extra=4)
    order, extra_order = torch.tensor([0, 3, 1, 4, 2]), torch.tensor([2, 0, 3, 1])
    shuffled = inputs._replace(
        msa_feat=inputs.msa_feat[order],
        **{
            name: getattr(inputs, name)[extra_order]
            for name in ("extra_msa", "extra_has_deletion", "extra_deletion_value")
        },
    )
    expected, actual = model(inputs, 1), model(shuffled, 1)
    torch.testing.assert_close(actual.structure.atom37, expected.structure.atom37, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(
        actual.masked_msa_logits, expected.masked_msa_logits[order], rtol=1e-3, atol=1e-3
    )


ROWS, COLUMNS = 40, 12
CONFIG = EvoformerConfig(num_blocks=1, num_extra_msa_blocks=0, structure_module=None)


def alignment():
    """Random rows, every fifth a copy of the one before it."""
    letters = np.frombuffer((RESIDUES + "-").encode(), np.uint8)
    random = np.random.default_rng(0)
    residues = letters[random.integers(0, len(letters), (ROWS, COLUMNS))]
    residues[0] = letters[:COLUMNS]
    residues[5::5] = residues[4:-1:5]
    return Alignment(
        names=[f"row{number}" for number in range(ROWS)],
        descriptions=[""] * ROWS,
        residues=residues,
        insertions=[{} for _ in range(ROWS)],
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("number", [0, 3])
def test_rows_of_a_pass_are_those_of_its_features(weighted, number):
    whole = alignment()
    settings = InputSettings(
        max_msa_clusters=9, max_extra_msa=14, masked_fraction=0.0, weighted_rows=weighted
    )
    inputs = prepare_inputs(whole, CONFIG, settings, source="test")
    sample = inputs.sample(7, number)
    clusters, extra = inputs.rows_of(7, number)
    np.testing.assert_array_equal(sample.msa_feat[..., :23].argmax(-1), inputs.encoded.msa[clusters])
    np.testing.assert_array_equal(sample.extra_msa, inputs.encoded.msa[extra])
    assert clusters[0] == 0
    assert len(set(clusters) | set(extra)) == len(clusters) + len(extra) == 23
    # Copies are left out: a row counts under the name it had first.
    assert inputs.encoded.records is not None
    assert inputs.encoded.records.tolist() == [row for row in range(ROWS) if row == 0 or row % 5]
    other, _ = inputs.rows_of(7, number + 1)
    assert other.tolist() != clusters.tolist()
