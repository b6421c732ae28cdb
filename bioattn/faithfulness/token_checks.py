"""The checks of models that predict tokens: what they lose with other weights, and with attended tokens replaced.

As for promoter models, each question presupposes the one before: does the model predict more than how often words
are, does it use its attention, does that depend on the sequence, and does it point at what a prediction rests on?

Shape suffixes: N windows, L tokens, M predicted places, W words, H heads, Q queries, K keys, R resamples.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import Substitution, capture, substitute
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError
from bioattn.faithfulness import thresholds
from bioattn.faithfulness.gain_and_shape import other_promoters
from bioattn.faithfulness.maps import AttentionMaps, MapSums
from bioattn.faithfulness.measures import Measures, OtherWeights, add_lost_skill, of_it, percent
from bioattn.faithfulness.perturbation import (
    JUDGED,
    STANDING_OUT,
    Pairs,
    Replacement,
    measure_effects,
    ratio_of_sums,
)
from bioattn.faithfulness.pointing_checks import Curves, curves
from bioattn.faithfulness.subject import RESAMPLES, CheckSettings
from bioattn.faithfulness.verdict import Code, Verdict
from bioattn.inference.finite import finite_results, require_finite
from bioattn.inference.runner import Floats, TokenProbe, TokenRunner
from bioattn.promoters.response_metrics import Estimate, estimate
from bioattn.sequences.vocabulary import SPECIAL
from bioattn.system.progress import Progress
from bioattn.system.signals import StopRequest
from bioattn.text import counted

MIN_WINDOWS = 20
CANDIDATES = 8
"""Places of a window of which the most surprising prediction is explained."""
Tokens = NDArray[np.int64]


class UniformTokens:
    """Uniform weights over the tokens that a query may attend to; for one pass over all sequences, in order."""

    def __init__(self, probe: TokenProbe) -> None:
        self._causal = probe.causal
        self._known_NL = torch.from_numpy(probe.known_NL)
        self._done: dict[str, int] = {}

    def __call__(self, site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        """Uniform weights (B, H, Q, K)."""
        visible_BHQK = self._visible(site, weights, tile)
        return visible_BHQK / visible_BHQK.sum(-1, keepdim=True)

    def _visible(self, site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        """1 for the tokens that may be attended to, else 0, (B, H, Q, K)."""
        first = self._done.get(site.name, 0)
        if _is_last(weights, tile):
            self._done[site.name] = first + len(weights)
        visible_BHQK = self._known_NL[first : first + len(weights), None, None].to(weights).expand_as(weights)
        return visible_BHQK.tril() if self._causal else visible_BHQK


class ShuffledTokens(UniformTokens):
    """The weights of each query and head in random order among the tokens that may be attended to."""

    def __init__(self, probe: TokenProbe, seed: int) -> None:
        super().__init__(probe)
        self._random = np.random.default_rng([seed, 5])

    def __call__(self, site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
        """Shuffled weights (B, H, Q, K); padding, which stands last, keeps its own."""
        visible_BHQK = self._visible(site, weights, tile)
        drawn = torch.from_numpy(self._random.random(weights.shape)).to(weights.device)
        return weights.gather(-1, (drawn - visible_BHQK).argsort(-1))


class _Rows:
    """A receiver of the weights of one query of each sequence."""

    def __init__(self, query_N: Tokens, known_NL: NDArray[np.bool_]) -> None:
        self.sums = MapSums(known_NL, 1)
        self._query_N = torch.from_numpy(query_N)
        self._done: dict[str, int] = {}
        self._tiles: dict[str, Tensor] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        """Add the weights (B, H, Q, K) of one site and batch, or tiles of its queries."""
        first = self._done.get(site.name, 0)
        query = self._query_N[first : first + len(weights)].to(weights.device) - (tile.start if tile else 0)
        rows, queries = torch.arange(len(weights), device=weights.device), weights.shape[2]
        here = ((query >= 0) & (query < queries))[:, None, None]
        own = weights[rows, :, query.clamp(0, queries - 1)] * here + self._tiles.pop(site.name, 0)
        if _is_last(weights, tile):
            self._done[site.name] = first + len(weights)
            self.sums.receive(site, own[:, :, None], None)
        else:
            self._tiles[site.name] = own


def _is_last(weights: Tensor, tile: Tile | None) -> bool:
    return tile is None or tile.start + weights.shape[-2] == tile.total


def check_token_windows(
    model: TokenRunner,
    sequences: Path,
    dataset: Path | None,
    settings: CheckSettings,
    measures: Measures,
    progress: Progress,
    stop: StopRequest,
) -> tuple[TokenProbe, AttentionMaps | None, Curves]:
    """Add all measures. Returns the windows, the maps of the explained predictions, and curves of deletion.

    dataset: its held-out windows say how much is predicted, and lost with other weights; None: `sequences` do.

    Raises: BioattnError for too few windows, or predictions that are not finite.
    """
    probe = model.token_probe(sequences, settings.samples, settings.seed)
    judged = probe if dataset is None else model.token_probe(dataset, settings.samples, settings.seed)
    for path, each in ((sequences, probe), (dataset, judged)):
        if len(each.ids) < MIN_WINDOWS:
            raise BioattnError(
                f"{path}: gives {counted(len(each.ids), _noun(each))} of known letters; the checks need "
                f"{MIN_WINDOWS} or more to say anything"
            )
    with finite_results("explain check", model.path):
        _check_weights(model, judged, settings, measures)
        if measures.passed("skill") is False:
            return probe, None, {}
        return probe, *_check_pointing(model, probe, settings, measures, progress, stop)


def _frequencies(probe: TokenProbe) -> Floats:
    """ln of how often each word is among those that are predicted, none never."""
    words_NM = probe.words_NM
    counts_W = np.bincount(words_NM[words_NM >= 0], minlength=probe.num_words) + 1.0
    return np.asarray(np.log(counts_W / counts_W.sum()))


def _check_weights(
    model: TokenRunner, probe: TokenProbe, settings: CheckSettings, measures: Measures
) -> None:
    """Add the skill, and what of it uniform and shuffled weights, or other sequences' maps, leave."""
    there_NM = probe.words_NM >= 0
    plain_N = np.where(there_NM, _frequencies(probe)[probe.words_NM], 0.0).sum(1)

    def total(listening: AbstractContextManager[object]) -> Floats:
        with listening:
            likely_NM = probe.log_likelihoods()
        require_finite(likely_NM, "predictions")
        return np.asarray(likely_NM.sum(1))

    own_N = total(nullcontext())

    over_windows = partial(estimate, num_genes=len(probe.ids), resamples=RESAMPLES, seed=settings.seed)
    skill = over_windows(ratio_of_sums(own_N - plain_N, -plain_N))
    bits = [-float(each.mean()) * len(plain_N) / there_NM.sum() / np.log(2) for each in (own_N, plain_N)]
    measures.add(
        "skill",
        "share of the bits of word frequencies saved",
        skill,
        f"On {counted(len(probe.ids), f'{probe.held_out} {_noun(probe)}'.strip())} the model needs "
        f"{bits[0]:.3f} bits per token, the frequencies of words alone {bits[1]:.3f}.",
        least=thresholds.SAVED,
    )
    other = (
        OtherWeights(
            "shuffled_weights",
            "shuffled weights",
            ShuffledTokens(probe, settings.seed),
            "given its weights in random order",
            thresholds.SWAPPED,
        )
        if probe.aligns
        else OtherWeights(
            "other_sequences_maps",
            "another sequence's maps",
            other_promoters,
            "given the maps of another sequence",
            thresholds.SWAPPED,
        )
    )
    uniform = OtherWeights(
        "uniform_weights",
        "uniform weights",
        UniformTokens(probe),
        "made to attend to all visible tokens alike",
        thresholds.USED,
    )

    def lost(substitution: Substitution) -> Estimate:
        lost_N = own_N - total(substitute(probe.sites, substitution))
        return over_windows(ratio_of_sums(lost_N, own_N - plain_N))

    why_not = None if measures.passed("skill") else "the model predicts too little to have anything to lose"
    add_lost_skill(measures, (uniform, other), lost, "word frequencies", why_not)


