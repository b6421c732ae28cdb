"""Every `bioattn plot` command from files to figures, as a user runs it; what is wrong is said in one sentence."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from bioattn.errors import FormatError
from bioattn.figures.arcs import read_arcs
from bioattn.formats.structure_output import StructureResidue, write_mmcif, write_pdb
from bioattn.interpret.choices import Upsampling
from bioattn.models.evoformer.inference.attention import AlignmentSample
from bioattn.models.evoformer.sites import alignment_site
from bioattn.store import open_attention
from bioattn.store.windows import promoter_samples
from bioattn.views.confidence import read_aligned_error, read_plddt
from bioattn_cli.main import main
from tests.result_files import (
    cross_site,
    promoter_layout,
    write_alignments,
    write_attribution,
    write_promoters,
)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
LENGTH = 40
TREATMENTS = ["heat", "cold"]
SEQUENCE = "ACGTACGTTTGACCATGCAAGGCTTACGATCGGATCAAGT"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Attention over two promoters with their FASTA, genes and attribution, and over an alignment."""
    folder = tmp_path_factory.mktemp("plot")
    random = np.random.default_rng(0)
    samples = promoter_samples(["g0", "g1"], ["chr1", "chr1"], [100, 200], [140, 240], ["+", "-"])
    site = cross_site(range(0, LENGTH + 1, 8))
    weights = random.dirichlet(np.ones(5), size=(2, 2, 2)).astype(np.float32)
    predictions = random.normal(size=(2, 2)).astype(np.float32)
    layout = promoter_layout([site], TREATMENTS, LENGTH)
    write_promoters(folder / "attention.h5", layout, samples, {site.name: weights}, predictions)
    signed_site = cross_site(range(0, LENGTH + 1, 8), contributes=True)
    contributions = random.normal(size=weights.shape).astype(np.float32)
    arrays = {site.name: {"weights": weights, "contributions": contributions}}
    layout = promoter_layout([signed_site], TREATMENTS, LENGTH)
    write_promoters(folder / "contributions.h5", layout, samples, arrays, predictions)
    values = random.normal(size=(2, 2, LENGTH, 4)).astype(np.float32)
    values -= values.mean(axis=-1, keepdims=True)
    codes = np.array([["ACGT".index(base) for base in SEQUENCE]] * 2, dtype=np.uint8)
    write_attribution(
        folder / "explain.h5",
        samples,
        codes,
        values,
        predictions,
        TREATMENTS,
        model_sha256="ab" * 32,
        input_sha256="cd" * 32,
    )
    (folder / "promoters.fa").write_text(
        f">g0 chr1:100-140(+)\n{SEQUENCE}\n>g1 chr1:200-240(-)\n{SEQUENCE}\n"
    )
    (folder / "genes.gff3").write_text(
        "##gff-version 3\nchr1\tx\tgene\t131\t400\t.\t+\t.\tID=g0\nchr1\tx\tgene\t1\t110\t.\t-\t.\tID=x\n"
    )
    alignment = AlignmentSample(id="a", query="ACDEFGHIKL", rows=2, extra_rows=0, input_sha256="")
    row = alignment_site("evoformer", 0, "msa_row", 2)
    maps = {"weights": random.dirichlet(np.ones(10), size=(2, 10)).astype(np.float32)}
    write_alignments(folder / "alignment.h5", [row], [alignment], lambda *_: maps)
    (folder / "contacts.tsv").write_text(
        "column_i\tcolumn_j\tprobability\n" + "".join(f"{i}\t{i + 7}\t{0.1 * i:.1f}\n" for i in range(1, 9))
    )
    (folder / "truth.tsv").write_text("column_i\tcolumn_j\n2\t9\n8\t15\n")
    errors = random.integers(0, 32, (9, 9)).tolist()
    pae = [{"predicted_aligned_error": errors, "max_predicted_aligned_error": 31.75}]
    (folder / "AF-X-F1-predicted_aligned_error_v4.json").write_text(json.dumps(pae))
    first, second = (np.indices((9, 9)).reshape(2, -1) + 1).tolist()
    pae = [{"residue1": first, "residue2": second, "distance": np.ravel(errors).tolist()}]
    (folder / "AF-X-F1-predicted_aligned_error_v1.json").write_text(json.dumps(pae))
    (folder / "half_v1.json").write_text(json.dumps([pae[0] | {"residue2": first}]))
    scores = {"plddt": random.uniform(20, 99, 9).tolist(), "pae": errors, "max_pae": 31.75, "ptm": 0.5}
    (folder / "x_scores_rank_001.json").write_text(json.dumps(scores))
    confidences = {"residueNumber": [5, 6, 9], "confidenceScore": [91.5, 60, 42], "confidenceCategory": "HLD"}
    (folder / "AF-X-F1-confidence_v4.json").write_text(json.dumps(confidences))
    check = {
        "format": "bioattn-check",
        "format_version": "1.0",
        "verdict": {"code": "used", "sentence": "Used."},
        "measures": [{"label": "a", "value": 1.0}],
        "curves": {"deletion": {"fraction": [0, 0.5], "top": [1, 0], "random": [1, 0.9]}},
    }
    (folder / "check.json").write_text(json.dumps(check))
    return folder


