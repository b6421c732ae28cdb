"""What a position bias of each treatment and a shared readout add to a training step.

    OMP_NUM_THREADS=1 python benchmarks/readout_cost.py [--turns 9]

Steps of `benchmarks/training.py` (1,000 bases, 64 channels, batches of 64, float32, one thread) with all models
in one process, turn about; processor time, ratios turn by turn.
"""

import argparse
import statistics
import time

import torch
from training import our_step

SHARED = {"readout": "shared", "position_bias": "treatment", "sink": True}
STEPS = {
    "168 treatments, one position bias": (168, {"position_bias": "shared"}),
    "168 treatments, a position bias of each": (168, {"position_bias": "treatment"}),
    "168 treatments, --readout shared": (168, SHARED),
    "50 treatments, --readout shared": (50, SHARED),
    "1 treatment, --readout shared": (1, SHARED),
}
RATIOS = ((1, 0), (2, 0), (3, 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=9)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    steps = {name: our_step(number, **settings) for name, (number, settings) in STEPS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            began = time.process_time()
            step()
            if turn:  # the first one warms up
                seconds[name].append(time.process_time() - began)
    print("| step | processor seconds, median |\n| --- | --- |")
    for name, values in seconds.items():
        print(f"| {name} | {statistics.median(values):.3f} |")
    names = list(steps)
    for above, below in RATIOS:
        pairs = zip(seconds[names[above]], seconds[names[below]], strict=True)
        ratio = statistics.median(one / other for one, other in pairs)
        print(f"{names[above]} take {ratio:.2f} × as long as {names[below]}")


if __name__ == "__main__":
    main()