def _check_pointing(
    model: TokenRunner,
    probe: TokenProbe,
    settings: CheckSettings,
    measures: Measures,
    progress: Progress,
    stop: StopRequest,
) -> tuple[AttentionMaps, Curves]:
    """Add the effects of replacing the tokens that a prediction attends to. Of each window one prediction is
    explained, of its later half where that is all the model sees."""
    number, length = probe.tokens_NL.shape
    random = np.random.default_rng([settings.seed, 1])
    place_N, word_N, deviation_N = _explained(probe, random)
    query_N, known_NL = probe.queries(place_N), probe.exchangeable(place_N)
    rows = _Rows(query_N, (np.arange(length) <= query_N[:, None]) if probe.causal else probe.known_NL)
    sites = [
        name
        for name, site in model.sites.items()
        if site.axis("query") is not None and any(fnmatchcase(name, each) for each in probe.sites)
    ]
    with capture(sites, rows):
        probe.word_log_likelihoods(probe.tokens_NL, np.arange(number), place_N)
    maps = AttentionMaps(
        mean_BTP=rows.sums.mean_BTP / np.float32(len(sites)),
        known_BP=known_NL,
        edges=tuple(range(length + 1)),
        heads=rows.sums.spreads(),
    )
    measures.add_entropy([head.entropy for head in maps.heads])

    def answers(pairs: Pairs, tokens_NL: Tokens) -> Floats:
        own_N = pairs.promoter_N
        likely_NW = probe.word_log_likelihoods(tokens_NL, own_N, place_N[own_N])
        require_finite(likely_NW, "predictions")
        return likely_NW[np.arange(len(own_N)), word_N[own_N]]

    replacement = Replacement(
        predictions=answers, codes_BL=probe.tokens_NL, known_BP=known_NL, edges=maps.edges
    )
    chosen_N = np.sort(np.argsort(-deviation_N, kind="stable")[: max(1, round(STANDING_OUT * number))])
    pairs = Pairs(chosen_N, np.zeros_like(chosen_N), np.ones(len(chosen_N)))
    backgrounds = _backgrounds(probe, known_NL, settings)
    map_NL = maps.mean_BTP[:, 0].astype(np.float64)

    effects_of = partial(
        measure_effects,
        replacement,
        backgrounds=backgrounds,
        seed=settings.seed,
        progress=progress,
        stop=stop,
    )
    scores = {"own": map_NL[chosen_N]}
    if not probe.aligns:
        scores["other"] = _other_maps(map_NL, place_N)[chosen_N]
    effects = effects_of(pairs, scores, curves=["own"])

    over_windows = partial(estimate, num_genes=number, resamples=RESAMPLES, seed=settings.seed)
    measures.add(
        "deletion",
        "deletion: most attended tenth, beyond a random tenth",
        over_windows(effects.share_gained("own", "random", number)),
        f"Replacing the most attended tenth of the tokens takes away {percent(effects.value('own'))} of what "
        f"replacing all would take from a prediction, a random tenth {percent(effects.value('random'))}.",
        least=thresholds.POINTED,
    )
    if not probe.aligns:
        measures.add(
            "deletion_of_other_sequences",
            "deletion: own map, beyond another sequence's",
            over_windows(effects.share_gained("own", "other", number)),
            f"Where another sequence is attended to most, replacing takes away {percent(effects.value('other'))}.",
            least=thresholds.OWN_MAP,
        )
    own = pairs.kept(random.permutation(len(chosen_N)) < settings.mutated)
    single_NL = _single_effects(answers, own, probe.tokens_NL, backgrounds[0], known_NL)
    found = effects_of(own, {"own": map_NL[own.promoter_N], "mutagenesis": single_NL})
    share = over_windows(found.recovered("own", "mutagenesis", "random", number))
    measures.add(
        "deletion_against_mutagenesis",
        "deletion: what maps find of what replacing tokens one by one finds",
        share,
        "Of what the tenth chosen by replacing tokens one by one takes away beyond a random tenth "
        f"({percent(found.value('mutagenesis') - found.value('random'))}), the most attended tenth takes away "
        f"{percent(share.value)}.",
        least=thresholds.FOUND,
    )
    return maps, curves(effects)


