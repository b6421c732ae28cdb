"""`cross`: treatments query the positions of a promoter that is encoded once.

Shape suffixes: B promoters, P bins, T treatments, C channels, E treatment channels.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis, Contribution
from bioattn.models.promoter.config import PositionBias, PromoterModelConfig, QuerySource, Reader, Readout
from bioattn.models.promoter.layers import PromoterDropout, drop_channels
from bioattn.models.promoter.stem import STEMS, BinMixer
from bioattn.models.promoter.treatment_encoder import TreatmentEncoder, TreatmentReadout
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary

KNOT_SPACING = 32
"""Bases between two points of a treatment's own position bias, which runs straight from one to the next: it bends
slowly, and means the same in windows of other lengths."""
FIRST_GAIN = 1.7
"""Gain of the first query and key weights. On planted motifs a gain of 1 finds the motifs of some treatments late
or never; 5 makes maps too sharp to learn."""


class PositionCurve(nn.Module):
    """A treatment's own bias over the distance from the anchor, the window's right end: zero before training."""

    share_KP: Tensor
    """How much of the height at each knot a bin gets; 1 in all."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        num_knots = -(-config.length // KNOT_SPACING) + 1
        self.heights = nn.Linear(config.treatment_channels, config.num_heads * num_knots, bias=False)
        nn.init.zeros_(self.heights.weight)
        # By NumPy: on the meta device torch would import its compiler for each sum.
        edges = np.array(config.bin_edges, np.float32)
        distance_P = config.length - (edges[:-1] + edges[1:]) / 2
        gap_KP = distance_P / KNOT_SPACING - np.arange(num_knots, dtype=np.float32)[:, None]
        share_KP = torch.from_numpy(np.maximum(1 - abs(gap_KP), 0))
        self.register_buffer("share_KP", share_KP, persistent=False)

    def forward(self, embeddings_TE: Tensor) -> Tensor:
        """Embeddings (T, E) → biases (H, T, P)."""
        heights_THK = self.heights(embeddings_TE).unflatten(-1, (self.num_heads, -1))
        bias_HTP: Tensor = (heights_THK @ self.share_KP).transpose(0, 1)
        return bias_HTP


class BinReadout(nn.Module):
    """A readout of bins that see no more than the keys do, so that what is read of a bin belongs to it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels, channels)

    def values(self, bins_BPC: Tensor) -> Tensor:
        """What the attention's value layer reads of each bin, (B, P, C)."""
        return bins_BPC + F.gelu(self.hidden(bins_BPC))


