"""The check of molecule models: what is lost with other weights, and when the atoms that are attended to write
nothing.

Shape suffixes: N molecules, B molecules of a batch, A atoms, H heads, R radii, S slots, T tasks, P pairs of
molecule and task.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import Substitution, capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.checks import thresholds
from bioattn.checks.deletion import Pairs, Replacement, measure_effects, pairs_that_stand_out
from bioattn.checks.engine import (
    CheckSettings,
    Evidence,
    LikelihoodProbe,
    OtherWeights,
    draw_names,
    draw_rows,
)
from bioattn.checks.measures import Code, Question, Verdict, judge, percent
from bioattn.checks.weights import MapSums, OfSampleBefore, drawn_by, shuffled, uniform, weighed_visible
from bioattn.choices import SPLIT_NAMES, TEST, TRAIN, VALIDATION, Task
from bioattn.errors import BioattnError
from bioattn.inference.inputs import Inputs, dataset_in
from bioattn.inference.passes import require_finite
from bioattn.io.files import sha256_of
from bioattn.models.molecule.model import MoleculeBatch, molecule_batch
from bioattn.models.molecule.run import LoadedMoleculeModel
from bioattn.molecules.dataset import MoleculeDataset, open_molecule_dataset
from bioattn.text import some

BATCH = 64
PAIRS = 256
"""Pairs of molecule and task that are predicted together."""
NO_MAPS = "every atom writes as much: weights over slots single out no atom"
POINTING = "deletion", "deletion_by_contributions", "deletion_against_contributions"
NOT_USED = "Attention is not used to any gain: {} the model predicts as well. The attention explains nothing."
QUESTIONS = (
    Question(
        measures=("skill",),
        asks="the model predicts",
        code=Code.NOT_PREDICTIVE,
        sentence="The model predicts no better, or hardly better, than the training mean: its attention explains "
        "nothing.",
        required=True,
    ),
    *(
        Question(
            measures=(name,), asks="attention is used", code=Code.NOT_USED, sentence=NOT_USED.format(done)
        )
        for name, done in (
            ("without_network", "without its network"),
            ("uniform_weights", "with uniform weights"),
            ("shuffled_weights", "with shuffled weights"),
            ("other_molecules_weights", "with another molecule's weights"),
        )
    ),
    Question(
        measures=POINTING,
        asks="attention points at what predictions rest on",
        code=Code.UNFAITHFUL,
        sentence="Attention is used ({lost}), but does not point at what predictions rest on. {sentence}",
    ),
)
Floats = NDArray[np.float64]


@dataclass(kw_only=True)
class MoleculeProbe(LikelihoodProbe):
    """Held-out molecules, and what a model predicts of them by summing what their atoms write."""

    beyond = "the training mean"
    skill_label = "share of the error of the training mean saved"
    noun = "molecule"
    instead = (
        "Look at what each atom contributes, which is judged beside: `bioattn export attention {model} {inputs} "
        "-o attention.h5`, then `bioattn plot attention.h5 -o atoms.svg`."
    )

    loaded: LoadedMoleculeModel
    dataset: MoleculeDataset
    rows_N: NDArray[np.int64]

    @property
    def record(self) -> Mapping[str, Any]:
        return {"molecules": len(self.ids)}

    @property
    def known_NA(self) -> NDArray[np.bool_]:  # noqa: N802
        """False for padding."""
        sizes_N = self.dataset.molecules.sizes[self.rows_N]
        return np.arange(sizes_N.max(initial=0)) < sizes_N[:, None]

    @property
    def readouts(self) -> list[str]:
        """The sites at which predictions themselves, and not atoms, attend to atoms."""
        return [name for name, site in self.loaded.sites.items() if site.axis("query") is None]

    def log_likelihoods(self) -> Floats:
        """ln of the probability of what was measured of each molecule, (N,). Of numbers: minus half the squared
        error in standard deviations, so that a constant is missing."""
        return self._likely(self.loaded.model)

    def simple_log_likelihoods(self) -> Mapping[str, Floats]:
        """Of the training mean, and of the model's Gaussian process, if it has one."""
        config, process = self.loaded.config, self.loaded.model.process
        mean_T = torch.zeros(len(config.tasks))
        if config.task is Task.BINARY:
            train_NT = self.dataset.targets_NT[self.dataset.side(TRAIN)]
            mean_T = torch.from_numpy(np.nanmean(train_NT, axis=0)).logit(1e-6)
        simple = {self.beyond: self._likely(lambda batch: mean_T.expand(len(batch.bits_BRA), -1))}
        if process is not None:
            simple["its Gaussian process"] = self._likely(lambda batch: process(batch.bits_BRA))
        return simple

    def skill_sentence(self, own_N: Floats, plain_N: Floats) -> str:
        error = percent(float(own_N.sum() / plain_N.sum()))
        return f"On {self.counted()} the model's error is {error} of that of {self.beyond}."

    def other_weights(self) -> Iterator[OtherWeights]:
        sites = list(self.loaded.sites)
        yield OtherWeights(
            "uniform_weights",
            "uniform weights",
            "Made to attend to all alike",
            self.with_weights(sites, uniform(weighed_visible)),
            thresholds.USED,
        )
        name, label = "other_molecules_weights", "another molecule's weights"
        what = "Given the weights of another molecule's atoms"
        other: Substitution = OfSampleBefore(self.known_NA)
        if self.readouts:
            name, label = "shuffled_weights", "shuffled weights"
            what = "Given its weights over atoms in random order"
            other = shuffled(weighed_visible, drawn_by(self.settings.seed))
        yield OtherWeights(name, label, what, self.with_weights(sites, other), thresholds.SWAPPED)

    def point(self) -> None:
        """Add what predictions lose when the atoms that are attended to, or contribute, most write nothing."""
        number, known_NA = len(self.ids), self.known_NA
        scores: dict[str, Floats] = {}
        maps_NA = self._maps()
        tasks = self.loaded.config.tasks
        chosen = draw_names(tasks, self.settings.probed, self.settings.seed)
        tasks_T = np.array([tasks.index(task) for task in chosen])

        def predictions(pairs: Pairs, writing_PA: NDArray[np.int64]) -> Floats:
            answer_P = self._network_part(pairs.sample_N, tasks_T[pairs.task_N], writing_PA > 0)
            require_finite(answer_P, "predictions")
            return answer_P

        molecules_P, tasks_P = (each.ravel() for each in np.indices((number, len(tasks_T))))
        atoms_NA = known_NA.astype(np.int64)
        whole_P = predictions(Pairs(molecules_P, tasks_P, np.ones(len(tasks_P))), atoms_NA[molecules_P])
        pairs = pairs_that_stand_out(whole_P.reshape(number, -1))
        if maps_NA is None:
            self.measures.skip(NO_MAPS, "deletion")
        if not len(pairs.sample_N):
            self.measures.skip("the network says the same of every molecule", *POINTING)
            return
        lost_NTA = np.zeros((number, len(tasks_T), known_NA.shape[1]))
        with torch.inference_mode():
            for own, batch in self._batches():
                lost_BTRA = self.loaded.model.network_contributions(batch.graphs)[:, tasks_T]
                lost_NTA[own, :, : lost_BTRA.shape[-1]] = lost_BTRA.sum(2).cpu().numpy()
        scores["contributions"] = lost_NTA[pairs.sample_N, pairs.task_N] * pairs.scale_N[:, None]
        if maps_NA is not None:
            scores["own"] = maps_NA[pairs.sample_N]
        edges = tuple(range(known_NA.shape[1] + 1))
        replacement = Replacement(predictions=predictions, codes_BL=atoms_NA, known_BP=known_NA, edges=edges)
        # An atom that writes nothing has no several versions, but each time other random atoms are drawn.
        backgrounds = [np.zeros_like(atoms_NA)] * self.settings.backgrounds
        effects = measure_effects(self, replacement, pairs, scores, backgrounds, curves=maps_NA is not None)
        for score, name, first, last in (
            ("own", POINTING[0], "most attended tenth", ""),
            ("contributions", POINTING[1], "tenth", " that contributes most"),
        ):
            if score in scores:
                self.add(
                    name,
                    f"deletion: {first}{last}, beyond a random tenth",
                    effects.share_gained(score, "random"),
                    f"Without what the {first} of its atoms{last} writes, a prediction loses "
                    f"{effects.percent(score)} of what it loses without all, and {effects.percent('random')} "
                    "without that of a random tenth.",
                    thresholds.POINTED,
                )
        if maps_NA is None:
            return
        self.curves = effects.curves()
        self.add(
            POINTING[2],
            "deletion: what maps find of what contributions find",
            effects.recovered("own", "contributions"),
            "Of what the tenth that contributes most takes away beyond a random tenth "
            f"({effects.percent('contributions', 'random')}), the most attended tenth takes away {{share}}.",
            thresholds.FOUND,
        )

    def _maps(self) -> Floats | None:
        """Weights of atoms (N, A), mean over radii and heads; None where predictions attend to no atoms."""
        if not self.readouts:
            return None
        longest = self.known_NA.shape[1]
        sums = MapSums(self.known_NA, self.loaded.config.radius + 1)

        class Readouts:
            """A receiver of weights (B, R, H, A) over atoms."""

            def receive(
                self,
                site: AttentionSite,
                weights: Tensor,
                value_weighted: Tensor | None,
                tile: Tile | None = None,
            ) -> None:
                sums.receive(site, F.pad(weights.transpose(1, 2), (0, longest - weights.shape[-1])), None)

        self.likely(capture(self.readouts, Readouts()))
        self.heads = sums.spreads()
        self.measures.add_entropy([head.entropy for head in self.heads])
        return np.asarray(sums.mean().mean(1).astype(np.float64))

    def _network_part(
        self, row_P: NDArray[np.int64], task_P: NDArray[np.int64], writing_PA: NDArray[np.bool_]
    ) -> Floats:
        """The network's part of predictions (P,) of the molecules `row_P` when only some of their atoms write."""
        answers = []
        with torch.inference_mode():
            for first in range(0, len(row_P), PAIRS):
                own = slice(first, first + PAIRS)
                writing_P1A = torch.from_numpy(writing_PA[own, None]).to(self._writes_NAS)
                answer_PT = self.loaded.model.read((writing_P1A @ self._writes_NAS[row_P[own]])[:, 0])
                answers.append(answer_PT.cpu().numpy()[np.arange(len(answer_PT)), task_P[own]])
        return np.concatenate(answers).astype(np.float64)

    @cached_property
    def _writes_NAS(self) -> Tensor:  # noqa: N802
        """What each atom writes at all radii together."""
        longest, written = self.known_NA.shape[1], []
        for _, batch in self._batches():
            writes_BAS = self.loaded.model.encoder(batch.graphs).sum(1)
            written.append(F.pad(writes_BAS, (0, 0, 0, longest - writes_BAS.shape[1])))
        return torch.cat(written)

    def _likely(self, predict: Callable[[MoleculeBatch], Tensor]) -> Floats:
        """ln of the probability (N,) under predictions (B, T)."""
        config, found = self.loaded.config, []
        wanted_NT = torch.from_numpy(self.dataset.targets_NT[self.rows_N]).double()
        for own, batch in self._batches():
            with torch.inference_mode():
                answer_BT = predict(batch).double().cpu()
            wanted_BT = wanted_NT[own]
            if config.task is Task.BINARY:
                likely_BT = -F.binary_cross_entropy_with_logits(answer_BT, wanted_BT, reduction="none")
            else:
                mean_T, spread_T = torch.tensor(config.mean), torch.tensor(config.spread)
                likely_BT = -(answer_BT - (wanted_BT - mean_T) / spread_T).square() / 2
            found.append(likely_BT.where(wanted_BT.isfinite(), 0.0).sum(1))
        return torch.cat(found).numpy()

    def _batches(self) -> Iterator[tuple[slice, MoleculeBatch]]:
        for first in range(0, len(self.rows_N), BATCH):
            own = slice(first, first + BATCH)
            yield own, molecule_batch(self.dataset.molecules, self.rows_N[own], self.loaded.device)

    def verdict(self) -> Verdict:
        do = "attention points" if self.readouts else "contributions point"
        caveats = {
            "Whether a model that was trained without attention would predict as well was not tested.": True,
            "What is said holds for what the network adds: the Gaussian process has no attention.": (
                "without_network" in self.measures
            ),
            "Maps are means over radii and heads of the weights of atoms; a single head may be better or worse.": (
                "shuffled_weights" in self.measures
            ),
            "Whether the model was trained on these molecules is not known: this is not its own dataset.": not (
                self.held_out
            ),
        }
        sentence = f"Attention is used ({{lost}}) and {do} at what predictions rest on."
        return judge(self.measures, QUESTIONS, (Code.USED, Code.FAITHFUL, sentence), caveats)


