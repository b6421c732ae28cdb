"""Running a promoter model over a FASTA file: predictions, and attention if asked for, in flat memory."""

import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from bioattn import __version__
from bioattn.attention.capture import capture
from bioattn.attention.site import AttentionSite, Tile
from bioattn.errors import BioattnError, Interrupted, SettingsError
from bioattn.inference.attention_collector import AttentionCollector, choose_sites
from bioattn.inference.phases import PhaseAverage, shifted
from bioattn.inference.predictions import PredictionWriter
from bioattn.inference.promoter_batches import N_CODE, PromoterBatch, PromoterSource, scan_promoters
from bioattn.models.promoter.treatment_vocabulary import UNCONDITIONAL
from bioattn.progress import NoProgress, Progress
from bioattn.promoters.treatments import TreatmentTable
from bioattn.stop_request import StopRequest, stop_on_signals
from bioattn.store.attention_parts import Block, PartStore, attention_bytes
from bioattn.store.attention_writer import AttentionHeader
from bioattn.store.part_folder import open_parts, partial_folder, require_free_space
from bioattn.store.schema import AttentionOptions, SiteLayout
from bioattn.wording import counted, human_bytes

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

LOGGER = logging.getLogger("bioattn")

MAX_BATCH = 64
ACTIVATION_BYTES = 1 << 25
"""What the widest tensor of a batch may take, so that a genome runs in flat memory whatever the treatments."""
MAX_PHASE_BYTES = 1 << 26
"""What the averaged maps of a batch may take at one site: they are finer than the model's."""
PART_BYTES = 1 << 26
MAX_PART_SAMPLES = 4096
"""A part is what a killed run loses at most: 64 MB or some thousand promoters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run did."""

    num_promoters: int
    num_treatments: int
    num_padded: int
    """Promoters shorter than the model's window."""
    sites: dict[str, tuple[int, ...]]
    """Attention sites written, and the shape of their weights."""
    attention_bytes: int
    """Size of the attention file; 0 without one."""
    resumed_promoters: int
    """Promoters whose results an interrupted run had left."""


def select_treatments(
    known: TreatmentTable, names: Sequence[str] = (), table: TreatmentTable | None = None
) -> TreatmentTable:
    """The treatments to ask for: rows of `table`, or of the training treatments `known`; `names` chooses.

    `unconditional` is always a name: the model's token for an unknown treatment, if it was trained with one.

    Raises: BioattnError for a name that is in neither; SettingsError for one given twice.
    """
    source = known if table is None else table
    if not names:
        return source
    if len(set(names)) != len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise SettingsError(f"--treatment {twice!r} is given twice")
    if UNCONDITIONAL not in names or UNCONDITIONAL in source.names:
        return source.select(names, "--treatment")
    chosen = source.select([name for name in names if name != UNCONDITIONAL], "--treatment").frame
    return TreatmentTable(chosen.reindex(list(names)))


