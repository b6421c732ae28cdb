"""Memory and time of loading parameters of the published size: how much lies beside the model at most.

    python benchmarks/parameters.py

Prints Markdown. The files hold random numbers under the names and in the shapes of the published models; every
measurement is a process of its own on one thread. Memory is the highest resident size less that of a process that
has only imported the code; pages mapped from files, which the system may drop at will, are counted apart.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TASKS = ("npz", "pt", "folder", "npz-to-pt", "npz-to-folder", "pt-to-npz")


def make_inputs(folder: Path) -> int:
    """A parameter file of the size of params_model_3_ptm.npz, and the same as .pt and folder."""
    import numpy as np

    from bioattn.formats.npz import npz_output
    from bioattn.models.evoformer.config import EvoformerConfig
    from bioattn.models.evoformer.parameters.export import export_parameters
    from bioattn.models.evoformer.parameters.files import ALPHAFOLD_PREFIX, model_rows

    random = np.random.default_rng(0)
    with npz_output(folder / "params.npz") as archive:
        for row in model_rows(EvoformerConfig(aligned_error_head=True)):
            array = random.standard_normal(row.alphafold_shape, dtype=np.float32)
            archive.write(ALPHAFOLD_PREFIX + row.row.alphafold, array)
    export_parameters(folder / "params.npz", folder / "params.pt")
    return export_parameters(folder / "params.npz", folder / "model")


def resident() -> tuple[int, int]:
    """Bytes of this process in memory: its own, and mapped from files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, mapped = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return own, mapped


def work(task: str, folder: Path) -> dict[str, float]:
    """One task in this process."""
    import torch

    from bioattn.models.evoformer.folder import load_evoformer_model
    from bioattn.models.evoformer.parameters.export import export_parameters

    torch.set_num_threads(1)
    highest = [0, 0]
    before = resident()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            highest[:] = map(max, highest, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    match task:
        case "npz" | "pt":
            load_evoformer_model(folder / f"params.{task}", torch.device("cpu"))
        case "folder":
            load_evoformer_model(folder / "model", torch.device("cpu"))
        case "npz-to-pt":
            export_parameters(folder / "params.npz", folder / "out.pt")
        case "npz-to-folder":
            export_parameters(folder / "params.npz", folder / "out", force=True)
        case "pt-to-npz":
            export_parameters(folder / "params.pt", folder / "out.npz")
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return {"own": highest[0] - before[0], "mapped": highest[1] - before[1], "seconds": seconds}


def measure(task: str, folder: Path) -> dict[str, float]:
    """Run one task in a process of its own."""
    ran = subprocess.run(
        [sys.executable, __file__, "--task", task, "--folder", str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
    )
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(REPOSITORY))
    if options.task:
        print(json.dumps(work(options.task, options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        numbers = make_inputs(folder)
        size = numbers * 4 / 1e6
        print(f"### Parameters: {numbers:,} numbers, {size:.0f} MB in float32, 1 thread\n")
        print("| task | wall s | MB of its own, at most | times the parameters | MB mapped from files |")
        print("| --- | --- | --- | --- | --- |")
        for task in TASKS:
            figures = measure(task, folder)
            own = figures["own"] / 1e6
            print(
                f"| {task} | {figures['seconds']:.1f} | {own:.0f} | {own / size:.2f} "
                f"| {figures['mapped'] / 1e6:.0f} |"
            )


if __name__ == "__main__":
    main()