class SharedReadout(BinReadout):
    """One reader for all treatments.

    The linear reader sums the attended numbers of the heads, one per bin, so the contribution of a bin is its
    weight times its number, and contributions and the intercept add up to the prediction. The hidden reader has a
    layer over the attended context.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config.channels)
        self.intercept = nn.Parameter(torch.zeros(()))
        self.reader = (
            nn.Sequential(
                nn.Linear(config.channels, config.hidden_channels),
                nn.GELU(),
                PromoterDropout(config.dropout),
                nn.Linear(config.hidden_channels, 1),
            )
            if config.reader == Reader.HIDDEN
            else None
        )

    def forward(self, attended_BTC: Tensor, treatments_TE: Tensor) -> Tensor:
        """Attended numbers of the heads, or context, (B, T, C) or (B, 1, C), and embeddings (T, E) → (B, T)."""
        answer_BT = attended_BTC.sum(-1) if self.reader is None else self.reader(attended_BTC).squeeze(-1)
        return (answer_BT + self.intercept).expand(-1, len(treatments_TE))


class LinearReadout(BinReadout):
    """A linear reader for each treatment: a bin contributes its weight times the number that the treatment reads.

    The number has the treatment's own sign, so that one motif can raise one response and lower another.
    """

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__(config.channels)
        self.linear_reader = nn.Linear(config.treatment_channels, config.channels)
        self.offset = nn.Linear(config.treatment_channels, 1)
        self.scale = config.channels**-0.5

    def reader(self, treatments_TE: Tensor) -> Tensor:
        """What each channel of the context adds to the answer, (T, C)."""
        reader_TC: Tensor = self.linear_reader(treatments_TE) * self.scale
        return reader_TC

    def forward(self, context_BTC: Tensor, treatments_TE: Tensor) -> Tensor:
        """Context (B, T, C), or (B, 1, C) where it is the same for all, and embeddings (T, E) → (B, T)."""
        offset_T: Tensor = self.offset(treatments_TE).squeeze(-1)
        return (context_BTC * self.reader(treatments_TE)).sum(-1) + offset_T


class CrossModel(nn.Module):
    """Keys are the stem's bins, one motif wide; values pass through convolutions over neighbouring bins.

    Where a stem knows the context of a bin, keys know it and values do not: a motif is read where it lies.

    Convolutions before the keys would mix neighbouring positions: predictions stay good, but maps become useless
    (`key_layers`, a control). With several hops the context of a hop is added to the query of the next (Stacked
    Attention Networks, Yang et al. 2016).
    """

    hops: Sequence[MultiHeadAttention]

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        channels, query = config.channels, config.attention_query
        shared, hidden = config.readout == Readout.SHARED, config.reader == Reader.HIDDEN
        mixes = hidden and not shared
        self.stem = STEMS[config.stem](config)
        self.stem_dropout = config.stem_dropout
        self.mixer = BinMixer(channels, config.value_kernel, config.value_layers if mixes else 0)
        self.key_mixer = BinMixer(channels, config.value_kernel, config.key_layers, residual=False)
        self.treatment_encoder = TreatmentEncoder(config, vocabulary, num_tokens=1)
        self.query = nn.Linear(config.treatment_channels, channels)
        self.shared_query_C = self.gain = self.position_bias_HP = self.position_curve = None
        if query in (QuerySource.SHARED, QuerySource.GAIN):
            self.shared_query_C = nn.Parameter(torch.randn(channels))
        if query == QuerySource.GAIN:
            self.gain = nn.Linear(config.treatment_channels, config.num_heads, bias=False)
        if query != QuerySource.UNIFORM and config.position_bias != PositionBias.NONE:
            self.position_bias_HP = nn.Parameter(torch.zeros(config.num_heads, config.num_bins))
        if query != QuerySource.UNIFORM and config.position_bias == PositionBias.TREATMENT:
            self.position_curve = PositionCurve(config)
        self.normalise_query = nn.ModuleList(nn.LayerNorm(channels) for _ in range(config.hops))
        self.hops = cast(Any, nn.ModuleList(self._hop(config, hop) for hop in range(config.hops)))
        self.readout: TreatmentReadout | BinReadout
        if mixes:
            self.readout = TreatmentReadout(
                channels, config.treatment_channels, config.hidden_channels, config.dropout
            )
        else:
            self.readout = SharedReadout(config) if shared else LinearReadout(config)

    def _hop(self, config: PromoterModelConfig, hop: int) -> MultiHeadAttention:
        channels, field = config.channels, self.stem.receptive_field
        heads = config.heads_at(config.stem_sites + hop)
        last = hop == config.hops - 1
        # Of a sum over the bins of the last hop, the hops before have no part.
        summed = config.contribution is Contribution.PRODUCT
        contributes = Contribution.NONE if summed and not last else config.contribution
        sums_heads = config.readout == Readout.SHARED and config.reader == Reader.LINEAR
        if field is not None:
            field += config.key_layers * (config.value_kernel - 1) * config.pool
        position = Axis("key", "position", edges=config.bin_edges)
        return MultiHeadAttention(
            query_channels=channels,
            key_channels=channels,
            value_channels=channels,
            output_channels=None if sums_heads and last else channels,
            num_heads=len(heads),
            head_channels=config.head_channels,
            score=config.attention_score,
            first_gain=FIRST_GAIN,
            uniform=config.attention_query in (QuerySource.POSITION, QuerySource.UNIFORM),
            site=AttentionSite(
                name=f"promoter.cross.{hop}",
                axes=(Axis("sample"), Axis("head"), Axis("treatment"), position),
                heads=heads,
                receptive_field=field,
                null_key=config.sink,
                contributes=contributes,
            ),
        )

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); `bases_BL4` as the stem takes them."""
        bins_BPC, known_BP = self.stem(codes_BL, bases_BL4)
        bins_BPC = drop_channels(bins_BPC, self.stem_dropout if self.training else 0.0)
        return self.decode(bins_BPC, known_BP, self.treatment_encoder(treatments))

    def decode(self, bins_BPC: Tensor, known_BP: Tensor, embeddings_TE: Tensor) -> Tensor:
        """Bins of the stem, their mask and embeddings of T treatments → predictions (B, T); True = holds bases."""
        keys_BPC = self.key_mixer(bins_BPC)
        # What is read of a bin is no wider than what attention is drawn by, but for a hidden reader's own.
        if isinstance(self.readout, BinReadout):
            values_BPC = self.readout.values(bins_BPC)
        else:
            values_BPC = self.mixer(keys_BPC)
        reader_TC = self.readout.reader(embeddings_TE) if isinstance(self.readout, LinearReadout) else None
        keys_BPC = self.stem.in_context(keys_BPC, known_BP)
        query_1TC = self.first_queries(embeddings_TE).unsqueeze(0)
        mask = known_BP[:, None, None, :]
        for normalise, attention in zip(self.normalise_query, self.hops, strict=True):
            bias = self.position_bias(attention.site, embeddings_TE)
            last = attention is self.hops[-1]
            context_BTC = attention(
                normalise(query_1TC),
                keys_BPC,
                values_BPC,
                mask=mask,
                bias=bias,
                reader=reader_TC if last else None,
            )
            if not last:
                query_1TC = query_1TC + context_BTC
        answer_BT: Tensor = self.readout(context_BTC, embeddings_TE)
        return answer_BT

    @torch.no_grad()
    def centre(self, codes_BL: Tensor, treatments: TreatmentBatch) -> None:
        """Count contributions from what is attended to in an average promoter of these: predictions stay.

        Weights of a row sum to 1, so readers of each treatment can move any number between contributions and
        intercept. With a null key nothing is moved: its value is 0.
        """
        attention = self.hops[-1]
        if not isinstance(self.readout, LinearReadout) or attention.site.null_key:
            return
        attended = []
        hook = attention.project_output.register_forward_pre_hook(
            lambda _module, inputs: attended.append(inputs[0].mean((0, 1)))
        )
        for part_BL in codes_BL.split(64):
            self(part_BL, treatments)
        hook.remove()
        mean_X = torch.stack(attended).mean(0)
        output = attention.project_output
        assert isinstance(output, nn.Linear)
        attention.project_value.bias.sub_(mean_X)
        output.bias.add_(output.weight @ mean_X)

    def intercept(self, embeddings_TE: Tensor) -> Tensor:
        """What a readout answers where nothing was attended to (T,): contributions are added to it."""
        last = self.hops[-1]
        nothing_11X = embeddings_TE.new_zeros(1, 1, last.project_value.out_features)
        answer_1T: Tensor = self.readout(last.project_output(nothing_11X), embeddings_TE)
        return answer_1T[0]

    def position_bias(self, site: AttentionSite, embeddings_TE: Tensor) -> Tensor | None:
        """Position bias (H, T, P) of a hop's heads, or (H, 1, P) where treatments share it.

        Hops share it too, though pruned hops may keep different heads.
        """
        if self.position_bias_HP is None:
            return None
        bias_HTP = self.position_bias_HP[:, None, :]
        if self.position_curve is not None:
            bias_HTP = bias_HTP + self.position_curve(embeddings_TE)
        if self.gain is not None:
            # The same number on all bins is as good as its negative on the null key.
            bias_HTP = bias_HTP + self.gain(embeddings_TE).T[..., None]
        return bias_HTP if site.num_heads == len(bias_HTP) else bias_HTP[list(site.heads)]

    def first_queries(self, embeddings_TE: Tensor) -> Tensor:
        """Queries (T, C) of the first hop."""
        query_TC: Tensor = self.query(embeddings_TE)
        return query_TC if self.shared_query_C is None else self.shared_query_C.expand_as(query_TC)
