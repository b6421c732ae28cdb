"""The Evoformer stack (AlphaFold 2 supplement, Algorithm 6).

Shape suffixes: S MSA rows, R residues, C channels.
"""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.models.evoformer.block import EvoformerBlock
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.initial_weights import linear


class EvoformerStack(nn.Module):
    """All blocks, and the single representation: a projection of the MSA's first row."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EvoformerBlock(config, i) for i in range(config.num_blocks))
        self.project_single = linear(config.msa_channels, config.single_channels)

    def forward(
        self,
        msa_SRC: Tensor,
        pair_RRC: Tensor,
        msa_mask_SR: Tensor,
        pair_mask_RR: Tensor,
        *,
        recompute: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """MSA (S, R, C), pair (R, R, C) and single (R, C) representations; masks: 1 = keep, 0 = masked.

        Without autograd the given representations are updated in place. With autograd and `recompute` only the
        inputs of each block are kept, and the backward pass runs each block again (activation checkpointing).
        """
        for block in self.blocks:
            msa_SRC, pair_RRC = run_block(block, msa_SRC, pair_RRC, msa_mask_SR, pair_mask_RR, recompute)
        single: Tensor = self.project_single(msa_SRC[0])
        return msa_SRC, pair_RRC, single.to(msa_SRC.dtype)


def run_block(
    block: nn.Module,
    msa_SRC: Tensor,
    pair_RRC: Tensor,
    msa_mask_SR: Tensor,
    pair_mask_RR: Tensor,
    recompute: bool,
) -> tuple[Tensor, Tensor]:
    """Run one block; with `recompute`, where gradients are wanted, without keeping its intermediates."""
    states: tuple[Tensor, Tensor]
    if recompute and torch.is_grad_enabled():
        states = checkpoint(block, msa_SRC, pair_RRC, msa_mask_SR, pair_mask_RR, use_reentrant=False)
    else:
        states = block(msa_SRC, pair_RRC, msa_mask_SR, pair_mask_RR)
    return states
