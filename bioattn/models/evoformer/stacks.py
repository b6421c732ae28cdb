"""The Evoformer stack, the extra-MSA stack, and their blocks (AlphaFold 2 supplement, Algorithms 6, 9, 15 and 18).

The classes of layers say how their matrices are laid out.

Shape suffixes: S MSA rows, R residues, C channels, N all axes but the channels together.
"""

import logging
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.attention.capture import somebody_listens
from bioattn.attention.kernels import Used
from bioattn.errors import BioattnError
from bioattn.models.evoformer.attention import (
    MsaColumnAttention,
    MsaColumnGlobalAttention,
    MsaRowAttention,
    TiedRowAttention,
    TriangleAttention,
)
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.layers import (
    LARGEST_TILE,
    final_linear,
    linear,
    relu_linear,
    tiled,
    unless_full,
)
from bioattn.models.evoformer.pair_updates import (
    CUEQUIVARIANCE_LEAST,
    MapsToPairs,
    OuterProductMean,
    TriangleMultiplication,
)
from bioattn.models.evoformer.sites import alignment_site
from bioattn.system.device import Compile

LOGGER = logging.getLogger("bioattn")

TILE_ELEMENTS = 1 << 17
"""Elements of a tile: 512 positions of 256 channels. Their hidden activations (2 MB in float32, 1 MB in bfloat16)
stay near the core between the two products, which are already as fast as larger ones."""


class Transition(nn.Module):
    """A two-layer perceptron at every position; masked positions too, as in AlphaFold."""

    def __init__(self, channels: int, factor: int) -> None:
        super().__init__()
        self.normalise = nn.LayerNorm(channels)
        self.expand = relu_linear(channels, factor * channels)
        self.contract = final_linear(factor * channels, channels)

    def forward(self, state: Tensor) -> Tensor:
        """state + update, shape (..., C) (in place without autograd)."""

        def update(_rows: slice, part_NC: Tensor) -> Tensor:
            return self.contract(self.expand(self.normalise(part_NC)).relu_())

        flat_NC = state.view(-1, state.shape[-1])
        return tiled(update, TILE_ELEMENTS, sliced=(flat_NC,), parameters=self.parameters()).view(state.shape)


def _call(layer: Callable[..., Tensor], *given: Tensor | None) -> Tensor:
    return layer(*given)


