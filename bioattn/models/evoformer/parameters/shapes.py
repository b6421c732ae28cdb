"""Rows of the parameter table that a model has, and the shapes of their arrays in each of the three forms."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameters.layout import Shape, alphafold_shape
from bioattn.models.evoformer.parameters.table import ArrayRow, Fused, Heads, Stack, parameter_table


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """A row of the parameter table for one model."""

    row: ArrayRow
    shape: Shape
    """Shape of one canonical array."""
    our_shape: Shape
    """Shape of our array, the whole of a fused matrix."""
    num_blocks: int | None
    """Number of blocks; None for an array outside of stacks."""
    num_heads: int
    place: slice
    """Rows of our (fused) matrix that hold the array."""

    def canonical_names(self) -> list[str]:
        """One name per block."""
        return block_names(self.row.openfold, self.num_blocks)

    def our_names(self) -> list[str]:
        """One name per block."""
        return block_names(self.row.ours, self.num_blocks)

    @property
    def alphafold_shape(self) -> Shape:
        """Shape in AlphaFold's file, blocks on axis 0."""
        blocks = () if self.num_blocks is None else (self.num_blocks,)
        return (*blocks, *alphafold_shape(self.shape, self.row.layout, self.num_heads))


def block_names(pattern: str, num_blocks: int | None) -> list[str]:
    """`pattern` with the number of each block; itself when there are no blocks."""
    return [pattern] if num_blocks is None else [pattern.format(block=block) for block in range(num_blocks)]


def model_rows(config: EvoformerConfig) -> list[ModelRow]:
    """The rows of the table that a model of this shape has."""
    with torch.device("meta"):
        shapes = {name: tuple(tensor.shape) for name, tensor in EvoformerModel(config).state_dict().items()}
    return rows_of_shapes(shapes, config)


def rows_of_shapes(shapes: Mapping[str, Shape], config: EvoformerConfig) -> list[ModelRow]:
    """The rows of the table for a model with arrays of these shapes."""
    blocks = {Stack.EVOFORMER: config.num_blocks, Stack.EXTRA_MSA: config.num_extra_msa_blocks}
    found = []
    for row in parameter_table():
        shape = shapes.get(row.ours.format(block=0))
        if shape is None:
            continue
        place = _part(row, shape[0], config)
        found.append(
            ModelRow(
                row=row,
                our_shape=shape,
                shape=(place.stop - place.start, *shape[1:]),
                num_blocks=None if row.stack is None else blocks[row.stack],
                num_heads=_num_heads(row, config),
                place=place,
            )
        )
    return found


def _part(row: ArrayRow, total: int, config: EvoformerConfig) -> slice:
    match row.fused:
        case None:
            sizes = [total]
        case Fused.QUERY_KEY_VALUE_GATE:
            sizes = [total // 4] * 4
        case Fused.FACTORS:
            sizes = [total // 2] * 2
        case Fused.KEY_VALUE_GATE:
            head = config.extra_msa_channels // config.extra_msa_heads
            sizes = [head, head, total - 2 * head]
        case Fused.TRIANGLE:
            hidden = config.triangle_multiplication_channels
            sizes = [hidden] * 4 + [total - 4 * hidden]
    first = sum(sizes[: row.part])
    return slice(first, first + sizes[row.part])


def _num_heads(row: ArrayRow, config: EvoformerConfig) -> int:
    return {
        Heads.NONE: 1,
        Heads.MSA: config.msa_heads,
        Heads.PAIR: config.pair_heads,
        Heads.EXTRA_MSA: config.extra_msa_heads,
    }[row.heads]
