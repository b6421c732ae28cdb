"""How likely a model finds sequences, and what it makes of them.

Shape suffixes: B sequences, L tokens, M masked copies, C channels.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.models.language.config import Shape
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.inference.source import TokenSource, Window, windows
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.readout import is_word, mean_of_words
from bioattn.sequences.vocabulary import MASK, UNKNOWN

MASKED_AT_ONCE = 4096
"""Tokens of one forward pass of masked copies."""


@dataclass(frozen=True, slots=True)
class Score:
    """How likely one sequence is."""

    words: int
    """Words that were predicted: unknown ones (N, X) are not."""
    log_likelihood: float
    """Sum of ln of the probability of each word: given those before it (decoder), or given all others
    (encoder, Salazar et al. 2020)."""


def log_likelihoods(
    loaded: LoadedLanguageModel, tokens: NDArray[np.integer], most: int | None = None
) -> NDArray[np.float64]:
    """ln of the probability of each token of `<cls> … <eos>` behind `<cls>`; `<eos>` is NaN in an encoder.

    Of a published decoder that reads no `<cls>` the first word has none and is left out.

    Of rows of an alignment the gaps are given: they are NaN, and the probability is one of residues alone.
    An encoder-decoder reads the whole sequence, and its decoder's predictions are scored. most: tokens that are
    read at once, None = the model's context; longer sequences are read in `windows`.
    """
    causal = loaded.config.shape is not Shape.ENCODER
    found: list[NDArray[np.float64]] = []
    for window in windows(tokens, most or loaded.config.context, loaded.vocabulary, causal=causal):
        likely = np.full(len(window.tokens), np.nan)
        own = _log_likelihoods(loaded, window)
        likely[len(likely) - len(own) :] = own
        found.append(likely[window.kept] if found else own[: window.kept.stop - len(likely) + len(own)])
    return np.concatenate(found)


def _log_likelihoods(loaded: LoadedLanguageModel, window: Window) -> NDArray[np.float64]:
    tokens = window.tokens
    with torch.inference_mode():
        if loaded.config.shape is Shape.ENCODER:
            return _masked_log_likelihoods(loaded.model, tokens, window.kept, loaded.device)
        both = loaded.config.shape is Shape.ENCODER_DECODER
        source_1S = torch.from_numpy(tokens[None]).to(loaded.device) if both else None
        if both:
            tokens = loaded.vocabulary.started(tokens)
        tokens_1L = torch.from_numpy(tokens[None]).to(loaded.device)
        logits_LV = loaded.model(tokens_1L[:, :-1], source_1S)[0].float()
        return _likely(loaded.model, logits_LV, tokens_1L[0, 1:])


def _masked_log_likelihoods(
    model: LanguageModel, tokens: NDArray[np.int64], kept: slice, device: torch.device
) -> NDArray[np.float64]:
    """Each word among `kept` masked in turn (pseudo-log-likelihood)."""
    found = np.full(len(tokens) - 1, np.nan)
    places = 1 + np.flatnonzero(is_word(tokens[1:]))
    places = places[(places >= kept.start) & (places < kept.stop)]
    each = max(1, MASKED_AT_ONCE // len(tokens))
    for first in range(0, len(places), each):
        own = torch.from_numpy(places[first : first + each]).to(device)
        copies_ML = torch.from_numpy(tokens).to(device).repeat(len(own), 1)
        row = torch.arange(len(own), device=device)
        wanted = copies_ML[row, own].clone()
        copies_ML[row, own] = MASK
        logits_MV = model.logits(model.hidden(copies_ML)[row, own], own).float()
        found[own.cpu().numpy() - 1] = _likely(model, logits_MV, wanted)
    return found


def _likely(model: LanguageModel, logits_NV: Tensor, wanted_N: Tensor) -> NDArray[np.float64]:
    """ln of the probabilities of tokens; of a gap NaN."""
    gap = model.vocabulary.gap
    if gap is not None:
        logits_NV[:, gap] = -torch.inf
    likely_NV = logits_NV.log_softmax(-1)
    if gap is not None:
        likely_NV[:, gap] = torch.nan
    found: NDArray[np.float64] = likely_NV.gather(-1, wanted_N[:, None]).squeeze(-1).double().cpu().numpy()
    return found


def score(loaded: LoadedLanguageModel, tokens: NDArray[np.integer], most: int | None = None) -> Score:
    """The score of one sequence; `<eos>`, gaps and unknown words do not count: training never asks for them.
    most: as `log_likelihoods` takes it."""
    found = log_likelihoods(loaded, tokens, most)
    own = tokens[-len(found) :]
    words = found[is_word(own) & (own != loaded.vocabulary.gap) & (own != UNKNOWN)]
    return Score(len(words), float(words.sum()))


def embeddings(loaded: LoadedLanguageModel, tokens_BL: Tensor) -> Tensor:
    """Normalised channels (B, L, C) behind the last layer; of an encoder-decoder those of its encoder."""
    with torch.inference_mode():
        tokens_BL = tokens_BL.to(loaded.device)
        if loaded.config.shape is Shape.ENCODER_DECODER:
            return loaded.model.encode(tokens_BL)
        return loaded.model.hidden(tokens_BL)


Pool = Callable[[Tensor, Tensor], Tensor]
POOLS: dict[str, Pool] = {"mean": mean_of_words, "cls": lambda channels_BLC, _: channels_BLC[:, 0]}
"""How the channels (B, L, C) of tokens (B, L) become those of sequences (B, C)."""


def pooled(
    loaded: LoadedLanguageModel, batches: Iterable[TokenSource], pool: str, most: int
) -> NDArray[np.float32]:
    """Embeddings (sequences, C). most: tokens that are read at once.

    Of a sequence in windows, each word counts once in the mean, and `<cls>` is the mean over windows.
    """
    rows: list[Tensor] = []
    for batch in batches:
        if batch.longest <= most:
            tokens_BL = batch.padded().to(loaded.device)
            rows += POOLS[pool](embeddings(loaded, tokens_BL), tokens_BL).float().cpu().unbind()
        else:
            rows += [_pooled_windows(loaded, tokens, pool, most) for tokens in batch.tokens]
    return torch.stack(rows).numpy()


def _pooled_windows(loaded: LoadedLanguageModel, tokens: NDArray[np.integer], pool: str, most: int) -> Tensor:
    total_C, number = torch.zeros(loaded.config.channels), 0
    causal = loaded.config.shape is Shape.DECODER
    for window in windows(tokens, most, loaded.vocabulary, causal=causal):
        channels_LC = embeddings(loaded, torch.from_numpy(window.tokens)[None])[0].float().cpu()
        places = np.arange(len(window.tokens))[window.kept]
        taken = [0] if pool == "cls" else places[is_word(window.tokens[places])]
        total_C += channels_LC[taken].sum(0)
        number += len(taken)
    return total_C / number
