"""Known structures as templates of pairs and MSA (AlphaFold 2 supplement, Algorithms 2, 16 and 17).

Each template becomes a pair representation of its own; every pair of residues attends to the templates, and the
result is added to the pairs. Its torsion angles become one more row of the MSA.

Shape suffixes: T templates, P residues of a tile, R residues, H heads, D channels of a head, C channels,
F features.
"""

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.attention.operator import attention_weights
from bioattn.attention.score import DotScore
from bioattn.attention.site import Tile
from bioattn.models.evoformer.attention import TriangleAttention
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.embedders import TILE_ROWS, distance_bins
from bioattn.models.evoformer.inputs import TemplateInputs
from bioattn.models.evoformer.pair_updates import TriangleMultiplication
from bioattn.models.evoformer.projection import final_linear, linear, relu_linear
from bioattn.models.evoformer.rigid import pseudo_beta
from bioattn.models.evoformer.sites import template_site
from bioattn.models.evoformer.stacks import Transition
from bioattn.models.evoformer.tiled_layers import add_tiled, tiles
from bioattn.structures.ideal_geometry import ATOM37, NUM_ANGLES, PSI

NUM_CLASSES = 22
"""20 amino acids, unknown, gap."""
NUM_DISTANCE_BINS, LAST_EDGE = 39, 50.75
NUM_PAIR_FEATURES = NUM_DISTANCE_BINS + 1 + 2 * NUM_CLASSES + 3 + 1
NUM_ANGLE_FEATURES = NUM_CLASSES + NUM_ANGLES * (2 + 2 + 1)
TILE_ELEMENTS = 1 << 19
"""Pair elements of a tile of the attention to templates."""
_BACKBONE = [ATOM37.index(name) for name in ("N", "CA", "C")]


def pair_features(template: TemplateInputs, rows: slice = slice(None)) -> Tensor:
    """Features (P, R, 88) of pairs of some residues i with all residues j of one template.

    Bin of the distance of CB atoms (39), whether both have one, residues of j and of i (22 each), three places
    that published models leave 0, whether both have N, CA and C; all 0 where that last one is.
    """
    aatype_R, atoms_RA3, there_RA = template[:3]
    beta_R = pseudo_beta(there_RA.unsqueeze(-1), aatype_R).squeeze(-1)
    backbone_R = there_RA[:, _BACKBONE].prod(-1)
    both_PR = backbone_R[rows, None] * backbone_R
    positions_R3 = pseudo_beta(atoms_RA3, aatype_R)
    bins_PR = distance_bins(positions_R3, rows, NUM_DISTANCE_BINS, LAST_EDGE)
    residues_RF = F.one_hot(aatype_R, NUM_CLASSES).to(both_PR.dtype)
    shape = (*both_PR.shape, NUM_CLASSES)
    features_PRF = torch.cat(
        [
            F.one_hot(bins_PR, NUM_DISTANCE_BINS + 1)[..., :-1],
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

    def forward(self, pair_RRC: Tensor, mask_RR: Tensor) -> Tensor:
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
            update_PRC: Tensor = self.project_output((weights_PRH1T @ value).flatten(-3))
            return update_PRC

        return add_tiled(
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

    def forward(self, pair_RRC: Tensor, templates: TemplateInputs, pair_mask_RR: Tensor) -> Tensor:
        """pair + update (in place without autograd); the pairs as they are when no template is there."""
        if not bool(templates.mask.any()):
            return pair_RRC
        embedded = [self.embed(TemplateInputs(*each), pair_mask_RR) for each in zip(*templates, strict=True)]
        updated_RRC: Tensor = self.attention(pair_RRC, torch.stack(embedded, dim=2), templates.mask)
        return updated_RRC

    def embed(self, template: TemplateInputs, pair_mask_RR: Tensor) -> Tensor:
        """The pair representation (R, R, C) of one template."""
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
