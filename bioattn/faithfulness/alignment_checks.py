"""The checks of models that predict contacts from alignments: what they lose with other weights in MSA attention,
and with attended columns and rows spoiled. As for promoter models, each question presupposes the one before.

Shape suffixes: N proteins, R residues, S rows, T rows or residues of a tile, H heads, Q queries, K keys.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.alignments.couplings import average_product_correction
from bioattn.attention.capture import Substitution, capture, substitute
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError
from bioattn.faithfulness import thresholds
from bioattn.faithfulness.measures import Measures, of_it, percent
from bioattn.faithfulness.perturbation import JUDGED, Effects, Pairs, ratio_of_sums
from bioattn.faithfulness.similarity import top_bins
from bioattn.faithfulness.subject import RESAMPLES, CheckSettings
from bioattn.faithfulness.verdict import Code, Verdict
from bioattn.inference.finite import finite_results, require_finite
from bioattn.inference.runner import ContactProbe, ContactRunner, Floats
from bioattn.promoters.response_metrics import Statistic, estimate
from bioattn.structures.contacts import MIN_SEPARATION
from bioattn.system.progress import Progress, watched
from bioattn.system.signals import StopRequest
from bioattn.text import counted, first_names

MIN_PROTEINS = 5
"""Least number of proteins that intervals are given for."""
RANGES = 12, 24
"""Columns apart at which short, medium and long range part."""
EXPLAINED = 4
"""Residues of a protein whose contacts are explained: those that lose most with every column in random order."""
PARTS = "rows", "columns", "triangles"
LEAST = 1e-6
"""Probabilities count as at least so far from 0 and 1."""
NOT_USED = "MSA attention is not used to any gain: with {} weights the model predicts as well."
POINTLESS = "Attention is used ({lost}), but the mean maps do not point at what contacts rest on. {sentence}"
FAILED = {
    "uniform_weights": (Code.NOT_USED, NOT_USED.format("uniform")),
    "shuffled_weights": (Code.NOT_USED, NOT_USED.format("shuffled")),
    "other_alignments_maps": (
        Code.POSITION_ONLY,
        "Attention is used ({lost}), but the maps of another alignment do nearly as well: they say where along "
        "a chain the model looks, not at what in this alignment.",
    ),
    "other_residues_weights": (
        Code.NOT_PAIR_SPECIFIC,
        "Attention is used ({lost}) and belongs to its alignment, but the weights of another residue do as well: "
        "the maps say nothing of single pairs.",
    ),
    **dict.fromkeys(
        ("attention_contacts", "deletion", "deletion_against_contacts"), (Code.UNFAITHFUL, POINTLESS)
    ),
}
"""Measures in the order in which they are asked: the verdict of the first that fails."""
NOT_NEEDED = (
    "Attention is not used to any gain: the same model, trained with uniform MSA attention, predicts as well.",
    "Whether attention is used cannot be told: what the same model, trained without, lacks may be chance.",
)
MAPS_FAIL = " The maps explain nothing."
MAPS_POINT = " As it was trained this model relies on it, and the maps point at what its predictions rest on."


class Proteins:
    """What a model predicts of proteins, and what it is judged by: contacts of structures, or where one is missing
    its own predictions."""

    def __init__(self, probe: ContactProbe, measures: Measures, seed: int, progress: Progress) -> None:
        self.probe, self.measures, self.seed = probe, measures, seed
        numbers = range(len(probe.ids))
        self.own = [self.contacts(number) for number in watched(progress, "contacts", numbers)]
        self.apart = [probe.separations(number) for number in numbers]
        truths = [truth for number in numbers if (truth := probe.truth(number)) is not None]
        self.measured = len(truths) == len(numbers)
        labels = truths if self.measured else self.own
        self.counted = [
            np.triu((apart_RR >= MIN_SEPARATION) & np.isfinite(label_RR))
            for apart_RR, label_RR in zip(self.apart, labels, strict=True)
        ]
        """Pairs (R, R), i < j."""
        if lacking := [probe.ids[number] for number in numbers if not self.counted[number].any()]:
            what = f"no two residues {MIN_SEPARATION} or more columns apart are known to touch or not"
            raise BioattnError(f"{first_names(lacking)}: {what}; leave such proteins out")
        self._labels = self._pairs(labels)
        self.own_N = self.likely(self._pairs(self.own))
        ranges = [np.digitize(each, RANGES) for each in self._pairs(self.apart)]
        place = np.concatenate(ranges)
        touching = np.bincount(place, np.concatenate(self._labels), 3) + 1
        self.plain_N = self.likely(
            [(touching / (np.bincount(place, minlength=3) + 2))[each] for each in ranges]
        )

    def _pairs(self, maps: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        return [map_RR[pairs] for map_RR, pairs in zip(maps, self.counted, strict=True)]

    def contacts(
        self, number: int, listening: AbstractContextManager[object] | None = None, **disturbed: Any
    ) -> Floats:
        with listening or nullcontext():
            contacts_RR = self.probe.contacts(number, **disturbed)
        require_finite(contacts_RR, "predictions")
        return contacts_RR

    def likely(self, probabilities: Sequence[Floats]) -> Floats:
        """ln of the probability of what is true under those of the pairs that count, mean over pairs, (N,)."""
        means = []
        for label, each in zip(self._labels, probabilities, strict=True):
            kept = np.clip(each, LEAST, 1 - LEAST)
            means.append((label * np.log(kept) + (1 - label) * np.log(1 - kept)).mean())
        return np.array(means)

    def lost(self, number: int, **disturbed: Any) -> Floats:
        """How far a disturbance takes the contacts of each residue from the model's own (R,): sums of
        Kullback-Leibler divergences."""
        contacts = (self.own[number], self.contacts(number, **disturbed))
        own_RR, other_RR = (np.clip(each, LEAST, 1 - LEAST) for each in contacts)
        moved_RR = own_RR * np.log(own_RR / other_RR) + (1 - own_RR) * np.log((1 - own_RR) / (1 - other_RR))
        return np.asarray((moved_RR * (self.apart[number] >= MIN_SEPARATION)).sum(1))

    def precision(self, number: int, scores_RR: Floats) -> tuple[float, float]:
        """Share of contacts among the R best pairs and among all: of the structure, or the model's R likeliest."""
        pairs, right = self.counted[number], self._labels[number]
        if not self.measured:
            right = right >= np.sort(right)[-len(pairs) :][0]
        best = np.argsort(-scores_RR[pairs], kind="stable")[: len(pairs)]
        return float(right[best].mean()), float(right.mean())

    def add(
        self, name: str, label: str, statistic: Statistic, sentence: str, least: float | None = None
    ) -> None:
        """Add a measure, with an interval where there are proteins enough; `sentence` has {share}, its value."""
        found = estimate(statistic, len(self.own), RESAMPLES, self.seed)
        kept = found if len(self.own) >= MIN_PROTEINS else found.value
        self.measures.add(name, label, kept, sentence.format(share=of_it(found.value)), least=least)

    def add_lost(self, name: str, label: str, what: str, lost_N: Floats, least: float | None) -> None:
        """Add what of the skill other weights lose. what: is done to the model."""
        statistic = ratio_of_sums(lost_N, self.own_N - self.plain_N)
        sentence = f"{what}, the model loses {{share}} of what it knows beyond contact frequencies."
        self.add(name, f"skill lost with {label}", statistic, sentence, least)


