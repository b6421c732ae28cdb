"""Frames against SciPy, invariant point attention against plain loops, and what must not change anything."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from bioattn.attention.capture import capture
from bioattn.models.evoformer.config import StructureModuleConfig
from bioattn.models.evoformer.structure_module import (
    BackboneFrames,
    InvariantPointAttention,
    Rigid,
    StructureModule,
    rotation_from_quaternion,
)
from tests.result_files import Heard

CONFIG = StructureModuleConfig(
    num_layers=3, num_heads=2, head_channels=3, num_query_points=2, num_value_points=3, angle_channels=6
)
SINGLE, PAIR = 7, 5


def filled(module, seed=0):
    """No parameter at 0: layers that end an update would hide the rest."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 0.5
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return module


def quaternions(count, seed=1):
    """(count, 4), w first."""
    xyzw = Rotation.random(count, random_state=seed).as_quat()
    return np.roll(xyzw, 1, axis=1)


def frames(count, seed=1):
    random = np.random.default_rng(seed)
    return BackboneFrames(
        torch.tensor(quaternions(count, seed)), torch.tensor(random.normal(size=(count, 3)))
    ).rigid()


def inputs(residues, seed=2):
    random = torch.Generator().manual_seed(seed)
    single = torch.randn(residues, SINGLE, generator=random, dtype=torch.float64)
    return single, torch.randn(residues, residues, PAIR, generator=random, dtype=torch.float64)


def test_rotations_are_those_of_scipy():
    wxyz = quaternions(9)
    expected = Rotation.from_quat(np.roll(wxyz, -1, axis=1)).as_matrix()
    np.testing.assert_allclose(rotation_from_quaternion(torch.tensor(wxyz)), expected, atol=1e-14)


def test_an_update_turns_and_moves_within_the_frame():
    random = np.random.default_rng(3)
    update = random.normal(size=(9, 6))
    before = BackboneFrames(torch.tensor(quaternions(9)), torch.tensor(random.normal(size=(9, 3))))
    after = before.updated(torch.tensor(update)).rigid()
    turn = Rotation.from_quat(np.concatenate([update[:, :3], np.ones((9, 1))], axis=1))
    old = Rotation.from_matrix(before.rigid().rotation.numpy())
    np.testing.assert_allclose(after.rotation, (old * turn).as_matrix(), atol=1e-12)
    np.testing.assert_allclose(
        after.translation, old.apply(update[:, 3:]) + before.translation.numpy(), atol=1e-12
    )


def test_composition_inverse_and_matrices():
    first, second = frames(4, 5), frames(4, 6)
    points = torch.tensor(np.random.default_rng(0).normal(size=(4, 3)))
    torch.testing.assert_close(first.compose(second).apply(points), first.apply(second.apply(points)))
    torch.testing.assert_close(first.inverse_apply(first.apply(points)), points)
    torch.testing.assert_close(first.compose(second).to_matrix(), first.to_matrix() @ second.to_matrix())
    again = Rigid.from_matrix(first.to_matrix())
    torch.testing.assert_close(again.rotation, first.rotation)
    torch.testing.assert_close(again.translation, first.translation)


