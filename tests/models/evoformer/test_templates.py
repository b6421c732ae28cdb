"""Templates: every module against AlphaFold's arrays; the whole model, which has none, as their composition."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.models.evoformer.embedders import Recycled, pair_features
from bioattn.models.evoformer.inputs import TemplateInputs
from bioattn.models.evoformer.model import EvoformerModel
from bioattn.models.evoformer.parameter_files import load_parameters
from bioattn.models.evoformer.structure_module import pseudo_beta
from tests.models.evoformer.golden import CASES, assert_close, model_config, model_inputs, read_arrays

pytestmark = pytest.mark.shared


class Case(NamedTuple):
    """A model with the golden parameters, the golden arrays and the templates in them."""

    model: EvoformerModel
    arrays: dict[str, np.ndarray]
    templates: TemplateInputs

    @property
    def inputs(self):
        return model_inputs(self.arrays)

    @property
    def pair_mask(self):
        return self.inputs.seq_mask[:, None] * self.inputs.seq_mask


@pytest.fixture(params=CASES, scope="module")
def case(request, shared):
    folder, name = shared / "golden/templates", request.param
    arrays = read_arrays(folder / f"{name}_templates.npz")
    layers = model_config(shared / "golden", name).structure_module.num_layers
    names = ("aatype", "all_atom_positions", "all_atom_masks")
    templates = TemplateInputs.from_atoms(*(arrays[f"in/template_{each}"] for each in names))
    return Case(
        load_parameters(folder / f"{name}_params_af2_templates.npz", layers)[0],
        arrays,
        templates._replace(mask=torch.from_numpy(arrays["in/template_mask"])),
    )


@pytest.mark.parametrize("gradients", [False, True])
def test_modules(case, gradients):
    """With autograd and without it other code runs."""
    model, arrays, templates = case
    embedder, mask = model.template_embedder, case.pair_mask
    largest = max(np.abs(arrays[name]).max() for name in arrays if name.startswith("in/"))

    def check(tensor, name, number=...):
        assert_close(tensor, arrays[name][number], largest if name.startswith("out/") else 0)

    with torch.set_grad_enabled(gradients):
        for number in range(len(templates.mask)):
            template = TemplateInputs._make(each[number] for each in templates)
            check(pseudo_beta(template.atom37, template.aatype), "in/template_pseudo_beta", number)
            features = pair_features(template)
            check(features, "out/pair_features", number)
            check(pair_features(template, slice(2, 5)), "out/pair_features", (number, slice(2, 5)))
            pair = embedder.project_pair(features)
            check(pair, "out/embedding2d", number)
            for block, layer in enumerate(embedder.blocks):
                pair = layer(pair, mask)
                check(pair, f"out/pair_stack_block{block}", number)
            check(embedder.normalise(pair), "out/single_template", number)
            check(embedder.embed(template, mask), "out/single_template", number)
        weights = []
        recorder = type(
            "Recorder", (), {"receive": lambda _self, _site, each, *_: weights.append(each.clone())}
        )
        pair = torch.from_numpy(arrays["in/z"].copy())
        with capture(["template.pointwise"], recorder()):
            added = embedder(pair.clone(), templates, mask) - pair
        check(added, "out/template_embedding")
        check(torch.cat(weights), "attn/pointwise")
        check(templates.angles, "out/torsion_features")
        rows, rows_mask = embedder.rows(templates)
        check(rows, "out/template_rows")
        check(rows_mask, "out/template_rows_mask")


@torch.no_grad()
def test_the_model_is_composed_of_the_modules(case):
    """In AlphaFold's order: templates after recycling and before the extra MSA, their rows behind the MSA's."""
    model, _, templates = case
    inputs, mask = case.inputs, case.pair_mask
    residues, config = len(inputs.aatype), model.config
    recycled = Recycled(
        torch.zeros(residues, config.msa_channels),
        torch.zeros(residues, residues, config.pair_channels),
        torch.zeros(residues, 3),
    )
    for _ in range(2):
        msa, pair = model.recycling_embedder(*model.input_embedder(inputs), recycled)
        pair = model.template_embedder(pair, templates, mask)
        extra = model.extra_msa_embedder(
            inputs.extra_msa, inputs.extra_has_deletion, inputs.extra_deletion_value
        )
        pair = model.extra_msa_stack(extra, pair, inputs.extra_msa_mask, mask)
        rows, rows_mask = model.template_embedder.rows(templates)
        msa, pair, single = model.evoformer(
            torch.cat([msa, rows]), pair, torch.cat([inputs.msa_mask, rows_mask]), mask
        )
        structure = model.structure_module(single, pair, inputs.aatype, inputs.seq_mask)
        recycled = Recycled(msa[0].clone(), pair.clone(), pseudo_beta(structure.atom37, inputs.aatype))
    outputs = model(inputs._replace(templates=templates), 1)
    torch.testing.assert_close(outputs.msa, msa[: len(inputs.msa_feat)])
    torch.testing.assert_close(outputs.pair, pair)
    torch.testing.assert_close(outputs.structure.atom37, structure.atom37)
    assert outputs.masked_msa_logits.shape[0] == len(inputs.msa_feat)
    without = model(inputs, 1)
    assert not torch.allclose(without.pair, pair, atol=1e-2)


@torch.no_grad()
def test_masked_templates_are_none_and_their_order_does_not_matter(case):
    model, _, templates = case
    inputs = case.inputs

    def same(outputs, others):
        # A column that is masked throughout attends to the rows of templates as to all others.
        present = inputs.seq_mask > 0
        for ours, theirs in (
            (outputs.pair, others.pair),
            (outputs.distogram_logits, others.distogram_logits),
        ):
            pairs = present[:, None] & present
            torch.testing.assert_close(ours[pairs], theirs[pairs], rtol=1e-4, atol=1e-4)
        cells = inputs.msa_mask > 0
        torch.testing.assert_close(outputs.msa[cells], others.msa[cells], rtol=1e-4, atol=1e-4)

    absent = templates._replace(
        mask=torch.zeros_like(templates.mask), angles=torch.zeros_like(templates.angles)
    )
    same(model(inputs._replace(templates=absent), 1), model(inputs, 1))
    turned = TemplateInputs._make(part.flip(0) for part in templates)
    same(model(inputs._replace(templates=turned), 1), model(inputs._replace(templates=templates), 1))
    with pytest.raises(ValueError, match="no template embedder"):
        EvoformerModel(replace(model.config, templates=None))(inputs._replace(templates=templates))
