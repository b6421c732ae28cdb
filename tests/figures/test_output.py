"""Saved figures: whole files of the format asked for, with the same bytes every time."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from bioattn.figures.motif_logos import BASE_COLOURS, draw_letters, draw_logos, read_logos
from bioattn.formats.meme import Motif, write_meme

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from bioattn.figures import write_figure
from bioattn.figures.motif_logos import Logos, draw_logos
from bioattn.formats.meme import Motif
rows = np.full((3, 4), 0.125) + np.eye(4)[:3] / 2
motif = Motif(name="m", alternative_name="naïve $x$", probabilities=rows, sites=9)
for name in ("x.png", "x.svg", "x.pdf"):
    write_figure(draw_logos(Logos([motif]), 85), Path(sys.argv[1]) / name)
"""


def test_the_same_bytes_in_every_process(tmp_path):
    """Whatever the seed of hashes, the folder's matplotlibrc and the time zone."""
    folders = [tmp_path / name for name in ("a", "b")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "matplotlibrc").write_text(f"font.size: {20 + number}\nsavefig.dpi: {50 + number}\n")
        environment = {
            **os.environ,
            "PYTHONHASHSEED": str(number),
            "PYTHONPATH": str(ROOT),
            "TZ": ["UTC", "Asia/Tokyo"][number],
        }
        environment.pop("SOURCE_DATE_EPOCH", None)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, "."], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    for name in ("x.png", "x.svg", "x.pdf"):
        first, second = ((folder / name).read_bytes() for folder in folders)
        assert first == second
    image = Image.open(folders[0] / "x.png")
    assert abs(image.width - 85 / 25.4 * 300) <= 1
    drawing = ET.parse(folders[0] / "x.svg").getroot()
    assert drawing.tag.endswith("svg")
    texts = [
        "".join(element.itertext()).strip() for element in drawing.iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "m naïve $x$ (9 sites)" in texts  # letters stay letters, dollars dollars
    document = (folders[0] / "x.pdf").read_bytes()
    assert document.startswith(b"%PDF-")
    assert document.rstrip().endswith(b"%%EOF")
    assert b"CreationDate" not in document


def test_without_matplotlib_one_sentence_says_what_is_missing(tmp_path):
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from bioattn_cli.main import main\n"
        "sys.exit(main(['plot', sys.argv[1], '-o', sys.argv[2]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "data" / "demo" / "motifs.meme"), str(tmp_path / "x.png")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    sentence = "figures need matplotlib, which is not installed: pip install matplotlib"
    assert done.stderr == f"bioattn: error: {sentence}\n"


def motif(name, rows, alternative=""):
    return Motif(name=name, alternative_name=alternative, probabilities=np.array(rows), sites=20)


ROWS = [[0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 1.0, 0.0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0.0, 0.0]]


def test_letters_have_their_heights_and_colours():
    heights = np.array([[0.5, 1.0, 0.0, 0.2], [-0.5, 0.3, -1.0, 0.0]])
    axis = Figure().add_subplot()
    letters = draw_letters(axis, heights, start=10)
    boxes = [path.get_extents() for path in letters.get_paths()]
    colours = [to_hex(colour).upper() for colour in letters.get_facecolors()]
    # From the line of 0: the smallest first; what is negative below it, the largest lowest.
    expected = [
        ("T", 10, 0.0, 0.2),
        ("A", 10, 0.2, 0.7),
        ("C", 10, 0.7, 1.7),
        ("C", 11, 0.0, 0.3),
        ("A", 11, -0.5, 0.0),
        ("G", 11, -1.5, -0.5),
    ]
    assert len(boxes) == len(expected)
    for box, colour, (letter, place, low, high) in zip(boxes, colours, expected, strict=True):
        assert (box.y0, box.y1) == pytest.approx((low, high))
        assert (box.x0 + box.x1) / 2 == pytest.approx(place + 0.5)
        assert 0.9 < box.width < 1
        assert colour == BASE_COLOURS[letter].upper()


@pytest.fixture
def database(tmp_path):
    """m1, m2 and m3; the latter two share a factor."""
    path = tmp_path / "m.meme"
    write_meme(path, [motif("m1", ROWS), motif("m2", ROWS[:2], "TF"), motif("m3", ROWS, "TF")])
    return path


def test_a_logo_for_each_motif(database):
    figure = draw_logos(read_logos(database, top=2), 180)
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["m1 (20 sites)", "m2 TF (20 sites)"]
    axis = draw_logos(read_logos(database, show=["m1"]), 85).axes[0]
    boxes = [path.get_extents() for path in axis.findobj(PathCollection)[0].get_paths()]
    (tall,) = [box for box in boxes if box.y1 - box.y0 > 1.99]
    assert round((tall.x0 + tall.x1) / 2) == 2  # the sure G
