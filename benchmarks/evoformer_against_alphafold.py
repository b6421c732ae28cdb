"""Compare our MSA/pair model with AlphaFold's own network on the same parameters and the same alignment.

For whoever has the published parameters: they could not be had where this was written, so that they agree is shown
only on random ones. AlphaFold's network is taken from ColabFold's package of it, in an environment of its own:

    python -m venv jax && . jax/bin/activate && pip install .
    pip install jax==0.10.2 dm-haiku==0.0.17 ml-collections dm-tree absl-py immutabledict chex
    pip install --no-deps alphafold-colabfold==2.3.6
    python benchmarks/evoformer_against_alphafold.py params_model_3_ptm.npz family.a3m --recycles 3

A `.json` of names and shapes in place of the parameters (`golden/af2_param_shapes_*.json` of the shared folder) is
filled with random numbers. Parameters of `model_1` and `model_2` run with no template, as AlphaFold runs them when
it finds none.

For every output: the largest difference, alone and divided by 1 + the value. Residues that are masked (`--masked`)
are left out: what masks their point attention rounds it to 1/128, in either direction.
"""

import argparse
import copy
import dataclasses
import functools
import json
import os
import tempfile
import types
from pathlib import Path

import numpy as np
import torch
from common import options as command_line

from bioattn.alignments.input_features import InputFeatures, encode_alignment, sample_input_features
from bioattn.formats.alignment_file import read_alignment
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.inputs import ModelInputs
from bioattn.models.evoformer.parameter_files import load_parameters

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import haiku as hk
import jax
import jax.numpy as jnp

# What the package uses of jax that later versions took away; it must be there before the package is imported.
jax.tree_map = jax.tree_util.tree_map
jax.util = types.SimpleNamespace(wraps=lambda *_, **__: lambda function: function)
_clip = jnp.clip
jnp.clip = lambda x, a_min=None, a_max=None, **_: _clip(x, a_min, a_max)
jax.config.update("jax_default_matmul_precision", "highest")

from alphafold.common import residue_constants  # noqa: E402
from alphafold.model import modules  # noqa: E402
from alphafold.model.config import model_config  # noqa: E402

NUM_TEMPLATES = 4


def alphafold_config(ours: EvoformerConfig, templates: bool):
    """AlphaFold's config of a model of this shape."""
    config = model_config("model_1_ptm" if templates else "model_3_ptm").model
    config.global_config.update(bfloat16=False, deterministic=True, zero_init=False)
    trunk = config.embeddings_and_evoformer
    trunk.update(
        msa_channel=ours.msa_channels,
        pair_channel=ours.pair_channels,
        extra_msa_channel=ours.extra_msa_channels,
        seq_channel=ours.single_channels,
        evoformer_num_block=ours.num_blocks,
        extra_msa_stack_num_block=ours.num_extra_msa_blocks,
    )
    for name, layer in trunk.evoformer.items():
        if name.startswith("msa_") and "attention" in name:
            layer.num_head = ours.msa_heads
        elif name.startswith("triangle_attention"):
            layer.num_head = ours.pair_heads
        elif name.endswith("transition"):
            layer.num_intermediate_factor = ours.transition_factor
    trunk.evoformer.outer_product_mean.num_outer_channel = ours.outer_product_channels
    for stack in (trunk.evoformer, trunk.template.template_pair_stack):
        for way in ("outgoing", "incoming"):
            stack[f"triangle_multiplication_{way}"].fuse_projection_weights = False
    for way in ("outgoing", "incoming"):
        layer = trunk.evoformer[f"triangle_multiplication_{way}"]
        layer.num_intermediate_channel = ours.triangle_multiplication_channels
    structure = ours.structure_module
    config.heads.structure_module.update(
        num_layer=structure.num_layers,
        num_channel=ours.single_channels,
        num_head=structure.num_heads,
        num_point_qk=structure.num_query_points,
        num_point_v=structure.num_value_points,
        num_scalar_qk=structure.head_channels,
        num_scalar_v=structure.head_channels,
    )
    config.heads.structure_module.sidechain.num_channel = structure.angle_channels
    config.heads.predicted_lddt.num_channels = ours.plddt_channels
    config.heads.predicted_aligned_error.weight = float(ours.aligned_error_head)
    _set_extra_msa_heads(ours.extra_msa_heads)
    return config


