"""A run that is killed, terminated or out of space leaves nothing half-written and goes on to the same bytes."""

import json
import resource
import signal
import subprocess
import time

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.io.output_names import partial_folder
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.inference.run import run_promoters
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.result_validation import validate_attention
from bioattn.system.progress import NoProgress
from tests.inference.conftest import TABLE

# Runs an export in small parts, slowly enough to be hit anywhere; the pause stands for a larger model.
WORKER = """
import sys, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from bioattn.errors import BioattnError, Interrupted
from bioattn.models.promoter.inference.run import run_promoters
from bioattn.models.promoter.folder import load_promoter_model

model, promoters, output, predictions, pause = sys.argv[1:6]
loaded = load_promoter_model(Path(model), torch.device("cpu"))
loaded.model.register_forward_hook(lambda *_: time.sleep(float(pause)))
print("ready", flush=True)
try:
    with open(predictions, "w") as text:
        run_promoters(loaded, Path(promoters), treatments=loaded.treatments, predictions=text,
                      attention=Path(output), batch_size=4, part_samples=8, resume="--resume" in sys.argv)
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
                part_samples=8,
                resume=resume,
            )
        assert not partial_folder(output).exists()
        return output.read_bytes(), predictions.read_text()


@pytest.fixture
def job(python, make_model, make_promoters, tmp_path):
    return Job(python, make_model(), make_promoters(60), tmp_path)


def test_killed_while_assembling(export, tmp_path, monkeypatch):
    """Death between any two steps of the assembly, the rename included, leaves a whole file or none."""
    from bioattn.store import parts

    class Killed(BaseException):
        """Not caught by anything, like SIGKILL."""

    whole = export("whole.h5").read_bytes()
    output = tmp_path / "killed.h5"

    def die(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(parts, "read_block", die)
        with pytest.raises(Killed):
            export("killed.h5")
    assert not output.exists()
    with monkeypatch.context() as patch:
        patch.setattr(parts, "_clear", die)
        with pytest.raises(Killed):
            export("killed.h5", resume=True)
    assert output.read_bytes() == whole
    assert export("killed.h5", resume=True).read_bytes() == whole
    assert not partial_folder(output).exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_keep_parts_and_say_how_to_go_on(job, number, code):
    process = job.start("stopped", pause=0.1)
    wait_for_parts(job.folder / "stopped.h5", 1)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert "of 60 promoters; they are kept in" in stderr
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    assert not (job.folder / "stopped.h5").exists()
    assert not list(job.folder.glob("stopped.h5.partial/unfinished*"))
    assert job.finish("stopped", resume=True) == job.finish("whole")


def test_a_full_disk_is_one_sentence_and_resumable(job):
    """RLIMIT_FSIZE stands for the disk: the parts fit, the assembled file does not."""
    whole = job.finish("whole")
    size = len(whole[0])

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    process = job.start("full", preexec_fn=limit)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "no space left on the device" in stderr
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not (job.folder / "full.h5").exists()
    assert job.finish("full", resume=True) == whole


def test_parts_of_another_run_are_not_mixed_in(export, make_model, make_promoters, load, tmp_path):
    output = tmp_path / "attention.h5"
    folder = interrupted(export, output)
    assert inspect_file(folder).figures["complete_parts"] == 1
    assert [finding.message for finding in validate_file(folder)] == [
        "is unfinished: repeat the command that made it with --resume"
    ]
    with pytest.raises(BioattnError, match=r"holds 1 parts .* --resume to go on .* --force to start again"):
        export()
    with pytest.raises(BioattnError, match=r"another run \(different: model\)"):
        export(model=load(make_model("other", seed=1)), resume=True)
    with pytest.raises(BioattnError, match=r"another run \(different: num_promoters, promoters\)"):
        export(file=make_promoters(24, "more.fa"), resume=True)
    with pytest.raises(BioattnError, match=r"another run \(different: treatments\)"):
        export(treatments=TABLE.select(["heat-40"]), resume=True)
    with pytest.raises(BioattnError, match=r"another run \(different: batch_size\)"):
        export(batch_size=8, resume=True)
    (folder / "job.json").write_text("{")
    with pytest.raises(BioattnError, match=r"job\.json is missing or unreadable; give --force"):
        export(resume=True)
    assert folder.exists()
    export(force=True)
    assert not folder.exists()
    assert validate_attention(output) == []
    export()
    assert validate_attention(output) == []


def test_a_damaged_part_is_named_and_made_again(export, tmp_path):
    output = tmp_path / "attention.h5"
    folder = interrupted(export, output)
    part = folder / "part-00000.h5"
    part.write_bytes(part.read_bytes()[:-1000])
    with pytest.raises(BioattnError, match=r"part-00000\.h5.*was removed, run again with --resume"):
        export(resume=True)
    assert not output.exists()
    export(resume=True)
    assert validate_attention(output) == []


def test_foreign_files_and_folders_stay(export, tmp_path):
    folder = partial_folder(tmp_path / "attention.h5")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    export(force=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert json.dumps(sorted(path.name for path in folder.iterdir())) == '["notes.txt"]'
    (tmp_path / "folder.h5").mkdir()
    with pytest.raises(BioattnError, match="is a folder, a file name is needed"):
        export("folder.h5")


def test_more_than_the_disk_holds_is_refused_first(export, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50_000})())
    with pytest.raises(BioattnError, match=r"but only 50,000 are free in .*; choose fewer --treatment"):
        export()
    assert not list(tmp_path.glob("attention.h5*"))


def wait_for_parts(output, wanted):
    deadline = time.monotonic() + 60
    while len(list(partial_folder(output).glob("part-*.h5"))) < wanted:
        assert time.monotonic() < deadline, "the parts never came"
        time.sleep(0.002)


def interrupted(export, output):
    """Run `export` until its first part is there, as Ctrl-C would; returns the folder of parts."""
    folder = partial_folder(output)

    class Stop(NoProgress):
        """Progress that presses Ctrl-C once a part is complete."""

        def advance(self, steps=1, **status):
            if list(folder.glob("part-*.h5")):
                raise KeyboardInterrupt

    with pytest.raises(BioattnError, match="stopped after 8 of 23 promoters"):
        export(progress=Stop())
    return folder
