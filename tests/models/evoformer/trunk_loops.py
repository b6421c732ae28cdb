"""The trunk's layers written down from the AlphaFold 2 supplement: NumPy in float64, one position at a time.

Every function returns the update alone. `p` holds a layer's parameters by the names of our modules.
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layer_norm(x, p, name):
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p[f"{name}.weight"]
        + p[f"{name}.bias"]
    )


def linear(x, p, name):
    bias = p.get(f"{name}.bias")
    return x @ p[f"{name}.weight"].T + (0 if bias is None else bias)


def softmax(logits, mask):
    """Over one row of keys; without any key all weigh the same."""
    if not mask.any():
        return np.full(len(logits), 1 / len(logits))
    weights = np.where(mask, np.exp(logits - logits[mask].max()), 0)
    return weights / weights.sum()


def gated_attention(normed, mask, bias, p, heads):
    """One sequence (N, C), mask (N,), bias (N, N, heads) or None → its update (N, C), weights (heads, N, N)."""
    n, channels = normed.shape
    d = channels // heads
    query, key, value, gate = (
        linear(normed, p, "attention.project_qkvg")[:, i * channels :][:, :channels] for i in range(4)
    )
    gate = sigmoid(gate + p["attention.gate_bias"])
    attended, all_weights = np.zeros((n, channels)), np.zeros((heads, n, n))
    for h in range(heads):
        own = slice(h * d, (h + 1) * d)
        for i in range(n):
            logits = np.array([query[i, own] @ key[j, own] / np.sqrt(d) for j in range(n)])
            if bias is not None:
                logits = logits + bias[i, :, h]
            all_weights[h, i] = softmax(logits, mask > 0)
            attended[i, own] = all_weights[h, i] @ value[:, own]
    return linear(attended * gate, p, "attention.project_output"), all_weights


def msa_row_attention(msa, pair, mask, p, heads):
    bias = linear(layer_norm(pair, p, "normalise_pair"), p, "project_pair_bias")
    rows = [
        gated_attention(layer_norm(row, p, "normalise"), m, bias, p, heads)
        for row, m in zip(msa, mask, strict=True)
    ]
    return np.stack([update for update, _ in rows]), np.stack([weights for _, weights in rows])


def msa_column_attention(msa, mask, p, heads):
    columns = [
        gated_attention(layer_norm(msa[:, i], p, "normalise"), mask[:, i], None, p, heads)
        for i in range(msa.shape[1])
    ]
    return np.stack([update for update, _ in columns], axis=1), np.stack([weights for _, weights in columns])


def msa_column_global_attention(msa, mask, p, heads):
    num_rows, num_residues, channels = msa.shape
    d = channels // heads
    update, all_weights = np.zeros_like(msa), np.zeros((num_residues, heads, num_rows))
    for i in range(num_residues):
        normed = layer_norm(msa[:, i], p, "normalise")
        kvg = linear(normed, p, "project_kvg")
        key, value, gate = kvg[:, :d], kvg[:, d : 2 * d], sigmoid(kvg[:, 2 * d :] + p["gate_bias"])
        mean = (mask[:, i, None] * normed).sum(0) / max(mask[:, i].sum(), 1)
        query = linear(mean, p, "project_query")
        attended = np.zeros(channels)
        for h in range(heads):
            own = slice(h * d, (h + 1) * d)
            all_weights[i, h] = softmax(key @ query[own] / np.sqrt(d), mask[:, i] > 0)
            attended[own] = all_weights[i, h] @ value
        update[:, i] = linear(gate * attended, p, "project_output")
    return update, all_weights


def transition(state, p):
    return linear(np.maximum(linear(layer_norm(state, p, "normalise"), p, "expand"), 0), p, "contract")


def outer_product_mean(msa, mask, p):
    factors = linear(layer_norm(msa, p, "normalise"), p, "project_factors") * mask[..., None]
    half = factors.shape[-1] // 2
    num_residues = msa.shape[1]
    rows = [
        [
            linear(
                sum(np.outer(row[i, :half], row[j, half:]) for row in factors).ravel(), p, "project_output"
            )
            / (1e-3 + (mask[:, i] * mask[:, j]).sum())
            for j in range(num_residues)
        ]
        for i in range(num_residues)
    ]
    return np.array(rows)


def triangle_multiplication(pair, mask, p, *, outgoing):
    normed = layer_norm(pair, p, "normalise")
    hidden = p["project_output.weight"].shape[1]
    factors = linear(normed, p, "project_factors")
    left, right, left_gate, right_gate = (factors[..., i * hidden : (i + 1) * hidden] for i in range(4))
    left = mask[..., None] * sigmoid(left_gate) * left
    right = mask[..., None] * sigmoid(right_gate) * right
    n = len(pair)
    product = np.zeros((n, n, hidden))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                product[i, j] += left[i, k] * right[j, k] if outgoing else left[k, j] * right[k, i]
    update = linear(layer_norm(product, p, "normalise_product"), p, "project_output")
    return update * sigmoid(factors[..., 4 * hidden :])


def triangle_attention(pair, mask, p, heads, *, starting):
    if not starting:
        update, weights = triangle_attention(pair.swapaxes(0, 1), mask.T, p, heads, starting=True)
        return update.swapaxes(0, 1), weights
    normed = layer_norm(pair, p, "normalise")
    bias = linear(normed, p, "project_pair_bias")
    nodes = [gated_attention(edges, m, bias, p, heads) for edges, m in zip(normed, mask, strict=True)]
    return np.stack([update for update, _ in nodes]), np.stack([weights for _, weights in nodes])
