"""What `run evoformer` warns of, and what it must not turn into a warning."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from bioattn.formats import pdb_output
from bioattn_cli.main import main
from tests.inference.test_run_evoformer import make_model, write_fasta


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

    monkeypatch.setattr(pdb_output, "_lines", lines)
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, "--model", model, "-o", tmp_path / "out") == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"bioattn: error: {tmp_path / 'out/structure.pdb'}: no space left")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.fasta"]
