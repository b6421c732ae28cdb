"""One block of the Evoformer stack or of the extra-MSA stack (AlphaFold 2 supplement, Algorithms 6 and 18).

Parameters, by layer of a block (weights are (outputs, inputs); C channels of the layer's state, H heads, D = C / H
channels of a head, P pair channels, M and O hidden channels of triangle multiplication and outer product):

    layer                      parameter                       shape          rows or columns
    msa_row_attention          normalise.weight, .bias         C
                               normalise_pair.weight, .bias    P
                               project_pair_bias.weight        H, P
                               attention.project_qkvg.weight   4·C, C         query, key, value, gate; each (H, D)
                               attention.gate_bias             C              (H, D)
                               attention.project_output.*      C, C; C        inputs (H, D)
    msa_column_attention       normalise.*, attention.*        as above
      (extra MSA: global)      project_query.weight            C, C           (H, D)
                               project_kvg.weight              2·D + C, C     key (D), value (D), gate (H, D)
                               gate_bias, project_output.*     as above
    msa_transition             normalise.*                     C
                               expand.weight, .bias            4·C, C; 4·C
                               contract.weight, .bias          C, 4·C; C
    outer_product_mean         normalise.*                     C
                               project_factors.weight, .bias   2·O, C; 2·O    left (i), right (j)
                               project_output.weight, .bias    P, O·O; P      inputs (left, right)
    triangle_multiplication_   normalise.*                     P
      outgoing, _incoming      project_factors.weight, .bias   4·M + P, P; …  left, right, their gates,
                                                                              gate of the output
                               normalise_product.*             M
                               project_output.weight, .bias    P, M; P
    triangle_attention_        normalise.*                     P
      starting, _ending        project_pair_bias.weight        H, P
                               attention.*                     as above
    pair_transition            as msa_transition

Left and right are those of AlphaFold's parameters.

Shape suffixes: S MSA rows, R residues, C channels.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.msa_column_attention import MsaColumnAttention
from bioattn.models.evoformer.msa_column_global_attention import MsaColumnGlobalAttention
from bioattn.models.evoformer.msa_row_attention import MsaRowAttention
from bioattn.models.evoformer.outer_product_mean import OuterProductMean
from bioattn.models.evoformer.sites import alignment_site
from bioattn.models.evoformer.transition import Transition
from bioattn.models.evoformer.triangle_attention import TriangleAttention
from bioattn.models.evoformer.triangle_multiplication import TriangleMultiplication


class EvoformerBlock(nn.Module):
    """Attention and transition on the MSA, their outer product into the pairs, triangle layers on the pairs."""

    def __init__(self, config: EvoformerConfig, index: int, *, extra_msa: bool = False) -> None:
        """`index`: which block of its stack, for the names of its attention sites. `extra_msa`: a block of the
        extra-MSA stack, with its widths and with global column attention."""
        super().__init__()
        stack = "extra_msa" if extra_msa else "evoformer"
        channels = config.extra_msa_channels if extra_msa else config.msa_channels
        heads = config.extra_msa_heads if extra_msa else config.msa_heads
        pair_channels = config.pair_channels
        uniform = config.uniform_msa_attention
        self.msa_row_attention = MsaRowAttention(
            channels, pair_channels, alignment_site(stack, index, "msa_row", heads), uniform=uniform
        )
        self.msa_column_attention: MsaColumnAttention | MsaColumnGlobalAttention
        if extra_msa:
            self.msa_column_attention = MsaColumnGlobalAttention(
                channels, alignment_site(stack, index, "msa_column_global", heads), uniform=uniform
            )
        else:
            self.msa_column_attention = MsaColumnAttention(
                channels, alignment_site(stack, index, "msa_column", heads), uniform=uniform
            )
        self.msa_transition = Transition(channels, config.transition_factor)
        self.outer_product_mean = OuterProductMean(
            channels, pair_channels, config.outer_product_channels, centred=config.centred_outer_product
        )
        hidden = config.triangle_multiplication_channels
        self.triangle_multiplication_outgoing = TriangleMultiplication(pair_channels, hidden, outgoing=True)
        self.triangle_multiplication_incoming = TriangleMultiplication(pair_channels, hidden, outgoing=False)
        self.triangle_attention_starting = TriangleAttention(
            pair_channels, alignment_site(stack, index, "triangle_starting", config.pair_heads), starting=True
        )
        self.triangle_attention_ending = TriangleAttention(
            pair_channels, alignment_site(stack, index, "triangle_ending", config.pair_heads), starting=False
        )
        self.pair_transition = Transition(pair_channels, config.transition_factor)

    def forward(
        self, msa_SRC: Tensor, pair_RRC: Tensor, msa_mask_SR: Tensor, pair_mask_RR: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The MSA (S, R, C) and pair (R, R, C) representations after the block; masks: 1 = keep, 0 = masked.

        Without autograd the given representations are updated in place and returned.
        """
        msa_SRC = self.msa_row_attention(msa_SRC, pair_RRC, msa_mask_SR)
        msa_SRC = self.msa_column_attention(msa_SRC, msa_mask_SR)
        msa_SRC = self.msa_transition(msa_SRC)
        pair_RRC = self.outer_product_mean(pair_RRC, msa_SRC, msa_mask_SR)
        pair_RRC = self.triangle_multiplication_outgoing(pair_RRC, pair_mask_RR)
        pair_RRC = self.triangle_multiplication_incoming(pair_RRC, pair_mask_RR)
        pair_RRC = self.triangle_attention_starting(pair_RRC, pair_mask_RR)
        pair_RRC = self.triangle_attention_ending(pair_RRC, pair_mask_RR)
        return msa_SRC, self.pair_transition(pair_RRC)
