"""The last layers of a `cross` model for many mutants: one matrix product less, and no new memory for each batch.

Between the heads' answers and the response stand two linear layers with a normalisation between them, and what
belongs to the treatments is the same for all mutants. Batches are small and many: in fresh memory they would cost
as much for the system's zeroed pages as for the arithmetic.

Shape suffixes: M mutants, T treatments, X all channels of the heads, C channels, Z hidden channels.
"""

import torch
from torch import Tensor

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.models.promoter.cross import CrossModel


class Workspace:
    """Named buffers that are reused; taking a buffer overwrites what it held."""

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor of `shape`, with type and device of `like`."""
        size = torch.Size(shape).numel()
        held = self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return held[:size].view(shape)


class MutantReadout:
    """From the attended values of the last hop's heads to predictions in standard units."""

    def __init__(self, network: CrossModel, attention: MultiHeadAttention, embeddings_TE: Tensor) -> None:
        readout = network.readout
        output_CX, bias_C = attention.project_output.weight, attention.project_output.bias
        self._centred_XC = (output_CX - output_CX.mean(0)).T.contiguous()
        self._centred_C = bias_C - bias_C.mean()
        self._eps = readout.normalise.eps
        self._hidden_CZ = (readout.from_context.weight * readout.normalise.weight).T.contiguous()
        shift_Z = readout.from_context(readout.normalise.bias)
        self._shift_TZ = readout.from_treatment(embeddings_TE) + shift_Z
        self._hidden_reader_TZ = readout.hidden_reader(embeddings_TE) * readout.hidden_scale
        linear_reader_TC = readout.linear_reader(embeddings_TE) * readout.linear_scale
        self._linear_reader_TX = linear_reader_TC @ output_CX
        self._offset_T = readout.offset(embeddings_TE)[:, 0] + linear_reader_TC @ bias_C
        self._workspace = Workspace()

    def __call__(self, attended_MTX: Tensor) -> Tensor:
        """Predictions (M, T); overwrites `attended_MTX`."""
        mutants, treatments, _ = attended_MTX.shape
        flat_NX = attended_MTX.flatten(0, 1)
        context_NC = self._workspace.take("context", flat_NX, len(flat_NX), len(self._centred_C))
        hidden_NZ = self._workspace.take("hidden", flat_NX, len(flat_NX), self._hidden_CZ.shape[1])
        torch.addmm(self._centred_C, flat_NX, self._centred_XC, out=context_NC)
        variance_N1 = torch.linalg.vector_norm(context_NC, dim=-1, keepdim=True).square_()
        torch.mm(context_NC, self._hidden_CZ, out=hidden_NZ)
        hidden_NZ *= variance_N1.div_(context_NC.shape[1]).add_(self._eps).rsqrt_()
        hidden_MTZ = hidden_NZ.view(mutants, treatments, -1)
        hidden_MTZ += self._shift_TZ
        torch.ops.aten.gelu_(hidden_MTZ)
        answer_MT = hidden_MTZ.mul_(self._hidden_reader_TZ).sum(-1)
        answer_MT += attended_MTX.mul_(self._linear_reader_TX).sum(-1)
        answer_MT += self._offset_T
        return answer_MT
