"""The net under changes of the code: figures, predictions and contents of result files that must stay.

    BIOATTN_SHARED=../shared python benchmarks/frozen.py compare   # prints what differs and then ends with 1
    BIOATTN_SHARED=../shared python benchmarks/frozen.py record    # writes benchmarks/results/frozen.json anew

The commands of `frozen_steps.py` run in one process on one thread. Of every array in the files that they leave,
shape, sums and a few entries are kept, to 1e-5 relative; of text its numbers, and a digest of what stands around
them. Steps that need the data in BIOATTN_SHARED are left out without it.
"""

import argparse
import hashlib
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
for source in (REPOSITORY, REPOSITORY / "cli"):
    sys.path.insert(0, str(source))
os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}

import h5py  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

from benchmarks.common import bioattn, working_in  # noqa: E402
from benchmarks.frozen_steps import STEPS, Step  # noqa: E402

REFERENCE = Path(__file__).parent / "results" / "frozen.json"
NOT_KEPT = re.compile(
    r"\.run\.json|/config\.json|/training\.json|sha256|digest|seal|generated|version|seconds|date\b|/settings"
)
"""Names of what tells how a file was made, or changes from run to run."""
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

Summary = dict[str, Any]
"""By name: a digest of text, or shape and numbers (`numbers_of`)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("deed", choices=["record", "compare"])
    parser.add_argument("--only", nargs="+", metavar="STEP", default=[""], help="steps whose names begin so")
    parser.add_argument("--work", type=Path, help="an empty folder for the files, which is kept")
    parser.add_argument("--tolerance", type=float, default=1e-5, metavar="SHARE")
    options = parser.parse_args()
    known = json.loads(REFERENCE.read_text(encoding="utf-8")) if REFERENCE.exists() else {}
    chosen = {name: step for name, step in STEPS.items() if name.startswith(tuple(options.only))}
    differences = 0
    with tempfile.TemporaryDirectory() as scratch, working_in((options.work or Path(scratch)).resolve()):
        for name, step in chosen.items():
            if step.needs and not Path(step.needs).exists():
                print(f"{name}: left out, there is no {step.needs}")
                continue
            try:
                now = summary_of(name, step)
            except Exception as error:
                if options.deed == "record":
                    raise
                print(f"{name} fails: {error}", flush=True)
                differences += 1
                continue
            if options.deed == "record":
                known = {key: value for key, value in known.items() if not key.startswith(f"{name}: ")} | now
                continue
            before = {key: value for key, value in known.items() if key.startswith(f"{name}: ")}
            for line in compare(before, now, options.tolerance):
                print(line, flush=True)
                differences += not line.startswith("new")
    if options.deed == "record":
        steps = tuple(f"{name}: " for name in STEPS)
        lines = [f"{json.dumps(key)}: {json.dumps(known[key])}" for key in known if key.startswith(steps)]
        REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        print(f"{len(lines)} entries recorded")
        return
    print(f"{differences} differences" if differences else "nothing differs")
    sys.exit(differences > 0)


def summary_of(name: str, step: Step) -> Summary:
    """Run the commands of a step; summarise what they leave."""
    step.prepare()
    for command in step.commands.splitlines():
        bioattn(command)
    summary = {f"{name}: {figure}": numbers_of(value) for figure, value in step.figures().items()}
    for output in step.contents.split():
        root = Path(output)
        if not root.exists():
            continue  # `compare` misses it
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and not NOT_KEPT.search(str(path)):
                for part, value in contents(path):
                    key = f"{path}/{part}".rstrip("/")
                    if not NOT_KEPT.search(key):
                        summary[f"{name}: {key}"] = text_of(value) if is_text(value) else numbers_of(value)
    return summary


def contents(path: Path) -> Iterator[tuple[str, Any]]:
    """What a file holds: arrays and text, by the names that they have in it."""
    match path.suffix:
        case ".h5" | ".h5ad":
            with h5py.File(path) as file:
                yield from datasets(file)
        case ".npz":
            yield from np.load(path).items()
        case ".safetensors":
            tensors = load_file(path).values()
            yield "", np.sort(np.concatenate([tensor.ravel().astype(float) for tensor in tensors]))
        case ".tsv" | ".csv":
            table = pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", comment="#")
            yield from ((str(name), table[name].to_numpy()) for name in table)
        case ".json":
            yield from leaves(json.loads(path.read_text(encoding="utf-8")))
        case ".bw" | ".gz" | ".png":
            yield "", np.frombuffer(path.read_bytes(), np.uint8)
        case _:
            text = path.read_text(encoding="utf-8")
            yield "text", NUMBER.sub("#", text)
            yield "numbers", np.array([float(number) for number in NUMBER.findall(text)])


def datasets(group: h5py.Group, above: str = "") -> Iterator[tuple[str, Any]]:
    """The datasets under a group; columns of a compound one by themselves."""
    for name, item in group.items():
        if isinstance(item, h5py.Group):
            yield from datasets(item, f"{above}{name}/")
        elif item.dtype.names:
            yield from ((f"{above}{name}/{column}", item[column]) for column in item.dtype.names)
        else:
            yield f"{above}{name}", item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]


def leaves(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers, texts and lists of them in JSON."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{above}{name}/")
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{above}{number}/")
    elif value is not None:
        yield above.rstrip("/"), np.array(value)


def is_text(value: Any) -> bool:
    return np.asarray(value).dtype.kind in "OUS"


def text_of(value: Any) -> str:
    words = np.asarray(value).ravel().tolist()
    return hashlib.sha256("\n".join(map(str, words)).encode()).hexdigest()[:16]


def numbers_of(value: Any) -> list[Any]:
    """Shape and the numbers that stand for an array: of a scalar itself.

    Otherwise sum, sum of absolute values, entries at the ends and at thirds, number of values not finite.
    """
    array = np.asarray(value)
    if array.ndim == 0:
        return [[], [float(f"{float(array):.9g}")]]
    flat = array.ravel().astype(float)
    finite = np.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)
    last = len(flat) - 1
    entries = [finite[last * third // 3] for third in range(4)] if len(flat) else []
    numbers = [finite.sum(), np.abs(finite).sum(), *entries, np.count_nonzero(~np.isfinite(flat))]
    return [list(array.shape), [float(f"{number:.9g}") for number in numbers]]


def compare(before: Summary, now: Summary, tolerance: float) -> Iterator[str]:
    """A line for everything that differs; what is new begins with `new`."""
    for name, value in before.items():
        if name not in now:
            yield f"gone {name}"
        elif isinstance(value, str) or isinstance(now[name], str) or value[0] != now[name][0]:
            if value != now[name]:
                yield f"differs {name}: {value} before, {now[name]} now"
        else:
            difference = largest_difference(value, now[name])
            if difference > tolerance:
                yield f"differs {name} by {difference:.1e}: {value[1]} before, {now[name][1]} now"
    for name in now.keys() - before.keys():
        yield f"new {name}"


def largest_difference(before: list[Any], now: list[Any]) -> float:
    """Of two summaries of one shape: relative to the sum of absolute values, of an entry to it or the mean."""
    if not before[0]:
        return abs(before[1][0] - now[1][0]) / max(abs(before[1][0]), 1e-30)
    size = max(1, math.prod(before[0]))
    total = max(before[1][1], 1e-30)
    scales = [total, total, *(max(abs(entry), total / size) for entry in before[1][2:-1]), 1e-30]
    return max(abs(a - b) / scale for a, b, scale in zip(before[1], now[1], scales, strict=True))


if __name__ == "__main__":
    main()