def plain_attention(module, single, pair, frames, mask):
    """Algorithm 22 in loops; returns the update and the weights."""
    heads, channels = CONFIG.num_heads, CONFIG.head_channels
    query_points, value_points = CONFIG.num_query_points, CONFIG.num_value_points
    state = {name: value.double().numpy() for name, value in module.state_dict().items()}

    def project(name, values):
        return values @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def place(values, head, point, per_head, frame):
        """The point's global coordinates: all x stand before all y before all z."""
        count = heads * per_head
        local = np.array([values[axis * count + head * per_head + point] for axis in range(3)])
        return rotations[frame] @ local + translations[frame]

    rotations, translations = frames.rotation.numpy(), frames.translation.numpy()
    residues = len(single)
    query, key_value = project("project_query", single), project("project_key_value", single)
    asking, offered = project("project_query_points", single), project("project_key_value_points", single)
    bias = project("project_pair_bias", pair)
    weights = np.zeros((heads, residues, residues))
    rows = np.zeros((residues, heads * (channels + 4 * value_points + PAIR)))
    for h in range(heads):
        start, stop = 2 * channels * h, 2 * channels * (h + 1)
        key, value = key_value[:, start : start + channels], key_value[:, start + channels : stop]
        gamma = np.log1p(np.exp(state["point_weight_H"][h]))
        for i in range(residues):
            logits = np.zeros(residues)
            for j in range(residues):
                squares = sum(
                    (
                        (
                            place(asking[i], h, p, query_points, i)
                            - place(offered[j], h, p, query_points + value_points, j)
                        )
                        ** 2
                    ).sum()
                    for p in range(query_points)
                )
                content = query[i, channels * h : channels * (h + 1)] @ key[j] / np.sqrt(channels)
                spatial = gamma * np.sqrt(2 / (9 * query_points)) / 2 * squares
                logits[j] = np.sqrt(1 / 3) * (content + bias[i, j, h] - spatial)
                logits[j] -= 1e5 * (1 - mask[i] * mask[j])
            weights[h, i] = np.exp(logits - logits.max())
            weights[h, i] /= weights[h, i].sum()
            rows[i, channels * h : channels * (h + 1)] = weights[h, i] @ value
            at = heads * channels
            for p in range(value_points):
                seen = sum(
                    weights[h, i, j] * place(offered[j], h, query_points + p, query_points + value_points, j)
                    for j in range(residues)
                )
                local = rotations[i].T @ (seen - translations[i])
                for axis in range(3):
                    rows[i, at + axis * heads * value_points + h * value_points + p] = local[axis]
                rows[i, at + 3 * heads * value_points + h * value_points + p] = np.sqrt(local @ local + 1e-8)
            at += 4 * heads * value_points + h * PAIR
            rows[i, at : at + PAIR] = weights[h, i] @ pair[i]
    return project("project_output", rows), weights


@pytest.fixture
def attention():
    return filled(InvariantPointAttention(CONFIG, SINGLE, PAIR)).double()


@pytest.mark.parametrize("mask", [[1], [0], [1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 0, 0]])
def test_attention_equals_plain_loops(attention, mask):
    residues = len(mask)
    single, pair = inputs(residues)
    where = frames(residues)
    site = StructureModule(CONFIG, SINGLE, PAIR).sites[2]
    recorder = Heard()
    with capture(["structure.invariant_point.2"], recorder), torch.no_grad():
        update = attention(single, pair, where, torch.tensor(mask, dtype=torch.float64), site)
    expected, weights = plain_attention(attention, single.numpy(), pair.numpy(), where, mask)
    np.testing.assert_allclose(update, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(recorder.by_site[site.name][0], weights, atol=1e-6)


def test_moving_the_whole_protein_changes_nothing(attention):
    single, pair = inputs(6)
    mask = torch.ones(6, dtype=torch.float64)
    where = frames(6)
    motion = Rigid(frames(1, 8).rotation, torch.tensor([[3.0, -50.0, 7.0]], dtype=torch.float64))
    torch.testing.assert_close(
        attention(single, pair, motion.compose(where), mask), attention(single, pair, where, mask)
    )


def test_low_precision_input_is_computed_in_float32():
    module = filled(StructureModule(CONFIG, SINGLE, PAIR))
    single, pair = (tensor.bfloat16() for tensor in inputs(5))
    aatype, mask = torch.arange(5), torch.ones(5)
    expected = module(single.float(), pair.float(), aatype, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = module(single, pair, aatype, mask.bfloat16())
    for actual, wanted in zip(outputs, expected, strict=True):
        assert actual.dtype == torch.float32
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0)


def test_padding_moves_no_atom():
    module = filled(StructureModule(CONFIG, SINGLE, PAIR))
    single, pair = (tensor.float() for tensor in inputs(9))
    aatype, mask = torch.arange(9), torch.tensor([1.0] * 6 + [0.0] * 3)
    whole = module(single, pair, aatype, mask).atom37[:6]
    alone = module(single[:6], pair[:6, :6], aatype[:6], mask[:6]).atom37
    torch.testing.assert_close(whole, alone, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("residues", [1, 2])
@pytest.mark.parametrize("present", [0.0, 1.0])
def test_short_and_masked_chains_give_numbers(residues, present):
    module = filled(StructureModule(CONFIG, SINGLE, PAIR))
    single, pair = inputs(residues)
    outputs = module(single, pair, torch.zeros(residues, dtype=torch.int64), torch.full((residues,), present))
    assert all(torch.isfinite(tensor).all() for tensor in outputs)