class EvoformerBlock(nn.Module):
    """Attention and transition on the MSA, their outer product into the pairs, triangle layers on the pairs."""

    compiled = False
    """Whether `torch.compile` makes one program of the layers, where memory suffices for whole ones."""

    def __init__(self, config: EvoformerConfig, index: int, *, extra_msa: bool = False) -> None:
        """`index`: which block of its stack, for the names of its attention sites. `extra_msa`: a block of the
        extra-MSA stack, with its widths and with global column attention."""
        super().__init__()
        stack = "extra_msa" if extra_msa else "evoformer"
        channels = config.extra_msa_channels if extra_msa else config.msa_channels
        heads = config.extra_msa_heads if extra_msa else config.msa_heads
        pair_channels = config.pair_channels
        uniform = config.uniform_msa_attention
        tied = config.tied_row_heads
        site = partial(alignment_site, stack, index)
        row_site = site("msa_row", tied or heads, tied=tied > 0)
        self.msa_row_attention: MsaRowAttention | TiedRowAttention
        if tied:
            self.msa_row_attention = TiedRowAttention(
                channels, pair_channels, row_site, channels // heads, uniform=uniform
            )
        else:
            self.msa_row_attention = MsaRowAttention(channels, pair_channels, row_site, uniform=uniform)
        self.msa_column_attention: MsaColumnAttention | MsaColumnGlobalAttention
        if extra_msa:
            column_site = site("msa_column_global", heads)
            self.msa_column_attention = MsaColumnGlobalAttention(channels, column_site, uniform=uniform)
        else:
            column_site = site("msa_column", heads)
            self.msa_column_attention = MsaColumnAttention(channels, column_site, uniform=uniform)
        self.msa_transition = Transition(channels, config.transition_factor)
        if tied:
            self.maps_to_pairs = MapsToPairs(pair_channels, row_site)
        else:
            self.outer_product_mean = OuterProductMean(
                channels, pair_channels, config.outer_product_channels, centred=config.centred_outer_product
            )
        hidden = config.triangle_multiplication_channels
        self.triangle_multiplication_outgoing = TriangleMultiplication(pair_channels, hidden, outgoing=True)
        self.triangle_multiplication_incoming = TriangleMultiplication(pair_channels, hidden, outgoing=False)
        starting, ending = (site(f"triangle_{name}", config.pair_heads) for name in ("starting", "ending"))
        self.triangle_attention_starting = TriangleAttention(pair_channels, starting, starting=True)
        self.triangle_attention_ending = TriangleAttention(pair_channels, ending, starting=False)
        self.pair_transition = Transition(pair_channels, config.transition_factor)

    def forward(
        self, msa_SRC: Tensor, pair_RRC: Tensor, msa_mask_SR: Tensor | None, pair_mask_RR: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The MSA (S, R, C) and pair (R, R, C) representations after the block; masks: 1 = keep, 0 = masked, or
        None: nothing is masked.

        Without autograd the given representations are updated in place and returned, unless the block is compiled.
        """
        given = msa_SRC, pair_RRC, msa_mask_SR, pair_mask_RR
        whole = self.compiled and LARGEST_TILE.get() is None
        return compiled_update()(self, *given) if whole else self.update(*given)

    def update(
        self,
        msa_SRC: Tensor,
        pair_RRC: Tensor,
        msa_mask_SR: Tensor | None,
        pair_mask_RR: Tensor | None,
        apart: Callable[..., Tensor] = _call,
    ) -> tuple[Tensor, Tensor]:
        """The block. apart: calls a layer that does not belong into a compiled graph with its arguments."""
        attend = apart if somebody_listens() else _call
        multiply = apart if Used.triangle and len(pair_RRC) >= CUEQUIVARIANCE_LEAST else _call
        maps_HRR = None
        if isinstance(self.msa_row_attention, TiedRowAttention):
            maps_HRR = attend(self.msa_row_attention.maps, msa_SRC, pair_RRC, msa_mask_SR)
            msa_SRC = self.msa_row_attention(msa_SRC, maps_HRR)
        else:
            msa_SRC = attend(self.msa_row_attention, msa_SRC, pair_RRC, msa_mask_SR)
        msa_SRC = attend(self.msa_column_attention, msa_SRC, msa_mask_SR)
        msa_SRC = self.msa_transition(msa_SRC)
        if maps_HRR is None:
            pair_RRC = self.outer_product_mean(pair_RRC, msa_SRC, msa_mask_SR)
        else:
            pair_RRC = self.maps_to_pairs(pair_RRC, maps_HRR, msa_mask_SR)
        pair_RRC = multiply(self.triangle_multiplication_outgoing, pair_RRC, pair_mask_RR)
        pair_RRC = multiply(self.triangle_multiplication_incoming, pair_RRC, pair_mask_RR)
        pair_RRC = attend(self.triangle_attention_starting, pair_RRC, pair_mask_RR)
        pair_RRC = attend(self.triangle_attention_ending, pair_RRC, pair_mask_RR)
        return msa_SRC, self.pair_transition(pair_RRC)


@cache
def compiled_update() -> Callable[..., tuple[Tensor, Tensor]]:
    """`EvoformerBlock.update`, compiled: blocks of one shape share a graph, sizes that change become variables.

    Layers that hand their weights over, and those of another library, stay outside.
    """
    # A part that cannot be compiled runs as it is: the parts before it may have changed what they were given.
    torch._dynamo.config.suppress_errors = True
    apart = torch.compiler.disable(_call)
    update: Callable[..., tuple[Tensor, Tensor]] = torch.compile(
        lambda block, *given: block.update(*given, apart)
    )
    return update


@cache
def why_not_compiled(device: torch.device) -> str:
    """Why `torch.compile` does not work here, which is logged too; nothing where it does."""
    try:
        torch.compile(torch.sin)(torch.zeros(1, device=device))
    except torch._dynamo.exc.TorchDynamoException as error:
        failure = f"torch.compile fails here ({str(error).strip().splitlines()[0]})"
        LOGGER.warning(f"{failure}: blocks are not compiled")
        return failure
    return ""


COMPILING_PAYS = 1e9
"""Cells of MSA and pairs, of all blocks that are run, which save the ten seconds of compiling on an H100."""


def compile_blocks(model: nn.Module, wanted: Compile, device: torch.device, cells: float) -> bool:
    """Compile the blocks of `model` from now on if that is wanted; returns whether.

    cells: of MSA and pairs, of all blocks that will be run.

    Raises: BioattnError when that is wanted in any case and torch cannot.
    """
    pays = device.type == "cuda" and cells >= COMPILING_PAYS
    chosen = wanted is Compile.ON or (wanted is Compile.AUTO and pays)
    failure = why_not_compiled(device) if chosen else ""
    if failure and wanted is Compile.ON:
        raise BioattnError(f"--compile on: {failure}")
    chosen = chosen and not failure
    for module in model.modules():
        if isinstance(module, EvoformerBlock):
            module.compiled = chosen
    return chosen


class Stack(nn.Module):
    """Blocks, one after another."""

    def __init__(self, config: EvoformerConfig, num_blocks: int, *, extra_msa: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            EvoformerBlock(config, number, extra_msa=extra_msa) for number in range(num_blocks)
        )

    def run(
        self, msa_SRC: Tensor, pair_RRC: Tensor, msa_mask_SR: Tensor, pair_mask_RR: Tensor, *, recompute: bool
    ) -> tuple[Tensor, Tensor]:
        """MSA (S, R, C) and pair (R, R, C) representations; masks: 1 = keep, 0 = masked.

        Without autograd the given representations are updated in place. With autograd and `recompute` only the
        inputs of each block are kept, and the backward pass runs each block again (activation checkpointing).
        """
        masks = unless_full(msa_mask_SR), unless_full(pair_mask_RR)
        for block in self.blocks:
            if recompute and torch.is_grad_enabled():
                msa_SRC, pair_RRC = checkpoint(block, msa_SRC, pair_RRC, *masks, use_reentrant=False)
            else:
                msa_SRC, pair_RRC = block(msa_SRC, pair_RRC, *masks)
        return msa_SRC, pair_RRC


class EvoformerStack(Stack):
    """All blocks, and the single representation: a projection of the MSA's first row."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__(config, config.num_blocks)
        self.project_single = linear(config.msa_channels, config.single_channels)

    def forward(self, *given: Tensor, recompute: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """MSA, pair and single (R, C) representations, of what `run` is given."""
        msa_SRC, pair_RRC = self.run(*given, recompute=recompute)
        single: Tensor = self.project_single(msa_SRC[0])
        return msa_SRC, pair_RRC, single.to(msa_SRC.dtype)


class ExtraMsaStack(Stack):
    """Brings what many more sequences say into the pair representation; the extra MSA itself is dropped after."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__(config, config.num_extra_msa_blocks, extra_msa=True)

    def forward(self, *given: Tensor, recompute: bool = False) -> Tensor:
        """The pair representation, of what `run` is given.

        S must not be 0: an alignment without extra rows has one masked row, because the outer product mean then
        adds bias / 1e-3 to every pair, which the published parameters expect.
        """
        return self.run(*given, recompute=recompute)[1]
