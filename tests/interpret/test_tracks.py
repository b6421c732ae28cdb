"""Tracks against plain loops over every base, read back with other programs' readers."""

import gzip
import json

import bioframe
import numpy as np
import pandas as pd
import pybigtools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bioattn.errors import BioattnError
from bioattn.interpret.position_maps import upsample
from bioattn.interpret.track_layout import lay_out, place_windows
from bioattn.store.schema import AttentionOptions
from bioattn.store.windows import promoter_samples
from tests.making import bioattn
from tests.result_files import cross_site, dirichlet, promoter_layout, write_promoters

LENGTH, EDGES, FIELD = 60, (0, 4, *range(12, 61, 8)), 14
TREATMENTS = ["heat 37 °C", "Heat 37 C", "control"]
LENGTHS = {"chrII": 900, "chrI": 2000}
# id, chromosome, start, end, strand. Windows end 10 bases behind position 0.
GENES = [
    ("alone", "chrI", 1800, 1860, "+"),
    ("over-the-start", "chrI", -25, 35, "-"),
    ("one", "chrI", 100, 160, "+"),
    ("two", "chrI", 120, 180, "+"),
    ("trimmed", "chrI", 150, 190, "+"),
    ("touching", "chrI", 190, 250, "+"),
    ("other-strand", "chrI", 130, 190, "-"),
    ("other-strand-2", "chrI", 165, 225, "-"),
    ("trimmed-minus", "chrI", 300, 321, "-"),
    ("over-the-end", "chrII", 870, 930, "+"),
    ("same", "chrII", 100, 160, "-"),
    ("same-again", "chrII", 100, 160, "-"),
    ("nowhere", "", -1, -1, "."),
]
DOWNSTREAM = 10


@pytest.fixture
def write_attention(tmp_path):
    def write(
        genes=GENES,
        name="attention.h5",
        treatments=TREATMENTS,
        downstream=None,
        contributions=None,
        **options,
    ):
        site = cross_site(EDGES, field=FIELD, contributes=contributions is not None)
        chosen = AttentionOptions(**options)
        layout = promoter_layout([site], treatments, LENGTH, chosen, downstream=downstream)
        group = next(group for group in layout.groups if group.path == f"sites/{site.name}")
        weights = dirichlet(np.random.default_rng(0), (len(genes), *group.shape(group.arrays[0])))
        names, chroms, starts, ends, strands = (list(column) for column in zip(*genes, strict=True))
        path = tmp_path / name
        samples = promoter_samples(names, chroms, starts, ends, strands)
        arrays = {"weights": weights} | ({} if contributions is None else {"contributions": contributions})
        write_promoters(path, layout, samples, {site.name: arrays})
        return path, weights

    return write


def of_every_base(values, strand, genes=GENES, downstream=DOWNSTREAM):
    """What each base gets, base by base and gene by gene. values: (genes, window) of one treatment."""
    heard: dict[tuple[str, int], list[tuple[float, bool, int, float]]] = {}
    for number, (_, chrom, start, end, of_strand) in enumerate(genes):
        if of_strand != strand:
            continue
        for position in range(LENGTH):
            if strand == "+":
                base, anchor = end - LENGTH + position, end - downstream
                upstream = base < anchor
            else:
                base, anchor = start + LENGTH - 1 - position, start + downstream - 1
                upstream = base > anchor
            if not (start <= base < end and 0 <= base < LENGTHS[chrom]):
                continue
            heard.setdefault((chrom, base), []).append(
                (abs(base - anchor), not upstream, number, float(values[number, position]))
            )
    return {place: min(those)[-1] for place, those in heard.items()}


def of_bedgraph(path):
    """bioframe's reader, base by base; intervals must be sorted and apart."""
    table = bioframe.read_table(path, schema="bedGraph", skiprows=1)
    assert table.sort_values(["chrom", "start"], kind="stable").index.equals(table.index)
    assert len(bioframe.merge(table, min_dist=None)) == len(table)
    assert (table["end"] > table["start"]).all()
    assert (table["start"] >= 0).all()
    return {(row.chrom, base): row.value for row in table.itertuples() for base in range(row.start, row.end)}


