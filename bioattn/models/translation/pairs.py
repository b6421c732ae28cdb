"""Simulated pairs with known truth: what each target letter is, and which source letter it comes from."""

import string
from typing import NamedTuple

import numpy as np
from Bio.Seq import reverse_complement

from bioattn.errors import SettingsError
from bioattn.formats.fasta import format_record
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.models.running import Running, RunReport
from bioattn.models.translation.family import PairTask, TranslationSimulation
from bioattn.models.translation.preparation import SIMULATED
from bioattn.simulate.description import INDEX, PAIRS_FORMAT
from bioattn.text import counted

GENES = string.ascii_letters + string.digits
"""Genes of cascades."""
HOPS = 3
INTRON_LENGTHS = (8, 16)
FILES = (*SIMULATED, "alignment.tsv", INDEX)
TABLES = ("facts.tsv", "questions.tsv")
"""What recall and cascade have besides, for memory networks."""


class SimulatedPair(NamedTuple):
    source: str
    target: str
    origin: list[int]
    """Of each target letter the source letter that it comes from, from 0."""
    true_facts: tuple[int, ...] = ()
    """Of recall and cascade, the facts that lead to the answer, from 0, in the order in which they are needed."""


def simulated_pair(
    task: PairTask, length: int, generator: np.random.Generator, num_genes: int = 26
) -> SimulatedPair:
    """A pair of a task. length: letters of the source; facts of recall and cascade. num_genes: of all cascades."""
    dna = "".join(generator.choice(list("ACGT"), length))
    match task:
        case PairTask.COPY:
            return SimulatedPair(dna, dna, list(range(length)))
        case PairTask.REVERSE_COMPLEMENT:
            return SimulatedPair(dna, reverse_complement(dna), list(range(length))[::-1])
        case PairTask.SORT:
            text = "".join(generator.choice(list(string.ascii_lowercase), length))
            order = sorted(range(length), key=lambda place: text[place])
            return SimulatedPair(text, "".join(text[place] for place in order), order)
        case PairTask.RECALL:
            keys = generator.permutation(list(string.ascii_lowercase))[:length]
            values = generator.choice(list("0123456789"), len(keys))
            wanted = int(generator.integers(len(keys)))
            facts = "".join(f"{key}{value}" for key, value in zip(keys, values, strict=True))
            source = f"{facts}?{keys[wanted]}"
            return SimulatedPair(source, str(values[wanted]), [2 * wanted + 1], (wanted,))
        case PairTask.CASCADE:
            genes = generator.permutation(list(GENES[:num_genes]))[: max(HOPS, length) + 1]
            told = generator.permutation(len(genes) - 1)  # a fact: a gene, and what regulates it
            facts = "".join(f"{genes[place]}{genes[place + 1]}" for place in told)
            first = int(generator.integers(len(genes) - HOPS))
            hops = tuple(int(np.flatnonzero(told == first + hop)[0]) for hop in range(HOPS))
            source, answer = f"{facts}?{genes[first]}", str(genes[first + HOPS])
            return SimulatedPair(source, answer, [2 * hops[-1] + 1], hops)
        case PairTask.SPLICE:
            return _spliced(dna, generator)


def _spliced(exons: str, generator: np.random.Generator) -> SimulatedPair:
    """Exons with an intron (GTAAGT … AG) between each two; none in the exons themselves."""
    exons = exons.replace("GTAAGT", "GTACGT")
    places = sorted(set(generator.integers(1, max(2, len(exons)), size=1 + len(exons) // 40).tolist()))
    parts, origin, before, length = [], list[int](), 0, 0
    for place in [*places, len(exons)]:
        exon = exons[before:place]
        origin += range(length, length + len(exon))
        parts.append(exon)
        if place < len(exons):
            middle = "".join(generator.choice(list("CT"), int(generator.integers(*INTRON_LENGTHS))))
            parts.append(f"GTAAGT{middle}AG")
        length = sum(map(len, parts))
        before = place
    return SimulatedPair("".join(parts), exons, origin)


def simulate(settings: TranslationSimulation, running: Running) -> RunReport:
    if settings.shortest > settings.longest:
        raise SettingsError(f"--shortest {settings.shortest} is larger than --longest {settings.longest}")
    if settings.task is PairTask.CASCADE and settings.longest >= settings.genes:
        raise SettingsError(
            f"--longest {settings.longest}: a cascade of {settings.genes} genes has at most "
            f"{settings.genes - 1} facts; give --genes"
        )
    check_output_folder(settings.output, force=settings.force)
    generator = np.random.default_rng(settings.seed)
    sources, targets, alignment = list[str](), list[str](), ["id\ttarget\tsource\n"]
    told, asked = ["story\tfact\ttext\n"], ["story\tquestion\ttext\tanswer\tfacts\n"]
    for number in range(settings.pairs):
        length = int(generator.integers(settings.shortest, settings.longest + 1))
        pair = simulated_pair(settings.task, length, generator, settings.genes)
        name = f"pair{number + 1}"
        sources.append(format_record(name, "", pair.source))
        targets.append(format_record(name, "", pair.target))
        alignment += [f"{name}\t{place}\t{origin + 1}\n" for place, origin in enumerate(pair.origin, start=1)]
        facts, _, question = pair.source.partition("?")
        told += [
            f"{name}\tf{place // 2 + 1}\t{' '.join(facts[place : place + 2])}\n"
            for place in range(0, len(facts), 2)
        ]
        true_facts = ",".join(f"f{place + 1}" for place in pair.true_facts)
        asked.append(f"{name}\t{name}\t{question}\t{pair.target}\t{true_facts}\n")
    files = {"source.fa": sources, "target.fa": targets, "alignment.tsv": alignment}
    if settings.task in (PairTask.RECALL, PairTask.CASCADE):
        files |= {"facts.tsv": told, "questions.tsv": asked}
    said = ["task", "pairs", "shortest", "longest", "seed"]
    said += ["genes"] * (settings.task is PairTask.CASCADE)
    settled = {name: getattr(settings, name) for name in said}
    with atomic_folder(settings.output, (*FILES, *TABLES)) as folder:
        for name, lines in files.items():
            with text_output(folder / name) as file:
                file.writelines(lines)
        write_json(folder / INDEX, {"format": PAIRS_FORMAT, "format_version": 1, **settled})
    biological = (PairTask.COPY, PairTask.REVERSE_COMPLEMENT, PairTask.SPLICE)
    alphabet = "dna" if settings.task in biological else "characters"
    return RunReport(
        f"wrote {settings.output}: {counted(settings.pairs, 'pair')} ({settings.task})",
        f"next: bioattn prepare translation {settings.output} --source-alphabet {alphabet} "
        f"--target-alphabet {alphabet} --split record -o X.dataset.h5",
        outputs=[settings.output],
    )
