"""Outputs of a model: the likeliest ones by beam search, draws, and how likely given ones are.

They may have to keep to codons of given residues, and to motifs that may stand on neither strand. Of a protein all
choices are searched before the first codon is written, so that no output ends in a dead end.

Shape suffixes: B outputs that are written at once, V tokens of the vocabulary.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from Bio.Data import CodonTable
from Bio.Data.IUPACData import ambiguous_dna_values
from Bio.Seq import reverse_complement

from bioattn.errors import BioattnError, FormatError
from bioattn.inference.passes import IGNORED, drawn_tokens
from bioattn.io.files import read_lines
from bioattn.models.translation.batches import batch_of, with_ends
from bioattn.models.translation.family import Search
from bioattn.sequences.pairs import Pair, PairVocabulary, Tokens
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL, UNKNOWN
from bioattn.system.progress import SILENT, Progress, watched

if TYPE_CHECKING:
    from bioattn.models.translation.run import LoadedTranslator

MOST_FOR_EACH = 4
"""Tokens of an output at most, for each of the source (three bases a codon), and as many again as `MOST_MORE`."""
MOST_MORE = 10
Step = dict[int, str]
"""Tokens that may be written in a state, and the state behind each; a state is what may begin a motif."""


class Motifs:
    """Forbidden motifs in IUPAC letters, on either strand."""

    def __init__(self, motifs: Sequence[tuple[str, str]]) -> None:
        """motifs: name and letters, upper case."""
        self.strands = [
            (name, each)
            for name, motif in motifs
            for each in dict.fromkeys((motif, reverse_complement(motif)))
        ]
        self._patterns = [
            (name, re.compile("".join(f"[{ambiguous_dna_values[letter]}]" for letter in each)))
            for name, each in self.strands
        ]
        self._longest = max((len(each) for _, each in self.strands), default=1) - 1

    def found(self, text: str) -> list[str]:
        return list(dict.fromkeys(name for name, pattern in self._patterns if pattern.search(text)))

    def state(self, text: str) -> str:
        """The longest end of a text with which a motif may begin."""
        for length in range(min(self._longest, len(text)), 0, -1):
            end = text[-length:]
            for _, motif in self.strands:
                fits = all(own in ambiguous_dna_values[one] for one, own in zip(motif, end, strict=False))
                if fits and len(motif) > length:
                    return end
        return ""


def read_motifs(path: Path) -> list[tuple[str, str]]:
    """Names and letters of the motifs of a FASTA file, or of lines `NAME MOTIF` or `MOTIF`."""
    found: list[tuple[str, str]] = []
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
        found.append((words[0] if len(words) > 1 else name or motif, motif))
        name = ""
    if not found:
        raise FormatError(f"{path}: holds no motif; give one a line, such as `EcoRI GAATTC`")
    return found


class Constraint:
    """Which tokens may follow an output."""

    def __init__(
        self, vocabulary: PairVocabulary, motifs: Motifs, *, protein: bool, genetic_code: int
    ) -> None:
        """protein: outputs are codons that encode the source."""
        self._words = dict(enumerate(vocabulary.tokens[len(SPECIAL) :], start=len(SPECIAL)))
        self._motifs = motifs
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

    def allowed(self, place: int, state: str) -> Step:
        """The tokens that may follow an output of `place` tokens in this state, and its state behind each."""
        if not self._protein:
            return {**self._steps(state, list(self._words)), EOS: state}
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


@dataclass(slots=True)
class Output:
    tokens: list[int] = field(default_factory=list)
    """Words; `<eos>` is left out."""
    log_likelihood: float = 0.0
    """Of the words and `<eos>`, natural logarithm, without regard to constraints."""
    state: str = ""
    """That of the constraint."""

    def score(self, length_penalty: float) -> float:
        return float(self.log_likelihood / ((6 + len(self.tokens)) / 6) ** length_penalty)


@torch.inference_mode()
def translate(
    loaded: "LoadedTranslator",
    source: Tokens,
    search: Search,
    name: str,
    constraint: Constraint | None = None,
    generator: torch.Generator | None = None,
) -> list[Output]:
    """Outputs for a source (words), best first; draws in the order of drawing.

    A beam search never gives less than following the likeliest token alone would.

    Raises: BioattnError when no output can keep to the constraint.
    """
    if constraint is not None:
        words = loaded.model.source.tokens
        constraint.begin("".join("X" if t == UNKNOWN else words[t] for t in source.tolist()), name)
    if search.samples:
        return _extended(loaded, source, search, search.samples, constraint, generator)
    found = _extended(loaded, source, search, search.beam, constraint, None)
    if search.beam > 1:
        found += _extended(loaded, source, search, 1, constraint, None)
    unlike = {tuple(each.tokens): each for each in found}
    return sorted(unlike.values(), key=lambda each: -each.score(search.length_penalty))[: search.beam]


def _extended(
    loaded: "LoadedTranslator",
    source: Tokens,
    search: Search,
    width: int,
    constraint: Constraint | None,
    generator: torch.Generator | None,
) -> list[Output]:
    """Up to `width` outputs; drawn with a generator, else searched."""
    model, device = loaded.model, loaded.device
    longest = search.length or MOST_FOR_EACH * len(source) + MOST_MORE
    state = model.begin(torch.from_numpy(with_ends(source))[None].to(device))
    live, done = [Output()], list[Output]()
    if generator is not None:
        live = [Output() for _ in range(width)]
        state = state.chosen(torch.zeros(width, dtype=torch.int64, device=device))
    for step in range(longest + 1):
        last_B1 = torch.tensor([each.tokens[-1:] or [CLS] for each in live], device=device)
        likely_BV = model.advance(last_B1, state)[:, -1].float().log_softmax(-1).cpu().double()
        free = dict.fromkeys([EOS, *range(len(SPECIAL), likely_BV.shape[1])], "")
        allowed = [
            free if constraint is None else constraint.allowed(len(each.tokens), each.state) for each in live
        ]
        kept_BV = torch.full_like(likely_BV, -torch.inf)
        for row, following in enumerate(allowed):
            tokens = [EOS] if step == longest and EOS in following else list(following)
            kept_BV[row, tokens] = likely_BV[row, tokens]
        if generator is not None:
            drawn_B = drawn_tokens(kept_BV, search.temperature, search.top_p, generator)
            chosen = list(enumerate(drawn_B.tolist()))
        else:
            total_BV = kept_BV + torch.tensor([[each.log_likelihood] for each in live])
            best = total_BV.flatten().topk(min(2 * width, int(kept_BV.isfinite().sum())))
            chosen = [divmod(place, total_BV.shape[1]) for place in best.indices.tolist()]
        followed: list[Output] = []
        rows: list[int] = []
        for place, (row, token) in enumerate(chosen):
            before = live[row]
            after = Output(
                before.tokens + ([] if token == EOS else [token]),
                before.log_likelihood + float(likely_BV[row, token]),
                allowed[row].get(token, ""),
            )
            if token == EOS:
                done += [after] if place < width else []  # behind them, others are as likely
            elif len(followed) < width:
                followed.append(after)
                rows.append(row)
        if not followed or (generator is None and len(done) >= width):
            break
        live = followed
        if rows != list(range(len(state.known_BS))):
            state = state.chosen(torch.tensor(rows, device=device))
    return done


@torch.inference_mode()
def given_score(loaded: "LoadedTranslator", pair: Pair) -> tuple[int, float, int]:
    """Tokens of a given target (with `<eos>`, without unknown ones), ln of its likelihood, and how many of them
    the model takes for the likeliest."""
    batch = batch_of([pair]).to(loaded.device)
    likely_TV = loaded.model(batch.source_BS, batch.prefix_BT)[0].double().log_softmax(-1)
    wanted_T = batch.wanted_BT[0]
    known = wanted_T != IGNORED
    own = likely_TV[known].gather(-1, wanted_T[known][:, None])
    right = likely_TV[known].argmax(-1) == wanted_T[known]
    return int(known.sum()), float(own.sum()), int(right.sum())


OUTPUT_COLUMNS = ("id", "rank", "tokens", "log_likelihood", "score", "sequence")
GIVEN_COLUMNS = ("id", "tokens", "log_likelihood", "perplexity", "accuracy")


def output_rows(
    loaded: "LoadedTranslator",
    sources: Mapping[str, Tokens],
    search: Search,
    constraint: Constraint | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[str, int, int, float, float, str]]:
    """The cells of `OUTPUT_COLUMNS` of the best outputs, or of all draws, of every source."""
    generator = torch.Generator().manual_seed(search.seed) if search.samples else None
    for name, source in watched(progress, "sources", sources.items()):
        outputs = translate(loaded, source, search, name, constraint, generator)
        for rank, output in enumerate(outputs[: search.samples or search.number], start=1):
            text = loaded.model.target.text(np.array(output.tokens, dtype=np.int64))
            score = output.score(search.length_penalty)
            yield name, rank, len(output.tokens), float(output.log_likelihood), score, text


def given_rows(
    loaded: "LoadedTranslator", pairs: Mapping[str, Pair], progress: Progress = SILENT
) -> Iterator[tuple[str, int, float, float, float]]:
    """The cells of `GIVEN_COLUMNS` of given outputs."""
    for name, pair in watched(progress, "pairs", pairs.items()):
        tokens, likely, right = given_score(loaded, pair)
        yield name, tokens, likely, math.exp(min(700.0, -likely / tokens)), right / tokens
