"""How much memory a model needs for an alignment, said and checked before it is run.

Shapes: S clustered MSA rows, E extra MSA rows, R columns.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import torch

from bioattn.errors import BioattnError
from bioattn.memory import free_memory
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.folder import LoadedEvoformerModel
from bioattn.store.alignment_schema import AlignmentSizes
from bioattn.wording import human_bytes

LOGGER = logging.getLogger("bioattn")


class Precision(StrEnum):
    """Arithmetic of the stacks' layers; what they update stays in float32."""

    FP32 = "fp32"
    BF16 = "bf16"


def estimate_memory(config: EvoformerConfig, sizes: AlignmentSizes) -> int:
    """Bytes that a run needs beside the model at its highest point; measured in docs/models/parameters.md."""
    rows, extra, columns = sizes
    msa = rows * columns * config.msa_channels
    pair = columns * columns * config.pair_channels
    extra_msa = extra * columns * config.extra_msa_channels if config.num_extra_msa_blocks else 0
    return 4 * (2 * msa + 8 * pair + 3 * extra_msa)


@contextmanager
def plan_memory(
    model: LoadedEvoformerModel,
    sizes: AlignmentSizes,
    precision: Precision,
    chunk: int | None,
    *,
    source: str,
) -> Iterator[None]:
    """Say how much memory a run will need and refuse one for which there is not enough.

    Raises: BioattnError with the estimate.
    """
    needed = estimate_memory(model.config, sizes)
    if model.device.type == "cuda":
        free: int | None = torch.cuda.mem_get_info(model.device)[0]
    else:
        free = free_memory()
    said = f"about {human_bytes(needed)} of memory needed"
    if free is not None and needed > free:
        raise BioattnError(
            f"{source}: {sizes.residues:,} columns with {sizes.rows:,} + {sizes.extra_rows:,} rows need about "
            f"{human_bytes(needed)} of memory, {human_bytes(free)} are free; give smaller --max-msa-clusters and "
            "--max-extra-msa, or cut the alignment into domains"
        )
    LOGGER.info(said + ("" if free is None else f", {human_bytes(free)} free"))
    yield
