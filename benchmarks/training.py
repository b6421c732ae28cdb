"""Training speed of `cross` beside gReLU's ConvModel of equal width, as Markdown on stdout.

    python benchmarks/training.py [--turns 9] [--peers FOLDER]

Both train on the same shapes (1,000 bases, 64 channels, 6 answers, batches of 64, AdamW, float32) with one thread,
turn about, each turn several steps after a warm-up; the figure is promoters per second of processor time. gReLU is
installed from PyPI into a throw-away environment (FOLDER keeps it); without it only our rows are printed. The
matrix-multiply peak of the same turns is the limit both are held against.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from common import options, table
from processes import Contender, interleaved, peer_environment, serve

LENGTH, BATCH, CHANNELS, STEPS = 1000, 64, 64, 8
OURS = {"`cross`, 6 treatments": 6, "`cross`, 1 treatment": 1, "`cross`, 50 treatments": 50}
PEER = "gReLU ConvModel, 6 tasks"
PEAK = "matrix product, 2048³"


def our_step(treatments: int, **settings: object) -> Callable[[], None]:
    """One training step on random data, as the trainer takes it, less reading and validation.

    settings: of the model.
    """
    import torch

    from bioattn.models.promoter.config import Loss, PromoterModelConfig, TreatmentEncoding
    from bioattn.models.promoter.model import PromoterModel
    from bioattn.models.promoter.training.data import classifier_free_loss, measured_cells
    from bioattn.models.promoter.treatment_vocabulary import TreatmentVocabulary
    from bioattn.promoters.treatments import named_treatments

    table = named_treatments([f"treatment{i}" for i in range(treatments)])
    vocabulary = TreatmentVocabulary.learn(table, encoding=TreatmentEncoding.ID, unconditional=False)
    config = PromoterModelConfig(length=LENGTH, channels=CHANNELS, unconditional=False, **settings)
    model = PromoterModel([config], vocabulary)
    batch = vocabulary.encode(table)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    codes = torch.randint(0, 4, (BATCH, LENGTH), dtype=torch.uint8)
    targets = torch.randn(BATCH, treatments)
    measured = measured_cells(targets)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        answers = model.members[0].network(codes, batch)
        loss = classifier_free_loss(
            answers, None, targets, measured, loss=Loss.MSE, huber_delta=1.0, probability=0.0
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def grelu_step() -> Callable[[], None]:
    """One training step of gReLU's ConvModel with its defaults: 64 channels, kernel 15, two more convolutions."""
    import torch
    from grelu.model.models import ConvModel

    model = ConvModel(n_tasks=6, stem_channels=CHANNELS, channel_init=CHANNELS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    codes = torch.randint(0, 4, (BATCH, LENGTH))
    bases = torch.nn.functional.one_hot(codes, 4).transpose(1, 2).float().contiguous()
    targets = torch.randn(BATCH, 6, 1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(model(bases), targets).backward()
        optimizer.step()

    return step


def peak_step() -> Callable[[], None]:
    """One product of two 2048 × 2048 matrices."""
    import torch

    left, right = torch.randn(2048, 2048), torch.randn(2048, 2048)

    def step() -> None:
        torch.mm(left, right)

    return step


def serve_steps(name: str) -> None:
    """Answer with the processor seconds of one step, the median of a turn."""
    import torch

    torch.set_num_threads(1)
    step = peak_step() if name == PEAK else grelu_step() if name == PEER else our_step(OURS[name])
    step()

    def turn() -> float:
        step()
        seconds = []
        for _ in range(STEPS):
            began = time.process_time()
            step()
            seconds.append(time.process_time() - began)
        return statistics.median(seconds)

    serve(turn)


def multiply_adds(treatments: int) -> float:
    """Multiply-adds of the matrix products and convolutions of one step, forward and backward."""
    from torch.utils.flop_counter import FlopCounterMode

    step = our_step(treatments)
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops() / 2


def compare(turns: int, peers: Path) -> None:
    python, missing = peer_environment(peers, {"grelu": "gReLU"})
    contenders = {name: Contender(sys.executable, __file__, name) for name in (*OURS, PEAK)}
    if not missing:
        contenders[PEER] = Contender(python, __file__, PEER)
    seconds = interleaved(contenders, turns)
    first = next(iter(OURS))
    print(f"{turns} interleaved turns of {STEPS} steps, one thread each\n")
    rows = []
    for name in (*OURS, *([] if missing else [PEER])):
        rates = [BATCH / value for value in seconds[name]]
        ratios = [value / base for value, base in zip(seconds[name], seconds[first], strict=True)]
        rate = f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"
        rows.append([name, rate, f"takes {statistics.median(ratios):.2f} × as long"])
    header = ["row", "promoters per core-second, median (min to max)", "beside the first row, turn by turn"]
    print(table(header, rows))
    fifty = [
        a / b for a, b in zip(seconds["`cross`, 50 treatments"], seconds["`cross`, 1 treatment"], strict=True)
    ]
    print(f"\n50 treatments take {statistics.median(fifty):.2f} × as long as 1.")
    peak = 2048**3 / statistics.median(seconds[PEAK])
    reached = multiply_adds(6) / statistics.median(seconds[first])
    print(
        f"`cross` with 6 treatments: {reached / 1e9:.1f} billion multiply-adds a second in products and "
        f"convolutions, {reached / peak:.0%} of the {peak / 1e9:.0f} billion of a large matrix product."
    )
    for reason in missing.values():
        print(f"gReLU left out: {reason}")


def main() -> None:
    parser = options(__doc__, output=False)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--serve", help="be a contender")
    given = parser.parse_args()
    if given.serve:
        serve_steps(given.serve)
        return
    with tempfile.TemporaryDirectory() as scratch:
        compare(given.turns, given.peers or Path(scratch) / "peers")


if __name__ == "__main__":
    main()
