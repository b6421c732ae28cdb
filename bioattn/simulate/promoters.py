"""Promoters whose truth is known: planted motifs, responses that follow from them, decoys that mislead.

`simulate_promoters` draws everything in memory; `write_simulation` writes it as the files a user of the real thing
holds (genome, annotation, response and treatment tables) with the truth beside them. Every part has its own stream
of random numbers, so that changing the noise, say, leaves the sequences as they were. Sites are planted on either
strand, without further copies by chance.

Along a chromosome every gene has a place of its own: a spacer, then the promoter window directly before the gene's
first base (for a gene on the minus strand, everything reverse complemented). Windows up to the promoter's length
therefore overlap neither each other nor another gene.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.choices import Task
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.formats.meme import Motif, write_meme
from bioattn.formats.nucleotides import decode, encode, reverse_complement
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.io.settings import OPTIONS, build
from bioattn.simulate.description import (
    CONSENSUS_LENGTH,
    INDEX,
    LONE_SHARE,
    MATRIX_LENGTHS,
    MIN_GAP,
    PROMOTERS_FORMAT,
    Difficulty,
    PromoterSimulation,
    Rule,
)
from bioattn.simulate.motifs import (
    UNIFORM,
    YEAST_UPSTREAM,
    MarkovBackground,
    consensus_matrix,
    profile_matrix,
    separated_consensuses,
)
from bioattn.simulate.truth import (
    CAUSAL,
    DECOY,
    LONE,
    OUT_OF_RANGE,
    PlantedSite,
    noise_free_responses,
    write_truth,
)

MIN_CODONS, MAX_CODONS = 30, 60
MIN_SPACER, MAX_SPACER = 20, 60

_START_CODON = (0, 3, 2)
_STOP_CODONS = ((3, 0, 0), (3, 0, 2), (3, 2, 0))
_SENSE_CODONS = np.array(
    [codon for codon in itertools.product(range(4), repeat=3) if codon not in _STOP_CODONS], dtype=np.uint8
)


class PlacedGene(NamedTuple):
    """The position of a gene; 0-based, half-open, along the chromosome."""

    gene_id: str
    chrom: str
    start: int
    end: int
    strand: str


class Genome(NamedTuple):
    """Chromosomes and the genes on them."""

    chromosomes: dict[str, NDArray[np.uint8]]
    genes: list[PlacedGene]
    """In the order of the promoters, which is the order along the chromosomes."""


def lay_out_genome(
    rng: np.random.Generator,
    gene_ids: Sequence[str],
    promoters: NDArray[np.uint8],
    chromosome_count: int,
    background: MarkovBackground,
) -> Genome:
    """Put promoters (codes, shape (genes, length)) before made-up genes on `chromosome_count` chromosomes.

    Strands are drawn alike; genes are open reading frames of 30 to 60 codons; spacers of 20 to 60 bp and the
    run-out at the chromosome's end come from `background`.
    """
    count = len(gene_ids)
    minus = rng.random(count) < 0.5
    codons = MIN_CODONS + (rng.random(count) * (MAX_CODONS - MIN_CODONS + 1)).astype(np.int64)
    spacers = MIN_SPACER + (rng.random(count) * (MAX_SPACER - MIN_SPACER + 1)).astype(np.int64)
    spacer_codes = background.sample(rng, count + chromosome_count, MAX_SPACER)
    chromosomes: dict[str, NDArray[np.uint8]] = {}
    genes: list[PlacedGene] = []
    bounds = np.linspace(0, count, chromosome_count + 1).round().astype(int).tolist()
    for number in range(chromosome_count):
        chrom = f"chr{number + 1}"
        pieces: list[NDArray[np.uint8]] = []
        position = 0
        for gene in range(bounds[number], bounds[number + 1]):
            sense = _SENSE_CODONS[(rng.random(codons[gene] - 2) * len(_SENSE_CODONS)).astype(np.int64)]
            stop = _STOP_CODONS[int(rng.random() * len(_STOP_CODONS))]
            body = np.concatenate([_START_CODON, sense.ravel(), stop]).astype(np.uint8)
            spacer = spacer_codes[gene, : spacers[gene]]
            promoter = promoters[gene]
            start = position + spacer.size
            if minus[gene]:
                pieces += [spacer, reverse_complement(body), reverse_complement(promoter)]
            else:
                pieces += [spacer, promoter, body]
                start += promoter.size
            strand = "-" if minus[gene] else "+"
            genes.append(PlacedGene(gene_ids[gene], chrom, start, start + body.size, strand))
            position += spacer.size + promoter.size + body.size
        pieces.append(spacer_codes[count + number])
        chromosomes[chrom] = np.concatenate(pieces)
    return Genome(chromosomes, genes)


def write_annotation(path: Path, genome: Genome) -> None:
    """Write the genes as GFF3: gene, mRNA, exon and CDS of one extent (no UTR: TSS and start codon agree)."""
    with text_output(path) as file:
        file.write("##gff-version 3\n")
        for chrom, codes in genome.chromosomes.items():
            file.write(f"##sequence-region {chrom} 1 {codes.size}\n")
        for gene in genome.genes:
            transcript = f"{gene.gene_id}.t1"
            for feature, phase, attributes in (
                ("gene", ".", f"ID={gene.gene_id};biotype=protein_coding"),
                ("mRNA", ".", f"ID={transcript};Parent={gene.gene_id}"),
                ("exon", ".", f"ID={transcript}.exon1;Parent={transcript}"),
                ("CDS", "0", f"ID={transcript}.cds;Parent={transcript}"),
            ):
                columns = (gene.chrom, "bioattn", feature, gene.start + 1, gene.end, ".", gene.strand, phase)
                file.write("\t".join(map(str, columns)) + f"\t{attributes}\n")


def plant_motifs(
    rng: np.random.Generator, codes: NDArray[np.uint8], motifs: Sequence[Motif], carried: NDArray[np.bool_]
) -> list[list[tuple[int, int, str]]]:
    """Write one site of every carried motif into each sequence, in place.

    codes: (sequences, length). carried: (sequences, motifs). The order of the sites in a sequence, their places
    and strands are drawn alike; sites are `MIN_GAP` or more bases apart.

    Returns per sequence (motif number, 0-based start, strand), ordered by start; a site on `-` reads as the motif
    after reverse complementing. A sequence must have room for all its sites.
    """
    count, length = codes.shape
    widths = np.array([motif.width for motif in motifs])
    minus = rng.random(carried.shape) < 0.5
    instances = []
    for number, motif in enumerate(motifs):
        forward = motif.sample(rng, count)
        instances.append(np.where(minus[:, number, None], reverse_complement(forward), forward))
    order_keys = rng.random(carried.shape)
    place_draws = rng.random(carried.shape)
    planted: list[list[tuple[int, int, str]]] = []
    for sequence in range(count):
        chosen = np.flatnonzero(carried[sequence])
        chosen = chosen[np.argsort(order_keys[sequence, chosen])]
        taken = widths[chosen] + MIN_GAP
        free = length + MIN_GAP - int(taken.sum())
        offsets = np.sort((place_draws[sequence, chosen] * (free + 1)).astype(np.int64))
        starts = offsets + np.concatenate([[0], np.cumsum(taken)[:-1]]).astype(np.int64)[: chosen.size]
        sites = []
        for number, start in zip(chosen.tolist(), starts.tolist(), strict=True):
            codes[sequence, start : start + widths[number]] = instances[number][sequence]
            sites.append((number, start, "-" if minus[sequence, number] else "+"))
        planted.append(sites)
    return planted


def remove_chance_copies(
    rng: np.random.Generator,
    codes: NDArray[np.uint8],
    words: Mapping[int, NDArray[np.uint8]],
    planted: Sequence[Sequence[tuple[int, int, str]]],
    widths: Sequence[int],
) -> None:
    """Break every exact copy of a word, on either strand, that was not planted; in place.

    words: consensus codes by motif number. planted: as from `plant_motifs`. One base outside all planted sites is
    replaced in each copy, and the scan repeated until none is left. A copy made wholly of one planted site's bases
    (a motif substituted into another) stays.
    """
    protected = np.zeros(codes.shape, dtype=np.bool_)
    meant: set[tuple[int, int, int]] = set()
    for sequence, sites in enumerate(planted):
        for number, start, _ in sites:
            protected[sequence, start : start + widths[number]] = True
            meant.add((sequence, number, start))
    changed = True
    while changed:
        changed = False
        for number, word in words.items():
            for strand_word in (word, reverse_complement(word)):
                windows = codes.shape[1] - word.size + 1
                match = np.ones((len(codes), windows), dtype=np.bool_)
                for position, base in enumerate(strand_word.tolist()):
                    match &= codes[:, position : position + windows] == base
                for sequence, start in np.argwhere(match).tolist():
                    free = np.flatnonzero(~protected[sequence, start : start + word.size])
                    if (sequence, number, start) in meant or not free.size:
                        continue
                    position = start + int(free[int(rng.random() * free.size)])
                    codes[sequence, position] = (codes[sequence, position] + 1 + int(3 * rng.random())) % 4
                    changed = True


DECLARED_SITES = 1000
"""What the MEME file says of how many sites a matrix was made of."""
EFFECT = 2.0
"""Size of a response in regression, as a log2 fold change; its sign is drawn per treatment."""

BACKGROUNDS = {background.name: background for background in (UNIFORM, YEAST_UPSTREAM)}
DEFAULTS: dict[Difficulty, dict[str, Any]] = {
    Difficulty.STANDARD: {},
    Difficulty.HARD: {"length": 1000, "matrix_motifs": True, "background": YEAST_UPSTREAM.name},
}
NOISE: dict[tuple[Difficulty, Task], float] = {
    (Difficulty.STANDARD, Task.REGRESSION): 0.5,
    (Difficulty.STANDARD, Task.BINARY): 0.02,
    (Difficulty.HARD, Task.REGRESSION): 1.0,
    (Difficulty.HARD, Task.BINARY): 0.05,
}


def simulation_settings(
    difficulty: Difficulty = Difficulty.STANDARD, *, source: str = OPTIONS, **chosen: Any
) -> PromoterSimulation:
    """The settings of a difficulty; fields of `PromoterSimulation` in `chosen` that are not None win.

    `standard`: 400 bp of uniform background, 8-bp consensus motifs with 5 % substitutions. `hard`: 1 kb of order-2
    background, motifs sampled from matrices, half of the treatments need a pair of motifs, twice the noise.

    source: where they come from, for messages. Raises: SettingsError for values out of range.
    """
    given = {name: value for name, value in chosen.items() if value is not None}
    settings = DEFAULTS[difficulty] | given
    treatments = settings.get("treatments", 6)
    settings.setdefault("pairs", treatments // 2 if difficulty == "hard" else 0)
    settings.setdefault("noise", NOISE[difficulty, settings.get("task", "regression")])
    return build(PromoterSimulation, settings, source)


class TreatmentRule(NamedTuple):
    """The motifs that make a promoter respond to a treatment."""

    treatment: str
    motifs: tuple[str, ...]
    effect: float
    """Response to the motifs: ±2 in regression, 1 in binary; opposite: to the first of them."""
    rule: Rule


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

    A promoter holds the motif of a treatment (both motifs of a pair) with probability `presence`; the motif stands
    at a place drawn alike over the window, on either strand, at least one base from the next site. With consensus
    motifs no other exact copy of any consensus is left in the promoters, so that the truth table has them all
    (copies with a substitution do occur by chance, as they do in genomes); with matrix motifs whatever resembles
    them stays.
    """
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(settings.seed).spawn(6)]
    motif_rng, sequence_rng, presence_rng, site_rng, response_rng, layout_rng = streams
    motifs, rules, distance = _draw_motifs(motif_rng, settings)
    gene_ids = [f"G{number:0{len(str(settings.genes))}d}" for number in range(1, settings.genes + 1)]
    background = BACKGROUNDS[settings.background]
    codes = background.sample(sequence_rng, settings.genes, settings.length)
    carried = _draw_presence(presence_rng, settings)
    planted = plant_motifs(site_rng, codes, motifs, carried)
    if not settings.matrix_motifs:
        words = {number: encode(motif.consensus) for number, motif in enumerate(motifs)}
        remove_chance_copies(sequence_rng, codes, words, planted, [motif.width for motif in motifs])
    sites = list(_truth(settings, gene_ids, motifs, rules, planted))
    true = noise_free_responses(sites, gene_ids, [rule.treatment for rule in rules])
    if settings.task == "binary":
        flipped = response_rng.random(true.shape) < settings.noise
        responses = (true.astype(np.bool_) ^ flipped).astype(np.float64)
    else:
        responses = true + settings.noise * response_rng.standard_normal(true.shape)
    genome = lay_out_genome(layout_rng, gene_ids, codes, settings.chromosomes, background)
    return SimulatedPromoters(
        settings=settings,
        gene_ids=gene_ids,
        codes=codes,
        responses=responses,
        rules=rules,
        motifs=motifs,
        motif_distance=distance,
        sites=sites,
        genome=genome,
    )


