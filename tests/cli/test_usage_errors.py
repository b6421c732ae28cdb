"""A wrong command line is one sentence, exit code 2; an absent input is one, before anything heavy is loaded."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from bioattn_cli.main import app, main

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "data" / "tiny"
RUN = "see `bioattn run promoter --help`"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("nonsense", "no such command 'nonsense'; see `bioattn --help`"),
        ("trian", "no such command 'trian', did you mean 'train'; see `bioattn --help`"),
        ("run promote", "no such command 'promote', did you mean 'promoter'; see `bioattn run --help`"),
        ("--nonsense", "no such option: --nonsense; see `bioattn --help`"),
        ("run promoter", f"missing argument 'MODEL'; {RUN}"),
        ("run promoter m p", f"missing option '--output' / '-o'; {RUN}"),
        ("run promoter m p -o", "option '-o' requires an argument"),
        ("run promoter m p q -o x", f"got unexpected extra argument(s) (q); {RUN}"),
        ("run promoter m p -o x --nonsense", f"no such option: --nonsense; {RUN}"),
        ("run promoter m p -o x --thread 1", "(possible options: --shard, --threads, --treatment)"),
        (
            "run promoter m p -o x --device gpu",
            "'--device': 'gpu' is not one of 'auto', 'cpu', 'cuda', 'mps';",
        ),
        ("run promoter m p -o x --threads 0", "invalid value for '--threads' / '-t': '0' "),
        ("run promoter m p -o x --threads many", "invalid value for '--threads' / '-t': 'many' "),
        ("simulate promoters -o x --presence 2", "invalid value for '--presence': '2' "),
    ],
)
def test_wrong_usage_is_one_sentence(
    words: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("bioattn: error: ")
    assert sentence in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["", "run", "plot"])
def test_a_verb_alone_shows_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(verb.split()) == 2
    assert capsys.readouterr().err.startswith(f"Usage: bioattn {verb}".rstrip())


def commands_with_inputs() -> list[str]:
    """Every command with as many absent inputs as it must have, and what else it insists on."""
    lines = []
    for verb, group in typer.main.get_command(app).commands.items():
        for noun, command in (group.commands if hasattr(group, "commands") else {"": group}).items():
            required = [parameter for parameter in command.params if parameter.required]
            inputs = [f"absent{i}" for i, one in enumerate(required) if one.param_type_name == "argument"]
            options = [f"{one.opts[0]} x" for one in required if one.param_type_name == "option"]
            if inputs and noun != "dataset":  # two kinds of inputs; its own test follows
                lines.append(" ".join([verb, noun, *inputs, *options]))
    return lines


def test_absent_inputs_are_told_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    lines = [
        *commands_with_inputs(),
        f"run promoter {TINY} absent0 -o x",
        "prepare dataset absent0 r.tsv -o x",
    ]
    assert len(lines) > 25
    script = (
        "import sys; from bioattn_cli.main import main\n"
        f"codes = [main(line.split()) for line in {lines}]\n"
        "heavy = {'torch', 'pandas', 'h5py', 'numpy', 'scipy', 'Bio', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'{codes} {heavy}' if heavy or set(codes) != {1} else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["bioattn: error: absent0: no such file or folder"] * len(lines)
    assert not list(tmp_path.iterdir())


def test_what_stands_for_nothing_absent_is_left_to_its_reader(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain behind a structure's name, standard input, and a folder that doctor looks at."""
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "msa", "absent.pdb:A", "-o", "x"]) == 1
    assert "absent.pdb: no such file" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b">a\nMKV\n")))
    assert main(["prepare", "msa", "-", "-o", "x.a3m"]) == 0
    assert main(["doctor", "absent"]) == 1
    assert "create it first" in capsys.readouterr().err
