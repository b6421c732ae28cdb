"""Parameters of an MSA/pair model from one form into another, and what `inspect` and `validate` say of them."""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import torch

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.npz import ARCHIVE_DAMAGE, npz_output
from bioattn.io.files import atomic_output, check_apart, check_output, check_parent
from bioattn.io.folders import atomic_folder
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.folder import read_evoformer_config, write_evoformer_model
from bioattn.models.evoformer.parameter_files import (
    ALPHAFOLD_PREFIX,
    ModelRow,
    ParameterFile,
    model_rows,
    open_parameters,
)
from bioattn.models.evoformer.parameter_loading import NOT_INFERRED, infer_config, load_parameters, per_block
from bioattn.models.evoformer.parameter_table import from_canonical
from bioattn.models.family import WEIGHTS
from bioattn.models.model_folder import model_files
from bioattn.store.kinds import Problem, error, warning
from bioattn.system.progress import SILENT, Progress

_CHUNK = 1 << 22


def export_parameters(
    source: Path, output: Path, *, num_structure_layers: int | None = None, force: bool = False
) -> int:
    """Write the parameters in `source` (any of the three forms) as `output`'s name says; returns how many numbers.

    num_structure_layers: what a folder is to say of parameters whose file does not (`load_parameters`).
    force: replace a model folder.

    Raises: FormatError and BioattnError as `load_parameters`; BioattnError when the model has parts that the form
    has no place for, or the output exists or cannot be written.
    """
    if output.suffix not in (".npz", ".pt", ""):
        raise SettingsError(
            f"--output {output}: give a name ending in .npz (AlphaFold's form) or .pt (OpenFold's), or without "
            "suffix for a model folder"
        )
    if not output.suffix:
        check_parent(output)
        check_apart(output, [source])
        if source.is_dir():
            raise BioattnError(
                f"{source}: is a model folder already; give --output a name ending in .npz or .pt"
            )
        return _write_folder(source, output, num_structure_layers, force=force)
    check_output(output, [source])
    with open_parameters(source) as file:
        config = (
            read_evoformer_config(source)[0] if source.is_dir() else infer_config(file, num_structure_layers)
        )
        write = _write_alphafold if output.suffix == ".npz" else _write_openfold
        return write(file, config, output)


def _write_folder(source: Path, output: Path, num_structure_layers: int | None, *, force: bool) -> int:
    is_model = (output / WEIGHTS).is_file()
    if output.exists() and not (force and is_model):
        raise BioattnError(
            f"{output}: exists already; choose another --output{', or --force to replace it' * is_model}"
        )
    model, inputs = load_parameters(source, num_structure_layers)
    with atomic_folder(output, model_files()) as folder:
        write_evoformer_model(folder, model, inputs)
    return sum(parameter.numel() for parameter in model.parameters())


def _write_alphafold(source: ParameterFile, config: EvoformerConfig, output: Path) -> int:
    """AlphaFold's `.npz`; returns how many numbers."""
    rows = _checked_rows(source, config)
    with npz_output(output) as archive:
        for row in rows:
            array = from_canonical(
                source.read(row), row.row.layout, row.num_heads, stacked=row.num_blocks is not None
            )
            archive.write(ALPHAFOLD_PREFIX + row.row.alphafold, array)
    return sum(math.prod(row.alphafold_shape) for row in rows)


def _write_openfold(source: ParameterFile, config: EvoformerConfig, output: Path) -> int:
    """A state dict with OpenFold's names; returns how many numbers."""
    usual = TemplateConfig().attention_heads
    if config.templates is not None and config.templates.attention_heads != usual:
        raise BioattnError(
            f"{source.path}: {config.templates.attention_heads} heads attend to templates, which OpenFold's form "
            f"does not tell ({usual} are assumed); give --output a name ending in .npz"
        )
    tensors: dict[str, torch.Tensor] = {}
    for row in _checked_rows(source, config):
        for name, array in zip(row.canonical_names(), per_block(source, row), strict=True):
            # A copy of its own: torch would store all that a view is a view of.
            tensors[name] = torch.from_numpy(array.copy(order="C"))
    # Through an open file: given a name, torch writes that name, the temporary one, into the file.
    with atomic_output(output) as temporary, temporary.open("wb") as file:
        try:
            torch.save(tensors, file)
        except RuntimeError as error:
            # When the file refuses to take more, torch's own complaint, in closing its zip, hides why.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise
    return sum(tensor.numel() for tensor in tensors.values())


def _checked_rows(source: ParameterFile, config: EvoformerConfig) -> list[ModelRow]:
    """The rows of the table the model has, when they are all of the model.

    Raises: BioattnError when the model does something that the published forms have no place for; FormatError as
    `ParameterFile.check`.
    """
    usual = EvoformerConfig()
    for name in NOT_INFERRED:
        value = getattr(config, name)
        if value != getattr(usual, name):
            raise BioattnError(
                f"{source.path}: the model has {name} = {value}, for which AlphaFold's and OpenFold's "
                "parameters have no place"
            )
    rows = model_rows(config)
    source.check(rows)
    return rows


def describe_parameters(path: Path) -> dict[str, Any]:
    """A parameter file by its names and shapes. Raises: FormatError when these are not those of a model."""
    with open_parameters(path) as file:
        config = infer_config(file)
        file.check(model_rows(config))
        return {
            "form": file.kind,
            **describe_architecture(config),
            "parameters": sum(math.prod(shape) for shape in file.shapes.values()),
        }


def validate_parameters(path: Path, _progress: Progress = SILENT) -> list[Problem]:
    """Read every byte of a parameter file.

    Raises: as `describe_parameters`; FormatError naming the array that is damaged or holds NaN or infinite values.
    """
    describe_parameters(path)
    with open_parameters(path) as file:
        for row in model_rows(infer_config(file)):
            file.read(row)
    return _bad_check_sums(path) if zipfile.is_zipfile(path) else []


def _bad_check_sums(path: Path) -> list[Problem]:
    """Members whose bytes do not fit their check sum, those that no model uses among them."""
    problems = []
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        # PyTorch can be told to leave them out (`torch.serialization.set_crc32_options`).
        if all(member.CRC == 0 for member in members if member.file_size):
            return [warning("", "was saved without check sums: whether it changed since cannot be told")]
        for member in members:
            try:
                with archive.open(member) as content:
                    while content.read(_CHUNK):
                        pass
            except (*ARCHIVE_DAMAGE, RuntimeError, EOFError, zlib.error) as problem:
                problems.append(error(member.filename, f"is damaged ({problem}); fetch the file again"))
    return problems


def describe_architecture(config: EvoformerConfig) -> dict[str, Any]:
    """The figures people compare models by."""
    return {
        "blocks": config.num_blocks,
        "extra_msa_blocks": config.num_extra_msa_blocks,
        "msa_channels": config.msa_channels,
        "pair_channels": config.pair_channels,
        "msa_heads": config.msa_heads,
        "tied_row_heads": config.tied_row_heads,
        "pair_heads": config.pair_heads,
        "recycling": config.recycling,
        "structure_module": config.structure_module is not None,
        "aligned_error_head": config.aligned_error_head,
        "pair_features": config.pair_features,
        "templates": config.templates is not None,
    }
