"""Attention over alignments, tile by tile into the file: what NumPy makes of the whole, resumable, never whole."""

import os
import resource
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile, alignment_site
from bioattn.errors import BioattnError, FormatError
from bioattn.inference.alignment_attention import SampleSink, alignment_attention
from bioattn.models.evoformer.config import EvoformerConfig
from bioattn.models.evoformer.gated_attention import GatedAttention
from bioattn.models.evoformer.stack import EvoformerStack
from bioattn.store import open_attention
from bioattn.store.alignment_schema import (
    AlignmentAttentionOptions,
    AlignmentReduction,
    AlignmentSample,
    AlignmentSizes,
    alignment_attention_bytes,
)
from bioattn.store.attention_validation import validate_attention
from bioattn.store.inspection import inspect_file
from bioattn.store.part_folder import partial_folder
from bioattn.store.schema import WeightType
from bioattn.store.validation import validate_file

REPOSITORY = Path(__file__).resolve().parents[2]
SIZES = [AlignmentSizes(5, 3, 9), AlignmentSizes(7, 1, 4), AlignmentSizes(1, 2, 12)]
SITES = {
    site.name: site
    for site in (
        alignment_site("evoformer", 0, "msa_row", 4),
        alignment_site("evoformer", 0, "msa_column", 4),
        alignment_site("evoformer", 0, "triangle_ending", 2),
        alignment_site("extra_msa", 1, "msa_row", 3),
        alignment_site("extra_msa", 1, "msa_column_global", 3),
        alignment_site("structure", 2, "invariant_point", 5),
    )
}
ALL = AlignmentAttentionOptions(reduce=AlignmentReduction.NONE)


def sample(number: int) -> AlignmentSample:
    rows, extra_rows, residues = SIZES[number]
    query = "ACDEFGHIKLMNPQRSTVWY"[:residues]
    return AlignmentSample(
        id=f"prötein {number}",
        query=query,
        rows=rows,
        extra_rows=extra_rows,
        input_sha256="0" * 64,
        row_names=tuple(f"row {place} of {number}" for place in range(rows)),
        extra_row_names=tuple(f"extra {place}" for place in range(extra_rows)),
    )


def weights_of(site: AttentionSite, sizes: AlignmentSizes) -> np.ndarray:
    """Softmax weights that depend on the site and the sizes only."""
    rows = sizes.extra_rows if site.extra_rows else sizes.rows
    keys = sizes.residues if site.keys == "residue" else rows
    lengths = {"row": rows, "residue": sizes.residues, "head": site.num_heads, "query": keys, "key": keys}
    random = np.random.default_rng([len(site.name), ord(site.name[-1]), *sizes])
    exponentials = np.exp(2 * random.normal(size=[lengths[axis] for axis in site.axes]))
    return (exponentials / exponentials.sum(-1, keepdims=True)).astype(np.float32)


def send(sink: SampleSink, sizes: AlignmentSizes, tile: int) -> None:
    """What a model would do: every site, a few slices of its outer axis at a time, in memory used again."""
    for site in SITES.values():
        whole = torch.from_numpy(weights_of(site, sizes))
        if site.axes[0] == "head":
            sink.receive(site, whole, None)
            continue
        for start in range(0, len(whole), tile):
            part = whole[start : start + tile].clone()
            sink.receive(site, part, None, Tile(site.axes[0], start, len(whole)))
            part.fill_(float("nan"))


def write(
    output: Path,
    options: AlignmentAttentionOptions = ALL,
    *,
    numbers: tuple[int, ...] = (0, 1, 2),
    tile: int = 2,
    masks: dict[str, np.ndarray] | None = None,
    job: dict[str, Any] | None = None,
    before: Callable[[int], None] = lambda number: None,
    **choices: Any,
) -> list[str]:
    with alignment_attention(
        output,
        sites=SITES,
        options=options,
        model_sha256="a" * 64,
        sizes=[SIZES[number] for number in numbers],
        job=job or {},
        **choices,
    ) as writer:
        for place, number in enumerate(numbers):
            if not writer.is_whole(place):
                before(place)
                with writer.sample(place, sample(number), masks) as sink:
                    send(sink, SIZES[number], tile)
        return writer.assemble()


