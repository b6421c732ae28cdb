"""Where `run evoformer` and its like may write: never over what they read, never into each other."""

import pytest

from bioattn.models.evoformer.parameter_export import export_parameters
from bioattn_cli.main import main
from tests.inference.evoformer_runs import make_model, run, write_fasta


@pytest.fixture
def trunk(tmp_path):
    return make_model(tmp_path / "m", structure_module=None, recycling=False, num_blocks=1)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_options(trunk):
    return ("--model", trunk, "--recycles", 0)


@pytest.mark.parametrize(
    ("output", "attention"),
    [
        ("out", "x.fasta"),
        ("out", "m/model.safetensors"),
        ("out", "m/new.h5"),
        ("out", "link.h5"),
        ("m", None),
        ("m/out", None),
        ("out", "out"),
    ],
)
def test_no_output_goes_over_an_input_or_another(output, attention, trunk, tmp_path, capsys):
    path = write_fasta(tmp_path / "x.fasta")
    (tmp_path / "link.h5").symlink_to("x.fasta")
    before = contents(tmp_path)
    options = () if attention is None else ("--attention", tmp_path / attention)
    assert run(path, *run_options(trunk), "-o", tmp_path / output, *options) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("bioattn: error: --")
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.h5", "m", "x.fasta"]


def test_an_input_in_a_folder_that_is_replaced_stays(trunk, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    assert run(path, *run_options(trunk), "-o", tmp_path / "out") == 0
    inside = write_fasta(tmp_path / "out/x.fasta")
    assert run(inside, *run_options(trunk), "-o", tmp_path / "out", "--force") == 2
    (tmp_path / "y.partial").mkdir()
    inside = write_fasta(tmp_path / "y.partial/y.fasta")
    assert run(inside, *run_options(trunk), "-o", tmp_path / "y") == 2
    assert inside.is_file()
    # Of several, only the folder of that name is replaced.
    (tmp_path / "in/a").mkdir(parents=True)
    write_fasta(tmp_path / "in/a.fasta")
    inside = write_fasta(tmp_path / "in/a/b.fasta")
    (tmp_path / "list").write_text(f"{tmp_path / 'in/a.fasta'}\n{inside}\n")
    assert run(tmp_path / "list", *run_options(trunk), "-o", tmp_path / "in") == 1
    assert inside.is_file()
    assert run(tmp_path / "in", *run_options(trunk), "-o", tmp_path / "in/results") == 0


def test_parameter_files_are_inputs(trunk, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    parameters = tmp_path / "p.npz"
    export_parameters(trunk, parameters)
    before = parameters.read_bytes()
    options = ("--parameters", parameters, "-o", tmp_path / "out", "--recycles", 0)
    assert run(path, *options, "--attention", parameters) == 2
    assert parameters.read_bytes() == before
    held = contents(tmp_path)
    for source, output in ((parameters, parameters), (trunk, trunk / "new.pt")):
        assert main(["export", "parameters", str(source), "-o", str(output)]) == 2
    assert contents(tmp_path) == held
    inside = trunk / "p.npz"
    parameters.rename(inside)
    held = contents(tmp_path)
    assert main(["export", "parameters", str(inside), "-o", str(trunk), "--force"]) == 2
    assert contents(tmp_path) == held


def test_attention_of_several_may_stand_beside_their_folders(trunk, tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        write_fasta(tmp_path / f"in/{name}.fasta")
    options = ("--model", trunk, "--recycles", 0, "-o", tmp_path / "out")
    assert run(tmp_path / "in", *options, "--attention", tmp_path / "out/att.h5") == 0
    names = ["a", "att.h5", "b"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    for inside in ("out/a/att.h5", "out/a", "other/deep/att.h5"):
        assert run(tmp_path / "in", *options, "--force", "--attention", tmp_path / inside) in (1, 2)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names


def test_attention_is_refused_before_alignments_are_read(trunk, tmp_path, capsys):
    (tmp_path / "bad.a3m").write_text(">q\nACD1\n")
    config = tmp_path / "run.toml"
    config.write_text("[attention]\nheads = [2]\n")
    options = ("-o", tmp_path / "out", "--attention", tmp_path / "a.h5", "--config", config)
    assert run(tmp_path / "bad.a3m", *run_options(trunk), *options) == 1
    said = capsys.readouterr().err
    assert "has heads 0 to 1, but 2 was asked for" in said
    assert "or sites that have it" in said
