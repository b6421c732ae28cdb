"""Running an MSA/pair model on one alignment: what it predicts, as NumPy arrays.

Shapes: S MSA rows, R columns that the model sees, N distance bins, C channels.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bioattn.attention.capture import AttentionReceiver, capture
from bioattn.errors import BioattnError
from bioattn.formats.alignment import Alignment
from bioattn.inference.passes import require_finite
from bioattn.models.evoformer.config import Representation
from bioattn.models.evoformer.folder import LoadedEvoformerModel
from bioattn.models.evoformer.heads import (
    bin_edges,
    contact_bins,
    plddt,
    predicted_aligned_error,
    predicted_tm_score,
)
from bioattn.models.evoformer.inputs import AlignmentInputs, prepare_inputs
from bioattn.models.evoformer.model import ModelOutputs
from bioattn.models.evoformer.stacks import EvoformerBlock
from bioattn.system.progress import SILENT, Progress
from bioattn.system.signals import StopRequest

_ROWS_AT_ONCE = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class Prediction:
    """What a model says of an alignment; None where it has no such part."""

    bin_edges: NDArray[np.float32] | None = None
    """(N - 1,) Å between distance bins."""
    distogram: NDArray[np.float32] | None = None
    """(R, R, N) probabilities."""
    contact_probability: NDArray[np.float32] | None = None
    """(R, R) that CB atoms are closer than 8 Å."""
    expected_distance: NDArray[np.float32] | None = None
    """(R, R) Å; the open bins at both ends count as wide as the others."""
    aligned_error: NDArray[np.float32] | None
    """(R, R) Å, not symmetric."""
    ptm: float | None
    """Predicted TM-score, 0..1."""
    plddt: NDArray[np.float32] | None
    """(R,) 0..100."""
    atom37: NDArray[np.float32] | None
    """(R, 37, 3) Å."""
    representations: dict[Representation, NDArray[np.float32]] = field(default_factory=dict)


def predict(
    model: LoadedEvoformerModel,
    inputs: AlignmentInputs,
    *,
    seed: int,
    progress: Progress,
    request: StopRequest,
    description: str = "blocks",
    representations: Sequence[Representation] = (),
    receiver: AttentionReceiver | None = None,
    sites: Sequence[str] = (),
) -> Prediction:
    """Run all passes of all samples that `inputs.settings` ask for.

    Each pass is a new sample of rows and masked cells. Distances are averaged over samples; the structure, the
    representations and the attention (of `sites`, to `receiver`) are those of the first sample's last pass.

    Raises: BioattnError when the device is out of memory; NotFiniteError; Interrupted.
    """
    settings = inputs.settings
    num_passes = settings.num_recycles + 1
    blocks = sum(isinstance(module, EvoformerBlock) for module in model.model.modules())
    progress.begin(description, blocks * num_passes * settings.num_samples)
    total: NDArray[np.float32] | None = None
    first: Prediction | None = None
    try:
        for sample in range(settings.num_samples):
            first_pass = sample * num_passes
            listening = receiver is not None and sample == 0
            with (
                torch.inference_mode(),
                _watch(model.model, num_passes, progress, request, sites if listening else (), receiver),
            ):
                outputs = model.model(
                    lambda number, first=first_pass: inputs.sample(seed, first + number).to(model.device),
                    settings.num_recycles,
                )
                if (logits := outputs.distogram_logits) is not None:
                    total = np.zeros(tuple(logits.shape), np.float32) if total is None else total
                    for start in range(0, len(logits), _ROWS_AT_ONCE):
                        rows = slice(start, start + _ROWS_AT_ONCE)
                        total[rows] += _numbers(logits[rows].float().softmax(-1), "distances")
                if first is None:
                    first = _read_outputs(outputs, representations)
                del outputs, logits
    except torch.OutOfMemoryError as error:
        raise BioattnError(
            f"{model.device}: out of memory with {inputs.num_clusters} + {inputs.num_extra} rows and "
            f"{len(inputs.columns)} columns; give a smaller --max-msa-clusters, or max_extra_msa in [inputs] of "
            "--config, or --device cpu"
        ) from error
    finally:
        progress.end()
    assert first is not None
    return first if total is None else _with_distances(first, total, settings.num_samples)


def try_model(model: LoadedEvoformerModel) -> None:
    """Predict an alignment of random residues, eight rows of sixteen. Raises: NotFiniteError."""
    residues = np.random.default_rng(0).choice(np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8), (8, 16))
    alignment = Alignment.plain([f"row{number}" for number in range(len(residues))], residues)
    settings = replace(model.inputs, num_samples=1, num_recycles=min(1, model.inputs.num_recycles))
    inputs = prepare_inputs(alignment, model.config, settings, source=f"{model.path}: the trial")
    states = (Representation.MSA, Representation.PAIR)
    predict(model, inputs, seed=0, progress=SILENT, request=StopRequest(), representations=states)


@contextmanager
def _watch(
    model: nn.Module,
    num_passes: int,
    progress: Progress,
    request: StopRequest,
    sites: Sequence[str],
    receiver: AttentionReceiver | None,
) -> Iterator[None]:
    """Follow the model from block to block: progress, stop requests, and attention in the last pass alone."""
    begun = 0
    with ExitStack() as stack:

        def begin_pass(_module: nn.Module, _arguments: Any) -> None:
            nonlocal begun
            begun += 1
            if begun == num_passes and sites and receiver is not None:
                stack.enter_context(capture(sites, receiver))

        def end_block(_module: nn.Module, _arguments: Any, _states: Any) -> None:
            request.check()
            progress.advance(1, **({"pass": f"{begun}/{num_passes}"} if num_passes > 1 else {}))

        embedder = model.get_submodule("input_embedder")
        stack.callback(embedder.register_forward_pre_hook(begin_pass).remove)
        for module in model.modules():
            if isinstance(module, EvoformerBlock):
                stack.callback(module.register_forward_hook(end_block).remove)
        yield


def _with_distances(prediction: Prediction, total: NDArray[np.float32], num_samples: int) -> Prediction:
    """total: the sum of probabilities (R, R, N) over samples."""
    num_bins = total.shape[-1]
    probabilities = total
    if num_samples > 1:
        probabilities /= np.float32(num_samples)
    edges = bin_edges(num_bins).numpy()
    step = edges[1] - edges[0] if len(edges) > 1 else np.float32(1)
    middles = np.append(edges, edges[-1] + step) - step / 2
    return replace(
        prediction,
        bin_edges=edges,
        distogram=probabilities,
        contact_probability=np.clip(probabilities[..., : contact_bins(num_bins)].sum(-1), 0, 1),
        expected_distance=probabilities @ middles.astype(np.float32),
    )


def _read_outputs(outputs: ModelOutputs, representations: Sequence[Representation]) -> Prediction:
    structure = outputs.structure
    states = {
        Representation.SINGLE: outputs.single,
        Representation.PAIR: outputs.pair,
        Representation.MSA: outputs.msa,
        Representation.MSA_FIRST_ROW: outputs.msa[0],
        Representation.STRUCTURE: None if structure is None else structure.single,
    }
    kept = {}
    for name in representations:
        state = states[name]
        if state is None:
            raise BioattnError(f"--representations {name}: the model has no structure module")
        kept[name] = _numbers(state, f"the {name} representation")
    errors = outputs.aligned_error_logits
    ptm = None if errors is None else float(predicted_tm_score(errors))
    return Prediction(
        aligned_error=None if errors is None else _numbers(predicted_aligned_error(errors), "aligned errors"),
        ptm=ptm,
        plddt=None if outputs.plddt_logits is None else _numbers(plddt(outputs.plddt_logits), "pLDDT"),
        atom37=None if structure is None else _numbers(structure.atom37, "coordinates"),
        representations=kept,
    )


def _numbers(tensor: Tensor, what: str) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    require_finite(array, what, ", or --precision fp32")
    return array
