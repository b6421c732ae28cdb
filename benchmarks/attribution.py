"""What in-silico mutagenesis costs: by parts, by whole forward passes, and by tangermeme, on the same models.

    python benchmarks/attribution.py [--length 1000] [--treatments 6 168] [--peers FOLDER]

For each number of treatments promoters are simulated, a model is trained on them for a few epochs, and the same
promoter is mutated by each way in turn, several times over: CPU seconds of one thread, the least of the rounds,
and how far the values are from those of whole forward passes. The peer runs in an environment of its own; where it
cannot be installed it is left out, by name.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from common import options as command_line
from common import run
from numpy.typing import NDArray

from bioattn.inference.promoter_windows import make_batch
from bioattn.interpret.attribution import Mutagenesis, centred
from bioattn.models.promoter.folder import LoadedPromoterModel, load_promoter_model
from bioattn.models.promoter.stem import one_hot
from bioattn.promoters.promoter_fasta import read_promoters

NAIVE_BATCHES = (32, 64)
ROUNDS = 3
PROMOTERS = 1


class OnBases(torch.nn.Module):
    """A promoter model as tangermeme wants it: one-hot (B, 4, L) in, (B, T) out."""

    def __init__(self, loaded: LoadedPromoterModel) -> None:
        super().__init__()
        self.model = loaded.model
        self.treatments = loaded.encode_treatments(loaded.treatments)

    def forward(self, bases_B4L: torch.Tensor) -> torch.Tensor:
        """Codes are only asked which positions hold a base."""
        codes_BL = torch.zeros(len(bases_B4L), bases_B4L.shape[2], dtype=torch.uint8)
        return self.model(codes_BL, self.treatments, bases_B4L.transpose(1, 2))


def train(folder: Path, length: int, treatments: int) -> tuple[Path, Path]:
    """A model folder and a promoter FASTA: six simulated treatments, and as many more as mixtures of them."""
    source, fasta, responses = folder / "simulated", folder / "promoters.fa", folder / "responses.tsv"
    run(f"simulate promoters -o {source} --genes 600 --treatments 6 --length {length} -q")
    window = f"--upstream {length} --downstream 0 --flank 0"
    run(f"prepare promoters {source}/genome.fa {source}/annotation.gff3 {window} -o {fasta} -q")
    simulated = pd.read_csv(source / "responses.tsv", sep="\t", index_col=0)
    shares = np.random.default_rng(0).dirichlet(np.full(6, 0.3), max(0, treatments - 6))
    mixed = simulated.to_numpy() @ np.vstack([np.eye(6), shares])[:treatments].T
    names = [f"treatment{number + 1}" for number in range(treatments)]
    pd.DataFrame(mixed, index=simulated.index, columns=names).to_csv(responses, sep="\t")
    run(f"prepare dataset {fasta} {responses} -o {folder}/x.dataset.h5 -q")
    run(f"train promoter {folder}/x.dataset.h5 -o {folder}/model --epochs 3 --threads 1 -q")
    return folder / "model", fasta


def ways(loaded: LoadedPromoterModel) -> dict[str, Callable[[NDArray[np.uint8]], NDArray[np.float32]]]:
    """Values (promoters, treatments, bases, 4) of promoters, by each way."""
    predictor = loaded.predictor()
    found: dict[str, Callable[[NDArray[np.uint8]], NDArray[np.float32]]] = {}
    for batch in NAIVE_BATCHES:
        whole = Mutagenesis(predictor, batch_size=batch, reuse_trunk=False)
        found[f"forward passes of {batch}"] = lambda codes, whole=whole: whole(codes).values_BTLA
    by_parts = Mutagenesis(predictor)
    found["bioattn"] = lambda codes: by_parts(codes).values_BTLA
    try:
        from tangermeme.saturation_mutagenesis import saturation_mutagenesis
    except ImportError:
        return found
    # Left in training mode the wrapper would have the peer put the model in it.
    wrapped = OnBases(loaded).eval()

    def peer(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
        bases = one_hot(torch.from_numpy(codes))
        with torch.no_grad():
            raw = saturation_mutagenesis(wrapped, bases, batch_size=32, raw_outputs=True, device="cpu")
        # (N, T) of the promoters and (N, 4, L, T) of the mutants.
        changed = (raw.y_hat - raw.y0[:, None, None]).permute(0, 3, 2, 1).contiguous().numpy()
        return centred(changed, codes)

    found["tangermeme"] = peer
    return found


def compare(length: int, treatments: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        model, fasta = train(Path(name), length, treatments)
        loaded = load_promoter_model(model, torch.device("cpu"))
        promoters = [promoter for promoter in read_promoters(fasta) if promoter.codes.size == length]
        codes = make_batch(promoters[:PROMOTERS], length).codes
    taken: dict[str, list[float]] = {}
    values: dict[str, NDArray[np.float32]] = {}
    methods = ways(loaded)
    for _ in range(ROUNDS):
        for way, mutate in methods.items():
            began = time.process_time()
            values[way] = mutate(codes)
            taken.setdefault(way, []).append(time.process_time() - began)
    naive = {way: min(times) for way, times in taken.items() if way.startswith("forward")}
    best = min(naive, key=lambda way: naive[way])
    print(f"\n{length} bases × {treatments} treatments, {PROMOTERS} promoter, best of {ROUNDS} rounds")
    print(f"{'':24} {'CPU s/promoter':>15} {'× faster':>9} {'in rounds':>14} {'largest difference':>19}")
    for way, times in taken.items():
        ratios = sorted(whole / part for whole, part in zip(taken[best], times, strict=True))
        print(
            f"{way:24} {min(times) / PROMOTERS:15.3f} {naive[best] / min(times):9.2f} "
            f"{f'{ratios[0]:.1f}–{ratios[-1]:.1f}':>14} {np.abs(values[way] - values[best]).max():19.1e}"
        )
    print(f"largest value {np.abs(values[best]).max():.2f}", flush=True)


def main() -> None:
    """Run in the peers' environment, which borrows ours."""
    parser = command_line(__doc__, output=False)
    parser.add_argument("--length", type=int, default=1000)
    parser.add_argument("--treatments", type=int, nargs="+", default=[6, 168])
    parser.add_argument(
        "--peers", type=Path, help="folder of the peers' environment, made if it is not there"
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peers is not None and not options.inside:
        from processes import borrowing_environment

        python, missing = borrowing_environment(options.peers, {"tangermeme": "tangermeme>=1.0"})
        for peer, why in missing.items():
            print(f"{peer}: {why}")
        raise SystemExit(subprocess.run([python, *sys.argv, "--inside"]).returncode)
    for treatments in options.treatments:
        compare(options.length, treatments)


if __name__ == "__main__":
    main()
