"""The trunk's layers against plain loops; what masks, samples and precision do."""

import dataclasses
import functools

import numpy as np
import pytest
import torch

from bioattn.attention import cpu
from bioattn.attention.capture import capture
from bioattn.attention.kernels import Used
from bioattn.errors import BioattnError, SettingsError
from bioattn.models.evoformer import layers, stacks
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.pair_updates import OuterProductMean
from bioattn.models.evoformer.stacks import EvoformerBlock, EvoformerStack
from bioattn.system.device import Compile
from tests.making import small_evoformer
from tests.models.evoformer import trunk_loops
from tests.result_files import Heard

CONFIG = small_evoformer(
    msa_channels=12, extra_msa_channels=6, msa_heads=3, transition_factor=2, num_blocks=2
)


@pytest.fixture(params=["whole", "tiled", "as on a GPU"])
def tiled(request, monkeypatch):
    """In one piece; in tiles of four rows, computed again for gradients; as an accelerator does it."""
    if request.param == "tiled":
        monkeypatch.setattr(layers, "rows_per_tile", lambda *_: 4)
        monkeypatch.setattr(layers, "MIN_RECOMPUTED_ELEMENTS", 0)
    if request.param == "as on a GPU":
        monkeypatch.setattr(cpu, "on_cpu", lambda _: False)


TIED = dataclasses.replace(CONFIG, tied_row_heads=5)


def random_block(extra_msa=False, config=CONFIG):
    block = EvoformerBlock(config, 3, extra_msa=extra_msa)
    generator = torch.Generator().manual_seed(7)
    for name, parameter in block.named_parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
        if "normalise" in name and name.endswith("weight"):
            parameter.data += 1
    return block


def inputs(num_rows, num_residues, masks, extra_msa=False):
    random = np.random.default_rng(num_rows * 100 + num_residues)
    channels = CONFIG.extra_msa_channels if extra_msa else CONFIG.msa_channels
    msa = random.normal(size=(num_rows, num_residues, channels))
    pair = random.normal(size=(num_residues, num_residues, CONFIG.pair_channels))
    if masks == "none":
        msa_mask, seq_mask = np.ones((num_rows, num_residues)), np.ones(num_residues)
    elif masks == "all":
        msa_mask, seq_mask = np.zeros((num_rows, num_residues)), np.zeros(num_residues)
    else:
        seq_mask = (np.arange(num_residues) < max(1, num_residues - 2)).astype(float)
        msa_mask = (random.random((num_rows, num_residues)) < 0.7) * seq_mask
        msa_mask[-1] = 0
    return msa, pair, msa_mask, np.outer(seq_mask, seq_mask)


MASKS = ["none", "ragged", "all"]
CASES = [*((6, 9, masks) for masks in MASKS), (1, 1, "none"), (1, 6, "ragged"), (4, 1, "ragged")]