def of_bigwig(path):
    """pybigtools' values of every base of every chromosome; NaN where there is none."""
    reader = pybigtools.open(str(path))
    found = {}
    for chrom, length in reader.chroms().items():
        values = reader.values(chrom, 0, length, fillna=None)
        found |= {(chrom, base): float(values[base]) for base in np.flatnonzero(~np.isnan(values))}
    return found


def require_same(found, expected, rtol):
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(
        [found[place] for place in expected], list(expected.values()), rtol=rtol, atol=1e-9
    )


@pytest.mark.parametrize("upsampling", ["gaussian", "receptive-field"])
def test_every_base_is_that_of_a_plain_loop(write_attention, tmp_path, upsampling):
    path, weights = write_attention()
    sizes = tmp_path / "genome.fa.fai"
    sizes.write_text("".join(f"{name}\t{length}\n" for name, length in LENGTHS.items()))
    command = ("export", "tracks", path, "-o", tmp_path / "tracks", "--upsample", upsampling)
    choices = ("--downstream", DOWNSTREAM, "--against", "control", "--treatment", "Heat 37 C")
    assert bioattn(*command, *choices, "--chromosome-sizes", sizes) == 0
    values = upsample(weights.astype(np.float64).mean(axis=2), EDGES, LENGTH, upsampling, FIELD)
    for strand, sign in (("+", "plus"), ("-", "minus")):
        heat, control = (of_every_base(values[:, t], strand) for t in (1, 2))
        for stem, expected in (
            ("Heat_37_C", heat),
            ("control", control),
            ("Heat_37_C-vs-control", {place: heat[place] - control[place] for place in heat}),
        ):
            require_same(of_bedgraph(tmp_path / f"tracks/{stem}.{sign}.bedgraph"), expected, 1e-6)
            require_same(of_bigwig(tmp_path / f"tracks/{stem}.{sign}.bw"), expected, 1e-6)
    lengths = pybigtools.open(str(tmp_path / "tracks/control.plus.bw")).chroms()
    assert lengths == LENGTHS


def test_the_table_has_every_bin_of_every_placed_gene(write_attention, tmp_path):
    path, weights = write_attention()
    command = ("export", "tracks", path, "-o", tmp_path / "tracks", "--treatment", "control")
    assert bioattn(*command, "--against", "mean", "--downstream", 0) == 0
    table = pd.read_csv(tmp_path / "tracks/control.genes.tsv", sep="\t")
    assert list(dict.fromkeys(table["gene_id"])) == [gene[0] for gene in GENES[:-1]]
    for number, (name, chrom, start, end, strand) in enumerate(GENES[:-1]):
        rows = table[table["gene_id"] == name]
        expected = []
        for low, high, weight in zip(EDGES[:-1], EDGES[1:], weights[number, 2].mean(0), strict=True):
            first, last = (
                (end - LENGTH + low, end - LENGTH + high)
                if strand == "+"
                else (start + LENGTH - high, start + LENGTH - low)
            )
            bases = [base for base in range(first, last) if max(start, 0) <= base < end]
            if bases:
                expected.append((chrom, bases[0], bases[-1] + 1, weight, strand, low, high))
        assert len(rows) == len(expected)
        found = rows.drop(columns="gene_id").to_numpy().tolist()
        for ours, theirs in zip(found, expected, strict=True):
            assert ours[:3] + ours[4:] == list(theirs[:3] + theirs[4:])
            assert ours[3] == pytest.approx(theirs[3], rel=1e-6)
    difference = pd.read_csv(tmp_path / "tracks/control-vs-mean.genes.tsv", sep="\t")
    bins = weights.astype(np.float64).mean(axis=2)
    expected = (bins[:, 2] - bins.mean(axis=1))[0]
    np.testing.assert_allclose(
        difference.loc[difference["gene_id"] == "alone", "difference"], expected, atol=1e-7
    )


