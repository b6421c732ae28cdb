"""A one-dimensional U-Net that predicts the bases of a promoter from a noised one, its noise and the treatments.

The network gives logits of the four bases at every position, whatever the noise: of the hidden bases (masked
noise), or of the bases under the normal noise, whose mean is then the denoised one-hot code (score interpolation,
Dieleman et al. 2022). Of these it reads what each noised base tells by itself, as probabilities (Graves et al.
2023), and learns what the rest of the promoter adds: by Bayes' rule their logits add up. Residual blocks, adaptive
group norm and attention at every stage follow Dhariwal & Nichol 2021; cross-attention to condition tokens follows
Rombach et al. 2022.

Shape suffixes: B promoters, S steps (noise levels), N = B·S, L positions, C channels, T treatments, K tokens, G
given channels.
"""

import math
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.attention.multi_head import MultiHeadAttention
from bioattn.attention.site import AttentionSite, Axis, Tile
from bioattn.choices import Noise
from bioattn.models.diffusion.family import Condition, DiffusionModelConfig
from bioattn.models.noise import BASES

UNKNOWN, OFF = 0, 1
"""Levels of a treatment: unknown, off, …, on (`config.levels`)."""
GROUPS = 8
FREQUENCIES = 8
"""Sines and cosines of time, and of the distance from the promoter's right end."""
REST = "rest"
"""The token that a position attends to when no treatment matters to it."""
STEP = "step"