def _set_extra_msa_heads(heads: int) -> None:
    """AlphaFold's two stacks share one setting; ours, and the small golden models, have two."""
    plain = modules.EvoformerIteration.__init__

    @functools.wraps(plain)
    def initialise(self, config, global_config, is_extra_msa, name="evoformer_iteration"):
        if is_extra_msa:
            config = copy.deepcopy(config)
            config.msa_row_attention_with_pair_bias.num_head = heads
            config.msa_column_attention.num_head = heads
        plain(self, config, global_config, is_extra_msa, name=name)

    modules.EvoformerIteration.__init__ = initialise


def alphafold_batch(features: InputFeatures, templates: bool) -> dict:
    """AlphaFold's names for the features, its atom tables, and templates that are all masked."""
    names = [
        field.name for field in dataclasses.fields(features) if field.name not in ("true_msa", "bert_mask")
    ]
    batch = {name: getattr(features, name) for name in names}
    atom37 = np.zeros((21, 37), dtype=np.int32)
    atom14 = np.zeros((21, 14), dtype=np.int32)
    exists37, exists14 = np.zeros((21, 37), np.float32), np.zeros((21, 14), np.float32)
    for kind, letter in enumerate(residue_constants.restypes):
        names = residue_constants.restype_name_to_atom14_names[residue_constants.restype_1to3[letter]]
        for slot, atom in enumerate(names):
            if atom:
                place = residue_constants.atom_order[atom]
                atom37[kind, place], atom14[kind, slot] = slot, place
                exists37[kind, place] = exists14[kind, slot] = 1
    aatype, residues = features.aatype, len(features.aatype)
    batch |= {
        "residx_atom37_to_atom14": atom37[aatype],
        "residx_atom14_to_atom37": atom14[aatype],
        "atom37_atom_exists": exists37[aatype],
        "atom14_atom_exists": exists14[aatype],
        "seq_length": np.int32(residues),
    }
    if templates:
        shape = (NUM_TEMPLATES, residues)
        batch |= {
            "template_aatype": np.zeros(shape, np.int32),
            "template_all_atom_masks": np.zeros((*shape, 37), np.float32),
            "template_all_atom_positions": np.zeros((*shape, 37, 3), np.float32),
            "template_mask": np.zeros(NUM_TEMPLATES, np.float32),
            "template_pseudo_beta": np.zeros((*shape, 3), np.float32),
            "template_pseudo_beta_mask": np.zeros(shape, np.float32),
        }
    return {name: jnp.asarray(value)[None] for name, value in batch.items()}


def run_alphafold(path: Path, ours: EvoformerConfig, passes: list[InputFeatures]) -> dict[str, np.ndarray]:
    """The outputs of the last pass, by our names."""
    parameters: dict = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            module, leaf = key.removeprefix("alphafold/").split("//")
            parameters.setdefault(module, {})[leaf] = jnp.asarray(arrays[key])
    templates = any("template" in module for module in parameters)
    config = alphafold_config(ours, templates)

    def iteration(batch, previous):
        return modules.AlphaFoldIteration(config, config.global_config)(
            ensembled_batch=batch, non_ensembled_batch=previous, is_training=False
        )

    apply = jax.jit(hk.transform(iteration).apply)
    residues = len(passes[0].aatype)
    previous = {
        "prev_msa_first_row": jnp.zeros((residues, ours.msa_channels)),
        "prev_pair": jnp.zeros((residues, residues, ours.pair_channels)),
        "prev_pos": jnp.zeros((residues, 37, 3)),
    }
    for features in passes:
        found = apply(parameters, jax.random.PRNGKey(0), alphafold_batch(features, templates), previous)
        representations = found["representations"]
        previous = {
            "prev_msa_first_row": representations["msa_first_row"],
            "prev_pair": representations["pair"],
            "prev_pos": found["structure_module"]["final_atom_positions"],
        }
    outputs = {
        "msa": representations["msa"],
        "pair": representations["pair"],
        "single": representations["single"],
        "structure.single": representations["structure_module"],
        "structure.atom37": found["structure_module"]["final_atom_positions"],
        "distogram_logits": found["distogram"]["logits"],
        "masked_msa_logits": found["masked_msa"]["logits"],
        "plddt_logits": found["predicted_lddt"]["logits"],
        "experimentally_resolved_logits": found["experimentally_resolved"]["logits"],
    }
    if ours.aligned_error_head:
        outputs["aligned_error_logits"] = found["predicted_aligned_error"]["logits"]
    return {name: np.asarray(value) for name, value in outputs.items()}


