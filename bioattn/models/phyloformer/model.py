"""Phyloformer (Nesterenko et al. 2025): the evolutionary distance of every pair of sequences of an alignment.

Shape suffixes: N sequences, P pairs of them (i < j, row-major), L sites (columns), C channels, H heads.

Attention is linear: a key is ELU + 1 over its sum, a query ELU + 1 over its mean, and the weight of key k for
query q is their product. So a head has one distribution over keys, which every query scales. As no weight depends
on both, values are summed first: projecting the sum to values, and values to the output, costs next to nothing.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from bioattn.attention.capture import hand_over, listener_for
from bioattn.attention.site import AttentionSite, Axis, Tile
from bioattn.errors import FormatError, SettingsError
from bioattn.io.checkpoint import load_state_dict
from bioattn.models.phyloformer.family import LETTERS, PhyloformerConfig, PhylogenyAlphabet
from bioattn.models.phyloformer.substitution import gamma_distances

TILE_ELEMENTS = 1 << 18
"""Elements of a tile of pairs: with the transition's hidden layer 5 MB in float32, which fits a cache."""
LEAST = 0.3
"""Substitutions of a pair without a difference, where distances begin as the likeliest."""
SITE, PAIR = "alignment_site", "sequence_pair"
"""Kinds of axes."""
SITES, PAIRS = "sites", "pairs"
"""Columns of the sample table that hold their lengths."""


def phyloformer_site(block: int, over: str, num_heads: int) -> AttentionSite:
    """The site `phyloformer.03.over_sites` or `phyloformer.03.over_pairs`.

    over: `sites`, where each pair has weights over its sites, or `pairs`, where each site has weights over pairs.
    """
    site, pair = Axis("site", SITE, lengths=SITES), Axis("pair", PAIR, lengths=PAIRS)
    outer, key = (pair, site) if over == "sites" else (site, pair)
    key = Axis("key", key.kind, lengths=key.lengths)
    return AttentionSite(
        name=f"phyloformer.{block:02d}.over_{over}",
        axes=(outer, Axis("head"), key),
        heads=tuple(range(num_heads)),
    )


class LinearAttention(nn.Module):
    """Linear attention (Katharopoulos et al. 2020) with keys and queries of one channel per head."""

    def __init__(self, config: PhyloformerConfig, site: AttentionSite) -> None:
        super().__init__()
        channels, heads = config.channels, config.num_heads
        self.site = site
        self.project_key = nn.Linear(channels, heads)
        self.project_query = nn.Linear(channels, heads)
        self.project_value = nn.Linear(channels, channels)
        self.project_output = nn.Linear(channels, channels)

    def keys(self, normed: Tensor) -> Tensor:
        """(..., C) → (..., H), not yet divided by their sum."""
        return F.elu(self.project_key(normed)) + 1

    def queries(self, normed: Tensor) -> Tensor:
        """(..., C) → (..., H), not yet divided by their mean."""
        return F.elu(self.project_query(normed)) + 1

    def outputs(self, summed: Tensor) -> Tensor:
        """What a query of weight 1 adds: (..., H, C) weighted sums of the inputs → (..., H, C).

        Of each head the sum is projected to its values, and these by its columns of the output projection.
        """
        heads = self.project_key.out_features
        value_HDC = self.project_value.weight.unflatten(0, (heads, -1))
        bias_HD = self.project_value.bias.unflatten(0, (heads, -1))
        output_HDC = self.project_output.weight.T.unflatten(0, (heads, -1))
        values = torch.einsum("...hc,hdc->...hd", summed, value_HDC) + bias_HD
        return torch.einsum("...hd,hdc->...hc", values, output_HDC)

    def add_over_sites(self, x_PLC: Tensor, normed_PLC: Tensor, tile: Tile) -> Tensor:
        """Add to some pairs what each attends to among its sites."""
        key_PLH = self.keys(normed_PLC)
        weight_PHL = (key_PLH / key_PLH.sum(1, keepdim=True)).transpose(1, 2)
        hand_over(self.site, weight_PHL, tile=tile)
        query_PLH = self.queries(normed_PLC)
        output_PHC = self.outputs(weight_PHL @ normed_PLC)
        scaled_PLH = query_PLH / query_PLH.mean(1, keepdim=True)
        return x_PLC + scaled_PLH @ output_PHC + self.project_output.bias


