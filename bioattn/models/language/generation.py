"""New sequences from a decoder, token by token; keys and values of what was read are kept.

Shape suffixes: B sequences, L tokens, V tokens of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.inference.passes import drawn_tokens
from bioattn.models.language.config import Shape
from bioattn.models.language.family import LanguageGeneration
from bioattn.models.language.folder import LoadedLanguageModel, load_language_model
from bioattn.models.language.model import Cache
from bioattn.models.language.source import read_tokens
from bioattn.models.language.tables import require_likelihoods
from bioattn.models.running import Running, RunReport
from bioattn.sequences.vocabulary import EOS, UNKNOWN
from bioattn.text import counted

AT_ONCE = 16
"""Sequences that are drawn together."""


def generate(settings: LanguageGeneration, running: Running) -> RunReport:
    loaded = load_language_model(settings.model, running.device(settings.device, settings.threads))
    sequences = drawn_sequences(
        loaded,
        settings.number,
        prompt=settings.prompt,
        examples=settings.examples,
        length=settings.max_length,
        temperature=settings.temperature,
        top_p=settings.top_p,
        seed=settings.seed,
    )
    records: list[FastaRecord] = []
    running.progress.begin("sequences", settings.number)
    for letters in sequences:
        records.append(FastaRecord(f"generated_{len(records) + 1}", "", letters))
        running.progress.advance(1)
    running.progress.end()
    write_fasta(settings.output, records)
    return RunReport(f"wrote {settings.output}: {counted(len(records), 'sequence')}", sequences=len(records))


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
    model, device, generator = loaded.model, loaded.device, torch.Generator().manual_seed(seed)
    never_V = torch.ones(model.num_tokens, dtype=torch.bool, device=device)
    never_V[torch.from_numpy(loaded.vocabulary.written).to(device)] = False
    begin, tokens = len(read[-1]), np.concatenate(read)
    first = len(tokens) - begin + int(loaded.vocabulary.begins)
    for done in range(0, number, AT_ONCE):
        last_BL = torch.from_numpy(np.tile(tokens, (min(AT_ONCE, number - done), 1))).to(device)
        made, cache = [last_BL], Cache()
        ended_B = torch.zeros(len(last_BL), dtype=torch.bool, device=device)
        while len(made) <= first + most - len(tokens) and not bool(ended_B.all()):
            with torch.inference_mode():
                hidden_BC = model.hidden(last_BL, cache=cache)[:, -1]
                logits_BV = model.logits(hidden_BC, torch.tensor(cache.length - 1)).float()
                logits_BV.masked_fill_(never_V, -torch.inf)
                chosen_B = drawn_tokens(logits_BV, temperature, top_p, generator)
                last_BL = chosen_B.masked_fill_(ended_B, EOS)[:, None]
                ended_B |= last_BL[:, 0] == EOS
            made.append(last_BL)
        for words in torch.cat(made, 1)[:, first:].cpu().numpy():
            ends = np.flatnonzero(words == EOS)
            yield loaded.vocabulary.text(words[: ends[0]] if len(ends) else words)
