"""What each base of a promoter adds to a prediction: in-silico mutagenesis and gradients, and their HDF5 file.

    mutagenesis = Mutagenesis(runner.predictor(treatments))
    predictions_BT, values_BTLA, _ = mutagenesis(codes_BL)  # uint8 codes (B, length), 0..3 = ACGT, 4 = N

A method gives for each base what it would add in its place, centred over the four bases (hypothetical
contributions as TF-MoDISco, Shrikumar et al. 2018, reads them). Of a binary model they are in log-odds:
probabilities near 0 or 1 would hide what a base does.

Shape suffixes: B promoters, M mutants, T treatments, L bases, A the four bases, S points on the way.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit
from torch import Tensor, nn

from bioattn.choices import Method
from bioattn.errors import BioattnError, SettingsError
from bioattn.formats.nucleotides import UNKNOWN
from bioattn.inference.promoter_windows import Promoters, refitted
from bioattn.inference.run import ResultFile, Work, run_work
from bioattn.inference.runner import Predictor, ResponseRunner, with_ability
from bioattn.interpret.choices import ExplainAttribution, MethodSettings
from bioattn.models.family import load_runner
from bioattn.models.running import Running, RunReport
from bioattn.promoters.treatments import TreatmentTable, read_treatment_table, select_treatments
from bioattn.store.attribution import ATTRIBUTION, GAP, SEQUENCE, VALUES, attribution_file_layout
from bioattn.store.schema import PREDICTIONS, Block, FileLayout
from bioattn.store.windows import window_attributes
from bioattn.system.shard import parse_shard
from bioattn.text import counted, human_bytes

LOGGER = logging.getLogger("bioattn")


class Attribution(NamedTuple):
    """Attribution of some promoters."""

    predictions_BT: NDArray[np.float32]
    """Of the promoters as they are: responses in training units, log-odds of a binary model."""
    values_BTLA: NDArray[np.float32]
    """Hypothetical contributions: what each base would add at each position, centred over the four bases (they sum
    to 0); 0 where the promoter has N. In the units of the predictions."""
    gap_BT: NDArray[np.float32] | None = None
    """Of methods that promise a sum, what the sum of contributions before centring misses; None for others."""


def centred(values: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Values (B, T, L, 4) with their mean over the four bases removed, in place; 0 at N."""
    # In float64: what all four bases share can be far larger than what tells them apart.
    values -= values.mean(axis=-1, keepdims=True, dtype=np.float64)
    np.putmask(values, np.broadcast_to((codes_BL >= UNKNOWN)[:, None, :, None], values.shape), 0)
    return values