class MeanMaps:
    """Keeps the mean of each site's weights over rows or columns, (H, Q, K) or (H, K); of tied rows, which have
    one map, that map. As a substitution it makes sites attend with these means, cut to the alignment's size or
    with the last place repeated.
    """

    def __init__(self) -> None:
        self.by_site: dict[str, Tensor] = {}
        self.kinds: dict[str, str] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        self.kinds[site.name] = site.axes[-1].kind
        if site.dims[0] == "head":
            self.by_site[site.name] = weights
            return
        share = weights.sum(0) / (tile.total if tile else len(weights))
        self.by_site[site.name] = share + self.by_site.get(site.name, 0)

    def __call__(self, site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        found = self.by_site[site.name].to(weights)
        for axis in range(1 - found.ndim, 0):
            places = torch.arange(weights.shape[axis], device=weights.device).clamp(max=found.shape[axis] - 1)
            found = found.index_select(axis, places)
        found = found + 1e-9  # where all weight of a longer chain lies beyond the end of this one
        return (found / found.sum(-1, keepdim=True)).expand_as(weights)


def _uniform(_site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    return torch.full_like(weights, 1 / weights.shape[-1])


def _other_residues(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    return weights if site.axis("query") is None else weights.roll(weights.shape[-2] // 2, -2)


def _shuffled(_site: AttentionSite, weights: Tensor, tile: Tile | None) -> Tensor:
    random = torch.Generator().manual_seed(tile.start if tile else 0)
    order = torch.rand(weights.shape, generator=random).argsort(-1)
    return weights.gather(-1, order.to(weights.device))


def check_alignments(
    model: ContactRunner,
    alignments: Path,
    controls: Sequence[ContactRunner],
    settings: CheckSettings,
    measures: Measures,
    progress: Progress,
    stop: StopRequest,
) -> ContactProbe:
    """Add all measures. Returns the alignments. controls: the same model trained with uniform MSA attention.

    Raises: BioattnError for an alignment without pairs to judge, or predictions that are not finite; Interrupted
    when `stop` was requested.
    """
    probe = model.contact_probe(alignments, settings.samples, settings.seed)
    with finite_results("explain check", model.path):
        proteins = Proteins(probe, measures, settings.seed, progress)
        if proteins.measured:
            _add_skill(proteins)
        else:
            measures.skip("skill", "needs structures: give a dataset of prepare contacts")
        if measures.passed("skill") is False:
            return probe
        if not controls:
            measures.skip(
                "uniform_control", "give it with --other-model: train evoformer --uniform-attention"
            )
        for control in controls:
            if not control.is_control:
                what = "attends by weights of its own; give the model trained with --uniform-attention"
                raise BioattnError(f"--other-model {control.path}: {what}")
            others = control.contact_probe(alignments, settings.samples, settings.seed)
            contacts = [others.contacts(n)[pairs] for n, pairs in enumerate(proteins.counted)]
            proteins.add_lost(
                "uniform_retrained",
                "uniform attention, retrained",
                "Trained with uniform attention",
                proteins.own_N - proteins.likely(contacts),
                thresholds.USED,
            )
        _check_weights(proteins, progress, stop)
        _check_pointing(proteins, progress, stop)
    return probe


def _add_skill(proteins: Proteins) -> None:
    own, plain = (-float(each.mean()) / np.log(2) for each in (proteins.own_N, proteins.plain_N))
    given = counted(len(proteins.own), f"{proteins.probe.held_out} protein".strip())
    proteins.add(
        "skill",
        "share of the bits of contact frequencies saved",
        ratio_of_sums(proteins.own_N - proteins.plain_N, -proteins.plain_N),
        f"On {given} the model needs {own:.3f} bits per pair of residues, the frequencies of contacts at short, "
        f"medium and long range alone {plain:.3f}.",
        thresholds.SAVED,
    )


def _check_weights(proteins: Proteins, progress: Progress, stop: StopRequest) -> None:
    sites = proteins.probe.sites
    msa = [*sites["rows"], *sites["columns"]]
    found: dict[str, dict[int, Floats]] = {}
    # The longest first: the maps that a protein gets are those of one at least as long, but for the longest.
    order = sorted(range(len(proteins.own)), key=lambda number: -len(proteins.own[number]))
    kept: dict[int, MeanMaps] = {}
    for place, number in enumerate(watched(progress, "other weights", order)):
        other = order[place - 1 if place else min(1, len(order) - 1)]
        kept = {each: kept.get(each) or _mean_maps(proteins, each) for each in (number, other)}
        substitutions: dict[str, tuple[Sequence[str], Substitution]] = {
            "uniform_weights": (msa, _uniform),
            "shuffled_weights": (msa, _shuffled),
            "own_maps": (msa, kept[number]),
            "other_alignments_maps": (msa, kept[other]),
            "other_residues_weights": (msa, _other_residues),
            **{f"uniform_{part}": (sites[part], _uniform) for part in PARTS},
        }
        for name, (where, substitution) in substitutions.items():
            stop.check()
            contacts_RR = proteins.contacts(number, substitute(where, substitution))
            found.setdefault(name, {})[number] = contacts_RR[proteins.counted[number]]
    likely = {name: proteins.likely([each[n] for n in range(len(order))]) for name, each in found.items()}
    if len(order) == 1:
        proteins.measures.skip("other_alignments_maps", "there is one alignment only")
        del likely["other_alignments_maps"]
    for name, label, what in (
        ("uniform_weights", "uniform MSA weights", "Made to attend to all rows and columns alike"),
        ("shuffled_weights", "shuffled MSA weights", "Given its weights in random order"),
        ("other_alignments_maps", "another alignment's maps", "Given another's maps and not its own (means)"),
        ("other_residues_weights", "another residue's weights", "With another's weights for each residue"),
        *((f"uniform_{part}", f"uniform {part} alone", f"Made to attend to {part} alike") for part in PARTS),
    ):
        if name in likely:
            before_N = likely["own_maps"] if name == "other_alignments_maps" else proteins.own_N
            least = thresholds.USED if name == "uniform_weights" else thresholds.SWAPPED
            proteins.add_lost(name, label, what, before_N - likely[name], least if name in FAILED else None)


def _mean_maps(proteins: Proteins, number: int) -> MeanMaps:
    maps, sites = MeanMaps(), proteins.probe.sites
    proteins.contacts(number, capture([*sites["rows"], *sites["columns"]], maps))
    return maps


def _check_pointing(proteins: Proteins, progress: Progress, stop: StopRequest) -> None:
    """Add what predictions lose without attended columns and rows, and the contacts that attention alone finds."""
    columns: list[tuple[int, dict[str, float]]] = []
    rows: list[tuple[int, dict[str, float]]] = []
    precisions: list[tuple[float, float, float]] = []
    for number, own_RR in enumerate(watched(progress, "deletion", proteins.own)):
        stop.check()
        random = np.random.default_rng([proteins.seed, 3, number])
        maps = _mean_maps(proteins, number)
        heads_HRR = torch.cat([maps.by_site[name] for name in proteins.probe.sites["maps"]])
        mean_RR = heads_HRR.mean(0).double().cpu().numpy()
        scores = {
            "own": average_product_correction(mean_RR + mean_RR.T),
            "head": own_RR,
            "random": random.random(own_RR.shape),
        }
        precisions.append((proteins.precision(number, scores["own"])[0], *proteins.precision(number, own_RR)))
        apart_RR = proteins.apart[number] >= MIN_SEPARATION
        everything_R = proteins.lost(number, shuffled=np.ones(len(own_RR), np.bool_))
        for residue in np.argsort(-everything_R, kind="stable")[:EXPLAINED]:
            moved = {"everything": float(everything_R[residue])}
            for name, score_RR in scores.items():
                chosen_R = top_bins(score_RR[residue], apart_RR[residue], JUDGED)
                moved[name] = float(proteins.lost(number, shuffled=chosen_R)[residue])
            columns.append((number, moved))
        rows.append((number, _without_rows(proteins, number, maps, random)))
    _judge_pointing(proteins, np.array(precisions), _effects(columns), _effects(rows))


def _without_rows(
    proteins: Proteins, number: int, maps: MeanMaps, random: np.random.Generator
) -> dict[str, float]:
    """What all contacts of a protein lose without rows; the first of each MSA stays."""
    own: dict[str, Floats] = {}
    for name in proteins.probe.sites["columns"]:
        weight_S = maps.by_site[name].flatten(0, -2).mean(0).double().cpu().numpy()
        own[maps.kinds[name]] = own.get(maps.kinds[name], 0) + weight_S
    known = {kind: np.arange(len(weight_S)) > 0 for kind, weight_S in own.items()}
    chance = {kind: random.random(len(weight_S)) for kind, weight_S in own.items()}
    removed = {"everything": known}
    for name, scores in (("own", own), ("random", chance)):
        removed[name] = {kind: top_bins(score_S, known[kind], JUDGED) for kind, score_S in scores.items()}
    return {name: float(proteins.lost(number, removed=each).sum()) for name, each in removed.items()}


def _effects(moved: list[tuple[int, dict[str, float]]]) -> Effects:
    number_N = np.array([number for number, _ in moved])
    return Effects(
        pairs=Pairs(number_N, np.zeros_like(number_N), np.ones(len(number_N))),
        moved={name: np.array([each[name] for _, each in moved]) for name in moved[0][1]},
    )


def _judge_pointing(proteins: Proteins, precisions_N3: Floats, columns: Effects, rows: Effects) -> None:
    attention_N, head_N, chance_N = precisions_N3.T
    attention, best, all_pairs = (percent(each.mean()) for each in (attention_N, head_N, chance_N))
    number, pairs = len(proteins.own), "contacts" if proteins.measured else "the model's R likeliest"
    own, head, chance = (percent(columns.value(name)) for name in ("own", "head", "random"))
    own_rows, chance_rows = (percent(rows.value(name)) for name in ("own", "random"))
    for name, label, statistic, sentence, least in (
        (
            "attention_contacts",
            "contacts of attention alone, as a share of the model's",
            ratio_of_sums(attention_N - chance_N, head_N - chance_N),
            f"Of the R pairs of residues with most attention {attention} are {pairs}, of the R likeliest {best}, "
            f"of all {all_pairs} (R residues of a protein).",
            thresholds.FOUND,
        ),
        (
            "deletion",
            "deletion: most attended tenth of the columns, beyond a random tenth",
            columns.share_gained("own", "random", number),
            f"With the most attended tenth of the columns in random order, contacts of a residue lose {own} of "
            f"what they lose with all, with a random tenth {chance}.",
            thresholds.POINTED,
        ),
        (
            "deletion_against_contacts",
            "deletion: what attention finds of what the model's contacts find",
            columns.recovered("own", "head", "random", number),
            f"With the tenth of its likeliest contacts they lose {head}: beyond a random tenth, the most attended "
            "tenth takes away {share} of that.",
            thresholds.FOUND,
        ),
        (
            "deletion_of_rows",
            "deletion: most attended tenth of the rows, beyond a random tenth",
            rows.share_gained("own", "random", number),
            f"Without the most attended tenth of the rows contacts lose {own_rows} of what they lose without any, "
            f"without a random tenth {chance_rows}.",
            None,
        ),
    ):
        proteins.add(name, label, statistic, sentence, least)


def judge_alignments(measures: Measures, proteins: int, held_out: str) -> Verdict:
    """The verdict on a model of alignments. held_out: the side of the split that they are from."""
    used = measures.passed("uniform_retrained")
    caveats = {
        "Maps are means over rows, blocks and heads of row attention; a single head may be better or worse "
        "(explain heads).": True,
        "Whether attention was needed was not tested: that takes --other-model with a model trained with "
        "--uniform-attention.": used is None and measures.passed("skill") is not False,
        "How well the model predicts is not known (no structures).": "skill" not in measures,
        "The model was trained on these proteins: on others it may do worse.": held_out == "train",
        "Whether the model was trained on these proteins is not known.": not held_out,
        f"Fewer than {MIN_PROTEINS} proteins: no interval tells what is chance.": proteins < MIN_PROTEINS,
    }
    failed = next((name for name in FAILED if name in measures and not measures.passed(name)), None)
    lost = f"uniform weights cost {of_it(measures.value('uniform_weights'))} of what it knows"
    code = Code.USED if used else Code.FAITHFUL
    sentence = (
        "Attention is used ({lost}), belongs to alignment and residue, and points at what contacts rest on."
    )
    measure = measures.get(failed or "skill")
    if measures.passed("skill") is False:
        code = Code.NOT_PREDICTIVE
        sentence = (
            "The model predicts hardly better than how often residues touch: its attention explains nothing."
        )
    elif used is False:
        unsure = measures.value("uniform_retrained") >= thresholds.USED
        code = Code.UNDECIDED if unsure else Code.NOT_USED
        sentence = NOT_NEEDED[unsure] + (MAPS_FAIL if failed else MAPS_POINT)
    elif failed is not None:
        code, sentence = FAILED[failed]
    sentence = sentence.format(lost=lost, sentence="" if measure is None else measure.sentence)
    asked = [name for name in ("skill", "uniform_retrained", *FAILED) if name in measures]
    rests_on = asked if failed is None or used is False else asked[: asked.index(failed) + 1]
    return Verdict(code, sentence, [text for text, holds in caveats.items() if holds], rests_on)
