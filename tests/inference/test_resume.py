"""A run that is terminated or out of space leaves nothing half-written and goes on to the same content."""

import signal
import subprocess
import time

import pytest
import torch

from bioattn.errors import BioattnError
from bioattn.io.files import partial_path
from bioattn.models.promoter.folder import load_promoter_model
from bioattn.models.promoter.running import run_promoters
from bioattn.store.file_kinds import validate_results
from bioattn.store.inspection import inspect_file
from bioattn.system.progress import Progress
from tests.inference.conftest import TABLE
from tests.result_files import assert_same_content

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
