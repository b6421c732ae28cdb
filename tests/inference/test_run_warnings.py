"""What `run evoformer` warns of, and what it must not turn into a warning."""

import errno
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bioattn.formats import structure_output
from bioattn.models.evoformer.inference import memory as evoformer_memory
from bioattn_cli.main import main
from tests.inference.evoformer_runs import ROWS, make_model, write_fasta


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "m", num_blocks=1)


def run(*arguments: object) -> int:
    return main(["run", "evoformer", *map(str, arguments), "--recycles", "0", "-q"])


def test_what_the_pdb_format_cannot_hold_is_a_warning(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_fasta(tmp_path / "x.fasta")
    path.write_text(path.read_text().replace(">row0", ">row0/10001-10028"))
    assert run(path, "--model", model, "-o", tmp_path / "out") == 0
    assert (tmp_path / "out/structure.cif").is_file()
    assert not (tmp_path / "out/structure.pdb").exists()
    said = capsys.readouterr().err
    assert "no structure.pdb was written: " in said
    assert "no room for its number" in said


def test_a_full_disk_under_the_pdb_file_is_an_error(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lines(*_arguments: object) -> Iterator[str]:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield ""

    monkeypatch.setattr(structure_output, "_pdb_lines", lines)
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, "--model", model, "-o", tmp_path / "out") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"bioattn: error: {tmp_path / 'out/structure.pdb'}: no space left")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.fasta"]


LETTERS = np.frombuffer(b"ACDEFGHIKLMNPQRSTVWY", np.uint8)


def aligned(path: Path, rows: np.ndarray) -> Path:
    return write_fasta(path, [row.tobytes().decode() for row in rows])


@pytest.mark.parametrize("number", [60, 3000])
def test_alignments_without_signal_or_depth_are_told(
    number: int, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    strangers = LETTERS[random.integers(20, size=(number, 30))]
    ancestor = LETTERS[random.integers(20, size=30)]
    family = np.where(random.random((number, 30)) < 0.5, ancestor, strangers)
    twins = np.tile(ancestor, (number, 1))
    twins[np.arange(number), np.arange(number) % 30] = LETTERS[np.arange(number) // 30 % 20]
    said = {}
    for name, rows in (("strangers", strangers), ("family", family), ("twins", twins)):
        assert run(aligned(tmp_path / f"{name}.fasta", rows), "--model", model, "-o", tmp_path / name) == 0
        said[name] = capsys.readouterr().err
    assert "strangers.fasta: the rows carry no common signal" in said["strangers"]
    assert ("of a sample of 2,048 rows" in said["strangers"]) == (number > 2048)
    assert said["family"] == ""
    assert "twins.fasta: only 1.0 effective sequences" in said["twins"]


def test_a_target_of_unknown_letters_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_fasta(tmp_path / "x.fasta", ["X" * 27 + "-", *ROWS[1:]])
    assert run(path, "--model", model, "-o", tmp_path / "out") == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert "row 1, row0, is the target and has no residue of a known kind" in said
    assert not (tmp_path / "out").exists()


def test_advice_on_memory_helps(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evoformer_memory, "free_memory", lambda: 200_000_000)
    random = np.random.default_rng(0)
    deep = aligned(tmp_path / "deep.fasta", LETTERS[random.integers(20, size=(3000, 300))])
    options = ("--max-msa-clusters", 3000, "--chunk", 1)
    assert run(deep, "--model", model, "-o", tmp_path / "out", *options) == 1
    assert "give a smaller --max-msa-clusters" in capsys.readouterr().err
    wide = aligned(tmp_path / "wide.fasta", LETTERS[random.integers(20, size=(2, 5000))])
    assert run(wide, "--model", model, "-o", tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert "cut the alignment into domains" in said
    assert "--max-msa-clusters" not in said
