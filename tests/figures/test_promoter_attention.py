"""One promoter's figure: what is drawn where, against coordinates worked out by hand."""

import re
import shutil

import h5py
import numpy as np
import pytest
from matplotlib.patches import StepPatch

from bioattn.attention.site import AttentionSite, Axis
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.figures.promoter_attention import draw_promoter_attention
from bioattn.figures.promoter_picture import Region, parse_region, read_promoter_picture, window_genes
from bioattn.figures.style import colour_of
from bioattn.formats.meme import Motif, write_meme
from bioattn.formats.nucleotides import encode
from bioattn.interpret.promoter_windows import WindowGene
from bioattn.store.reader import open_attention
from tests.figures.conftest import EDGES
from tests.result_files import dirichlet, promoter_layout, write_attribution, write_promoters

GFF = """##gff-version 3
chrI\tx\tgene\t3021\t3030\t.\t-\t.\tID=own;locus_tag=g3;gene=OWN
chrI\tx\tCDS\t3021\t3028\t.\t-\t0\tParent=own
chrI\tx\tgene\t3055\t3200\t.\t+\t.\tID=other;locus_tag=other
chrI\tx\tgene\t1\t300\t.\t+\t.\tID=far;locus_tag=far
chrI\tx\tgene\t2061\t2100\t.\t+\t.\tID=next;locus_tag=g2
chrI\tx\tgene\t2011\t2020\t.\t-\t.\tID=anti;locus_tag=anti
"""


@pytest.fixture
def annotation(tmp_path):
    path = tmp_path / "genes.gff3"
    path.write_text(GFF)
    return path


def read(path, gene, **options):
    with open_attention(path) as attention:
        return read_promoter_picture(attention, gene=gene, **options)


def fasta(path, promoters, motif, place):
    """Every window is A but for a motif at `place`; g4 is ten bases short, with flanks of 3."""
    lines = []
    for gene, _, start, end, strand, _ in zip(*promoters.samples.columns.values(), strict=True):
        bases = ["A"] * (end - start)
        at = place - (60 - len(bases))
        bases[at : at + len(motif)] = motif
        lines.append(f">{gene} chrI:{start}-{end}({strand}) flank=3\nCCC{''.join(bases)}GGG\n")
    path.write_text("".join(lines))
    return path


def motif_of(bases, path):
    probabilities = 0.96 * np.eye(4)[encode(bases)] + 0.01
    write_meme(path, [Motif(name="MA1", alternative_name="TF1", probabilities=probabilities)])
    return path


def test_genes_of_a_window_on_the_minus_strand(promoters, annotation):
    """The window of g3 is [3000, 3060) read from 3059 down: chromosome position c is window position 3059 - c."""
    with open_attention(promoters.path) as attention:
        genes, zero = window_genes(attention, "g3", annotation)
        coding = window_genes(attention, "g3", annotation, anchor="cds")[1]
    assert genes == [
        WindowGene(name="other", start=-140, end=6, coding=None, forward=False, own=False),
        WindowGene(name="OWN", start=30, end=40, coding=(32, 40), forward=True, own=True),
    ]
    assert zero == 3059 - 3029
    assert coding == 3059 - 3027


def test_genes_of_a_window_on_the_plus_strand_and_of_an_unknown_gene(promoters, annotation, caplog):
    with open_attention(promoters.path) as attention:
        genes, zero = window_genes(attention, "g2", annotation)
        _, unknown = window_genes(attention, "g1", annotation)
    assert zero == 60  # the base behind the window
    assert [(gene.name, gene.start, gene.end, gene.forward) for gene in genes] == [
        ("anti", 10, 20, False),
        ("g2", 60, 100, True),
    ]
    assert unknown is None
    assert "has no gene 'g1'" in caplog.text


