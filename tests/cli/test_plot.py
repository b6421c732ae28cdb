"""Every picture of `bioattn plot` from files to figures, as a user runs it; what is wrong is one sentence."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from bioattn.checks.record import Curve
from bioattn.errors import FormatError, SettingsError
from bioattn.figures.alignments import read_arcs
from bioattn.figures.plot import PICTURES, _function, plot
from bioattn.formats.meme import Motif, write_meme
from bioattn.formats.structure_file import StructureResidue, write_mmcif, write_pdb
from bioattn.interpret.choices import Upsampling
from bioattn.interpret.motifs.motif_folder import read_motif_export
from bioattn.models.evoformer.sites import alignment_site
from bioattn.store.reader import open_attention
from bioattn.store.windows import promoter_samples
from bioattn.structures.predictions import read_aligned_error, read_plddt
from bioattn_cli.main import main
from tests.making import write_check
from tests.report.conftest import write_motif_export
from tests.result_files import (
    aligned,
    cross_site,
    promoter_layout,
    with_attributes,
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
    samples = promoter_samples(
        ["g0", "g1"], ["chr1", "chr1"], [100, 200], [140, 240], ["+", "-"], ["TFC3", ""]
    )
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
    known = {"model_sha256": "ab" * 32, "input_sha256": "cd" * 32}
    write_attribution(folder / "explain.h5", samples, codes, values, predictions, TREATMENTS, **known)
    (folder / "promoters.fa").write_text(
        f">g0 chr1:100-140(+)\n{SEQUENCE}\n>g1 chr1:200-240(-)\n{SEQUENCE}\n"
    )
    (folder / "genes.gff3").write_text(
        "##gff-version 3\nchr1\tx\tgene\t131\t400\t.\t+\t.\tID=g0\nchr1\tx\tgene\t1\t110\t.\t-\t.\tID=x\n"
    )
    row = alignment_site("evoformer", 0, "msa_row", 2)
    maps = {"weights": random.dirichlet(np.ones(10), size=(2, 10)).astype(np.float32)}
    write_alignments(folder / "alignment.h5", [row], [aligned("a", "ACDEFGHIKL", 2)], lambda *_: maps)
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
    curves = {"deletion": Curve([0, 0.5], top=[1, 0], random=[1, 0.9])}
    write_check(folder / "check.json", curves=curves)
    return folder


FULL = "promoters.fa {data}/demo/motifs.meme --annotation genes.gff3 --treatment heat"
COMMANDS = [
    "attention.h5 --kind heatmap --gene TFC3 --against cold",
    f"attention.h5 {FULL} explain.h5 --gene g0 --region=-20:5",
    "attention.h5 --gene g1 --against mean --heads 1 --as nearest --zero 30",
    "attention.h5",
    "attention.h5 --kind heatmap --gene g1 --against cold --as unclustered",
    "contributions.h5 --as weights",
    "attention.h5 --kind heads --gene g0",
    "alignment.h5 --as corrected",
    "contacts.tsv truth.tsv",
    "alignment.h5 --kind arcs --heads 0,1 --top 3",
    "AF-X-F1-predicted_aligned_error_v4.json",
    "x_scores_rank_001.json AF-X-F1-confidence_v4.json",
    "{data}/models/evoformer-contacts",
    "{data}/demo/motifs.meme --show motif1",
    "check.json",
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
    record = json.loads((tmp_path / "bioattn-records/x.png.json").read_text())
    assert record["command"] == ["bioattn", *command]


def test_arcs_by_a_plain_loop(folder):
    with open_attention(folder / "alignment.h5") as file:
        weights = file.weights("evoformer.00.msa_row", sample="a")
        picture = read_arcs(file, heads=[1], top=4, min_separation=3)
        (mean,) = read_arcs(file, top=1000, min_separation=3).panels
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
    assert picture.places == ["A1", "C2", "D3", "E4", "F5", "G6", "H7", "I8", "K9", "L10"]
    assert {pair[:2] for pair in mean.pairs} == set(expected)


def test_confidences_are_read_as_they_were_written(folder, tmp_path):
    scores = json.loads((folder / "x_scores_rank_001.json").read_text())
    names = [
        *(f"AF-X-F1-predicted_aligned_error_v{version}.json" for version in (1, 4)),
        "x_scores_rank_001.json",
    ]
    for name in names:
        np.testing.assert_array_equal(read_aligned_error(folder / name).errors_RR, scores["pae"])
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
    parts = [replace(residue, confidence=residue.confidence / 100) for residue in residues]
    write_pdb(tmp_path / "esmfold.pdb", parts)
    np.testing.assert_allclose(read_plddt(tmp_path / "esmfold.pdb").plddt, scores["plddt"], atol=0.6)
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


def test_attribution_is_that_of_the_file(folder):
    from bioattn.figures.promoter_attention import draw_promoter_attention
    from bioattn.figures.promoter_picture import read_promoter_picture
    from bioattn.store.attribution import open_attribution

    with open_attention(folder / "attention.h5") as file:
        picture = read_promoter_picture(
            file, gene="g1", attribution=folder / "explain.h5", region="5:12", treatments=["cold"]
        )
    figure = draw_promoter_attention(picture, 180)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "attribution 0"]
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
    from bioattn.figures.promoter_picture import read_promoter_picture
    from bioattn.figures.style import LOWERS, RAISES

    with open_attention(folder / "contributions.h5") as file:
        picture = read_promoter_picture(
            file, gene="g1", treatments=["heat"], against=against, upsampling=Upsampling.NEAREST
        )
        heat, cold = file.contributions("promoter.cross.0", gene="g1").astype(float).sum(axis=1)
    less = {None: 0 * cold, "cold": cold, "mean": (heat + cold) / 2}[against]
    expected = np.repeat(heat - less, 8) / 8
    np.testing.assert_allclose(picture.tracks[picture.shown_first], [expected], atol=1e-6)
    figure = draw_promoter_attention(picture, 180)
    (axis,) = [axis for axis in figure.axes if axis.get_label() == "contributions 0"]
    drawn = {to_hex(patch.get_facecolor()): patch.get_data().values for patch in axis.patches}
    assert sorted(drawn) == sorted([RAISES.lower(), LOWERS.lower()])
    np.testing.assert_allclose(drawn[RAISES.lower()], np.maximum(expected, 0), atol=1e-6)
    np.testing.assert_allclose(drawn[LOWERS.lower()], np.minimum(expected, 0), atol=1e-6)


def test_python_draws_what_the_command_draws(folder, tmp_path):
    """Paths, open files, data in memory; the picture is that of the kind of result."""
    table = pd.read_csv(folder / "contacts.tsv", sep="\t")
    with open_attention(folder / "attention.h5") as file:
        figures = [
            plot(file, gene="g0"),
            plot([folder / "attention.h5", folder / "explain.h5"], sample=["g1"], width=120),
            plot(str(folder / "contacts.tsv"), truth=folder / "truth.tsv"),
            plot(table),
            plot(read_aligned_error(folder / "x_scores_rank_001.json")),
            plot(pd.DataFrame({"epoch": [1, 2], "training_loss": [2.0, 1.0]})),
        ]
    assert all(figure.axes for figure in figures)
    assert round(figures[1].get_size_inches()[0] * 25.4) == 120
    with pytest.raises(SettingsError, match=r"--zero: .* takes no such option; it takes --chain, --sample$"):
        plot(folder / "contacts.tsv", zero=5)
    with pytest.raises(SettingsError, match="ndarray: cannot be drawn; give a path"):
        plot(np.eye(15), kind="contacts")


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_there(name):
    """Its functions exist, and what one gives the other takes."""
    read, draw = (_function(function) for function in PICTURES[name][:2])
    given, taken = get_type_hints(read)["return"], next(iter(get_type_hints(draw).values()))
    assert given is taken
    assert given.__name__ == PICTURES[name].data


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("attention.h5 --gene g9 -o {out}.png", 1, "holds no such gene, and no file"),
        ("alignment.h5 --kind attention --gene g0 -o {out}.png", 1, "one over promoters is needed"),
        ("attention.h5 attention.h5 --gene g0 -o {out}.png", 1, "the picture attention of attention.h5 does"),
        ("alignment.h5 --treatment heat -o {out}.png", 1, "holds alignments; choose with one --sample"),
        ("attention.h5 --region 1:5 -o {out}.png", 2, "--region: the picture heatmap takes no such option"),
        ("contacts.tsv --chain A -o {out}.png", 2, "--chain chooses from a structure; give that too"),
        ("promoters.fa -o {out}.png", 1, "drawn with attention: name the attention file before it"),
        ("AF-X-F1-confidence_v4.json --kind pae -o {out}.png", 1, "holds no predicted aligned errors (entry"),
        ("half_v1.json -o {out}.png", 1, "residue1 and residue2 do not name every pair of residues"),
    ],
)
def test_bad_input(folder, tmp_path, monkeypatch, capsys, words, code, sentence):
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    assert main(["plot", *words.format(out=tmp_path / "x", data=DATA).split()]) == code
    (text,) = capsys.readouterr().err.splitlines()
    assert text.startswith("bioattn: error: ")
    assert sentence in text
    assert list(tmp_path.iterdir()) == []
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_folder_of_motifs_is_drawn_with_the_factors_names(tmp_path):
    folder = write_motif_export(tmp_path / "motifs")
    matrix = np.full((6, 4), 0.1)
    matrix[:, 2] = 0.7
    write_meme(
        folder / "motifs.meme", [Motif(name="attention_2", probabilities=matrix, alternative_name="TOD6")]
    )
    (axis,) = plot(folder).axes
    assert axis.get_title(loc="left") == "attention_2 TOD6 (20 sites)"
    assert read_motif_export(folder).title("attention.1").endswith(" (attention.1)")


def test_a_picture_of_maps_that_are_not_believed_says_so(folder, tmp_path):
    path = tmp_path / "attention.h5"
    shutil.copy(folder / "attention.h5", path)

    def corner(**options):
        texts = [text.get_text() for text in plot(path, gene="g0", **options).texts]
        return [text for text in texts if "believed" in text]

    for verdict, number in (("unfaithful", 1), ("faithful", 0), ("undecided", 0)):
        with_attributes(path, verdict=verdict)
        assert len(corner()) == number
        assert corner(verdict=False) == []
    with_attributes(path, verdict="model-not-predictive")
    figure = plot(path, gene="g0")
    figure.draw_without_rendering()
    (word,) = [text.get_window_extent() for text in figure.texts if "believed" in text.get_text()]
    assert all(word.y1 <= axis.get_tightbbox().y0 for axis in figure.axes)  # beside no label