def _draw_motifs(
    rng: np.random.Generator, settings: PromoterSimulation
) -> tuple[list[Motif], list[TreatmentRule], int]:
    """The motifs (treatments' first, then decoys), the rules that use them, the edit distance between them."""
    plain: list[tuple[str, ...]] = [(f"motif{number}",) for number in range(1, settings.plain + 1)]
    needed = [(Rule.ANYWHERE, names) for names in plain]
    needed += [(Rule.NEAR, names) for names in plain[: settings.near]]
    needed += [(Rule.FAR, names) for names in plain[: settings.far]]
    for _ in range(settings.opposites):
        couple = (f"motif{len(needed) + 1}", f"motif{len(needed) + 2}")
        needed += [(Rule.OPPOSITE, couple), (Rule.OPPOSITE, couple[::-1])]
    for _ in range(settings.pairs):
        needed.append((Rule.PAIR, (f"motif{len(needed) + 1}a", f"motif{len(needed) + 1}b")))
    motif_names = list(dict.fromkeys(name for _, names in needed for name in names))
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
        motif = Motif(name=name, probabilities=matrix, sites=DECLARED_SITES)
        motifs.append(replace(motif, alternative_name=motif.consensus))
    rules = []
    for number, (rule, names) in enumerate(needed, start=1):
        sign = 1.0 if rng.random() < 0.5 or rule is Rule.OPPOSITE else -1.0
        effect = 1.0 if settings.task == "binary" else sign * EFFECT
        rules.append(TreatmentRule(f"treatment{number}", names, effect, rule))
    return motifs, rules, distance


