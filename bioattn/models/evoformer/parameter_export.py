"""Parameters of an MSA/pair model from one form into another, and what `inspect` and `validate` say of them."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.npz import npz_output
from bioattn.io.files import atomic_output, check_output
from bioattn.io.folders import check_output_folder
from bioattn.models.evoformer.config import EvoformerConfig, TemplateConfig
from bioattn.models.evoformer.parameter_files import (
    ALPHAFOLD_PREFIX,
    NOT_INFERRED,
    infer_config,
    open_parameters,
)
from bioattn.models.evoformer.parameter_table import from_canonical, model_rows
from bioattn.models.evoformer.run import LoadedEvoformerModel, load_evoformer_model
from bioattn.models.family import WEIGHTS
from bioattn.models.running import RunReport
from bioattn.store.kinds import Problem
from bioattn.system.progress import SILENT, Progress


def export_parameters(source: Path, output: Path, *, force: bool = False) -> RunReport:
    """Write the parameters in `source` (any of the three forms) as `output`'s name says.

    force: replace a model folder.

    Raises: FormatError and BioattnError as `load_evoformer_model`; BioattnError when the model has parts that the
    form has no place for, or the output exists or cannot be written.
    """
    if output.suffix not in (".npz", ".pt", ""):
        raise SettingsError(
            f"--output {output}: give a name ending in .npz (AlphaFold's form) or .pt (OpenFold's), or without "
            "suffix for a model folder"
        )
    if output.suffix:
        check_output(output, [source])
    elif source.is_dir():
        raise BioattnError(f"{source}: is a model folder already; give --output a name ending in .npz or .pt")
    else:
        check_output_folder(output, [source], force=force)
    loaded = load_evoformer_model(source, torch.device("cpu"))
    if not output.suffix:
        loaded.save(output, force=force)
    else:
        for name in NOT_INFERRED:
            value = getattr(loaded.config, name)
            if value != getattr(EvoformerConfig(), name):
                raise BioattnError(
                    f"{loaded.path}: the model has {name} = {value}, for which AlphaFold's and OpenFold's "
                    "parameters have no place"
                )
        (_write_alphafold if output.suffix == ".npz" else _write_openfold)(loaded, output)
    number = sum(parameter.numel() for parameter in loaded.model.parameters())
    return RunReport(
        f"wrote {output}: {number:,} parameters",
        inputs={"model": source / WEIGHTS if source.is_dir() else source},
        outputs=[output],
        parameters=number,
    )


def _write_alphafold(loaded: LoadedEvoformerModel, output: Path) -> None:
    weights = loaded.model.state_dict()
    with npz_output(output) as archive:
        for row in model_rows(loaded.config):
            blocks = [
                from_canonical(weights[name][row.rows].numpy(), row.row.layout, row.num_heads)
                for name in row.our_names()
            ]
            archive.write(
                ALPHAFOLD_PREFIX + row.row.alphafold, np.stack(blocks) if row.row.blocks else blocks[0]
            )


def _write_openfold(loaded: LoadedEvoformerModel, output: Path) -> None:
    """A state dict with OpenFold's names. Raises: BioattnError for heads that it cannot tell."""
    templates, usual = loaded.config.templates, TemplateConfig().attention_heads
    if templates is not None and templates.attention_heads != usual:
        raise BioattnError(
            f"{loaded.path}: {templates.attention_heads} heads attend to templates, which OpenFold's form "
            f"does not tell ({usual} are assumed); give --output a name ending in .npz"
        )
    weights = loaded.model.state_dict()
    # Copies: torch would store all that a view is a view of.
    tensors = {
        name: weights[ours][row.rows].clone()
        for row in model_rows(loaded.config)
        for name, ours in zip(row.canonical_names(), row.our_names(), strict=True)
    }
    # Through an open file: given a name, torch writes that name, the temporary one, into the file.
    with atomic_output(output) as temporary, temporary.open("wb") as file:
        try:
            torch.save(tensors, file)
        except RuntimeError as error:
            # When the file refuses to take more, torch's own complaint, in closing its zip, hides why.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def describe_parameters(path: Path) -> dict[str, Any]:
    """A parameter file by its names and shapes. Raises: FormatError when these are not those of a model."""
    with open_parameters(path) as file:
        config = infer_config(file)
        rows = model_rows(config)
        file.check(rows)
        return {
            "form": file.kind,
            **describe_architecture(config),
            "parameters": sum(math.prod(row.shape) * row.num_blocks for row in rows),
        }


def validate_parameters(path: Path, _progress: Progress = SILENT) -> list[Problem]:
    """Read every array that the model has, and the check sums of an archive.

    Raises: as `describe_parameters`; FormatError naming the array that is damaged or holds NaN or infinite values.
    """
    describe_parameters(path)
    with open_parameters(path) as file:
        for row in model_rows(infer_config(file)):
            file.read(row)
    if zipfile.is_zipfile(path):  # torch does not compare check sums
        with zipfile.ZipFile(path) as archive:
            if (damaged := archive.testzip()) is not None:
                return [Problem(damaged, "is damaged; fetch the file again")]
    return []


def describe_architecture(config: EvoformerConfig) -> dict[str, Any]:
    """The figures people compare models by."""
    named = ("msa_channels", "pair_channels", "msa_heads", "tied_row_heads", "pair_heads", "recycling")
    return {
        "blocks": config.num_blocks,
        "extra_msa_blocks": config.num_extra_msa_blocks,
        **{name: getattr(config, name) for name in named},
        "structure_module": config.structure_module is not None,
        "aligned_error_head": config.aligned_error_head,
        "pair_features": config.pair_features,
        "templates": config.templates is not None,
    }