def make_probe(
    loaded: LoadedMoleculeModel, inputs: Inputs, settings: CheckSettings, _evidence: Evidence
) -> MoleculeProbe:
    """Measured molecules drawn from the test side (or else validation) of a dataset.

    Raises: FormatError for what is no such dataset; BioattnError when it measures something else.
    """
    path = dataset_in(inputs)
    dataset, config = open_molecule_dataset(path), loaded.config
    if (tuple(dataset.tasks), dataset.task) != (config.tasks, config.task):
        raise BioattnError(
            f"{path}: measures {some(dataset.tasks)} ({dataset.task}), the model predicts {some(config.tasks)} "
            f"({config.task}); give the dataset that it was trained on"
        )
    side = TEST if (dataset.split == TEST).any() else VALIDATION
    rows = dataset.side(side)
    rows = rows[np.isfinite(dataset.targets_NT[rows]).any(1)]
    rows = rows[draw_rows(len(rows), settings.samples, settings.seed)]
    sha256 = sha256_of(path)
    return MoleculeProbe(
        loaded=loaded,
        dataset=dataset,
        rows_N=rows,
        settings=settings,
        inputs=path,
        ids=[dataset.molecules.ids[row] for row in rows],
        sha256=sha256,
        held_out=loaded.held_out(SPLIT_NAMES[side], sha256),
    )