FULL = "--annotation genes.gff3 --motifs {data}/demo/motifs.meme --promoters promoters.fa --treatment heat"
COMMANDS = [
    "attention attention.h5 --gene g0",
    f"attention attention.h5 --gene g0 {FULL} --attribution explain.h5 --region=-20:5",
    "attention attention.h5 --gene g1 --against mean --heads 1 --upsample nearest --upstream 30",
    "attention attention.h5 --gene g1 --upsample receptive-field --sites promoter.cross.*",
    "heatmap attention.h5",
    "attention contributions.h5 --gene g0",
    "heatmap attention.h5 --genes g1 --against cold --no-cluster",
    "heatmap contributions.h5 --contributions",
    "heads attention.h5 --genes g0",
    "heads alignment.h5 --corrected",
    "contacts contacts.tsv --truth truth.tsv",
    "arcs alignment.h5 --min-separation 2",
    "arcs alignment.h5 --heads 0,1 --top-k 3",
    "pae AF-X-F1-predicted_aligned_error_v4.json",
    "plddt x_scores_rank_001.json AF-X-F1-confidence_v4.json",
    "training {data}/models/evoformer-contacts",
    "logos {data}/demo/motifs.meme --motif motif1 --reverse-complement --background",
    "check check.json",
]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_figure_of_the_width_asked_for(folder, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(folder)
    out = tmp_path / "x.png"
    command = ["plot", *words.format(data=DATA).split(), "-o", str(out), "--width", "150", "--dpi", "60"]
    assert main(command) == 0
    text = capsys.readouterr()
    assert text.out == ""
    assert f"wrote {out} (" in text.err
    image = np.asarray(Image.open(out).convert("L"))
    assert image.shape[1] in (int(150 / 25.4 * 60), int(85 / 25.4 * 60))  # a single logo is one column
    assert (image < 128).mean() > 0.001  # something is on it
    record = json.loads((tmp_path / "x.png.run.json").read_text())
    assert record["command"] == ["bioattn", *command]


def test_arcs_by_a_plain_loop(folder):
    with open_attention(folder / "alignment.h5") as file:
        weights = file.weights("evoformer.00.msa_row", sample="a")
        picture = read_arcs(file, heads=[1], top_k=4, min_separation=3)
        (mean,) = read_arcs(file, top_k=1000, min_separation=3).panels
    expected = {
        (i, j): (weights[1, i, j] + weights[1, j, i]) / 2 for i in range(10) for j in range(i + 3, 10)
    }
    best = sorted(expected, key=expected.get, reverse=True)[:4]
    (panel,) = picture.panels
    assert panel.title == "evoformer.00.msa_row, head 1"
    assert [pair[:2] for pair in panel.pairs] == best
    np.testing.assert_allclose(
        [pair[2] for pair in panel.pairs], [expected[pair] for pair in best], rtol=1e-6
    )
    assert "".join(picture.letters) == "ACDEFGHIKL"
    assert picture.numbers.tolist() == list(range(1, 11))
    assert {pair[:2] for pair in mean.pairs} == set(expected)


def test_confidences_are_read_as_they_were_written(folder, tmp_path):
    scores = json.loads((folder / "x_scores_rank_001.json").read_text())
    names = [
        *(f"AF-X-F1-predicted_aligned_error_v{version}.json" for version in (1, 4)),
        "x_scores_rank_001.json",
    ]
    for name in names:
        np.testing.assert_array_equal(read_aligned_error(folder / name), scores["pae"])
    residues = [
        StructureResidue(name="ALA", number=5 * number, atoms={"CA": (1.0, 2.0, number)}, confidence=value)
        for number, value in enumerate(scores["plddt"], start=1)
    ]
    write_pdb(tmp_path / "model.pdb", residues)
    write_mmcif(tmp_path / "structure.cif", residues, name="x")
    for path in (tmp_path / "model.pdb", tmp_path, folder / "x_scores_rank_001.json"):
        found = read_plddt(path)
        np.testing.assert_allclose(found.plddt, scores["plddt"], atol=0.006)
        assert found.numbers == list(range(1, 10) if path.suffix == ".json" else range(5, 50, 5))
    write_pdb(tmp_path / "crystal.pdb", [replace(residues[0], confidence=-3.5)])
    with pytest.raises(FormatError, match=r"crystal.pdb: holds no pLDDT, which is a number from 0 to 100"):
        read_plddt(tmp_path / "crystal.pdb")
    (tmp_path / "crystal.pdb").write_text(
        f"EXPDTA    X-RAY DIFFRACTION\n{(tmp_path / 'model.pdb').read_text()}"
    )
    with pytest.raises(
        FormatError, match=r"crystal.pdb: is a structure by x-ray diffraction, whose B-factors"
    ):
        read_plddt(tmp_path / "crystal.pdb")


def test_the_same_command_gives_the_same_bytes(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    for number in (1, 2):
        words = f"attention attention.h5 --gene g0 {FULL} -o {tmp_path / f'{number}.svg'}".format(data=DATA)
        assert main(["plot", *words.split()]) == 0
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_contributions_are_those_of_the_file(folder):
    from bioattn.figures.promoter_attention import draw_promoter_attention
    from bioattn.figures.promoter_picture import PromoterRequest, read_promoter_picture
    from bioattn.store.attribution import open_attribution

    request = PromoterRequest(
        gene="g1", attribution=folder / "explain.h5", region="5:12", treatments=["cold"]
    )
    picture = read_promoter_picture(folder / "attention.h5", request)
    figure, _ = draw_promoter_attention(picture, 180)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "contributions 0"]
    (letters,) = axis.collections
    with open_attribution(folder / "explain.h5") as attribution:
        values = attribution.values(gene="g1", treatment="cold")
    for place, path in enumerate(letters.get_paths(), start=5):
        value = float(values[place, "ACGT".index(SEQUENCE[place])])
        box = path.get_extents()
        assert (box.x0 + box.x1) / 2 == pytest.approx(place + 0.5)
        assert (box.y0, box.y1) == pytest.approx((min(0, value), max(0, value)), abs=1e-6)
    assert len(letters.get_paths()) == 7


@pytest.mark.parametrize("against", [None, "cold", "mean"])
def test_contributions_of_attention_are_summed_and_signed(folder, against):
    from bioattn.figures.promoter_attention import draw_promoter_attention
    from bioattn.figures.promoter_picture import PromoterRequest, read_promoter_picture
    from bioattn.figures.style import LOWERS, RAISES
    from bioattn.store.reader import open_attention

    request = PromoterRequest(gene="g1", treatments=["heat"], against=against, upsampling=Upsampling.NEAREST)
    picture = read_promoter_picture(folder / "contributions.h5", request)
    with open_attention(folder / "contributions.h5") as file:
        heat, cold = file.contributions("promoter.cross.0", gene="g1").astype(float).sum(axis=1)
    less = {None: 0 * cold, "cold": cold, "mean": (heat + cold) / 2}[against]
    expected = np.repeat(heat - less, 8) / 8
    np.testing.assert_allclose(picture.contributions_TL, [expected], atol=1e-6)
    figure, _ = draw_promoter_attention(picture, 180)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "contributions 0"]
    drawn = {to_hex(patch.get_facecolor()): patch.get_data().values for patch in axis.patches}
    assert sorted(drawn) == sorted([RAISES.lower(), LOWERS.lower()])
    np.testing.assert_allclose(drawn[RAISES.lower()], np.maximum(expected, 0), atol=1e-6)
    np.testing.assert_allclose(drawn[LOWERS.lower()], np.minimum(expected, 0), atol=1e-6)


