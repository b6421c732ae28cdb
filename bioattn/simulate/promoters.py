"""Promoters whose truth is known: planted motifs, responses that follow from them, decoys that mislead.

`simulate_promoters` draws everything in memory; `bioattn.simulate.promoter_files` writes it as the files a user of
the real thing holds (genome, annotation, response and treatment tables) with the truth beside them. Every part
has its own stream of random numbers, so that changing the noise, say, leaves the sequences as they were.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Task
from bioattn.errors import SettingsError
from bioattn.formats.motif import Motif
from bioattn.formats.nucleotides import encode
from bioattn.simulate.choices import Difficulty
from bioattn.simulate.genome_layout import Genome, lay_out_genome
from bioattn.simulate.motifs import (
    MATRIX_LENGTHS,
    UNIFORM,
    YEAST_UPSTREAM,
    MarkovBackground,
    consensus_matrix,
    planted_motif,
    profile_matrix,
    separated_consensuses,
)
from bioattn.simulate.planting import MIN_GAP, plant_motifs, remove_chance_copies
from bioattn.simulate.truth import CAUSAL, DECOY, LONE, PlantedSite

LOGGER = logging.getLogger("bioattn")

CONSENSUS_LENGTH = 8

EFFECT = 2.0
"""Size of a response in regression, as a log2 fold change; its sign is drawn per treatment."""
LONE_SHARE = 0.8
"""Of the promoters without the whole pair, the share that holds one half of it."""
MAX_OCCUPANCY = 0.5
"""Largest share of a promoter that sites may cover on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterSimulation:
    """Settings of a simulation of promoters; the defaults are those of difficulty `standard`."""

    genes: int = 3000
    """Promoters."""
    treatments: int = 6
    """Treatments, each with a motif (or pair of motifs) of its own."""
    length: int = 400
    """Bases of a promoter window, all upstream of the gene."""
    task: Task = Task.REGRESSION
    """regression: log2 fold changes of 0 or ±2 plus noise; binary: 0 or 1, some flipped."""
    matrix_motifs: bool = False
    """False: 8-bp consensus motifs with substitutions; True: 9-12 bp sampled from matrices."""
    substitution_rate: float = 0.05
    """Chance that a base of a consensus motif's site is replaced."""
    presence: float = 0.5
    """Chance that a promoter responds to a treatment, drawn for each pair alone."""
    decoys: int = 2
    """Motifs without effect, each once in every promoter."""
    pairs: int = 0
    """Treatments (the last ones) that need two motifs: one alone has no effect."""
    noise: float = 0.5
    """regression: standard deviation added to responses; binary: share of flipped labels."""
    background: MarkovBackground = UNIFORM
    """The DNA around the sites."""
    chromosomes: int = 8
    """Chromosomes the genes are spread over."""
    seed: int = 0
    """Seed of every random choice."""

    def __post_init__(self) -> None:
        """Check the settings. Raises: SettingsError naming the option."""
        for name, low, high in (
            ("genes", 1, 1_000_000),
            ("treatments", 1, 10_000),
            ("decoys", 0, 100),
            ("pairs", 0, self.treatments),
            ("chromosomes", 1, self.genes),
            ("seed", 0, 2**63),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise SettingsError(f"--{name} is {value} but must be between {low} and {high:,}")
        for name, low_rate, high_rate in (("presence", 0.0, 1.0), ("substitution_rate", 0.0, 0.75)):
            value = getattr(self, name)
            if not low_rate <= value <= high_rate:
                option = name.replace("_", "-")
                raise SettingsError(
                    f"--{option} is {value} but must be between {low_rate:g} and {high_rate:g}"
                )
        largest = 0.5 if self.task == "binary" else 1000.0
        if not 0 <= self.noise <= largest:
            raise SettingsError(
                f"--noise is {self.noise} but must be between 0 and {largest:g} with {self.task}"
            )
        self._check_room()

    def _check_room(self) -> None:
        width = max(MATRIX_LENGTHS) if self.matrix_motifs else CONSENSUS_LENGTH
        per_pair = 2 * self.presence + (1 - self.presence) * LONE_SHARE
        sites = self.decoys + (self.treatments - self.pairs) * self.presence + self.pairs * per_pair
        at_most = self.decoys + self.treatments + self.pairs
        if sites * width > MAX_OCCUPANCY * self.length or at_most * (width + MIN_GAP) > self.length:
            raise SettingsError(
                f"--length {self.length} is too short for about {sites:.0f} and up to {at_most} sites of "
                f"{width} bp in a promoter; ask for longer promoters or fewer treatments, pairs or decoys"
            )


DEFAULTS: dict[Difficulty, dict[str, Any]] = {
    Difficulty.STANDARD: {},
    Difficulty.HARD: {"length": 1000, "matrix_motifs": True, "background": YEAST_UPSTREAM},
}
NOISE: dict[tuple[Difficulty, Task], float] = {
    (Difficulty.STANDARD, Task.REGRESSION): 0.5,
    (Difficulty.STANDARD, Task.BINARY): 0.02,
    (Difficulty.HARD, Task.REGRESSION): 1.0,
    (Difficulty.HARD, Task.BINARY): 0.05,
}


def simulation_settings(difficulty: Difficulty = Difficulty.STANDARD, **chosen: Any) -> PromoterSimulation:
    """The settings of a difficulty; fields of `PromoterSimulation` in `chosen` that are not None win.

    `standard`: 400 bp of uniform background, 8-bp consensus motifs with 5 % substitutions. `hard`: 1 kb of order-2
    background, motifs sampled from matrices, half of the treatments need a pair of motifs, twice the noise.

    Raises: SettingsError for values out of range.
    """
    settings = {
        **DEFAULTS[difficulty],
        **{name: value for name, value in chosen.items() if value is not None},
    }
    treatments = settings.get("treatments", 6)
    settings.setdefault("pairs", treatments // 2 if difficulty == "hard" else 0)
    settings.setdefault("noise", NOISE[difficulty, settings.get("task", "regression")])
    return PromoterSimulation(**settings)


class TreatmentRule(NamedTuple):
    """The motifs that make a promoter respond to a treatment."""

    treatment: str
    motifs: tuple[str, ...]
    """One motif, or two that are both needed."""
    effect: float
    """Response of a promoter that holds them: ±2 in regression, 1 in binary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPromoters:
    """Simulated promoters and their truth."""

    settings: PromoterSimulation
    gene_ids: list[str]
    codes: NDArray[np.uint8]
    """Promoter sequences 5'→3', shape (genes, length)."""
    responses: NDArray[np.float64]
    """Shape (genes, treatments)."""
    rules: list[TreatmentRule]
    """One per treatment, in the order of the response columns."""
    motifs: list[Motif]
    """The treatments' motifs, then the decoys."""
    motif_distance: int
    """Edits between any two motifs, either strand, are at least so many."""
    sites: list[PlantedSite]
    """Ordered by gene, then by start."""
    genome: Genome


def simulate_promoters(settings: PromoterSimulation) -> SimulatedPromoters:
    """Draw promoters, sites, responses and a genome that holds them.

    A promoter responds to a treatment, and holds its motif, with probability `presence`; the motif stands at a
    place drawn alike over the window, on either strand, at least one base from the next site. With consensus
    motifs no other exact copy of any consensus is left in the promoters, so that the truth table has them all
    (copies with a substitution do occur by chance, as they do in genomes); with matrix motifs whatever resembles
    them stays.
    """
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(settings.seed).spawn(6)]
    motif_rng, sequence_rng, presence_rng, site_rng, response_rng, layout_rng = streams
    motifs, rules, distance = _draw_motifs(motif_rng, settings)
    gene_ids = [f"G{number:0{len(str(settings.genes))}d}" for number in range(1, settings.genes + 1)]
    codes = settings.background.sample(sequence_rng, settings.genes, settings.length)
    responds, carried = _draw_presence(presence_rng, settings)
    planted = plant_motifs(site_rng, codes, motifs, carried)
    if not settings.matrix_motifs:
        words = {number: encode(motif.consensus) for number, motif in enumerate(motifs)}
        broken = remove_chance_copies(sequence_rng, codes, words, planted, [motif.width for motif in motifs])
        LOGGER.debug(f"{broken:,} chance copies of the motifs were broken")
    genome = lay_out_genome(layout_rng, gene_ids, codes, settings.chromosomes, settings.background)
    return SimulatedPromoters(
        settings=settings,
        gene_ids=gene_ids,
        codes=codes,
        responses=_draw_responses(response_rng, settings, rules, responds),
        rules=rules,
        motifs=motifs,
        motif_distance=distance,
        sites=list(_truth(gene_ids, motifs, rules, planted, responds)),
        genome=genome,
    )


def _draw_motifs(
    rng: np.random.Generator, settings: PromoterSimulation
) -> tuple[list[Motif], list[TreatmentRule], int]:
    """The motifs (treatments' first, then decoys), the rules that use them, the edit distance between them."""
    singles = settings.treatments - settings.pairs
    motif_names: list[str] = []
    of_treatment: list[tuple[str, ...]] = []
    for number in range(1, settings.treatments + 1):
        stem = f"motif{number}"
        names: tuple[str, ...] = (stem,) if number <= singles else (f"{stem}a", f"{stem}b")
        of_treatment.append(names)
        motif_names += names
    motif_names += [f"decoy{number}" for number in range(1, settings.decoys + 1)]
    if settings.matrix_motifs:
        widths = [MATRIX_LENGTHS[int(rng.random() * len(MATRIX_LENGTHS))] for _ in motif_names]
    else:
        widths = [CONSENSUS_LENGTH] * len(motif_names)
    consensuses, distance = separated_consensuses(rng, widths)
    motifs = []
    for name, consensus in zip(motif_names, consensuses, strict=True):
        if settings.matrix_motifs:
            matrix = profile_matrix(rng, consensus)
        else:
            matrix = consensus_matrix(consensus, settings.substitution_rate)
        motifs.append(planted_motif(name, matrix))
    rules = []
    for number, names in enumerate(of_treatment, start=1):
        sign = 1.0 if rng.random() < 0.5 else -1.0
        effect = 1.0 if settings.task == "binary" else sign * EFFECT
        rules.append(TreatmentRule(f"treatment{number}", names, effect))
    return motifs, rules, distance


def _draw_presence(
    rng: np.random.Generator, settings: PromoterSimulation
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which promoters respond (genes, treatments) and which motifs they carry (genes, motifs)."""
    responds = rng.random((settings.genes, settings.treatments)) < settings.presence
    lone = rng.random(responds.shape)
    columns = []
    for treatment in range(settings.treatments):
        whole = responds[:, treatment]
        if treatment < settings.treatments - settings.pairs:
            columns.append(whole)
        else:
            columns.append(whole | (lone[:, treatment] < LONE_SHARE / 2))
            columns.append(whole | (lone[:, treatment] >= 1 - LONE_SHARE / 2))
    columns += [np.ones(settings.genes, dtype=np.bool_)] * settings.decoys
    return responds, np.stack(columns, axis=1)


def _draw_responses(
    rng: np.random.Generator,
    settings: PromoterSimulation,
    rules: list[TreatmentRule],
    responds: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Responses (genes, treatments) with their noise."""
    if settings.task == "binary":
        return (responds ^ (rng.random(responds.shape) < settings.noise)).astype(np.float64)
    effects = np.array([rule.effect for rule in rules])
    noisy: NDArray[np.float64] = responds * effects + settings.noise * rng.standard_normal(responds.shape)
    return noisy


def _truth(
    gene_ids: list[str],
    motifs: list[Motif],
    rules: list[TreatmentRule],
    planted: list[list[tuple[int, int, str]]],
    responds: NDArray[np.bool_],
) -> Iterator[PlantedSite]:
    treatment_of_motif = {name: number for number, rule in enumerate(rules) for name in rule.motifs}
    for gene, sites in enumerate(planted):
        for number, start, strand in sites:
            motif = motifs[number]
            treatment = treatment_of_motif.get(motif.name)
            if treatment is None:
                name, role = "", DECOY
            else:
                name, role = rules[treatment].treatment, CAUSAL if responds[gene, treatment] else LONE
            yield PlantedSite(gene_ids[gene], motif.name, name, role, start, start + motif.width, strand)
