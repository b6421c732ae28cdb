"""Trees and speed of Phyloformer with its published parameters.

    BIOATTN_SHARED=../shared python benchmarks/phyloformer.py trees
    BIOATTN_SHARED=../shared OMP_NUM_THREADS=1 python benchmarks/phyloformer.py speed
    BIOATTN_SHARED=../shared python benchmarks/phyloformer.py distances --model pf.ckpt --model protein.model

trees: simulated alignments with their true trees (Nesterenko et al. 2025). Kuhner-Felsenstein distance (root of
the summed squares of differences in branch lengths, over splits of either tree) and normalised Robinson-Foulds
distance (share of inner splits that only one tree has), beside trees from Kimura's (1983) protein distances.

speed: processor time and added memory of a pass over 50 random sequences of 500 sites, beside the published
equations written plainly in torch, turn about, each in a process of its own.

distances: mean absolute and relative error of the distances of an alignment's pairs, beside simple methods; means
over the alignments that `trees` takes.
"""

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F  # noqa: N812
from common import SHARED, options, report, run
from processes import in_own_process, peak_above
from skbio import TreeNode

from bioattn.formats.alignment_file import read_alignment
from bioattn.models.phyloformer.family import PhylogenyAlphabet
from bioattn.models.phyloformer.model import LinearAttention, Phyloformer, read_parameters
from bioattn.models.phyloformer.run import load_phyloformer
from bioattn.models.phyloformer.substitution import simple_distances
from bioattn.models.phyloformer.task import read_pairs
from bioattn.models.phyloformer.trees import balanced_minimum_evolution, neighbour_joining
from bioattn.system.progress import SILENT

DATA = SHARED / "data" / "phylo"
PARAMETERS = DATA / "checkpoints" / "pf.ckpt"
TREES: dict[str, Callable[[list[str], np.ndarray], str]] = {
    "neighbour joining": neighbour_joining,
    "minimum evolution": balanced_minimum_evolution,
}


def splits(tree: TreeNode) -> dict[frozenset[str], float]:
    """Branch length by split, which is named by its side without the first leaf."""
    leaves = frozenset(tip.name for tip in tree.tips())
    first = min(leaves)
    found: dict[frozenset[str], float] = {}
    for node in tree.postorder(include_self=False):
        side = frozenset(tip.name for tip in node.tips(include_self=True))
        key = leaves - side if first in side else side
        found[key] = found.get(key, 0.0) + (node.length or 0.0)
    return found


def compare(tree: TreeNode, truth: TreeNode) -> tuple[float, float]:
    """Kuhner-Felsenstein and normalised Robinson-Foulds distance."""
    own, true = splits(tree), splits(truth)
    number = max(len(side) for side in true) + 1
    apart = sum((own.get(key, 0.0) - true.get(key, 0.0)) ** 2 for key in own.keys() | true.keys())
    inner = [{key for key in each if 1 < len(key) < number - 1} for each in (own, true)]
    return float(np.sqrt(apart)), len(inner[0] ^ inner[1]) / (2 * (number - 3))


def kimura(residues: np.ndarray) -> np.ndarray:
    """Kimura's distances of all pairs of rows without gaps."""
    differing = (residues[:, None] != residues[None]).mean(-1)
    return -np.log(np.maximum(1 - differing - differing**2 / 5, 0.05))


