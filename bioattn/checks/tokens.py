"""The check of models that predict tokens: what is lost with other weights, and with attended tokens replaced.

Shape suffixes: N windows, L tokens, M predicted words, W words of the vocabulary, H heads, Q queries, K keys.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks import thresholds
from bioattn.checks.deletion import STANDING_OUT, Pairs, Replacement, measure_effects, single_pairs
from bioattn.checks.engine import LikelihoodProbe, OtherWeights
from bioattn.checks.measures import Code, Question, Verdict, judge
from bioattn.checks.weights import (
    Batches,
    KnownVisible,
    MapSums,
    drawn_by,
    is_last,
    of_sample_before,
    shuffled,
    uniform,
)
from bioattn.inference.passes import require_finite
from bioattn.inference.runner import Floats
from bioattn.sequences.vocabulary import SPECIAL

CANDIDATES = 8
"""Positions of a window of which the most surprising prediction is explained."""
Tokens = NDArray[np.int64]
NOT_USED = (
    "Attention is not used to any gain: with {} weights the model predicts as well. The maps explain nothing."
)
QUESTIONS = (
    Question(
        measures=("skill",),
        asks="the model predicts",
        code=Code.NOT_PREDICTIVE,
        sentence="The model predicts no better, or hardly better, than how often words are: its attention "
        "explains nothing.",
        required=True,
    ),
    *(
        Question(
            measures=(f"{other}_weights",),
            asks="attention is used",
            code=Code.NOT_USED,
            sentence=NOT_USED.format(other),
        )
        for other in ("uniform", "shuffled")
    ),
    Question(
        measures=("other_sequences_maps",),
        asks="maps depend on the sequence",
        code=Code.POSITION_ONLY,
        sentence="Attention is used, but the maps of another sequence do as well: they say how far from a token "
        "the model looks, not at which tokens.",
    ),
    Question(
        measures=("deletion_of_other_sequences",),
        given="deletion",
        asks="maps point at tokens of their sequence",
        code=Code.POSITION_ONLY,
        sentence="Attention is used ({lost}), but the mean maps say how far from a token the model looks, not at "
        "which tokens: replacing what another sequence's map points at takes away as much.",
    ),
    Question(
        measures=("deletion", "deletion_against_mutagenesis"),
        asks="maps point at what a prediction rests on",
        code=Code.UNFAITHFUL,
        sentence="Attention is used ({lost}), but the mean maps do not point at what a prediction rests on. "
        "{sentence}",
    ),
)


class _Rows:
    """A receiver of the weights of one query of each sequence."""

    def __init__(self, query_N: Tokens, known_NL: NDArray[np.bool_]) -> None:
        self.sums = MapSums(known_NL, 1)
        self._query_N = torch.from_numpy(query_N)
        self._batches = Batches()
        self._tiles: dict[str, Tensor] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Add the weights (B, H, Q, K) of one site and batch, or tiles of its queries."""
        query = self._query_N[self._batches.rows(site, weights, tile)].to(weights.device)
        query = query - (tile.start if tile else 0)
        rows, queries = torch.arange(len(weights), device=weights.device), weights.shape[2]
        here = ((query >= 0) & (query < queries))[:, None, None]
        row = weights[rows, :, query.clamp(0, queries - 1)] * here + self._tiles.pop(site.name, 0)
        if is_last(weights, tile):
            self.sums.receive(site, row[:, :, None], None)
        else:
            self._tiles[site.name] = row


