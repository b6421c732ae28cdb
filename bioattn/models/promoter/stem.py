"""From nucleotide codes to bins of motif matches.

Shape suffixes: B promoters, L bases, C channels, P bins.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from bioattn.models.promoter.best_match import best_match
from bioattn.models.promoter.config import Activation, PromoterModelConfig

AMBIGUOUS = 4
"""Code of N, of padding and of masked bases."""


def one_hot(codes_BL: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 codes (B, L) → (B, 4, L); N is all zeros."""
    bases = torch.arange(4, device=codes_BL.device, dtype=codes_BL.dtype)
    return (codes_BL.unsqueeze(1) == bases[:, None]).to(dtype)


class Exponential(nn.Module):
    """exp(x), the first-layer activation of Koo & Ploenzke 2021 (kept finite)."""

    def forward(self, x: Tensor) -> Tensor:
        """Values of any shape → values of the same shape."""
        return torch.exp(x.clamp(max=8.0))


def make_activation(name: Activation) -> nn.Module:
    """The module called `name`."""
    match name:
        case Activation.RELU:
            return nn.ReLU()
        case Activation.GELU:
            return nn.GELU()
        case Activation.EXPONENTIAL:
            return Exponential()


def padded_to_bins(codes_BL: Tensor, config: PromoterModelConfig) -> Tensor:
    """Codes with N added upstream until they fill whole bins, so that the last bin ends at the anchor."""
    missing = config.num_bins * config.pool - config.length
    return F.pad(codes_BL, (missing, 0), value=AMBIGUOUS) if missing else codes_BL


def known_bins(codes_BL: Tensor, pool: int) -> Tensor:
    """Codes of whole bins (B, P·pool) → bool (B, P), True where a bin holds at least one known base."""
    return (codes_BL.view(len(codes_BL), -1, pool) < AMBIGUOUS).any(-1)


class ConvStem(nn.Module):
    """One convolution over the one-hot sequence, its best match per bin, normalised."""

    def __init__(self, config: PromoterModelConfig) -> None:
        super().__init__()
        self.config = config
        self.receptive_field = config.pool + config.kernel - 1
        self.both_strands = config.both_strands
        self.convolution = nn.Conv1d(4, config.channels, config.kernel)  # holds the filters; see best_match
        self.activation = make_activation(config.activation)
        self.normalise = nn.GroupNorm(1, config.channels)

    def forward(self, codes_BL: Tensor, bases_BL4: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Codes (B, L) → features (B, P, C) and mask (B, P), True where a bin holds at least one known base.

        bases_BL4: replace the one-hot bases of the codes, differentiable; the mask is that of the codes.
        """
        codes_BL = padded_to_bins(codes_BL, self.config)
        bases_BL4 = (
            one_hot(codes_BL).transpose(1, 2)
            if bases_BL4 is None
            else F.pad(bases_BL4, (0, 0, codes_BL.shape[1] - bases_BL4.shape[1], 0))
        )
        filters_F4K = self.convolution.weight
        if self.both_strands:
            # A, C, G, T = 0..3, so flipping bases and positions is the reverse complement of the filter.
            filters_F4K = torch.cat([filters_F4K, filters_F4K.flip(1, 2)])
        best_BPC = best_match(bases_BL4, filters_F4K, self.config.pool)
        if self.both_strands:
            best_BPC = torch.maximum(*best_BPC.chunk(2, dim=-1))
        # Bias and activation come after the maximum: where the activation is monotone nothing changes.
        bias_C = self.convolution.bias
        assert bias_C is not None
        features_BPC = self.activation(best_BPC + bias_C)
        features_BPC = self.normalise(features_BPC.transpose(1, 2)).transpose(1, 2)
        return features_BPC, known_bins(codes_BL, self.config.pool)


class BinMixer(nn.Module):
    """Convolutions over bins: the effect of a motif depends on its neighbours.

    With `residual` each convolution is added to its input, so that a bin keeps its own features.
    """

    def __init__(self, channels: int, kernel: int, num_layers: int, *, residual: bool = True) -> None:
        super().__init__()
        self.residual = residual
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, padding=kernel // 2) for _ in range(num_layers)
        )
        self.normalisations = nn.ModuleList(nn.GroupNorm(1, channels) for _ in range(num_layers))

    def forward(self, features_BPC: Tensor) -> Tensor:
        """Bins (B, P, C) → mixed bins (B, P, C)."""
        features_BCP = features_BPC.transpose(1, 2)
        for convolution, normalise in zip(self.convolutions, self.normalisations, strict=True):
            mixed_BCP = F.gelu(normalise(convolution(features_BCP)))
            features_BCP = features_BCP + mixed_BCP if self.residual else mixed_BCP
        return features_BCP.transpose(1, 2)
