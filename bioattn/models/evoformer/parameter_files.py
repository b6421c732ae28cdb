"""Parameter files of AlphaFold and OpenFold, seen through the one table, and the model that they belong to.

A file says what is missing, unknown or misshapen in its words, and arrays are read one by one into the model's
parameters, which are therefore never in memory twice. The number of structure module layers cannot be inferred,
because they share their weights.
"""

import logging
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.npz import ARCHIVE_DAMAGE, NpzArrays
from bioattn.io.checkpoint import load_state_dict
from bioattn.io.files import unreadable
from bioattn.models.evoformer.config import (
    EvoformerConfig,
    InputSettings,
    StructureModuleConfig,
    TemplateConfig,
)
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_table import (
    ArrayRow,
    ModelRow,
    Shape,
    canonical_shape,
    model_rows,
    parameter_table,
    to_canonical,
)
from bioattn.models.model_folder import without_values

LOGGER = logging.getLogger("bioattn")


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


def open_arrays(path: Path) -> NpzArrays | TorchArrays:
    """Open a parameter file by its content: arrays of one file by their names in it.

    Raises: FormatError when it is neither of the two kinds, holds pickled objects, or is damaged; BioattnError
    when it cannot be read.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    if magic == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(path) as archive:
                is_checkpoint = any(name.endswith("data.pkl") for name in archive.namelist())
        except ARCHIVE_DAMAGE as error:
            raise FormatError(f"{path}: the archive is damaged ({error}); fetch the file again") from error
        return TorchArrays(path) if is_checkpoint else NpzArrays(path)
    if magic[:2] == b"\x80\x02":
        return TorchArrays(path)
    raise FormatError(
        f"{path}: no parameter file (AlphaFold's .npz, an OpenFold .pt, or a model folder is needed)"
        + ("; unpack the archive first" if magic[:2] == b"\x1f\x8b" or path.suffix == ".tar" else "")
    )


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


class ParameterFile:
    """An open parameter file: how it names and shapes the canonical arrays. Made by `open_parameters`.

    AlphaFold's has `alphafold/alphafold_iteration/<module>//<array>` with blocks on axis 0, OpenFold's a state
    dict, whose names may be those that OpenFold has since changed.
    """

    def __init__(self, arrays: NpzArrays | TorchArrays) -> None:
        self.path, self._arrays = arrays.path, arrays
        self._is_alphafold = any("//" in name for name in arrays.shapes)
        self.kind = "AlphaFold's parameters" if self._is_alphafold else "OpenFold's parameters"
        self._name_of: dict[str, str] = {}
        if not self._is_alphafold:
            for constant in _OPENFOLD_CONSTANTS:
                arrays.shapes.pop(constant, None)
            self._name_of = {_modern_name(name): name for name in arrays.shapes}

    def name(self, row: ArrayRow, block: int = 0) -> str:
        """What the file calls, or would call, an array."""
        if self._is_alphafold:
            return ALPHAFOLD_PREFIX + row.alphafold
        name = row.openfold.format(block=block)
        return self._name_of.get(name, name)

    def stored_shape(self, row: ArrayRow) -> Shape | None:
        """Of an array as it lies in the file, in block 0 or with all blocks; None where it is not there."""
        return self._arrays.shapes.get(self.name(row))

    @cached_property
    def sizes(self) -> dict[str, Shape]:
        """Canonical shapes of the arrays of one block, by OpenFold's names.

        Raises: FormatError for too many or few axes.
        """
        sizes = {}
        for row in parameter_table():
            shape = self.stored_shape(row)
            if shape is not None and self._is_alphafold:
                if row.blocks and not shape:
                    raise FormatError(f"{self.path}: the array {self.name(row)} has no axis of blocks")
                try:
                    shape = canonical_shape(shape[1:] if row.blocks else shape, row.layout)
                except FormatError as error:
                    raise FormatError(f"{self.path}: the array {self.name(row)} {error}") from None
            if shape is not None:
                sizes[row.openfold] = shape
        return sizes

    def size(self, name: str, axis: int = 0) -> int:
        """Size of an array by OpenFold's name. Raises: FormatError where the array or its axis is not there."""
        stored = self.name(next(row for row in parameter_table() if row.openfold == name))
        if name not in self.sizes:
            raise FormatError(f"{self.path}: the array {stored} is missing from {self.kind}")
        if axis >= len(shape := self.sizes[name]):
            raise FormatError(f"{self.path}: the array {stored} has shape {shape}, it lacks an axis")
        return shape[axis]

    def has(self, prefix: str) -> bool:
        """Whether the file has an array of a part of the model."""
        return any(name.startswith(prefix) for name in self.sizes)

    def num_blocks(self, stack: str) -> int:
        """How many blocks the stack has whose arrays begin with `stack` in OpenFold's names."""
        if self._is_alphafold:
            rows = (row for row in parameter_table() if row.openfold.startswith(stack) and row.blocks)
            return max((shape[0] for row in rows if (shape := self.stored_shape(row))), default=0)
        names = (name for name in self._name_of if name.startswith(stack))
        return len({name[len(stack) :].split(".")[0] for name in names})

    def check(self, rows: Sequence[ModelRow]) -> None:
        """Compare with what a model needs.

        Raises: FormatError naming arrays that are missing, misshapen, or that no such model has.
        """
        if self._is_alphafold:
            expected = {self.name(row.row): row.alphafold_shape for row in rows}
        else:
            expected = {
                self.name(row.row, block): row.shape for row in rows for block in range(row.num_blocks)
            }
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

    def read(self, row: ModelRow) -> list[NDArray[np.float32]]:
        """The canonical arrays of a row of the table, one for each block.

        Raises: FormatError when an array is damaged or holds NaN or infinite values.
        """
        if self._is_alphafold:
            stored = self._arrays.read(self.name(row.row))
            arrays = [
                to_canonical(block, row.row.layout) for block in (stored if row.row.blocks else [stored])
            ]
        else:
            arrays = [self._arrays.read(self.name(row.row, block)) for block in range(row.num_blocks)]
        for block, array in enumerate(arrays):
            if not np.isfinite(array).all():
                name = self.name(row.row, block)
                raise FormatError(f"{self.path}: the array {name} holds NaN or infinite values")
        return arrays


