"""New sequences from a decoder, token by token; keys and values of what was read are kept.

Shape suffixes: B sequences, L tokens, V tokens of the vocabulary.
"""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.model import Cache
from bioattn.sequences.vocabulary import EOS


def generate(
    loaded: LoadedLanguageModel,
    prompt: NDArray[np.int64],
    number: int,
    *,
    length: int,
    temperature: float,
    top_p: float,
    seed: int,
) -> Iterator[NDArray[np.int64]]:
    """Sequences that begin with the tokens `prompt` (with `<cls>`), without `<cls>` and `<eos>`.

    length: most tokens of a sequence, prompt included. temperature: 0 for the likeliest token each time. top_p:
    tokens are drawn from the smallest set that holds this much of the probability (Holtzman et al. 2020).
    """
    generator = torch.Generator().manual_seed(seed)
    each = 16
    for first in range(0, number, each):
        rows = min(each, number - first)
        tokens_BL = torch.from_numpy(np.tile(prompt, (rows, 1))).to(loaded.device)
        yield from _batch(loaded, tokens_BL, length, temperature, top_p, generator)


def _batch(
    loaded: LoadedLanguageModel,
    tokens_BL: Tensor,
    length: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> Iterator[NDArray[np.int64]]:
    cache, new_BL = Cache(), tokens_BL
    ended_B = torch.zeros(len(tokens_BL), dtype=torch.bool, device=tokens_BL.device)
    never_V = torch.ones(loaded.model.num_tokens, dtype=torch.bool)
    never_V[torch.from_numpy(loaded.vocabulary.written)] = False
    never_V = never_V.to(tokens_BL.device)
    with torch.inference_mode():
        while tokens_BL.shape[1] <= length and not bool(ended_B.all()):
            last = torch.tensor(tokens_BL.shape[1] - 1)
            logits_BV = loaded.model.logits(loaded.model.hidden(new_BL, cache=cache)[:, -1], last).float()
            logits_BV[:, never_V] = -torch.inf
            chosen_B = _drawn(logits_BV, temperature, top_p, generator)
            chosen_B = torch.where(ended_B, EOS, chosen_B)
            ended_B |= chosen_B == EOS
            new_BL = chosen_B[:, None]
            tokens_BL = torch.cat([tokens_BL, new_BL], dim=1)
    for tokens in tokens_BL[:, int(loaded.vocabulary.begins) :].cpu().numpy():
        ends = np.flatnonzero(tokens == EOS)
        yield tokens[: ends[0]] if len(ends) else tokens


def _drawn(logits_BV: Tensor, temperature: float, top_p: float, generator: torch.Generator) -> Tensor:
    """One token of each row; drawn on the CPU, so that every device draws the same."""
    if temperature == 0:
        return logits_BV.argmax(-1)
    probability_BV = (logits_BV / temperature).softmax(-1).cpu()
    ordered_BV, place_BV = probability_BV.sort(dim=-1, descending=True, stable=True)
    before_BV = ordered_BV.cumsum(-1) - ordered_BV
    ordered_BV = ordered_BV.masked_fill(before_BV >= top_p, 0.0)
    drawn_B1 = torch.multinomial(ordered_BV, 1, generator=generator)
    chosen_B: Tensor = place_BV.gather(-1, drawn_B1).squeeze(-1).to(logits_BV.device)
    return chosen_B
