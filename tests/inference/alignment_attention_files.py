"""Attention files over three small alignments, of weights that follow from a site's name."""

from contextlib import contextmanager

import numpy as np
import torch

from bioattn.attention.site import Tile
from bioattn.choices import Reduction
from bioattn.inference.attention_receiver import choose_sites
from bioattn.inference.folders import AttentionWriter
from bioattn.models.evoformer.sites import AlignmentSizes, alignment_layout, alignment_sample, alignment_site
from bioattn.store.schema import AttentionOptions
from bioattn.store.writer import result_file

SIZES = [AlignmentSizes(5, 3, 9), AlignmentSizes(7, 1, 4), AlignmentSizes(1, 2, 12)]
SITES = {
    site.name: site
    for site in (
        alignment_site("evoformer", 0, "msa_row", 4),
        alignment_site("evoformer", 0, "msa_column", 4),
        alignment_site("evoformer", 0, "triangle_ending", 2),
        alignment_site("extra_msa", 1, "msa_row", 3),
        alignment_site("extra_msa", 1, "msa_column_global", 3),
        alignment_site("structure", 2, "invariant_point", 5),
    )
}
ALL = AttentionOptions(reduce=Reduction.NONE)


@contextmanager
def alignment_attention(output, *, sites=SITES, options=ALL, number=1, **choices):
    """Write the attention of `sites` over `number` alignments, as `run evoformer` does."""
    layout = alignment_layout([sites[name] for name in choose_sites(sites, options.sites)], options, "a" * 64)
    with result_file(output, layout, number, **choices) as writer:
        yield AttentionWriter(writer, layout, sites, output)


def sample(number):
    rows, extra_rows, residues = SIZES[number]
    query = "ACDEFGHIKLMNPQRSTVWY"[:residues]
    return alignment_sample(
        id=f"prötein {number}",
        query=query,
        rows=rows,
        extra_rows=extra_rows,
        input_sha256="0" * 64,
        row_names=tuple(f"row {place} of {number}" for place in range(rows)),
        extra_row_names=tuple(f"extra {place}" for place in range(extra_rows)),
    )


def lengths_of(sizes):
    """By column of the sample table."""
    return {"length": sizes.residues, "rows": sizes.rows, "extra_rows": sizes.extra_rows}


def weights_of(site, sizes):
    """Softmax weights that depend on the site and the sizes only."""
    known = lengths_of(sizes)
    lengths = [known[axis.lengths] if axis.lengths else site.num_heads for axis in site.axes]
    random = np.random.default_rng([len(site.name), ord(site.name[-1]), *sizes])
    exponentials = np.exp(2 * random.normal(size=lengths))
    return (exponentials / exponentials.sum(-1, keepdims=True)).astype(np.float32)


def send(receiver, sizes, tile):
    """What a model would do: every site, a few slices of its outer axis at a time, in memory used again."""
    for site in SITES.values():
        whole = torch.from_numpy(weights_of(site, sizes))
        if site.dims[0] == "head":
            receiver.receive(site, whole, None)
            continue
        for start in range(0, len(whole), tile):
            part = whole[start : start + tile].clone()
            receiver.receive(site, part, None, Tile(site.dims[0], start, len(whole)))
            part.fill_(float("nan"))


def write(
    output, options=ALL, *, numbers=(0, 1, 2), tile=2, masks=None, before=lambda number: None, **choices
):
    with alignment_attention(output, options=options, number=len(numbers), **choices) as attention:
        for place, number in enumerate(numbers):
            if sample(number).ids[0] not in attention._writer.ids:
                before(place)
                with attention.sample(sample(number), masks) as receiver:
                    send(receiver, SIZES[number], tile)
        return attention._writer.ids