@pytest.mark.parametrize("reduce", list(AlignmentReduction))
def test_what_is_stored_is_what_numpy_makes_of_the_whole(tmp_path: Path, reduce: AlignmentReduction) -> None:
    output = tmp_path / "attention.h5"
    write(output, AlignmentAttentionOptions(reduce=reduce, top_k=3))
    assert validate_file(output) == []
    with open_attention(output) as attention:
        assert list(attention.samples.index) == [sample(number).id for number in range(3)]
        for number, sizes in enumerate(SIZES):
            for name, site in SITES.items():
                whole = weights_of(site, sizes).astype(np.float64)
                stored = attention.weights(name, sample=sample(number).id)
                axis = site.axes.index("head")
                match reduce:
                    case AlignmentReduction.MEAN_ROWS if axis:
                        expected = whole.mean(0)
                    case AlignmentReduction.MAX_ROWS if axis:
                        expected = whole.max(0)
                    case AlignmentReduction.MEAN_HEADS:
                        expected = whole.mean(axis)
                    case AlignmentReduction.MAX_HEADS:
                        expected = whole.max(axis)
                    case AlignmentReduction.TOP_K:
                        order = np.argsort(-whole, axis=-1)[..., :3]
                        expected = np.take_along_axis(whole, order, -1)
                        index = attention.key_index(name, sample=sample(number).id)
                        np.testing.assert_array_equal(index, order)
                    case _:
                        expected = whole
                assert stored.shape == expected.shape
                np.testing.assert_allclose(stored, expected, atol=1e-6)
        assert attention.row_names(sample(1).id) == [f"row {place} of 1" for place in range(7)]


def test_padding_rows_and_residues_do_not_count(tmp_path: Path) -> None:
    output = tmp_path / "attention.h5"
    masks = {
        "row": np.array([True, False, True, True, False]),
        "residue": np.arange(9) < 7,
        "extra_row": np.zeros(3, dtype=bool),  # none at all: then all count, for their rows are uniform
    }
    for reduce, numpy_reduce in (
        (AlignmentReduction.MEAN_ROWS, np.mean),
        (AlignmentReduction.MAX_ROWS, np.max),
    ):
        write(output, AlignmentAttentionOptions(reduce=reduce), numbers=(0,), masks=masks)
        with open_attention(output) as attention:
            for name, site in SITES.items():
                whole = weights_of(site, SIZES[0])
                kept = {"row": masks["row"], "residue": masks["residue"]}.get(site.axes[0])
                if site.extra_rows and site.axes[0] == "row":
                    kept = np.ones(3, dtype=bool)
                expected = whole if kept is None else numpy_reduce(whole[kept], axis=0)
                np.testing.assert_allclose(
                    attention.weights(name, sample=sample(0).id), expected, atol=1e-6, err_msg=name
                )


@pytest.mark.parametrize("reduce", list(AlignmentReduction))
def test_the_size_of_tiles_does_not_show(tmp_path: Path, reduce: AlignmentReduction) -> None:
    contents = set()
    for tile in (1, 2, 100):
        for numbers in ((0, 1, 2), (1,)):
            output = tmp_path / f"{tile}-{len(numbers)}.h5"
            write(output, AlignmentAttentionOptions(reduce=reduce), tile=tile, numbers=numbers)
            contents.add(output.read_bytes())
    assert len(contents) == 2


def test_chosen_sites_and_heads_in_half_precision(tmp_path: Path) -> None:
    output = tmp_path / "attention.h5"
    options = AlignmentAttentionOptions(
        sites=("*.msa_row",), heads=(2, 0), dtype=WeightType.FLOAT16, reduce=AlignmentReduction.NONE
    )
    with alignment_attention(
        output, sites=SITES, options=options, model_sha256="", sizes=SIZES[:1], job={}
    ) as writer:
        assert writer.site_names == ["evoformer.00.msa_row", "extra_msa.01.msa_row"]
        with writer.sample(0, sample(0)) as sink:
            for name in writer.site_names:
                sink.receive(SITES[name], torch.from_numpy(weights_of(SITES[name], SIZES[0])), None)
        writer.assemble()
    with open_attention(output) as attention:
        whole = weights_of(SITES["evoformer.00.msa_row"], SIZES[0])
        np.testing.assert_array_equal(
            attention.weights("evoformer.00.msa_row", sample=sample(0).id, head=2),
            whole[:, 2].astype(np.float16),
        )
        np.testing.assert_array_equal(
            attention.weights("evoformer.00.msa_row", sample=sample(0).id),
            whole[:, [2, 0]].astype(np.float16),
        )
        with pytest.raises(BioattnError, match="holds no head 1"):
            attention.weights("evoformer.00.msa_row", sample=sample(0).id, head=1)
    with pytest.raises(BioattnError, match="has heads 0 to 3, but 4 was asked for"):
        write(output, AlignmentAttentionOptions(heads=(4,)))
    with pytest.raises(BioattnError, match=r"--sites 'promoter\.\*': the model holds no such attention site"):
        write(output, AlignmentAttentionOptions(sites=("promoter.*",)))


