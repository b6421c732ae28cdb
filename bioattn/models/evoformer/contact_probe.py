"""The check of MSA/pair models: what contacts lose with other weights in MSA attention, and with attended columns
spoiled; and how much each of their heads matters.

Shape suffixes: S rows of the clustered or the extra MSA, R residues (columns that the model sees), N proteins, H
heads, Q queries, K keys.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.alignments.contact_dataset import open_contact_dataset
from bioattn.alignments.couplings import average_product_correction
from bioattn.attention.capture import Substitution, capture, substitute
from bioattn.attention.measures import attention_layers, masked_heads
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks import thresholds
from bioattn.checks.deletion import JUDGED, Effects, single_pairs, top_bins
from bioattn.checks.engine import FEW, CheckSettings, LikelihoodProbe, OtherWeights, draw_rows, ratio_of_sums
from bioattn.checks.measures import NEEDED, Code, Question, Verdict, judge, percent
from bioattn.checks.weights import all_visible, drawn_alike, shuffled, uniform
from bioattn.choices import MIN_SEPARATION, SPLIT_NAMES, TEST, TRAIN, VALIDATION
from bioattn.errors import BioattnError
from bioattn.formats.alignment_file import read_with_digest
from bioattn.inference.alignment_inputs import ALIGNED_LETTERS, Given, alignments_in, find_alignments
from bioattn.inference.inputs import HELD, path_in
from bioattn.inference.passes import require_finite
from bioattn.inference.runner import Head
from bioattn.io.files import sha256_of
from bioattn.models.evoformer.heads import contact_probabilities, sample_losses
from bioattn.models.evoformer.inputs import AlignmentInputs, ModelInputs, prepare_inputs
from bioattn.models.evoformer.run import LoadedEvoformerModel, most_alike, read_families
from bioattn.models.evoformer.training_families import TrainingFamily, load_families
from bioattn.store.training_record import read_training_record
from bioattn.structures.contacts import contacts, distances, known_pairs
from bioattn.system.progress import Progress, watched
from bioattn.text import listed

Floats = NDArray[np.float64]
SEED = 0
"""Of the draw of rows and of masked cells, as `bioattn run evoformer` has it by default."""
LAYERS = {
    "rows": ("msa_row",),
    "columns": ("msa_column", "msa_column_global"),
    "triangles": ("triangle_starting", "triangle_ending"),
}
RANGES = 12, 24
"""Columns apart at which short, medium and long range part."""
EXPLAINED = 4
"""Residues of a protein whose contacts are explained: those that lose most with every column in random order."""
LEAST = 1e-6
"""Probabilities count as at least so far from 0 and 1."""
NOT_USED = "MSA attention is not used to any gain: with {} weights the model predicts as well."
POINTLESS = "Attention is used ({lost}), but the mean maps do not point at what contacts rest on. {sentence}"
UNLIKE = (
    "Attention is used ({lost}), but the maps of another alignment do nearly as well: they say where along a "
    "chain the model looks, not at what in this alignment."
)
UNSPECIFIC = (
    "Attention is used ({lost}) and belongs to its alignment, but the weights of another residue do as well: the "
    "maps say nothing of single pairs."
)
NO_SKILL = "The model predicts hardly better than how often residues touch: its attention explains nothing."
QUESTIONS = tuple(
    Question(measures=(measure,), asks=asks, code=code, sentence=sentence)
    for measure, asks, code, sentence in (
        ("skill", "the model predicts", Code.NOT_PREDICTIVE, NO_SKILL),
        ("uniform_weights", "attention is used", Code.NOT_USED, NOT_USED.format("uniform")),
        ("shuffled_weights", "attention is used", Code.NOT_USED, NOT_USED.format("shuffled")),
        ("other_alignments_maps", "maps belong to their alignment", Code.POSITION_ONLY, UNLIKE),
        ("other_residues_weights", "maps belong to their residue", Code.NOT_PAIR_SPECIFIC, UNSPECIFIC),
        ("attention_contacts", "maps point at what contacts rest on", Code.UNFAITHFUL, POINTLESS),
        ("deletion", "maps point at what contacts rest on", Code.UNFAITHFUL, POINTLESS),
        ("deletion_against_contacts", "maps point at what contacts rest on", Code.UNFAITHFUL, POINTLESS),
    )
)
PASSED = (
    Code.USED,
    Code.FAITHFUL,
    "Attention is used ({lost}), belongs to alignment and residue, and points at what contacts rest on.",
)
WEIGHTS = {name: thresholds.SWAPPED for question in QUESTIONS for name in question.measures}
WEIGHTS["uniform_weights"] = thresholds.USED
"""Least share of the skill that must be lost, by measure."""


class Aligned(NamedTuple):
    """One alignment."""

    id: str
    inputs: AlignmentInputs
    cb: NDArray[np.float32] | None
    """(columns of the alignment, 3), NaN where the structure has no residue; None without a structure."""


class MeanMaps:
    """Keeps the mean of each site's weights over rows or columns, (H, Q, K) or (H, K); of tied rows, which have
    one map, that map. As a substitution it makes sites attend with these means, cut to the alignment's size or
    with the last position repeated.
    """

    def __init__(self) -> None:
        self.by_site: dict[str, Tensor] = {}

    def receive(
        self, site: AttentionSite, weights: Tensor, _value_weighted: Tensor | None, tile: Tile | None = None
    ) -> None:
        if site.dims[0] == "head":
            self.by_site[site.name] = weights
            return
        share = weights.sum(0) / (tile.total if tile else len(weights))
        self.by_site[site.name] = share + self.by_site.get(site.name, 0)

    def __call__(self, site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
        means = self.by_site[site.name].to(weights)
        for axis in range(1 - means.ndim, 0):
            kept = torch.arange(weights.shape[axis], device=weights.device).clamp(max=means.shape[axis] - 1)
            means = means.index_select(axis, kept)
        means = means + 1e-9  # where all weight of a longer chain lies beyond the end of this one
        return (means / means.sum(-1, keepdim=True)).expand_as(weights)


def other_residues(site: AttentionSite, weights: Tensor, _tile: Tile | None) -> Tensor:
    """The weights of another query, where there are queries."""
    return weights if site.axis("query") is None else weights.roll(weights.shape[-2] // 2, -2)


@dataclass(kw_only=True)
class ContactProbe(LikelihoodProbe):
    """Alignments, and the contacts that a model predicts from them: judged by structures, or where one is missing
    by its own predictions."""

    takes = frozenset({"other_models"})
    beyond = "contact frequencies"
    skill_label = "share of the bits of contact frequencies saved"
    noun = "protein"
    instead = (
        "Read the contacts that the model predicts, not its maps; a single head may be better: "
        "`bioattn explain heads {model} {dataset} -o heads`."
    )
    least = 1

    model: LoadedEvoformerModel
    aligned: Sequence[Aligned]
    relatives: Sequence[str] | None = None
    """Alignments that are like families of the training; None = not known."""
    controls: Sequence["ContactProbe"] = ()
    """The same alignments, of models trained with uniform MSA attention."""
    drawn: tuple[int, ModelInputs] | None = field(default=None, repr=False)

    @property
    def record(self) -> Mapping[str, Any]:
        return {"proteins": len(self.ids)}

    @cached_property
    def sites(self) -> Mapping[str, Sequence[str]]:
        """Names of the sites of attention along `rows`, `columns` and `triangles`; `msa`, the first two; and those
        of `rows` that are read as contacts, `maps`."""
        sites = {
            part: [name for name in self.model.sites if name.split(".")[-1] in layers]
            for part, layers in LAYERS.items()
        }
        maps = [name for name in sites["rows"] if not name.startswith("extra_msa.")]
        return {**sites, "msa": [*sites["rows"], *sites["columns"]], "maps": maps}

    def truth(self, number: int) -> Floats | None:
        """Contacts (R, R): 1, 0, NaN where it is not known; None without a structure."""
        aligned = self.aligned[number]
        if aligned.cb is None:
            return None
        seen = np.ix_(aligned.inputs.columns, aligned.inputs.columns)
        return np.where(known_pairs(aligned.cb), contacts(aligned.cb), np.nan)[seen]

    @cached_property
    def separations(self) -> list[NDArray[np.int64]]:
        """Columns of the alignment between residues, (R, R)."""
        columns = [aligned.inputs.columns.astype(np.int64) for aligned in self.aligned]
        return [np.asarray(np.abs(columns_R[:, None] - columns_R)) for columns_R in columns]

    def contacts(
        self,
        number: int,
        listening: AbstractContextManager[object] | None = None,
        *,
        shuffled: NDArray[np.bool_] | None = None,
    ) -> Floats:
        """Probabilities of contacts (R, R) by one pass on the first draw of an alignment, with the cells of
        `shuffled` columns (R,) in random order among the rows."""
        if self.drawn is None or self.drawn[0] != number:
            self.drawn = number, self.aligned[number].inputs.sample(SEED, 0)
        inputs = self.drawn[1]
        if shuffled is not None:
            inputs = shuffle_columns(inputs, shuffled)
        with torch.inference_mode(), listening or nullcontext():
            logits = self.model.model(inputs.to(self.model.device)).distogram_logits
        if logits is None:
            raise BioattnError(
                f"{self.model.path}: the model predicts no distances, so it has no contacts to check"
            )
        contacts_RR = contact_probabilities(logits).double().cpu().numpy()
        require_finite(contacts_RR, "predictions")
        return contacts_RR

    @cached_property
    def own(self) -> list[Floats]:
        """What the model predicts of each protein."""
        return [self.contacts(number) for number in watched(self.progress, "contacts", range(len(self.ids)))]

    @cached_property
    def truths(self) -> list[Floats] | None:
        """Contacts of structures; None where one is missing."""
        truths = (self.truth(number) for number in range(len(self.ids)))
        known = [truth_RR for truth_RR in truths if truth_RR is not None]
        return known if len(known) == len(self.ids) else None

    @cached_property
    def counted_pairs(self) -> list[NDArray[np.bool_]]:
        """Pairs (R, R), i < j. Raises: BioattnError for a protein without any."""
        counted = [
            np.triu((apart_RR >= MIN_SEPARATION) & np.isfinite(label_RR))
            for apart_RR, label_RR in zip(self.separations, self.truths or self.own, strict=True)
        ]
        if lacking := [name for name, pairs in zip(self.ids, counted, strict=True) if not pairs.any()]:
            what = f"no two residues {MIN_SEPARATION} or more columns apart are known to touch or not"
            raise BioattnError(f"{listed(lacking)}: {what}; leave such proteins out")
        return counted

    def _pairs(self, maps: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        return [map_RR[pairs] for map_RR, pairs in zip(maps, self.counted_pairs, strict=True)]

    @cached_property
    def labels(self) -> list[Floats]:
        """Of the pairs that count, whether they touch, or the model's probability where that is not known."""
        return self._pairs(self.truths or self.own)

    def likely_under(self, probabilities: Sequence[Floats]) -> Floats:
        """ln of the probability of what is true under those of the pairs that count, mean over pairs, (N,)."""
        means = []
        for label, each in zip(self.labels, probabilities, strict=True):
            kept = np.clip(each, LEAST, 1 - LEAST)
            means.append((label * np.log(kept) + (1 - label) * np.log(1 - kept)).mean())
        return np.array(means)

    def log_likelihoods(self) -> Floats:
        return self.likely_under(self._pairs(self.own))

    def simple_log_likelihoods(self) -> Mapping[str, Floats]:
        """Of how often residues touch at short, medium and long range."""
        ranges = [np.digitize(each, RANGES) for each in self._pairs(self.separations)]
        range_of_pair = np.concatenate(ranges)
        touching = np.bincount(range_of_pair, np.concatenate(self.labels), 3) + 1
        frequency = touching / (np.bincount(range_of_pair, minlength=3) + 2)
        return {self.beyond: self.likely_under([frequency[each] for each in ranges])}

    def skill_sentence(self, own_N: Floats, plain_N: Floats) -> str:
        own, plain = (-float(each.mean()) / np.log(2) for each in (own_N, plain_N))
        return (
            f"On {self.counted()} the model needs {own:.3f} bits per pair of residues, the frequencies of "
            f"contacts at short, medium and long range alone {plain:.3f}."
        )

    def check_skill(self, own_N: Floats, plain_N: Floats) -> str | None:
        if self.truths is not None:
            return super().check_skill(own_N, plain_N)
        self.measures.skip("needs structures: give a dataset of prepare contacts", "skill")
        return None

    def other_weights(self) -> Iterator[OtherWeights]:
        if not self.controls:
            self.measures.skip(
                "give it with --other-model: train evoformer -c model.uniform_msa_attention=true",
                "uniform_control",
            )
        for control in self.controls:
            label, what = "uniform attention, retrained", "Trained with uniform attention"
            likely = partial(lambda control: self.likely_under(self._pairs(control.own)), control)
            yield OtherWeights(NEEDED, label, what, likely, thresholds.USED)
        alike, mixed = uniform(all_visible), shuffled(all_visible, drawn_alike)
        # The longest first: the maps that a protein gets are those of one at least as long, but for the longest.
        order = sorted(range(len(self.ids)), key=lambda number: -len(self.own[number]))
        others = dict(zip(order, [*order[1:2], *order], strict=False))
        of_alignment = "Given another's maps and not its own (means)"
        of_residue = "With another's weights for each residue"
        for name, label, what, other in (
            ("uniform_weights", "uniform MSA weights", "Made to attend to all rows and columns alike", alike),
            ("shuffled_weights", "shuffled MSA weights", "Given its weights in random order", mixed),
            ("other_alignments_maps", "another alignment's maps", of_alignment, None),
            ("other_residues_weights", "another residue's weights", of_residue, other_residues),
        ):
            likely, before = partial(self._likely_with, "msa", other, others), None
            if other is None and len(order) == 1:
                self.measures.skip("there is one alignment only", name)
                continue
            if other is None:
                before = partial(self._likely_with, "msa", None, {number: number for number in order})
            yield OtherWeights(name, label, what, likely, WEIGHTS[name], before)
        for part in LAYERS:
            likely, what = partial(self._likely_with, part, alike, {}), f"Made to attend to {part} alike"
            yield OtherWeights(f"uniform_{part}", f"uniform {part} alone", what, likely, None)

    def _likely_with(
        self, part: str, substitution: Substitution | None, maps_of: Mapping[int, int]
    ) -> Floats:
        """Log likelihoods (N,) with other weights at a part of the sites: `substitution`, or the mean maps of the
        protein that `maps_of` says."""
        maps = []
        for number in watched(self.progress, "other weights", range(len(self.ids))):
            self.stop.check()
            other = substitution or self.mean_maps(maps_of[number])
            maps.append(self.contacts(number, substitute(self.sites[part], other)))
        return self.likely_under(self._pairs(maps))

    def mean_maps(self, number: int) -> MeanMaps:
        """The maps of MSA attention of one protein."""
        maps = MeanMaps()
        self.contacts(number, capture(self.sites["msa"], maps))
        return maps

    def lost(self, number: int, shuffled: NDArray[np.bool_]) -> Floats:
        """How far shuffled columns take the contacts of each residue from the model's own (R,): sums of
        Kullback-Leibler divergences."""
        both = (self.own[number], self.contacts(number, shuffled=shuffled))
        own_RR, other_RR = (np.clip(each, LEAST, 1 - LEAST) for each in both)
        moved_RR = own_RR * np.log(own_RR / other_RR) + (1 - own_RR) * np.log((1 - own_RR) / (1 - other_RR))
        return np.asarray((moved_RR * (self.separations[number] >= MIN_SEPARATION)).sum(1))

    def precision(self, number: int, scores_RR: Floats) -> tuple[float, float]:
        """Share of contacts among the R best pairs and among all: of the structure, or the model's R likeliest."""
        pairs, right = self.counted_pairs[number], self.labels[number]
        if self.truths is None:
            right = right >= np.sort(right)[-len(pairs) :][0]
        best = np.argsort(-scores_RR[pairs], kind="stable")[: len(pairs)]
        return float(right[best].mean()), float(right.mean())

    def point(self) -> None:
        """Add what predictions lose without attended columns, and the contacts that attention alone finds."""
        columns: list[tuple[int, dict[str, float]]] = []
        precisions: list[tuple[float, float, float]] = []
        for number, own_RR in enumerate(watched(self.progress, "deletion", self.own)):
            self.stop.check()
            random = np.random.default_rng([self.settings.seed, 3, number])
            maps = self.mean_maps(number)
            heads_HRR = torch.cat([maps.by_site[name] for name in self.sites["maps"]])
            mean_RR = heads_HRR.mean(0).double().cpu().numpy()
            scores = {
                "own": average_product_correction(mean_RR + mean_RR.T),
                "head": own_RR,
                "random": random.random(own_RR.shape),
            }
            precisions.append((self.precision(number, scores["own"])[0], *self.precision(number, own_RR)))
            apart_RR = self.separations[number] >= MIN_SEPARATION
            everything_R = self.lost(number, np.ones(len(own_RR), np.bool_))
            for residue in np.argsort(-everything_R, kind="stable")[:EXPLAINED]:
                moved = {"everything": float(everything_R[residue])}
                for name, score_RR in scores.items():
                    chosen_R = top_bins(score_RR[residue], apart_RR[residue], JUDGED)
                    moved[name] = float(self.lost(number, chosen_R)[residue])
                columns.append((number, moved))
        lost = Effects(
            pairs=single_pairs(np.array([number for number, _ in columns])),
            moved={name: np.array([moved[name] for _, moved in columns]) for name in columns[0][1]},
            number=len(self.ids),
        )
        attention_N, head_N, chance_N = np.array(precisions).T
        attention, best, all_pairs = (percent(each.mean()) for each in (attention_N, head_N, chance_N))
        pairs = "the model's R likeliest" if self.truths is None else "contacts"
        self.add(
            "attention_contacts",
            "contacts of attention alone, as a share of the model's",
            ratio_of_sums(attention_N - chance_N, head_N - chance_N),
            f"Of the R pairs of residues with most attention {attention} are {pairs}, of the R likeliest {best}, "
            f"of all {all_pairs} (R residues of a protein).",
            thresholds.FOUND,
        )
        self.add(
            "deletion",
            "deletion: most attended tenth of the columns, beyond a random tenth",
            lost.share_gained("own", "random"),
            f"With the most attended tenth of the columns in random order, contacts of a residue lose "
            f"{lost.percent('own')} of what they lose with all, with a random tenth "
            f"{lost.percent('random')}.",
            thresholds.POINTED,
        )
        self.add(
            "deletion_against_contacts",
            "deletion: what attention finds of what the model's contacts find",
            lost.recovered("own", "head"),
            f"With the tenth of its likeliest contacts they lose {lost.percent('head')}: beyond a random "
            "tenth, the most attended tenth takes away {share} of that.",
            thresholds.FOUND,
        )

    def verdict(self) -> Verdict:
        tested = NEEDED in self.measures or self.measures.passed("skill") is False
        alike = listed(self.relatives or ())
        caveats = {
            "Maps are means over rows, blocks and heads of row attention; a single head may be better or worse "
            "(explain heads).": True,
            "Whether attention was needed was not tested: that takes --other-model with a model trained with "
            "uniform attention (train evoformer -c model.uniform_msa_attention=true).": not tested,
            "How well the model predicts is not known (no structures).": "skill" not in self.measures,
            "The model was trained on these proteins: on others it may do worse.": self.held_out == "train",
            f"The model was trained on proteins like {alike}: on others it may do worse.": bool(alike),
            "Whether the model was trained on these proteins is not known.": self.relatives is None
            and not self.held_out,
            f"Fewer than {FEW} proteins: no interval tells what is chance.": len(self.ids) < FEW,
        }
        return judge(self.measures, QUESTIONS, PASSED, caveats)


