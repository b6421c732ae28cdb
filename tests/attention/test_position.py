"""Encodings of positions against the papers' formulas, one number at a time."""

import math

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.multi_head import MultiHeadAttention, TransformerLayer
from bioattn.attention.position import AddedPositions, rotated
from bioattn.choices import PositionEncoding
from tests.result_files import Heard, plain_site

LENGTH, CHANNELS = 6, 8


def test_sinusoidal_and_learned_encodings_are_added():
    inputs = torch.randn(2, LENGTH, CHANNELS, generator=torch.manual_seed(0))
    added = AddedPositions(PositionEncoding.SINUSOIDAL, CHANNELS, LENGTH)(inputs) - inputs
    for position in range(LENGTH):
        for channel in range(CHANNELS):
            angle = position / 10_000 ** (channel // 2 * 2 / CHANNELS)
            expected = math.cos(angle) if channel % 2 else math.sin(angle)
            torch.testing.assert_close(added[:, position, channel], torch.full((2,), expected))
    learned = AddedPositions(PositionEncoding.LEARNED, CHANNELS, LENGTH)
    torch.testing.assert_close(learned(inputs), inputs + learned.table_LC)
    for encoding in PositionEncoding:
        positions = AddedPositions(encoding, CHANNELS, LENGTH)
        later = positions(inputs[:, 2:], first=2)
        torch.testing.assert_close(later, positions(inputs)[:, 2:], msg=f"{encoding}: a part of the whole")


def test_rotation_is_the_multiplication_of_complex_numbers():
    vectors = torch.randn(3, LENGTH, CHANNELS, generator=torch.manual_seed(0), dtype=torch.float64)
    found = rotated(vectors, first=4).numpy()
    for position in range(LENGTH):
        for pair in range(CHANNELS // 2):
            angle = (4 + position) * 10_000 ** (-2 * pair / CHANNELS)
            turned = (
                vectors[:, position, 2 * pair].numpy() + 1j * vectors[:, position, 2 * pair + 1].numpy()
            ) * np.exp(1j * angle)
            np.testing.assert_allclose(found[:, position, 2 * pair], turned.real, atol=1e-6)
            np.testing.assert_allclose(found[:, position, 2 * pair + 1], turned.imag, atol=1e-6)


def test_logits_of_rotated_vectors_depend_on_distance_alone():
    query, key = torch.randn(2, 1, CHANNELS, generator=torch.manual_seed(0))

    def logit(at_query, at_key):
        return float((rotated(query[None], first=at_query) * rotated(key[None], first=at_key)).sum())

    assert logit(3, 1) == pytest.approx(logit(1003, 1001), abs=1e-4)
    assert abs(logit(3, 1) - logit(1, 3)) > 1e-2, "the sign of the distance counts"


def self_attention(*, rotary, null_key=False):
    torch.manual_seed(1)
    return MultiHeadAttention(
        query_channels=CHANNELS,
        output_channels=CHANNELS,
        num_heads=2,
        head_channels=4,
        site=plain_site(2, "test.self", null_key=null_key),
        rotary=rotary,
        first_gain=3.0,
    )


@pytest.mark.parametrize("causal", [False, True])
def test_rotary_attention_is_that_of_a_loop(causal):
    attention = self_attention(rotary=True)
    inputs = torch.randn(LENGTH, CHANNELS)
    recorder = Heard()
    with torch.no_grad(), capture(["*"], recorder):
        attention(inputs, inputs, inputs, causal=causal)
        queries, keys = attention.project_query(inputs).numpy(), attention.project_key(inputs).numpy()
    for head in range(2):
        for i in range(LENGTH):
            logits = np.full(LENGTH, -np.inf)
            for j in range(i + 1 if causal else LENGTH):
                total = 0.0
                for pair in (0, 1):
                    one, two = 4 * head + 2 * pair, 4 * head + 2 * pair + 1
                    q, k = queries[i, one] + 1j * queries[i, two], keys[j, one] + 1j * keys[j, two]
                    total += (q * np.conj(k) * np.exp(1j * (i - j) * 10_000 ** (-pair / 2))).real
                logits[j] = total / 2
            expected = np.exp(logits - logits.max())
            np.testing.assert_allclose(
                recorder.weights[0][head, i], expected / expected.sum(), atol=1e-6, rtol=1e-4
            )


def test_a_causal_layer_sees_nothing_behind():
    torch.manual_seed(0)
    layer = TransformerLayer(
        channels=CHANNELS, head_channels=4, site=plain_site(2, "test.self"), position=PositionEncoding.ROTARY
    )
    inputs = torch.randn(LENGTH, CHANNELS)
    with torch.no_grad():
        torch.testing.assert_close(layer(inputs, causal=True)[:4], layer(inputs[:4], causal=True))
        assert not torch.allclose(layer(inputs)[:4], layer(inputs[:4]), atol=1e-3)
