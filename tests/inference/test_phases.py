"""Maps averaged over shifted windows: against windows shifted by hand, base by base; sums, edges, refusals."""

import itertools

import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.choices import Reduction, WeightType
from bioattn.errors import BioattnError
from bioattn.inference.promoter_windows import make_batch
from bioattn.models.promoter.config import Conditioning
from bioattn.models.promoter.running import run_promoters
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import inspect_file
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions
from bioattn_cli.main import main

LENGTH, POOL = 120, 8


class Ears:
    def __init__(self):
        self.heard = {}

    def receive(self, site, weights, value_weighted, tile=None):
        self.heard[site.name] = [each[0].permute(1, 0, 2).numpy() for each in (weights, value_weighted)]


def by_hand(loaded, codes, shifts, pool, quantity):
    """Base by base: the weight of its bin in each window, shared by the bin's bases that the promoter has."""
    edges = [0, *range(LENGTH % pool or pool, LENGTH + 1, pool)]
    total = {}
    for shift in shifts:
        window = np.full(LENGTH, 4, np.uint8)
        for base in range(LENGTH):
            if 0 <= base + shift < LENGTH:
                window[base] = codes[base + shift]
        ears = Ears()
        with torch.no_grad(), capture(["*"], ears, value_weighted=True):
            loaded.model(torch.from_numpy(window[None]), loaded.encode_treatments(loaded.treatments))
        for name, arrays in ears.heard.items():
            bases = np.zeros((*arrays[quantity].shape[:-1], LENGTH))
            for k, (start, end) in enumerate(itertools.pairwise(edges)):
                there = [base + shift for base in range(start, end) if 0 <= base + shift < LENGTH]
                for base in there:
                    bases[..., base] += arrays[quantity][..., k] / len(there)
            total[name] = total.get(name, 0) + bases / len(shifts)
    return total


@pytest.mark.parametrize(
    ("pool", "phases", "sink"), [(8, 4, False), (8, 2, True), (9, 3, False), (7, 7, False)]
)
def test_it_is_the_mean_over_shifted_windows(make_model, make_promoters, load, export, pool, phases, sink):
    loaded = load(make_model("binned", pool=pool, sink=sink))
    promoters = make_promoters(7, "seven.fa")
    width = pool // phases
    shifts = [width * place for place in range(-(phases // 2), phases - phases // 2)]
    options = AttentionOptions(phases=phases, value_weighted=True)
    path = export(model=loaded, file=promoters, options=options, batch_size=3)
    assert validate_results(path) == []
    with open_attention(path) as attention:
        for row, promoter in enumerate(read_promoters(promoters)):
            codes = make_batch([promoter], LENGTH).codes[0]
            for quantity in (0, 1):
                for name, bases in by_hand(loaded, codes, shifts, pool, quantity).items():
                    edges = attention.sites[name].key_edges
                    assert list(edges) == [0, *range(LENGTH % width or width, LENGTH + 1, width)]
                    expected = np.add.reduceat(bases, edges[:-1], axis=-1)
                    found = attention.weights(name, gene=slice(row, row + 1), value_weighted=bool(quantity))[
                        0
                    ]
                    # (treatment, head, key) in the file.
                    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_predictions_are_those_of_the_window_as_it_is(export):
    tables = []
    for phases in (1, 4):
        with open_attention(export(f"{phases}.h5", options=AttentionOptions(phases=phases))) as attention:
            tables.append(attention.predictions())
    assert tables[0].equals(tables[1])


def test_a_promoter_of_n_alone_keeps_its_sum(export, make_model, load, tmp_path):
    """With bins that do not fill the window a shift pushes the short first one out of it."""
    (tmp_path / "n.fa").write_text(">G1\n" + "N" * LENGTH + "\n")
    wide = load(make_model("wide", pool=16))
    path = export(model=wide, file=tmp_path / "n.fa", options=AttentionOptions(phases=2))
    with open_attention(path) as attention:
        for name in attention.sites:
            np.testing.assert_allclose(attention.weights(name).sum(-1), 1, atol=1e-5)


def test_through_the_command(make_model, make_promoters, tmp_path):
    model, promoters = make_model(hops=1), make_promoters(6)
    out = tmp_path / "fine.h5"
    arguments = ["export", "attention", str(model), str(promoters), "--quiet", "-t", "1"]
    more = ["--phases", "8", "--heads", "0,2", "--reduce", "mean-heads", "--dtype", "float16"]
    assert main([*arguments, "-o", str(out), *more]) == 0
    assert validate_results(out) == []
    with open_attention(out) as attention:
        (site,) = attention.sites.values()
        assert site.reduce is Reduction.MEAN_HEADS
        assert site.dtype == np.dtype(WeightType.FLOAT16)
        assert site.shape == (6, 4, LENGTH)
        # A base gets weight from bins up to 7 bases to either side of its own, each of which sees 8 + 7 - 1.
        assert site.receptive_field == 14 + 2 * 7
        assert site.phases == 8
    assert inspect_file(out).figures["sites"]["promoter.cross.0"]["phases"] == 8


def test_what_cannot_be_cut_is_refused(make_model, make_promoters, load, tmp_path, capsys):
    for settings, phases, sentence in (
        ({}, 3, "--phases 3: the model's bins have 8 bases; give one of 1, 2, 4, 8"),
        ({"conditioning": Conditioning.CROSS_ALL}, 2, "--phases 2 is for attention to positions"),
    ):
        loaded = load(make_model(f"model{phases}", **settings))
        with pytest.raises(BioattnError) as refusal:
            run_promoters(
                loaded,
                make_promoters(2),
                treatments=loaded.treatments,
                attention=tmp_path / "a.h5",
                options=AttentionOptions(phases=phases),
            )
        assert sentence in str(refusal.value)
        assert not list(tmp_path.glob("a.h5*"))