def trees(output: Path | None) -> None:
    """Distances of trees to the truth, over all alignments."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        run(f"run phyloformer {DATA}/phyloformer/msas --model {PARAMETERS} -o {scratch}/o -q")
        for path in sorted((DATA / "phyloformer" / "msas").iterdir()):
            alignment = read_alignment(path)
            newick = DATA / "phyloformer" / "trees" / f"{path.stem}.nwk"
            truth = TreeNode.read(str(newick), convert_underscores=False)
            table = pd.read_csv(f"{scratch}/o/{path.stem}/distances.tsv", sep="\t", index_col=0)
            for name, distances in (
                ("Phyloformer", table.to_numpy()),
                ("Kimura", kimura(alignment.residues)),
            ):
                for method, make in TREES.items():
                    tree = TreeNode.read([make(alignment.names, distances)], convert_underscores=False)
                    rows.append((f"{name}, {method}", *compare(tree, truth)))
    table = pd.DataFrame(rows, columns=["trees", "KF", "RF"]).groupby("trees", sort=False)
    report(
        [
            {"trees": name, "median KF": each["KF"].median(), "mean RF": each["RF"].mean()}
            for name, each in table
        ],
        output,
    )


def distances(models: list[Path], output: Path | None) -> None:
    """Errors of distances of models and simple methods."""
    alignments = sorted((DATA / "phyloformer" / "msas").iterdir())
    triples = [(path, DATA / "phyloformer" / "trees" / f"{path.stem}.nwk", "") for path in alignments]
    loaded = {path.name: load_phyloformer(path, torch.device("cpu")).model for path in models}
    rows = []
    for pair in read_pairs(triples, PhylogenyAlphabet.PROTEIN, SILENT):
        found = dict(simple_distances(pair.codes_NL, PhylogenyAlphabet.PROTEIN))
        with torch.inference_mode():
            for name, model in loaded.items():
                found[name] = model(torch.from_numpy(pair.codes_NL.astype(np.int64))).double().numpy()
        for name, each in found.items():
            errors = np.abs(each - pair.distances_P)
            rows.append((name, errors.mean(), (errors / pair.distances_P).mean()))
    means = pd.DataFrame(rows, columns=["distances", "absolute", "relative"]).groupby("distances", sort=False)
    report(means.mean().reset_index().to_dict("records"), output)


def plain(model: Phyloformer, codes_NL: torch.Tensor) -> torch.Tensor:
    """The published equations on whole tensors."""

    def attend(layer: LinearAttention, x: torch.Tensor, axis: int) -> torch.Tensor:
        key, query, value = layer.keys(x), layer.queries(x), layer.project_value(x)
        value = value.unflatten(-1, (key.shape[-1], -1))
        summed = (key / key.sum(axis, keepdim=True)).unsqueeze(-1) * value
        scaled = (query / query.mean(axis, keepdim=True)).unsqueeze(-1)
        return layer.project_output((scaled * summed.sum(axis, keepdim=True)).flatten(-2))

    first, second = torch.triu_indices(len(codes_NL), len(codes_NL), 1)
    embedded = F.relu(model.embed.weight.T[codes_NL] + model.embed.bias)
    x = embedded[first] + embedded[second]
    for block in model.blocks:
        x = x + attend(block.over_sites, block.normalise_sites(x), 1)
        x = x + attend(block.over_pairs, block.normalise_pairs(x), 0)
        x = x + block.contract(F.gelu(block.expand(block.normalise(x))))
    return F.softplus(model.project_distance(x)).mean((1, 2))


def one_pass(which: str) -> None:
    """Print seconds of processor time and added megabytes of a pass."""
    model = read_parameters(PARAMETERS)
    codes_NL = torch.randint(20, (50, 500), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        model(codes_NL[:4, :20])  # what the first call alone takes
        began = time.process_time()
        added = peak_above(lambda: model(codes_NL) if which == "bioattn" else plain(model, codes_NL))
        print(json.dumps([time.process_time() - began, added / 2**20]))


def speed(output: Path | None, repeats: int) -> None:
    rows = [
        (which, *in_own_process(__file__, "pass", "--which", which))
        for _ in range(repeats)
        for which in ("bioattn", "plain torch")
    ]
    table = pd.DataFrame(rows, columns=["model", "seconds", "added MB"]).groupby("model", sort=False)
    report([{"model": name, **each.median(numeric_only=True).to_dict()} for name, each in table], output)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("part", choices=["trees", "speed", "distances", "pass"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", type=Path, action="append", default=[])
    parser.add_argument("--which", default="bioattn", help="of a pass")
    given = parser.parse_args()
    match given.part:
        case "trees":
            trees(given.output)
        case "speed":
            speed(given.output, given.repeats)
        case "distances":
            distances(given.model, given.output)
        case _:
            one_pass(given.which)


if __name__ == "__main__":
    main()
