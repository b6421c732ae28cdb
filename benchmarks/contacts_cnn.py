"""The rival of the MSA/pair stack: a small two-dimensional dilated residual network on maps computed beforehand.

Two inputs: what single columns say (`profile_maps`), or mean-field DCA and mutual information (`coupling_maps`).
"""

import math

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import nn

from bioattn.alignments.couplings import column_states, covariance_features
from bioattn.models.evoformer.training_samples import TrainingFamily
from bioattn.structures.contacts import contacts, known_pairs
from bioattn.training.task import WeightAverage

CHANNELS, DILATIONS = 32, (1, 2, 4, 8, 1, 2, 4, 8, 1, 1)
CROP = 96
LEARNING_RATE, WEIGHT_DECAY = 2e-3, 0.01


def profile_maps(family: TrainingFamily) -> np.ndarray:
    """(C, R, R): frequencies and entropy of column i, the same of column j, and how far apart they stand."""
    states = column_states(family.protein.msa[:, family.columns])
    weights = family.weights / family.weights.sum()
    frequencies = np.stack([weights @ (states == state) for state in range(21)], axis=1)
    entropy = -(frequencies * np.log(np.maximum(frequencies, 1e-9))).sum(1, keepdims=True)
    column = np.concatenate([frequencies * 4, entropy - 1.5], axis=1).T
    width = column.shape[1]
    rows = np.broadcast_to(column[:, :, None], (*column.shape, width))
    return np.concatenate([rows, rows.transpose(0, 2, 1), separation_maps(width)]).astype(np.float32)


def coupling_maps(family: TrainingFamily) -> np.ndarray:
    """(C, R, R): mean-field DCA and mutual information, both APC-corrected, and how far apart columns stand."""
    features = covariance_features(column_states(family.protein.msa[:, family.columns]), family.weights)
    maps = features[..., :2].transpose(2, 0, 1)
    return np.concatenate([maps, separation_maps(maps.shape[1])]).astype(np.float32)


def separation_maps(width: int) -> np.ndarray:
    """(8, R, R): the distance in the chain as one of eight classes."""
    apart = np.abs(np.arange(width)[:, None] - np.arange(width)[None])
    classes = np.searchsorted([4, 6, 9, 14, 24, 48, 96], apart, side="right")
    return (classes[None] == np.arange(8)[:, None, None]).astype(np.float32)


class ContactNetwork(nn.Module):
    """Residual blocks of two 3 × 3 convolutions; the answer is made symmetric."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, CHANNELS, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.InstanceNorm2d(CHANNELS, affine=True),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=d, dilation=d),
                nn.InstanceNorm2d(CHANNELS, affine=True),
                nn.ReLU(),
                nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            )
            for d in DILATIONS
        )
        self.last = nn.Conv2d(CHANNELS, 1, 1)

    def forward(self, maps_1CRR: torch.Tensor) -> torch.Tensor:
        """Logits (R, R)."""
        hidden = self.first(maps_1CRR)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        logits = self.last(hidden)[0, 0]
        return (logits + logits.T) / 2


def train_network(
    maps: list[np.ndarray],
    families: list[TrainingFamily],
    *,
    steps: int,
    schedule: int,
    seed: int,
) -> ContactNetwork:
    """Train on crops of the families' maps; the weights returned are a running average.

    schedule: steps over which the rate would fall to its end, of which `steps` are taken.
    """
    torch.manual_seed(seed)
    network = ContactNetwork(len(maps[0]))
    average = WeightAverage(network, 0.99)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    truth = []
    for family in families:
        pairs = np.ix_(family.columns, family.columns)
        cb = family.protein.cb
        truth.append((contacts(cb)[pairs], known_pairs(cb)[pairs]))
    for step in range(steps):
        random = np.random.default_rng([seed, step])
        turn, place = divmod(step, len(maps))
        index = int(np.random.default_rng([seed, 1, turn]).permutation(len(maps))[place])
        start = int(random.integers(max(1, maps[index].shape[1] - CROP + 1)))
        window = slice(start, start + CROP)
        near, known = (torch.from_numpy(part[window, window]) for part in truth[index])
        share = min(1, (step + 1) / 30) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / schedule)))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * share
        if known.any():
            logits = network(torch.from_numpy(maps[index][None, :, window, window]))
            loss = F.binary_cross_entropy_with_logits(logits[known], near[known].float())
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
        average.update(network, step + 1)
    network.load_state_dict(average.model.state_dict())
    return network.eval()


def predict(network: ContactNetwork, maps: np.ndarray) -> np.ndarray:
    """Logits (R, R)."""
    with torch.no_grad():
        return network(torch.from_numpy(maps[None])).numpy()
