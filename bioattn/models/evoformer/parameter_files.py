"""Parameter files in AlphaFold's, OpenFold's and our own names, seen through the one table.

A `ParameterFile` knows which canonical arrays (`parameter_table`) its file has and of which shape, says what is
missing, unknown or misshapen in the file's own words, and reads one row of the table at a time: a file is never in
memory as a whole beside the model.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import FormatError
from bioattn.formats.npz import ARCHIVE_DAMAGE, NpzArrays
from bioattn.io.checkpoint import DAMAGE, damaged, load_state_dict, open_safetensors
from bioattn.io.files import unreadable
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_table import (
    ArrayRow,
    Fused,
    Heads,
    Shape,
    Stack,
    alphafold_shape,
    canonical_shape,
    parameter_table,
    to_canonical,
)
from bioattn.models.family import CONFIG, WEIGHTS


class TorchArrays:
    """The tensors of a PyTorch checkpoint: a state dict, alone or inside a training checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path, self._tensors = path, load_state_dict(path)
        self.shapes = {name: tuple(tensor.shape) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> NDArray[np.float32]:
        """One array as float32. Raises: FormatError when it holds no real numbers."""
        tensor = self._tensors[name]
        if not tensor.is_floating_point():
            raise FormatError(
                f"{self.path}: the array {name} has type {tensor.dtype}, real numbers are needed"
            )
        array: NDArray[np.float32] = tensor.detach().float().numpy()
        return array

    def close(self) -> None:
        self._tensors = {}


class FolderArrays:
    def __init__(self, folder: Path) -> None:
        self.path = folder / WEIGHTS
        try:
            self._file = open_safetensors(self.path)
            names = list(self._file.keys())
            self.shapes = {name: tuple(self._file.get_slice(name).get_shape()) for name in names}
        except DAMAGE as error:
            raise damaged(self.path, error) from error

    def read(self, name: str) -> NDArray[np.float32]:
        """One array as float32."""
        array: NDArray[np.float32] = self._file.get_tensor(name).float().numpy()
        return array

    def close(self) -> None:
        """Let go of the file."""


StoredArrays: TypeAlias = NpzArrays | TorchArrays | FolderArrays
"""Arrays of one file by their names in it: `path`, `shapes`, `read(name)` as float32, `close()`."""


def open_arrays(path: Path) -> StoredArrays:
    """Open a parameter file by its content.

    Raises: FormatError when it is none of the three kinds, holds pickled objects, or is damaged; BioattnError when
    it cannot be read.
    """
    if path.is_dir():
        if not (path / CONFIG).is_file() or not (path / WEIGHTS).is_file():
            raise FormatError(f"{path}: not a model folder, {CONFIG} and {WEIGHTS} are not both there")
        return FolderArrays(path)
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    if magic == b"PK\x03\x04":
        return NpzArrays(path) if _holds_npy(path) else TorchArrays(path)
    if magic[:2] == b"\x80\x02":
        return TorchArrays(path)
    raise FormatError(
        f"{path}: no parameter file (AlphaFold's .npz, an OpenFold .pt, or a model folder is needed)"
        + ("; unpack the archive first" if magic[:2] == b"\x1f\x8b" or path.suffix == ".tar" else "")
    )


def _holds_npy(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return not any(name.endswith("data.pkl") for name in archive.namelist())
    except ARCHIVE_DAMAGE as error:
        raise FormatError(f"{path}: the archive is damaged ({error}); fetch the file again") from error


ALPHAFOLD_PREFIX = "alphafold/alphafold_iteration/"
_OPENFOLD_CONSTANTS = frozenset(
    f"structure_module.{name}" for name in ("default_frames", "group_idx", "atom_mask", "lit_positions")
)
"""Tables of ideal geometry that some checkpoints carry; they are no parameters."""
_MULTIMER = re.compile(
    # AlphaFold: chain-aware relative positions, points as modules, fused triangle updates; OpenFold: the same.
    r"relative_encoding|point_projection|template_pair_embedding_0|left_norm_input"
    r"|linear_ab_[pg]|dgram_linear|ipa\.linear_[kv]\."
)
_SHOWN = 3


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
        return block_names(self.row.openfold, self.num_blocks)

    def our_names(self) -> list[str]:
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
    blocks = {Stack.EVOFORMER: config.num_blocks, Stack.EXTRA_MSA: config.num_extra_msa_blocks}
    blocks[Stack.TEMPLATE] = config.templates.num_blocks if config.templates else 0
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
            pairs = (config.templates or TemplateConfig()) if row.stack is Stack.TEMPLATE else config
            hidden = pairs.triangle_multiplication_channels
            sizes = [hidden] * 4 + [total - 4 * hidden]
    first = sum(sizes[: row.part])
    return slice(first, first + sizes[row.part])


def _num_heads(row: ArrayRow, config: EvoformerConfig) -> int:
    templates = config.templates or TemplateConfig()
    return {
        Heads.NONE: 1,
        Heads.MSA: config.msa_heads,
        Heads.PAIR: config.pair_heads,
        Heads.EXTRA_MSA: config.extra_msa_heads,
        Heads.TEMPLATE_PAIR: templates.pair_heads,
        Heads.TEMPLATE: templates.attention_heads,
    }[row.heads]


class ParameterFile:
    """An open parameter file: how its kind names and shapes the canonical arrays. Made by `open_parameters`."""

    kind: str
    """What the file is, in words."""
    shapes: dict[str, Shape]
    """Canonical shapes of the arrays the file has, by canonical name."""

    def __init__(self, arrays: StoredArrays) -> None:
        self.path = arrays.path
        self._arrays = arrays

    def expected(self, rows: Sequence[ModelRow]) -> dict[str, Shape]:
        """Names and shapes in the file of the arrays that a model needs."""
        raise NotImplementedError

    def own_name(self, canonical: str) -> str:
        """What the file calls, or would call, a canonical array."""
        raise NotImplementedError

    def _read(self, row: ModelRow) -> NDArray[np.float32]:
        raise NotImplementedError

    def own_shape(self, canonical: str) -> Shape | None:
        """The shape of an array in the file; None where it is not there."""
        return self._arrays.shapes.get(self.own_name(canonical))

    def check(self, rows: Sequence[ModelRow]) -> None:
        """Compare with what a model needs.

        Raises: FormatError naming arrays that are missing, misshapen, or that no such model has.
        """
        expected = self.expected(rows)
        stored = self._arrays.shapes
        if missing := [name for name in expected if name not in stored]:
            raise FormatError(f"{self.path}: {_listed(missing)} missing from {self.kind}")
        if unknown := [name for name in stored if name not in expected]:
            raise FormatError(f"{self.path}: {_listed(unknown)} unknown in {self.kind} of a monomer model")
        for name, shape in stored.items():
            if shape != expected[name]:
                raise FormatError(
                    f"{self.path}: the array {name} has shape {shape}, beside the others {expected[name]} is "
                    "needed"
                )

    def read(self, row: ModelRow) -> NDArray[np.float32]:
        """The canonical arrays of one row of the table, stacked on axis 0 where the row has blocks.

        Raises: FormatError when an array is damaged or holds NaN or infinite values.
        """
        array = self._read(row)
        if not np.isfinite(array).all():
            name = self.own_name(row.canonical_names()[0])
            raise FormatError(f"{self.path}: the array {name} holds NaN or infinite values")
        return array


@contextmanager
def open_parameters(path: Path) -> Iterator[ParameterFile]:
    """Open AlphaFold's `.npz`, an OpenFold state dict (`.pt`, or the same names in an `.npz`) or a model folder.

    Raises: FormatError when it is none of these, holds pickled objects or parameters of AlphaFold-Multimer, or is
    damaged; BioattnError when it cannot be read.
    """
    with closing(open_arrays(path)) as arrays:
        found = next((name for name in arrays.shapes if _MULTIMER.search(name)), None)
        if found is not None:
            raise FormatError(
                f"{path}: parameters of AlphaFold-Multimer (the array {found}), which are not supported; give "
                "those of a monomer model, such as params_model_1_ptm.npz"
            )
        if isinstance(arrays, FolderArrays):
            yield _FolderFile(arrays)
        elif any("//" in name for name in arrays.shapes):
            yield _AlphaFoldFile(arrays)
        else:
            yield _OpenFoldFile(arrays)


class _AlphaFoldFile(ParameterFile):
    """`alphafold/alphafold_iteration/<module>//<array>`, blocks on axis 0."""

    kind = "AlphaFold's parameters"

    def __init__(self, arrays: StoredArrays) -> None:
        super().__init__(arrays)
        self._keys = {row.openfold: ALPHAFOLD_PREFIX + row.alphafold for row in parameter_table()}
        self.shapes = {}
        for row in parameter_table():
            name = ALPHAFOLD_PREFIX + row.alphafold
            shape = arrays.shapes.get(name)
            if shape is None:
                continue
            if row.stack is not None and not shape:
                raise FormatError(f"{arrays.path}: the array {name} has no axis of blocks")
            blocks, rest = (None, shape) if row.stack is None else (shape[0], shape[1:])
            try:
                canonical = canonical_shape(rest, row.layout)
            except FormatError as error:
                raise FormatError(f"{arrays.path}: the array {name} {error}") from None
            self.shapes.update(dict.fromkeys(block_names(row.openfold, blocks), canonical))

    def expected(self, rows: Sequence[ModelRow]) -> dict[str, Shape]:
        return {ALPHAFOLD_PREFIX + row.row.alphafold: row.alphafold_shape for row in rows}

    def own_name(self, canonical: str) -> str:
        pattern = re.sub(r"(?<=\.blocks\.)\d+(?=\.)", "{block}", canonical)
        return self._keys.get(pattern) or self._keys[canonical]

    def _read(self, row: ModelRow) -> NDArray[np.float32]:
        array = self._arrays.read(ALPHAFOLD_PREFIX + row.row.alphafold)
        return to_canonical(array, row.row.layout, stacked=row.num_blocks is not None)


class _OpenFoldFile(ParameterFile):
    """A state dict; names that OpenFold has since changed are understood."""

    kind = "OpenFold's parameters"

    def __init__(self, arrays: StoredArrays) -> None:
        super().__init__(arrays)
        for constant in _OPENFOLD_CONSTANTS:
            arrays.shapes.pop(constant, None)
        self._own = {_modern_name(name): name for name in arrays.shapes}
        self.shapes = {name: arrays.shapes[own] for name, own in self._own.items()}

    def expected(self, rows: Sequence[ModelRow]) -> dict[str, Shape]:
        return {self.own_name(name): row.shape for row in rows for name in row.canonical_names()}

    def own_name(self, canonical: str) -> str:
        return self._own.get(canonical, canonical)

    def _read(self, row: ModelRow) -> NDArray[np.float32]:
        arrays = [self._arrays.read(self._own[name]) for name in row.canonical_names()]
        return arrays[0] if row.num_blocks is None else np.stack(arrays)


class _FolderFile(ParameterFile):
    """The weights of a model folder, some projections fused into one matrix."""

    kind = "the folder's weights"

    def __init__(self, arrays: StoredArrays) -> None:
        super().__init__(arrays)
        self._own = {row.openfold: row.ours for row in parameter_table()}
        self.shapes = {}

    def expected(self, rows: Sequence[ModelRow]) -> dict[str, Shape]:
        return {name: row.our_shape for row in rows for name in row.our_names()}

    def own_name(self, canonical: str) -> str:
        return self._own.get(canonical, canonical)

    def _read(self, row: ModelRow) -> NDArray[np.float32]:
        arrays = [self._arrays.read(name)[row.place] for name in row.our_names()]
        return arrays[0] if row.num_blocks is None else np.stack(arrays)


def _modern_name(name: str) -> str:
    """OpenFold's present name of an array of an older checkpoint."""
    name = re.sub(r"(\.blocks\.\d+)\.core\.", r"\1.", name)
    name = re.sub(r"^template_(?!embedder\.)", "template_embedder.template_", name)
    name = name.replace(".template_angle_embedder.", ".template_single_embedder.")
    name = re.sub(
        r"^((?:evoformer|extra_msa_stack)\.blocks\.\d+)\.(tri_mul_|tri_att_|pair_transition)",
        r"\1.pair_stack.\2",
        name,
    )
    return re.sub(r"(\.ipa\.linear_(?:q|kv)_points)\.(weight|bias)$", r"\1.linear.\2", name)


def _listed(names: Sequence[str]) -> str:
    """`the array X is` or `5 arrays (X, Y, Z, …) are`."""
    if len(names) == 1:
        return f"the array {names[0]} is"
    more = ", …" if len(names) > _SHOWN else ""
    return f"{len(names)} arrays ({', '.join(names[:_SHOWN])}{more}) are"
