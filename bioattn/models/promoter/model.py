"""A promoter model of any conditioning but `cross`, the units it answers in, and the attention sites it has.

`concat` has no attention map: two convolutions, flattened, joined with the treatment, and an MLP (FUN-PROSE,
Nambiar et al. 2023). `film` and `cross-all` have a trunk over bins that is conditioned on the treatment at every
stage; both run it once per treatment, so training samples some treatments per step. `ridge` is a ridge regression
on k-mer counts, which a network has to beat.

Shape suffixes: B promoters, T treatments, L bases, P bins, C channels, E treatment channels, M tokens, G
treatment features, H hidden channels, K k-mers, X blocks of counts.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bioattn.attention.capture import listener_for
from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis, Contribution
from bioattn.inference.runner import BinEncoder
from bioattn.models.promoter.config import Conditioning, PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.layers import PromoterDropout
from bioattn.models.promoter.stem import EXPECTED_ELEMENTS, ConvStem, PretrainedStem, kmer_numbers, one_hot
from bioattn.models.promoter.treatment_encoder import TreatmentEncoder, TreatmentReadout
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.kmers import canonical_columns


class ConcatModel(nn.Module):
    """The architecture of FUN-PROSE; with a numeric table (expression of all transcription factors), its model."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        first, second = config.concat_channels
        pools = config.concat_pools
        self.sequence = nn.Sequential(
            nn.Conv1d(4, first, config.concat_kernels[0], padding=config.concat_kernels[0] // 2),
            nn.MaxPool1d(pools[0]),
            nn.ReLU(),
            PromoterDropout(config.concat_dropout),
            nn.BatchNorm1d(first),
            nn.Conv1d(first, second, config.concat_kernels[1], padding=config.concat_kernels[1] // 2),
            nn.MaxPool1d(pools[1]),
            nn.ReLU(),
            nn.BatchNorm1d(second),
            nn.Flatten(),
        )
        flat = second * (config.length // pools[0] // pools[1])
        self.by_id = config.treatment_encoder is TreatmentEncoding.ID
        self.category_sizes = [len(values) + 1 for values in vocabulary.categories.values()]
        features = (
            len(vocabulary.names) if self.by_id else sum(self.category_sizes) + 2 * len(vocabulary.numbers)
        )
        self.unconditional_G = nn.Parameter(torch.zeros(features)) if config.unconditional else None
        self.condition = nn.Sequential(nn.Linear(features, config.concat_condition_channels), nn.ELU())
        widths = config.concat_hidden
        # The first fused layer acts on the concatenation; as a sum of two products it is the same layer, and
        # each promoter and each treatment passes through it once instead of once per pair.
        self.fuse_sequence = nn.Linear(flat, widths[0])
        self.fuse_condition = nn.Linear(config.concat_condition_channels, widths[0], bias=False)
        self.fused = nn.Sequential(
            nn.BatchNorm1d(widths[0]),
            nn.ELU(),
            nn.Linear(widths[0], widths[1]),
            nn.BatchNorm1d(widths[1]),
            nn.ELU(),
            nn.Linear(widths[1], widths[2]),
            nn.BatchNorm1d(widths[2]),
            nn.ELU(),
            nn.Linear(widths[2], 1),
        )

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); `bases_BL4` (B, L, 4) replace the codes."""
        bases_B4L = (
            one_hot(codes_BL, self.fuse_sequence.weight.dtype)
            if bases_BL4 is None
            else bases_BL4.transpose(1, 2)
        )
        sequence_BC = self.sequence(bases_B4L)
        condition_TC = self.condition(self._features(treatments))
        fused_BTH = self.fuse_sequence(sequence_BC).unsqueeze(1) + self.fuse_condition(condition_TC)
        answer_BT: Tensor = self.fused(fused_BTH.flatten(0, 1)).view(fused_BTH.shape[:2])
        return answer_BT

    def _features(self, treatments: TreatmentBatch) -> Tensor:
        """One-hot ids, or one-hot categories beside numbers and whether they are known: (T, G)."""
        if self.by_id:
            size = self.condition[0].in_features
            features_TG = F.one_hot(treatments.index_T.clamp(min=0), size).float()  # type: ignore[arg-type]
        else:
            categories = [
                F.one_hot(treatments.categories_TF[:, f], size).float()
                for f, size in enumerate(self.category_sizes)
            ]
            features_TG = torch.cat([*categories, treatments.numbers_TN, treatments.present_TN], dim=-1)
        if self.unconditional_G is not None:
            features_TG = torch.where(treatments.unconditional_T[:, None], self.unconditional_G, features_TG)
        return features_TG


class RidgeBlock(nn.Module):
    """Counts of k-mers in windows, or log(1 + count), and what each adds to each training treatment.

    Shape suffixes: S places where a k-mer may begin, W windows.
    """

    column_K: Tensor
    weight_S: Tensor
    window_S: Tensor
    added_XT: Tensor

    def __init__(self, k: int, strands: int, windows: int, log: bool, length: int, treatments: int) -> None:
        super().__init__()
        self.k, self.windows, self.log = k, windows, log
        # By NumPy: the content is needed on torch's meta device, too.
        columns = canonical_columns(k) if strands == 2 else np.arange(4**k)
        self.num_columns = int(columns.max()) + 1
        self.register_buffer("column_K", torch.from_numpy(columns), persistent=False)
        places = max(0, length - k + 1)
        self.register_buffer("weight_S", torch.zeros(places))
        self.register_buffer("window_S", torch.zeros(places, dtype=torch.int64))
        self.register_buffer("added_XT", torch.zeros(windows * self.num_columns, treatments))

    def set(self, weights_L: np.ndarray, windows_L: np.ndarray, added_XT: np.ndarray) -> None:
        """weights_L: what a k-mer counts that begins at each base, windows_L: in which window, from 0."""
        places = len(self.weight_S)
        self.weight_S.copy_(torch.from_numpy(weights_L[:places]))
        self.window_S.copy_(torch.from_numpy(windows_L[:places]))
        self.added_XT.copy_(torch.from_numpy(added_XT))

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None) -> Tensor:
        """What it adds to each training treatment (B, T)."""
        counts_BX = self.counts(self.cells(codes_BL)) if bases_BL4 is None else self.expected(bases_BL4)
        return (counts_BX.log1p() if self.log else counts_BX) @ self.added_XT

    def cells(self, codes_BL: Tensor) -> Tensor:
        """The feature of the k-mer that begins at each place (B, S); one more than all where it does not count."""
        number_BS = kmer_numbers(codes_BL, self.k)
        column_BS = self.column_K[number_BS.clamp(max=4**self.k - 1)]
        counted_BS = (number_BS < 4**self.k) & (self.weight_S != 0)
        return torch.where(counted_BS, self.window_S * self.num_columns + column_BS, len(self.added_XT))

    def counts(self, cells_BS: Tensor) -> Tensor:
        """Weighted numbers of occurrences (B, X)."""
        counts_BX = self.added_XT.new_zeros(len(cells_BS), len(self.added_XT) + 1)
        return counts_BX.scatter_add_(1, cells_BS, self.weight_S.expand_as(cells_BS))[:, :-1]

    def by_place(self, codes_BL: Tensor) -> Tensor:
        """What the k-mer at each place adds to each training treatment (B, S, T); occurrences share a log."""
        cells_BS = self.cells(codes_BL)
        share_BS = self.weight_S.expand_as(cells_BS)
        if self.log:
            count_BX = F.pad(self.counts(cells_BS), (0, 1))
            count_BS = count_BX.gather(1, cells_BS)
            share_BS = share_BS * count_BS.log1p() / count_BS.clamp(min=1e-30)
        return F.pad(self.added_XT, (0, 0, 0, 1))[cells_BS] * share_BS[..., None]

    def expected(self, bases_BL4: Tensor) -> Tensor:
        """Mean counts (B, X) of sequences whose bases are drawn apart by these probabilities; differentiable."""
        windows_BSk4 = bases_BL4.unfold(1, self.k, 1).transpose(2, 3)
        step = max(1, EXPECTED_ELEMENTS // (4**self.k * len(bases_BL4)))
        sums = []
        for window in range(self.windows):
            within = ((self.window_S == window) & (self.weight_S != 0)).nonzero()[:, 0]
            sum_BK = self.added_XT.new_zeros(len(bases_BL4), 4**self.k)
            for some in within.split(step):
                sum_BK = sum_BK + checkpoint(
                    _expected_counts, windows_BSk4[:, some], self.weight_S[some], use_reentrant=False
                )
            sums.append(sum_BK.new_zeros(len(sum_BK), self.num_columns).index_add(1, self.column_K, sum_BK))
        return torch.cat(sums, 1)


def _expected_counts(windows_BSk4: Tensor, weight_S: Tensor) -> Tensor:
    """Probabilities of bases at each place → weighted sum over places of those of all k-mers (B, 4^k)."""
    *first, last_BS4 = windows_BSk4.unbind(2)
    probability_BSK = weight_S[None, :, None].expand(len(windows_BSk4), -1, 1)
    for each_BS4 in first:
        probability_BSK = (probability_BSK[..., None] * each_BS4[:, :, None]).flatten(2)
    return (probability_BSK.transpose(1, 2) @ last_BS4).flatten(1)


class RidgeModel(nn.Module):
    """A sum of blocks of counts, and a number per treatment: what is predicted where nothing is counted.

    It weighs all bins alike; what a bin contributes is what its k-mers add, so that contributions add up as those
    of attention do. A treatment that was not in training gets the mean of those that were.
    """

    offset_T: Tensor

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        number = len(vocabulary.names)
        blocks = (
            RidgeBlock(k, strands, windows, bool(log), config.length, number)
            for k, strands, windows, log in config.ridge_blocks
        )
        self.blocks: Sequence[RidgeBlock] = cast(Any, nn.ModuleList(blocks))
        self.register_buffer("offset_T", torch.zeros(number))
        position = Axis("key", "position", edges=config.bin_edges)
        self.site = AttentionSite(
            name="promoter.ridge.0",
            axes=(Axis("sample"), Axis("head"), Axis("treatment"), position),
            heads=(0,),
            receptive_field=config.pool,
            contributes=Contribution.PRODUCT,
        )

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); bases_BL4: probabilities of bases instead."""
        listener = listener_for(self.site)
        if listener is not None and listener.receiver is not None:
            added_B1TP = _of(treatments, self.contributions(codes_BL).transpose(1, 2)).unsqueeze(1)
            bins = torch.full_like(added_B1TP, 1 / added_B1TP.shape[-1])
            listener.receiver.receive(self.site, bins, added_B1TP)
        answer_BT = self.offset_T.expand(len(codes_BL), -1)
        for block in self.blocks:
            answer_BT = answer_BT + block(codes_BL, bases_BL4)
        return _of(treatments, answer_BT)

    def intercept(self, treatments: TreatmentBatch) -> Tensor:
        """What is predicted where nothing is counted (T,): contributions are added to it."""
        return _of(treatments, self.offset_T[None])[0]

    def contributions(self, codes_BL: Tensor) -> Tensor:
        """What the bases of each bin add for the training treatments (B, P, T): all bases of a k-mer alike."""
        edges = torch.tensor(self.site.key_edges, device=codes_BL.device)
        added_BPT = self.offset_T.new_zeros(len(codes_BL), len(edges) - 1, len(self.offset_T))
        for block in self.blocks:
            by_base_BLT = F.pad(block.by_place(codes_BL) / block.k, (0, 0, block.k - 1, block.k - 1))
            by_base_BLT = by_base_BLT.unfold(1, block.k, 1).sum(-1)
            bin_L = torch.bucketize(
                torch.arange(codes_BL.shape[1], device=edges.device), edges[1:], right=True
            )
            added_BPT.index_add_(1, bin_L, by_base_BLT)
        return added_BPT


def _of(treatments: TreatmentBatch, answers_BTX: Tensor) -> Tensor:
    """Answers (B, T, …) for the training treatments → those for `treatments`; the mean for others."""
    known_T = treatments.index_T >= 0
    chosen_BTX = answers_BTX[:, treatments.index_T.clamp(min=0)]
    if bool(known_T.all()):
        return chosen_BTX
    return torch.where(
        known_T.view(1, -1, *[1] * (answers_BTX.dim() - 2)), chosen_BTX, answers_BTX.mean(1, keepdim=True)
    )


class AdaptiveGroupNormStage(nn.Module):
    """Residual convolution, GroupNorm, scale and shift from the treatment (AdaGN, Dhariwal & Nichol 2021)."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        channels = config.channels
        self.convolution = nn.Conv1d(
            channels, channels, config.value_kernel, padding=config.value_kernel // 2
        )
        self.normalise = nn.GroupNorm(1, channels, affine=False)
        self.modulate = nn.Linear(config.treatment_channels, 2 * channels)

    def forward(self, features_BTPC: Tensor, embeddings_TE: Tensor) -> Tensor:
        """(B, T or 1, P, C) → (B, T, P, C)."""
        flat_NCP = features_BTPC.flatten(0, 1).transpose(1, 2)
        normal_BTPC = self.normalise(self.convolution(flat_NCP)).transpose(1, 2)
        normal_BTPC = normal_BTPC.unflatten(0, features_BTPC.shape[:2])
        scale_TC, shift_TC = self.modulate(embeddings_TE).chunk(2, dim=-1)
        return features_BTPC + F.gelu(normal_BTPC * (1 + scale_TC[:, None]) + shift_TC[:, None])


class TokenAttentionStage(nn.Module):
    """Residual convolution and GroupNorm; then each position queries the treatment's tokens (Rombach et al. 2022).

    A sink key beside the tokens lets a position ignore the treatment, and makes at least two keys: over a
    single one softmax is 1 everywhere.
    """

    def __init__(self, config: PromoterModelConfig, stage: int) -> None:
        super().__init__()
        channels = config.channels
        self.convolution = nn.Conv1d(
            channels, channels, config.value_kernel, padding=config.value_kernel // 2
        )
        self.normalise = nn.GroupNorm(1, channels)
        self.normalise_query = nn.LayerNorm(channels)
        self.attention = MultiHeadAttention(
            query_channels=channels,
            key_channels=config.treatment_channels,
            value_channels=config.treatment_channels,
            output_channels=channels,
            num_heads=len(config.heads_at(stage)),
            head_channels=config.head_channels,
            score=config.attention_score,
            site=AttentionSite(
                name=f"promoter.stage.{stage}",
                axes=(
                    Axis("sample"),
                    Axis("treatment"),
                    Axis("head"),
                    Axis("query", "position", edges=config.bin_edges),
                    Axis("key", "token"),
                ),
                heads=config.heads_at(stage),
                null_key=True,
            ),
        )

    def forward(self, features_BTPC: Tensor, tokens_TMC: Tensor) -> Tensor:
        """(B, T or 1, P, C) → (B, T, P, C)."""
        flat_NCP = features_BTPC.flatten(0, 1).transpose(1, 2)
        mixed_BTPC = F.gelu(self.normalise(self.convolution(flat_NCP))).transpose(1, 2)
        features_BTPC = features_BTPC + mixed_BTPC.unflatten(0, features_BTPC.shape[:2])
        tokens_1TMC = tokens_TMC.unsqueeze(0)
        answered: Tensor = self.attention(self.normalise_query(features_BTPC), tokens_1TMC, tokens_1TMC)
        # The multiplicative step lets a token switch a motif off, which a sum cannot.
        return features_BTPC + answered * torch.sigmoid(features_BTPC) + answered


class TrunkModel(nn.Module):
    """The stem once per promoter, the conditioned stages, the mean and maximum over bins, and the readout."""

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        self.by_tokens = config.conditioning is Conditioning.CROSS_ALL
        self.stem = ConvStem(config)
        self.treatment_encoder = TreatmentEncoder(
            config, vocabulary, num_tokens=config.num_tokens if self.by_tokens else 1
        )
        stages = range(config.value_layers + 1)
        self.stages = nn.ModuleList(
            TokenAttentionStage(config, stage) if self.by_tokens else AdaptiveGroupNormStage(config)
            for stage in stages
        )
        self.readout = TreatmentReadout(
            2 * config.channels, config.treatment_channels, config.hidden_channels, config.dropout
        )

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Codes (B, L) and T treatments → predictions (B, T); `bases_BL4` as the stem takes them."""
        bins_BPC, known_BP = self.stem(codes_BL, bases_BL4)
        embeddings_TE = self.treatment_encoder(treatments)
        condition = self.treatment_encoder.tokens(treatments) if self.by_tokens else embeddings_TE
        features_BTPC = bins_BPC.unsqueeze(1).expand(-1, len(treatments.names), -1, -1)
        for stage in self.stages:
            features_BTPC = stage(features_BTPC, condition)
        known_B1P1 = known_BP[:, None, :, None]
        mean_BTC = (features_BTPC * known_B1P1).sum(2) / known_B1P1.sum(2).clamp(min=1)
        best_BTC = features_BTPC.masked_fill(~known_B1P1, -1e4).amax(2)
        answer_BT: Tensor = self.readout(torch.cat([mean_BTC, best_BTC], dim=-1), embeddings_TE)
        return answer_BT


class Member(nn.Module):
    """A network and the units it answers in.

    It works in standard units; `response_mean_T` and `response_sd_T` of each training treatment turn its answers
    into its part of the responses. A treatment that was not in training gets their means.
    """

    response_mean_T: Tensor
    response_sd_T: Tensor

    def __init__(self, config: PromoterModelConfig, vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        self.config = config
        self.network: ConcatModel | CrossModel | RidgeModel | TrunkModel
        match config.conditioning:
            case Conditioning.CONCAT:
                self.network = ConcatModel(config, vocabulary)
            case Conditioning.CROSS:
                self.network = CrossModel(config, vocabulary)
            case Conditioning.FILM | Conditioning.CROSS_ALL:
                self.network = TrunkModel(config, vocabulary)
            case Conditioning.RIDGE:
                self.network = RidgeModel(config, vocabulary)
        self.register_buffer("response_mean_T", torch.zeros(len(vocabulary.names)))
        self.register_buffer("response_sd_T", torch.ones(len(vocabulary.names)))

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """Its part (B, T) of what `PromoterModel.forward` gives."""
        return self.in_response_units(self.network(codes_BL, treatments, bases_BL4), treatments)

    def in_response_units(self, answer_BT: Tensor, treatments: TreatmentBatch) -> Tensor:
        """Answers in standard units → float32 responses, or logits for a binary task."""
        mean_T, sd_T = self.response_units(treatments)
        return answer_BT.float() * sd_T + mean_T

    def response_units(self, treatments: TreatmentBatch) -> tuple[Tensor, Tensor]:
        """Mean (T,) and standard deviation (T,) of the responses that answers in standard units stand for."""
        known_T = treatments.index_T >= 0
        index_T = treatments.index_T.clamp(min=0)
        mean_T = torch.where(known_T, self.response_mean_T[index_T], self.response_mean_T.mean())
        sd_T = torch.where(known_T, self.response_sd_T[index_T], self.response_sd_T.mean())
        return mean_T, sd_T

    @torch.no_grad()
    def set_units(self, mean_T: np.ndarray, sd_T: np.ndarray) -> None:
        """Answer in units of which 0 and 1 stand for these responses of the training treatments."""
        self.response_mean_T.copy_(torch.from_numpy(mean_T))
        self.response_sd_T.copy_(torch.from_numpy(sd_T))


class PromoterModel(nn.Module):
    """Predicts the responses of promoters to treatments: the sum of what its members answer, most often one.

    Of a mean of several networks, each member's units hold its share, so that contributions of all sites and one
    intercept add up to the prediction.
    """

    members: Sequence[Member]

    def __init__(self, configs: Sequence[PromoterModelConfig], vocabulary: TreatmentVocabulary) -> None:
        super().__init__()
        self.members = cast(Any, nn.ModuleList(Member(config, vocabulary) for config in configs))
        numbers: Counter[str] = Counter()
        for module in self.modules():
            if isinstance(module, MultiHeadAttention | RidgeModel) and module.site.name.startswith(
                "promoter."
            ):
                kind = module.site.name.rpartition(".")[0]
                module.site = replace(module.site, name=f"{kind}.{numbers[kind]}")
                numbers[kind] += 1

    @classmethod
    def mean(
        cls, models: Sequence["PromoterModel"], vocabulary: TreatmentVocabulary, shares: Sequence[float] = ()
    ) -> "PromoterModel":
        """The model that predicts the mean of what `models` do, with these shares or equal ones; with one, that
        one."""
        if len(models) == 1:
            return models[0]
        shares = shares or [1 / len(models)] * len(models)
        return cls._sum(
            [(each, share) for model, share in zip(models, shares, strict=True) for each in model.members],
            vocabulary,
        )

    @classmethod
    def beside(
        cls, trained: "PromoterModel", model: "PromoterModel", vocabulary: TreatmentVocabulary
    ) -> "PromoterModel":
        """`trained`, networks of the same targets, with the ridges of `model` and the shares that these have
        there."""
        ridges = [(each, 1.0) for each in model.members if isinstance(each.network, RidgeModel)]
        if not ridges:
            return trained
        # Deviations of the networks of a mean are as their shares.
        whole, share = (
            sum(
                float(each.response_sd_T.sum())
                for each in of.members
                if not isinstance(each.network, RidgeModel)
            )
            for of in (trained, model)
        )
        return cls._sum([*((each, share / whole) for each in trained.members), *ridges], vocabulary)

    @classmethod
    def _sum(cls, shares: Sequence[tuple[Member, float]], vocabulary: TreatmentVocabulary) -> "PromoterModel":
        """Copies of members, each with a share of what it answers."""
        made = cls([of.config for of, _ in shares], vocabulary)
        for member, (of, share) in zip(made.members, shares, strict=True):
            member.load_state_dict(of.state_dict())
            member.response_mean_T *= share
            member.response_sd_T *= share
        return made.to(next(shares[0][0].parameters()).device).eval()

    @property
    def config(self) -> PromoterModelConfig:
        """The architecture of the first member; all see the same window."""
        return self.members[0].config

    @property
    def encoder(self) -> BinEncoder | None:
        stems = (module for module in self.modules() if isinstance(module, PretrainedStem))
        return next((stem.encoder for stem in stems), None)

    def forward(
        self, codes_BL: Tensor, treatments: TreatmentBatch, bases_BL4: Tensor | None = None
    ) -> Tensor:
        """uint8 codes (B, length) and T treatments → float32 (B, T): responses, or logits for a binary task.

        bases_BL4: (B, length, 4), read instead of the codes' one-hot bases and differentiable; the codes still say
        where there is a base at all.
        """
        answers = [member(codes_BL, treatments, bases_BL4) for member in self.members]
        return torch.stack(answers).sum(0) if len(answers) > 1 else answers[0]


def attention_sites(model: nn.Module) -> dict[str, AttentionSite]:
    """Every attention site of a model by name, in the order of its modules; those of a pretrained encoder are
    its own family's."""
    return {
        module.site.name: module.site
        for module in model.modules()
        if isinstance(module, MultiHeadAttention | RidgeModel) and module.site.name.startswith("promoter.")
    }