def _explained(probe: TokenProbe, random: np.random.Generator) -> tuple[Tokens, Tokens, Floats]:
    """Of each window the place whose prediction differs most from word frequencies among `CANDIDATES`, the
    likeliest word there, and ln of how much likelier it is than usual, (N,) each."""
    number = len(probe.ids)
    frequency_W = _frequencies(probe)
    best = np.zeros((3, number))
    best[2] = -np.inf
    for _ in range(CANDIDATES):
        place_N = probe.draw_places(random)
        likely_NW = probe.word_log_likelihoods(probe.tokens_NL, np.arange(number), place_N)
        word_N = likely_NW.argmax(1)
        deviation_N = likely_NW.max(1) - frequency_W[word_N]
        best = np.where(deviation_N > best[2], [place_N, word_N, deviation_N], best)
    return best[0].astype(np.int64), best[1].astype(np.int64), best[2]


def _backgrounds(probe: TokenProbe, known_NL: NDArray[np.bool_], settings: CheckSettings) -> list[Tokens]:
    """What replaces tokens: the hidden one, or several draws of the sequence's own words in another order."""
    if probe.hidden is not None:
        return [np.where(known_NL, probe.hidden, probe.tokens_NL)]
    found = []
    for draw in range(settings.backgrounds):
        shuffled, random = probe.tokens_NL.copy(), np.random.default_rng([settings.seed, 4, draw])
        for tokens in shuffled:
            tokens[tokens >= len(SPECIAL)] = random.permutation(tokens[tokens >= len(SPECIAL)])
        found.append(shuffled)
    return found


