"""Attention over alignments, tile by tile into the file: what NumPy makes of the whole."""

import weakref

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.site import Tile
from bioattn.choices import Reduction, WeightType
from bioattn.errors import BioattnError
from bioattn.models.evoformer.attention import GatedAttention
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.sites import AlignmentSizes, alignment_layout, alignment_sample
from bioattn.models.evoformer.stacks import EvoformerStack
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import validate_file
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from tests.inference.alignment_attention_files import (
    SITES,
    SIZES,
    alignment_attention,
    lengths_of,
    sample,
    send,
    weights_of,
    write,
)


@pytest.mark.parametrize("reduce", list(Reduction))
def test_what_is_stored_is_what_numpy_makes_of_the_whole(tmp_path, reduce):
    output = tmp_path / "attention.h5"
    write(output, AttentionOptions(reduce=reduce, top_k=3))
    assert validate_file(output) == []
    with open_attention(output) as attention:
        assert list(attention.samples.index) == [sample(number).ids[0] for number in range(3)]
        for number, sizes in enumerate(SIZES):
            for name, site in SITES.items():
                whole = weights_of(site, sizes).astype(np.float64)
                stored = attention.weights(name, sample=sample(number).ids[0])
                axis = site.dims.index("head")
                match reduce:
                    case Reduction.MEAN_ROWS if axis:
                        expected = whole.mean(0)
                    case Reduction.MAX_ROWS if axis:
                        expected = whole.max(0)
                    case Reduction.MEAN_HEADS:
                        expected = whole.mean(axis)
                    case Reduction.MAX_HEADS:
                        expected = whole.max(axis)
                    case Reduction.TOP_K:
                        order = np.argsort(-whole, axis=-1)[..., :3]
                        expected = np.take_along_axis(whole, order, -1)
                        index = attention.key_index(name, sample=sample(number).ids[0])
                        np.testing.assert_array_equal(index, order)
                    case _:
                        expected = whole
                assert stored.shape == expected.shape
                np.testing.assert_allclose(stored, expected, atol=1e-6)
        assert attention.row_names(sample(1).ids[0]) == [f"row {place} of 1" for place in range(7)]


def test_padding_rows_and_residues_do_not_count(tmp_path):
    output = tmp_path / "attention.h5"
    masks = {
        "msa_row": np.array([True, False, True, True, False]),
        "residue": np.arange(9) < 7,
        "extra_msa_row": np.zeros(3, dtype=bool),  # none at all: then all count, for their rows are uniform
    }
    for reduce, numpy_reduce in ((Reduction.MEAN_ROWS, np.mean), (Reduction.MAX_ROWS, np.max)):
        write(output, AttentionOptions(reduce=reduce), numbers=(0,), masks=masks)
        with open_attention(output) as attention:
            for name, site in SITES.items():
                whole = weights_of(site, SIZES[0])
                kept = {"msa_row": masks["msa_row"], "residue": masks["residue"]}.get(site.axes[0].kind)
                if site.axes[0].kind == "extra_msa_row":
                    kept = np.ones(3, dtype=bool)
                expected = whole if kept is None else numpy_reduce(whole[kept], axis=0)
                np.testing.assert_allclose(
                    attention.weights(name, sample=sample(0).ids[0]), expected, atol=1e-6, err_msg=name
                )


@pytest.mark.parametrize("reduce", list(Reduction))
def test_the_size_of_tiles_does_not_show(tmp_path, reduce):
    contents = set()
    for tile in (1, 2, 100):
        for numbers in ((0, 1, 2), (1,)):
            output = tmp_path / f"{tile}-{len(numbers)}.h5"
            write(output, AttentionOptions(reduce=reduce), tile=tile, numbers=numbers)
            contents.add(output.read_bytes())
    assert len(contents) == 2


def test_chosen_sites_and_heads_in_half_precision(tmp_path):
    output = tmp_path / "attention.h5"
    options = AttentionOptions(
        sites=("*.msa_row",), heads=(2, 0), dtype=WeightType.FLOAT16, reduce=Reduction.NONE
    )
    with alignment_attention(output, options=options, number=3) as writer:
        assert writer.site_names == ["evoformer.00.msa_row", "extra_msa.01.msa_row"]
        with writer.sample(sample(0)) as receiver:
            for name in writer.site_names:
                receiver.receive(SITES[name], torch.from_numpy(weights_of(SITES[name], SIZES[0])), None)
    with open_attention(output) as attention:
        whole = weights_of(SITES["evoformer.00.msa_row"], SIZES[0])
        np.testing.assert_array_equal(
            attention.weights("evoformer.00.msa_row", sample=sample(0).ids[0], head=2),
            whole[:, 2].astype(np.float16),
        )
        np.testing.assert_array_equal(
            attention.weights("evoformer.00.msa_row", sample=sample(0).ids[0]),
            whole[:, [2, 0]].astype(np.float16),
        )
        with pytest.raises(BioattnError, match="holds no head 1"):
            attention.weights("evoformer.00.msa_row", sample=sample(0).ids[0], head=1)
    with pytest.raises(BioattnError, match="has heads 0 to 3, but 4 was asked for"):
        write(output, AttentionOptions(heads=(4,)))
    with pytest.raises(BioattnError, match=r"--sites 'promoter\.\*': the model holds no such attention site"):
        write(output, AttentionOptions(sites=("promoter.*",)))


