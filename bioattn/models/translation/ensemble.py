"""Several translation models as one, whose probabilities are means over them, as Marian and fairseq take them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from bioattn.errors import BioattnError
from bioattn.models.translation.folder import LoadedTranslator, load_translator
from bioattn.models.translation.layers import State
from bioattn.models.translation.model import Translator


@dataclass(slots=True)
class States(State):
    """What the decoders of all models know between steps."""

    members: Sequence[State] = ()

    def chosen(self, rows: Tensor) -> "States":
        return States(self.known_BS[rows], members=[each.chosen(rows) for each in self.members])


class Ensemble(Translator):
    """Called as a `Translator` is; its logits are logarithms of the means of probabilities."""

    def __init__(self, models: Sequence[Translator]) -> None:
        """models: of the same vocabularies."""
        nn.Module.__init__(self)
        self.models = list(models)
        self.config, self.source, self.target = models[0].config, models[0].source, models[0].target

    def begin(self, source_BS: Tensor) -> States:
        states = [model.begin(source_BS) for model in self.models]
        return States(states[0].known_BS, members=states)

    def advance(self, prefix_BT: Tensor, state: State) -> Tensor:
        assert isinstance(state, States)
        logs_MBTV = torch.stack(
            [
                model.advance(prefix_BT, own).log_softmax(-1)
                for model, own in zip(self.models, state.members, strict=True)
            ]
        )
        return logs_MBTV.logsumexp(0) - math.log(len(logs_MBTV))


def with_others(loaded: LoadedTranslator, folders: Sequence[Path]) -> LoadedTranslator:
    """A model together with those of other folders.

    Raises: BioattnError as `load_translator`, and for a model of another alphabet.
    """
    models = [loaded.model]
    for folder in folders:
        model = load_translator(folder, loaded.device).model
        for side in ("source", "target"):
            one, other = getattr(loaded.model, side), getattr(model, side)
            if one.tokens != other.tokens:
                its = "written in other characters" if one.alphabet is other.alphabet else str(other.alphabet)
                raise BioattnError(
                    f"--ensemble {folder}: its {side}s are {its}, those of {loaded.path} {one.alphabet}"
                )
        models.append(model)
    return replace(loaded, model=Ensemble(models)) if folders else loaded
