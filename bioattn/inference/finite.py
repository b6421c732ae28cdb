"""What a model gives must be finite: weights near the limits of float32 pass for weights and give NaN.

It is checked where it is made, so that no command writes a result that `validate` refuses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError, NotFiniteError


def require_finite(values: NDArray[Any] | torch.Tensor, what: str, instead: str = "") -> None:
    """Check that values are finite. instead: what may help as much as another model, as ", or …".

    Raises: NotFiniteError with `what` these are.
    """
    if not bool((torch if isinstance(values, torch.Tensor) else np).isfinite(values).all()):
        half = values.dtype in (torch.float16, np.float16)
        raise NotFiniteError(what, instead or (", or --dtype float32" if half else ""))


@contextmanager
def finite_results(sample: str, model: Path | None) -> Iterator[None]:
    """Name the sample and the model that the body runs when it raises NotFiniteError.

    sample: as a message begins with it. model: its file or folder, if it has one. Raises: BioattnError.
    """
    try:
        yield
    except NotFiniteError as problem:
        name = f"the model {model}" if model is not None else "the model"
        raise BioattnError(
            f"{sample}: {name} gives NaN or infinite {problem}; use another model or input{problem.instead}"
        ) from problem
