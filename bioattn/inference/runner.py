"""What the library asks of a model that runs, whatever family it is of.

A family's `load` gives a `Runner`. What only some families can do is an *ability*: one of the protocols below it,
which a runner has when it has its methods. Interpretation, checks and commands get a runner by `with_ability`, and
know no family.

Shape suffixes: B samples, T tasks (treatments), L letters of a sequence, A letters of the alphabet, M mutants.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.site import AttentionSite
from bioattn.errors import BioattnError
from bioattn.promoters.dataset import PromoterDataset
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.schema import Samples
from bioattn.system.progress import Progress

Codes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float64]
Head: TypeAlias = tuple[str, int]
"""Name of the attention site, number of the head."""


class Runner(Protocol):
    """A trained model on its device, in evaluation mode."""

    @property
    def family(self) -> str:
        """The name of its family: `promoter`, `evoformer`, …"""

    @property
    def model(self) -> nn.Module:
        """The network."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""

    @property
    def path(self) -> Path | None:
        """The folder or file that it was loaded from; None for a model that has none."""

    @property
    def sha256(self) -> str:
        """Digest of the weights file."""

    @property
    def sites(self) -> Mapping[str, AttentionSite]:
        """Attention sites by name, in the order of the model."""


Ability = TypeVar("Ability")


def with_ability(runner: Runner, ability: type[Ability], deed: str, option: str = "") -> Ability:
    """`runner`, when it has all that the protocol `ability` asks for.

    deed: what the user wants, as a phrase that follows "cannot"; option: the option that asks for it.

    Raises: BioattnError naming the family and what its models cannot do.
    """
    if isinstance(runner, ability):
        return runner
    sentence = f"models of the family {runner.family} cannot {deed}"
    raise BioattnError(f"{option}: {sentence}" if option else sentence)


# --- sequences in, one response per task out ---------------------------------------------------------------------


class Batch(Protocol):
    """Consecutive samples."""

    @property
    def samples(self) -> Samples:
        """Their names and what else is known of them."""


class Source(Protocol):
    """Samples that were read and found fit for a model."""

    @property
    def num_samples(self) -> int:
        """Samples that `batches` gives."""

    def part(self, rows: slice) -> "Source":
        """Some consecutive samples alone."""

    def batches(self, size: int) -> Iterator[Batch]:
        """All samples in the order of the file, `size` at a time; the last batch may be smaller."""


class WindowBatch(Batch, Protocol):
    """Consecutive samples of the same length."""

    @property
    def codes(self) -> Codes:
        """(B, L) as the model sees them; the last code of the alphabet is "unknown"."""


class WindowSource(Source, Protocol):
    """Samples of the same length, of a file that was read through once."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def sha256(self) -> str:
        """Its digest."""

    @property
    def num_padded(self) -> int:
        """Samples that are shorter than the model's window."""

    @property
    def downstream(self) -> int | None:
        """Letters of every window from position 0 on; None when the file does not say it of all alike."""

    @property
    def genes(self) -> Collection[str] | None:
        """Ids of the samples asked for; None = all of the file."""

    def batches(self, size: int) -> Iterator[WindowBatch]:
        """All samples in the order of the file, `size` at a time; the last batch may be smaller."""


