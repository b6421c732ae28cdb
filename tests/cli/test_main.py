"""The program as a whole: light start, help, exit codes, wrong usage, closed streams, signals, run records."""

import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bioattn import __version__
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn_cli.main import main
from bioattn_cli.program import program

ROOT = Path(__file__).resolve().parents[2]
TINY = ROOT / "data" / "tiny"
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'cli'}"}
BIOATTN = [sys.executable, "-m", "bioattn_cli"]
HEAVY = {"torch", "pandas", "h5py", "numpy", "scipy", "Bio", "rich"}


def every_command():
    group = program()
    words = []
    for verb, command in group.commands.items():
        words += [[verb, noun] for noun in command.commands] if hasattr(command, "commands") else [[verb]]
    return words


def first_sentence(text):
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return paragraph.split(". ")[0].removesuffix(".")


@pytest.mark.parametrize("verb", ["", "prepare", "train", "run", "export", "explain", "simulate"])
def test_help_lists_every_command_with_a_whole_sentence(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    group = program()
    for word in verb.split():
        group = group.commands[word]
    assert main([*verb.split(), "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split("Commands:")[1].split())
    assert "..." not in shown
    for name, command in group.commands.items():
        assert f"{name} {first_sentence(command.help)}" in shown


def test_version_and_help_import_nothing_heavy():
    script = (
        "import sys; from bioattn_cli.main import main\n"
        f"codes = [main([*words, '--help']) for words in {[[], *every_command()]}] + [main(['--version'])]\n"
        f"heavy = {HEAVY} & set(sys.modules)\n"
        "sys.exit(f'{codes} {heavy}' if heavy or any(codes) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"bioattn {__version__}\n")


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_a_command_has_at_most_eighteen_options_of_its_own(words):
    command = program()
    for word in words:
        command = command.commands[word]
    # Two names of one option are one option; how a command runs is the same for all.
    own = {
        parameter.opts[0]
        for parameter in command.params
        if parameter.opts[0].startswith("--") and getattr(parameter, "rich_help_panel", None) != "Running"
    }
    assert len(own - {"--quiet", "--verbose", "--log-format", "--output", "--help"}) <= 18


def test_help_stands_in_groups_as_wide_as_the_terminal(capsys, monkeypatch):
    """What is read, written, modelled and how it runs; no line ends in the middle of a word with hyphens."""
    groups = ["Inputs", "Output", "Model", "Training", "Options", "Running"]
    for columns in (80, 150):
        monkeypatch.setenv("COLUMNS", str(columns))
        for words in every_command():
            assert main([*words, "--help"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert columns * 0.75 < max(map(len, lines)) <= columns
            headings = [line[:-1] for line in lines if re.fullmatch(r"[A-Z]\w+:", line)]
            assert headings == [group for group in groups if group in headings]
            assert headings[-1] == "Running"
            assert not [line for line in lines if re.search(r"\w-$", line)]


def test_examples_in_the_help_can_be_copied(capsys, monkeypatch):
    """As a shell reads them, each is a command line that its command takes; none is filled with the prose."""
    monkeypatch.setenv("COLUMNS", "80")
    examples = []
    for words in every_command():
        command = program()
        for word in words:
            command = command.commands[word]
        assert main([*words, "--help"]) == 0
        shown = capsys.readouterr().out
        assert max(map(len, shown.splitlines())) <= 80
        for example in re.findall(r"^  bioattn (?:.*\\\n)*.*$", shown, flags=re.MULTILINE):
            typed = shlex.split(example.replace("\\\n", ""))
            assert typed[1 : 1 + len(words)] == words
            command.make_context("bioattn", typed[1 + len(words) :])
            examples.append(words)
    assert len(examples) >= 13


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["inspect", str(TINY / "responses.tsv")], 0),
        (["inspect", "nowhere"], 1),
        ([], 2),
        (["train"], 2),
        (["simulate", "promoters", "-o", "x", "--genes", "none"], 2),
    ],
)
def test_exit_codes(words, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == code


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (BioattnError("bad file"), 1, "bioattn: error: bad file\n"),
        (SettingsError("bad option"), 2, "bioattn: error: bad option\n"),
        (Interrupted("saved", 143), 143, "bioattn: saved\n"),
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 1, "bioattn: error: out of memory"),
        (ImportError("x.so: failed to map segment from shared object"), 1, "bioattn: error: out of memory"),
        (OSError(errno.EMFILE, "Too many open files"), 1, "bioattn: error: too many open files"),
        (RuntimeError("can't allocate memory: 9 bytes\nmore"), 1, "bioattn: error: out of memory"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_become_sentences_and_codes(error, code, says, monkeypatch, capsys):
    def fail(*_):
        raise error

    monkeypatch.setattr("bioattn.store.inspection.inspect_file", fail)
    assert main(["inspect", str(TINY)]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith(says)
    assert "Traceback" not in captured.err


PRINTING = [["--help"], ["inspect", str(TINY / "responses.tsv")]]


def test_a_bug_is_shown_in_full(monkeypatch):
    def fail(*_):
        raise RuntimeError("a bug")

    monkeypatch.setattr("bioattn.store.inspection.inspect_file", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["inspect", str(TINY)])


@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_closed_pipe_is_141_and_silent(words):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*BIOATTN, *words], env=ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", PRINTING, ids=" ".join)
def test_a_full_disk_behind_stdout_is_one_sentence(words, buffered):
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BIOATTN, *words], env=environment, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr == (
        "bioattn: error: standard output cannot be written (No space left on device); what was printed is not "
        "complete\n"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_command_with_their_code_and_leave_nothing(number, code, tmp_path):
    """The annotation is a pipe that nobody writes to, so the command waits in the middle of its work."""
    pipe = tmp_path / "annotation.gff3"
    os.mkfifo(pipe)
    command = ["prepare", "promoters", str(TINY / "genome.fa"), str(pipe), "-o", str(tmp_path / "p.fa")]
    environment = {**ENVIRONMENT, "BIOATTN_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [*BIOATTN, *command],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job, which the tests may be, passes on that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    writer = os.open(pipe, os.O_WRONLY)  # waits until the command reads
    time.sleep(0.2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == code
    assert errors.splitlines()[-1] == f"bioattn: error: stopped by {number.name}; no output is half-written"
    assert errors.count("bioattn: error") == 1
    assert "Traceback" not in errors
    assert {path.name for path in tmp_path.iterdir()} <= {"annotation.gff3", "cache"}


RUN = "see `bioattn run promoter --help`"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("predict promoter m p", "no such command 'predict', did you mean 'run'; see `bioattn --help`"),
        ("run promoter m p", f"missing option '--output' / '-o'; {RUN}"),
        ("run promoter m p -o x --thread 1", "(possible options: --shard, --threads, --treatment)"),
        ("run promoter m p -o x --device gpu", "'gpu' is not one of 'auto', 'cpu', 'cuda', 'mps';"),
    ],
)
def test_wrong_usage_is_one_sentence(words, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("bioattn: error: ")
    assert sentence in line
    assert not list(tmp_path.iterdir())


def commands_with_inputs():
    """Every command with as many absent inputs as it must have, and what else it insists on."""
    lines = []
    for verb, group in program().commands.items():
        for noun, command in (group.commands if hasattr(group, "commands") else {"": group}).items():
            required = [parameter for parameter in command.params if parameter.required]
            inputs = [f"absent{i}" for i, one in enumerate(required) if one.param_type_name == "argument"]
            options = [f"{one.opts[0]} x" for one in required if one.param_type_name == "option"]
            if inputs and noun != "dataset":  # two kinds of inputs; its own test follows
                lines.append(" ".join([verb, noun, *inputs, *options]))
    return lines


def said_without_heavy_imports(lines, folder, heavy=HEAVY):
    """What command lines say that all end with exit code 1."""
    script = (
        "import sys; from bioattn_cli.main import main\n"
        f"codes = [main(line.split()) for line in {lines}]\n"
        f"heavy = {heavy} & set(sys.modules)\n"
        "sys.exit(f'{codes} {heavy}' if heavy or set(codes) != {1} else 0)"
    )
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'cli'}"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_absent_inputs_are_told_before_anything_heavy_is_loaded(tmp_path):
    lines = [
        *commands_with_inputs(),
        f"run promoter {TINY} absent0 -o x",
        "prepare dataset absent0 r.tsv -o x",
    ]
    assert len(lines) > 25
    sentence = "bioattn: error: absent0: no such file or folder"
    assert said_without_heavy_imports(lines, tmp_path) == [sentence] * len(lines)
    assert not list(tmp_path.iterdir())


def test_outputs_and_swapped_inputs_are_told_before_anything_heavy_is_loaded(tmp_path):
    """Also an optional input that is absent."""
    model, fasta = tmp_path / "model", tmp_path / "x.fa"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).touch()
    fasta.write_text(">a\nACGT\n")
    swapped = "MODEL x.fa: is a file, a model folder is needed"
    wanted = {
        "run promoter x.fa model -o y": swapped,
        "run promoter model model -o y": "PROMOTERS model: is a model folder, a file is needed",
        "train promoter x.fa -o model": "model: exists already; choose another --output, or --force to replace it",
        "run promoter model x.fa -o y --treatment-table absent0": "absent0: no such file or folder",
        "run evoformer x.fa --model absent0 -o y": "absent0: no such file or folder",
    }
    assert said_without_heavy_imports(list(wanted), tmp_path) == [
        f"bioattn: error: {s}" for s in wanted.values()
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"model", "x.fa"}


def test_several_files_are_all_looked_at(tmp_path, monkeypatch, capsys):
    """Whatever is wrong with one of them; a problem with one alone is the sentence of the command."""
    monkeypatch.chdir(TINY)
    damaged = tmp_path / "x.h5"
    damaged.write_bytes(b"\x89HDF\r\n\x1a\nand no more")
    files = ["genome.fa", "absent", str(damaged), "motifs.meme"]
    assert main(["validate", *files]) == 1
    said = capsys.readouterr()
    assert [line for line in said.out.splitlines() if line.endswith("valid")] == [
        "genome.fa: valid",
        f"{damaged}: invalid",
        "motifs.meme: valid",
    ]
    assert said.err == "error: absent: no such file or folder\n"
    assert main(["validate", "genome.fa", "motifs.meme"]) == 0
    capsys.readouterr()
    assert main(["inspect", "--json", *files]) == 1
    said = capsys.readouterr()
    assert [each["file"] for each in json.loads(said.out)] == ["genome.fa", "motifs.meme"]
    assert [line.split(":")[1].strip() for line in said.err.splitlines()] == ["absent", str(damaged)]
    assert main(["inspect", "motifs.meme", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert main(["inspect", "genome.fa", "motifs.meme", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1] == {"file": "motifs.meme", **one}
    assert main(["inspect", "genome.fa", "motifs.meme"]) == 0
    assert capsys.readouterr().out.count("\nmotifs.meme: ") == 1


def test_what_stands_for_nothing_absent_is_left_to_its_reader(capsys, tmp_path, monkeypatch):
    """A chain behind a structure's name, and standard input."""
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "msa", "absent.pdb:A", "-o", "x"]) == 1
    assert "absent.pdb: no such file" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b">a\nMKV\n")))
    assert main(["prepare", "msa", "-", "-o", "x.a3m"]) == 0


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("bioattn ", {"prepare", "train", "run", "export", "explain", "plot", "report", "inspect", "doctor"}),
        ("bioattn train promoter --conditioning ", {"concat", "film", "cross", "cross-all", "ridge"}),
    ],
)
def test_what_tab_offers_comes_without_torch(words, offered):
    script = (
        "import sys\nfrom bioattn_cli.main import main\nsys.argv[0] = 'bioattn'\ncode = main()\n"
        "sys.exit(99 if {'torch', 'numpy', 'h5py', 'pandas'} & set(sys.modules) else code)"
    )
    environment = {
        **ENVIRONMENT,
        "_BIOATTN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len((words + ".").split()) - 1),
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) >= offered