def test_contributions_are_summed_over_heads_and_signed(write_attention, tmp_path):
    values = np.random.default_rng(1).normal(size=(len(GENES), 3, 2, len(EDGES) - 1)).astype(np.float32)
    path, weights = write_attention(contributions=values)
    options = ["--treatment", "control", "--against", "mean", "--downstream", "10"]
    assert bioattn("export", "tracks", path, "-o", tmp_path / "t", *options) == 0
    table = pd.read_csv(tmp_path / "t/control.genes.tsv", sep="\t")
    alone = values[0].astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(table.loc[table["gene_id"] == "alone", "contribution"], alone[2], rtol=1e-6)
    difference = pd.read_csv(tmp_path / "t/control-vs-mean.genes.tsv", sep="\t")
    np.testing.assert_allclose(
        difference.loc[difference["gene_id"] == "alone", "difference"], alone[2] - alone.mean(0), atol=1e-6
    )
    along = of_bigwig(tmp_path / "t/control.plus.bw")
    expected = np.repeat(alone[2] / np.diff(EDGES), np.diff(EDGES))
    np.testing.assert_allclose([along["chrI", base] for base in range(1800, 1860)], expected, rtol=1e-6)
    header = (tmp_path / "t/control.plus.bedgraph").read_text().splitlines()[0]
    assert 'description="contribution to the response per base, ' in header
    assert "altColor=" in header
    assert bioattn("export", "tracks", path, "-o", tmp_path / "w", "--weights", "--downstream", "10") == 0
    table = pd.read_csv(tmp_path / "w/control.genes.tsv", sep="\t")
    np.testing.assert_allclose(
        table.loc[table["gene_id"] == "alone", "attention"], weights[0, 2].mean(axis=0), rtol=1e-6
    )


def test_the_record_lists_the_files(write_attention, tmp_path, capsys):
    path, _ = write_attention()
    folder = tmp_path / "tracks"
    listed = tmp_path / "genes.txt"
    listed.write_text("one\ntwo\nnowhere\n")
    arguments = ["export", "tracks", path, "-o", folder, "--genes", listed, "--gzip"]
    assert bioattn(*arguments, "--downstream", "10") == 0
    said = capsys.readouterr().err
    assert "1 promoter without a place on a chromosome" in said
    assert "where windows of a strand overlap, a base goes to the gene whose position 0 is nearest" in said
    record = json.loads((folder / "tracks.json").read_text())
    assert [track["treatment"] for track in record["tracks"]] == TREATMENTS
    names = [file["file"] for track in record["tracks"] for file in track["files"]]
    assert sorted([*names, "tracks.json"]) == sorted(each.name for each in folder.iterdir())
    assert len({name.casefold() for name in names}) == len(names) == 9
    header = gzip.decompress((folder / "heat_37_C.plus.bedgraph.gz").read_bytes()).decode().splitlines()[0]
    assert header.startswith('track type=bedGraph name="heat 37 °C (+)" description="share of attention')


def test_position_0_is_where_the_file_says(write_attention, tmp_path):
    """The same tracks as with --downstream, which wins over the file; without either the default."""

    def exported(name, path, *options):
        folder = tmp_path / name
        command = ["export", "tracks", path, "-o", folder, "--treatment", "control", "-q", *options]
        assert bioattn(*command) == 0
        record = json.loads((folder / "tracks.json").read_text())
        files = {each.name: each.read_bytes() for each in folder.iterdir() if each.suffix == ".bedgraph"}
        return record["settings"]["downstream"], files

    plain, _ = write_attention()
    knowing, _ = write_attention(name="knowing.h5", downstream=DOWNSTREAM)
    known = exported("known", knowing)
    assert known == exported("asked", plain, "--downstream", str(DOWNSTREAM))
    other = exported("other", plain, "--downstream", "40")
    assert exported("overridden", knowing, "--downstream", "40") == other != known


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--treatment", "control", "--against", "control"], 1, "is the only treatment asked for"),
        (["--genes", "nowhere"], 1, "no promoter asked for has a place on a chromosome"),
        (["--value-weighted", "--downstream", "20"], 1, "export with --value-weighted"),
        (["--downstream", "61"], 1, "--downstream 61: the windows have 60 bases"),
    ],
)
def test_what_does_not_fit_is_one_sentence(write_attention, tmp_path, capsys, options, code, sentence):
    path, _ = write_attention()
    assert bioattn("export", "tracks", path, "-o", tmp_path / "t", *options) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.splitlines()[-1].startswith("bioattn: error: ")
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "t.partial").exists()


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ("chrI\t2000\n", "has no chromosome 'chrII'"),
        ("chrI\t2000\nchrII\t800\n", "lies outside its chromosome, which has 800 bases"),
        ("chrI 2000 x\nchrII\n", ":2: 'chrII' is not a chromosome and its length"),
        ("chrI\t2000\nchrI\t2000\n", ":2: chromosome 'chrI' is named twice"),
    ],
)
def test_chromosome_sizes_that_do_not_fit(write_attention, tmp_path, capsys, sizes, sentence):
    path, _ = write_attention()
    given = tmp_path / "genome.sizes"
    given.write_text(sizes)
    arguments = ["export", "tracks", path, "-o", tmp_path / "t", "--chromosome-sizes", given]
    assert bioattn(*arguments) == 1
    assert sentence in capsys.readouterr().err