def shuffle_columns(inputs: ModelInputs, columns_R: NDArray[np.bool_]) -> ModelInputs:
    """The inputs with the cells of some columns in random order among the rows but the target's, in each column
    another. Pair features of these columns become 0, as they are where columns do not vary together."""
    random, places = np.random.default_rng(SEED), torch.from_numpy(np.flatnonzero(columns_R))
    changed: dict[str, Any] = {}
    for first, *names in ((1, "msa_feat"), (0, "extra_msa", "extra_has_deletion", "extra_deletion_value")):
        given = {name: cells for name in names if (cells := getattr(inputs, name)) is not None}
        for name, cells in given.items():
            if name == names[0]:
                order = random.random((len(cells) - first, len(places))).argsort(0) + first
            changed[name] = cells.clone()
            changed[name][first:, places] = cells[torch.from_numpy(order), places]
    if inputs.pair_feat is not None:
        changed["pair_feat"] = inputs.pair_feat.clone()
        changed["pair_feat"][places] = changed["pair_feat"][:, places] = 0
    return inputs._replace(**changed)


def make_probe(
    model: LoadedEvoformerModel,
    given: Any,
    settings: CheckSettings,
    controls: Sequence[LoadedEvoformerModel] = (),
) -> ContactProbe:
    """Proteins of a contact dataset, or of alignments as `alignments_in` takes them.

    Of the dataset that the model was trained on, the test side (or else validation, or else training) is used; of
    another all proteins are. controls: the same model trained with uniform MSA attention.

    Raises: FormatError for what is neither; BioattnError for an alignment that the model cannot read, or a control
    that attends by weights of its own.
    """
    for control in controls:
        if not control.config.uniform_msa_attention:
            what = "attends by weights of its own; give the model trained with uniform_msa_attention"
            raise BioattnError(f"--other-model {control.path}: {what}")
    aligned: list[Aligned] = []
    held_out, relatives = "", None
    path = path_in(given, ALIGNED_LETTERS)
    if path is None or not path.is_file() or not h5py.is_hdf5(path):
        digests, families = [], read_families(model.path.parent)
        relatives = list[str]() if families else None
        if path is None:
            drawn: Iterable[Given] = alignments_in(given)[0]
        else:
            sources = find_alignments(path)[0]
            rows = draw_rows(len(sources), settings.samples, settings.seed)
            drawn = (Given(sources[row], *read_with_digest(sources[row].path)) for row in rows)
        for source, alignment, digest in drawn:
            inputs = prepare_inputs(alignment, model.config, model.inputs, source=str(source.path))
            aligned.append(Aligned(source.name, inputs, None))
            digests.append(digest)
            if relatives is not None and most_alike(alignment.row(0), families):
                relatives.append(source.name)
        sha256 = hashlib.sha256("".join(digests).encode()).hexdigest() if len(digests) > 1 else digests[0]
    else:
        dataset, sha256 = open_contact_dataset(path), sha256_of(path)
        rows = np.arange(len(dataset))
        if read_training_record(model.path.parent).get("dataset", {}).get("sha256") == sha256:
            side = next((side for side in (TEST, VALIDATION) if len(dataset.proteins_in(side))), TRAIN)
            rows, held_out = dataset.proteins_in(side), SPLIT_NAMES[side]
        for row in rows[draw_rows(len(rows), settings.samples, settings.seed)]:
            family = TrainingFamily(dataset.protein(int(row)))
            inputs = family.inputs(model.inputs, covariance=bool(model.config.pair_features))
            aligned.append(Aligned(family.protein.id, inputs, family.protein.cb))
    return ContactProbe(
        model=model,
        aligned=aligned,
        relatives=relatives,
        controls=[make_probe(control, given, settings) for control in controls],
        settings=settings,
        inputs=path or HELD,
        ids=[each.id for each in aligned],
        sha256=sha256,
        held_out=held_out,
    )


