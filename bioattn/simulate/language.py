"""Sequences in which a motif that was never seen before comes again, to see whether a model copies in context.

The files are those of `docs/formats/simulation.md`. In a sequence no `cue` words in a row come twice but
in the copies. So the first `cue` words of a later copy tell where the first one stands, and all letters from
`known_from` on follow; all others are drawn at random, and cannot be predicted.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bioattn.errors import SettingsError
from bioattn.formats.fasta import FastaRecord, write_fasta
from bioattn.io.files import text_output, write_json
from bioattn.io.folders import atomic_folder, check_output_folder
from bioattn.simulate.description import INDEX, SEQUENCES_FORMAT
from bioattn.simulate.families import LETTERS

STOPS = ("TAA", "TAG", "TGA")
WORDS = {
    "dna": tuple("ACGT"),
    "codon": tuple(word for word in map("".join, product("ACGT", repeat=3)) if word not in STOPS),
    "protein": tuple(LETTERS),
}
"""What sequences are made of, by alphabet."""
TRIES = 1000
"""Sequences begun anew before the settings are called impossible."""
DRAWS = 20
"""Words drawn for each of a sequence before it is begun anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatSimulation:
    """Settings of a simulation; lengths are words: bases, codons or residues."""

    alphabet: str
    """One of `WORDS`."""
    sequences: int
    length: int
    motif: int
    """Longest motif; lengths vary, so that a copy is found by what it says, not by how far away it is."""
    copies: int
    """Most copies in a sequence; the fewest are 2."""
    cue: int
    """Words that tell one place of a sequence from all others."""
    seed: int

    def __post_init__(self) -> None:
        if self.alphabet not in WORDS:
            known = ", ".join(WORDS)
            raise SettingsError(f"--alphabet {self.alphabet}: sequences of {known} can be simulated")
        room = (self.length - self.cue) // 2
        if not self.cue < self.motif <= room:
            raise SettingsError(
                f"--motif {self.motif}: give more than --cue ({self.cue}) and at most {room}, so that two copies "
                f"fit into --length {self.length}"
            )

    @property
    def words(self) -> tuple[str, ...]:
        """Bases, codons but stops, or residues."""
        return WORDS[self.alphabet]


class Repeat(NamedTuple):
    """A sequence as numbers of words, the words of its motif, and where the copies begin."""

    words: NDArray[np.int64]
    motif: int
    starts: list[int]


def simulate_repeats(simulation: RepeatSimulation) -> Iterator[Repeat]:
    """Sequence after sequence, each drawn by its own number. Raises: SettingsError when none can be found."""
    length, cue = simulation.length, simulation.cue
    for number in range(simulation.sequences):
        random = np.random.default_rng([simulation.seed, number])
        for _ in range(TRIES):
            shortest = min(cue + 3, simulation.motif)
            # At least a cue lies between two copies, so that no word of both sides comes twice.
            most = max(2, min(simulation.copies, (length + cue) // (shortest + cue)))
            copies = int(random.integers(2, most + 1))
            longest = min(simulation.motif, (length + cue) // copies - cue)
            motif = int(random.integers(min(shortest, longest), longest + 1))
            spare = length + cue - copies * (motif + cue)
            before = np.sort(random.integers(spare + 1, size=copies)).tolist()
            starts = [first + copy * (motif + cue) for copy, first in enumerate(before)]
            words = _drawn(simulation, starts, motif, random)
            if words is not None:
                break
        else:
            raise SettingsError(
                f"--length {length}: no sequence was found in which no {cue} words come twice but in the motif; "
                "give a shorter one, or a larger --cue"
            )
        yield Repeat(np.array(words), motif, starts)


def _drawn(
    simulation: RepeatSimulation, starts: list[int], motif: int, random: np.random.Generator
) -> list[int] | None:
    """One sequence; None where every word that could come next was there, or one of a copy begins too early."""
    number, cue, size = len(simulation.words), simulation.cue, len(simulation.words) ** simulation.cue
    drawn = iter(random.integers(number, size=DRAWS * simulation.length).tolist())
    copied = {start + step: step for start in starts[1:] for step in range(motif)}
    words: list[int] = []
    seen: set[int] = set()
    ending = 0
    while len(words) < simulation.length:
        place = len(words)
        step = copied.get(place)
        word = next(drawn, None) if step is None else words[starts[0] + step]
        if word is None:
            return None
        following = (ending * number + word) % size
        if place >= cue - 1:
            if following in seen and step is None:
                continue
            if following in seen and step is not None and step < cue - 1:
                return None
            seen.add(following)
        words.append(word)
        ending = following
    return words


def write_repeats(folder: Path, simulation: RepeatSimulation, *, force: bool = False) -> None:
    """Write the files into `folder`, which appears whole or not at all.

    Raises: SettingsError and BioattnError as `check_output_folder`, and as `simulate_repeats`.
    """
    check_output_folder(folder, force=force)
    letters, word = np.array(simulation.words), len(simulation.words[0])
    with atomic_folder(folder, {"sequences.fa", "truth.tsv", INDEX}) as partial:
        records = []
        with text_output(partial / "truth.tsv") as file:
            file.write("id\tmotif\tcopy\tstart\tend\tknown_from\n")
            for number, (words, length, starts) in enumerate(simulate_repeats(simulation)):
                name, text = f"repeat{number:06d}", letters[words]
                records.append(FastaRecord(name, "", "".join(text)))
                motif = "".join(text[starts[0] : starts[0] + length])
                for copy, start in enumerate(starts, start=1):
                    places = [start * word, (start + length) * word, (start + simulation.cue) * word]
                    known = places if copy > 1 else [*places[:2], ""]
                    file.write("\t".join([name, motif, *map(str, [copy, *known])]) + "\n")
        write_fasta(partial / "sequences.fa", records)
        settings = {**asdict(simulation), "alphabet": str(simulation.alphabet)}
        write_json(partial / INDEX, {"format": SEQUENCES_FORMAT, "format_version": 1, "settings": settings})
