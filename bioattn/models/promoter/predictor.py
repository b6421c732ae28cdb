"""A promoter model and the treatments it is asked for: codes in, responses out, and fast mutants.

All single mutants of a promoter through a `cross` model equal a forward pass each, with less work. The stem is
computed where a mutation reaches (`mutant_bins`). With dot-product scores, one hop and no value mixer the rest
is too: keys and values near a mutation are computed for each mutant, and what all other bins add to the
softmax's sums follows from some of the mutants. Mutants are taken some bins at a time, so that the sums over all
other bins are formed without them: taken out of a sum over all bins they would leave nothing but rounding where
they had nearly all the weight. For other models, and when somebody listens to the attention, the value mixer,
each hop and the readout are run as they are.

Shape suffixes: B promoters, L bases, M mutants, N nodes, P bins, E bins nearby, H heads, T treatments, D channels
of a head, X all channels of the heads, C channels.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from bioattn.attention.capture import listener_for
from bioattn.attention.multi_head import WIDENING
from bioattn.attention.operator import masked_logit
from bioattn.attention.score import DotScore
from bioattn.models.promoter.config import Reader, Readout, Stem
from bioattn.models.promoter.cross import BinReadout, CrossModel
from bioattn.models.promoter.model import Member, RidgeModel
from bioattn.models.promoter.mutant_bins import (
    MutatedBins,
    MutatedStem,
    PromoterFields,
    Shifts,
    interpolation,
    smooth_rows,
)
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch


class Workspace:
    """Named buffers that are reused; taking a buffer overwrites what it held.

    Batches of mutants are small and many: fresh memory would cost as much as the arithmetic.
    """

    def __init__(self) -> None:
        self._held: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor of `shape`, with type and device of `like`."""
        size = torch.Size(shape).numel()
        held = self._held.get(name)
        if held is None or held.numel() < size:
            held = self._held[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return held[:size].view(shape)


BINS_AT_ONCE = 16
"""Neighbouring bins whose mutants share the sums over all bins far away."""

READ_AT_ONCE = 16
"""Mutants of one pass through the readout."""

NODE_ELEMENTS = 1 << 20
"""Number of weights of far bins that are in memory at once."""


class CrossMutants:
    """Predictions of a `cross` model for all mutants of a promoter, one promoter after the other."""

    def __init__(
        self, member: Member, network: CrossModel, treatments: TreatmentBatch, batch_size: int
    ) -> None:
        """network: that of the member. batch_size: mutants whose logits near a mutation are in memory at once."""
        self._member, self._network, self._treatments = member, network, treatments
        self._batch_size = batch_size
        self._embeddings_TE = network.treatment_encoder(treatments)
        config = network.stem.config
        self._attention = attention = network.hops[0]
        self._few_keys_change = (
            isinstance(attention.score, DotScore)
            and len(network.hops) == 1
            and config.key_layers == 0
            and config.stem_sites == 0
            and isinstance(network.readout, BinReadout)
        )
        if self._few_keys_change:
            query_TC = network.normalise_query[0](network.first_queries(self._embeddings_TE))
            query_THD = attention.project_query(query_TC).unflatten(-1, (attention.num_heads, -1))
            self._value_channels = attention.project_value.out_features // attention.num_heads
            self._workspace = Workspace()
            self._bias_HTP = network.position_bias(attention.site, self._embeddings_TE)
            self._query_THD = query_THD / math.sqrt(query_THD.shape[-1]) * (not attention.uniform)

    def answers(self, codes_L: Tensor, position_M: Tensor, base_M: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Predictions for mutants with `base_M` (uint8) at the ascending `position_M` (from 0) of a promoter.

        Yields the numbers of some mutants (N,) and their predictions (N, T) in response units.
        """
        every = torch.arange(len(position_M), device=codes_L.device)
        stem = MutatedStem(self._network.stem, codes_L)
        if not self._few_keys_change or listener_for(self._attention.site) is not None:
            for rows in every.split(self._batch_size):
                yield rows, self._plainly(stem, stem.mutants(position_M[rows], base_M[rows]))
            return
        readout = self._network.readout
        assert isinstance(readout, BinReadout)
        fields = PromoterFields(self._attention, readout, stem, self._query_THD, self._bias_HTP)
        group_M = stem.first_bins(position_M) // BINS_AT_ONCE
        for rows in every.split(torch.unique_consecutive(group_M, return_counts=True)[1].tolist()):
            mutated = stem.mutants(position_M[rows], base_M[rows])
            shifts = fields.shifts(mutated)
            variables_M2 = fields.variables(shifts).cpu().numpy()
            smooth_M = torch.from_numpy(smooth_rows(variables_M2)).to(rows.device)
            if not smooth_M.all():  # of nothing, `split` would make one empty piece
                for few in (~smooth_M).nonzero()[:, 0].split(self._batch_size):
                    yield rows[few], self._plainly(stem, mutated.rows(few))
            if not smooth_M.any():
                continue
            nearby = slice(int(mutated.first_M.min()), int(mutated.first_M.max()) + stem.width)
            chosen, weights_MN = interpolation(variables_M2[smooth_M.cpu().numpy()])
            smooth = smooth_M.nonzero()[:, 0]
            nodes = smooth[torch.from_numpy(chosen).to(rows.device)]
            top_HT, far_NX = self._far_away(fields, shifts.rows(nodes), nearby)
            far_weights_MN = torch.from_numpy(weights_MN).to(far_NX)
            for part in torch.arange(len(smooth), device=rows.device).split(self._batch_size):
                these = smooth[part]
                answer_NT = self._near(
                    fields,
                    mutated.rows(these),
                    shifts.rows(these),
                    nearby,
                    top_HT,
                    far_NX,
                    far_weights_MN[part],
                )
                yield rows[these], self._member.in_response_units(answer_NT, self._treatments)

    def _plainly(self, stem: MutatedStem, mutated: MutatedBins) -> Tensor:
        """Predictions (M, T) by the whole network after the stem, in response units."""
        answer_MT = self._network.decode(stem.bins(mutated), stem.known_P[None], self._embeddings_TE)
        return self._member.in_response_units(answer_MT, self._treatments)

    def _far_away(self, fields: PromoterFields, shifts: Shifts, nearby: slice) -> tuple[Tensor, Tensor]:
        """What all bins but those nearby add, in units of exp(top): largest logits (H, T) and, for the nodes, the
        weighted sum of values and the sum of weights, (N, H·T·(D + 1))."""
        bins = fields.logit_HPT.shape[1]
        far = [part for part in (slice(0, nearby.start), slice(nearby.stop, bins)) if part.start < part.stop]
        heads, treatments = fields.logit_HPT.shape[0], fields.logit_HPT.shape[2]
        top_HT = fields.logit_HPT.new_full((heads, treatments), masked_logit(torch.float32))
        for part in far:
            top_HT = torch.maximum(top_HT, fields.logit_HPT[:, part].amax(1))
        answers = []
        at_once = max(1, NODE_ELEMENTS // fields.logit_HPT.numel())
        for few in torch.arange(len(shifts.bin_scale_M), device=top_HT.device).split(at_once):
            some = shifts.rows(few)
            sums = torch.zeros(1, 1, 1, self._value_channels + 1, device=top_HT.device)
            for part in far:
                weights_NHET = (fields.logits(some, part) - top_HT[:, None]).exp_()
                sums = sums + _weighted(weights_NHET, fields.values(some, part))
            answers.append(sums.expand(len(few), heads, treatments, -1).flatten(1))
        return top_HT, torch.cat(answers)

    def _near(
        self,
        fields: PromoterFields,
        mutated: MutatedBins,
        shifts: Shifts,
        nearby: slice,
        top_HT: Tensor,
        far_NX: Tensor,
        far_weights_MN: Tensor,
    ) -> Tensor:
        """Predictions (M, T) from the sums far away and the bins nearby of each mutant."""
        take = self._workspace.take
        level_MHT = shifts.bin_shift_M[:, None, None] * fields.level_HT
        mutants, heads, treatments = level_MHT.shape
        bins, channels = nearby.stop - nearby.start, self._value_channels
        logits_MHET = take("logits", level_MHT, mutants, heads, bins, treatments)
        fields.logits(shifts, nearby, out=logits_MHET)
        rows_M1 = torch.arange(mutants, device=level_MHT.device)[:, None]
        reached_MW = mutated.reached() - nearby.start
        logits_MHET[rows_M1, :, reached_MW] = fields.reached_logits(mutated) - level_MHT[:, None]
        largest_MHT = torch.maximum(logits_MHET.amax(2), top_HT)
        sink_HT = None
        if self._attention.sink_key_HD is not None:
            sink_HT = torch.einsum("thd,hd->ht", self._query_THD, self._attention.sink_key_HD)
            largest_MHT = torch.maximum(largest_MHT, sink_HT - level_MHT)
        weights_MHET = logits_MHET.sub_(largest_MHT[:, :, None]).exp_()
        sums_MHTD = take("sums", level_MHT, mutants, heads, treatments, channels + 1)
        _weighted(weights_MHET, fields.values(shifts, nearby, mutated), out=sums_MHTD)
        far_MX = take("far", level_MHT, mutants, far_NX.shape[1])
        torch.mm(far_weights_MN, far_NX, out=far_MX)
        sums_MHTD.addcmul_(far_MX.view_as(sums_MHTD), (top_HT - largest_MHT).exp_()[..., None])
        total_MHT1 = sums_MHTD[..., -1:]
        if sink_HT is not None:
            total_MHT1 = total_MHT1 + (sink_HT - level_MHT - largest_MHT).exp_()[..., None]
        attended_MTHD = take("attended", level_MHT, mutants, treatments, heads, channels)
        torch.div(sums_MHTD[..., :-1].transpose(1, 2), total_MHT1.transpose(1, 2), out=attended_MTHD)
        # Some mutants at a time, so that what the readout computes between stays in the cache.
        contexts = map(self._attention.project_output, attended_MTHD.flatten(2).split(READ_AT_ONCE))
        return torch.cat([self._network.readout(context, self._embeddings_TE) for context in contexts])


def _weighted(weights_MHET: Tensor, values_MEC: Tensor, out: Tensor | None = None) -> Tensor:
    """Sums over bins of weights times values, and of the weights behind them: (M, H, T, D + 1)."""
    mutants, heads, bins, treatments = weights_MHET.shape
    values_MHED = values_MEC.unflatten(2, (heads, -1)).transpose(1, 2)
    with_one = torch.cat([values_MHED, torch.ones_like(values_MHED[..., :1])], dim=-1).flatten(0, 1)
    weights = weights_MHET.view(mutants * heads, bins, treatments).transpose(1, 2)
    sums = torch.bmm(
        weights, with_one, out=None if out is None else out.view(mutants * heads, treatments, -1)
    )
    return sums.view(mutants, heads, treatments, -1)


if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

MAX_BATCH = 256
BATCH_BYTES = 1 << 24
"""What the widest tensor of a batch may take."""
MAX_MUTANTS = 64
MUTANT_BYTES = 1 << 23
"""The same for a batch of mutants; larger batches leave the cache and gain nothing."""


@dataclass(frozen=True, slots=True)
class PromoterPredictor:
    """A model and some treatments, on the model's device."""

    runner: "LoadedPromoterModel"
    treatments: TreatmentBatch

    @property
    def names(self) -> tuple[str, ...]:
        return self.treatments.names

    @property
    def batch_size(self) -> int:
        """Promoters per forward pass, so that no tensor of it is large."""
        config = self.runner.config
        per_treatment = max(config.num_heads * config.num_bins, config.channels, config.hidden_channels)
        widest = max(2 * config.length * config.channels, len(self.treatments.names) * per_treatment)
        return max(1, min(MAX_BATCH, BATCH_BYTES // (4 * widest)))

    @property
    def mutant_batch_size(self) -> int:
        """Mutants per forward pass, from the shape of the model."""
        config, num_treatments = self.runner.config, len(self.treatments.names)
        wide = max(config.channels, config.hidden_channels, config.num_heads * config.head_channels)
        if config.stem == Stem.TRANSFORMER:
            wide = max(wide, WIDENING * config.channels, config.num_heads * config.num_bins)
        match config.conditioning:
            case "concat":
                first = config.length * config.concat_channels[0]
                widest = max(first, num_treatments * max(config.concat_hidden))
            case "cross":
                # Of the bins only those near a mutation are at hand where few keys change (`cross_mutants`).
                mixes = config.readout == Readout.OWN and config.reader == Reader.HIDDEN
                one = config.hops == 1 and not config.stem_sites and not mixes
                few = config.attention_score == "dot" and one
                by_treatment = max(config.num_heads * (32 if few else config.num_bins), wide)
                if config.attention_score == "additive":
                    by_treatment = max(
                        by_treatment, config.num_bins * config.num_heads * config.head_channels
                    )
                widest = max(config.num_bins * wide, num_treatments * by_treatment)
            case _:
                widest = config.num_bins * wide * num_treatments
        return max(1, min(MAX_MUTANTS, MUTANT_BYTES // (4 * widest)))

    def digest(self) -> str:
        digest = hashlib.sha256("\0".join(self.names).encode())
        for tensor in self.treatments[1:]:
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def chosen(self, tasks: Sequence[int]) -> "PromoterPredictor":
        return PromoterPredictor(
            self.runner, self.treatments.rows(self.treatments.index_T.new_tensor(list(tasks)))
        )

    def forward(self, codes_BL: Tensor, letters_BLA: Tensor | None = None) -> Tensor:
        """Responses (B, T), logits of a binary model; `letters_BLA` as `PromoterModel.forward` has `bases_BL4`."""
        responses_BT: Tensor = self.runner.model(codes_BL, self.treatments, letters_BLA)
        return responses_BT

    def fast_mutants(self, batch_size: int) -> "CrossMutants | PlainMutants | FastMutants | None":
        """All single mutants with less work than a forward pass for each: of `cross` models."""
        found: list[CrossMutants | PlainMutants] = []
        for member in self.runner.model.members:
            network = member.network
            if isinstance(network, RidgeModel) and found:
                found.append(PlainMutants(member, self.treatments, batch_size))
            elif isinstance(network, CrossModel) and network.stem.is_local:
                with torch.inference_mode():
                    found.append(CrossMutants(member, network, self.treatments, batch_size))
            else:
                return None
        return found[0] if len(found) == 1 else FastMutants(found)


class PlainMutants(NamedTuple):
    """A member that is asked for each mutant."""

    member: Member
    treatments: TreatmentBatch
    batch_size: int

    def answers(self, codes_L: Tensor, position_M: Tensor, base_M: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """As `CrossMutants.answers`."""
        for rows in torch.arange(len(position_M), device=codes_L.device).split(self.batch_size):
            codes_NL = codes_L.repeat(len(rows), 1)
            codes_NL[torch.arange(len(rows)), position_M[rows]] = base_M[rows]
            yield rows, self.member(codes_NL, self.treatments)


class FastMutants(NamedTuple):
    """The sum of what the members of a model answer to mutants."""

    members: list[CrossMutants | PlainMutants]

    def answers(self, codes_L: Tensor, position_M: Tensor, base_M: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """As `CrossMutants.answers`."""
        total_MT = torch.zeros(0)
        for member in self.members:
            for rows, answer_NT in member.answers(codes_L, position_M, base_M):
                if not len(total_MT):
                    total_MT = answer_NT.new_zeros(len(position_M), answer_NT.shape[1])
                total_MT[rows] += answer_NT
        if len(total_MT):
            yield torch.arange(len(total_MT), device=total_MT.device), total_MT