class AlignmentHeadScorer:
    """How much each attention head matters for the distances: a `bioattn.inference.runner.HeadScorer`.

    As for promoter models (`bioattn.models.promoter.heads`): the size of the loss's slope in a mask on what the
    head gives (Michel, Levy & Neubig 2019), here one slope per protein, averaged over proteins. The loss is the
    cross-entropy of the distogram over all pairs of residues with known distance, row 1 as target, first draw of
    the alignment. Heads of invariant point attention, which are joined with other quantities, are not among them.
    """

    item = "protein"

    def __init__(
        self, model: LoadedEvoformerModel, dataset_path: Path, split: str, progress: Progress
    ) -> None:
        """Read the proteins of a split. Raises: BioattnError when there are none."""
        dataset = open_contact_dataset(dataset_path)
        indices = dataset.proteins_in(SPLIT_NAMES.index(split)).tolist()
        if not indices:
            raise BioattnError(
                f"{dataset_path}: no protein is in the {split} split; choose another with --split"
            )
        self._model, self._progress = model, progress
        covariance = bool(model.config.pair_features)
        self._families = load_families(dataset, indices, covariance=covariance, progress=progress)
        self.sites = {name: site for name, (_, site) in attention_layers(model.model).items()}
        self.items = [family.protein.id for family in self._families]

    def importance(self, silenced: Collection[Head] = ()) -> dict[Head, Floats]:
        """|∂ loss / ∂ mask| of every head for every protein. silenced: none, as no such model is pruned.

        Raises: BioattnError when the model predicts no distances.
        """
        families = watched(self._progress, "head importance", self._families)
        gradients = [self._gradients(family) for family in families]
        return {
            (name, head): np.array([gradients_H[name][place] for gradients_H in gradients])
            for name, site in self.sites.items()
            for place, head in enumerate(site.heads)
        }

    def overall(self, by_item: Floats) -> float:
        return float(by_item.mean())

    def passes(self) -> Iterator[Callable[[], object]]:
        for family in self._families:
            yield partial(self._model.model, self._inputs(family))

    def record(self) -> dict[str, Any]:
        return {"proteins": len(self.items), "loss": "cross-entropy of the distogram"}

    def _inputs(self, family: TrainingFamily) -> ModelInputs:
        """The first draw of an alignment."""
        model = self._model
        alignment = family.inputs(model.inputs, covariance=bool(model.config.pair_features))
        return alignment.sample(SEED, 0).to(model.device)

    def _gradients(self, family: TrainingFamily) -> dict[str, Floats]:
        """|∂ loss / ∂ mask| for one protein, by site, (H,)."""
        model, inputs = self._model, self._inputs(family)
        distances_RR = torch.from_numpy(distances(family.protein.cb[family.columns])).to(model.device)
        masks = {
            name: torch.ones(site.num_heads, device=model.device, requires_grad=True)
            for name, site in self.sites.items()
        }
        with torch.enable_grad(), masked_heads(model.model, masks):
            # Activations of all blocks at once would not fit for long alignments.
            logits = model.model(inputs, recompute=True).distogram_logits
            if logits is None:
                raise BioattnError(
                    "the model predicts no distances, so there is no loss its heads could change"
                )
            index = inputs.residue_index
            nothing = torch.zeros((1, 1), device=model.device)
            loss = sample_losses(
                logits.float(), None, distances_RR, index[:, None] - index[None, :], nothing.long(), nothing
            ).distogram
            gradients = torch.autograd.grad(loss, list(masks.values()), allow_unused=True)
        return {
            name: np.zeros(mask.shape) if gradient is None else gradient.abs().double().cpu().numpy()
            for (name, mask), gradient in zip(masks.items(), gradients, strict=True)
        }
