"""What reads molecules: the neural graph fingerprint, and graph attention.

Both let every atom write a vector at every radius; what a model reads is the sum of what all atoms wrote. So it is
exact to ask what a prediction would be had one atom written nothing.

Shape suffixes: B molecules, A atoms, F features of an atom, G degrees, R radii, C channels, S slots, H heads, D
channels of a head, K codes of bonds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.operator import attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import AttentionSite, Axis
from bioattn.models.molecule_settings import MoleculeEncoderConfig, MoleculeEncoding
from bioattn.molecules.graphs import ATOM_FEATURES, BOND_CODES, Molecules

ATOMS = "atoms"
"""The column of sample tables that holds the number of atoms."""


class GraphBatch(NamedTuple):
    """Some molecules, padded to the largest."""

    atoms_BAF: Tensor
    """int64."""
    bonds_BAA: Tensor
    """int64: 0 where there is no bond, else its code + 1."""
    bonds_BAK: Tensor
    """float32: how many bonds of each code an atom has."""
    known_BA: Tensor
    """bool: False in padding."""

    def to(self, device: torch.device) -> "GraphBatch":
        return GraphBatch(*(each.to(device) for each in self))


def graph_batch(molecules: Molecules, rows: Sequence[int] | NDArray[np.int64]) -> GraphBatch:
    sizes = molecules.sizes[rows]
    shape = len(sizes), int(sizes.max())
    atoms_BAF = np.zeros((*shape, len(ATOM_FEATURES)), np.int64)
    bonds_BAA = np.zeros((*shape, shape[1]), np.int64)
    bonds_BAK = np.zeros((*shape, BOND_CODES), np.float32)
    for place, row in enumerate(rows):
        atoms, bonds = molecules.graph(int(row))
        atoms_BAF[place, : len(atoms)] = atoms
        first, second, code = bonds.T.astype(np.int64)
        for here, there in ((first, second), (second, first)):
            bonds_BAA[place, here, there] = code + 1
            np.add.at(bonds_BAK[place], (here, code), 1.0)
    known_BA = np.arange(shape[1]) < sizes[:, None]
    return GraphBatch(*(torch.from_numpy(each) for each in (atoms_BAF, bonds_BAA, bonds_BAK, known_BA)))


class AtomEmbedding(nn.Module):
    """The sum of a learned vector for each feature of an atom."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.features = nn.ModuleList(nn.Embedding(size, channels) for size in ATOM_FEATURES.values())
        for each in self.features:
            nn.init.normal_(each.weight, std=len(ATOM_FEATURES) ** -0.5)  # type: ignore[arg-type]

    def forward(self, atoms_BAF: Tensor) -> Tensor:
        """(B, A, C)."""
        return torch.stack([embed(atoms_BAF[..., f]) for f, embed in enumerate(self.features)]).sum(0)


class FingerprintEncoder(nn.Module):
    """The neural graph fingerprint (Duvenaud et al. 2015, algorithm 2), with normalised layers.

    Layer: v = own + Σ neighbours + Σ bonds; state = ReLU(norm(v W_degree)). Writing: softmax(state · slots).
    """

    def __init__(self, config: MoleculeEncoderConfig) -> None:
        super().__init__()
        channels, radii = config.channels, config.radius + 1
        degrees = ATOM_FEATURES["neighbours"]
        self.embed = AtomEmbedding(channels)
        self.by_degree_RGCC = nn.Parameter(
            torch.randn(config.radius, degrees, channels, channels).mul_((2 / channels) ** 0.5)
        )
        self.bonds = nn.ModuleList(nn.Linear(BOND_CODES, channels, bias=False) for _ in range(config.radius))
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(config.radius))
        self.slots_RSC = nn.Parameter(torch.randn(radii, config.slots, channels))
        self.dropout = nn.Dropout(config.dropout)
        self.score = DotScore()
        site = AttentionSite(
            name="molecule.slots",
            axes=(
                Axis("sample"),
                Axis("radius", size=radii),
                Axis("head", size=1),
                Axis("query", "atom", lengths=ATOMS),
                Axis("key", "fingerprint_slot", size=config.slots),
            ),
            heads=(0,),
        )
        self.sites = [site]

    def forward(self, batch: GraphBatch) -> Tensor:
        """What every atom writes at every radius (B, R, A, S): rows sum to 1, those of padding to 0."""
        state_BAC = self.embed(batch.atoms_BAF)
        adjacent_BAA = (batch.bonds_BAA > 0).to(state_BAC.dtype)
        degree_N = adjacent_BAA.sum(-1).long().clamp(max=self.by_degree_RGCC.shape[1] - 1).flatten()
        atoms_of = [
            (degree_N == degree).nonzero().squeeze(-1) for degree in range(self.by_degree_RGCC.shape[1])
        ]
        order_N = torch.cat(atoms_of).argsort()
        states = [state_BAC]
        for layer, (bonds, norm) in enumerate(zip(self.bonds, self.norms, strict=True)):
            summed_BAC = state_BAC + adjacent_BAA @ state_BAC + bonds(batch.bonds_BAK)
            summed_NC = summed_BAC.flatten(0, 1)
            weights = zip(atoms_of, self.by_degree_RGCC[layer], strict=True)
            mixed_NC = torch.cat([summed_NC[own] @ weight_CC for own, weight_CC in weights])
            mixed_BAC = mixed_NC[order_N].view_as(summed_BAC)
            state_BAC = self.dropout(F.relu(norm(mixed_BAC)))
            states.append(state_BAC)
        state_BR1AC = torch.stack(states, dim=1)[:, :, None]
        weights_BR1AS = attention_weights(
            state_BR1AC, self.slots_RSC[None, :, None], score=self.score, site=self.sites[0]
        )
        return weights_BR1AS[:, :, 0] * batch.known_BA[:, None, :, None]