def _draw_presence(rng: np.random.Generator, settings: PromoterSimulation) -> NDArray[np.bool_]:
    """Which motifs the promoters carry (genes, motifs)."""
    shape = settings.genes, settings.treatments
    borrowers = slice(settings.plain, settings.plain + settings.near + settings.far)
    holds = np.delete(rng.random(shape) < settings.presence, borrowers, axis=1)
    lone = np.delete(rng.random(shape), borrowers, axis=1)
    single = holds.shape[1] - settings.pairs
    columns = list(holds[:, :single].T)
    for pair in range(single, holds.shape[1]):
        columns.append(holds[:, pair] | (lone[:, pair] < LONE_SHARE / 2))
        columns.append(holds[:, pair] | (lone[:, pair] >= 1 - LONE_SHARE / 2))
    columns += [np.ones(settings.genes, dtype=np.bool_)] * settings.decoys
    return np.stack(columns, axis=1)


def _truth(
    settings: PromoterSimulation,
    gene_ids: list[str],
    motifs: list[Motif],
    rules: list[TreatmentRule],
    planted: list[list[tuple[int, int, str]]],
) -> Iterator[PlantedSite]:
    rules_of = {motif.name: [rule for rule in rules if motif.name in rule.motifs] for motif in motifs}
    for gene_id, sites in zip(gene_ids, planted, strict=True):
        held = {motifs[number].name for number, _, _ in sites}
        for number, start, strand in sites:
            name, end = motifs[number].name, start + motifs[number].width
            near = settings.length - (start + end) / 2 <= settings.reach
            for rule in rules_of[name]:
                role, effect = CAUSAL, rule.effect
                if rule.rule is Rule.PAIR:
                    effect /= 2
                    if not held.issuperset(rule.motifs):
                        role, effect = LONE, 0.0
                elif rule.rule is (Rule.FAR if near else Rule.NEAR):
                    role, effect = OUT_OF_RANGE, 0.0
                elif rule.rule is Rule.OPPOSITE and name == rule.motifs[1]:
                    effect = -effect
                yield PlantedSite(gene_id, name, rule.treatment, role, start, end, strand, effect)
            if not rules_of[name]:
                yield PlantedSite(gene_id, name, "", DECOY, start, end, strand)


