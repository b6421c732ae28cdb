"""Running a promoter model over a FASTA file: predictions, and attention if asked for, in flat memory.

Shape suffixes: B promoters, L bases, T treatments.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.integrated_gradients import integrated_gradients
from bioattn.attention.site import Contribution
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.batch_size import fitting_batch
from bioattn.inference.promoter_windows import N_CODE, padding
from bioattn.inference.run import ResultFile, RunSummary, Work, run_work
from bioattn.inference.runner import WindowBatch, WindowSource
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.inference.phases import PhaseAverage, shifted
from bioattn.models.promoter.predictor import PromoterPredictor
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.choices import Reduction
from bioattn.store.schema import (
    CONTRIBUTIONS,
    PREDICTIONS,
    SITES,
    WEIGHTS,
    AttentionOptions,
    Block,
    FileLayout,
    GroupLayout,
    predictions_layout,
)
from bioattn.store.shards import ShardRecord, table_line
from bioattn.store.windows import PROMOTER_COLUMNS, PROMOTERS, window_attributes
from bioattn.system.progress import SILENT, Progress
from bioattn.system.shard import Shard
from bioattn.text import counted


class PredictionWriter:
    """Writes rows as they come; seven significant digits, which is what float32 holds."""

    def __init__(self, file: TextIO, treatments: Sequence[str], shard: ShardRecord | None = None) -> None:
        """shard: of a part of a table, which says so in its first line."""
        self._file = file
        self._row = "\t".join(["%s", *["%.7g"] * len(treatments)]) + "\n"
        if shard is not None:
            file.write(table_line(shard))
        file.write("\t".join(["gene_id", *treatments]) + "\n")

    def write(self, block: Block) -> None:
        self._file.write(
            "".join(
                self._row % (gene, *values)
                for gene, values in zip(
                    block.samples.ids, block.arrays[PREDICTIONS]["values"].tolist(), strict=True
                )
            )
        )


MAX_BATCH = 64
MAX_PHASE_BYTES = 1 << 26
"""What the averaged maps of a batch may take at one site: they are finer than the model's."""


