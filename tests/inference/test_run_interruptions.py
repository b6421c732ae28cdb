"""`run evoformer` when an alignment, the disk, memory or a signal ends it: what is kept and goes on."""

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import h5py
import pytest
import torch

from bioattn.choices import Reduction
from bioattn.errors import BioattnError, Interrupted
from bioattn.inference.alignment_inputs import find_alignments
from bioattn.inference.folders import run_folders
from bioattn.io.files import partial_path
from bioattn.models.evoformer import prediction
from bioattn.models.evoformer.run import AlignmentRunner, load_evoformer_model
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.running import run_promoters
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.schema import AttentionOptions
from bioattn.system.progress import Progress
from tests.inference.conftest import TABLE
from tests.inference.evoformer_runs import CPU, FILES, ROWS, run, write_fasta
from tests.result_files import assert_same_content


def ids_in(path):
    with h5py.File(path) as file:
        return [name.decode() for name in file["samples/id"][()]]


@pytest.fixture
def folder(tmp_path):
    """Three alignments, the second of which cannot be read."""
    (tmp_path / "in").mkdir()
    write_fasta(tmp_path / "in/a.fasta")
    write_fasta(tmp_path / "in/b.fasta", [*ROWS, "SHORT"])
    write_fasta(tmp_path / "in/c.fasta", ROWS[1:])
    return tmp_path / "in"


