"""What enters the stacks: features, extra MSA, the pass before, templates (AlphaFold 2 supplement, Algorithms 2 to
5, 16, 17 and 32).

Each template becomes a pair representation of its own; every pair of residues attends to the templates, and the
result is added to the pairs. Its torsion angles become one more row of the MSA.

Shape suffixes: S MSA rows, E extra MSA rows, R residues, P residues of a tile, T templates (or residues of a
tile), H heads, D channels of a head, C channels, F features.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.alignments.alphabet import NUM_MSA_CLASSES
from bioattn.attention.operator import attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import Tile
from bioattn.models.evoformer.attention import TriangleAttention
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.inputs import ModelInputs, TemplateInputs
from bioattn.models.evoformer.layers import final_linear, linear, relu_linear, tiled, tiles
from bioattn.models.evoformer.pair_updates import TriangleMultiplication
from bioattn.models.evoformer.sites import template_site
from bioattn.models.evoformer.stacks import Transition
from bioattn.models.evoformer.structure_module import pseudo_beta
from bioattn.structures.ideal_geometry import BACKBONE, NUM_ANGLES, PSI

TILE_ELEMENTS = 1 << 19
"""Pair elements of a tile."""
TILE_ROWS = 16


class InputEmbedder(nn.Module):
    """Pairs sum embeddings of the two residues and of their distance in the chain; MSA cells sum embeddings of the
    row's features and of the target residue."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.max_relative_position = config.max_relative_position
        self.project_target_left = linear(config.target_features, config.pair_channels)
        self.project_target_right = linear(config.target_features, config.pair_channels)
        self.project_target_msa = linear(config.target_features, config.msa_channels)
        self.project_msa = linear(config.msa_features, config.msa_channels)
        self.project_relative_position = linear(2 * config.max_relative_position + 1, config.pair_channels)
        self.project_pair_features = (
            linear(config.pair_features, config.pair_channels) if config.pair_features else None
        )

    def forward(self, inputs: ModelInputs) -> tuple[Tensor, Tensor]:
        """MSA (S, R, C) and pair (R, R, C) representation."""
        msa_SRC = self.project_msa(inputs.msa_feat) + self.project_target_msa(inputs.target_feat)
        pair_RRC = (
            self.project_target_left(inputs.target_feat)[:, None]
            + self.project_target_right(inputs.target_feat)[None, :]
        )
        # Algorithm 4: i − j, clipped, as one-hot, projected: columns of the weight are looked up.
        limit, positions = self.max_relative_position, self.project_relative_position
        columns = positions.weight.t() + positions.bias

        def update(
            _rows: slice, _pair_TRC: Tensor, index_T: Tensor, index_R: Tensor, columns: Tensor
        ) -> Tensor:
            offset_TR = index_T[:, None] - index_R
            return F.embedding(offset_TR.clamp(-limit, limit) + limit, columns)

        index_R = inputs.residue_index
        pair_RRC = tiled(update, TILE_ELEMENTS, sliced=(pair_RRC, index_R), whole=(index_R, columns))
        if self.project_pair_features is not None and inputs.pair_feat is not None:
            pair_RRC += self.project_pair_features(inputs.pair_feat)
        return msa_SRC, pair_RRC


