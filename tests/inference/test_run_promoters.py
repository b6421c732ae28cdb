"""The streaming runner: the numbers of a plain forward pass, attention by the definition, batches of the FASTA."""

import io

import numpy as np
import pandas as pd
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite
from bioattn.choices import Reduction, WeightType
from bioattn.errors import BioattnError, FormatError
from bioattn.formats.nucleotides import decode
from bioattn.inference.promoter_windows import hold_promoters, make_batch, refitted
from bioattn.models.promoter.config import Conditioning, TreatmentEncoding
from bioattn.models.promoter.running import run_promoters
from bioattn.promoters.promoter_fasta import read_promoters
from bioattn.promoters.treatments import TreatmentTable, select_treatments
from bioattn.store.file_kinds import validate_results
from bioattn.store.reader import open_attention
from bioattn.store.schema import AttentionOptions


class Ears:
    """Keeps everything as emitted, one promoter at a time."""

    def __init__(self):
        self.heard: dict[str, list[tuple[AttentionSite, np.ndarray, np.ndarray]]] = {}

    def receive(self, site, weights, value_weighted, tile=None):
        assert value_weighted is not None
        assert tile is None
        self.heard.setdefault(site.name, []).append((site, weights.numpy(), value_weighted.numpy()))

    def stacked(self, name, quantity):
        site = self.heard[name][0][0]
        stored = ("sample", "treatment", "head", "query", "key")
        order = [site.dims.index(dim) for dim in stored if dim in site.dims]
        return np.concatenate([entry[quantity].transpose(order) for entry in self.heard[name]])


def plain_pass(loaded, promoters, table):
    """Promoters one by one, without any of our machinery."""
    ears = Ears()
    rows = []
    treatments = loaded.encode_treatments(table)
    with torch.no_grad(), capture(["*"], ears, value_weighted=True):
        for promoter in read_promoters(promoters):
            codes = torch.from_numpy(make_batch([promoter], loaded.length).codes)
            rows.append(loaded.model(codes, treatments).numpy()[0])
    return np.array(rows), ears


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sink": True},
        {"treatment_encoder": TreatmentEncoding.FEATURES},
        {"conditioning": Conditioning.CROSS_ALL},
    ],
)
@pytest.mark.parametrize("batch_size", [None, 4])
def test_streamed_is_what_a_plain_pass_gives(
    make_model, make_promoters, load, tmp_path, settings, batch_size
):
    loaded = load(make_model(**settings))
    promoters = make_promoters()
    text = io.StringIO()
    summary = run_promoters(
        loaded,
        promoters,
        treatments=loaded.treatments,
        predictions=text,
        attention=tmp_path / "attention.h5",
        options=AttentionOptions(value_weighted=True),
        batch_size=batch_size,
    )
    assert summary.num_samples == 23
    expected, ears = plain_pass(loaded, promoters, loaded.treatments)
    table = pd.read_csv(io.StringIO(text.getvalue()), sep="\t", index_col="gene_id")
    assert list(table.columns) == loaded.treatments.names
    np.testing.assert_allclose(table.to_numpy(), expected, atol=1e-5)
    assert validate_results(tmp_path / "attention.h5") == []
    with open_attention(tmp_path / "attention.h5") as attention:
        assert list(attention.sites) == list(loaded.sites)
        assert list(attention.samples.index) == list(table.index) == [f"G{i:03d}" for i in range(23)]
        assert attention.model_sha256 == loaded.sha256
        np.testing.assert_allclose(attention.predictions().to_numpy(), expected, atol=1e-5)
        for name in attention.sites:
            np.testing.assert_allclose(attention.weights(name), ears.stacked(name, 1), atol=1e-6)
            np.testing.assert_allclose(
                attention.weights(name, value_weighted=True), ears.stacked(name, 2), atol=1e-5
            )
    assert not list(tmp_path.glob("*.partial"))