def test_one_head_is_one_chunk(tmp_path: Path) -> None:
    """Whoever wants one head's map reads its bytes and no others."""
    output = tmp_path / "attention.h5"
    sizes = AlignmentSizes(2, 1, 200)
    site = SITES["evoformer.00.msa_row"]
    options = AlignmentAttentionOptions(sites=(site.name,))
    with alignment_attention(
        output, sites=SITES, options=options, model_sha256="", sizes=[sizes], job={}
    ) as writer:
        query = AlignmentSample(id="x", query="A" * 200, rows=2, extra_rows=1, input_sha256="")
        with writer.sample(0, query) as sink:
            sink.receive(site, torch.from_numpy(weights_of(site, sizes)), None)
        writer.assemble()
    with h5py.File(output) as file:
        assert file[f"sites/{site.name}/s0000000/weights"].chunks == (1, 200, 200)


def test_a_tile_is_let_go_of(tmp_path: Path) -> None:
    """A reduction keeps one map; without one nothing is kept at all."""
    site = SITES["evoformer.00.msa_row"]
    for reduce in AlignmentReduction:
        options = AlignmentAttentionOptions(sites=(site.name,), reduce=reduce)
        with (
            alignment_attention(
                tmp_path / "a.h5", sites=SITES, options=options, model_sha256="", sizes=SIZES[:1], job={}
            ) as writer,
            writer.sample(0, sample(0)) as sink,
        ):
            whole = weights_of(site, SIZES[0])
            for start in range(5):
                memory = whole[start : start + 1].copy()
                alive = weakref.ref(memory)  # as long as any tensor uses it
                sink.receive(site, torch.from_numpy(memory), None, Tile("row", start, 5))
                del memory
                assert alive() is None


def test_a_stack_writes_every_map_it_attends_with(tmp_path: Path) -> None:
    """The real layers, in their own tiles, against what a listener hears of them at once."""
    torch.manual_seed(0)
    stack = EvoformerStack(
        EvoformerConfig(msa_channels=8, msa_heads=2, pair_channels=8, pair_heads=2, num_blocks=2)
    )
    rows, residues = 9, 11
    inputs = (torch.randn(rows, residues, 8), torch.randn(residues, residues, 8))
    masks = (torch.ones(rows, residues), torch.ones(residues, residues))
    sites = {
        module.site.name: module.site for module in stack.modules() if isinstance(module, GatedAttention)
    }
    assert len(sites) == 8
    heard: dict[str, list[torch.Tensor]] = {name: [] for name in sites}

    class Ears:
        def receive(
            self, site: AttentionSite, weights: torch.Tensor, _values: object, _tile: Tile | None = None
        ) -> None:
            heard[site.name].append(weights.clone())

    named = AlignmentSample(id="x", query="A" * residues, rows=rows, extra_rows=1, input_sha256="0" * 64)
    for reduce in (AlignmentReduction.NONE, AlignmentReduction.MEAN_ROWS):
        options = AlignmentAttentionOptions(reduce=reduce)
        output = tmp_path / f"{reduce}.h5"
        with (
            torch.no_grad(),
            alignment_attention(
                output, sites=sites, options=options, model_sha256="a" * 64, sizes=[named.sizes], job={}
            ) as writer,
        ):
            with writer.sample(0, named) as sink, capture(writer.site_names, sink):
                captured = stack(*(tensor.clone() for tensor in inputs), *masks)
            writer.assemble()
        assert validate_attention(output) == []
    with torch.no_grad(), capture(["*"], Ears()):
        stack(*(tensor.clone() for tensor in inputs), *masks)
    with torch.no_grad():
        plain = stack(*(tensor.clone() for tensor in inputs), *masks)
    torch.testing.assert_close(captured, plain, atol=1e-5, rtol=1e-4)
    with (
        open_attention(tmp_path / "none.h5") as everything,
        open_attention(tmp_path / "mean-rows.h5") as means,
    ):
        for name, tiles in heard.items():
            whole = torch.cat(tiles).numpy()
            np.testing.assert_array_equal(everything.weights(name, sample="x"), whole)
            np.testing.assert_allclose(means.weights(name, sample="x"), whole.mean(0), atol=1e-6)