class ExtraMsaEmbedder(nn.Module):
    """A linear layer on 25 features: one-hot of the residue (23), whether and how much was deleted before it."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.project_extra_msa = linear(NUM_MSA_CLASSES + 2, config.extra_msa_channels)

    def forward(self, extra_msa_ER: Tensor, has_deletion_ER: Tensor, deletion_value_ER: Tensor) -> Tensor:
        """(E, R, C); extra_msa_ER: int64 0..22."""
        columns = self.project_extra_msa.weight.t()
        # Columns of the weight looked up: thousands of rows times 25 features would be larger than the result.
        embedded_ERC = F.embedding(extra_msa_ER, columns[:NUM_MSA_CLASSES] + self.project_extra_msa.bias)
        embedded_ERC.addcmul_(has_deletion_ER.unsqueeze(-1), columns[NUM_MSA_CLASSES])
        return embedded_ERC.addcmul_(deletion_value_ER.unsqueeze(-1), columns[NUM_MSA_CLASSES + 1])


NUM_DISTANCE_BINS = 15
FIRST_EDGE, LAST_EDGE = 3.25, 20.75
"""Å: lower edges of the first and of the last bin."""
LARGEST_SQUARE = 1e8
"""Å²: upper edge of the last bin."""


class Recycled(NamedTuple):
    """The end of a pass; zeros before the first.

    MSA row 0 (R, C), pairs (R, R, C), CB (CA of glycine) in Å (R, 3) or None without structure module.
    """

    msa_first_row: Tensor
    pair: Tensor
    pseudo_beta: Tensor | None


class RecyclingEmbedder(nn.Module):
    """Layer norms of MSA row 0 and of the pairs, and the distances of the predicted structure.

    Zeros go through the layer norms too, which then give their offset: the first pass is not a model without this.
    """

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.normalise_msa_row = nn.LayerNorm(config.msa_channels)
        self.normalise_pair = nn.LayerNorm(config.pair_channels)
        self.project_distances = (
            linear(NUM_DISTANCE_BINS, config.pair_channels) if config.structure_module else None
        )

    def forward(self, msa_SRC: Tensor, pair_RRC: Tensor, recycled: Recycled) -> tuple[Tensor, Tensor]:
        """The representations plus the recycled ones; the MSA gets them in its first row. Pairs change in place
        without autograd, the MSA always."""
        msa_SRC[0] += self.normalise_msa_row(recycled.msa_first_row.float())
        sliced, whole = [pair_RRC, recycled.pair], []
        if recycled.pseudo_beta is not None and self.project_distances is not None:
            # A pair in no bin (closer than the first edge) has a one-hot of zeros.
            columns = F.pad(self.project_distances.weight.t(), (0, 0, 0, 1))
            sliced.append(distance_bins(recycled.pseudo_beta))
            whole.append(columns + self.project_distances.bias)

        def update(_rows: slice, _pair: Tensor, recycled_TRC: Tensor, *distances: Tensor) -> Tensor:
            pair_TRC: Tensor = self.normalise_pair(recycled_TRC.float())
            return pair_TRC + F.embedding(distances[0], distances[1]) if distances else pair_TRC

        parameters = self.normalise_pair.parameters()
        return msa_SRC, tiled(update, TILE_ELEMENTS, sliced=sliced, whole=whole, parameters=parameters)


def distance_bins(
    positions_R3: Tensor,
    rows: slice = slice(None),
    num_bins: int = NUM_DISTANCE_BINS,
    last: float = LAST_EDGE,
) -> Tensor:
    """(P, R) int64: bins of the distances of some residues to all; `num_bins` = none, so on an edge exactly."""
    edges = torch.linspace(FIRST_EDGE, last, num_bins, device=positions_R3.device).square()
    square_RR = (positions_R3[rows, None] - positions_R3[None, :]).square().sum(-1)
    below_RR = torch.bucketize(square_RR, edges)
    on_edge_RR = below_RR != torch.bucketize(square_RR, edges, right=True)
    outside_RR = (below_RR == 0) | on_edge_RR | (square_RR >= LARGEST_SQUARE)
    return torch.where(outside_RR, num_bins, below_RR - 1)


NUM_TEMPLATE_CLASSES = 22
"""20 amino acids, unknown, gap."""
NUM_TEMPLATE_BINS, LAST_TEMPLATE_EDGE = 39, 50.75
NUM_PAIR_FEATURES = NUM_TEMPLATE_BINS + 1 + 2 * NUM_TEMPLATE_CLASSES + 3 + 1
NUM_ANGLE_FEATURES = NUM_TEMPLATE_CLASSES + NUM_ANGLES * (2 + 2 + 1)


def pair_features(template: TemplateInputs, rows: slice = slice(None)) -> Tensor:
    """Features (P, R, 88) of pairs of some residues i with all residues j of one template.

    Bin of the distance of CB atoms (39), whether both have one, residues of j and of i (22 each), three places
    that published models leave 0, whether both have N, CA and C; all 0 where that last one is.
    """
    aatype_R, atoms_RA3, there_RA = template[:3]
    beta_R = pseudo_beta(there_RA.unsqueeze(-1), aatype_R).squeeze(-1)
    backbone_R = there_RA[:, BACKBONE].prod(-1)
    both_PR = backbone_R[rows, None] * backbone_R
    positions_R3 = pseudo_beta(atoms_RA3, aatype_R)
    bins_PR = distance_bins(positions_R3, rows, NUM_TEMPLATE_BINS, LAST_TEMPLATE_EDGE)
    residues_RF = F.one_hot(aatype_R, NUM_TEMPLATE_CLASSES).to(both_PR.dtype)
    shape = (*both_PR.shape, NUM_TEMPLATE_CLASSES)
    features_PRF = torch.cat(
        [
            F.one_hot(bins_PR, NUM_TEMPLATE_BINS + 1)[..., :-1],
            (beta_R[rows, None] * beta_R).unsqueeze(-1),
            residues_RF.expand(shape),
            residues_RF[rows, None].expand(shape),
            both_PR.new_zeros(*both_PR.shape, 3),
            both_PR.unsqueeze(-1),
        ],
        dim=-1,
    )
    return features_PRF * both_PR.unsqueeze(-1)


class TemplatePairBlock(nn.Module):
    """A block of the template pair stack; its attention comes first, unlike in the Evoformer."""

    def __init__(self, config: TemplateConfig) -> None:
        super().__init__()
        channels, heads, hidden = config.channels, config.pair_heads, config.triangle_multiplication_channels
        self.triangle_attention_starting = TriangleAttention(channels, heads, starting=True)
        self.triangle_attention_ending = TriangleAttention(channels, heads, starting=False)
        self.triangle_multiplication_outgoing = TriangleMultiplication(channels, hidden, outgoing=True)
        self.triangle_multiplication_incoming = TriangleMultiplication(channels, hidden, outgoing=False)
        self.pair_transition = Transition(channels, config.transition_factor)

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor | None) -> Tensor:
        """One template's pairs after the block (in place without autograd); mask: of the target's residues."""
        pair_RRC = self.triangle_attention_starting(pair_RRC, mask_RR)
        pair_RRC = self.triangle_attention_ending(pair_RRC, mask_RR)
        pair_RRC = self.triangle_multiplication_outgoing(pair_RRC, mask_RR)
        pair_RRC = self.triangle_multiplication_incoming(pair_RRC, mask_RR)
        updated_RRC: Tensor = self.pair_transition(pair_RRC)
        return updated_RRC


class TemplatePointwiseAttention(nn.Module):
    """Every pair of residues attends to the same pair in all templates; no LayerNorm, no gates."""

    def __init__(self, config: TemplateConfig, pair_channels: int) -> None:
        super().__init__()
        # Not called `site`: heads are scored on data without templates, where this layer does not run.
        self.template_site = template_site(config.attention_heads)
        self.score = DotScore()
        self.project_query = linear(pair_channels, config.attention_channels, bias=False)
        self.project_key = linear(config.channels, config.attention_channels, bias=False)
        self.project_value = linear(config.channels, config.attention_channels, bias=False)
        self.project_output = final_linear(config.attention_channels, pair_channels)

    def forward(self, pair_RRC: Tensor, templates_RRTC: Tensor, mask_T: Tensor) -> Tensor:
        """pair + update (in place without autograd); mask: 1 = a template, 0 = none. One must not be masked."""
        site = self.template_site

        def update(rows: slice, pair_PRC: Tensor, templates_PRTC: Tensor, allowed_T: Tensor) -> Tensor:
            query, key, value = (
                projected.unflatten(-1, (site.num_heads, -1)).transpose(-3, -2)
                for projected in (
                    self.project_query(pair_PRC.unsqueeze(-2)),
                    self.project_key(templates_PRTC),
                    self.project_value(templates_PRTC),
                )
            )
            weights_PRH1T = attention_weights(
                query,
                key,
                score=self.score,
                mask=allowed_T,
                site=site,
                tile=Tile("residue", rows.start, len(pair_RRC)),
                value=value,
            )
            return self.project_output((weights_PRH1T @ value).flatten(-3))

        return tiled(
            update,
            TILE_ELEMENTS,
            sliced=(pair_RRC, templates_RRTC),
            whole=(mask_T > 0,),
            parameters=self.parameters(),
        )


class TemplateEmbedder(nn.Module):
    """Templates into the pair representation, and their torsion angles into rows of the MSA."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        templates = config.templates or TemplateConfig()
        self.project_pair = relu_linear(NUM_PAIR_FEATURES, templates.channels)
        self.blocks = nn.ModuleList(TemplatePairBlock(templates) for _ in range(templates.num_blocks))
        self.normalise = nn.LayerNorm(templates.channels)
        self.attention = TemplatePointwiseAttention(templates, config.pair_channels)
        self.project_angles = relu_linear(NUM_ANGLE_FEATURES, config.msa_channels)
        self.project_rows = relu_linear(config.msa_channels, config.msa_channels)

    def forward(self, pair_RRC: Tensor, templates: TemplateInputs, pair_mask_RR: Tensor | None) -> Tensor:
        """pair + update (in place without autograd); the pairs as they are when no template is there."""
        if not bool(templates.mask.any()):
            return pair_RRC
        embedded = [self.embed(TemplateInputs(*each), pair_mask_RR) for each in zip(*templates, strict=True)]
        updated_RRC: Tensor = self.attention(pair_RRC, torch.stack(embedded, dim=2), templates.mask)
        return updated_RRC

    def embed(self, template: TemplateInputs, pair_mask_RR: Tensor | None) -> Tensor:
        """The pair representation (R, R, C) of one template; mask: None = nothing is masked."""
        parts = tiles(len(template.aatype), TILE_ROWS)
        pair_RRC = torch.cat([self.project_pair(pair_features(template, rows)) for rows in parts])
        for block in self.blocks:
            pair_RRC = block(pair_RRC, pair_mask_RR)
        normed_RRC: Tensor = self.normalise(pair_RRC)
        return normed_RRC

    def rows(self, templates: TemplateInputs) -> tuple[Tensor, Tensor]:
        """Rows of the MSA (T, R, C), and their mask (T, R): 1 where psi is known."""
        rows_TRC: Tensor = self.project_rows(F.relu(self.project_angles(templates.angles)))
        return rows_TRC, templates.angles[..., PSI - NUM_ANGLES]