@dataclass(kw_only=True)
class TokenProbe(LikelihoodProbe):
    """Sequences of tokens, and what a model that attends to them predicts."""

    beyond = "word frequencies"
    skill_label = "share of the bits of word frequencies saved"
    noun = "window"
    instead = (
        "Look at heads one by one, which may be better: `bioattn explain heads {model} {dataset} -o heads`."
    )
    aligns: ClassVar[bool] = False
    """Whether predictions are of another sequence than the tokens: maps are then alignments, each for its own two
    sequences, which no other two can take over."""

    loaded: Any
    tokens_NL: Tokens
    """What is attended to: special tokens, words, padding."""
    words_NM: Tokens
    """The true words that are predicted, from 0; -1 for none."""
    sites: tuple[str, ...] = ("*",)
    """Patterns of the sites at which predictions attend to these tokens."""

    @property
    @abstractmethod
    def known_NL(self) -> NDArray[np.bool_]:  # noqa: N802
        """False for padding."""

    @property
    @abstractmethod
    def num_words(self) -> int:
        """Words of the vocabulary."""

    @property
    def hidden(self) -> int | None:
        """The token that stands for a hidden word; None for a model that knows none."""
        return None

    @property
    def causal(self) -> bool:
        """Whether no token behind that which predicts is attended to."""
        return False

    @abstractmethod
    def draw_positions(self, random: np.random.Generator) -> Tokens:
        """A position (N,) of each sequence whose word may be explained."""

    @abstractmethod
    def queries(self, position_N: Tokens) -> Tokens:
        """The query (N,) that predicts the word at a position."""

    @abstractmethod
    def exchangeable(self, position_N: Tokens) -> NDArray[np.bool_]:
        """Words (N, L) that reach the prediction at a position by attention alone."""

    @abstractmethod
    def true_log_likelihoods(self) -> Floats:
        """ln of the probability of the true words, (N, M); 0 for none."""

    @abstractmethod
    def word_log_likelihoods(self, tokens_NL: Tokens, row_N: Tokens, position_N: Tokens) -> Floats:
        """ln of the probability of every word at one position, (N, W), with other tokens in the sequences
        `row_N`."""

    @property
    def record(self) -> Mapping[str, Any]:
        return {"windows": len(self.ids), "tokens_per_window": self.tokens_NL.shape[1]}

    def log_likelihoods(self) -> Floats:
        return np.asarray(self.true_log_likelihoods().sum(1))

    def simple_log_likelihoods(self) -> Mapping[str, Floats]:
        likely_NM = np.where(self.words_NM >= 0, self._frequencies()[self.words_NM], 0.0)
        return {self.beyond: np.asarray(likely_NM.sum(1))}

    def _frequencies(self) -> Floats:
        """ln of how often each word is among those that are predicted, none never."""
        counts_W = np.bincount(self.words_NM[self.words_NM >= 0], minlength=self.num_words) + 1.0
        return np.asarray(np.log(counts_W / counts_W.sum()))

    def skill_sentence(self, own_N: Floats, plain_N: Floats) -> str:
        number = (self.words_NM >= 0).sum()
        own, plain = (-float(each.sum()) / number / np.log(2) for each in (own_N, plain_N))
        needs = f"On {self.counted()} the model needs {own:.3f} bits per token"
        return f"{needs}, the frequencies of words alone {plain:.3f}."

    def other_weights(self) -> Iterator[OtherWeights]:
        visible = KnownVisible(self.known_NL, causal=self.causal)
        alike = "Made to attend to all visible tokens alike"
        likely = self.with_weights(self.sites, uniform(visible))
        yield OtherWeights("uniform_weights", "uniform weights", alike, likely, thresholds.USED)
        if self.aligns:
            other = shuffled(KnownVisible(self.known_NL), drawn_by(self.settings.seed))
            name, label, what = "shuffled_weights", "shuffled weights", "Given its weights in random order"
        else:
            other, name = of_sample_before, "other_sequences_maps"
            label, what = "another sequence's maps", "Given the maps of another sequence"
        yield OtherWeights(name, label, what, self.with_weights(self.sites, other), thresholds.SWAPPED)

    def point(self) -> None:
        """Add the effects of replacing the tokens that a prediction attends to. Of each window one prediction is
        explained, of its later half where that is all the model sees."""
        number, length = self.tokens_NL.shape
        random = np.random.default_rng([self.settings.seed, 1])
        position_N, word_N, deviation_N = self._explained(random)
        map_NL = self._maps(position_N)
        known_NL = self.exchangeable(position_N)

        def predictions(pairs: Pairs, tokens_NL: Tokens) -> Floats:
            row_N = pairs.sample_N
            likely_NW = self.word_log_likelihoods(tokens_NL, row_N, position_N[row_N])
            require_finite(likely_NW, "predictions")
            return likely_NW[np.arange(len(row_N)), word_N[row_N]]

        edges = tuple(range(length + 1))
        replacement = Replacement(
            predictions=predictions, codes_BL=self.tokens_NL, known_BP=known_NL, edges=edges
        )
        pairs = single_pairs(
            np.sort(np.argsort(-deviation_N, kind="stable")[: max(1, round(STANDING_OUT * number))])
        )
        backgrounds = self._backgrounds(known_NL)
        scores = {"own": map_NL[pairs.sample_N]}
        if not self.aligns:
            # The map of the next window, moved so that the explained positions lie on each other.
            steps = position_N - np.roll(position_N, -1)
            moved = [np.roll(each, step) for each, step in zip(np.roll(map_NL, -1, 0), steps, strict=True)]
            scores["other"] = np.stack(moved)[pairs.sample_N]
        effects = measure_effects(self, replacement, pairs, scores, backgrounds, curves=True)
        self.curves = effects.curves()
        self.add(
            "deletion",
            "deletion: most attended tenth, beyond a random tenth",
            effects.share_gained("own", "random"),
            f"Replacing the most attended tenth of the tokens takes away {effects.percent('own')} of what "
            f"replacing all would take from a prediction, a random tenth {effects.percent('random')}.",
            thresholds.POINTED,
        )
        if not self.aligns:
            self.add(
                "deletion_of_other_sequences",
                "deletion: own map, beyond another sequence's",
                effects.share_gained("own", "other"),
                f"Where another sequence is attended to most, replacing takes away {effects.percent('other')}.",
                thresholds.OWN_MAP,
            )
        own = pairs.kept(random.permutation(len(pairs.sample_N)) < self.settings.num_mutated)
        scores = {
            "own": map_NL[own.sample_N],
            "mutagenesis": _single_effects(replacement, own, backgrounds[0]),
        }
        effects = measure_effects(self, replacement, own, scores, backgrounds)
        self.add(
            "deletion_against_mutagenesis",
            "deletion: what maps find of what replacing tokens one by one finds",
            effects.recovered("own", "mutagenesis"),
            "Of what the tenth chosen by replacing tokens one by one takes away beyond a random tenth "
            f"({effects.percent('mutagenesis', 'random')}), the most attended tenth takes away {{share}}.",
            thresholds.FOUND,
        )

    def _explained(self, random: np.random.Generator) -> tuple[Tokens, Tokens, Floats]:
        """Of each window the position whose prediction differs most from word frequencies among `CANDIDATES`, the
        likeliest word there, and ln of how much likelier it is than usual, (N,) each."""
        number = len(self.ids)
        frequency_W = self._frequencies()
        best = np.zeros((3, number))
        best[2] = -np.inf
        for _ in range(CANDIDATES):
            position_N = self.draw_positions(random)
            likely_NW = self.word_log_likelihoods(self.tokens_NL, np.arange(number), position_N)
            word_N = likely_NW.argmax(1)
            deviation_N = likely_NW.max(1) - frequency_W[word_N]
            best = np.where(deviation_N > best[2], [position_N, word_N, deviation_N], best)
        return best[0].astype(np.int64), best[1].astype(np.int64), best[2]

    def _maps(self, position_N: Tokens) -> Floats:
        """Weights (N, L) of the query of a position, mean over sites and heads; also adds entropies of heads."""
        number, length = self.tokens_NL.shape
        query_N = self.queries(position_N)
        seen_NL = (np.arange(length) <= query_N[:, None]) if self.causal else self.known_NL
        rows = _Rows(query_N, seen_NL)
        known = [name for name, site in self.loaded.sites.items() if site.axis("query") is not None]
        sites = [name for name in known if any(fnmatchcase(name, pattern) for pattern in self.sites)]
        with capture(sites, rows):
            self.word_log_likelihoods(self.tokens_NL, np.arange(number), position_N)
        self.heads = rows.sums.spreads()
        self.measures.add_entropy([head.entropy for head in self.heads])
        return np.asarray(rows.sums.mean()[:, 0].astype(np.float64))

    def _backgrounds(self, known_NL: NDArray[np.bool_]) -> Sequence[Tokens]:
        """What replaces tokens: the hidden one, or several draws of the sequence's own words in another order."""
        if self.hidden is not None:
            return [np.where(known_NL, self.hidden, self.tokens_NL)]
        backgrounds = []
        for draw in range(self.settings.backgrounds):
            shuffled_NL, random = self.tokens_NL.copy(), np.random.default_rng([self.settings.seed, 4, draw])
            for tokens in shuffled_NL:
                tokens[tokens >= len(SPECIAL)] = random.permutation(tokens[tokens >= len(SPECIAL)])
            backgrounds.append(shuffled_NL)
        return backgrounds

    def verdict(self) -> Verdict:
        depends = "" if self.aligns else ", depends on the sequence,"
        sentence = f"Attention is used ({{lost}}){depends} and points at what the predictions rest on."
        caveats = {
            "Whether a model that was trained without attention would predict as well was not tested.": True,
            "Maps are means over layers and heads of what the predicting token attends to; a single head may be "
            "better or worse (explain heads).": True,
            "Whether the model was trained on these sequences is not known: its own dataset was not given.": not (
                self.evidence.dataset or self.held_out
            ),
        }
        return judge(self.measures, QUESTIONS, (Code.USED, Code.FAITHFUL, sentence), caveats)


def _single_effects(replacement: Replacement, pairs: Pairs, background_NL: Tokens) -> Floats:
    """What replacing each token alone takes from a prediction, (pairs, L)."""
    tokens_NL, known_NL = replacement.codes_BL, replacement.known_BP
    effects = np.zeros((len(pairs.sample_N), tokens_NL.shape[1]))
    before = replacement.predictions(pairs, tokens_NL[pairs.sample_N])
    for row, window in enumerate(pairs.sample_N.tolist()):
        positions = np.flatnonzero(known_NL[window])
        copies = np.tile(tokens_NL[window], (len(positions), 1))
        copies[np.arange(len(positions)), positions] = background_NL[window, positions]
        own = single_pairs(np.full(len(positions), window))
        effects[row, positions] = before[row] - replacement.predictions(own, copies)
    return effects