class Block(nn.Module):
    """Attention over sites, attention over pairs, and a transition, each with a norm before and a residual."""

    def __init__(self, config: PhyloformerConfig, number: int) -> None:
        super().__init__()
        channels = config.channels
        self.normalise_sites = nn.LayerNorm(channels)
        self.over_sites = LinearAttention(config, phyloformer_site(number, "sites", config.num_heads))
        self.normalise_pairs = nn.LayerNorm(channels)
        self.over_pairs = LinearAttention(config, phyloformer_site(number, "pairs", config.num_heads))
        self.normalise = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, 4 * channels)
        self.contract = nn.Linear(4 * channels, channels)

    def forward(self, tiles: list[Tensor]) -> None:
        """tiles: (P, L, C), some pairs each; replaced by those after the block."""
        number, attention = sum(map(len, tiles)), self.over_pairs
        kept: list[Tensor] | None = None if listener_for(attention.site) is None else []
        sums: Sequence[Tensor] = ()
        start = 0
        for place, x_PLC in enumerate(tiles):
            tile = Tile("pair", start, number)
            tiles[place] = self.over_sites.add_over_sites(x_PLC, self.normalise_sites(x_PLC), tile)
            start += len(x_PLC)
            # Sums of keys, queries and inputs over the pairs.
            normed_PLC = self.normalise_pairs(tiles[place])
            key_PLH, query_PLH = attention.keys(normed_PLC), attention.queries(normed_PLC)
            if kept is not None:
                kept.append(key_PLH)
            summed_LHC = key_PLH.permute(1, 2, 0) @ normed_PLC.transpose(0, 1)
            own = key_PLH.sum(0), query_PLH.sum(0), summed_LHC
            sums = own if not sums else [a + b for a, b in zip(sums, own, strict=True)]
        key_LH, query_LH, summed_LHC = sums
        query_mean_LH = query_LH / number
        output_LHC = attention.outputs(summed_LHC / key_LH.unsqueeze(-1))
        if kept is not None:
            hand_over(attention.site, (torch.cat(kept) / key_LH).permute(1, 2, 0).contiguous())
        for place, x_PLC in enumerate(tiles):
            query_PLH = attention.queries(self.normalise_pairs(x_PLC))
            added_LPC = (query_PLH / query_mean_LH).transpose(0, 1) @ output_LHC
            x_PLC = x_PLC + added_LPC.transpose(0, 1) + attention.project_output.bias
            tiles[place] = x_PLC + self.contract(F.gelu(self.expand(self.normalise(x_PLC))))


