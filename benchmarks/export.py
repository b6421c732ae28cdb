"""Attention export at the size of a genome: memory above the model, and time beside the forward pass alone.

    python benchmarks/export.py [--promoters 30000 --treatments 10 --rounds 3]

Prints Markdown. Every measurement is a process of its own on one thread: `forward` reads the promoters and runs
the model, `run` writes predictions too, `export` writes attention (parts, assembly, checksums). Rounds interleave
the three, so that a busy machine slows all alike; CPU time is shown beside wall time for that reason. Memory is
the highest resident size after loading the model, less the resident size at that moment.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

from common import options, run, table
from processes import in_own_process, memory

TASKS = ("forward", "run", "export")
LENGTH = 1000


def make_inputs(folder: Path, promoters: int, treatments: int, conditioning: str) -> None:
    """Simulated promoters of 1 kb, and a model of default width that has seen few of their kind."""
    for name, genes in (("few", 400), ("promoters", promoters)):
        sizes = f"--genes {genes} --length {LENGTH} --treatments {treatments} -q"
        run(f"simulate promoters -o {folder}/{name} {sizes}")
        files = f"{folder}/{name}/genome.fa {folder}/{name}/annotation.gff3 -o {folder}/{name}.fa"
        run(f"prepare promoters {files} --upstream {LENGTH} --downstream 0 -q")
    run(f"prepare dataset {folder}/few.fa {folder}/few/responses.tsv -o {folder}/few.dataset.h5 -q")
    settings = f"--epochs 1 --no-baselines --conditioning {conditioning} --threads 1 -q"
    run(f"train promoter {folder}/few.dataset.h5 -o {folder}/model {settings}")


def work(task: str, folder: Path) -> dict[str, float]:
    import torch

    from bioattn.inference.promoter_windows import hold_promoters
    from bioattn.models.promoter.folder import load_promoter_model
    from bioattn.models.promoter.running import MAX_BATCH, run_promoters

    torch.set_num_threads(1)
    loaded = load_promoter_model(folder / "model", torch.device("cpu"))
    promoters = folder / "promoters.fa"
    Path("/proc/self/clear_refs").write_text("5")
    resident, began, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    if task == "forward":
        source = hold_promoters(promoters, loaded.length)
        treatments = loaded.encode_treatments(loaded.treatments)
        with torch.inference_mode():
            for batch in source.batches(MAX_BATCH):
                loaded.model(torch.from_numpy(batch.codes), treatments)
        size = 0
    elif task == "run":
        with (folder / "predictions.tsv").open("w") as text:
            run_promoters(loaded, promoters, treatments=loaded.treatments, predictions=text)
        size = (folder / "predictions.tsv").stat().st_size
    else:
        summary = run_promoters(
            loaded, promoters, treatments=loaded.treatments, attention=folder / "attention.h5"
        )
        size = summary.num_bytes
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "above_model": memory("VmHWM") - resident,
        "size": size,
    }


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--promoters", type=int, default=30_000)
    parser.add_argument("--treatments", type=int, default=10)
    parser.add_argument("--conditioning", default="cross")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, help="a task and its folder")
    given = parser.parse_args()
    if given.child:
        print(json.dumps(work(given.child[0], Path(given.child[1]))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        make_inputs(Path(temporary), given.promoters, given.treatments, given.conditioning)
        rounds = [
            {task: in_own_process(__file__, "--child", task, temporary) for task in TASKS}
            for _ in range(given.rounds)
        ]
    print(
        f"### Export: {given.promoters:,} promoters of {LENGTH:,} bp × {given.treatments} treatments, "
        f"`{given.conditioning}`, 1 thread\n"
    )
    rows = []
    for task in TASKS:
        runs = [figures[task] for figures in rounds]
        seconds, cpu = (statistics.median(run[clock] for run in runs) for clock in ("seconds", "cpu"))
        above, size = max(run["above_model"] for run in runs) / 1e6, runs[0]["size"] / 1e6
        rate = f"{given.promoters / cpu:,.0f}"
        rows.append([task, f"{seconds:.1f}", f"{cpu:.1f}", rate, f"{above:.0f}", f"{size:.1f}"])
    print(table(["task", "wall s", "CPU s", "promoters/s", "MB above the model", "MB written"], rows))
    for clock, words in (("cpu", "CPU time"), ("seconds", "wall time")):
        ratios = [figures["export"][clock] / figures["forward"][clock] for figures in rounds]
        print(
            f"Export beside the forward pass alone, {words}: median {statistics.median(ratios):.2f}, "
            f"rounds {', '.join(f'{ratio:.2f}' for ratio in ratios)} (wanted: at most 1.5).\n"
        )


if __name__ == "__main__":
    main()