@functools.cache
def of_loops(num_rows, num_residues, masks, extra_msa):
    """A block and, by layer, its inputs and what plain loops make of them: the update, and the weights if any."""
    block = random_block(extra_msa)
    msa, pair, msa_mask, pair_mask = inputs(num_rows, num_residues, masks, extra_msa)
    heads = CONFIG.extra_msa_heads if extra_msa else CONFIG.msa_heads
    column = trunk_loops.msa_column_global_attention if extra_msa else trunk_loops.msa_column_attention
    cases = {
        "msa_row_attention": lambda p: trunk_loops.msa_row_attention(msa, pair, msa_mask, p, heads),
        "msa_column_attention": lambda p: column(msa, msa_mask, p, heads),
        "msa_transition": lambda p: (trunk_loops.transition(msa, p), None),
        "outer_product_mean": lambda p: (trunk_loops.outer_product_mean(msa, msa_mask, p), None),
        "triangle_multiplication_outgoing": lambda p: (
            trunk_loops.triangle_multiplication(pair, pair_mask, p, outgoing=True),
            None,
        ),
        "triangle_multiplication_incoming": lambda p: (
            trunk_loops.triangle_multiplication(pair, pair_mask, p, outgoing=False),
            None,
        ),
        "triangle_attention_starting": lambda p: trunk_loops.triangle_attention(
            pair, pair_mask, p, CONFIG.pair_heads, starting=True
        ),
        "triangle_attention_ending": lambda p: trunk_loops.triangle_attention(
            pair, pair_mask, p, CONFIG.pair_heads, starting=False
        ),
        "pair_transition": lambda p: (trunk_loops.transition(pair, p), None),
    }
    arguments = {
        "msa_row_attention": (msa, pair, msa_mask),
        "msa_column_attention": (msa, msa_mask),
        "msa_transition": (msa,),
        "outer_product_mean": (pair, msa, msa_mask),
        "pair_transition": (pair,),
    }
    found = {}
    for name, loop in cases.items():
        named = getattr(block, name).named_parameters()
        parameters = {key: value.detach().double().numpy() for key, value in named}
        found[name] = (arguments.get(name, (pair, pair_mask)), *loop(parameters))
    return block, found


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("num_rows", "num_residues", "masks"), CASES)
@pytest.mark.parametrize("extra_msa", [False, True])
def test_layers_against_loops(num_rows, num_residues, masks, extra_msa, grad, tiled):
    block, found = of_loops(num_rows, num_residues, masks, extra_msa)
    for name, (given, update, weights) in found.items():
        for captured in (False, True):
            recorder = Heard()
            with torch.set_grad_enabled(grad), capture(["*"] if captured else [], recorder):
                actual = getattr(block, name)(*(torch.tensor(array, dtype=torch.float32) for array in given))
            np.testing.assert_allclose(
                actual.detach().numpy(), given[0] + update, rtol=1e-4, atol=5e-5, err_msg=name
            )
            if captured and weights is not None:
                np.testing.assert_allclose(np.concatenate(recorder.weights), weights, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("masks", MASKS)
def test_recomputing_blocks_changes_no_gradient(masks, tiled):
    torch.manual_seed(0)
    stack = EvoformerStack(CONFIG)
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    arrays = [torch.tensor(array, dtype=torch.float32) for array in inputs(4, 9, masks)]
    gradients = []
    for recompute in (False, True):
        stack.zero_grad()
        msa, pair, single = stack(*arrays, recompute=recompute)
        (msa.square().mean() + pair.square().mean() + single.square().mean()).backward()
        gradients.append([parameter.grad.clone() for parameter in stack.parameters()])
    for kept, recomputed in zip(*gradients, strict=True):
        torch.testing.assert_close(kept, recomputed, rtol=1e-5, atol=1e-6 * float(kept.abs().max()) + 1e-12)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("extra_msa", [False, True])
def test_tiles_change_no_gradient(masks, extra_msa, monkeypatch):
    block = random_block(extra_msa)
    arrays = [torch.tensor(array, dtype=torch.float32) for array in inputs(6, 10, masks, extra_msa)]
    gradients = []
    monkeypatch.setattr(layers, "rows_per_tile", lambda *_: 4)
    for least in (1 << 30, 0):
        monkeypatch.setattr(layers, "MIN_RECOMPUTED_ELEMENTS", least)
        block.zero_grad()
        leaves = [array.clone().requires_grad_() for array in arrays[:2]]
        msa, pair = block(*leaves, *arrays[2:])
        recorder = Heard()
        with capture(["*"], recorder):
            (msa.tanh().sum() + pair.tanh().sum()).backward()
        assert not recorder.weights  # what is computed again is not heard again
        gradients.append([leaf.grad for leaf in leaves] + [p.grad.clone() for p in block.parameters()])
    largest = max(float(gradient.abs().max()) for gradient in gradients[0])
    for whole, tiled in zip(*gradients, strict=True):
        torch.testing.assert_close(tiled, whole, rtol=1e-3, atol=1e-6 * largest)


def test_frozen_parameters_get_no_gradient(tiled):
    block = random_block()
    for parameter in block.msa_row_attention.parameters():
        parameter.requires_grad_(False)
    arrays = [torch.tensor(array, dtype=torch.float32) for array in inputs(6, 10, "ragged")]
    msa, pair = block(*arrays)
    (msa.sum() + pair.sum()).backward()
    for name, parameter in block.named_parameters():
        assert (parameter.grad is None) == name.startswith("msa_row_attention"), name


both_row_attentions = pytest.mark.parametrize("config", [CONFIG, TIED], ids=["row by row", "tied"])


@torch.no_grad()
@both_row_attentions
def test_masked_rows_and_residues_change_nothing_else(config):
    block = random_block(config=config)
    msa, pair, _, _ = (torch.tensor(array, dtype=torch.float32) for array in inputs(8, 10, "none"))
    rows, residues = 6, 7
    msa_mask, pair_mask = torch.zeros(8, 10), torch.zeros(10, 10)
    msa_mask[:rows, :residues] = 1
    pair_mask[:residues, :residues] = 1
    cut_msa, cut_pair = block(
        msa[:rows, :residues].clone(),
        pair[:residues, :residues].clone(),
        msa_mask[:rows, :residues],
        pair_mask[:residues, :residues],
    )
    padded_msa, padded_pair = block(msa, pair, msa_mask, pair_mask)
    torch.testing.assert_close(padded_msa[:rows, :residues], cut_msa, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(padded_pair[:residues, :residues], cut_pair, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@both_row_attentions
def test_uniform_attention_weighs_all_keys_alike(config):
    config = dataclasses.replace(config, uniform_msa_attention=True)
    msa, pair, msa_mask, pair_mask = (
        torch.tensor(array, dtype=torch.float32) for array in inputs(5, 7, "ragged")
    )
    block = EvoformerBlock(config, 0)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    recorder = Heard()
    with capture(["*.msa_row", "*.msa_column"], recorder):
        block(msa, pair, msa_mask, pair_mask)
    for weights in map(np.asarray, recorder.weights):
        highest = weights.max(-1, keepdims=True)
        np.testing.assert_allclose(
            np.where(weights > 0, weights, highest), np.broadcast_to(highest, weights.shape)
        )


@torch.no_grad()
def test_tied_rows_share_one_map_of_covariances_which_goes_to_the_pairs(tiled):
    block = random_block(config=TIED)
    msa, pair, mask, _ = (torch.tensor(array, dtype=torch.float32) for array in inputs(9, 6, "none"))
    mask[7:] = 0
    rows, to_pairs, size = (
        block.msa_row_attention,
        block.maps_to_pairs,
        CONFIG.msa_channels // CONFIG.msa_heads,
    )
    normed = rows.normalise(msa)[:7].double().numpy()
    bias = rows.project_pair_bias(rows.normalise_pair(pair)).double().numpy()
    query, key, value_gate = (
        normed @ layer.weight.T.double().numpy()
        for layer in (rows.score.project_query, rows.score.project_key, rows.project_value_gate)
    )
    value, gate = np.split(value_gate + rows.project_value_gate.bias.double().numpy(), 2, axis=-1)
    wanted, attended = np.zeros((5, 6, 6)), np.zeros((7, 6, 5 * size))
    for head in range(5):
        channels = slice(head * size, (head + 1) * size)
        for i in range(6):
            logits = [
                float(rows.score.scale[head])
                * sum(
                    np.cov(query[:, i, c], key[:, j, c], ddof=0)[0, 1]
                    for c in range(channels.start, channels.stop)
                )
                + bias[i, j, head]
                for j in range(6)
            ]
            wanted[head, i] = np.exp(logits) / np.exp(logits).sum()
            for row in range(7):
                attended[row, i, channels] = wanted[head, i] @ value[row, :, channels]
    maps = rows.maps(msa, pair, mask)
    np.testing.assert_allclose(maps, wanted, rtol=1e-3, atol=1e-5)
    update = (attended / (1 + np.exp(-gate))) @ rows.project_output.weight.T.double().numpy()
    update += rows.project_output.bias.double().numpy()
    np.testing.assert_allclose(rows(msa.clone(), maps)[:7], msa[:7].numpy() + update, rtol=1e-3, atol=1e-3)
    weight = to_pairs.project_output.weight.double().numpy().reshape(-1, 5, 2)
    logs = np.log(6 * wanted)
    told = np.einsum("ch,hij->ijc", weight[..., 0], logs) + np.einsum("ch,hji->ijc", weight[..., 1], logs)
    np.testing.assert_allclose(to_pairs(pair.clone(), maps, mask), pair.numpy() + told, rtol=1e-3, atol=1e-3)


def test_settings_that_fit_no_model():
    with pytest.raises(SettingsError, match="msa_channels = 10 cannot be divided among msa_heads = 4"):
        EvoformerConfig(msa_channels=10, msa_heads=4)
    for setting in ({"pair_features": -1}, {"distogram_bins": -1}, {"num_blocks": 0}):
        with pytest.raises(SettingsError, match=next(iter(setting))):
            EvoformerConfig(**setting)


def test_is_the_covariance_of_projected_columns():
    torch.manual_seed(0)
    layer = OuterProductMean(6, 4, 3, centred=True).double()
    torch.nn.init.normal_(layer.project_output.weight)
    torch.nn.init.normal_(layer.project_factors.bias)
    msa, mask = torch.randn(9, 5, 6).double(), (torch.rand(9, 5) > 0.3).double()
    pair = layer(torch.zeros(5, 5, 4).double(), msa, mask).detach().numpy()
    factors = layer.project_factors(layer.normalise(msa)).detach().numpy()
    weight = layer.project_output.weight.detach().numpy().reshape(4, 3, 3)
    for i in range(5):
        for j in range(5):
            rows = [s for s in range(9) if mask[s, i] and mask[s, j]]
            means = [
                factors[[s for s in range(9) if mask[s, column]], column].sum(0)
                / (float(mask[:, column].sum()) + 1e-3)
                for column in (i, j)
            ]
            outer = sum(
                np.outer(factors[s, i, :3] - means[0][:3], factors[s, j, 3:] - means[1][3:]) for s in rows
            )
            wanted = np.einsum("cab,ab->c", weight, outer) / (len(rows) + 1e-3)
            np.testing.assert_allclose(pair[i, j], wanted, rtol=1e-9, atol=1e-9)


@pytest.fixture
def compiles(monkeypatch):
    """Compiling stops before code is written, which takes a minute; the graph is the same. Returns the graphs."""
    graphs, real = [], torch.compile

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda function: real(function, backend=backend))
    cached = stacks.compiled_update, stacks.why_not_compiled
    for function in cached:
        function.cache_clear()
    yield graphs
    for function in cached:
        function.cache_clear()
    torch._dynamo.reset()


def test_compiled_blocks_share_one_graph_and_change_nothing(compiles):
    """With gradients too, computed again or not. A layer that somebody listens to stays outside of the graphs."""
    torch.manual_seed(0)
    stack = EvoformerStack(CONFIG)
    for parameter in stack.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    arrays = [torch.tensor(array, dtype=torch.float32) for array in inputs(4, 9, "ragged")]
    found = []
    for compiled in (Compile.OFF, Compile.ON):
        stacks.compile_blocks(stack, compiled, torch.device("cpu"), 0)
        compiles.clear()
        with torch.no_grad():
            found.append([*stack(*(array.clone() for array in arrays))])
        assert len(compiles) == (compiled is Compile.ON)
        for recompute in (False, True):
            stack.zero_grad()
            leaves = [array.clone().requires_grad_() for array in arrays[:2]]
            msa, pair, single = stack(*leaves, *arrays[2:], recompute=recompute)
            (msa.square().mean() + pair.square().mean() + single.square().mean()).backward()
            found[-1] += [leaf.grad for leaf in leaves]
            found[-1] += [parameter.grad.clone() for parameter in stack.parameters()]
        assert len(compiles) == 2 * (compiled is Compile.ON)
        recorder = Heard()
        with torch.no_grad(), capture(["*.msa_row"], recorder):
            found[-1] += [*stack(*(array.clone() for array in arrays)), *recorder.weights]
        assert len(recorder.weights) == len(stack.blocks)
    for plain, other in zip(*found, strict=True):
        # Some gradients are 0 but for rounding: an offset that all keys share leaves the softmax.
        torch.testing.assert_close(other, plain, rtol=1e-5, atol=1e-5 * float(plain.abs().max()) + 1e-7)


@torch.no_grad()
def test_kernels_of_triton_stand_in_a_compiled_graph(compiles, monkeypatch):
    pytest.importorskip("triton")
    block = random_block()
    layers.use_precision(block, torch.float16)
    arrays = [torch.tensor(array, dtype=torch.float32) for array in inputs(3, 5, "none")]
    expected = block(*(array.clone() for array in arrays))
    stacks.compile_blocks(block, Compile.ON, torch.device("cpu"), 0)
    monkeypatch.setattr(Used, "attention", True)
    compiles.clear()
    found = block(*arrays)
    (graph,) = compiles
    assert sum("bioattn.attend" in str(node.target) for node in graph.graph.nodes) == 3
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() <= 1e-2 * other.norm()


def test_compiling_is_for_gpus_and_much_work(compiles):
    stack = EvoformerStack(CONFIG)
    assert not stacks.compile_blocks(stack, Compile.AUTO, torch.device("cpu"), 1e12)
    assert not stacks.compile_blocks(stack, Compile.AUTO, torch.device("cuda"), 1e6)
    assert stacks.compile_blocks(stack, Compile.ON, torch.device("cpu"), 0)
    assert all(block.compiled for block in stack.blocks)


def test_no_compiler_is_said_in_a_sentence(monkeypatch):
    def fails(_function):
        def run(_tensor):
            raise torch._dynamo.exc.TorchDynamoException("no C++ compiler\nmore")

        return run

    monkeypatch.setattr(torch, "compile", fails)
    stacks.why_not_compiled.cache_clear()
    with pytest.raises(BioattnError, match=r"no C\+\+ compiler\)$"):
        stacks.compile_blocks(EvoformerStack(CONFIG), Compile.ON, torch.device("cpu"), 0)
    stacks.why_not_compiled.cache_clear()