class Phyloformer(nn.Module):
    """Distances of all pairs of sequences."""

    def __init__(self, config: PhyloformerConfig) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Linear(len(LETTERS[config.alphabet]), config.channels)
        self.blocks = nn.ModuleList(Block(config, number) for number in range(config.num_blocks))
        self.project_distance = nn.Linear(config.channels, 1)
        self.embed_likeliest = nn.Linear(1, config.channels) if config.likelihood else None
        if config.likelihood:  # the first factor is 1
            nn.init.zeros_(self.project_distance.weight)
            nn.init.zeros_(self.project_distance.bias)

    def forward(self, codes_NL: Tensor) -> Tensor:
        """(P,) distances in expected substitutions per site; codes_NL: places in `LETTERS`."""
        log_P = None
        if self.config.likelihood:
            likeliest_P = gamma_distances(codes_NL.cpu().numpy().astype(np.uint8), self.config.alphabet)
            log_P = (
                torch.from_numpy(np.maximum(likeliest_P, LEAST / codes_NL.shape[1])).log().to(self.embed.bias)
            )
        tiles = list(self._embedded(codes_NL, log_P))
        for block in self.blocks:
            block(tiles)
        answers = (self.project_distance(x_PLC) for x_PLC in tiles)
        if log_P is not None:
            return torch.exp(log_P + torch.cat([answer_PL1.mean((1, 2)) for answer_PL1 in answers]))
        return torch.cat([F.softplus(answer_PL1).mean((1, 2)) for answer_PL1 in answers])

    def _embedded(self, codes_NL: Tensor, log_P: Tensor | None) -> Iterator[Tensor]:
        """(P, L, C) of some pairs at a time: the sum of both sequences."""
        first_P, second_P = torch.triu_indices(len(codes_NL), len(codes_NL), 1, device=codes_NL.device)
        embedded_NLC = F.relu(self.embed.weight.T[codes_NL] + self.embed.bias)
        pairs = max(1, TILE_ELEMENTS // max(1, embedded_NLC[0].numel()))
        edges = [*range(0, len(first_P), pairs), len(first_P)]
        for start, stop in pairwise(edges):
            x_PLC = embedded_NLC[first_P[start:stop]] + embedded_NLC[second_P[start:stop]]
            if self.embed_likeliest is not None and log_P is not None:
                x_PLC = x_PLC + self.embed_likeliest(log_P[start:stop, None, None])
            yield x_PLC


_NAMES = {
    "embedding_block.0": "embed",
    "row_attention": "over_sites",
    "col_attention": "over_pairs",
    "k_proj": "project_key",
    "q_proj": "project_query",
    "v_proj": "project_value",
    "out_proj": "project_output",
    "row_norm": "normalise_sites",
    "col_norm": "normalise_pairs",
    "ffn_norm": "normalise",
    "ffn.0": "expand",
    "ffn.3": "contract",
    "pwFNN.0": "project_distance",
    "attention_blocks": "blocks",
}
"""Names of the original's modules, and ours; none holds another."""
_PAIRS = "seq2pair"
"""A table of pairs for one number of sequences, which is no parameter."""
_NAME = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in _NAMES))


def read_parameters(path: Path) -> Phyloformer:
    """The model that a checkpoint holds, in evaluation mode on the CPU.

    Raises: FormatError when it is no checkpoint of Phyloformer, holds other objects than tensors, or numbers that
    are not finite; BioattnError when it cannot be read.
    """
    tensors = {
        _NAME.sub(lambda found: _NAMES[found[0]], name): tensor
        for name, tensor in load_state_dict(path).items()
        if name != _PAIRS
    }
    try:
        channels, letters = tensors["embed.weight"].shape[:2]
        heads = len(tensors["blocks.0.over_sites.project_key.weight"])
        blocks = len({name.split(".")[1] for name in tensors if name.startswith("blocks.")})
        config = PhyloformerConfig(num_blocks=blocks, num_heads=heads, channels=channels, likelihood=False)
    except (KeyError, TypeError, ValueError, SettingsError) as error:
        raise FormatError(f"{path}: no parameters of Phyloformer ({error})") from error
    if letters != len(LETTERS[PhylogenyAlphabet.PROTEIN]):
        raise FormatError(f"{path}: reads an alphabet of {letters} letters, that of proteins is needed")
    model = Phyloformer(config)
    wanted = model.state_dict()
    if missing := sorted(wanted.keys() - tensors.keys()):
        raise FormatError(f"{path}: the array {missing[0]} is missing from parameters of Phyloformer")
    if unknown := sorted(tensors.keys() - wanted.keys()):
        raise FormatError(f"{path}: the array {unknown[0]} is none of Phyloformer's parameters")
    for name, parameter in wanted.items():
        stored = tensors[name]
        # A linear layer of ours may be a convolution of width 1.
        while stored.dim() > parameter.dim() and stored.shape[-1] == 1:
            stored = stored.squeeze(-1)
        if stored.shape != parameter.shape:
            raise FormatError(
                f"{path}: the array {name} has shape {tuple(stored.shape)}, beside the others "
                f"{tuple(parameter.shape)} is needed"
            )
        if not bool(torch.isfinite(stored).all()):
            raise FormatError(f"{path}: the array {name} holds NaN or infinite values")
        tensors[name] = stored.float()
    model.load_state_dict(tensors)
    return model.eval()