@pytest.mark.parametrize(("reduce", "over"), [(Reduction.MEAN_ROWS, "sum"), (Reduction.MAX_ROWS, "max")])
@pytest.mark.parametrize("rows", [2, 5])
def test_maps_that_come_reduced(tmp_path, reduce, over, rows):
    """Sums or maxima of some rows at a time are written as the rows themselves would be."""
    site, name = SITES["evoformer.00.msa_row"], sample(0).ids[0]
    whole = torch.from_numpy(weights_of(site, SIZES[0]))
    options = AttentionOptions(sites=(site.name,), reduce=reduce, heads=(2, 0))
    with alignment_attention(tmp_path / "a.h5", options=options, number=3) as writer:
        with writer.sample(sample(0)) as receiver:
            assert receiver.over_rows(site) == over
            for start in range(0, 5, rows):
                part = whole[start : start + rows]
                reduced = part.sum(0) if over == "sum" else part.amax(0)
                receiver.receive_reduced(site, reduced, Tile("row", start, 5), len(part))
        with pytest.raises(RuntimeError, match="follows 0"), writer.sample(sample(1)) as receiver:
            receiver.receive_reduced(site, whole.sum(0), Tile("row", 2, 7), 5)
    with open_attention(tmp_path / "a.h5") as attention:
        expected = whole.mean(0) if over == "sum" else whole.amax(0)
        np.testing.assert_allclose(attention.weights(site.name, sample=name), expected[[2, 0]], atol=1e-6)


def test_a_tile_is_let_go_of(tmp_path):
    """A reduction keeps one map; without one nothing is kept at all."""
    site = SITES["evoformer.00.msa_row"]
    for reduce in Reduction:
        options = AttentionOptions(sites=(site.name,), reduce=reduce)
        with (
            alignment_attention(tmp_path / "a.h5", options=options, number=3) as writer,
            writer.sample(sample(0)) as receiver,
        ):
            if not reduce.over_rows:
                assert receiver.over_rows(site) == ""
            whole = weights_of(site, SIZES[0])
            for start in range(5):
                memory = whole[start : start + 1].copy()
                alive = weakref.ref(memory)  # as long as any tensor uses it
                receiver.receive(site, torch.from_numpy(memory), None, Tile("row", start, 5))
                del memory
                assert alive() is None


def test_a_stack_writes_every_map_it_attends_with(tmp_path):
    """The real layers, in their own tiles, against what a listener hears of them at once."""
    torch.manual_seed(0)
    stack = EvoformerStack(
        EvoformerConfig(msa_channels=8, msa_heads=2, pair_channels=8, pair_heads=2, num_blocks=2)
    )
    rows, residues = 9, 11
    inputs = (torch.randn(rows, residues, 8), torch.randn(residues, residues, 8))
    masks = (torch.ones(rows, residues), torch.ones(residues, residues))
    sites = {
        module.site.name: module.site for module in stack.modules() if isinstance(module, GatedAttention)
    }
    assert len(sites) == 8
    heard: dict[str, list[torch.Tensor]] = {name: [] for name in sites}

    class Ears:
        def receive(self, site, weights, _values, _tile=None):
            heard[site.name].append(weights.clone())

    named = alignment_sample(id="x", query="A" * residues, rows=rows, extra_rows=1, input_sha256="0" * 64)
    for reduce in (Reduction.NONE, Reduction.MEAN_ROWS):
        options = AttentionOptions(reduce=reduce)
        output = tmp_path / f"{reduce}.h5"
        with (
            torch.no_grad(),
            alignment_attention(output, sites=sites, options=options, number=3) as writer,
            writer.sample(named) as receiver,
            capture(writer.site_names, receiver),
        ):
            captured = stack(*(tensor.clone() for tensor in inputs), *masks)
        assert validate_results(output) == []
    with torch.no_grad(), capture(["*"], Ears()):
        stack(*(tensor.clone() for tensor in inputs), *masks)
    with torch.no_grad():
        plain = stack(*(tensor.clone() for tensor in inputs), *masks)
    torch.testing.assert_close(captured, plain, atol=1e-5, rtol=1e-4)
    with (
        open_attention(tmp_path / "none.h5") as everything,
        open_attention(tmp_path / "mean-rows.h5") as means,
    ):
        for name, tiles in heard.items():
            whole = torch.cat(tiles).numpy()
            np.testing.assert_array_equal(everything.weights(name, sample="x"), whole)
            np.testing.assert_allclose(means.weights(name, sample="x"), whole.mean(0), atol=1e-6)


def test_more_than_the_disk_holds_is_refused_first(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50_000})())
    with pytest.raises(BioattnError, match=r"are free in .*; choose fewer --sites, fewer heads"):
        write(tmp_path / "attention.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reduce", list(Reduction))
def test_the_size_said_first_is_the_size(tmp_path, reduce):
    sizes = AlignmentSizes(40, 30, 60)
    options = AttentionOptions(reduce=reduce)
    output = tmp_path / "attention.h5"
    with alignment_attention(output, options=options, number=3) as writer:
        named = alignment_sample(id="x", query="A" * 60, rows=40, extra_rows=30, input_sha256="0" * 64)
        with writer.sample(named) as receiver:
            send(receiver, sizes, 8)
    layout = alignment_layout(list(SITES.values()), options, "a" * 64)
    said = layout.stored_bytes(1, [lengths_of(sizes)])
    assert output.stat().st_size == pytest.approx(said, rel=0.1)
