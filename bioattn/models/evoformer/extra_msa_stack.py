"""The extra-MSA stack (AlphaFold 2 supplement, Algorithm 18).

Shape suffixes: S extra MSA rows, R residues, C channels.
"""

from torch import Tensor, nn

from bioattn.models.evoformer.block import EvoformerBlock
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.stack import run_block


class ExtraMsaStack(nn.Module):
    """Brings what many more sequences say into the pair representation; the extra MSA itself is dropped after."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            EvoformerBlock(config, i, extra_msa=True) for i in range(config.num_extra_msa_blocks)
        )

    def forward(
        self,
        extra_msa_SRC: Tensor,
        pair_RRC: Tensor,
        extra_msa_mask_SR: Tensor,
        pair_mask_RR: Tensor,
        *,
        recompute: bool = False,
    ) -> Tensor:
        """The pair representation (R, R, C); masks: 1 = keep, 0 = masked.

        Without autograd the given representations are updated in place. S must not be 0: an alignment without
        extra rows has one masked row, because the outer product mean then adds bias / 1e-3 to every pair, which
        the published parameters expect. `recompute` as in the Evoformer stack.
        """
        for block in self.blocks:
            extra_msa_SRC, pair_RRC = run_block(
                block, extra_msa_SRC, pair_RRC, extra_msa_mask_SR, pair_mask_RR, recompute
            )
        return pair_RRC