def test_one_bad_alignment_does_not_stop_the_rest(trunk, folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(folder, "--model", trunk, "-o", out, "--attention", tmp_path / "att.h5") == 1
    assert {path.name for path in out.iterdir()} == {"a", "c"}
    said = capsys.readouterr().err
    assert "1 of 3 alignments failed: b; " in said.splitlines()[-1]
    assert said.count("b.fasta") == 1
    record = json.loads((tmp_path / "bioattn-records/out.json").read_text())
    assert record["finished"] == ["a", "c"]
    assert list(record["failed"]) == ["b"]
    assert validate_file(tmp_path / "att.h5") == []
    assert ids_in(tmp_path / "att.h5") == ["a", "c"]
    # Alone, each gives the same bytes.
    options = ("--model", trunk, "-o", tmp_path / "alone", "--attention", tmp_path / "alone.h5")
    assert run(folder / "c.fasta", *options) == 0
    for name in FILES:
        assert (tmp_path / "alone" / name).read_bytes() == (out / "c" / name).read_bytes()


def test_a_later_alignment_does_not_cost_the_attention_of_the_earlier_ones(trunk, folder, tmp_path, capsys):
    words = (folder, "--model", trunk, "-o", tmp_path / "out", "--attention", tmp_path / "att.h5")
    assert run(*words) == 1
    earlier = (tmp_path / "att.h5").read_bytes()
    write_fasta(folder / "b.fasta", ROWS[2:])
    assert run(*words) == 1
    assert "would lose the attention of a (" in capsys.readouterr().err
    assert (tmp_path / "att.h5").read_bytes() == earlier
    assert not (tmp_path / "out/b").exists()
    assert run(*words, "--resume") == 0
    assert ids_in(tmp_path / "att.h5") == ["a", "b", "c"]
    (folder / "list.txt").write_text("a.fasta\ngone.fasta\nc.fasta\n")
    assert run(folder / "list.txt", *words[1:], "--force") == 1
    assert ids_in(tmp_path / "att.h5") == ["a", "c"]


def test_killed_while_it_replaces_before_the_attention_file_is_put_together(trunk, folder, tmp_path):
    out, attention = tmp_path / "out", tmp_path / "att.h5"
    words = (folder / "a.fasta", "--model", trunk, "-o", out, "--attention", attention)
    assert run(*words, "--seed", 5) == 0
    earlier = attention.read_bytes()
    assert run(*words, "--force") == 0
    wanted = attention.read_bytes()
    assert wanted != earlier
    attention.write_bytes(earlier)  # the folder of results is new already
    assert run(*words, "--resume", "--force") == 0
    assert attention.read_bytes() == wanted


def test_resume_keeps_what_is_finished_and_the_same(trunk, folder, tmp_path):
    out = tmp_path / "out"
    write_fasta(folder / "b.fasta", ROWS[2:])
    assert run(folder, "--model", trunk, "-o", out) == 0
    shutil.rmtree(out / "b")
    kept = (out / "a/scores.json").stat()
    assert run(folder, "--model", trunk, "-o", out) == 1  # neither --resume nor --force
    shutil.rmtree(out / "b", ignore_errors=True)
    assert run(folder, "--model", trunk, "-o", out, "--resume") == 0
    assert (out / "a/scores.json").stat().st_mtime_ns == kept.st_mtime_ns
    assert (out / "b/contacts.rr").is_file()
    record = json.loads((tmp_path / "bioattn-records/out.json").read_text())
    assert (record["finished"], record["resumed"]) == (["b"], ["a", "c"])
    assert run(folder, "--model", trunk, "-o", out, "--resume", "--seed", 5) == 1
    write_fasta(folder / "a.fasta", ROWS[3:])
    assert run(folder, "--model", trunk, "-o", out, "--resume") == 1
    assert run(folder, "--model", trunk, "-o", out, "--force") == 0
    assert (out / "a/scores.json").stat().st_mtime_ns != kept.st_mtime_ns


def test_folders_of_other_things_are_never_replaced(trunk, tmp_path):
    path = write_fasta(tmp_path / "x.fasta")
    (tmp_path / "mine").mkdir()
    assert run(path, "--model", trunk, "-o", tmp_path / "mine") == 0  # empty: nothing to lose
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("years")
    for flag in ("--force", "--resume"):
        assert run(path, "--model", trunk, "-o", tmp_path / "other", flag) == 1
    assert (tmp_path / "other/thesis.txt").read_text() == "years"
    assert run(path, "--model", trunk, "-o", path) == 1
    assert run(path, "--model", trunk, "-o", ".") == 2
    assert run(path, "--model", trunk, "-o", tmp_path / "no/such/out") == 1
    notes = [tmp_path / "mine/notes.txt", tmp_path / "new.partial/notes.txt"]
    notes[1].parent.mkdir()
    for note in notes:  # beside our own files, and where those are made
        note.write_text("years")
    assert run(path, "--model", trunk, "-o", tmp_path / "mine", "--force") == 1
    assert run(path, "--model", trunk, "-o", tmp_path / "new") == 1
    assert [note.read_text() for note in notes] == ["years", "years"]
    assert not (tmp_path / "new").exists()


def test_an_output_that_cannot_be_written_is_told_before_the_prediction(trunk, tmp_path, monkeypatch, capsys):
    """A read-only file system looks writable to root until something is made on it."""

    def refuse(path, *arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(
        "bioattn.models.evoformer.run.predict", lambda *_, **__: pytest.fail("predicted in vain")
    )
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert run(write_fasta(tmp_path / "x.fasta"), "--model", trunk, "-o", tmp_path / "out") == 1
    assert "out: cannot be written (Read-only file system)" in capsys.readouterr().err


def command(output, attention=None):
    return SimpleNamespace(output=output, attention=attention, shard=None, resume=False, force=False)


def test_what_a_signal_ends_goes_on_to_the_same_results(trunk, folder, tmp_path):
    class Impatient(Progress):
        def advance(self, steps=1, **status):
            if (tmp_path / "out/a").is_dir():
                os.kill(os.getpid(), signal.SIGINT)

    write_fasta(folder / "b.fasta", ROWS[2:])
    loaded = load_evoformer_model(trunk, CPU)
    sources, several = find_alignments(folder)
    attention, options = tmp_path / "att.h5", AttentionOptions(reduce=Reduction.MEAN_ROWS)
    impatient = Impatient()
    runner = AlignmentRunner(model=loaded, inputs=loaded.inputs, progress=impatient)
    with pytest.raises(Interrupted, match=r"1 of 3 alignments finished: repeat .* --resume") as caught:
        run_folders(runner, command(tmp_path / "out", attention), sources, several=several, options=options)
    assert caught.value.exit_code == 130
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
    assert not attention.exists()
    options = ("--model", trunk, "--attention", attention)
    assert run(folder, *options, "-o", tmp_path / "out", "--resume") == 0
    assert not (tmp_path / "att.h5.partial").exists()
    made = attention.stat().st_mtime_ns
    assert run(folder, *options, "-o", tmp_path / "out", "--resume") == 0
    assert attention.stat().st_mtime_ns == made
    resumed = tmp_path / "resumed.h5"
    attention.rename(resumed)
    assert run(folder, *options, "-o", tmp_path / "calm") == 0
    assert_same_content(attention, resumed)
    for name in ("a", "b", "c"):
        for file in FILES:
            expected = (tmp_path / "calm" / name / file).read_bytes()
            assert (tmp_path / "out" / name / file).read_bytes() == expected


def test_resuming_tells_attention_of_other_settings_from_its_own(trunk, folder, tmp_path):
    (folder / "b.fasta").unlink()
    (tmp_path / "top.toml").write_text('[attention]\nreduce = "top-k"\ntop_k = 2\nsites = ["*.msa_row"]\n')
    attention = tmp_path / "att.h5"
    options = ("--model", trunk, "--attention", attention, "--config", tmp_path / "top.toml")
    assert run(folder, *options, "-o", tmp_path / "calm") == 0
    wanted = attention.read_bytes()
    out = ("-o", tmp_path / "out")
    attention.unlink()
    assert run(folder, *options[:4], *out) == 0
    assert attention.read_bytes() != wanted
    assert run(folder, *options, *out, "--resume") == 0  # other settings of attention
    assert attention.read_bytes() == wanted
    for shard in ("1/2", "2/2"):
        named = (*options[:3], tmp_path / f"att{shard[0]}.h5", *options[4:])
        assert run(folder, *named, "-o", tmp_path / f"out{shard[0]}", "--shard", shard) == 0
    shutil.copy(tmp_path / "att1.h5", attention)
    assert run(folder, *options, *out, "--resume") == 0  # a part
    assert attention.read_bytes() == wanted
    assert run(folder / "a.fasta", *options, "-o", tmp_path / "a") == 0
    assert attention.read_bytes() != wanted
    assert run(folder, *options, *out, "--resume") == 0  # other alignments
    assert attention.read_bytes() == wanted
    made = attention.stat().st_mtime_ns
    assert run(folder, *options, *out, "--resume") == 0
    assert attention.stat().st_mtime_ns == made


def test_running_out_of_memory_stops_one_alignment(trunk, folder, tmp_path, monkeypatch):
    def predict(_model, inputs, **arguments):
        if arguments["description"] == "a":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return prediction.predict(_model, inputs, **arguments)

    write_fasta(folder / "b.fasta", ROWS[2:])
    monkeypatch.setattr("bioattn.models.evoformer.run.predict", predict)
    assert run(folder, "--model", trunk, "-o", tmp_path / "out") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["b", "c"]


# Runs an export in small parts, slowly enough to be hit anywhere; the pause stands for a larger model.
WORKER = """
import sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from bioattn.errors import BioattnError, Interrupted
from bioattn.models.promoter.running import run_promoters
from bioattn.models.promoter.folder import load_promoter_model

model, promoters, output, predictions, pause = sys.argv[1:6]
loaded = load_promoter_model(Path(model), torch.device("cpu"))
loaded.model.register_forward_hook(lambda *_: time.sleep(float(pause)))
print("ready", flush=True)
try:
    with open(predictions, "w") as text:
        run_promoters(loaded, Path(promoters), treatments=loaded.treatments, predictions=text,
                      attention=Path(output), batch_size=4, resume="--resume" in sys.argv)
except BioattnError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code if isinstance(error, Interrupted) else 1)
"""


class Job:
    """One export as a process of its own."""

    def __init__(self, python, model, promoters, folder):
        self.python, self.model, self.promoters, self.folder = python, model, promoters, folder

    def start(self, name, *flags, pause=0.0, **options):
        arguments = [
            self.model,
            self.promoters,
            self.folder / f"{name}.h5",
            self.folder / f"{name}.tsv",
            pause,
        ]
        process = subprocess.Popen(
            [self.python, "-c", WORKER, *map(str, arguments), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        return process

    def finish(self, name, *, resume=False):
        """The same export in this process, to its end; what it wrote."""
        loaded = load_promoter_model(self.model, torch.device("cpu"))
        output, predictions = self.folder / f"{name}.h5", self.folder / f"{name}.tsv"
        with predictions.open("w") as text:
            run_promoters(
                loaded,
                self.promoters,
                treatments=loaded.treatments,
                predictions=text,
                attention=output,
                batch_size=4,
                resume=resume,
            )
        assert not partial_path(output).exists()
        return output, predictions.read_text()


@pytest.fixture
def job(python, make_model, make_promoters, tmp_path):
    return Job(python, make_model(), make_promoters(60), tmp_path)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_keep_what_is_done_and_say_how_to_go_on(job, number, code):
    process = job.start("stopped", pause=0.1)
    time.sleep(0.5)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert "of 60 promoters; they are kept in" in stderr
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    assert sorted(path.name for path in job.folder.glob("*stopped.h5*")) == ["stopped.h5.partial"]
    stopped, whole = job.finish("stopped", resume=True), job.finish("whole")
    assert_same_content(stopped[0], whole[0])
    assert stopped[1] == whole[1]


def test_what_is_left_of_another_run_is_not_mixed_in(export, make_model, make_promoters, load, tmp_path):
    output = tmp_path / "attention.h5"
    partial = interrupted(export, output)
    assert inspect_file(partial).figures["genes"] == 8
    with pytest.raises(BioattnError, match=r"--resume to go on .* --force to start again"):
        export()
    with pytest.raises(BioattnError, match=r"another run \(different: model\)"):
        export(model=load(make_model("other", seed=1)), resume=True)
    with pytest.raises(BioattnError, match=r"another run \(different: promoters\)"):
        export(file=make_promoters(24, "more.fa"), resume=True)
    with pytest.raises(BioattnError, match=r"another run \(different: treatments\)"):
        export(treatments=TABLE.select(["heat-40"]), resume=True)
    assert partial.exists()
    export(force=True)
    assert not partial.exists()
    assert validate_results(output) == []


def interrupted(export, output):
    """Run `export` until two batches are done, as Ctrl-C would; returns what is left."""

    class Stop(Progress):
        """Progress that presses Ctrl-C."""

        done = 0

        def advance(self, steps=1, **status):
            self.done += steps
            if self.done >= 8:
                raise KeyboardInterrupt

    with pytest.raises(BioattnError, match="stopped after 8 of 23 promoters"):
        export(progress=Stop())
    return partial_path(output)
