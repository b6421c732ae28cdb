"""Outputs of a model: the likeliest ones by beam search, draws, and how likely given ones are.

Shape suffixes: B outputs that are written at once, V tokens of the vocabulary.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bioattn.models.translation.batches import IGNORED, PairSource, batch_of, with_ends
from bioattn.models.translation.folder import LoadedTranslator
from bioattn.models.translation.inference.constraints import Constraint, residues_of
from bioattn.sequences.pairs import Pair, Tokens
from bioattn.sequences.vocabulary import CLS, EOS, SPECIAL
from bioattn.system.progress import SILENT, Progress

MOST_FOR_EACH = 4
"""Tokens of an output at most, for each of the source (three bases a codon), and as many again as `MOST_MORE`."""
MOST_MORE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How outputs are found."""

    beam: int = 1
    """Outputs that are followed at once; 1 takes the likeliest token at each step."""
    samples: int = 0
    """Outputs to draw; 0: search."""
    length_penalty: float = 0.6
    """α of ((5 + tokens) / 6)^α, by which log-likelihoods are divided (Wu et al. 2016); 0: not at all."""
    temperature: float = 1.0
    top_p: float = 1.0
    """Draws are from the smallest set of tokens that holds this much probability."""
    longest: int | None = None
    """Most tokens of an output."""


@dataclass(slots=True)
class Output:
    tokens: list[int] = field(default_factory=list)
    """Words; `<eos>` is left out."""
    log_likelihood: float = 0.0
    """Of the words and `<eos>`, natural logarithm, without regard to constraints."""
    state: str = ""
    """That of the constraint."""
    ended: bool = False

    def score(self, length_penalty: float) -> float:
        return float(self.log_likelihood / ((6 + len(self.tokens)) / 6) ** length_penalty)


@torch.inference_mode()
def translate(
    loaded: LoadedTranslator,
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
        constraint.begin(residues_of(source, loaded.model.source), name)
    if search.samples:
        return _extended(loaded, source, search, search.samples, constraint, generator)
    found = _extended(loaded, source, search, search.beam, constraint, None)
    if search.beam > 1:
        found += _extended(loaded, source, search, 1, constraint, None)
    unlike = {tuple(each.tokens): each for each in found}
    return sorted(unlike.values(), key=lambda each: -each.score(search.length_penalty))[: search.beam]


def _extended(
    loaded: LoadedTranslator,
    source: Tokens,
    search: Search,
    width: int,
    constraint: Constraint | None,
    generator: torch.Generator | None,
) -> list[Output]:
    """Up to `width` outputs; drawn with a generator, else searched."""
    model, device = loaded.model, loaded.device
    longest = search.longest or MOST_FOR_EACH * len(source) + MOST_MORE
    state = model.begin(torch.from_numpy(with_ends(source))[None].to(device))
    live, done = [Output()], list[Output]()
    if generator is not None:
        live = [Output() for _ in range(width)]
        state = state.chosen(torch.zeros(width, dtype=torch.int64, device=device))
    for step in range(longest + 1):
        last_B1 = torch.tensor([each.tokens[-1:] or [CLS] for each in live], device=device)
        likely_BV = model.advance(last_B1, state)[:, -1].float().log_softmax(-1).cpu().double()
        allowed = [_allowed(each, constraint, step == longest, likely_BV.shape[1]) for each in live]
        kept_BV = torch.full_like(likely_BV, -torch.inf)
        for row, (tokens, _) in enumerate(allowed):
            kept_BV[row, tokens] = likely_BV[row, tokens]
        if generator is not None:
            chosen = list(enumerate(_drawn(kept_BV, search, generator)))
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
                allowed[row][1].get(token, ""),
                token == EOS,
            )
            if after.ended:
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


def _allowed(
    output: Output, constraint: Constraint | None, is_last: bool, num_tokens: int
) -> tuple[list[int], dict[int, str]]:
    """Tokens that may follow, and the state of the constraint behind each."""
    if constraint is not None:
        step = constraint.allowed(np.array(output.tokens), output.state)
        return ([EOS] if is_last and EOS in step else list(step)), step
    return ([EOS] if is_last else [EOS, *range(len(SPECIAL), num_tokens)]), {}


def _drawn(kept_BV: Tensor, search: Search, generator: torch.Generator) -> list[int]:
    """One token of each row; drawn on the CPU, so that every device draws the same."""
    if search.temperature < 1e-6:  # as 0; logits divided by less would overflow
        return [int(each) for each in kept_BV.argmax(-1)]
    ordered_BV, place_BV = (
        (kept_BV / search.temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    )
    before_BV = ordered_BV.cumsum(-1) - ordered_BV
    ordered_BV = ordered_BV.masked_fill(before_BV >= search.top_p, 0.0)
    drawn_B1 = torch.multinomial(ordered_BV, 1, generator=generator)
    return [int(each) for each in place_BV.gather(-1, drawn_B1)]


@torch.inference_mode()
def log_probabilities(loaded: LoadedTranslator, pairs: Sequence[Pair]) -> list[Tensor]:
    """Of each pair ln of the probabilities (T, V) of every token of its target and of `<eos>` behind it, given the
    true ones before, as float64 on the CPU."""
    batch = batch_of(pairs).to(loaded.device)
    logits_BTV = loaded.model(batch.source_BS, batch.prefix_BT)
    likely_BTV = logits_BTV.double().log_softmax(-1).cpu()
    return [likely_BTV[row, : len(pair.target) + 1] for row, pair in enumerate(pairs)]


def given_score(loaded: LoadedTranslator, pair: Pair) -> tuple[int, float, int]:
    """Tokens of a given target (with `<eos>`, without unknown ones), ln of its likelihood, and how many of them
    the model takes for the likeliest."""
    (likely_TV,) = log_probabilities(loaded, [pair])
    wanted_T = batch_of([pair]).wanted_BT[0]
    known = wanted_T != IGNORED
    own = likely_TV[known].gather(-1, wanted_T[known][:, None])
    right = likely_TV[known].argmax(-1) == wanted_T[known]
    return int(known.sum()), float(own.sum()), int(right.sum())


OUTPUT_COLUMNS = ("id", "rank", "tokens", "log_likelihood", "score", "sequence")
GIVEN_COLUMNS = ("id", "tokens", "log_likelihood", "perplexity", "accuracy")


def output_rows(
    loaded: LoadedTranslator,
    sources: Mapping[str, Tokens],
    search: Search,
    constraint: Constraint | None,
    generator: torch.Generator | None,
    number: int,
    progress: Progress = SILENT,
) -> Iterator[tuple[str, int, int, float, float, str]]:
    """The cells of `OUTPUT_COLUMNS` of the `number` best outputs, or of all draws, of every source."""
    for name, source in sources.items():
        found = translate(loaded, source, search, name, constraint, generator)
        for rank, output in enumerate(found[: search.samples or number], start=1):
            text = loaded.model.target.text(np.array(output.tokens, dtype=np.int64))
            score = output.score(search.length_penalty)
            yield name, rank, len(output.tokens), float(output.log_likelihood), score, text
        progress.advance(1)


def given_rows(loaded: LoadedTranslator, given: PairSource) -> Iterator[tuple[str, int, float, float, float]]:
    """The cells of `GIVEN_COLUMNS` of given outputs."""
    for name, pair in zip(given.ids, given.pairs, strict=True):
        tokens, likely, right = given_score(loaded, pair)
        yield name, tokens, likely, math.exp(min(700.0, -likely / tokens)), right / tokens
