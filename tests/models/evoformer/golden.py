"""Golden cases of the MSA/pair model: configs, models with the golden parameters, inputs.

The parameters are read by the library: were one of its names or layouts wrong, golden outputs would differ.
"""

import functools
import json

import numpy as np
import torch

from bioattn.models.evoformer.config import EvoformerConfig, StructureModuleConfig
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_files import load_parameters
from bioattn.models.evoformer.parameter_table import model_rows

CASES = ("tiny", "wide")


def model_config(folder, case):
    """Our config of a golden case, as the file beside it says."""
    dims = json.loads((folder / "config.json").read_text())[case]["D"]
    return EvoformerConfig(
        msa_channels=dims["c_m"],
        pair_channels=dims["c_z"],
        extra_msa_channels=dims["c_e"],
        single_channels=dims["c_s"],
        msa_heads=dims["h_m"],
        pair_heads=dims["h_z"],
        extra_msa_heads=dims["h_e"],
        outer_product_channels=dims["c_opm"],
        triangle_multiplication_channels=dims["c_mul"],
        transition_factor=dims["n_tr"],
        num_blocks=dims["blocks"],
        num_extra_msa_blocks=dims["extra_blocks"],
        structure_module=StructureModuleConfig(
            num_layers=dims["sm_blocks"],
            num_heads=dims["h_ipa"],
            head_channels=dims["c_ipa"],
            num_query_points=dims["qk"],
            num_value_points=dims["vp"],
            angle_channels=dims["c_res"],
        ),
        plddt_channels=dims["c_lddt"],
        aligned_error_head=True,
    )


class Golden:
    """One golden case."""

    def __init__(self, folder, case):
        self.folder, self.case = folder, case
        config = model_config(folder, case)
        assert config.structure_module is not None
        parameters = folder / f"{case}_params_openfold.npz"
        self.model: EvoformerModel = load_parameters(parameters, config.structure_module.num_layers)[0]
        assert self.model.config == config

    def arrays(self, name):
        """The arrays of a golden file of the case."""
        return read_arrays(self.folder / f"{self.case}_{name}.npz")


@functools.cache
def golden_case(folder, case):
    """A case that tests share; its arrays and parameters stay as they are."""
    made = Golden(folder, case)
    made.arrays = functools.cache(made.arrays)
    return made


def stacked(config, arrays, prefix):
    """Our parameters, or their gradients, of the arrays that stand under OpenFold's names behind `prefix`."""
    parts: dict[str, list[np.ndarray]] = {}
    for row in model_rows(config):
        for ours, theirs in zip(row.our_names(), row.canonical_names(), strict=True):
            if prefix + theirs in arrays:
                parts.setdefault(ours, []).append(arrays[prefix + theirs])
    return {name: np.concatenate(each) for name, each in parts.items()}


def read_arrays(path):
    """All arrays of an .npz file."""
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def model_inputs(arrays, prefix="in/"):
    """The inputs of a golden file."""
    fields = {name: torch.from_numpy(arrays[prefix + name].copy()) for name in ModelInputs._fields[:-2]}
    for name in ("aatype", "residue_index", "extra_msa"):
        fields[name] = fields[name].long()
    return ModelInputs(**fields)


def assert_close(actual, expected, largest_input):
    """Element by element, as the golden files' README asks."""
    np.testing.assert_allclose(
        actual.detach().numpy(), expected, rtol=1e-4, atol=1e-5 * (1 + largest_input), strict=True
    )
