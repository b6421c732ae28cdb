"""Maps that are streamed to the file, against maps of whole batches."""

import numpy as np
import pytest

from bioattn.attention import operator
from bioattn.models.language import attention as language_attention
from bioattn.models.language.config import Shape
from bioattn.store import schema
from bioattn.store.reader import open_attention
from tests.making import bioattn
from tests.models.language.made_models import make_model, saved
from tests.result_files import assert_same_content


@pytest.fixture(scope="module", params=[Shape.ENCODER, Shape.ENCODER_DECODER])
def folder(request, tmp_path_factory):
    """A model and its maps of two sequences, written without streaming."""
    folder = tmp_path_factory.mktemp("maps")
    saved(folder / "model", make_model(request.param))
    (folder / "two.fa").write_text(">a\nACGTTGCAACGTAGCATC\n>b\nTTGACA\n")
    assert bioattn("export", "attention", folder / "model", folder / "two.fa", "-o", folder / "whole.h5") == 0
    return folder


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--reduce", "mean-heads"),
        ("--reduce", "max-heads", "--dtype", "float16"),
        ("--reduce", "top-k"),
        ("--heads", "1,0", "--value-weighted"),
    ],
    ids=lambda options: " ".join(options),
)
def test_streamed_maps_are_those_of_whole_batches(folder, options, monkeypatch):
    command = ("export", "attention", folder / "model", folder / "two.fa", *options, "-o")
    assert bioattn(*command, folder / "batches.h5") == 0
    monkeypatch.setattr(language_attention, "BATCH_BYTES", 0)
    # Several tiles a head, and chunks that tiles do not fill evenly.
    monkeypatch.setattr(operator, "TILE_BYTES", 4 * 20 * 3)
    monkeypatch.setattr(schema, "MAP_CHUNK_BYTES", 4 * 20 * 5)
    assert bioattn(*command, folder / "streamed.h5") == 0
    parts = [folder / f"{number}.h5" for number in (1, 2)]
    for number, part in enumerate(parts, start=1):
        assert bioattn(*command, part, "--shard", f"{number}/2") == 0
    assert bioattn("merge", *parts, "-o", folder / "merged.h5") == 0
    assert_same_content(folder / "merged.h5", folder / "streamed.h5")
    assert bioattn("validate", folder / "streamed.h5") == 0
    with open_attention(folder / "batches.h5") as batches, open_attention(folder / "streamed.h5") as streamed:
        assert list(batches.sites) == list(streamed.sites)
        for site in batches.sites:
            for sample in ("a", "b"):
                expected = batches.weights(site, sample=sample)
                found = streamed.weights(site, sample=sample)
                assert expected.shape == found.shape
                assert np.allclose(expected, found, atol=1e-3 if "float16" in options else 1e-6)
                if "top-k" in options:
                    own, others = (file.key_index(site, sample=sample) for file in (streamed, batches))
                    # Keys behind a decoder's query are equal, at 0.
                    assert (own == others)[expected > 1e-6].all()
                if "--value-weighted" in options:
                    expected = batches.weights(site, sample=sample, value_weighted=True)
                    found = streamed.weights(site, sample=sample, value_weighted=True)
                    assert np.allclose(expected, found, atol=1e-5)