def mask_some(features: InputFeatures, share: float, random: np.random.Generator) -> InputFeatures:
    """Mask this share of residues and of cells."""
    changed = {
        name: getattr(features, name) * (random.random(getattr(features, name).shape) >= share)
        for name in ("seq_mask", "msa_mask", "extra_msa_mask")
    }
    return dataclasses.replace(features, **{name: mask.astype(np.float32) for name, mask in changed.items()})


def random_parameters(shapes: Path, path: Path) -> None:
    """Write random parameters of these names and shapes, so sized that 48 blocks neither fade nor explode."""
    random = np.random.default_rng(0)
    arrays = {}
    for name, shape in json.loads(shapes.read_text()).items():
        leaf = name.split("//")[1]
        values = random.standard_normal(shape, dtype=np.float32)
        of_blocks = any(part in name for part in ("evoformer_iteration/", "extra_msa_stack/", "no_state/"))
        one = shape[1:] if of_blocks else shape
        if leaf == "scale":
            values = 1 + 0.1 * values
        elif leaf == "trainable_point_weights":
            values = 0.5 + 0.3 * values
        elif leaf in ("offset", "bias", "gating_b", "output_b"):
            values *= 0.1
        else:
            values /= np.sqrt(np.prod(one[:-1]) if leaf == "output_w" else one[0])
            if leaf == "output_w" or "transition2" in name or "output_projection" in name:
                values *= 0.3
        arrays[name] = values
    np.savez(path, **arrays)


def main() -> None:
    parser = command_line(__doc__, output=False)
    parser.add_argument("parameters", type=Path, help="AlphaFold's .npz, or a .json of shapes")
    parser.add_argument("alignment", type=Path)
    parser.add_argument("--recycles", type=int, default=3)
    parser.add_argument("--max-msa-clusters", type=int, default=64)
    parser.add_argument("--max-extra-msa", type=int, default=128)
    parser.add_argument("--structure-layers", type=int, default=8, help="not told by the parameters")
    parser.add_argument("--masked", type=float, default=0, help="share of residues and cells to mask")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.parameters.suffix != ".json":
        compare(options, options.parameters)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "params.npz"
        random_parameters(options.parameters, path)
        compare(options, path)


def compare(options: argparse.Namespace, parameters: Path) -> None:
    model = load_parameters(parameters, options.structure_layers)[0].eval()
    encoded = encode_alignment(read_alignment(options.alignment), source=str(options.alignment))
    passes = []
    for number in range(options.recycles + 1):
        random = np.random.default_rng([options.seed, number])
        sample = sample_input_features(
            encoded, max_clusters=options.max_msa_clusters, max_extra=options.max_extra_msa, random=random
        )
        passes.append(mask_some(sample, options.masked, random))
    # Targets stay the same over passes, and so does what of them is masked.
    passes = [dataclasses.replace(sample, seq_mask=passes[0].seq_mask) for sample in passes]
    with torch.no_grad():
        outputs = model(lambda number: ModelInputs.from_features(passes[number]), options.recycles)
    ours = outputs._asdict() | {f"structure.{k}": v for k, v in outputs.structure._asdict().items()}
    theirs = run_alphafold(parameters, model.config, passes)
    present = passes[0].seq_mask > 0
    rows, columns = passes[-1].msa_feat.shape[:2]
    print(f"{rows} rows, {columns} residues ({present.sum()} not masked), {options.recycles + 1} passes")
    print(f"{'output':32} {'largest value':>14} {'difference':>12} {'/ (1 + value)':>14}")
    for name, value in theirs.items():
        kept = value
        mine = ours[name].numpy()
        for axis in [axis for axis, length in enumerate(value.shape[:2]) if length == columns]:
            if not (axis == 0 and value.ndim == 3 and name in ("msa", "masked_msa_logits")):
                kept, mine = np.compress(present, kept, axis), np.compress(present, mine, axis)
        difference = np.abs(mine - kept)
        relative = (difference / (1 + np.abs(kept))).max()
        print(f"{name:32} {np.abs(kept).max():14.4g} {difference.max():12.2g} {relative:14.2g}")


if __name__ == "__main__":
    main()