def test_heads_reductions_and_float16_against_the_whole(export):
    def weights(name, **options):
        path = export(name, options=AttentionOptions(sites=("promoter.cross.1",), **options))
        assert validate_results(path) == []
        with open_attention(path) as attention:
            assert list(attention.sites) == ["promoter.cross.1"]
            return attention.weights("promoter.cross.1")

    whole = weights("whole.h5")
    assert whole.shape == (23, 4, 3, 15)
    np.testing.assert_array_equal(weights("heads.h5", heads=(2, 0)), whole[:, :, [2, 0]])
    np.testing.assert_allclose(weights("mean.h5", reduce=Reduction.MEAN_HEADS), whole.mean(axis=2), atol=1e-7)
    np.testing.assert_array_equal(
        weights("max.h5", heads=(0, 1), reduce=Reduction.MAX_HEADS), whole[:, :, :2].max(axis=2)
    )
    half = weights("half.h5", dtype=WeightType.FLOAT16)
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, whole.astype(np.float16))


def test_padding_is_not_attended(export):
    """Short promoters lie at the right end: the bins of padding alone get no weight."""
    with open_attention(export()) as attention:
        padding = attention.sites["promoter.cross.0"].key_edges[1:] <= 10
        assert padding.sum() == 1
        weights = attention.weights("promoter.cross.0", gene="G002")
        assert weights[..., padding].max() < 1e-6
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)


def test_binary_models_give_probabilities(make_model, make_promoters, load):
    loaded = load(make_model(task="binary"))
    promoters, text = make_promoters(), io.StringIO()
    run_promoters(loaded, promoters, treatments=loaded.treatments, predictions=text)
    logits, _ = plain_pass(loaded, promoters, loaded.treatments)
    table = pd.read_csv(io.StringIO(text.getvalue()), sep="\t", index_col=0)
    np.testing.assert_allclose(table.to_numpy(), 1 / (1 + np.exp(-logits)), atol=1e-6)


def test_chosen_unseen_and_unconditional_treatments(make_model, make_promoters, load):
    loaded = load(make_model(treatment_encoder=TreatmentEncoding.FEATURES))
    promoters = make_promoters(5)

    def predict(table):
        text = io.StringIO()
        run_promoters(loaded, promoters, treatments=table, predictions=text)
        return pd.read_csv(io.StringIO(text.getvalue()), sep="\t", index_col=0)

    everything = predict(loaded.treatments)
    names = ["heat-40", "unconditional", "heat-5"]
    chosen = predict(select_treatments(loaded.treatments, names))
    assert list(chosen.columns) == names
    pd.testing.assert_frame_equal(chosen[["heat-40", "heat-5"]], everything[["heat-40", "heat-5"]])
    unseen = TreatmentTable(
        pd.DataFrame(
            {"agent": ["DTT", "heat"], "minutes": [12.5, 5.0]},
            index=pd.Index(["dtt-12", "heat-again"], dtype=object),
        ).astype({"agent": object})
    )
    answers = predict(select_treatments(loaded.treatments, (), unseen))
    np.testing.assert_allclose(answers["heat-again"], everything["heat-5"], rtol=1e-6)
    assert (answers["dtt-12"] != everything["dtt-10"]).all()
    assert list(predict(select_treatments(loaded.treatments, ["dtt-12"], unseen)).columns) == ["dtt-12"]


def test_the_batch_shrinks_with_what_a_promoter_takes(make_model, make_promoters, load, monkeypatch):
    loaded = load(make_model(conditioning=Conditioning.CROSS_ALL))
    promoters = make_promoters()

    def predict():
        sizes: list[int] = []
        hook = loaded.model.register_forward_pre_hook(lambda _module, inputs: sizes.append(len(inputs[0])))
        text = io.StringIO()
        run_promoters(loaded, promoters, treatments=loaded.treatments, predictions=text)
        hook.remove()
        return text.getvalue(), max(sizes)

    answers, batch = predict()
    assert batch == 23
    monkeypatch.setattr("bioattn.inference.passes.ACTIVATION_BYTES", 5 * 4 * 15 * 8 * 4)
    fewer, batch = predict()
    assert 1 <= batch <= 5
    read = [pd.read_csv(io.StringIO(text), sep="\t", index_col=0) for text in (answers, fewer)]
    np.testing.assert_allclose(read[0], read[1], atol=1e-5)