def contributions(values_BTLA: NDArray[np.float32], codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The value of the base that is there, (B, T, L): positive where it raises the response; 0 at N."""
    present_BLA = codes_BL[..., None] == np.arange(4, dtype=np.uint8)
    return np.asarray(np.einsum("btla,bla->btl", values_BTLA, present_BLA.astype(np.float32)))


class Mutagenesis:
    """Runs all single mutants of promoters through a model of any kind."""

    promoters_at_once = 1
    """How many promoters a call had best get."""

    def __init__(
        self, predictor: Predictor, *, batch_size: int | None = None, reuse_trunk: bool = True
    ) -> None:
        """batch_size: mutants per forward pass; None = as many as keep memory flat. reuse_trunk: where the model
        allows, compute only what a mutation reaches; without it each mutant is a forward pass."""
        self._predictor = predictor
        self._device = predictor.runner.device
        self._batch_size = batch_size or predictor.mutant_batch_size
        self._fast = predictor.fast_mutants(self._batch_size) if reuse_trunk else None

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) as the model sees them → predictions and values, one promoter after the other."""
        answers = [self._one(torch.from_numpy(codes_L).to(self._device)) for codes_L in codes_BL]
        predictions, values = (np.stack(arrays) for arrays in zip(*answers, strict=True))
        return Attribution(predictions, centred(values, codes_BL))

    def _one(self, codes_L: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Prediction (T,) and differences (T, L, 4) of one promoter, not centred."""
        with torch.inference_mode():
            prediction_T = self._predictor.forward(codes_L[None])[0]
            values_TLA = prediction_T.new_zeros(len(prediction_T), len(codes_L), 4)
            # All single mutants, position by position; N is left alone.
            bases_A = torch.arange(4, dtype=codes_L.dtype, device=codes_L.device)
            differs_LA = (codes_L[:, None] != bases_A) & (codes_L[:, None] != UNKNOWN)
            position_M, base_M = differs_LA.nonzero(as_tuple=True)
            base_M = base_M.to(codes_L.dtype)
            for rows, response_MT in self._responses(codes_L, position_M, base_M):
                changed_MT = response_MT - prediction_T
                values_TLA[:, position_M[rows], base_M[rows].long()] = changed_MT.T
        return prediction_T.float().cpu().numpy(), values_TLA.float().cpu().numpy()

    def _responses(
        self, codes_L: Tensor, position_M: Tensor, base_M: Tensor
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Some mutants at a time: their numbers, and responses (M, T)."""
        if self._fast is not None:
            yield from self._fast.answers(codes_L, position_M, base_M)
            return
        for rows in torch.arange(len(position_M), device=codes_L.device).split(self._batch_size):
            mutants_ML = codes_L.repeat(len(rows), 1)
            mutants_ML[torch.arange(len(rows), device=codes_L.device), position_M[rows]] = base_M[rows]
            yield rows, self._predictor.forward(mutants_ML)


class GradientInput:
    """The gradient with its mean over the four bases removed (Majdandzic et al. 2023), one pass a treatment.

    The mean is the part of the gradient that leads off the space of sequences, where the model has seen nothing.
    The value of the base that is there is gradient × input of the corrected gradient.
    """

    promoters_at_once = 8

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) → predictions and values."""
        codes = torch.from_numpy(codes_BL).to(self._predictor.runner.device)
        with torch.no_grad():
            prediction_BT = self._predictor.forward(codes)
        values_BTLA = (
            torch.stack(list(_gradients(self._predictor, codes, one_hot(codes))), dim=1).cpu().numpy()
        )
        return Attribution(prediction_BT.cpu().numpy(), centred(values_BTLA, codes_BL))


class IntegratedGradients:
    """The mean gradient on the straight way from a baseline (Sundararajan et al. 2017), by the midpoint rule.

    The baseline is a quarter of each base, nothing where the promoter has N. The values are the mean gradients
    centred over the bases; those of the bases that are there sum to f(promoter) − f(baseline), up to the gap that
    is reported.
    """

    promoters_at_once = 1

    def __init__(self, predictor: Predictor, steps: int) -> None:
        self._predictor = predictor
        self._steps = steps

    def __call__(self, codes_BL: NDArray[np.uint8]) -> Attribution:
        """Codes (B, length) → predictions, values and how far the contributions are from their sum."""
        answers = [self._one(codes_L) for codes_L in codes_BL]
        predictions, values, gaps = (np.stack(arrays) for arrays in zip(*answers, strict=True))
        return Attribution(predictions, centred(values, codes_BL), gaps)

    def _one(
        self, codes_L: NDArray[np.uint8]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Prediction (T,), mean gradient (T, L, 4) and gap (T,) of one promoter."""
        predictor, device, steps = self._predictor, self._predictor.runner.device, self._steps
        codes_1L = torch.from_numpy(codes_L)[None].to(device)
        bases_1LA = one_hot(codes_1L)
        begin_1LA = ((codes_1L < UNKNOWN)[..., None].float() / 4).expand(-1, -1, 4)
        share_S11 = ((torch.arange(steps, device=device) + 0.5) / steps)[:, None, None]
        way_SLA = begin_1LA + share_S11 * (bases_1LA - begin_1LA)
        codes_SL = codes_1L.expand(steps, -1)
        with torch.no_grad():
            prediction_T = predictor.forward(codes_1L)[0]
            begin_T = predictor.forward(codes_1L, begin_1LA)[0]
        mean_TLA = torch.stack([each.mean(0) for each in _gradients(predictor, codes_SL, way_SLA)])
        sum_T = ((bases_1LA - begin_1LA) * mean_TLA).sum((1, 2))
        gap_T = prediction_T - begin_T - sum_T
        return prediction_T.cpu().numpy(), mean_TLA.cpu().numpy(), gap_T.cpu().numpy()


def one_hot(codes_BL: Tensor) -> Tensor:
    """uint8 codes (B, L) → float32 (B, L, 4); N is all zeros."""
    # Written base by base and then turned, as models read their input.
    bases_A1 = torch.arange(4, device=codes_BL.device, dtype=codes_BL.dtype)[:, None]
    return (codes_BL.unsqueeze(1) == bases_A1).float().transpose(1, 2)


def _gradients(predictor: Predictor, codes_BL: Tensor, bases_BLA: Tensor) -> Iterator[Tensor]:
    """Gradient (B, L, 4) of the responses to one treatment after the other."""
    with frozen(predictor.runner.model), torch.enable_grad():
        for treatment in range(len(predictor.names)):
            bases_BLA = bases_BLA.detach().requires_grad_()
            response_B1 = predictor.chosen([treatment]).forward(codes_BL, bases_BLA)
            yield torch.autograd.grad(response_B1.sum(), bases_BLA)[0]


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Keep parameters out of gradients: those of the bases are all that is wanted."""
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in wanted:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)


@dataclass(slots=True)
class Completeness:
    """How far contributions are from what they should sum to, as blocks go by; None before the first gap."""

    largest_gap: float | None = None
    """Of integrated gradients, the furthest that contributions are from summing to f(promoter) − f(baseline)."""
    largest_difference: float | None = None

    def write(self, block: Block) -> None:
        """Look at the next block."""
        arrays = block.arrays[ATTRIBUTION]
        if GAP not in arrays:
            return
        present = (arrays[SEQUENCE][..., None] == np.arange(4)).astype(np.float32)
        sums = np.einsum("btla,bla->bt", arrays[VALUES], present)
        self.largest_gap = max(self.largest_gap or 0.0, float(np.abs(arrays[GAP]).max()))
        self.largest_difference = max(self.largest_difference or 0.0, float(np.abs(sums).max()))


def run_attribution(given: ExplainAttribution, running: Running) -> RunReport:
    """Attribute the predictions of promoters of a FASTA to their bases (docs/formats/attribution.md).

    Raises: BioattnError for promoters, genes or treatments that the model cannot take, and as `run_work`.
    """
    settings = given.settings
    shard = None if given.shard is None else parse_shard(given.shard)
    if settings.steps != 50 and settings.method is not Method.INTEGRATED_GRADIENTS:
        raise SettingsError(
            f"--steps is for --method integrated-gradients, not {settings.method}; leave it out"
        )
    device = running.device(given.device, given.threads)
    model = load_runner(given.model, device)
    runner = with_ability(model, "predictor", "be explained base by base: they predict no responses")
    table = None if given.treatment_table is None else read_treatment_table(given.treatment_table)
    treatments = select_treatments(runner.treatments, given.treatment, table)
    source = runner.read(given.promoters, given.genes)
    if told := refitted(source):
        LOGGER.info(told)
    work, layout = attribution_work(runner, source, treatments, settings)
    completeness = Completeness()
    summary = run_work(
        work,
        completeness.write,
        ResultFile(
            output=given.output,
            layout=layout,
            settings=_settings(runner.predictor(treatments), source, settings),
            about="attribution",
            of_each=f" × {counted(len(treatments.names), 'treatment')}",
            smaller="choose fewer --treatment or --genes",
            resume=given.resume,
            force=given.force,
        ),
        shard=shard,
        progress=running.progress,
    )
    number, gap, difference = len(treatments.names), completeness.largest_gap, completeness.largest_difference
    scope = f"{counted(summary.num_samples, 'promoter')} × {counted(number, 'treatment')}"
    LOGGER.info(
        f"wrote {given.output}: attribution ({settings.method}) of {scope}, {human_bytes(summary.num_bytes)}"
    )
    if gap is not None and difference is not None:
        tell = running.warn if gap > 0.05 * difference else LOGGER.info
        tell(
            f"completeness: contributions miss f(promoter) − f(baseline) by at most {gap:.3g} (those of a "
            f"promoter sum to up to {difference:.3g}); more --steps bring them closer"
        )
    return RunReport(
        device=str(device),
        promoters=summary.num_samples,
        treatments=number,
        resumed_promoters=summary.resumed_samples,
        largest_completeness_gap=gap,
    )


def attribution_work(
    runner: ResponseRunner, source: Promoters, treatments: TreatmentTable, settings: MethodSettings
) -> tuple[Work, FileLayout]:
    """How promoters are attributed, batch by batch, and the layout of the results.

    Raises: BioattnError for treatments that the model cannot take.
    """
    predictor = runner.predictor(treatments)
    attributor: Mutagenesis | GradientInput | IntegratedGradients
    match settings.method:
        case Method.ISM:
            attributor = Mutagenesis(predictor)
        case Method.GRADIENT_INPUT:
            attributor = GradientInput(predictor)
        case Method.INTEGRATED_GRADIENTS:
            attributor = IntegratedGradients(predictor, settings.steps)
    layout = attribution_file_layout(
        settings.method,
        settings.text(),
        predictor.names,
        model_sha256=runner.sha256,
        attributes=window_attributes(source.sha256, runner.length, runner.task, source.downstream),
    )

    def attribute(batch: Promoters) -> Block:
        try:
            found = attributor(batch.codes)
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{runner.device}: out of memory; ask for fewer --treatment at a time, or use --device cpu"
            ) from error
        predictions = expit(found.predictions_BT) if runner.task == "binary" else found.predictions_BT
        arrays: dict[str, NDArray[Any]] = {SEQUENCE: batch.codes, VALUES: found.values_BTLA}
        if found.gap_BT is not None:
            arrays[GAP] = found.gap_BT
        return Block(batch.samples, {ATTRIBUTION: arrays, PREDICTIONS: {"values": predictions}})

    work = Work(
        source=source,
        noun="promoter",
        batch_size=attributor.promoters_at_once,
        compute=attribute,
        model=runner.path,
    )
    return work, layout


def _settings(predictor: Predictor, source: Promoters, settings: MethodSettings) -> dict[str, Any]:
    """All that decides the result."""
    genes = None if source.genes is None else "\0".join(sorted(source.genes))
    return {
        "method": str(settings.method),
        "settings": settings.text(),
        "model": predictor.runner.sha256,
        "promoters": source.sha256,
        "genes": None if genes is None else hashlib.sha256(genes.encode()).hexdigest(),
        "treatments": predictor.digest(),
    }
