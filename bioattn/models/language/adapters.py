"""Low-rank adapters: small matrices that are trained instead of a model's own (Hu et al. 2021)."""

import math

from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations

from bioattn.models.language.config import Shape
from bioattn.training.state import digest_of

ADDED = ".parametrizations.weight"


class LowRank(nn.Module):
    """Adds alpha / rank · `up` · `down` to a matrix; before training that is 0."""

    def __init__(self, matrix_OI: Tensor, rank: int, alpha: float) -> None:
        super().__init__()
        rows, columns = matrix_OI.shape
        self.scale = alpha / rank
        self.down_RI = nn.Parameter(matrix_OI.new_empty(rank, columns))
        self.up_OR = nn.Parameter(matrix_OI.new_zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down_RI, a=math.sqrt(5))

    def forward(self, matrix_OI: Tensor) -> Tensor:
        return matrix_OI + self.scale * (self.up_OR @ self.down_RI)


def add_adapters(model: nn.Module, rank: int, alpha: float) -> None:
    """Put an adapter on every matrix of attention and feed-forward networks; all other weights no longer learn."""
    model.requires_grad_(False)
    for layer in _matrices(model):
        register_parametrization(layer, "weight", LowRank(layer.weight, rank, alpha), unsafe=True)


def merge_adapters(model: nn.Module) -> None:
    """Add to the matrices what their adapters learned, and take the adapters away."""
    for layer in _matrices(model):
        if is_parametrized(layer, "weight"):
            remove_parametrizations(layer, "weight")


def base_digest(model: nn.Module) -> str:
    """SHA-256 over the weights beneath the adapters: all but theirs and those of the readout."""
    weights = {
        name.replace(f"{ADDED}.original", ".weight"): weight.detach().cpu()
        for name, weight in model.state_dict().items()
        if not name.startswith("readout.") and f"{ADDED}.0." not in name
    }
    return digest_of(weights)


def _matrices(model: nn.Module) -> list[nn.Linear]:
    stacks = [getattr(model, str(shape)) for shape in (Shape.ENCODER, Shape.DECODER)]
    return [
        layer
        for stack in stacks
        if stack is not None
        for layer in stack.modules()
        if isinstance(layer, nn.Linear)
    ]