class PromoterRunner:
    """A model, the treatments it is asked for and, if it is asked for, the receiver of its attention."""

    def __init__(
        self,
        predictor: PromoterPredictor,
        options: AttentionOptions | None = None,
        batch_size: int | None = None,
    ) -> None:
        """options: what of the attention is collected; None = nothing. batch_size: promoters per forward pass;
        None = what keeps memory flat.

        Raises: BioattnError when the model lacks the sites or heads asked for.
        """
        self.predictor = predictor
        self.device = predictor.runner.device
        self._receiver: BatchReceiver | None = None
        self._sites: list[str] = []
        self._value_weighted = False
        self._integrates = False
        self._average: PhaseAverage | None = None
        self._layouts: list[GroupLayout] = []
        self._arrays: Mapping[str, Mapping[str, NDArray[Any]]] = {}
        self._wanted_batch = batch_size
        if options is not None:
            self._listen(options)

    @cached_property
    def batch_size(self) -> int:
        """Promoters per forward pass: those wanted, or as many as a trial of one finds room for."""
        if self._wanted_batch is not None:
            return self._wanted_batch
        codes = torch.from_numpy(self._nothing_known()).to(self.device)
        with torch.inference_mode():
            most = fitting_batch(lambda: self.predictor.forward(codes), MAX_BATCH)
        if self._average is not None:
            finest = max(layout.bytes_of_sample() for layout in self._average.layouts)
            most = max(1, min(most, MAX_PHASE_BYTES // finest))
        return most

    @property
    def layouts(self) -> list[GroupLayout]:
        """Of the sites whose attention is collected."""
        return [self._with_intercept(layout) for layout in self._layouts]

    def work(self, source: WindowSource) -> Work:
        """The predictions, and what is collected, of all promoters of a source."""
        return Work(
            source=source,
            noun="promoter",
            batch_size=1 if source.num_samples == 1 else self.batch_size,
            compute=self.compute,
            model=self.predictor.runner.path,
        )

    def file_layout(self, source: WindowSource) -> FileLayout:
        """The layout of what is collected of a source."""
        model = self.predictor.runner
        downstream = model.downstream if source.downstream is None else source.downstream
        return FileLayout(
            inputs=PROMOTERS,
            model_sha256=model.sha256,
            attributes=window_attributes(source.sha256, model.length, model.task, downstream),
            columns=PROMOTER_COLUMNS,
            groups=(*self.layouts, predictions_layout(self.predictor.names)),
        )

    def _listen(self, options: AttentionOptions) -> None:
        """Collect attention from now on; a trial batch of one shows the shapes that there will be."""
        self._sites = choose_sites(
            self.predictor.runner.sites,
            options.sites,
            without="--conditioning concat, film and ridge have none",
        )
        self._value_weighted = options.value_weighted
        self._integrates = options.reduce is Reduction.NONE and any(
            site.contributes is Contribution.GRADIENT for site in self.predictor.runner.sites.values()
        )
        self._receiver = BatchReceiver(options, {"treatment": self.predictor.names})
        self.predict(self._nothing_known())
        self._receiver.take()
        self._layouts = [self._receiver.layouts[name] for name in self._sites]
        if options.phases > 1:
            self._average = PhaseAverage(self._layouts, self.predictor.runner.config.pool, options.phases)
            self._layouts = self._average.layouts

    def predict(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, length) codes → (B, T) responses or probabilities; attention is kept until it is asked for."""
        predictions = self._predict_window(codes_BL)
        if self._receiver is None:
            return predictions
        self._arrays = self._taken()
        if self._average is not None:
            self._average.begin(self._arrays)
            for shift in self._average.shifts:
                self._predict_window(shifted(codes_BL, shift))
                self._average.add(shift, self._taken())
            self._arrays = self._average.take()
        return predictions

    def _taken(self) -> dict[str, dict[str, NDArray[Any]]]:
        """What the receiver heard; contributions in the units of responses."""
        assert self._receiver is not None
        arrays = self._receiver.take()
        for of_site in arrays.values():
            if CONTRIBUTIONS in of_site:
                _, sd_T = self._response_units()
                scaled = of_site[CONTRIBUTIONS] * sd_T[:, None, None]
                of_site[CONTRIBUTIONS] = scaled.astype(of_site[WEIGHTS].dtype)
        return arrays

    def _with_intercept(self, layout: GroupLayout) -> GroupLayout:
        """What contributions are added to, beside them."""
        if all(array.name != CONTRIBUTIONS for array in layout.arrays):
            return layout
        network = self.predictor.runner.model.network
        assert isinstance(network, CrossModel)
        mean_T, sd_T = self._response_units()
        with torch.inference_mode():
            embeddings_TE = network.treatment_encoder(self.predictor.treatments)
            intercept_T = mean_T + sd_T * network.intercept(embeddings_TE).cpu().numpy()
        return replace(layout, attributes={**layout.attributes, "intercept": tuple(intercept_T.tolist())})

    def _response_units(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        mean_T, sd_T = self.predictor.runner.model.response_units(self.predictor.treatments)
        return mean_T.cpu().numpy(), sd_T.cpu().numpy()

    def _predict_window(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """As `predict`; attention goes to the receiver."""
        try:
            with torch.inference_mode():
                codes = torch.from_numpy(codes_BL).to(self.device)
                if self._receiver is None:
                    answer_BT = self.predictor.forward(codes)
                elif self._integrates:
                    answer_BT = self._integrated(codes)
                else:
                    with capture(self._sites, self._receiver, value_weighted=self._value_weighted):
                        answer_BT = self.predictor.forward(codes)
                answer_BT = torch.sigmoid(answer_BT) if self.predictor.runner.task == "binary" else answer_BT
                predictions: NDArray[np.float32] = answer_BT.float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{self.device}: out of memory with {len(codes_BL)} promoters × {len(self.predictor.names)} "
                "treatments at a time; give a smaller --batch-size"
            ) from error
        return predictions

    @torch.inference_mode(False)
    def _integrated(self, codes_BL: Tensor) -> Tensor:
        """Responses (B, T); the receiver gets the weights and, for contributions, integrated gradients."""
        model, sites = self.predictor.runner.model, self.predictor.runner.sites
        network, treatments = model.network, self.predictor.treatments
        assert isinstance(network, CrossModel)
        assert self._receiver is not None
        with torch.no_grad(), capture(self._sites, self._receiver, value_weighted=self._value_weighted):
            bins_BPC, known_BP = network.stem(codes_BL.clone())
            network.stem.in_context(bins_BPC, known_BP)  # listened to here: decoding repeats it
            embeddings_TE = network.treatment_encoder(treatments)
        contributing = [site for site in sites.values() if site.contributes is Contribution.GRADIENT]
        found = integrated_gradients(lambda: network.decode(bins_BPC, known_BP, embeddings_TE), contributing)
        for name in [name for name in self._sites if name in found.contributions]:
            self._receiver.receive(sites[name], found.weights[name], found.contributions[name])
        return model.in_response_units(found.predictions, treatments)

    def compute(self, batch: WindowBatch) -> Block:
        predictions = self.predict(batch.codes)
        arrays, self._arrays = self._arrays, {}
        return Block(batch.samples, {**arrays, PREDICTIONS: {"values": predictions}})

    def _nothing_known(self) -> NDArray[np.uint8]:
        """One promoter of N alone, for trial batches: shapes do not depend on the bases."""
        return np.full((1, self.predictor.runner.length), N_CODE, dtype=np.uint8)


if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

LOGGER = logging.getLogger("bioattn")


def run_promoters(
    model: "LoadedPromoterModel",
    promoters: Path,
    *,
    treatments: TreatmentTable,
    predictions: TextIO | None = None,
    attention: Path | None = None,
    options: AttentionOptions | None = None,
    batch_size: int | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> RunSummary:
    """Predict every promoter of a FASTA under `treatments`, and write the attention behind it.

    predictions: gets a wide TSV: responses, or probabilities of a binary model. attention: HDF5 file by
    `docs/formats/attention.md`. batch_size: promoters per forward pass, None = what keeps memory flat.
    shard, resume, force: as in `run_work`.

    Raises: BioattnError for promoters or treatments that the model cannot take, and as `run_work`.
    """
    source = model.read(promoters)
    options = options or AttentionOptions()
    runner = PromoterRunner(model.predictor(treatments), None if attention is None else options, batch_size)
    if padded := padding(source):
        LOGGER.info(padded)
    layouts = runner.layouts
    work = runner.work(source)
    settings = _settings(runner, source, layouts)
    rows = file = None
    if predictions is not None:
        record = None
        if shard is not None:
            record = ShardRecord.of(shard, source.num_samples, settings, runner.batch_size)
        rows = PredictionWriter(predictions, treatments.names, record)
    if attention is not None:
        file = ResultFile(
            output=attention,
            layout=runner.file_layout(source),
            settings={**settings, **options.as_json(settings["sites"])},
            about="attention",
            of_each=f" × {counted(len(treatments.names), 'treatment')} at {counted(len(layouts), 'site')}",
            smaller="choose fewer --treatment, --sites or --heads, --reduce",
        )
    return run_work(work, rows, file, shard=shard, resume=resume, force=force, progress=progress)


def _settings(runner: PromoterRunner, source: WindowSource, layouts: Sequence[GroupLayout]) -> dict[str, Any]:
    """All that decides the predictions of all promoters."""
    return {
        "model": runner.predictor.runner.sha256,
        "promoters": source.sha256,
        "treatments": runner.predictor.digest(),
        "sites": [layout.path.removeprefix(f"{SITES}/") for layout in layouts],
    }