@pytest.mark.parametrize("number", [1, 23, 200])
@pytest.mark.parametrize("conditioning", [Conditioning.CROSS, Conditioning.CROSS_ALL])
def test_the_printed_size_is_the_size(
    make_model, make_promoters, load, tmp_path, monkeypatch, number, conditioning
):
    loaded = load(make_model(conditioning=conditioning))
    foreseen: list[int] = []
    monkeypatch.setattr(
        "bioattn.inference.run.require_free_space", lambda _, wanted, *__: foreseen.append(wanted)
    )
    summary = run_promoters(
        loaded,
        make_promoters(number),
        treatments=loaded.treatments,
        attention=tmp_path / "attention.h5",
        options=AttentionOptions(value_weighted=True),
    )
    assert summary.num_bytes == (tmp_path / "attention.h5").stat().st_size
    assert foreseen[0] == pytest.approx(summary.num_bytes, rel=0.1, abs=20_000)


@pytest.mark.parametrize("size", [1, 7, 23, 64])
def test_windows_are_aligned_at_their_right_end(make_promoters, size):
    path = make_promoters()
    source = hold_promoters(path, 130)
    assert (source.num_samples, source.num_padded) == (23, 23)
    batches = list(source.batches(size))
    assert [len(batch.codes) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    rows = np.concatenate([batch.codes for batch in batches])
    ids = [name for batch in batches for name in batch.samples.ids]
    for promoter, row, name in zip(read_promoters(path), rows, ids, strict=True):
        window = promoter.codes[promoter.flank : len(promoter.codes) - promoter.flank]
        assert name == promoter.gene_id
        np.testing.assert_array_equal(row, [4] * (130 - len(window)) + list(window))


def test_longer_promoters_are_cut_around_position_0(tmp_path):
    path = tmp_path / "long.fa"
    path.write_text(
        ">plus chr1:100-110(+) downstream=4\nAACCGGTTAC\n>minus chr1:100-110(-) downstream=4\nAACCGGTTAC\n"
        ">short chr1:100-105(-) downstream=4\nGGTTA\n"
    )
    source = hold_promoters(path, 5, downstream=3)
    assert [decode(row) for row in source.codes] == ["GGTTA", "GGTTA", "NGGTT"]
    columns = source.samples.columns
    assert (list(columns["start"]), list(columns["end"])) == ([104, 101, 101], [109, 106, 105])
    assert (source.num_padded, source.num_cut, source.downstream) == (1, 3, 3)
    assert [decode(row) for row in hold_promoters(path, 5).codes] == ["GTTAC", "GTTAC", "GGTTA"]
    with pytest.raises(BioattnError, match="4 bases from position 0"):
        hold_promoters(path, 5, downstream=5)


def test_position_0_is_known_without_a_location(tmp_path):
    """As of designs and of reporters, which lie on no chromosome."""
    path = tmp_path / "designs.fa"
    path.write_text(
        ">a flank=1 downstream=4\nTAACCGGTTACG\n>b downstream=4\nAACCGGTTAC\n>c downstream=4\nGGTTA\n"
    )
    source = hold_promoters(path, 5, downstream=3)
    assert [decode(row) for row in source.codes] == ["GGTTA", "GGTTA", "NGGTT"]
    assert refitted(source).endswith(
        "upstream; 3 of 3 promoters reach beyond the model's 5 bases and were cut to its window"
    )
    assert (hold_promoters(path, 5).downstream, list(source.samples.columns["start"])) == (4, [-1] * 3)
    path.write_text(">a\nAACCGGTTAC\n>b\nTTA\n")
    source = hold_promoters(path, 5, downstream=3)
    assert [decode(row) for row in source.codes] == ["GTTAC", "NNTTA"]
    padded, cut = refitted(source).split("; ")
    assert padded.endswith("padded with N upstream, their last base as position 2")
    assert cut.endswith("cut to their end, as they do not say where position 0 is")
    for record, reason in (
        (">a flank=2\nACGT", "a window of 0 bases"),
        (">a downstream=5\nACGT", "5 of them"),
    ):
        path.write_text(record)
        with pytest.raises(FormatError, match=reason):
            hold_promoters(path, 5)
