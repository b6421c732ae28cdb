"""Small language models, and some whose weights are set by hand, so that what their heads do is known.

The channels hold the token itself, its position, and the token before it. Layers add to them; the output reads the
first.
"""

import numpy as np
import torch

from bioattn.choices import PositionEncoding
from bioattn.models.language.config import LanguageModelConfig, Shape
from bioattn.models.language.folder import LoadedLanguageModel, write_language_model
from bioattn.models.language.model import LanguageModel
from bioattn.models.language.scoring import Score, Wanted, outputs
from bioattn.sequences.choices import Alphabet
from bioattn.sequences.vocabulary import RESIDUES, SPECIAL
from tests.making import shaken

CONTEXT = 42
TOKENS = len(SPECIAL) + len(RESIDUES)
TOKEN, PLACE, BEFORE = (
    slice(0, TOKENS),
    slice(TOKENS, TOKENS + CONTEXT),
    slice(TOKENS + CONTEXT, 2 * TOKENS + CONTEXT),
)
CHANNELS = 2 * TOKENS + CONTEXT
CPU = torch.device("cpu")


def make_config(shape=Shape.ENCODER, **other):
    """A small architecture for DNA."""
    sizes = {"layers": 2, "channels": 16, "num_heads": 2, "hidden_channels": 24, "context": 24}
    return LanguageModelConfig(**{"alphabet": Alphabet.DNA, "shape": shape, **sizes, **other})


def make_model(shape, positions=PositionEncoding.ROTARY, *, seed=0, **other):
    """A small model whose logits differ."""
    torch.manual_seed(seed)
    return shaken(LanguageModel(make_config(shape, positions=positions, **other)))


def loaded_of(model):
    return LoadedLanguageModel(model=model.eval(), device=CPU, sha256="")


def log_likelihoods(loaded, tokens):
    """ln of the probability of each token of `<cls> … <eos>` behind `<cls>`; `<eos>` is NaN in an encoder."""
    (found,) = outputs(loaded, [tokens], Wanted(score=Score.MASKED))
    return found.likely[1:]


def saved(folder, model):
    """The new `folder`, with a model in it."""
    folder.mkdir()
    write_language_model(folder, model)
    return folder


def blank(layers, heads=1, hidden=TOKENS):
    """A decoder that predicts nothing: only tokens and positions are in the channels."""
    config = LanguageModelConfig(
        alphabet=Alphabet.PROTEIN,
        shape=Shape.DECODER,
        positions=PositionEncoding.LEARNED,
        layers=layers,
        channels=CHANNELS * heads,
        num_heads=heads,
        hidden_channels=hidden,
        context=CONTEXT,
    )
    model = LanguageModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "normalise" not in name:
                parameter.zero_()
        model.embed.weight[:, TOKEN] = torch.eye(TOKENS)
        model.add_positions.table_LC[:, PLACE] = 4 * torch.eye(CONTEXT)
    return LoadedLanguageModel(model=model.eval(), device=CPU, sha256="0" * 64)


def look_back(attention, *, head=0, into=BEFORE, gain=1.0):
    """Let a head attend to the token before, and write that into some channels."""
    first = head * CHANNELS
    with torch.no_grad():
        places = torch.arange(CONTEXT)
        attention.project_query.weight[first + places[:-1], PLACE.start + places[1:]] = 20.0
        attention.project_key.weight[first + places, PLACE.start + places] = 1.0
        _copy(attention, first, into, gain)


def look_for_the_copy(attention, *, head=0, gain=8.0):
    """Let a head attend to what followed the same token earlier, and write that into the output's channels."""
    first = head * CHANNELS
    with torch.no_grad():
        tokens = torch.arange(TOKENS)
        attention.project_query.weight[first + tokens, tokens] = 20.0
        attention.project_key.weight[first + tokens, BEFORE.start + tokens] = 1.0
        # Where there is no copy, `<cls>` is attended to, which says nothing.
        attention.project_query.bias[first + TOKENS] = 10.0
        attention.project_key.weight[first + TOKENS, PLACE.start] = 1.0
        _copy(attention, first, TOKEN, gain)


def attend_to_all(attention, gain=8.0):
    """Let a head write the mean of all tokens before into the output's channels."""
    with torch.no_grad():
        _copy(attention, 0, TOKEN, gain)


def _copy(attention, first, into, gain):
    tokens = torch.arange(len(SPECIAL), TOKENS)
    attention.project_value.weight[first + tokens, tokens] = 1.0
    attention.project_output.weight[into.start + tokens, first + tokens] = gain


def induction_model(heads=1):
    """Layer 0 attends to the token before; layer 1 finds where the token stood, and copies what followed."""
    loaded = blank(2, heads)
    look_back(loaded.model.decoder[0].self_attention)
    look_for_the_copy(loaded.model.decoder[1].self_attention)
    return loaded


def sequences_with_repeats(number, seed=0):
    """Sequences in which no residue comes twice but in the two copies of a motif, and where the copies begin."""
    found = []
    random = np.random.default_rng(seed)
    for _ in range(number):
        letters = random.permutation(list(RESIDUES))
        motif, rest = letters[:8], letters[8:]
        cut = random.integers(0, 12)
        found.append(("".join([*rest[:cut], *motif, *rest[cut:], *motif]), cut, 20))
    return found
