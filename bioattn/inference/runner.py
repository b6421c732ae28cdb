"""What the library asks of a model that runs, whatever family it is of.

A family's `load` gives a `Runner`. What only some families can do is a method that a runner has or has not.
Interpretation, checks and commands ask for it by `with_ability`, and know no family:

| method | what it does |
| --- | --- |
| `predictor` | `ResponseRunner`: predicts responses of sequences, one per task |
| `first_layer_matches(codes_BL)` | yields the name of each filter, and counts (positions, 4) of what it matches |
| `encoder()` | the network as a `BinEncoder`, which encodes promoters for models of another family |
| `treatment_vectors(treatments)` | a vector of each treatment, (T, C) |
| `designs(on, off, number, ...)` | new promoters for treatments, codes (number, L) |
| `head_scorer(dataset, split, progress)` | a `HeadScorer` of a split of a dataset of the family |
| `write_pruned(output, folder, dataset, keep, note, ...)` | writes the model with the heads `keep` alone |

Shape suffixes: B samples, T tasks (treatments), L letters of a sequence, A letters of the alphabet, M mutants.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError

Codes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float64]
Head: TypeAlias = tuple[str, int]
"""Name of the attention site, number of the head."""


class Runner(Protocol):
    """A trained model on its device, in evaluation mode."""

    @property
    def family(self) -> str: ...

    @property
    def model(self) -> nn.Module: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def path(self) -> Path | None:
        """The folder or file that it was loaded from; None for a model that has none."""

    @property
    def sha256(self) -> str:
        """Digest of the weights file."""

    @property
    def sites(self) -> Mapping[str, AttentionSite]: ...


def with_ability(runner: Runner, method: str, deed: str, option: str = "") -> Any:
    """`runner`, when it has a method.

    deed: what the user wants, as a phrase that follows "cannot"; option: the option that asks for it.

    Raises: BioattnError naming the family and what its models cannot do.
    """
    if hasattr(runner, method):
        return runner
    sentence = f"models of the family {runner.family} cannot {deed}"
    raise BioattnError(f"{option}: {sentence}" if option else sentence)


# --- sequences in, one response per task out ---------------------------------------------------------------------


Predictor: TypeAlias = Any
"""A model and the T tasks (treatments) it is asked for. It has `runner`, `names`, `batch_size` and
`mutant_batch_size` (samples per forward pass that keep every tensor small), `digest()` (SHA-256 of the tasks as
the model takes them) and

- `chosen(tasks)`: the same model asked for some of the tasks, by their numbers from 0;
- `forward(codes_BL, letters_BLA=None)`: responses (B, T), float32; logits of a binary model. letters_BLA: read
  instead of the letters of the codes, and differentiable; the codes still say which are known;
- `fast_mutants(batch_size)`: what computes responses of single mutants with less work than a forward pass for
  each, some at a time; None without such a way. Its `answers(codes_L, position_M, base_M)` takes the letters at
  ascending positions (from 0) of one sequence, and yields numbers of mutants and their responses (those, T)."""
ResponseRunner: TypeAlias = Any
"""A `Runner` that predicts responses of sequences, one per task. It has `length` (letters of a window), `task`
(`regression` or `binary`), `treatments` (of the training, a `TreatmentTable`) and

- `read(inputs, genes=())`: the `Promoters` of a file or in memory; raises BioattnError for what the model cannot
  take. genes: ids, or files of ids; none = all;
- `predictor(treatments=None)`: the model asked for `treatments`; None = those of the training."""


class BinEncoder(nn.Module):
    """A model of sequences as a part of another family's model, which has its weights among its own."""

    channels: int

    def description(self) -> dict[str, Any]:
        """JSON values of which the family's method `encoder` makes an untrained one; `family` is the family's."""
        raise NotImplementedError

    def require_length(self, length: int) -> None:
        """Raises: BioattnError when sequences of so many letters are too long."""
        raise NotImplementedError

    def forward(self, codes_BL: Tensor, edges: Sequence[int]) -> Tensor:
        """Codes of bases (4 is unknown) → channels (B, P, C) of the bins between P + 1 edges in bases."""
        raise NotImplementedError


# --- heads -------------------------------------------------------------------------------------------------------


class HeadFigures(NamedTuple):
    """How well a model does on what its heads are judged by."""

    loss: float
    accuracy: float


class HeadScorer(Protocol):
    """Judges a model's heads on some data. `figures` and `copies` only some have."""

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        """Those with heads that can be silenced."""

    @property
    def item(self) -> str:
        """What importance is told apart by: `treatment`, `protein`, `window` or `pair`."""

    @property
    def items(self) -> Sequence[str]:
        """Their names."""

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, Floats]:
        """Mean |∂ loss / ∂ mask| of every head that is not silenced, by item; NaN where nothing is known."""

    def overall(self, by_item: Floats) -> float:
        """The mean over all data of an importance by item."""

    def passes(self) -> Iterator[Callable[[], object]]:
        """Forward passes over the data, of which none holds padding, for whoever listens to the attention."""

    def record(self) -> dict[str, Any]:
        """JSON values of what was judged: numbers of items, the loss."""

    def figures(self, silenced: Collection[Head] = ()) -> HeadFigures:
        """Loss and accuracy with some heads silenced."""

    def copies(self) -> Iterator[tuple[Callable[[], object], NDArray[np.int64], NDArray[np.int64]]]:
        """Of models that may find what they predict in an earlier copy: forward passes over random sequences given
        twice: the pass, queries, and the key of each query that tells what is to be predicted there."""