def test_tiles_out_of_order_missing_or_misshapen_are_bugs(tmp_path: Path) -> None:
    site = SITES["evoformer.00.msa_row"]
    whole = torch.from_numpy(weights_of(site, SIZES[0]))

    def attempt(*tiles: tuple[torch.Tensor, Tile | None]) -> None:
        options = AlignmentAttentionOptions(sites=(site.name,))
        with (
            alignment_attention(
                tmp_path / "a.h5", sites=SITES, options=options, model_sha256="", sizes=SIZES[:1], job={}
            ) as writer,
            writer.sample(0, sample(0)) as sink,
        ):
            for weights, tile in tiles:
                sink.receive(site, weights, None, tile)

    with pytest.raises(RuntimeError, match="follows 0"):
        attempt((whole[2:], Tile("row", 2, 5)))
    with pytest.raises(RuntimeError, match="follows 2"):
        attempt((whole[:2], Tile("row", 0, 5)), (whole[:2], Tile("row", 0, 5)))
    with pytest.raises(RuntimeError, match="not heard to their end"):
        attempt((whole[:2], Tile("row", 0, 5)))
    with pytest.raises(RuntimeError, match="heard twice"):
        attempt((whole, None), (whole, None))
    with pytest.raises(RuntimeError, match=r"gave \(4, 9, 8\)"):
        attempt((whole[..., :8], None))
    assert not list(tmp_path.iterdir())


def test_an_alignment_that_fails_is_left_out(tmp_path: Path) -> None:
    output = tmp_path / "attention.h5"
    with alignment_attention(
        output, sites=SITES, options=ALL, model_sha256="a" * 64, sizes=SIZES, job={}
    ) as writer:
        for number in range(3):
            try:
                with writer.sample(number, sample(number)) as sink:
                    if number == 1:
                        raise BioattnError("its file is bad")
                    send(sink, SIZES[number], 2)
            except BioattnError:
                continue
        assert writer.assemble() == [sample(0).id, sample(2).id]
    assert validate_file(output) == []
    other = tmp_path / "other.h5"
    write(other, numbers=(0, 2))
    assert output.read_bytes() == other.read_bytes()
    with (
        pytest.raises(BioattnError, match="no alignment gave attention"),
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
        write(output, AlignmentAttentionOptions(), resume=True)
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


def test_more_than_the_disk_holds_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 50_000})())
    with pytest.raises(BioattnError, match=r"only 50,000 are free in .*; choose fewer --sites, fewer heads"):
        write(tmp_path / "attention.h5")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("reduce", list(AlignmentReduction))
def test_the_size_said_first_is_the_size(tmp_path: Path, reduce: AlignmentReduction) -> None:
    sizes = AlignmentSizes(40, 30, 60)
    options = AlignmentAttentionOptions(reduce=reduce)
    output = tmp_path / "attention.h5"
    with alignment_attention(
        output, sites=SITES, options=options, model_sha256="a" * 64, sizes=[sizes], job={}
    ) as writer:
        named = AlignmentSample(id="x", query="A" * 60, rows=40, extra_rows=30, input_sha256="0" * 64)
        with writer.sample(0, named) as sink:
            send(sink, sizes, 8)
        writer.assemble()
    said = alignment_attention_bytes(list(SITES.values()), [sizes], options)
    assert output.stat().st_size == pytest.approx(said, rel=0.1)


WORKER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_alignment_attention as alignments

print("ready", flush=True)
try:
    alignments.write(Path(sys.argv[1]), before=lambda number: time.sleep(float(sys.argv[3])))
except alignments.BioattnError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
"""


def start(output: Path, pause: float, **options: Any) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(output), str(Path(__file__).parent), str(pause)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        **options,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def test_killed_and_resumed_gives_the_same_bytes(tmp_path: Path) -> None:
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)
    process = start(output, pause=0.3)
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


def test_a_full_disk_is_one_sentence_and_resumable(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the disk: the parts fit, the assembled file does not."""
    whole, output = tmp_path / "whole.h5", tmp_path / "attention.h5"
    write(whole)
    limit = whole.stat().st_size * 2 // 3

    def restrict() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = start(output, pause=0, preexec_fn=restrict)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert "no space left on the device" in stderr
    assert "--resume" in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not output.exists()
    write(output, resume=True)
    assert output.read_bytes() == whole.read_bytes()
