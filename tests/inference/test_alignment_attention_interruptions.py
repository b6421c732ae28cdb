"""Attention over alignments when an alignment, a part, the disk or a kill interrupts it: what goes on."""

import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from bioattn.errors import BioattnError, FormatError
from bioattn.io.output_names import partial_folder
from bioattn.models.evoformer.inference.attention import alignment_attention
from bioattn.store.choices import Reduction
from bioattn.store.inspection import inspect_file, validate_file
from bioattn.store.result_validation import validate_attention
from bioattn.store.schema import AttentionOptions
from tests.inference.alignment_attention_files import ALL, SITES, SIZES, sample, send, write


def test_an_alignment_that_fails_is_left_out(tmp_path: Path) -> None:
    output = tmp_path / "attention.h5"
    with alignment_attention(
        output, sites=SITES, options=ALL, model_sha256="a" * 64, sizes=SIZES, job={}
    ) as writer:
        for number in range(3):
            try:
                with writer.sample(number, sample(number).samples) as receiver:
                    if number == 1:
                        raise BioattnError("its file is bad")
                    send(receiver, SIZES[number], 2)
            except BioattnError:
                continue
        assert writer.assemble() == [sample(0).id, sample(2).id]
    assert validate_file(output) == []
    other = tmp_path / "other.h5"
    write(other, numbers=(0, 2))
    assert output.read_bytes() == other.read_bytes()
    with (
        pytest.raises(BioattnError, match="none of the alignments gave results"),
        alignment_attention(output, sites=SITES, options=ALL, model_sha256="", sizes=SIZES, job={}) as writer,
    ):
        writer.assemble()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.h5", "other.h5"]


def test_an_interrupted_run_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)

    def stop_at(place: int) -> Callable[[int], None]:
        def before(number: int) -> None:
            if number == place:
                raise KeyboardInterrupt

        return before

    with pytest.raises(KeyboardInterrupt):
        write(output, before=stop_at(1))
    folder = partial_folder(output)
    assert [path.name for path in sorted(folder.iterdir())] == ["job.json", "part-00000.h5"]
    assert validate_attention(folder / "part-00000.h5") == []
    figures = inspect_file(folder).figures
    assert (figures["complete_parts"], figures["all_parts"]) == (1, 3)
    with pytest.raises(BioattnError, match=r"holds 1 parts of an earlier run; give --resume .* or --force"):
        write(output)
    with pytest.raises(BioattnError, match=r"another run \(different: seed\)"):
        write(output, resume=True, job={"seed": 1})
    with pytest.raises(BioattnError, match=r"another run \(different: reduce\)"):
        write(output, AttentionOptions(reduce=Reduction.MEAN_ROWS), resume=True)
    with pytest.raises(KeyboardInterrupt):
        write(output, before=stop_at(2), resume=True)
    seen: list[int] = []
    write(output, resume=True, before=seen.append)
    assert seen == [2]
    assert output.read_bytes() == whole.read_bytes()
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["cut", "edited"])
def test_a_damaged_part_is_named_and_made_again(tmp_path: Path, kind: str) -> None:
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)
    folder = partial_folder(output)
    part = folder / "part-00001.h5"

    def damage(number: int) -> None:
        if number != 2:
            return
        if kind == "cut":
            part.write_bytes(part.read_bytes()[:-1000])
        else:  # a value that HDF5's checksum agrees with
            with h5py.File(part, "a") as file:
                file["sites/evoformer.00.msa_row/s0000000/weights"][0, 0, 0, 0] += 0.25

    with pytest.raises(FormatError, match=r"part-00001\.h5.*was removed, run again with --resume"):
        write(output, before=damage)
    assert not output.exists()
    seen: list[int] = []
    write(output, resume=True, before=seen.append)
    assert seen == [1]
    assert output.read_bytes() == whole.read_bytes()


WORKER = """
import sys, time
from pathlib import Path

from bioattn.errors import BioattnError
from tests.inference.alignment_attention_files import write

print("ready", flush=True)
try:
    write(Path(sys.argv[1]), before=lambda number: time.sleep(float(sys.argv[2])))
except BioattnError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""


def start(python: str, output: Path, pause: float, **options: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [python, "-c", WORKER, str(output), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def test_killed_and_resumed_gives_the_same_bytes(tmp_path: Path, python: str) -> None:
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)
    process = start(python, output, pause=0.3)
    deadline = time.monotonic() + 60
    while not list(partial_folder(output).glob("part-*.h5")):
        assert time.monotonic() < deadline, "the parts never came"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not output.exists()
    seen: list[int] = []
    write(output, resume=True, before=seen.append)
    assert 0 < len(seen) < 3
    assert output.read_bytes() == whole.read_bytes()


def test_a_full_disk_is_one_sentence_and_resumable(tmp_path: Path, python: str) -> None:
    """RLIMIT_FSIZE stands for the disk: the parts fit, the assembled file does not."""
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)
    limit = whole.stat().st_size * 2 // 3

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(python, output, pause=0, preexec_fn=restrict)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert "no space left on the device" in stderr
    assert "--resume" in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not output.exists()
    write(output, resume=True)
    assert output.read_bytes() == whole.read_bytes()
