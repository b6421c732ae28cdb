"""Simulated alignments with their true trees, much as those that Phyloformer was trained on.

A tree is that of the survivors of a birth-death process (Gernhard 2008), with rates that drift from branch to
branch, scaled to a diameter as of protein families; sequences evolve along it with rates of sites from a Gamma
distribution. Published trainings drew rates by jumps along branches; here their logarithm drifts about as far.
"""

from dataclasses import asdict

import numpy as np

from bioattn.errors import SettingsError
from bioattn.formats.alignment import Alignment
from bioattn.formats.alignment_file import write_a3m
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.models.phyloformer.family import LETTERS, PhylogenyAlphabet, TreeSimulation
from bioattn.models.phyloformer.substitution import (
    Codes,
    SubstitutionModel,
    fixed_model,
    random_nucleotide_model,
)
from bioattn.models.phyloformer.trees import Tree
from bioattn.models.running import Running, RunReport
from bioattn.simulate.description import INDEX, TREES_FORMAT
from bioattn.simulate.families import PAIRS, own_names
from bioattn.system.progress import watched
from bioattn.text import counted

FOLDERS = {"alignments": "fa", "trees": "nwk"}
BIRTH, DEATH = 1.0, 0.5
"""Rates, in the same unit."""
DRIFT = 0.4
"""Standard deviation by which the logarithm of the rate changes along a branch."""
SHORTEST = 1e-3
"""The shortest branch to a leaf, in substitutions per site."""
DIAMETERS = np.array(
    [(0.0, 0.02), (0.05, 0.13), (0.1, 0.39), (0.25, 1.35), (0.5, 2.75), (0.75, 5.1), (0.9, 8.2), (1.0, 15.0)]
)
"""Quantiles of the diameters of trees of protein families that published trainings drew from."""
OF_DNA = 0.3
"""Diameters of DNA in units of those of proteins: sites of four letters are saturated sooner."""
DELETION = 3.0
"""Mean number of sites of a deletion."""


def random_tree(random: np.random.Generator, leaves: int, diameter: float) -> Tree:
    """A tree of `leaves`, of which the two that are farthest apart have distance `diameter`."""
    share = random.random(leaves)
    heights = np.log((BIRTH - DEATH * share) / (BIRTH * (1 - share))) / (BIRTH - DEATH)
    # The oldest of as many as there are leaves is the age of the process, the others join neighbours.
    gaps = np.delete(heights, heights.argmax())
    parents = np.full(2 * leaves - 1, -1)
    ages = np.zeros(2 * leaves - 1)
    first, last = ([*range(leaves), *[0] * (leaves - 1)] for _ in range(2))
    clade_at = list(range(leaves))
    for node, gap in enumerate(np.argsort(gaps, kind="stable"), start=leaves):
        left, right = clade_at[gap], clade_at[gap + 1]
        parents[[left, right]] = node
        ages[node] = gaps[gap]
        first[node], last[node] = first[left], last[right]
        clade_at[first[node]] = clade_at[last[node]] = node
    log_rates = random.normal(0.0, DRIFT, len(parents))
    for node in range(len(parents) - 2, -1, -1):
        log_rates[node] += log_rates[parents[node]]
    own, above = slice(0, -1), parents[:-1]
    lengths = np.zeros(len(parents))
    lengths[own] = (ages[above] - ages[own]) * np.exp((log_rates[own] + log_rates[above]) / 2)
    names = [f"sequence{number}" for number in range(1, leaves + 1)]
    lengths *= diameter / Tree(names, parents, lengths).leaf_distances().max()
    lengths[:leaves] = lengths[:leaves].clip(min=SHORTEST)
    return Tree(names, parents, lengths)


def evolve(
    random: np.random.Generator,
    tree: Tree,
    model: SubstitutionModel,
    sites: int,
    shape: float,
    deletions: float = 0.0,
) -> Codes:
    """(leaves, sites) places in `LETTERS`. shape: of the Gamma-distributed rates; deletions: per substitution."""
    rates_L = random.gamma(shape, 1 / shape, sites)
    nodes = len(tree.parents)
    codes_NL = np.zeros((nodes, sites), np.uint8)
    deleted_NL = np.zeros((nodes, sites), bool)
    codes_NL[-1] = random.choice(len(model.frequencies_K), sites, p=model.frequencies_K)
    for node in range(nodes - 2, -1, -1):
        above, length = tree.parents[node], tree.lengths[node]
        codes_NL[node] = model.evolve(codes_NL[above], rates_L * length, random)
        deleted_NL[node] = deleted_NL[above]
        for start in random.integers(sites, size=random.poisson(deletions * length * sites)):
            deleted_NL[node, start : start + random.geometric(1 / DELETION)] = True
    codes_NL[deleted_NL] = len(model.frequencies_K) + 1
    return codes_NL[: len(tree.names)]


def _number_range(text: str, flag: str, least: int) -> tuple[int, int]:
    """Both ends of `3-7`, or the one number twice. Raises: SettingsError when it is none, or less than `least`."""
    low, _, high = text.partition("-")
    try:
        ends = int(low), int(high or low)
    except ValueError:
        ends = 0, 0
    if not least <= ends[0] <= ends[1]:
        raise SettingsError(f"{flag} {text}: a number from {least} on, or two as 20-50, are needed")
    return ends


def simulate(settings: TreeSimulation, running: Running) -> RunReport:
    """Write the folder. Alignment k is a function of the settings and k, whatever their number."""
    ranges = [
        _number_range(settings.sequences, "--sequences", 3),
        _number_range(settings.sites, "--sites", 1),
    ]
    check_output_folder(settings.output, force=settings.force)
    letters = np.frombuffer(LETTERS[settings.alphabet].encode(), np.uint8)
    with atomic_folder(settings.output, own_names(FOLDERS)) as folder:
        for name in FOLDERS:
            (folder / name).mkdir()
        with text_output(folder / PAIRS) as table:
            table.write("id\talignment\ttree\tsequences\tsites\tshape\n")
            for number in watched(running.progress, "simulating trees", range(settings.count)):
                random = np.random.default_rng([settings.seed, number])
                leaves, sites = (int(random.integers(low, high + 1)) for low, high in ranges)
                dna = settings.alphabet is PhylogenyAlphabet.DNA
                diameter = float(np.interp(random.random(), *DIAMETERS.T)) * (OF_DNA if dna else 1.0)
                tree = random_tree(random, leaves, diameter)
                shape = float(random.lognormal(0.03, 0.4))
                model = random_nucleotide_model(random) if dna else fixed_model(settings.alphabet)
                codes_NL = evolve(random, tree, model, sites, shape, settings.deletions)
                name = f"simulated{number:06d}"
                places = [f"{each}/{name}.{ending}" for each, ending in FOLDERS.items()]
                write_a3m(Alignment.plain(list(tree.names), letters[codes_NL]), folder / places[0])
                (folder / places[1]).write_text(tree.newick())
                table.write("\t".join([name, *places]) + f"\t{leaves}\t{sites}\t{shape:.4g}\n")
        settled = {name: value for name, value in asdict(settings).items() if name not in ("output", "force")}
        write_json(folder / INDEX, {"format": TREES_FORMAT, "format_version": 1, **settled})
    return RunReport(
        f"wrote {settings.output}: {counted(settings.count, 'alignment')} with true trees",
        f"next: bioattn train phyloformer {settings.output / PAIRS} --alphabet {settings.alphabet} -o model",
        outputs=[settings.output],
    )