@contextmanager
def open_parameters(path: Path) -> Iterator[ParameterFile]:
    """Open AlphaFold's `.npz`, or an OpenFold state dict (`.pt`, or the same names in an `.npz`).

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
        yield ParameterFile(arrays)


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


NOT_INFERRED = ("uniform_msa_attention", "centred_outer_product", "tied_row_heads", "pair_features")
"""Settings that shapes do not tell; they are AlphaFold 2's in every parameter file."""
_BLOCK = "evoformer.blocks.{block}."
_EXTRA_BLOCK = "extra_msa_stack.blocks.{block}."


def infer_config(file: ParameterFile, num_structure_layers: int | None = None) -> EvoformerConfig:
    """The config of the model a parameter file belongs to.

    num_structure_layers: layers of the structure module; None = the 8 of AlphaFold 2.

    Raises: FormatError naming the array that is missing or has an impossible shape; BioattnError when layers are
    asked for and there is no structure module.
    """
    size = file.size
    structure = _structure_config(file) if file.has("structure_module.") else None
    if num_structure_layers is not None:
        if structure is None:
            raise BioattnError(f"{file.path}: has no structure module, so no layers of one can be asked for")
        structure = replace(structure, num_layers=num_structure_layers)
    transition = f"{_BLOCK}msa_transition.linear_1.weight"
    values = {
        "msa_channels": size("input_embedder.linear_msa_m.weight"),
        "pair_channels": size("input_embedder.linear_tf_z_i.weight"),
        "single_channels": size("evoformer.linear.weight"),
        "msa_heads": size(f"{_BLOCK}msa_att_row.linear_z.weight"),
        "pair_heads": size(f"{_BLOCK}pair_stack.tri_att_start.linear.weight"),
        "outer_product_channels": size(f"{_BLOCK}outer_product_mean.linear_1.weight"),
        "triangle_multiplication_channels": size(f"{_BLOCK}pair_stack.tri_mul_out.linear_a_p.weight"),
        "transition_factor": size(transition) // max(1, size(transition, 1)),
        "num_blocks": file.num_blocks("evoformer.blocks."),
        "num_extra_msa_blocks": file.num_blocks("extra_msa_stack.blocks."),
        "target_features": size("input_embedder.linear_tf_m.weight", 1),
        "msa_features": size("input_embedder.linear_msa_m.weight", 1),
        "max_relative_position": (size("input_embedder.linear_relpos.weight", 1) - 1) // 2,
        "distogram_bins": 0,
    }
    for part, setting, name in (
        ("extra_msa_stack.", "extra_msa_channels", "extra_msa_embedder.linear.weight"),
        ("extra_msa_stack.", "extra_msa_heads", f"{_EXTRA_BLOCK}msa_att_row.linear_z.weight"),
        ("aux_heads.distogram.", "distogram_bins", "aux_heads.distogram.linear.weight"),
        ("aux_heads.plddt.", "plddt_channels", "aux_heads.plddt.linear_1.weight"),
    ):
        if file.has(part):
            values[setting] = size(name)
    try:
        return replace(
            EvoformerConfig(**values),  # type: ignore[arg-type]
            recycling=file.has("recycling_embedder."),
            structure_module=structure,
            templates=_template_config(file) if file.has("template_embedder.") else None,
            masked_msa_head=file.has("aux_heads.masked_msa."),
            aligned_error_head=file.has("aux_heads.tm."),
            experimentally_resolved_head=file.has("aux_heads.experimentally_resolved."),
        )
    except SettingsError as error:
        raise FormatError(f"{file.path}: the shapes of its arrays fit no model ({error})") from error