class FastMutants(Protocol):
    """Computes responses of single mutants with less work than a forward pass for each."""

    def answers(self, codes_L: Tensor, position_M: Tensor, base_M: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Responses of mutants with `base_M` at the ascending `position_M` (from 0) of one sequence.

        Yields which mutants (some numbers of M) and their responses, (those, T).
        """


class Predictor(Protocol):
    """A model and the tasks it is asked for."""

    @property
    def runner(self) -> "ResponseRunner":
        """The model."""

    @property
    def names(self) -> Sequence[str]:
        """The tasks (treatments), T of them."""

    @property
    def batch_size(self) -> int:
        """Samples per forward pass that keep every tensor small."""

    @property
    def mutant_batch_size(self) -> int:
        """The same for single mutants of one sample."""

    def digest(self) -> str:
        """SHA-256 of the tasks as the model takes them."""

    def chosen(self, tasks: Sequence[int]) -> "Predictor":
        """The same model asked for some of the tasks, by their numbers from 0."""

    def forward(self, codes_BL: Tensor, letters_BLA: Tensor | None = None) -> Tensor:
        """Responses (B, T), float32; logits of a binary model.

        letters_BLA: read instead of the letters of `codes_BL` and differentiable; the codes still say which are
        known.
        """

    def fast_mutants(self, batch_size: int) -> FastMutants | None:
        """None when the model has no shorter way than a forward pass for each. batch_size: mutants at a time."""


@runtime_checkable
class ResponseRunner(Runner, Protocol):
    """A runner that predicts responses of sequences, one per task."""

    @property
    def length(self) -> int:
        """Letters of a window."""

    @property
    def task(self) -> str:
        """`regression` or `binary`."""

    @property
    def treatments(self) -> TreatmentTable:
        """The tasks of the training, with their features."""

    def read(self, path: Path, genes: Sequence[str] = ()) -> WindowSource:
        """Read an input file through. genes: ids, or files of ids; none = all.

        Raises: FormatError for what the model cannot take; BioattnError when nothing is there.
        """

    def predictor(self, treatments: TreatmentTable | None = None) -> Predictor:
        """The model asked for `treatments`; None = those of the training.

        Raises: BioattnError for treatments that it cannot know.
        """


@runtime_checkable
class FirstLayerRunner(ResponseRunner, Protocol):
    """A runner whose first layer matches short words."""

    def first_layer_matches(self, codes_BL: Codes) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """The name of each filter, and counts (places, 4) of the letters in what it matches in the sequences.

        Raises: BioattnError when the first layer has no filters.
        """


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


@runtime_checkable
class EncodingRunner(Runner, Protocol):
    """A runner whose network can encode promoters for models of another family."""

    def encoder(self) -> BinEncoder:
        """The network as an encoder. Raises: BioattnError when it does not read DNA."""


@runtime_checkable
class TreatmentRunner(Runner, Protocol):
    """A runner that knows treatments as vectors."""

    def treatment_vectors(self, treatments: TreatmentTable) -> Tensor:
        """A vector of each treatment (T, C). Raises: BioattnError for one that it cannot know."""


# --- designs -----------------------------------------------------------------------------------------------------


@runtime_checkable
class DesignRunner(Runner, Protocol):
    """A runner that writes promoters for treatments."""

    @property
    def treatment_names(self) -> Sequence[str]:
        """The treatments that it knows."""

    @property
    def dataset_sha256(self) -> str:
        """Digest of the dataset of its training; empty when that is not recorded."""

    def levels(self, dataset: PromoterDataset) -> NDArray[np.int64]:
        """Whether promoters respond to its treatments, (G, T): 1 on, -1 off, 0 neither or unknown."""

    def designs(
        self, on: Sequence[str], off: Sequence[str], number: int, *, guidance: float, steps: int, seed: int
    ) -> Codes:
        """New promoters, (number, L)."""

    def map_agreement(self, codes_BL: Codes) -> float | None:
        """Mean correlation along promoters of attention to a treatment with how much it changes each base; None
        without attention."""


# --- heads -------------------------------------------------------------------------------------------------------


class HeadFigures(NamedTuple):
    """How well a model does on what its heads are judged by."""

    loss: float
    accuracy: float


class HeadScorer(Protocol):
    """Judges a model's heads on some data."""

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


@runtime_checkable
class SilencingScorer(HeadScorer, Protocol):
    """One that can run the model without some heads."""

    def figures(self, silenced: Collection[Head] = ()) -> HeadFigures:
        """Loss and accuracy with some heads silenced."""


@runtime_checkable
class CopyScorer(HeadScorer, Protocol):
    """One of models that may find what they predict in an earlier copy."""

    def copies(self) -> Iterator[tuple[Callable[[], object], NDArray[np.int64], NDArray[np.int64]]]:
        """Forward passes over random sequences given twice: the pass, queries, and the key of each query that
        tells what is to be predicted there."""


@runtime_checkable
class HeadRunner(Runner, Protocol):
    """A runner whose heads can be judged."""

    def head_scorer(self, dataset: Path, split: str, progress: Progress) -> HeadScorer:
        """Judge heads on a split (`train`, `validation`, `test`) of a dataset of the family.

        Raises: BioattnError for a dataset or split that does not fit.
        """


@runtime_checkable
class PrunableRunner(HeadRunner, Protocol):
    """A runner that can lose heads."""

    def write_pruned(
        self,
        output: Path,
        folder: Path,
        dataset: Path,
        keep: Mapping[str, Sequence[int]],
        note: Mapping[str, Any],
        *,
        force: bool,
        progress: Progress,
    ) -> tuple[float, float] | None:
        """Write the model folder `output` with the heads `keep` of each site alone, from the model in `folder`.

        note: goes into the training record. Returns the accuracies of whole and smaller model on test data; None
        without any.
        """