def run_promoters(
    model: "LoadedPromoterModel",
    promoters: Path,
    *,
    treatments: TreatmentTable,
    predictions: TextIO | None = None,
    attention: Path | None = None,
    options: AttentionOptions | None = None,
    batch_size: int | None = None,
    part_samples: int | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> RunSummary:
    """Predict every promoter of a FASTA under `treatments`, and write the attention behind it.

    predictions: gets a wide TSV (`bioattn.inference.predictions`): responses, or probabilities of a binary model.
    attention: HDF5 file by `docs/formats/attention.md`, complete or absent; parts of an interrupted run are kept
    in `<attention>.partial` and re-used with `resume` (the bytes are then those of an undisturbed run on the same
    device and threads), dropped with `force`. batch_size: promoters per forward pass, None = what keeps memory
    flat. part_samples: promoters per part, None = about 64 MB.

    Raises: BioattnError for promoters or treatments that the model cannot take, a full disk, parts of another
    run; Interrupted on Ctrl-C and SIGTERM, with `resume` able to go on.
    """
    progress = progress or NoProgress()
    source = scan_promoters(promoters, model.length)
    runner = _Runner(model, treatments, batch_size)
    if source.num_padded:
        LOGGER.info(
            f"{source.num_padded:,} of {source.num_promoters:,} promoters are shorter than the model's "
            f"{model.length:,} bases and were padded with N upstream"
        )
    if attention is None:
        try:
            with stop_on_signals() as request:
                return _predict(runner, source, predictions, progress, request)
        except Interrupted as stop:
            raise Interrupted(f"{stop}; no predictions were kept, run again", stop.exit_code) from stop
    options = options or AttentionOptions()
    layouts = runner.listen(options)
    store = PartStore(
        attention,
        AttentionHeader(
            model_sha256=model.sha256,
            input_sha256=source.sha256,
            window_length=model.length,
            task=model.task,
        ),
        layouts,
        treatments.names,
        source.num_promoters,
        _part_samples(layouts, runner.batch_size, part_samples),
    )
    size = attention_bytes(layouts, source.num_promoters, len(treatments.names))
    LOGGER.info(
        f"attention of {counted(source.num_promoters, 'promoter')} × "
        f"{counted(len(treatments.names), 'treatment')} at "
        f"{counted(len(layouts), 'site')} takes {human_bytes(size)}"
    )
    require_free_space(
        attention,
        2 * size - (store.bytes_on_disk() if resume else 0),
        f"{human_bytes(size)}, and as much for its parts",
        "choose fewer --treatment, --sites or --heads, --reduce, or another disk",
    )
    job = _job(runner, source, store, options)
    with open_parts(attention, job, resume=resume, force=force):
        resumed = sum(len(store.samples_of(part)) for part in range(store.num_parts) if store.is_whole(part))
        if resumed:
            LOGGER.info(f"going on after {resumed:,} of {source.num_promoters:,} promoters of an earlier run")
        try:
            with stop_on_signals() as request:
                _write_parts(runner, source, store, progress, request)
                _assemble(store, predictions, progress, request)
        except (Interrupted, KeyboardInterrupt) as stop:
            done = sum(len(store.samples_of(part)) for part in range(store.num_parts) if store.is_whole(part))
            raise Interrupted(
                f"stopped after {done:,} of {source.num_promoters:,} promoters; "
                + (
                    f"they are kept in {partial_folder(attention)}: repeat the command with --resume to go on"
                    if done
                    else "nothing is kept yet"
                ),
                stop.exit_code if isinstance(stop, Interrupted) else 130,
            ) from stop
    return RunSummary(
        num_promoters=source.num_promoters,
        num_treatments=len(treatments.names),
        num_padded=source.num_padded,
        sites={layout.name: (source.num_promoters, *layout.sizes) for layout in layouts},
        attention_bytes=attention.stat().st_size,
        resumed_promoters=resumed,
    )


class _Runner:
    """A model, the treatments it is asked for and, if anyone listens, the collector of its attention."""

    def __init__(
        self, model: "LoadedPromoterModel", treatments: TreatmentTable, batch_size: int | None
    ) -> None:
        self.model = model
        self.device = next(model.model.parameters()).device
        self.treatments = model.encode_treatments(treatments).to(self.device)
        self.names = treatments.names
        self.binary = model.task == "binary"
        self._collector: AttentionCollector | None = None
        self._sites: list[str] = []
        self._value_weighted = False
        self._average: PhaseAverage | None = None
        self._arrays: dict[str, dict[str, NDArray[np.floating]]] = {}
        self._batch_may_shrink = batch_size is None
        self.batch_size = batch_size or self._fitting_batch()

    def listen(self, options: AttentionOptions) -> list[SiteLayout]:
        """Collect attention from now on; a trial batch of one shows the shapes that there will be.

        Raises: SettingsError when the model lacks the sites or heads asked for.
        """
        self._sites = choose_sites(self.model.sites, options.sites)
        self._value_weighted = options.value_weighted
        self._collector = AttentionCollector(options)
        self.predict(self._nothing_known())
        self._collector.take()
        layouts = [self._collector.layouts[name] for name in self._sites]
        if options.phases == 1:
            return layouts
        self._average = PhaseAverage(layouts, self.model.config.pool, options.phases)
        if self._batch_may_shrink:
            finest = max(layout.bytes_per_sample for layout in self._average.layouts)
            self.batch_size = max(1, min(self.batch_size, MAX_PHASE_BYTES // finest))
        return self._average.layouts

    def predict(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, length) codes → (B, T) responses or probabilities; attention is kept until it is asked for."""
        predictions = self._predict_window(codes_BL)
        if self._collector is None:
            return predictions
        self._arrays = self._collector.take()
        if self._average is not None:
            self._average.begin(self._arrays)
            for shift in self._average.shifts:
                self._predict_window(shifted(codes_BL, shift))
                self._average.add(shift, self._collector.take())
            self._arrays = self._average.take()
        return predictions

    def _predict_window(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """As `predict`; attention goes to the collector."""
        try:
            with torch.inference_mode():
                codes = torch.from_numpy(codes_BL).to(self.device)
                if self._collector is None:
                    answer_BT = self.model.model(codes, self.treatments)
                else:
                    with capture(self._sites, self._collector, value_weighted=self._value_weighted):
                        answer_BT = self.model.model(codes, self.treatments)
                answer_BT = torch.sigmoid(answer_BT) if self.binary else answer_BT
                predictions: NDArray[np.float32] = answer_BT.float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{self.device}: out of memory with {len(codes_BL)} promoters × {len(self.names)} treatments at a "
                "time; give a smaller --batch-size"
            ) from error
        return predictions

    def attention(self) -> dict[str, dict[str, NDArray[np.floating]]]:
        """What the last batch attended to."""
        arrays, self._arrays = self._arrays, {}
        return arrays

    def fingerprint(self) -> str:
        """Digest of the treatments as the model takes them."""
        digest = hashlib.sha256("\0".join(self.names).encode())
        for tensor in self.treatments[1:]:
            digest.update(tensor.cpu().numpy().tobytes())
        return digest.hexdigest()

    def _fitting_batch(self) -> int:
        """Promoters whose widest tensor stays within `ACTIVATION_BYTES`, seen in a trial batch of one.

        The trial listens to all attention, so that predictions with and without it form the same batches.
        """
        meter = _Meter()
        with meter, capture(["*"], meter, value_weighted=True):
            self.predict(self._nothing_known())
        return max(1, min(MAX_BATCH, ACTIVATION_BYTES // max(1, meter.widest, meter.attention)))

    def _nothing_known(self) -> NDArray[np.uint8]:
        """One promoter of N alone, for trial batches: shapes do not depend on the bases."""
        return np.full((1, self.model.length), N_CODE, dtype=np.uint8)


class _Meter(TorchFunctionMode):
    """Notes the bytes of the widest tensor any operation makes, and of all attention together."""

    def __init__(self) -> None:
        super().__init__()
        self.widest = 0
        self.attention = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call through and look at what comes back."""
        made = func(*args, **(kwargs or {}))
        if isinstance(made, torch.Tensor):
            self.widest = max(self.widest, made.numel() * made.element_size())
        return made

    def receive(
        self, _site: AttentionSite, weights: Tensor, value_weighted: Tensor | None, _tile: Tile | None = None
    ) -> None:
        """Be the sink of the attention."""
        for tensor in (weights, value_weighted):
            self.attention += 0 if tensor is None else tensor.numel() * tensor.element_size()


def _predict(
    runner: _Runner,
    source: PromoterSource,
    predictions: TextIO | None,
    progress: Progress,
    request: StopRequest,
) -> RunSummary:
    writer = PredictionWriter(predictions, runner.names) if predictions is not None else None
    progress.begin("promoters", source.num_promoters)
    try:
        for batch in source.batches(runner.batch_size):
            request.check()
            answer = runner.predict(batch.codes)
            if writer is not None:
                writer.write(batch.samples.ids, answer)
            progress.advance(len(batch.samples.ids))
    finally:
        progress.end()
    return RunSummary(
        num_promoters=source.num_promoters,
        num_treatments=len(runner.names),
        num_padded=source.num_padded,
        sites={},
        attention_bytes=0,
        resumed_promoters=0,
    )


def _write_parts(
    runner: _Runner, source: PromoterSource, store: PartStore, progress: Progress, request: StopRequest
) -> None:
    """Compute the parts that are not there yet."""
    batches = source.batches(runner.batch_size)
    progress.begin("promoters", source.num_promoters)
    try:
        for part in range(store.num_parts):
            expected = math.ceil(len(store.samples_of(part)) / runner.batch_size)
            if store.is_whole(part):
                for _ in range(expected):
                    progress.advance(len(_next_batch(batches, source).samples.ids))
                continue
            with store.part_writer(part) as writer:
                for _ in range(expected):
                    request.check()
                    batch = _next_batch(batches, source)
                    answer = runner.predict(batch.codes)
                    writer.append(batch.samples, runner.attention(), answer)
                    progress.advance(len(batch.samples.ids))
    finally:
        progress.end()


def _next_batch(batches: Iterator[PromoterBatch], source: PromoterSource) -> PromoterBatch:
    batch = next(batches, None)
    if batch is None:
        raise BioattnError(f"{source.path}: changed while it was read; run again")
    return batch


def _assemble(store: PartStore, predictions: TextIO | None, progress: Progress, request: StopRequest) -> None:
    writer = PredictionWriter(predictions, store.treatments) if predictions is not None else None

    def take(block: Block) -> None:
        request.check()
        if writer is not None:
            writer.write(block.samples.ids, block.predictions)

    store.assemble(on_block=take, progress=progress)


def _part_samples(layouts: Sequence[SiteLayout], batch_size: int, wanted: int | None) -> int:
    """Whole batches per part, so that a resumed run forms the batches an undisturbed one would."""
    if wanted is None:
        per_sample = max(1, sum(layout.bytes_per_sample for layout in layouts))
        wanted = min(MAX_PART_SAMPLES, PART_BYTES // per_sample)
    return max(1, wanted // batch_size) * batch_size


def _job(
    runner: _Runner, source: PromoterSource, store: PartStore, options: AttentionOptions
) -> dict[str, Any]:
    """Everything that decides the bytes of the result; parts are re-used only when all of it is equal."""
    return {
        "format": "bioattn-attention-parts",
        "generated_by": f"bioattn {__version__}",
        "model": store.header.model_sha256,
        "promoters": source.sha256,
        "num_promoters": source.num_promoters,
        "treatments": runner.fingerprint(),
        "sites": [layout.name for layout in store.layouts],
        "heads": None if options.heads is None else list(options.heads),
        "dtype": str(options.dtype),
        "reduce": str(options.reduce),
        "value_weighted": options.value_weighted,
        "phases": options.phases,
        "batch_size": runner.batch_size,
        "part_samples": store.part_samples,
        "device": runner.device.type,
    }
