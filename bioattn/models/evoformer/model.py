"""The whole MSA/pair model (AlphaFold 2 supplement, Algorithm 2, without ensembling).

Shape suffixes: S MSA rows, R residues, C channels.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bioattn.alignments.alphabet import NUM_MSA_CLASSES
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.embedders import (
    ExtraMsaEmbedder,
    InputEmbedder,
    Recycled,
    RecyclingEmbedder,
    TemplateEmbedder,
)
from bioattn.models.evoformer.heads import NUM_ALIGNED_ERROR_BINS, NUM_ATOMS, LinearHead, PlddtHead
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.layers import unless_full
from bioattn.models.evoformer.stacks import EvoformerStack, ExtraMsaStack
from bioattn.models.evoformer.structure_module import StructureModule, StructureOutputs, pseudo_beta


class ModelOutputs(NamedTuple):
    """Predictions of the last pass; None where the model lacks the part.

    Representations of MSA (S, R, C) and pairs (R, R, C), and the trunk's single one (R, C). Logits, float32, of
    distances (R, R, bins), masked cells (S, R, 23), pLDDT (R, 50), aligned errors (R, R, 64) and atoms that an
    experiment resolves (R, 37).
    """

    msa: Tensor
    pair: Tensor
    single: Tensor
    structure: StructureOutputs | None
    distogram_logits: Tensor | None
    masked_msa_logits: Tensor | None
    plddt_logits: Tensor | None
    aligned_error_logits: Tensor | None
    experimentally_resolved_logits: Tensor | None


class EvoformerModel(nn.Module):
    """Embedders, extra-MSA stack, Evoformer stack, structure module and heads, as far as the config has them."""

    def __init__(self, config: EvoformerConfig) -> None:
        super().__init__()
        self.config = config
        pair, single = config.pair_channels, config.single_channels
        structure = config.structure_module
        self.input_embedder = InputEmbedder(config)
        self.recycling_embedder = RecyclingEmbedder(config) if config.recycling else None
        self.template_embedder = TemplateEmbedder(config) if config.templates else None
        self.extra_msa_embedder = ExtraMsaEmbedder(config) if config.num_extra_msa_blocks else None
        self.extra_msa_stack = ExtraMsaStack(config) if config.num_extra_msa_blocks else None
        self.evoformer = EvoformerStack(config)
        self.structure_module = StructureModule(structure, single, pair) if structure else None
        bins = config.distogram_bins
        self.distogram_head = LinearHead("pair", pair, bins, symmetric=True) if bins else None
        self.masked_msa_head = (
            LinearHead("msa", config.msa_channels, NUM_MSA_CLASSES) if config.masked_msa_head else None
        )
        self.plddt_head = PlddtHead(single, config.plddt_channels) if structure else None
        self.aligned_error_head = (
            LinearHead("pair", pair, NUM_ALIGNED_ERROR_BINS) if config.aligned_error_head else None
        )
        self.experimentally_resolved_head = (
            LinearHead("single", single, NUM_ATOMS) if config.experimentally_resolved_head else None
        )

    def forward(
        self,
        inputs: ModelInputs | Callable[[int], ModelInputs],
        num_recycles: int = 0,
        *,
        recompute: bool = False,
    ) -> ModelOutputs:
        """Run 1 + `num_recycles` passes; each gets the representations of the one before, without gradient.

        inputs: the same for all passes, or what gives those of a pass (from 0), called when the pass begins: one
        sample is in memory at a time. Passes may have different MSA samples, not different targets. recompute:
        checkpoint activations of the last pass.

        Raises: ValueError when passes are asked of a model without recycling, or templates are given to one
        without template embedder.
        """
        if num_recycles and self.recycling_embedder is None:
            raise ValueError("this model has no recycling: it can make one pass only")
        recycled = None
        for number in range(num_recycles):
            sample = inputs if isinstance(inputs, ModelInputs) else inputs(number)
            with torch.no_grad():
                embedded = self._embed(sample, recycled)
                # What came from the pass before is in there now; its pairs need not stay through this one.
                del recycled
                msa_SRC, pair_RRC, _, structure = self._run_stacks(sample, *embedded)
            positions = None if structure is None else pseudo_beta(structure.atom37, sample.aatype)
            # A copy: a view of the first row would keep the whole MSA representation alive.
            recycled = Recycled(msa_SRC[0].clone(), pair_RRC, positions)
            del msa_SRC, pair_RRC
        sample = inputs if isinstance(inputs, ModelInputs) else inputs(num_recycles)
        embedded = self._embed(sample, recycled)
        del recycled
        msa_SRC, pair_RRC, single_RC, structure = self._run_stacks(sample, *embedded, recompute=recompute)
        with torch.autocast(pair_RRC.device.type, enabled=False):
            return ModelOutputs(
                msa=msa_SRC,
                pair=pair_RRC,
                single=single_RC,
                structure=structure,
                distogram_logits=_read(self.distogram_head, pair_RRC),
                masked_msa_logits=_read(self.masked_msa_head, msa_SRC),
                plddt_logits=None if structure is None else _read(self.plddt_head, structure.single),
                aligned_error_logits=_read(self.aligned_error_head, pair_RRC),
                experimentally_resolved_logits=_read(self.experimentally_resolved_head, single_RC),
            )

    def _embed(self, inputs: ModelInputs, recycled: Recycled | None) -> tuple[Tensor, Tensor]:
        """MSA (S, R, C) and pair (R, R, C) representation before the stacks."""
        # What enters the residual stream is not rounded: only the layers of the stacks may run in low precision.
        with torch.autocast(inputs.msa_feat.device.type, enabled=False):
            msa_SRC, pair_RRC = self.input_embedder(inputs)
            if self.recycling_embedder is not None:
                if recycled is None:
                    positions = msa_SRC.new_zeros(msa_SRC.shape[1], 3) if self.structure_module else None
                    recycled = Recycled(torch.zeros_like(msa_SRC[0]), torch.zeros_like(pair_RRC), positions)
                msa_SRC, pair_RRC = self.recycling_embedder(msa_SRC, pair_RRC, recycled)
            if inputs.templates is not None:
                if self.template_embedder is None:
                    raise ValueError("this model has no template embedder")
                pair_RRC = self.template_embedder(pair_RRC, inputs.templates, unless_full(inputs.pair_mask))
        return msa_SRC, pair_RRC

    def _run_stacks(
        self, inputs: ModelInputs, msa_SRC: Tensor, pair_RRC: Tensor, *, recompute: bool = False
    ) -> tuple[Tensor, Tensor, Tensor, StructureOutputs | None]:
        """MSA, pair and single (R, C) representation after the stacks, and the structure made of them."""
        pair_mask_RR, msa_mask_SR, num_rows = inputs.pair_mask, inputs.msa_mask, len(msa_SRC)
        if self.extra_msa_stack is not None and self.extra_msa_embedder is not None:
            with torch.autocast(msa_SRC.device.type, enabled=False):
                extra_ERC = self.extra_msa_embedder(
                    inputs.extra_msa, inputs.extra_has_deletion, inputs.extra_deletion_value
                )
            pair_RRC = self.extra_msa_stack(
                extra_ERC, pair_RRC, inputs.extra_msa_mask, pair_mask_RR, recompute=recompute
            )
        if inputs.templates is not None and self.template_embedder is not None:
            with torch.autocast(msa_SRC.device.type, enabled=False):
                rows_TRC, mask_TR = self.template_embedder.rows(inputs.templates)
            msa_SRC, msa_mask_SR = torch.cat([msa_SRC, rows_TRC]), torch.cat([msa_mask_SR, mask_TR])
        msa_SRC, pair_RRC, single_RC = self.evoformer(
            msa_SRC, pair_RRC, msa_mask_SR, pair_mask_RR, recompute=recompute
        )
        structure = None
        if self.structure_module is not None:
            structure = self.structure_module(single_RC, pair_RRC, inputs.aatype, inputs.seq_mask)
        return msa_SRC[:num_rows], pair_RRC, single_RC, structure


def _read(head: nn.Module | None, representation: Tensor) -> Tensor | None:
    return None if head is None else head(representation)