def test_attention_is_in_multiples_of_uniform(promoters):
    picture = read(promoters.path, "g1", sites=["promoter.cross.0"], heads=[1], upsampling="nearest", zero=40)
    weights = promoters.weights["promoter.cross.0"][1, :, 1].astype(np.float64)
    for treatment in range(3):
        for base in range(60):
            bin_ = 0 if base < 4 else 1 + (base - 4) // 8
            width = 4 if base < 4 else min(8, 60 - (4 + 8 * (bin_ - 1)))
            expected = weights[treatment, bin_] / width * 60
            assert picture.tracks[picture.shown_first][treatment, base] == pytest.approx(expected, rel=1e-6)
    # A gene whose attention is uniform would be at 1.
    np.testing.assert_allclose(picture.tracks[picture.shown_first].mean(axis=1), 1, rtol=1e-6)
    assert picture.predictions == pytest.approx(promoters.predictions[1].tolist())
    assert picture.title == "g1   chrI:1,001–1,060 (−)"
    assert picture.zero == 40


def test_motifs_are_found_and_drawn_where_they_are(promoters, tmp_path, caplog):
    """A site at 40..46 of the window of g4, which is padded by ten bases on its left."""
    motifs = motif_of("GTCGAC", tmp_path / "m.meme")
    sequences = fasta(tmp_path / "p.fa", promoters, "GTCGAC", 40)
    picture = read(promoters.path, "g4", motifs=motifs, promoters=sequences, zero=50)
    assert picture.codes is not None
    assert picture.codes.tolist() == [4] * 10 + [0] * 30 + [2, 3, 1, 2, 0, 1] + [0] * 14
    assert picture.sites is not None
    assert [(site.motif, site.start, site.end) for site in picture.sites] == [("TF1", 40, 46)]
    caplog.set_level("INFO", logger="bioattn")
    poly_a = fasta(tmp_path / "a.fa", promoters, "AAAAAA", 40)
    assert read(promoters.path, "g4", motifs=motifs, promoters=poly_a).sites == []
    assert "no motif of" in caplog.text
    figure = draw_promoter_attention(picture, 180)
    axes = {axis.get_label(): axis for axis in figure.axes}
    (box,) = axes["sites"].patches
    assert (box.get_x(), box.get_width()) == (-10, 6)
    (label,) = axes["sites"].texts
    assert label.get_text() in ("TF1 →", "TF1 ←")  # a palindrome
    assert axes["attention 0"].get_xlim() == (-50, 10)


def test_tracks_and_bands(promoters, tmp_path):
    table = tmp_path / "truth.tsv"
    table.write_text(
        "gene_id\tmotif\ttreatment\trole\tstart\tend\tstrand\n"
        "g0\tm1\theat\tcausal\t5\t11\t+\ng0\tm2\tother\tcausal\t20\t26\t-\ng1\tm1\theat\tcausal\t0\t6\t+\n"
    )
    picture = read(promoters.path, "g0", motifs=table, region="3:30")
    figure = draw_promoter_attention(picture, 180)
    axes = {axis.get_label(): axis for axis in figure.axes}
    for number in range(3):
        filled, line = [
            patch for patch in axes[f"attention {number}"].patches if isinstance(patch, StepPatch)
        ]
        np.testing.assert_allclose(
            filled.get_data().values, picture.tracks[picture.shown_first][number, 3:30]
        )
        np.testing.assert_allclose(line.get_data().edges, np.arange(3, 31))
    bands = [patch for patch in axes["attention 0"].patches if not isinstance(patch, StepPatch)]
    assert [(band.get_x(), band.get_width()) for band in bands] == [(5, 6), (20, 6)]
    texts = {text.get_text(): text.get_color() for text in axes["sites"].texts}
    assert texts["m1 →"] == colour_of(0)
    assert set(texts) == {"m1 →", "m2 ←"}


def test_of_treatments_those_are_drawn_that_every_file_has(promoters, tmp_path):
    """The attribution once had to have what nobody had asked for."""
    known = {"model_sha256": "ab" * 32, "input_sha256": "cd" * 32}
    codes, values = np.zeros((5, 60), np.uint8), np.ones((5, 1, 60, 4), np.float32)
    path = tmp_path / "explain.h5"
    write_attribution(path, promoters.samples, codes, values, np.ones((5, 1), np.float32), ["H2O2"], **known)
    picture = read(promoters.path, "g0", attribution=path, sites=["promoter.cross.0"])
    assert list(picture.colours) == ["H2O2"]
    assert all(len(track) == 1 for track in picture.tracks.values())