class Denoiser(nn.Module):
    """Noised bases, noise and levels of treatments → logits of the bases."""

    first_level: Tensor

    def __init__(self, config: DiffusionModelConfig) -> None:
        super().__init__()
        self.config = config
        widths = [width_of(config, stage) for stage in range(config.stages)]
        hidden = 2 * config.channels
        treatments, states = len(config.treatments), config.levels + 1
        if config.noise is Noise.MASKED:
            self.embed_bases = nn.Linear(BASES + 1, widths[0])
        else:  # not `embed_bases`: earlier models read noised codes by it, and would be read wrongly
            self.embed_evidence = nn.Linear(BASES + 1, widths[0])
        self.embed_place = nn.Linear(2 * FREQUENCIES, widths[0], bias=False)
        self.embed_time = nn.Sequential(
            nn.Linear(2 * FREQUENCIES, hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        )
        self.rest_number = treatments * states
        self.levels = _level_vectors(config, hidden, 0) if config.condition != Condition.CROSS else None
        crosses = config.condition != Condition.ADAGN
        self.tokens = _level_vectors(config, config.channels, 1) if crosses else None
        self.register_buffer(
            "first_level", torch.from_numpy(np.arange(treatments) * states), persistent=False
        )
        inputs = [widths[0], *widths[:-1]]
        self.down = nn.ModuleList(Stage(config, own, hidden, n, "down") for n, own in enumerate(inputs))
        self.up = nn.ModuleList(
            Stage(config, widths[n] + widths[n - 1], hidden, n - 1, "up")
            for n in range(config.stages - 1, 0, -1)
        )
        self.normalise = nn.GroupNorm(GROUPS, widths[0])
        self.read = nn.Linear(widths[0], BASES)

    def freeze(self, vectors_TG: Tensor) -> None:
        """Take over the vectors of treatments that another model gave, each channel standardised."""
        spread_G = vectors_TG.std(0, correction=0)
        given_TG = (vectors_TG - vectors_TG.mean(0)) / torch.where(spread_G > 0, spread_G, 1)
        for table in (self.levels, self.tokens):
            if isinstance(table, FrozenVectors):
                table.given_TG.copy_(given_TG)

    def of_length(self, length: int) -> "Denoiser":
        """The same weights for promoters of another length."""
        if length == self.config.length:
            return self
        other = Denoiser(replace(self.config, length=length)).to(next(self.parameters()).device)
        other.load_state_dict(self.state_dict())
        return other.eval()

    def forward(self, bases: Tensor, time_BS: Tensor, levels_BT: Tensor, tile: Tile | None = None) -> Tensor:
        """Logits (B, S, L, 4).

        bases: codes (B, S, L), 4 = hidden, or evidence (B, S, L, 4) of `models.noise`. time_BS: the noise, from 0
        (none) to 1. levels_BT: 0 = unknown, 1 = off, …, `levels` = on. tile: which steps these are, for whoever
        listens.
        """
        if self.config.noise is Noise.MASKED:
            codes_NL = bases.flatten(0, 1).long()
            hidden_NLC = F.embedding(codes_NL, self.embed_bases.weight.T) + self.embed_bases.bias
        else:
            known = torch.ones_like(bases[..., :1])
            hidden_NLC = self.embed_evidence(torch.cat([bases.softmax(-1), known], -1).flatten(0, 1))
        steps = time_BS.shape[1]
        place_L = torch.arange(hidden_NLC.shape[1] - 1, -1, -1, device=time_BS.device)
        hidden_NLC = hidden_NLC + self.embed_place(_waves(place_L / 32))
        context_NC = self.embed_time(_waves(time_BS.flatten() * 8))
        numbers_BT = self.first_level + levels_BT
        if self.levels is not None:
            context_BC = self.levels(numbers_BT).sum(1)
            context_NC = context_NC + context_BC.repeat_interleave(steps, 0)
        context_NC = F.silu(context_NC)
        tokens_B1KC = None
        if self.tokens is not None:
            rest = numbers_BT.new_full((len(numbers_BT), 1), self.rest_number)
            tokens_B1KC = self.tokens(torch.cat([numbers_BT, rest], 1))[:, None]
        hidden, kept = hidden_NLC.transpose(1, 2), []
        for number, stage in enumerate(self.down):
            hidden = F.avg_pool1d(hidden, 2, ceil_mode=True) if number else hidden
            hidden = stage(hidden, context_NC, tokens_B1KC, steps, tile)
            kept.append(hidden)
        kept.pop()
        for stage in self.up:
            fine = kept.pop()
            hidden = torch.cat([hidden.repeat_interleave(2, -1)[..., : fine.shape[-1]], fine], 1)
            hidden = stage(hidden, context_NC, tokens_B1KC, steps, tile)
        logits_NL4: Tensor = self.read(F.silu(self.normalise(hidden)).transpose(1, 2))
        logits: Tensor = logits_NL4.unflatten(0, (-1, steps))
        return logits if self.config.noise is Noise.MASKED else logits + bases


class FrozenVectors(nn.Module):
    """As `nn.Embedding` of treatments at their levels, but read from vectors that another model gave.

    Number t · states + s stands for treatment t at level s; the last is the rest token. The vectors `given_TG` do
    not learn; how each level reads them does.
    """

    given_TG: Tensor

    def __init__(self, treatments: int, given_channels: int, states: int, channels: int, rest: int) -> None:
        super().__init__()
        self.register_buffer("given_TG", torch.zeros(treatments, given_channels))
        self.read = nn.Linear(given_channels, states * channels)
        self.rest_RC = nn.Parameter(torch.randn(rest, channels))

    def forward(self, numbers: Tensor) -> Tensor:
        """Vectors (…, channels) of the numbers (…)."""
        read_KC = self.read(self.given_TG).unflatten(1, (-1, self.rest_RC.shape[1])).flatten(0, 1)
        return F.embedding(numbers, torch.cat([read_KC, self.rest_RC]))


class Stage(nn.Module):
    """Residual blocks at one resolution, then attention to the treatments."""

    def __init__(
        self, config: DiffusionModelConfig, inputs: int, context: int, number: int, way: str
    ) -> None:
        """number: of the stage, from 0 at full resolution. way: down or up."""
        super().__init__()
        channels = width_of(config, number)
        self.blocks = nn.ModuleList(
            [Block(config, channels if n else inputs, channels, context) for n in range(config.blocks)]
        )
        self.attention = None
        if config.condition != Condition.ADAGN:
            self.normalise = nn.GroupNorm(GROUPS, channels)
            self.attention = MultiHeadAttention(
                query_channels=channels,
                key_channels=config.channels,
                value_channels=config.channels,
                output_channels=channels,
                num_heads=config.num_heads,
                head_channels=config.head_channels,
                site=_site(config, f"diffusion.{way}.{number}", number),
                first_gain=1.7,
            )

    def forward(
        self, hidden: Tensor, context_NC: Tensor, tokens: Tensor | None, steps: int, tile: Tile | None
    ) -> Tensor:
        """(N, C, L) → (N, channels, L)."""
        for block in self.blocks:
            hidden = block(hidden, context_NC)
        if self.attention is None or tokens is None:
            return hidden
        query = self.normalise(hidden).transpose(1, 2).unflatten(0, (-1, steps))
        attended = self.attention(query, tokens, tokens, tile=tile)
        mixed: Tensor = hidden + attended.flatten(0, 1).transpose(1, 2)
        return mixed


class Block(nn.Module):
    """Two convolutions; time and condition scale and shift what stands between them, and a skip goes around."""

    def __init__(self, config: DiffusionModelConfig, inputs: int, channels: int, context: int) -> None:
        super().__init__()
        self.normalise_input = nn.GroupNorm(GROUPS, inputs)
        self.first = nn.Conv1d(inputs, channels, config.kernel, padding="same")
        self.normalise_hidden = nn.GroupNorm(GROUPS, channels, affine=False)
        self.adapt = nn.Linear(context, 2 * channels)
        self.second = nn.Conv1d(channels, channels, config.kernel, padding="same")
        self.dropout = nn.Dropout(config.dropout)
        self.skip = nn.Conv1d(inputs, channels, 1) if inputs != channels else nn.Identity()

    def forward(self, inputs: Tensor, context_NC: Tensor) -> Tensor:
        """(N, inputs, L) → (N, channels, L)."""
        hidden = self.first(F.silu(self.normalise_input(inputs)))
        scale, shift = self.adapt(context_NC)[..., None].chunk(2, 1)
        hidden = self.normalise_hidden(hidden) * (1 + scale) + shift
        outputs: Tensor = self.skip(inputs) + self.second(self.dropout(F.silu(hidden)))
        return outputs


def width_of(config: DiffusionModelConfig, stage: int) -> int:
    return config.channels * (2 + stage) // 2 // GROUPS * GROUPS


def _level_vectors(config: DiffusionModelConfig, channels: int, rest: int) -> nn.Module:
    """A vector for each treatment at each level, and `rest` others."""
    treatments, states = len(config.treatments), config.levels + 1
    if config.frozen_channels:
        return FrozenVectors(treatments, config.frozen_channels, states, channels, rest)
    return nn.Embedding(treatments * states + rest, channels)


def _waves(values: Tensor) -> Tensor:
    """Sines and cosines of values at frequencies from 1 down to 1/100, (…, 2 · FREQUENCIES)."""
    places = torch.arange(FREQUENCIES, device=values.device) / (FREQUENCIES - 1)
    angles = values[..., None] * torch.exp(-math.log(100) * places)
    return torch.cat([angles.sin(), angles.cos()], -1)


def _site(config: DiffusionModelConfig, name: str, stage: int) -> AttentionSite:
    """Positions of a stage (bins of 2^stage bases) attend to treatments at every step."""
    edges = [*range(0, config.length, 2**stage), config.length]
    return AttentionSite(
        name=name,
        axes=(
            Axis("sample"),
            Axis(STEP),
            Axis("head", size=config.num_heads),
            Axis("query", "position", edges=tuple(edges)),
            Axis("key", "treatment", coordinates=(*config.treatments, REST)),
        ),
        heads=tuple(range(config.num_heads)),
    )