class GraphAttentionEncoder(nn.Module):
    """Atoms attend to themselves and their neighbours; at every radius heads attend to atoms."""

    def __init__(self, config: MoleculeEncoderConfig) -> None:
        super().__init__()
        channels, heads, radii = config.channels, config.num_heads, config.radius + 1
        self.embed = AtomEmbedding(channels)
        layers = [_GraphAttentionLayer(config, number) for number in range(config.radius)]
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(channels)
        self.query_RHD = nn.Parameter(torch.randn(radii, heads, channels // heads))
        self.project_key = nn.ModuleList(nn.Linear(channels, channels) for _ in range(radii))
        self.project_value = nn.ModuleList(nn.Linear(channels, config.slots) for _ in range(radii))
        self.score = DotScore()
        readout_site = AttentionSite(
            name="molecule.atoms",
            axes=(
                Axis("sample"),
                Axis("radius", size=radii),
                Axis("head", size=heads),
                Axis("key", "atom", lengths=ATOMS),
            ),
            heads=tuple(range(heads)),
        )
        self.sites: list[AttentionSite] = [*(layer.attention.site for layer in layers), readout_site]

    def forward(self, batch: GraphBatch) -> Tensor:
        """What every atom writes at every radius (B, R, A, S): values of its heads, each by its weight."""
        state_BAC = self.embed(batch.atoms_BAF)
        near_BAA = batch.bonds_BAA > 0
        near_BAA |= torch.eye(near_BAA.shape[-1], dtype=torch.bool, device=near_BAA.device)
        states = [state_BAC]
        for layer in self.layers:
            state_BAC = layer(state_BAC, near_BAA, batch)
            states.append(state_BAC)
        normed = [self.norm(state) for state in states]
        keys, values = (  # (B, R, H, A, D)
            torch.stack([project(state) for project, state in zip(layers, normed, strict=True)], 1)
            .unflatten(-1, (self.query_RHD.shape[1], -1))
            .transpose(2, 3)
            for layers in (self.project_key, self.project_value)
        )
        query_BRH1D = self.query_RHD[None, :, :, None].expand(len(state_BAC), -1, -1, -1, -1)
        weights_BRH1A = attention_weights(
            query_BRH1D,
            keys,
            score=self.score,
            mask=batch.known_BA[:, None, None, None],
            site=self.sites[-1],
            value=values,
        )
        writes_BRAS: Tensor = (weights_BRH1A.transpose(-1, -2) * values).transpose(2, 3).flatten(3)
        return writes_BRAS


class _GraphAttentionLayer(nn.Module):
    """Attention over neighbours and the atom itself with a bias for each kind of bond, then two linear layers."""

    def __init__(self, config: MoleculeEncoderConfig, number: int) -> None:
        super().__init__()
        channels, heads = config.channels, config.num_heads
        self.norm = nn.LayerNorm(channels)
        self.attention = MultiHeadAttention(
            query_channels=channels,
            output_channels=channels,
            num_heads=heads,
            head_channels=channels // heads,
            site=AttentionSite.of_ragged(f"molecule.bonds.{number}", heads, ATOMS, ATOMS),
        )
        self.bond_bias = nn.Embedding(BOND_CODES + 1, heads)
        self.bond_values = nn.Linear(BOND_CODES, channels, bias=False)
        self.mlp = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 2 * channels),
            nn.GELU(),
            nn.Linear(2 * channels, channels),
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, state_BAC: Tensor, near_BAA: Tensor, batch: GraphBatch) -> Tensor:
        """(B, A, C)."""
        normed_BAC = self.norm(state_BAC)
        bias_BHAA = self.bond_bias(batch.bonds_BAA).permute(0, 3, 1, 2)
        mixed_BAC = self.attention(normed_BAC, normed_BAC, normed_BAC, mask=near_BAA[:, None], bias=bias_BHAA)
        state_BAC = state_BAC + self.dropout(mixed_BAC + self.bond_values(batch.bonds_BAK))
        fed_BAC: Tensor = state_BAC + self.dropout(self.mlp(state_BAC))
        return fed_BAC


def make_encoder(config: MoleculeEncoderConfig) -> FingerprintEncoder | GraphAttentionEncoder:
    fingerprint = config.encoder is MoleculeEncoding.FINGERPRINT
    return FingerprintEncoder(config) if fingerprint else GraphAttentionEncoder(config)
