"""A language model of DNA as the encoder of another family's model.

Shape suffixes: B sequences, L bases, N tokens, P bins, C channels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bioattn.errors import BioattnError
from bioattn.inference.runner import BinEncoder
from bioattn.io.settings import build
from bioattn.models.language.config import LanguageModelConfig
from bioattn.models.language.folder import LoadedLanguageModel
from bioattn.models.language.model import LanguageModel
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import PAD, PublishedTokens, Vocabulary


class LanguageEncoder(BinEncoder):
    """A bin is the mean of the tokens in it, by the bases that they share with it."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        if model.config.alphabet is not Alphabet.DNA:
            raise BioattnError(f"the encoder reads {model.config.alphabet}; promoters need a model of DNA")
        model.fine_tune(None)
        self.model = model
        self.channels = model.config.channels

    def description(self) -> dict[str, Any]:
        published = self.model.vocabulary.published
        return {
            "family": "language",
            "architecture": self.model.config.to_json(),
            "vocabulary": None if published is None else asdict(published),
        }

    def require_length(self, length: int) -> None:
        tokens = len(self.model.vocabulary.framed(np.zeros(self.model.vocabulary.num_tokens(length), int)))
        if tokens > self.model.config.context:
            raise BioattnError(
                f"the promoters are {tokens:,} tokens long; the encoder reads {self.model.config.context:,} "
                "at once: prepare shorter promoters, or train it with a larger context"
            )

    def forward(self, codes_BL: Tensor, edges: Sequence[int]) -> Tensor:
        vocabulary, length = self.model.vocabulary, codes_BL.shape[1]
        rows = [vocabulary.framed(vocabulary.tokenize(codes)) for codes in codes_BL.cpu().numpy()]
        tokens_BN = pad_sequence([torch.from_numpy(row) for row in rows], True, PAD).to(codes_BL.device)
        ends_P1 = np.array(edges)[:, None]
        shared_BPN = np.zeros((len(rows), len(edges) - 1, tokens_BN.shape[1]), np.float32)
        for shared_PN, row in zip(shared_BPN, rows, strict=True):
            first_N, last_N = vocabulary.spans(row, length).T
            within_PN = np.minimum(last_N, ends_P1[1:]) - np.maximum(first_N, ends_P1[:-1])
            shared_PN[:, : len(row)] = within_PN.clip(min=0)
        shared_BPN /= shared_BPN.sum(-1, keepdims=True).clip(min=1)
        hidden_BNC = self.model.embeddings(tokens_BN)
        return torch.from_numpy(shared_BPN).to(hidden_BNC) @ hidden_BNC


def encoder_of(loaded: LoadedLanguageModel) -> LanguageEncoder:
    return LanguageEncoder(loaded.model)


def described(description: Mapping[str, Any]) -> LanguageEncoder:
    """An untrained one, by its `description`."""
    config = build(LanguageModelConfig, description["architecture"], "encoder")
    published = description["vocabulary"]
    if published is not None:
        published = build(PublishedTokens, published, "encoder")
    return LanguageEncoder(LanguageModel(config, Vocabulary(config.alphabet, config.kmer, published)))