def test_a_map_for_all_of_many_treatments_is_drawn(promoters, tmp_path):
    """Seven treatments, one map: six of them were once asked for by name."""
    axes = (Axis("sample"), Axis("head"), Axis("key", "position", edges=EDGES))
    stem = AttentionSite(name="promoter.stem.0", axes=axes, heads=(0,))
    weights = dirichlet(np.random.default_rng(0), (5, 1, len(EDGES) - 1))
    layout = promoter_layout([stem], list("abcdefg"), 60)
    write_promoters(tmp_path / "a.h5", layout, promoters.samples, {"promoter.stem.0": weights})
    assert list(read(tmp_path / "a.h5", "g0").colours) == ["all treatments"]


def test_flat_attention_is_left_out_and_said(promoters, tmp_path, caplog):
    path = tmp_path / "flat.h5"
    shutil.copyfile(promoters.path, path)
    with h5py.File(path, "r+") as file:
        for name in ("promoter.cross.0", "promoter.cross.1"):
            file[f"sites/{name}/weights"][0, 1] = np.diff(EDGES) / 60
            file[f"sites/{name}/weights"][1] = np.diff(EDGES) / 60
    picture = read(path, "g0", upsampling="nearest")
    assert picture.treatments == ["heat", "H2O2"]
    assert list(picture.colours.values()) == [colour_of(0), colour_of(2)]
    assert len(picture.tracks[picture.shown_first]) == 2
    assert picture.predictions == pytest.approx(promoters.predictions[0, [0, 2]].tolist())
    assert "left out, as it is the same at every position: 'cold $5 a_b$'" in caplog.text
    with pytest.raises(BioattnError, match="attention of g1 is the same at every position, under 'heat'"):
        read(path, "g1", upsampling="nearest")
    with pytest.raises(BioattnError, match="attention of g1 differs nowhere"):
        read(path, "g1", against="heat")


@pytest.mark.parametrize(
    ("text", "zero", "region"),
    [("0-60", None, (0, 60)), ("-40:-10", 40, (0, 30)), ("-5..5", 40, (35, 45)), ("-5-5", 40, (35, 45))],
)
def test_regions(text, zero, region):
    assert parse_region(text, zero, 60) == Region(*region)


@pytest.mark.parametrize("text", ["5", "a:b", "10:5", "50:61"])
def test_no_regions(text):
    with pytest.raises(BioattnError, match=re.escape("--region")):
        parse_region(text, None, 60)


def test_bad_input_is_one_sentence(promoters, annotation, tmp_path):
    def fails(error, sentence, gene="g0", **asked):
        with pytest.raises(error, match=re.escape(sentence)):
            read(promoters.path, gene, **asked)

    other = tmp_path / "other.gff3"
    other.write_text(GFF.replace("chrI", "chr1"))
    fails(BioattnError, "has no gene on chromosome 'chrI' of 'g0'; its chromosomes are", annotation=other)
    fails(SettingsError, "leave one of them out", annotation=annotation, zero=5)
    sequences = fasta(tmp_path / "p.fa", promoters, "GTCGAC", 40)
    fails(BioattnError, "add the promoter FASTA", motifs=motif_of("GTCGAC", tmp_path / "m.meme"))
    moved = tmp_path / "moved.fa"
    moved.write_text(sequences.read_text().replace("chrI:0-60", "chrI:1-61"))
    fails(BioattnError, "'g0' is not the window that the model saw", promoters=moved)
    longer = tmp_path / "longer.fa"  # of which the model saw the end
    text = sequences.read_text().replace("chrI:0-60(+) flank=3\nCCC", "chrI:-2-60(+) flank=3\nCCCTT")
    longer.write_text(text)
    codes = [read(promoters.path, "g0", promoters=path).codes.tolist() for path in (longer, sequences)]
    assert codes[0] == codes[1]
    table = tmp_path / "sites.tsv"
    table.write_text("gene_id\tmotif\tstart\tend\tstrand\ng0\tm\t55\t61\t+\n")
    fails(FormatError, "sites.tsv:2: 55 to 61 is no part of the window's 60 positions", motifs=table)
