"""Attention and attribution files of given arrays, for tests of whoever reads them."""

import json
from collections.abc import Mapping

import h5py
import numpy as np

from bioattn.attention.site import AttentionSite, Axis
from bioattn.choices import Method, Reduction
from bioattn.io.hdf5 import put_array
from bioattn.models.evoformer.sites import alignment_layout, alignment_sample
from bioattn.store.attribution import GAP, SEQUENCE, VALUES, attribution_file_layout
from bioattn.store.schema import AttentionOptions, Block, FileLayout, predictions_layout, site_layout
from bioattn.store.windows import PROMOTER_COLUMNS, window_attributes
from bioattn.store.writer import result_file

PLAIN = AttentionOptions()
MEAN_ROWS = AttentionOptions(reduce=Reduction.MEAN_ROWS)


def dirichlet(random, shape):
    """Random rows of this shape that sum to 1, in float32."""
    return random.dirichlet(np.ones(shape[-1]), shape[:-1]).astype(np.float32)


def plain_site(heads, name="s", dims=("sample", "head", "query", "key"), null_key=False):
    """A site whose axes say nothing but their names."""
    axes = tuple(Axis(dim) for dim in dims)
    return AttentionSite(name=name, axes=axes, heads=tuple(range(heads)), null_key=null_key)


def cross_site(edges, heads=2, name="promoter.cross.0", field=22, contributes=False):
    """Treatments look at the bins of a promoter."""
    axes = (Axis("sample"), Axis("head"), Axis("treatment"), Axis("key", "position", edges=tuple(edges)))
    return AttentionSite(
        name=name, axes=axes, heads=tuple(range(heads)), receptive_field=field, contributes=contributes
    )


def stage_site(edges, heads=2, name="promoter.stage.0", null_key=False):
    """The bins of a promoter look at the tokens of a treatment."""
    query = Axis("query", "position", edges=tuple(edges))
    axes = (Axis("sample"), Axis("treatment"), Axis("head"), query, Axis("key", "token"))
    return AttentionSite(name=name, axes=axes, heads=tuple(range(heads)), null_key=null_key)


def promoter_layout(sites, treatments, window_length, options=PLAIN, tokens=4, **more):
    """The layout of an attention file over promoters; tokens: keys of the sites whose keys are no positions."""
    header = {"input_sha256": "cd" * 32, "task": "regression", "downstream": None}
    known = {name: more.pop(name, value) for name, value in header.items()}
    groups = [
        site_layout(site, options, sizes={"key": tokens}, coordinates={"treatment": treatments})
        for site in sites
    ]
    return FileLayout(
        inputs="promoters",
        model_sha256=more.pop("model_sha256", "ab" * 32),
        attributes=window_attributes(window_length=window_length, **known),
        columns=PROMOTER_COLUMNS,
        groups=(*groups, predictions_layout(treatments)),
        **more,
    )


def part_of(block, rows):
    """Some samples of a block."""
    arrays = {
        path: {name: values[rows] for name, values in group.items()} for path, group in block.arrays.items()
    }
    return Block(block.samples.part(rows), arrays)


def with_attributes(path, **attributes):
    """Let a file of results say more, or something else, of itself."""
    with h5py.File(path, "r+") as file:
        said = json.loads(file["layout"].asstr()[0])
        said["attributes"] |= attributes
        del file["layout"]
        put_array(file, "layout", [json.dumps(said)])


def write_promoters(path, layout, samples, arrays, predictions=None, *, blocks=1, **writer_options):
    """A file of these weights (in stored order) by site, or of arrays by name; predictions: None = zeros."""
    treatments = next(group for group in layout.groups if group.path == "predictions").axes[0].size or 0
    values = np.zeros((len(samples), treatments), np.float32) if predictions is None else predictions
    by_path = {
        f"sites/{name}": found if isinstance(found, Mapping) else {"weights": found}
        for name, found in arrays.items()
    }
    whole = Block(samples, {**by_path, "predictions": {"values": values}})
    with result_file(path, layout, len(samples), **writer_options) as writer:
        for rows in np.array_split(np.arange(len(samples)), blocks):
            writer.append(part_of(whole, slice(int(rows[0]), int(rows[-1]) + 1)))


def write_attribution(path, samples, codes, values, predictions, treatments, *, gap=None, **header):
    """An attribution file by mutagenesis, or by integrated gradients where there is a gap."""
    known = {"input_sha256": "0", "task": "regression", "downstream": None} | header
    method = Method.ISM if gap is None else Method.INTEGRATED_GRADIENTS
    layout = attribution_file_layout(
        method,
        "" if gap is None else "steps=5",
        treatments,
        model_sha256=known.pop("model_sha256", "0"),
        attributes=window_attributes(window_length=codes.shape[1], **known),
    )
    arrays = {SEQUENCE: codes, VALUES: values} | ({} if gap is None else {GAP: gap})
    whole = Block(samples, {"attribution": arrays, "predictions": {"values": predictions}})
    with result_file(path, layout, len(samples)) as writer:
        writer.append(whole)


def aligned(id, query, rows, columns=None, of_columns=None, **more):
    """An alignment of a file's table: a target of some of its columns, and as many extra rows as others."""
    known = {"extra_rows": rows, "input_sha256": ""} | more
    places = {"columns": columns, "alignment_columns": of_columns}
    return alignment_sample(id=id, query=query, rows=rows, **places, **known)


def write_alignments(path, sites, samples, make, options=MEAN_ROWS, model_sha256="a" * 64):
    """A file over alignments; make: site, shape of its weights, number of the sample → arrays by name."""
    layout = alignment_layout(sites, options, model_sha256)
    with result_file(path, layout, len(samples)) as writer:
        for number, sample in enumerate(samples):
            with writer.sample(sample) as arrays:
                for group in layout.groups:
                    site = next(site for site in sites if group.path == f"sites/{site.name}")
                    shape = group.shape(group.arrays[-1], sample.lengths(0))
                    arrays[group.path].write(make(site, shape, number))


class Heard:
    """A receiver of attention that keeps copies of what it gets."""

    def __init__(self):
        self.received, self.tiles = [], []

    @property
    def weights(self):
        return [weights for _, weights, _ in self.received]

    @property
    def by_site(self):
        """The weights of each call, by the name of the site."""
        return {
            site.name: [w for other, w, _ in self.received if other is site] for site, *_ in self.received
        }

    def receive(self, site, weights, value_weighted, tile=None):
        self.received.append(
            (site, weights.clone(), None if value_weighted is None else value_weighted.clone())
        )
        self.tiles.append(tile)


def contents(path, *, without=("generated_by", "REFERENCE_LIST", "DIMENSION_LIST")):
    """Values by name of every dataset and attribute."""
    found = {}

    def note(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]
        for attribute, value in item.attrs.items():
            if attribute not in without:
                found[f"{name}@{attribute}"] = np.asarray(value)

    with h5py.File(path, "r") as file:
        note("", file)
        file.visititems(note)
    return found


def assert_same_content(one, other, tolerance=0.0):
    """Names, shapes, types and values agree; floats to `tolerance`."""
    first, second = contents(one), contents(other)
    assert first.keys() == second.keys()
    for name, values in first.items():
        assert values.shape == second[name].shape, name
        if values.dtype.kind == "f":
            np.testing.assert_allclose(values, second[name], rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            assert (values == second[name]).all(), name