def _structure_config(file: ParameterFile) -> StructureModuleConfig:
    size, attention = file.size, "structure_module.ipa"
    heads = max(1, size(f"{attention}.head_weights"))
    query_points = size(f"{attention}.linear_q_points.linear.weight") // (3 * heads)
    points = size(f"{attention}.linear_kv_points.linear.weight") // (3 * heads)
    return StructureModuleConfig(
        num_heads=heads,
        head_channels=size(f"{attention}.linear_q.weight") // heads,
        num_query_points=query_points,
        num_value_points=points - query_points,
        angle_channels=size("structure_module.angle_resnet.linear_in.weight"),
    )


def _template_config(file: ParameterFile) -> TemplateConfig:
    size, stack = file.size, "template_embedder.template_pair_stack.blocks."
    block = stack + "{block}."
    query = "template_embedder.template_pointwise_att.mha.linear_q.weight"
    channels = size("template_embedder.template_pair_embedder.linear.weight")
    (row,) = (row for row in parameter_table() if row.openfold == query)
    query_shape = file.stored_shape(row) or ()
    return TemplateConfig(
        channels=channels,
        num_blocks=file.num_blocks(stack),
        pair_heads=size(f"{block}tri_att_start.linear.weight"),
        triangle_multiplication_channels=size(f"{block}tri_mul_out.linear_a_p.weight"),
        transition_factor=size(f"{block}pair_transition.linear_1.weight") // max(1, channels),
        # OpenFold's shapes do not tell.
        attention_heads=query_shape[1] if len(query_shape) == 3 else TemplateConfig().attention_heads,
        attention_channels=size(query),
    )


def load_parameters(
    path: Path, num_structure_layers: int | None = None
) -> tuple[EvoformerModel, InputSettings]:
    """The model that the parameters of AlphaFold (`.npz`) or OpenFold (`.pt`) belong to, on the CPU, and how it
    wants alignments presented.

    num_structure_layers: layers of the structure module, which share their weights and so cannot be counted;
    None = the 8 of AlphaFold 2.

    Raises: FormatError naming arrays that are missing, extra or misshapen, parameters of AlphaFold-Multimer, or
    pickled objects.
    """
    with open_parameters(path) as file:
        config = infer_config(file, num_structure_layers)
        if config.structure_module is not None and num_structure_layers is None:
            usual = EvoformerConfig()
            unusual = (config.msa_channels, config.num_blocks) != (usual.msa_channels, usual.num_blocks)
            LOGGER.log(
                logging.WARNING if unusual else logging.DEBUG,
                f"{path}: parameters do not tell how many layers the structure module has (they share their "
                f"weights); {config.structure_module.num_layers} are assumed, as in AlphaFold 2",
            )
        rows = model_rows(config)
        file.check(rows)
        with without_values():
            model = EvoformerModel(config)
        arrays = {name: torch.empty(tensor.shape) for name, tensor in model.state_dict().items()}
        for row in rows:
            for name, array in zip(row.our_names(), file.read(row), strict=True):
                arrays[name][row.rows].copy_(torch.from_numpy(array))
        model.load_state_dict(arrays, assign=True)
    inputs = published_inputs(path, has_templates=config.templates is not None)
    return model, inputs if config.recycling else replace(inputs, num_recycles=0)


def published_inputs(path: Path, *, has_templates: bool) -> InputSettings:
    """Numbers of rows that the published models take (AlphaFold's `config.py`).

    Models with a template embedder (1 and 2) keep 4 of 512 places for templates. Models 2 and 5 take 1,024 extra
    rows instead of 5,120, which only the file's name tells: `params_model_2_ptm.npz`.
    """
    few = re.search(r"model_[25](?![0-9])", path.name) is not None
    return InputSettings(max_msa_clusters=512 - 4 * has_templates, max_extra_msa=1024 if few else 5120)
