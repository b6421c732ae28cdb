"""Saved figures: whole files of the format asked for, with the same bytes every time."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

from bioattn.errors import BioattnError, SettingsError
from bioattn.figures import require_figure_name, write_figure
from bioattn.figures.style import FONT_SIZE, SMALL_FONT, new_figure, styled

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from bioattn.figures import write_figure
from bioattn.figures.motif_logos import draw_logos
from bioattn.formats.motif import Motif
rows = np.full((3, 4), 0.125) + np.eye(4)[:3] / 2
motif = Motif(name="m", alternative_name="naïve $x$", probabilities=rows, sites=9)
for name in ("x.png", "x.svg", "x.pdf"):
    write_figure(draw_logos([motif], 85), Path(sys.argv[1]) / name)
"""


def test_the_same_bytes_in_every_process(tmp_path) -> None:
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


def test_nothing_global_changes(tmp_path) -> None:
    before = dict(mpl.rcParams)

    @styled
    def draw() -> None:
        assert mpl.rcParams["font.size"] == FONT_SIZE

    draw()
    write_figure(new_figure(40, 40), tmp_path / "x.png", 50)
    assert dict(mpl.rcParams) == before
    assert "matplotlib.pyplot" not in sys.modules or mpl.rcParams["font.size"] != SMALL_FONT


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.svg.gz"])
def test_other_names_are_refused(name) -> None:
    with pytest.raises(SettingsError, match=r"end its name in \.png, \.svg or \.pdf"):
        require_figure_name(Path(name))


def test_nothing_is_left_where_it_cannot_be_written(tmp_path) -> None:
    with pytest.raises(BioattnError, match="does not exist; create it first"):
        write_figure(new_figure(40, 40), tmp_path / "nowhere" / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_sentence_says_what_is_missing(tmp_path) -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from bioattn_cli.main import main\n"
        "sys.exit(main(['plot', 'logos', sys.argv[1], '-o', sys.argv[2]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "data" / "demo" / "motifs.meme"), str(tmp_path / "x.png")],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "bioattn: error: figures need matplotlib, which is not installed: pip install 'bioattn[plot]', or pip "
        "install matplotlib\n"
    )
