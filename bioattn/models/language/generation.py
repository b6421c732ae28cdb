"""New sequences from a decoder, token by token; keys and values of what was read are kept.

Shape suffixes: B sequences, L tokens, V tokens of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.errors import BioattnError, SettingsError
from bioattn.inference.passes import drawn_tokens
from bioattn.models.language.config import Shape
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.model import Cache
from bioattn.models.language.source import read_tokens
from bioattn.models.language.tables import require_likelihoods
from bioattn.sequences.vocabulary import EOS, UNKNOWN

AT_ONCE = 16
"""Sequences that are drawn together."""


def _continued(
    loaded: LoadedLanguageModel,
    tokens_BL: Tensor,
    new: int,
    temperature: float,
    top_p: float,
    generator: torch.Generator,
) -> Tensor:
    """The tokens and up to `new` more, fewer when all sequences have ended."""
    model, cache, last_BL = loaded.model, Cache(), tokens_BL
    made = [tokens_BL]
    ended_B = torch.zeros(len(tokens_BL), dtype=torch.bool, device=tokens_BL.device)
    never_V = torch.ones(model.num_tokens, dtype=torch.bool, device=tokens_BL.device)
    never_V[torch.from_numpy(loaded.vocabulary.written).to(never_V.device)] = False
    with torch.inference_mode():
        for _ in range(new):
            hidden_BC = model.hidden(last_BL, cache=cache)[:, -1]
            logits_BV = model.logits(hidden_BC, torch.tensor(cache.length - 1)).float()
            chosen_B = drawn_tokens(
                logits_BV.masked_fill_(never_V, -torch.inf), temperature, top_p, generator
            )
            last_BL = chosen_B.masked_fill_(ended_B, EOS)[:, None]
            made.append(last_BL)
            ended_B |= last_BL[:, 0] == EOS
            if bool(ended_B.all()):
                break
        return torch.cat(made, dim=1)


def drawn_sequences(
    loaded: LoadedLanguageModel,
    number: int,
    *,
    prompt: str = "",
    examples: Any = None,
    length: int | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
) -> Iterator[str]:
    """Letters of new sequences, which begin with `prompt`.

    examples: sequences that are read before each, as `read_tokens` takes them. length: most tokens of a sequence;
    None = what the model reads at once. temperature: 0 for the likeliest token each time. top_p: tokens are drawn
    from the smallest set that holds this much of the probability (Holtzman et al. 2020).

    Raises: BioattnError for a model that is no decoder; SettingsError for a prompt, examples or a length that do
    not fit it.
    """
    if loaded.config.shape is not Shape.DECODER:
        raise BioattnError(
            f"{loaded.path}: is an {loaded.config.shape}; sequences are drawn from a decoder "
            "(`bioattn train language --shape decoder`)"
        )
    require_likelihoods(loaded)
    vocabulary = loaded.vocabulary
    words = vocabulary.words(prompt, "--prompt")
    if vocabulary.published is None and len(prompt) % vocabulary.word:
        raise SettingsError(f"--prompt: {len(prompt)} letters are not whole tokens of {vocabulary.word}")
    begin = vocabulary.framed(words)[: vocabulary.begins + len(words)]
    if not len(begin):
        raise SettingsError(
            "--prompt: this model has no token that begins a sequence; give the first letters"
        )
    if len(words) and (words == UNKNOWN).all():
        raise SettingsError(f"--prompt {prompt}: holds no letter that the model knows")
    read: Sequence[NDArray[np.integer]] = ()
    if examples is not None:
        if not vocabulary.begins:
            raise SettingsError(f"--prompt-file: {loaded.path} has no token that begins a sequence")
        read = read_tokens(examples, vocabulary, loaded.config.context).items
    shown = sum(map(len, read))
    room = loaded.config.context - vocabulary.begins - shown
    if room < 1:
        raise SettingsError(
            f"--prompt-file: its sequences are {shown:,} tokens long; the model reads "
            f"{loaded.config.context:,} at once: give fewer or shorter ones"
        )
    most = room if length is None else length
    if not len(words) < most <= room:
        raise SettingsError(
            f"--max-length {most}: give more than the {len(words)} tokens of --prompt and at most {room}, which "
            f"the model reads at once{' behind --prompt-file' if shown else ''}"
        )
    if not 0 < top_p <= 1:
        raise SettingsError(f"--top-p {top_p:g}: give a share above 0 and up to 1")
    return drawn_texts(loaded, [*read, begin], number, most, temperature, top_p, seed)


def drawn_texts(
    loaded: LoadedLanguageModel,
    read: Sequence[NDArray[np.integer]],
    number: int,
    most: int,
    temperature: float,
    top_p: float,
    seed: int,
) -> Iterator[str]:
    """read: framed sequences, the last of which is the beginning of new ones. most: tokens of a sequence."""
    for layer in loaded.model.modules() if loaded.device.type == "cpu" else ():
        if isinstance(layer, nn.Linear) and layer.out_features >= layer.in_features:
            # A single row times a matrix that widens it is quicker where the matrix lies transposed in memory.
            layer.weight.data = layer.weight.data.T.contiguous().T
    generator = torch.Generator().manual_seed(seed)
    begin, tokens = len(read[-1]), np.concatenate(read)
    first = len(tokens) - begin + int(loaded.vocabulary.begins)
    for done in range(0, number, AT_ONCE):
        tokens_BL = torch.from_numpy(np.tile(tokens, (min(AT_ONCE, number - done), 1))).to(loaded.device)
        new = first + most - len(tokens)
        made_BL = _continued(loaded, tokens_BL, new, temperature, top_p, generator)
        for made in made_BL[:, first:].cpu().numpy():
            ends = np.flatnonzero(made == EOS)
            yield loaded.vocabulary.text(made[: ends[0]] if len(ends) else made)