def _other_maps(map_NL: Floats, place_N: Tokens) -> Floats:
    """The map of the next window, moved so that the explained places lie on each other."""
    moved = np.zeros_like(map_NL)
    for row, place in enumerate(place_N):
        other = (row + 1) % len(place_N)
        moved[row] = np.roll(map_NL[other], place - place_N[other])
    return moved


def _single_effects(
    answers: Callable[[Pairs, Tokens], Floats],
    pairs: Pairs,
    tokens_NL: Tokens,
    background_NL: Tokens,
    known_NL: NDArray[np.bool_],
) -> Floats:
    """What replacing each token alone takes from a prediction, (pairs, L)."""
    effects = np.zeros((len(pairs.promoter_N), tokens_NL.shape[1]))
    before = answers(pairs, tokens_NL[pairs.promoter_N])
    for row, window in enumerate(pairs.promoter_N.tolist()):
        places = np.flatnonzero(known_NL[window])
        copies = np.tile(tokens_NL[window], (len(places), 1))
        copies[np.arange(len(places)), places] = background_NL[window, places]
        own = Pairs(np.full(len(places), window), np.zeros(len(places), np.int64), np.ones(len(places)))
        effects[row, places] = before[row] - answers(own, copies)
    return effects


def _noun(probe: TokenProbe) -> str:
    return "pair" if probe.aligns else "window"


def judge_tokens(measures: Measures, *, held_out: bool) -> Verdict:
    """The verdict on a model of tokens; held_out: whether the sequences were not trained on."""
    caveats = [
        "Whether a model that was trained without attention would predict as well was not tested.",
        "Maps are means over layers and heads of what the predicting token attends to; a single head may be "
        "better or worse (explain heads).",
    ]
    if not held_out:
        caveats.append("Whether the model was trained on these sequences is not known (no --dataset).")

    def verdict(code: Code, sentence: str, *names: str) -> Verdict:
        return Verdict(code=code, sentence=sentence, caveats=caveats, rests_on=["skill", *names])

    if not measures.passed("skill"):
        return verdict(
            Code.NOT_PREDICTIVE,
            "The model predicts no better, or hardly better, than how often words are: its attention explains "
            "nothing.",
        )
    rests = [each for each in ("uniform_weights", "shuffled_weights") if each in measures]
    for name in rests:
        if not measures.passed(name):
            return verdict(
                Code.NOT_USED,
                f"Attention is not used to any gain: with {name.replace('_', ' ')} the model predicts as well. "
                "The maps explain nothing.",
                name,
            )
    aligns = "shuffled_weights" in measures
    rests += ["deletion"] if aligns else ["other_sequences_maps", "deletion", "deletion_of_other_sequences"]
    if not aligns and not measures.passed("other_sequences_maps"):
        return verdict(
            Code.POSITION_ONLY,
            "Attention is used, but the maps of another sequence do as well: they say how far from a token the "
            "model looks, not at which tokens.",
            *rests[:2],
        )
    lost = f"uniform weights cost {of_it(measures.value('uniform_weights'))} of what it knows"
    if not aligns and measures.passed("deletion") and not measures.passed("deletion_of_other_sequences"):
        return verdict(
            Code.POSITION_ONLY,
            f"Attention is used ({lost}), but the mean maps say how far from a token the model looks, not at "
            "which tokens: replacing what another sequence's map points at takes away as much.",
            *rests,
        )
    rests.append("deletion_against_mutagenesis")
    if not all(measures.passed(name) for name in rests):
        return verdict(
            Code.UNFAITHFUL,
            f"Attention is used ({lost}), but the mean maps do not point at what a prediction rests on: replacing "
            f"the most attended {percent(JUDGED)} of the tokens takes away "
            f"{percent(measures.value('deletion_against_mutagenesis'))} of what the right ones would.",
            *rests,
        )
    return verdict(
        Code.FAITHFUL,
        f"Attention is used ({lost}){'' if aligns else ', depends on the sequence,'} and points at what the "
        "predictions rest on.",
        *rests,
    )
