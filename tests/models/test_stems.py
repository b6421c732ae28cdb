"""Patches and self-attention between bins, against plain loops; the other stems are in `test_promoter_models`."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import erf, softmax

import bioattn
from bioattn.attention.capture import capture
from bioattn.choices import PositionEncoding
from bioattn.errors import BioattnError
from bioattn.inference.promoter_windows import make_batch
from bioattn.models.promoter.config import PromoterModelConfig, Stem
from bioattn.models.promoter.stem import STEMS
from bioattn.promoters.promoter_fasta import Promoter, read_promoters, write_promoters
from bioattn.promoters.treatments import named_treatments
from bioattn.store.file_kinds import validate_results
from tests.making import bioattn as command
from tests.making import untrained_model

LENGTH, POOL = 52, 8
SMALL = {"channels": 8, "kernel": 5, "pool": POOL, "num_heads": 2, "head_channels": 4, "hidden_channels": 8}
TABLE = named_treatments(["a", "b", "c"])


def make(spread=0.3, length=LENGTH, **settings):
    config = PromoterModelConfig(length=length, **{**SMALL, **settings})
    return untrained_model(config, TABLE, spread=spread)


def make_codes(number=3):
    codes = np.random.default_rng(0).integers(0, 4, (number, LENGTH), dtype=np.uint8)
    codes[1, :13] = 4  # the first bin has 4 bases, the second 8, and one base of the third is unknown
    return torch.from_numpy(codes)


def test_every_stem_has_its_place():
    assert list(STEMS) == list(Stem)


def test_patches_are_a_sum_over_their_bases():
    model = make(stem=Stem.PATCH)
    stem, codes = model.model.members[0].network.stem, make_codes()
    with torch.no_grad():
        bins, known = stem(codes)
    weight, bias = stem.project.weight.detach().numpy(), stem.project.bias.detach().numpy()
    edges = model.config.bin_edges
    for promoter in range(3):
        for number, (first, last) in enumerate(pairwise(edges)):
            expected = bias.copy()
            for place, base in enumerate(codes[promoter, first:last].tolist(), start=POOL - (last - first)):
                if base < 4:
                    expected += weight[:, 4 * place + base]
            np.testing.assert_allclose(bins[promoter, number], expected, atol=1e-5)
    assert known.tolist() == [[True] * 7, [False] * 2 + [True] * 5, [True] * 7]


def normal(x, layer):
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    return (x - x.mean()) / np.sqrt(x.var() + layer.eps) * weight + bias


def linear(x, layer):
    bias = 0 if layer.bias is None else layer.bias.detach().numpy()
    return layer.weight.detach().numpy() @ x + bias


class Recorder:
    def __init__(self):
        self.weights = {}

    def receive(self, site, weights, value_weighted, tile=None):
        self.weights[site.name] = weights.numpy()


@pytest.mark.parametrize("position", PositionEncoding)
def test_context_is_that_of_a_plain_loop(position):
    stem = make(stem=Stem.TRANSFORMER, position=position).model.members[0].network.stem
    recorder = Recorder()
    with torch.no_grad(), capture(["*"], recorder):
        bins, known = stem(make_codes())
        context = stem.in_context(bins, known)
    for promoter in range(3):
        rows = [row.numpy().astype(np.float64) for row in bins[promoter]]
        if position is PositionEncoding.LEARNED:
            rows = [
                row + added.detach().numpy() for row, added in zip(rows, stem.positions.table_LC, strict=True)
            ]
        if position is PositionEncoding.SINUSOIDAL:
            waves = 10_000 ** (-np.arange(0, 8, 2) / 8)
            rows = [
                row + np.stack([np.sin(p * waves), np.cos(p * waves)], axis=1).ravel()
                for p, row in enumerate(rows)
            ]
        for number, layer in enumerate(stem.layers):
            normals = [normal(row, layer.normalise_attention) for row in rows]
            query, key, value = (
                [linear(row, getattr(layer.attention, f"project_{kind}")).reshape(2, 4) for row in normals]
                for kind in ("query", "key", "value")
            )
            attended = []
            for i in range(7):
                heads = []
                for head in range(2):
                    logits = np.full(7, -np.inf)
                    for j in np.flatnonzero(known[promoter]):
                        turn = np.zeros(2)
                        if position is PositionEncoding.ROTARY:
                            turn = (i - j) * np.array([1, 0.01])
                        pairs = (
                            query[i][head].reshape(2, 2)
                            @ [1, 1j]
                            * np.conj(key[j][head].reshape(2, 2) @ [1, 1j])
                        )
                        logits[j] = (pairs * np.exp(1j * turn)).real.sum() / 2
                    weights = softmax(logits)
                    found = recorder.weights[f"promoter.stem.{number}"][promoter, head, i]
                    np.testing.assert_allclose(found, weights, atol=1e-5)
                    heads.append(sum(w * v[head] for w, v in zip(weights, value, strict=True)))
                attended.append(linear(np.concatenate(heads), layer.attention.project_output))
            rows = [row + added for row, added in zip(rows, attended, strict=True)]
            for place, row in enumerate(rows):
                hidden = linear(normal(row, layer.normalise_hidden), layer.widen)
                gelu = hidden * (1 + erf(hidden / np.sqrt(2))) / 2
                rows[place] = row + linear(gelu, layer.narrow)
        np.testing.assert_allclose(context[promoter], np.stack(rows), atol=2e-4)


def test_keys_that_know_everything_have_no_receptive_field():
    sites = make(stem=Stem.TRANSFORMER).sites
    assert list(sites) == ["promoter.stem.0", "promoter.stem.1", "promoter.cross.0"]
    assert [site.receptive_field for site in sites.values()] == [12, None, None]
    assert make(stem=Stem.PATCH).sites["promoter.cross.0"].receptive_field == POOL


@pytest.fixture
def folder(tmp_path):
    def write(**settings):
        path = tmp_path / "model"
        path.mkdir()
        make(**settings).write(path)
        return path

    return write


def test_export_of_self_attention(folder, tmp_path):
    """Through the front door: every bin at every bin of a promoter, with coordinates; short promoters have N."""
    codes = make_codes().numpy()
    promoters = tmp_path / "promoters.fa"
    records = [
        Promoter("whole", "chr1", 1000, 1000 + LENGTH, "+", 0, codes[0], None),
        Promoter("short", "chr1", 2000, 2000 + LENGTH - 13, "-", 0, codes[1, 13:], None),
    ]
    write_promoters(promoters, records)
    model, output = folder(stem=Stem.TRANSFORMER), tmp_path / "attention.h5"
    assert command("export", "attention", model, promoters, "-o", output, "--device", "cpu") == 0
    assert validate_results(output) == []
    recorder = Recorder()
    runner = bioattn.load_model(model)
    with torch.no_grad(), capture(["*"], recorder):
        batch = make_batch(list(read_promoters(promoters)), LENGTH)
        runner.model(torch.from_numpy(batch.codes), runner.encode_treatments(TABLE))
    opened = bioattn.open(output)
    for layer in (0, 1):
        name = f"promoter.stem.{layer}"
        found = opened.array(name)
        assert found.dims == ("sample", "head", "query", "key")
        middles = [(first + last) / 2 for first, last in pairwise(runner.config.bin_edges)]
        assert list(found.coordinates["query"]) == list(found.coordinates["key"]) == middles
        np.testing.assert_allclose(found.values, recorder.weights[name], atol=1e-6)
        np.testing.assert_allclose(found.values.sum(-1), 1, atol=1e-5)
        assert (found.values[1, :, :, :2] == 0).all(), "no weight on a bin of N"
        site = opened.sites[name]
        assert tuple(site.key_edges) == site.layout.axis("query").edges == runner.config.bin_edges
    with pytest.raises(BioattnError, match=r"at promoter\.stem\.0 positions attend to positions"):
        bioattn.load_model(model).attention(promoters, phases=2)
    assert command("report", output, "-o", tmp_path / "report.html") == 0
