"""What outputs must keep to: codons of given residues, and motifs that may stand on neither strand.

Of a protein all choices are searched before the first codon is written, so that no output ends in a dead end.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from Bio.Data import CodonTable
from Bio.Data.IUPACData import ambiguous_dna_values
from Bio.Seq import reverse_complement

from bioattn.errors import BioattnError, FormatError
from bioattn.io.files import read_lines
from bioattn.sequences.pairs import PairVocabulary, Tokens
from bioattn.sequences.vocabulary import EOS, SPECIAL, UNKNOWN

Step = dict[int, str]
"""Tokens that may be written in a state, and the state behind each; a state is what may begin a motif."""


class Motifs:
    """Forbidden motifs in IUPAC letters, on either strand."""

    def __init__(self, motifs: Mapping[str, str]) -> None:
        """motifs: upper case, by name."""
        self.strands = [
            (name, each)
            for name, motif in motifs.items()
            for each in dict.fromkeys((motif, reverse_complement(motif)))
        ]
        self._patterns = [(name, re.compile(_pattern(each))) for name, each in self.strands]
        self._longest = max((len(each) for _, each in self.strands), default=1) - 1

    def found(self, text: str) -> list[str]:
        return list(dict.fromkeys(name for name, pattern in self._patterns if pattern.search(text)))

    def state(self, text: str) -> str:
        """The longest end of a text with which a motif may begin."""
        for length in range(min(self._longest, len(text)), 0, -1):
            end = text[-length:]
            if any(len(each) > length and _fits(each, end) for _, each in self.strands):
                return end
        return ""


def read_motifs(path: Path) -> dict[str, str]:
    """Motifs of a FASTA file, or of lines `NAME MOTIF` or `MOTIF`.

    Raises: FormatError naming the line of what is no IUPAC letter of DNA, and of a second motif of one name.
    """
    found: dict[str, str] = {}
    name = ""
    for number, line in read_lines(path):
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if line.startswith(">"):
            name = words[0].removeprefix(">") or words[-1]
            continue
        motif = words[-1].upper()
        unknown = next((each for each in motif if each not in ambiguous_dna_values), None)
        if unknown is not None:
            raise FormatError(
                f"{path}:{number}: {unknown!r} of {words[-1]!r} is not an IUPAC letter of DNA; write lines "
                "such as `EcoRI GAATTC`"
            )
        called = words[0] if len(words) > 1 else name or motif
        if found.setdefault(called, motif) != motif:
            raise FormatError(f"{path}:{number}: another motif is called {called!r} already; rename one")
        name = ""
    if not found:
        raise FormatError(f"{path}: holds no motif; give one a line, such as `EcoRI GAATTC`")
    return found


class Constraint:
    """Which tokens may follow an output."""

    def __init__(
        self, vocabulary: PairVocabulary, motifs: Mapping[str, str], *, protein: bool, genetic_code: int
    ) -> None:
        """protein: outputs are codons that encode the source."""
        self._tokens = vocabulary.tokens
        self._words = {number: vocabulary.tokens[number] for number in range(len(SPECIAL), len(self._tokens))}
        self._motifs = Motifs(motifs)
        self._protein = protein
        table = CodonTable.unambiguous_dna_by_id[genetic_code]
        self._codons: dict[str, list[int]] = {"*": [], "X": []}
        for number, word in self._words.items():
            residue = "*" if word in table.stop_codons else table.forward_table.get(word, "")
            for letter in (residue, "X") if residue != "*" else residue:
                self._codons.setdefault(letter, []).append(number)
        self._known: dict[tuple[str, int], str | None] = {}
        self._levels: list[dict[str, Step]] = []

    def begin(self, residues: str, name: str) -> None:
        """Go to the next source. residues: of a protein. Raises: BioattnError where they force a motif, or
        nothing can be written without one."""
        self._levels = []
        if not self._protein:
            if not self._steps("", list(self._words)):
                raise BioattnError("--forbid: every token that an output could hold has one of the motifs")
            return
        reached = {""}
        for place, residue in enumerate(residues):
            level = {state: self._steps(state, self._codons[residue]) for state in reached}
            reached = {after for step in level.values() for after in step.values()}
            if not reached:
                forced = {
                    motif
                    for state in level
                    for codon in self._codons[residue]
                    for motif in self._motifs.found(state + self._words[codon])
                }
                first = max(0, place - max(map(len, level)) // 3)
                several = f"residues {first + 1:,} to {place + 1:,} ({residues[first : place + 1]}) force"
                raise BioattnError(
                    f"{name}: {several if first < place else f'residue {place + 1:,} ({residue}) forces'} the "
                    f"forbidden motif {' or '.join(sorted(forced))}; allow it, or change the protein"
                )
            self._levels.append(level)
        alive = reached
        for level in reversed(self._levels):
            for state, step in level.items():
                level[state] = {token: after for token, after in step.items() if after in alive}
            alive = {state for state, step in level.items() if step}

    def allowed(self, output: Tokens, state: str) -> Step:
        """The tokens that may follow an output, and its state behind each. state: that of the output."""
        if not self._protein:
            return {**self._steps(state, list(self._words)), EOS: state}
        place = len(output)
        if place < len(self._levels):
            return self._levels[place][state]
        stops = self._steps(state, self._codons["*"]) if place == len(self._levels) else {}
        return {**stops, EOS: state}

    def _steps(self, state: str, tokens: list[int]) -> Step:
        found = {}
        for token in tokens:
            if (state, token) not in self._known:
                text = state + self._words[token]
                self._known[state, token] = None if self._motifs.found(text) else self._motifs.state(text)
            after = self._known[state, token]
            if after is not None:
                found[token] = after
        return found


def residues_of(tokens: Tokens, vocabulary: PairVocabulary) -> str:
    return "".join("X" if token == UNKNOWN else vocabulary.tokens[token] for token in tokens.tolist())


def _pattern(motif: str) -> str:
    return "".join(f"[{ambiguous_dna_values[letter]}]" for letter in motif)


def _fits(motif: str, text: str) -> bool:
    return all(own in ambiguous_dna_values[letter] for letter, own in zip(motif, text, strict=False))
