"""Measure the house: lines, files, words, functions entered by whole trips, overheads, commands and options.

    python benchmarks/house.py [--only lines trips speed writing commands] [--make-test]

Prints a Markdown table. A trip runs its commands through `main(argv)` in a fresh process with a profile function
in every thread; a function counts once, when its code lies in `bioattn/` or `cli/`. Speeds are medians on one
thread, by the clock and in CPU time, which a busy machine disturbs less.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parent.parent
for source in (REPOSITORY, REPOSITORY / "cli"):
    sys.path.insert(0, str(source))
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.common import bioattn, working_in  # noqa: E402

Row = tuple[str, str, str, str]
"""Measure, now, must, stretch."""


class Seconds(NamedTuple):
    """How long something took."""

    wall: float
    cpu: float


WINDOW = "--anchor cds --upstream 120 --downstream 0 --flank 20"
PREPARE_PROMOTERS = (
    f"prepare promoters data/tiny/genome.fa data/tiny/annotation.gff3 {WINDOW} -o promoters.fa"
)
PREPARE_DATASET = (
    "prepare dataset promoters.fa data/tiny/responses.tsv --treatment-table data/tiny/treatments.tsv"
    " --holdout validation=chr5 --holdout test=chr6 -o promoters.dataset.h5"
)
EVOFORMER = (
    "run evoformer data/families/msa/simulated000000.a3m --model data/models/evoformer-contacts -o family"
    " --attention family.h5 --max-msa-clusters 16 --recycles 0"
)
TRIPS: dict[str, tuple[list[str], list[str], str, str]] = {
    "prepare promoters → dataset → train → export attention → plot": (
        [],
        [
            PREPARE_PROMOTERS,
            PREPARE_DATASET,
            "train promoter promoters.dataset.h5 -o model --epochs 1",
            "export attention model promoters.fa -o attention.h5",
            "plot attention.h5 --gene G01 -o attention.png",
        ],
        "450",
        "350",
    ),
    "A3M → run evoformer --attention → plot contacts": (
        [],
        [EVOFORMER, "plot family data/families/structure/simulated000000.pdb -o contacts.png"],
        "350",
        "250",
    ),
    "train promoter, one epoch, no baselines": (
        [PREPARE_PROMOTERS, PREPARE_DATASET],
        ["train promoter promoters.dataset.h5 -o model --epochs 1 --no-baselines"],
        "220",
        "160",
    ),
    "run language on a Hugging Face folder": (
        [],
        ["run language esm proteins.fa -o predictions.tsv"],
        "130",
        "90",
    ),
}
"""By name: commands before the profile starts, commands of the trip, must, stretch."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=[*SECTIONS], default=[*SECTIONS])
    parser.add_argument("--make-test", action="store_true", help="time `make test` too")
    parser.add_argument("--trip", choices=[*TRIPS], help="print the functions that a trip enters, as JSON")
    options = parser.parse_args()
    if options.trip:
        print(json.dumps(entered(options.trip)))
        return
    rows = [row for name in options.only for row in SECTIONS[name]()]
    if options.make_test:
        began = time.perf_counter()
        subprocess.run(["make", "test"], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
        rows.append(("`make test`, minutes", f"{(time.perf_counter() - began) / 60:.1f}", "6", "4"))
    print("| measure | now | must | stretch |\n| --- | --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def size_rows() -> Iterator[Row]:
    """Lines of Python, tracked files, words of documentation."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True)
    tracked = [REPOSITORY / name for name in listed.stdout.splitlines() if (REPOSITORY / name).is_file()]

    def read(suffix: str, *folders: str) -> Iterator[str]:
        for path in tracked:
            if path.suffix == suffix and path.relative_to(REPOSITORY).parts[0] in folders:
                yield path.read_text(encoding="utf-8")

    def lines(*folders: str) -> str:
        return f"{sum(len(text.splitlines()) for text in read('.py', *folders)):,}"

    yield "lines of Python in `bioattn/` + `cli/`", lines("bioattn", "cli"), "66,000", "58,000"
    yield "lines of tests", lines("tests"), "40,000", "35,000"
    yield "lines of benchmarks", lines("benchmarks"), "9,000", "8,000"
    yield "tracked files", f"{len(tracked):,}", "880", "650"
    words = sum(len(text.split()) for text in read(".md", "README.md", "docs"))
    yield "words in `README.md` + `docs/`", f"{words:,}", "50,000", "40,000"


def trip_rows() -> Iterator[Row]:
    """Functions entered by each trip, and the files that hold them."""
    for name, (_, _, must, stretch) in TRIPS.items():
        ran = subprocess.run(
            [sys.executable, __file__, "--trip", name], check=True, stdout=subprocess.PIPE, text=True
        )
        functions = json.loads(ran.stdout)
        files = {file for file, _ in functions}
        yield f"functions entered: {name}", f"{len(functions)} in {len(files)} files", must, stretch


def entered(trip: str) -> list[tuple[str, str]]:
    """Distinct functions of bioattn that a trip enters: file and qualified name."""
    before, commands, _, _ = TRIPS[trip]
    codes = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
        make_language_model()
        for command in before:
            bioattn(command)
        threading.setprofile(note)
        sys.setprofile(note)
        try:
            for command in commands:
                bioattn(command)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    ours = tuple(str(REPOSITORY / name) + os.sep for name in ("bioattn", "cli"))
    is_function = 0x1  # CO_OPTIMIZED: not the body of a class or module
    return sorted(
        {
            (os.path.relpath(code.co_filename, REPOSITORY), code.co_qualname)
            for code in codes
            if code.co_filename.startswith(ours) and code.co_flags & is_function and code.co_name[0] != "<"
        }
    )


def make_language_model(layers: int = 2, heads: int = 4, length: int = 60, count: int = 4) -> None:
    """A folder `esm` as Hugging Face has it, of a random ESM-2, and random proteins in `proteins.fa`."""
    import numpy as np
    import torch
    from transformers import EsmConfig, EsmForMaskedLM, EsmTokenizer

    letters = [*"LAGVSERTIDPKQNFYMHWCXBUZO.-"]
    Path("esm").mkdir()
    vocabulary = ["<cls>", "<pad>", "<eos>", "<unk>", *letters, "<null_1>", "<mask>"]
    Path("esm/vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(0)
    config = EsmConfig(
        vocab_size=len(vocabulary),
        mask_token_id=vocabulary.index("<mask>"),
        pad_token_id=1,
        hidden_size=16 * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=64 * heads,
        position_embedding_type="rotary",
        token_dropout=True,
        emb_layer_norm_before=False,
    )
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar
        EsmForMaskedLM(config).save_pretrained("esm")
    EsmTokenizer("esm/vocab.txt").save_pretrained("esm")
    random = np.random.default_rng(0)
    proteins = ("".join(random.choice(letters[:20], length)) for _ in range(count))
    Path("proteins.fa").write_text("".join(f">p{i}\n{protein}\n" for i, protein in enumerate(proteins)))


def speed_rows() -> Iterator[Row]:
    """`predict` and `attention` of one sequence of 200 bases, over the forward pass of its network alone."""
    import torch

    import bioattn as library

    window = "--anchor cds --upstream 200 --downstream 0"
    with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
        bioattn(f"prepare promoters data/demo/genome.fa.gz data/demo/annotation.gff3.gz {window} -o all.fa")
        few = Path("all.fa").read_text(encoding="utf-8").split(">")[1:241]
        Path("promoters.fa").write_text("".join(f">{record}" for record in few), encoding="utf-8")
        bioattn(
            "prepare dataset promoters.fa data/demo/responses.tsv.gz --split random -o promoters.dataset.h5"
        )
        bioattn("train promoter promoters.dataset.h5 -o model --epochs 1 --no-baselines")
        model = library.load_model("model", device="cpu", threads=1)
        inputs = {"gene": "".join(few[0].splitlines()[1:])}
        network, arguments = network_call(lambda: model.predict(inputs))

        def forward() -> None:
            with torch.inference_mode():
                network(*arguments)

        alone, predict, attention = medians(
            [forward, lambda: model.predict(inputs), lambda: model.attention(inputs)], rounds=41
        )
    for name, seconds, must, stretch in (
        ("predict", predict, "2 ×", "1.4 ×"),
        ("attention", attention, "4 ×", "2 ×"),
    ):
        milliseconds = f"{seconds.wall * 1e3:.1f} ms; forward {alone.wall * 1e3:.1f} ms"
        ratios = f"{seconds.wall / alone.wall:.1f} ×, CPU {seconds.cpu / alone.cpu:.1f} ×"
        now = f"{ratios} ({milliseconds})"
        yield f"`{name}` of one 200-base sequence, over the forward pass", now, must, stretch


def network_call(call: Callable[[], object]) -> tuple[Any, Any]:
    """The largest network that `call` runs, and the arguments that it was given."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    calls: list[tuple[Any, Any]] = []
    hook = register_module_forward_pre_hook(lambda module, given: calls.append((module, given)))
    call()
    hook.remove()

    def size(network: Any) -> int:
        return sum(weights.numel() for weights in network.parameters())

    return max(calls, key=lambda of: size(of[0]))


def writing_rows() -> Iterator[Row]:
    """`export attention` beyond its passes, over h5py writing the same arrays and a SHA-256 of that file.

    Of four proteins, short ones and as long as published models read: starting and loading count in both.
    """
    for length in (500, 1022):
        with tempfile.TemporaryDirectory() as folder, working_in(Path(folder)):
            make_language_model(layers=6, heads=8, length=length, count=4)
            export = "export attention esm proteins.fa -o attention.h5 --threads 1 --force"
            bioattn(export)
            arrays = read_arrays(Path("attention.h5"))
            written, alone, copied = medians(
                [lambda: bioattn(export), attention_passes(), lambda: write_plainly(arrays)],  # noqa: B023
                rounds=5,
            )
            size = Path("attention.h5").stat().st_size / 1e6
        seconds = f"{written.wall:.2f} s in all, passes {alone.wall:.2f} s, h5py {copied.wall:.2f} s"
        wall, cpu = (
            (every - passes) / plain for every, passes, plain in zip(written, alone, copied, strict=True)
        )
        now = f"{wall:.2f} ×, CPU {cpu:.2f} × ({size:.0f} MB; {seconds})"
        measure = f"writing attention of {length} residues beyond the forward passes, over h5py and SHA-256"
        yield measure, now, "1.3 ×", "1.1 ×"


def attention_passes() -> Callable[[], None]:
    """The passes of `esm` over `proteins.fa` that compute every attention weight and drop it."""
    import torch

    import bioattn as library
    from bioattn.attention.capture import capture

    class Drop:
        def receive(self, *_: object) -> None:
            pass

    runner = library.load_model("esm", device="cpu", threads=1)
    letters = Path("proteins.fa").read_text(encoding="utf-8").split()[1::2]
    batches = [
        torch.from_numpy(runner.vocabulary.framed(runner.vocabulary.words(protein, "")))[None].long()
        for protein in letters
    ]

    def passes() -> None:
        for tokens in batches:
            with torch.inference_mode(), capture(["*"], Drop()):
                runner.model.hidden(tokens, None)

    return passes


Array = tuple[Any, tuple[int, ...] | None]
"""Values and the shape of a chunk."""


def read_arrays(path: Path) -> dict[str, Array]:
    """The datasets of an HDF5 file in memory."""
    import h5py

    arrays: dict[str, Array] = {}

    def take(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = (item[()], item.chunks)

    with h5py.File(path) as file:
        file.visititems(take)
    return arrays


def write_plainly(arrays: Mapping[str, Array]) -> None:
    """Write datasets by h5py with Fletcher32, then read the file for its SHA-256."""
    import h5py

    with h5py.File("plain.h5", "w", libver=("v110", "v110")) as file:
        for name, (values, chunks) in arrays.items():
            file.create_dataset(name, data=values, chunks=chunks, fletcher32=chunks is not None)
    with Path("plain.h5").open("rb") as written:
        hashlib.file_digest(written, "sha256")


def medians(functions: list[Callable[[], object]], rounds: int) -> list[Seconds]:
    """Median time of each function after one call that does not count.

    The functions take turns, so that a busy machine slows all.
    """
    taken: list[list[Seconds]] = [[] for _ in functions]
    for _ in range(rounds + 1):
        for function, times in zip(functions, taken, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            function()
            times.append(Seconds(time.perf_counter() - wall, time.process_time() - cpu))
    return [Seconds(*(statistics.median(clock) for clock in zip(*times[1:], strict=True))) for times in taken]


def command_rows() -> Iterator[Row]:
    """Leaf commands, and their options without those that every command has."""
    from bioattn_cli.program import program

    shared = {"help", "quiet", "verbose", "log_format"}

    def leaves(command: Any) -> Iterator[Any]:
        if hasattr(command, "commands"):
            for name in command.commands:
                yield from leaves(command.commands[name])
        else:
            yield command

    every = list(leaves(program()))
    options = [
        parameter
        for command in every
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name not in shared
    ]
    yield "leaf commands", str(len(every)), "50", "40"
    yield "options without help, quiet, verbose, log format", str(len(options)), "480", "400"


SECTIONS: dict[str, Callable[[], Iterator[Row]]] = {
    "lines": size_rows,
    "trips": trip_rows,
    "speed": speed_rows,
    "writing": writing_rows,
    "commands": command_rows,
}

if __name__ == "__main__":
    main()
