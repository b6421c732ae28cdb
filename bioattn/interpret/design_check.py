"""The check of designs: what they do by oracles that share no promoter with the model, and how real they look.

The dataset's sides decide who sees what. The model, and the guide oracle that simple designers climb on, have seen
training promoters; the oracle that judges has seen validation and test promoters alone. Effects are in standard
deviations of the oracle's scores of real promoters that it has not seen.

Shape suffixes: G promoters, B designs, L positions, T treatments.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bioattn.choices import TRAIN, not_there
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.formats.fasta import read_fasta
from bioattn.formats.meme import read_meme
from bioattn.formats.nucleotides import encode
from bioattn.inference.runner import ResponseRunner, with_ability
from bioattn.interpret.design_oracles import KmerOracle, baseline_designs, kmer_distance, nearest
from bioattn.interpret.design_record import DesignsCheck, DesignSet
from bioattn.interpret.motifs.hits import base_composition, find_motif_hits
from bioattn.io.files import sha256_of
from bioattn.promoters.dataset import PromoterDataset, read_dataset
from bioattn.promoters.homology import overlaps_any
from bioattn.promoters.promoter_fasta import DesignRequest, read_request
from bioattn.store.training_record import read_training_record
from bioattn.system.progress import SILENT, Progress
from bioattn.text import counted, percentage

LOGGER = logging.getLogger("bioattn")
Codes = NDArray[np.uint8]
Floats = NDArray[np.float64]

GUIDANCES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
LEAST = 20
"""Designs and promoters that are needed of a kind."""
NEAR_QUANTILE = 0.99
MOST_SEEN = 3000
"""Promoters that an oracle is fitted on, as its time grows with the third power of them."""
MOST_DISTANT, MOST_NEAR, LARGEST_GAP = 1.2, 0.02, 1.25
"""Of the verdict: the 6-mer distance over its floor, the share of designs that are nearer to training than 99 % of
held-out promoters, and the guide's gain over that of the judging oracle."""
SHOWN, LEAST_AGREEMENT = 24, 0.5
"""Held-out promoters whose attention is held against the effects of treatments, and the least correlation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDesigns:
    """Designs that were read, and what they were asked for."""

    path: Path
    codes: Codes
    request: DesignRequest


def read_designs(path: Path, length: int, on: Sequence[str] = (), off: Sequence[str] = ()) -> CheckedDesigns:
    """Read designs that were asked for the same. on, off: what they are for, where their descriptions do not say.

    Raises: FormatError for designs that differ in request or length, hold N, or do not say what they are for.
    """
    codes: list[Codes] = []
    requests: dict[object, DesignRequest] = {}
    for record in read_fasta(path):
        where = f"{path}:{record.line}: {record.name}"
        request = DesignRequest(tuple(on), tuple(off), {}) if on or off else read_request(record.description)
        if request is None:
            raise FormatError(
                f"{where} does not say what it was asked for; give it by --treatment and --not, or designs of "
                "`bioattn generate promoters`"
            )
        requests.setdefault((request.on, request.off, request.said.get("model")), request)
        codes.append(encode(record.sequence, where))
        if codes[-1].size != length or (codes[-1] > 3).any():
            raise FormatError(f"{where} has {codes[-1].size:,} bases; {length:,} without N are needed")
        if len(requests) > 1:
            first, second = list(requests.values())[:2]
            raise FormatError(f"{where} is for {second}, those before it for {first}; check them one by one")
    if len(codes) < LEAST:
        raise BioattnError(f"{path}: holds {counted(len(codes), 'design')}; {LEAST} are needed")
    return CheckedDesigns(path=path, codes=np.stack(codes), request=next(iter(requests.values())))


class ModelOracle:
    """What a model of responses predicts, as an oracle."""

    def __init__(self, model: ResponseRunner, dataset: Path) -> None:
        """dataset: that of its training. Raises: BioattnError when it is another one."""
        self.model, self.predictor, self.path = model, model.predictor(), dataset
        record = {} if model.path is None else read_training_record(model.path)
        if record.get("dataset", {}).get("sha256") != sha256_of(dataset):
            raise BioattnError(
                f"--oracle-dataset {dataset}: is not the dataset that {model.path} was trained on"
            )
        self.data = read_dataset(dataset)
        self.columns: list[int] = []

    def require_fit(self, data: PromoterDataset, names: Sequence[str]) -> None:
        """Raises: BioattnError when the model shares training promoters with `data`, by name, bases or place,
        reads another length, or lacks one of the treatments `names`."""
        if self.model.length != data.length:
            raise BioattnError(
                f"--other-model {self.model.path}: reads promoters of {self.model.length:,} bases, designs have "
                f"{data.length:,}"
            )
        both = data, self.data
        genes, own_genes = ({each.gene_ids[gene] for gene in each.genes_in(TRAIN)} for each in both)
        windows, own_windows = (
            {row.tobytes() for row in _inner(each)[each.genes_in(TRAIN)]} for each in both
        )
        sides = [data.gene_split == TRAIN, self.data.gene_split == TRAIN]
        starts, ends = np.concatenate([_with_flanks(data), _with_flanks(self.data)], axis=1)
        here, there = (np.concatenate([sides[0] & first, sides[1] & ~first]) for first in (True, False))
        overlapping = overlaps_any([*data.chrom, *self.data.chrom], starts, ends, here, there).sum()
        shared = max(len(genes & own_genes), len(windows & own_windows), int(overlapping))
        if shared:
            raise BioattnError(
                f"--other-model {self.model.path}: was trained on {counted(shared, 'promoter')} that the writer "
                "was trained on, too; train it on others (`prepare dataset --split-table`)"
            )
        for name in names:
            if name not in self.predictor.names:
                raise not_there("--other-model", name, self.model.path, "treatment", self.predictor.names)
        self.columns = [list(self.predictor.names).index(name) for name in names]

    def scores(self, codes_BL: Codes) -> Floats:
        """Predicted responses (B, T), logits of a binary model."""
        size = self.predictor.batch_size
        with torch.inference_mode():
            parts = [
                self.predictor.forward(part.to(self.model.device)).float().cpu()
                for part in torch.from_numpy(codes_BL).split(size)
            ]
        return np.asarray(torch.cat(parts).double().numpy()[:, self.columns])


def model_oracle(models: Sequence[Any], dataset: Path | None) -> ModelOracle | None:
    """The second oracle of --other-model. Raises: BioattnError when it cannot be one; SettingsError when one of
    model and dataset is lacking, or there are several."""
    if not models and dataset is None:
        return None
    if len(models) != 1 or dataset is None:
        raise SettingsError(
            "--other-model and --oracle-dataset: of designs give both once, a model and the dataset of its "
            "training"
        )
    deed = "judge designs: they predict no responses"
    return ModelOracle(with_ability(models[0], "predictor", deed, "--other-model"), dataset)


class Judge:
    """A dataset, its oracles, and the measures of any set of sequences."""

    def __init__(
        self, runner: Any, dataset: Path, request: DesignRequest, seed: int, model: ModelOracle | None = None
    ) -> None:
        """Raises: BioattnError when the model was not trained on the dataset, or too few are held out."""
        if runner.dataset_sha256 != sha256_of(dataset):
            raise BioattnError(f"{dataset}: is not the dataset that the model was trained on")
        data = read_dataset(dataset)
        self.names = list(runner.treatment_names)
        unknown = [name for name in (*request.on, *request.off) if name not in self.names]
        if unknown:
            raise BioattnError(f"the designs are for {unknown[0]!r}, which the model does not know")
        self.model = model
        if model is not None:
            model.require_fit(data, self.names)
        codes = _inner(data)
        columns = [data.treatments.names.index(name) for name in self.names]
        targets = data.targets[:, columns].astype(np.float64)
        train = data.gene_split == TRAIN
        # The window of another gene may hold bases of a training promoter: the other strand's, or a neighbour's.
        held_out = ~train & ~overlaps_any(data.chrom, *_with_flanks(data), ~train, train)
        self.train, self.held_out = codes[train], codes[held_out]
        if min(len(self.train), len(self.held_out)) < LEAST:
            raise BioattnError(
                f"{dataset}: {LEAST} promoters on each side of the split are needed, those held out without bases "
                "of training promoters"
            )
        levels = runner.levels(data)
        self.train_levels, self.held_out_levels = levels[train], levels[held_out]
        self.direction = np.array([float(n in request.on) - float(n in request.off) for n in self.names])
        self.responders = {
            "train": self._responders(self.train, self.train_levels),
            "held out": self._responders(self.held_out, self.held_out_levels),
        }
        # As many promoters for both, so that their penalties shrink alike.
        rng = np.random.default_rng(seed)
        number = min(len(self.train), len(self.held_out), MOST_SEEN)
        seen = rng.permutation(len(self.train))[:number]
        judged = rng.permutation(len(self.held_out))[:number]
        self.guide = KmerOracle(self.train[seen], targets[train][seen])
        self.judge = KmerOracle(self.held_out[judged], targets[held_out][judged])
        by_judge, by_guide = self.judge.scores(self.train), self.guide.scores(self.held_out)
        self.accuracy = {
            name: {
                "judge": _r(by_judge[:, place], targets[train, place]),
                "guide": _r(by_guide[:, place], targets[held_out, place]),
            }
            for place, name in enumerate(self.names)
        }
        near = nearest(self.responders["held out"], self.train)
        self.near_limit = float(np.quantile(near, NEAR_QUANTILE))

    def _responders(self, codes: Codes, levels: NDArray[np.int64]) -> Codes:
        """Real promoters that do what was asked for; all where these are too few."""
        chosen = (levels * self.direction >= np.abs(self.direction)).all(1)
        if chosen.sum() < LEAST:
            few = counted(int(chosen.sum()), "promoter")
            LOGGER.warning(f"only {few} do what was asked for; all stand for them")
            return codes
        return np.asarray(codes[chosen])

    def effects(self, codes: Codes, oracle: KmerOracle | ModelOracle, unseen: Codes) -> Floats:
        """Of each sequence and treatment, in standard deviations of real promoters, (B, T)."""
        real = oracle.scores(unseen)
        return np.asarray((oracle.scores(codes) - real.mean(0)) / (real.std(0) + 1e-12))

    def gain(self, effects: Floats) -> tuple[float, float]:
        """Mean over the treatments that were asked for, of those that are to be off with the other sign, and its
        standard error over sequences."""
        of = self.direction / max(1.0, np.abs(self.direction).sum())
        return float(effects.mean(0) @ of), float((effects @ of).std() / len(effects) ** 0.5)

    def row(
        self, name: str, codes: Codes, judged_codes: Codes | None = None, guidance: float | None = None
    ) -> DesignSet:
        """All measures of a set of sequences. judged_codes: others for the judge, which has seen these."""
        judged_codes = codes if judged_codes is None else judged_codes
        judged = self.effects(judged_codes, self.judge, self.train)
        by_model: dict[str, Any] = {}
        if self.model is not None:  # it has seen no training promoter of the writer
            effects = self.effects(judged_codes, self.model, self.train)
            by_model = {"effect_model": self.gain(effects)[0], **self._by_treatment(effects, "_model")}
        effect, error = self.gain(judged)
        reference, real = self.responders["train"], self.responders["held out"]
        number = min(len(codes), len(real))

        def distance(k: int) -> float:
            floor = kmer_distance(real[:number], reference, k)
            return kmer_distance(codes[:number], reference, k) / max(floor, 1e-12)

        return DesignSet(
            guidance=guidance,
            name=name,
            number=len(codes),
            effect=effect,
            effect_error=error,
            effect_guide=self.gain(self.effects(codes, self.guide, self.held_out))[0],
            **self._by_treatment(judged, ""),
            **by_model,
            distance_4=distance(4),
            distance_6=distance(6),
            near_training=float((nearest(codes, self.train) > self.near_limit).mean()),
            nearest_other=float(nearest(codes, codes, same=True).mean()),
        )

    def _by_treatment(self, effects: Floats, suffix: str) -> dict[str, Any]:
        means, direction = effects.mean(0), self.direction
        sides = {"on": direction > 0, "off": direction < 0, "others": direction == 0}
        return {
            f"{side}{suffix}": {self.names[place]: float(means[place]) for place in np.flatnonzero(chosen)}
            for side, chosen in sides.items()
        }


def check_designs(
    runner: Any,
    designs: CheckedDesigns,
    dataset: Path,
    *,
    samples: int = 64,
    motifs: Path | None = None,
    oracle: ModelOracle | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> DesignsCheck:
    """Check designs of a model against its dataset.

    samples: designs that are drawn at each guidance of the curve; 0: no curve. motifs: a MEME file whose motifs
    are counted. oracle: a model that judges, too.

    Raises: BioattnError for designs of another model, or as `Judge`.
    """
    request = designs.request
    writer = request.said.get("model")
    if writer not in (None, runner.sha256):
        raise BioattnError(f"{designs.path}: was written by another model (its digest is {writer})")
    judge = Judge(runner, dataset, request, seed, oracle)
    simple = baseline_designs(judge.train, min(200, len(designs.codes)), judge.guide, judge.direction, seed)
    sets = {
        "designs": designs.codes,
        "real promoters that do it": judge.responders["held out"],
        "all real promoters": judge.held_out,
        **simple,
    }
    seen = {"real promoters that do it": judge.responders["train"], "all real promoters": judge.train}
    rows = [judge.row(name, codes, seen.get(name)) for name, codes in sets.items()]
    curve = []
    if samples:
        progress.begin("guidance", len(GUIDANCES))
        steps = int(request.said.get("steps", 64))
        for guidance in GUIDANCES:
            how = {"guidance": guidance, "steps": steps, "seed": seed + 1}
            drawn = runner.designs(request.on, request.off, samples, **how)
            curve.append(judge.row(f"guidance {guidance:g}", drawn, guidance=guidance))
            progress.advance(1)
        progress.end()
    verdict, sentences = _verdict(rows, request)
    agreement = runner.map_agreement(judge.held_out[:SHOWN])
    if agreement is not None and agreement < LEAST_AGREEMENT:
        sentences.append(
            f"Attention to treatments hardly lies where they change bases (r = {agreement:.2f}): do not read "
            "these weights, read the effect map of `export attention`."
        )
    return DesignsCheck(
        settings={
            "designs": len(designs.codes),
            "treatment": list(request.on),
            "not": list(request.off),
            "model_sha256": runner.sha256,
            "dataset_sha256": runner.dataset_sha256,
            "training_promoters": len(judge.train),
            "held_out_promoters": len(judge.held_out),
            "seed": seed,
            "attention_agreement": agreement,
            "oracle_sha256": None if oracle is None else oracle.model.sha256,
        },
        code=verdict,
        sentences=sentences,
        oracles=judge.accuracy,
        rows=rows,
        motifs=[] if motifs is None else _motif_rates(motifs, sets),
        guidance=curve,
    )


def _verdict(rows: Sequence[DesignSet], request: DesignRequest) -> tuple[str, list[str]]:
    designs, real, _, *simple = rows
    oracles = ["effect"] if designs.effect_model is None else ["effect", "effect_model"]
    stronger = all(getattr(designs, name) >= getattr(real, name) for name in oracles)
    clear, real_clear = (row.effect > 2 * row.effect_error for row in (designs, real))
    natural = designs.distance_6 <= MOST_DISTANT
    # Two standard errors above what is allowed, as few designs give a rough share.
    most_near = MOST_NEAR + 2 * (MOST_NEAR * (1 - MOST_NEAR) / designs.number) ** 0.5
    copied = designs.near_training > most_near
    gap = designs.effect_guide / designs.effect if designs.effect > 0 else np.inf
    sentences = [
        f"By the held-out oracle designs for {request} gain {designs.effect:.2f} ± {2 * designs.effect_error:.2f} "
        f"sd; real promoters that do it gain {real.effect:.2f} ± {2 * real.effect_error:.2f}.",
        f"Their 6-mers lie {designs.distance_6:.2f} times as far from those of real promoters as held-out "
        f"ones do{'' if natural else ': they do not look like real promoters'}.",
        f"{percentage(designs.near_training, 1)} of them are nearer to a training promoter than 99 % of "
        f"held-out promoters are{': they repeat training promoters' if copied else ''}.",
    ]
    if designs.effect_model is not None:
        by_model = f"By the promoter model they gain {designs.effect_model:.2f} sd, real promoters "
        sentences.insert(1, f"{by_model}{real.effect_model:.2f}.")
    if not clear:
        why = (
            "take more designs"
            if real_clear
            else "this oracle does not tell real promoters that do it from others either"
        )
        sentences.append(f"Chance alone may give designs this gain: {why}.")
    if gap > LARGEST_GAP:
        sentences.append(
            "Their gain by the oracle that saw the training promoters is "
            + (f"{gap:.2f} times as large: part of it is not real." if np.isfinite(gap) else "not confirmed.")
        )
    better = [
        row.name
        for row in simple
        if all(getattr(row, name) > getattr(designs, name) for name in oracles)
        and row.distance_6 <= MOST_DISTANT
    ]
    if better:
        sentences.append(f"A simple means does better and looks as real: {', '.join(better)}.")
    if clear and stronger and natural and not copied and gap <= LARGEST_GAP and not better:
        return "supported", sentences
    if clear and all(getattr(designs, name) > 0 for name in oracles) and not copied:
        return "partly", sentences
    return "not_supported", sentences


def _motif_rates(path: Path, sets: Mapping[str, Codes]) -> list[dict[str, Any]]:
    """Share of sequences that hold each motif, on either strand, in every set."""
    motifs = read_meme(path).motifs
    background = base_composition(sets["all real promoters"])
    rows: list[dict[str, Any]] = [{"motif": motif.alternative_name or motif.name} for motif in motifs]
    for name, codes in sets.items():
        hits = find_motif_hits(codes, motifs, background=background)
        holders = hits.groupby("motif")["row"].nunique()
        for motif, row in zip(motifs, rows, strict=True):
            row[name] = float(holders.get(motif.name, 0)) / len(codes)
    return rows


def _inner(data: PromoterDataset) -> Codes:
    return np.ascontiguousarray(data.codes[:, data.flank : data.flank + data.length])


def _with_flanks(data: PromoterDataset) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return data.start - data.flank, data.end + data.flank


def _r(scores: Floats, targets: Floats) -> float:
    known = ~np.isnan(targets)
    return float(np.corrcoef(scores[known], targets[known])[0, 1])
