"""The state of an interrupted run: one safetensors file, replaced whole, read without unpickling.

Tensors: `model.*`, `average.*`, `best.*` (the weights to keep), `optimizer.*`. Everything else (round, step,
history) stands as JSON in the file's metadata. Random states need no place: see `task.py`.
A run goes on by the same job only: what its weights follow from, as plain JSON.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from bioattn.errors import BioattnError, FormatError
from bioattn.io.checkpoint import DAMAGE, open_safetensors
from bioattn.io.files import atomic_output
from bioattn.training.task import AdamW

Job = dict[str, Any]


def job_differences(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The entries in which two jobs differ."""
    return sorted(name for name in {*earlier, *now} if earlier.get(name) != now.get(name))


STATE_FILES = "trainer_state*.safetensors"
"""Pattern of the names of states in the folder of an unfinished run."""


def state_file(number: int | str) -> str:
    """Name of the state of the model number `number`, from 0, of those that a run trains, or of something else."""
    return f"trainer_state.{number}.safetensors" if number else "trainer_state.safetensors"


@dataclass(slots=True, kw_only=True)
class Position:
    """Where a run is. `round` and `step` name the next step to take, both from 0."""

    round: int = 0
    step: int = 0
    round_loss: float = 0.0
    best_round: int = -1
    best_score: float | None = None
    """None before the first validation."""
    history: list[dict[str, float]] = field(default_factory=list)


def save_state(
    path: Path,
    job: Mapping[str, Any],
    position: Position,
    model: torch.nn.Module,
    average: torch.nn.Module,
    best: dict[str, Tensor],
    optimizer: AdamW,
) -> None:
    """Write the state of job `job` (data and settings, `bioattn.training.state`) atomically."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    tensors |= {f"average.{name}": tensor for name, tensor in average.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in best.items()}
    tensors |= {f"optimizer.{name}": tensor for name, tensor in optimizer.state_dict().items()}
    # safetensors refuses tensors that share memory, and the file is the same from every device.
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    metadata = {"job": json.dumps(job), "position": json.dumps(asdict(position))}
    metadata["sha256"] = digest_of(tensors, metadata)
    with atomic_output(path) as temporary:
        # Not save_file: its error on a full disk is no OSError.
        temporary.write_bytes(save(tensors, metadata=metadata))


def load_state(
    path: Path, job: Mapping[str, Any], model: torch.nn.Module, average: torch.nn.Module, optimizer: AdamW
) -> tuple[Position, dict[str, Tensor]]:
    """Put the saved weights into `model`, `average` and `optimizer`; return the position and the best weights.

    Raises: BioattnError when the state is damaged, or belongs to other data or settings, which it names.
    """
    try:
        with open_safetensors(path) as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (FormatError, *DAMAGE) as error:
        raise BioattnError(
            f"{path}: the saved state is damaged ({error.__cause__ or error}); start again with --force"
        ) from error
    if metadata.pop("sha256", None) != digest_of(tensors, metadata):
        raise BioattnError(f"{path}: the saved state is damaged (SHA-256 differs); start again with --force")
    try:
        position = Position(**json.loads(metadata["position"]))
        different = job_differences(json.loads(metadata["job"]), job)
    except (TypeError, KeyError) as error:
        raise BioattnError(
            f"{path}: was saved by another version of bioattn; start again with --force"
        ) from error
    if different:
        raise BioattnError(
            f"{path}: belongs to other data or settings (different: {', '.join(different)}); repeat the command "
            "that was interrupted, or start again with --force"
        )
    model.load_state_dict(_part(tensors, "model."))
    average.load_state_dict(_part(tensors, "average."))
    optimizer.load_state_dict(_part(tensors, "optimizer."))
    return position, _part(tensors, "best.")


def digest_of(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> str:
    """SHA-256 over everything a state says: a flipped bit in a weight is a plausible weight."""
    digest = hashlib.sha256(json.dumps(metadata or {}, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