@pytest.mark.parametrize("words", ["heatmap attention.h5", "heads attention.h5"])
def test_position_0_lies_in_the_window(folder, tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(folder)
    command = ["plot", *words.split(), "-o", str(tmp_path / "x.svg"), "--upstream"]
    assert main([*command, "9999"]) == 1
    assert "--upstream 9999: the windows have" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_treatments_of_the_heatmap_are_in_the_run_record(folder, tmp_path):
    out = tmp_path / "x.pdf"
    assert main(["plot", "heatmap", str(folder / "attention.h5"), "-o", str(out)]) == 0
    assert sorted(json.loads((tmp_path / "x.pdf.run.json").read_text())["treatments"]) == ["cold", "heat"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("attention attention.h5 --gene g9 -o {out}.png", 1, "holds no such gene; it holds 'g0'"),
        (
            "attention attention.h5 --gene g0 --treatment x -o {out}.png",
            1,
            "holds no such treatment; it holds",
        ),
        ("attention attention.h5 --gene g0 -o {out}.gif", 2, "end its name in .png, .svg or .pdf"),
        ("attention alignment.h5 --gene g0 -o {out}.png", 1, "one over promoters is needed"),
        (
            "attention attention.h5 --gene g0 --heads x -o {out}.png",
            2,
            "give head numbers separated by commas",
        ),
        ("attention contacts.tsv --gene g0 -o {out}.png", 1, "contacts.tsv: not an HDF5 file"),
        ("attention nowhere.h5 --gene g0 -o {out}.png", 1, "nowhere.h5: no such file"),
        ("attention attention.h5 --gene g0 --attribution attention.h5 -o {out}.png", 1, "attention.h5: "),
        (
            "heatmap attention.h5 --genes none.txt -o {out}.png",
            1,
            "holds no such gene, and no file has this name",
        ),
        ("heads attention.h5 --corrected -o {out}.png", 1, "--sample and --corrected are for alignments"),
        ("heads alignment.h5 --treatment heat -o {out}.png", 1, "holds alignments; choose with --sample"),
        ("contacts contacts.tsv --chain A -o {out}.png", 2, "say how to read --truth; give that too"),
        ("contacts contacts.tsv --truth check.json -o {out}.png", 1, "check.json: "),
        ("distogram attention.h5 -o {out}.png", 1, "is no distogram"),
        (
            "pae AF-X-F1-confidence_v4.json -o {out}.png",
            1,
            "json: holds no predicted aligned errors (entry 'pred",
        ),
        ("pae half_v1.json -o {out}.png", 1, "residue1 and residue2 do not name every pair of residues"),
        (
            "arcs alignment.h5 --min-separation 10 -o {out}.png",
            1,
            "--min-separation 10: no two places of a so far apart have attention",
        ),
        ("pae . -o {out}.png", 1, "has no predicted_aligned_error.json; `run evoformer` writes it where"),
        ("arcs attention.h5 -o {out}.png", 1, "over promoters; one over alignments or sequences is"),
        ("plddt . -o {out}.png", 1, ".: has no structure.cif, and so no pLDDT"),
        (
            "plddt check.json -o {out}.png",
            1,
            "check.json: holds no pLDDT (entry 'plddt' or 'confidenceScore')",
        ),
        ("training . -o {out}.png", 1, "has no history.csv"),
        ("logos genes.gff3 -o {out}.png", 1, "genes.gff3"),
        ("check contacts.tsv -o {out}.png", 1, "contacts.tsv"),
        ("logos {data}/demo/motifs.meme -o promoters.fa/x.png", 1, "does not exist; create it first"),
        ("heatmap attention.h5 -o {out}.png --width 20", 2, "--width"),
    ],
)
def test_bad_input(folder, tmp_path, monkeypatch, capsys, words, code, sentence):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    assert main(["plot", *words.format(out=tmp_path / "x", data=DATA).split()]) == code
    text = capsys.readouterr().err
    assert sentence in text
    if "Usage" not in text:
        assert text.startswith("bioattn: error: ")
        assert text.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == before


def test_letters_that_the_font_lacks_are_said_once(folder, tmp_path, capsys):
    motifs = tmp_path / "m.meme"
    rows = "0.25 0.25 0.25 0.25\n" * 3
    motifs.write_text(
        f"MEME version 4\n\nALPHABET= ACGT\n\nMOTIF 熱ショック\nletter-probability matrix: w= 3\n{rows}",
        encoding="utf-8",
    )
    assert main(["plot", "logos", str(motifs), "-o", str(tmp_path / "x.png"), "--dpi", "60"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: some letters of names are not in the figures' font")
    assert second.startswith("wrote ")