_OWN_NAMES = (
    *("treatments.tsv", "motifs.meme", INDEX),
    *("genome.fa", "annotation.gff3", "responses.tsv", "truth.tsv"),
)


def write_simulation(folder: Path, simulated: SimulatedPromoters, *, force: bool = False) -> dict[str, Path]:
    """Write all files; the folder appears whole or not at all, and with `force` in the place of an earlier one.

    Returns the paths by name.

    Raises: SettingsError and BioattnError as `check_output_folder`, when the folder holds files that are not a
    simulation's, or when the disk is full.
    """
    check_output_folder(folder, force=force)
    with atomic_folder(folder, {*_OWN_NAMES}) as partial:
        paths = {name: partial / name for name in _OWN_NAMES}
        chromosomes = simulated.genome.chromosomes.items()
        write_fasta(paths["genome.fa"], (FastaRecord(name, "", decode(codes)) for name, codes in chromosomes))
        write_annotation(paths["annotation.gff3"], simulated.genome)
        spec = ".0f" if simulated.settings.task == "binary" else ".3f"
        with text_output(paths["responses.tsv"]) as file:
            file.write("\t".join(["gene_id", *(rule.treatment for rule in simulated.rules)]) + "\n")
            for gene_id, row in zip(simulated.gene_ids, simulated.responses.tolist(), strict=True):
                file.write("\t".join([gene_id, *(format(value, spec) for value in row)]) + "\n")
        with text_output(paths["treatments.tsv"]) as file:
            file.write("treatment\tagent\n")
            for number, rule in enumerate(simulated.rules, start=1):
                file.write(f"{rule.treatment}\tagent{number}\n")
        write_truth(paths["truth.tsv"], simulated.sites)
        write_meme(paths["motifs.meme"], simulated.motifs)
        write_json(paths[INDEX], _description(simulated))
    return {name: folder / name for name in _OWN_NAMES}


def _description(simulated: SimulatedPromoters) -> dict[str, Any]:
    return {
        "format": PROMOTERS_FORMAT,
        "format_version": 1,
        "settings": asdict(simulated.settings),
        "smallest_motif_edit_distance": simulated.motif_distance,
        "motifs": {
            motif.name: {"consensus": motif.consensus, "bits": round(motif.information, 2)}
            for motif in simulated.motifs
        },
        "treatments": {
            rule.treatment: {"rule": rule.rule, "motifs": list(rule.motifs), "effect": rule.effect}
            for rule in simulated.rules
        },
    }
