"""`run evoformer` when an alignment, the disk, memory or a signal ends it: what is kept and goes on."""

import errno
import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import h5py
import pytest

from bioattn.choices import Reduction
from bioattn.errors import Interrupted
from bioattn.inference.alignment_inputs import find_alignments
from bioattn.inference.folders import run_folders
from bioattn.models.evoformer import prediction
from bioattn.models.evoformer.run import AlignmentRunner, load_evoformer_model
from bioattn.store.inspection import validate_file
from bioattn.store.schema import AttentionOptions
from bioattn.system.progress import Progress
from tests.inference.evoformer_runs import CPU, FILES, ROWS, run, write_fasta
from tests.result_files import assert_same_content


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
    with h5py.File(tmp_path / "att.h5") as file:
        assert [name.decode() for name in file["samples/id"][()]] == ["a", "c"]
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
    assert "would lose the attention of what is left out" in capsys.readouterr().err
    assert (tmp_path / "att.h5").read_bytes() == earlier
    assert not (tmp_path / "out/b").exists()
    assert run(*words, "--resume") == 0
    with h5py.File(tmp_path / "att.h5") as file:
        assert [name.decode() for name in file["samples/id"][()]] == ["a", "b", "c"]


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
    write_fasta(folder / "b.fasta", ROWS[2:])
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