WINDOWS = st.lists(
    st.tuples(st.integers(-15, 120), st.integers(1, 25)).filter(lambda row: sum(row) > 0),
    min_size=1,
    max_size=12,
)


def placed(rows, strand, downstream, chroms="I"):
    samples = pd.DataFrame(rows, columns=["start", "size"]).assign(chrom=chroms, strand=strand)
    samples["end"] = samples["start"] + samples["size"]
    return place_windows(samples, window_length=30, downstream=downstream)


@given(WINDOWS, st.sampled_from("+-"), st.integers(0, 12))
def test_each_base_goes_to_the_nearest_gene(rows, strand, downstream):
    windows = placed(rows, strand, downstream)
    (nearest,) = lay_out(windows)
    rivals: dict[int, list[tuple[int, bool, int]]] = {}
    for number, (start, size) in enumerate(rows):
        anchor = start + size - downstream if strand == "+" else start + downstream - 1
        for base in range(max(start, 0), start + size):
            upstream = base < anchor if strand == "+" else base > anchor
            rivals.setdefault(base, []).append((abs(base - anchor), not upstream, number))
    expected = {base: min(those)[-1] for base, those in rivals.items()}
    assert owners(nearest, rows) == expected


def owners(stretch, rows):
    """The number of the window that gives each base a value."""
    bases = [
        base
        for start, first, after in zip(
            stretch.island_starts, stretch.island_offsets, stretch.island_offsets[1:], strict=False
        )
        for base in range(start, start + after - first)
    ]
    assert len(bases) == stretch.bases
    assert bases == sorted(set(bases))
    found: dict[int, int] = {}
    for piece in stretch.pieces:
        sample = int(stretch.samples[piece.window])
        start, size = rows[sample]
        origin = start + size - 30 if stretch.strand == "+" else start
        covered = bases[piece.first : piece.first + piece.length]
        assert covered[0] == origin + piece.offset
        assert not found.keys() & covered
        found |= dict.fromkeys(covered, sample)
    return found


def test_chromosomes_come_in_the_order_of_their_names():
    windows = placed([(0, 10)] * 4, "+", 0, chroms=["chr2", "chr10", "Chr1", "chr1"])
    chroms = [stretch.chrom for stretch in lay_out(windows)]
    assert chroms == ["Chr1", "chr1", "chr10", "chr2"]


def test_a_window_longer_than_the_models_keeps_the_end_at_the_gene():
    for strand, expected in (("+", [110, 140]), ("-", [100, 130])):
        assert placed([(100, 40)], strand, 0)[["start", "end"]].iloc[0].tolist() == expected


def test_windows_outside_their_chromosome_are_refused():
    with pytest.raises(BioattnError, match=r"I:-20--5\(\+\) lies outside"):
        placed([(-20, 15)], "+", 0)
    assert len(placed([(-20, 25)], "+", 0)) == 1
