"""Running a promoter model over promoters: predictions, and attention if asked for, in flat memory.

Maps can be finer than the model's bins. A bin says where a motif is to within its width, and where it begins is an
accident. Windows shifted by 1/N of a bin cut the same bases into bins N different ways (N *phases*); what all of
them agree on is where the motif is. Each window's weights are shared equally by the bases of its bins, then
averaged, and stored in bins N times finer.

Shape suffixes: B promoters, L bases, T treatments, P bins of the model, F finer bins; leading axes are `...`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bioattn.attention.capture import capture
from bioattn.attention.measures import integrated_gradients
from bioattn.attention.site import Contribution
from bioattn.choices import Reduction
from bioattn.errors import BioattnError
from bioattn.inference.attention_receiver import BatchReceiver, choose_sites
from bioattn.inference.passes import fitting_batch
from bioattn.inference.promoter_windows import N_CODE, Promoters, refitted
from bioattn.inference.run import ResultFile, RunSummary, Work, run_work
from bioattn.models.promoter.cross import CrossModel
from bioattn.models.promoter.model import RidgeModel, attention_sites
from bioattn.models.promoter.predictor import PromoterPredictor
from bioattn.promoters.treatments import TreatmentTable
from bioattn.store.schema import (
    CONTRIBUTIONS,
    KEY,
    PREDICTIONS,
    QUERY,
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

if TYPE_CHECKING:
    from bioattn.models.promoter.folder import LoadedPromoterModel

LOGGER = logging.getLogger("bioattn")
MAX_BATCH = 64
MAX_PHASE_BYTES = 1 << 26
"""What the averaged maps of a batch may take at one site: they are finer than the model's."""
Arrays: TypeAlias = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""By path of the site in the file, and name."""


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
        self.model = predictor.runner
        self.layouts: list[GroupLayout] = []
        """Of the sites whose attention is collected."""
        self._receiver: BatchReceiver | None = None
        self._average: PhaseAverage | None = None
        self._wanted_batch = batch_size
        self._nothing_known = np.full((1, self.model.length), N_CODE, dtype=np.uint8)
        """A promoter of N alone, for trial batches: shapes do not depend on the bases."""
        if options is not None:
            self._listen(options)

    def _listen(self, options: AttentionOptions) -> None:
        """Collect attention from now on; a trial batch of one shows the shapes that there will be."""
        model = self.model
        self._sites = choose_sites(
            model.sites, options.sites, without="--conditioning concat, film and ridge have none"
        )
        self._value_weighted = options.value_weighted
        self._integrates = options.reduce is Reduction.NONE and any(
            site.contributes is Contribution.GRADIENT for site in model.sites.values()
        )
        self._member_of = {
            f"{SITES}/{site}": member for member in model.model.members for site in attention_sites(member)
        }
        self._receiver = BatchReceiver(options, {"treatment": self.predictor.names})
        self._predict(self._nothing_known)
        self._taken()
        self.layouts = [self._receiver.layouts[name] for name in self._sites]
        if options.phases > 1:
            self._average = PhaseAverage(self.layouts, model.config.pool, options.phases)
            self.layouts = self._average.layouts
        given = set[int]()
        for number, layout in reversed(list(enumerate(self.layouts))):
            if any(array.name == CONTRIBUTIONS for array in layout.arrays):
                member = self._member_of[layout.path]
                # Of several sites of a network the last one has its intercept, so that all intercepts add up.
                network, treatments = member.network, self.predictor.treatments
                with torch.inference_mode():
                    if isinstance(network, RidgeModel):
                        standard_T = network.intercept(treatments)
                    else:
                        assert isinstance(network, CrossModel)
                        standard_T = network.intercept(network.treatment_encoder(treatments))
                    of_member_T = member.in_response_units(standard_T, treatments).cpu().numpy()
                intercept_T = of_member_T * (id(member) not in given)
                given.add(id(member))
                attributes = {**layout.attributes, "intercept": tuple(intercept_T.tolist())}
                self.layouts[number] = replace(layout, attributes=attributes)

    @cached_property
    def batch_size(self) -> int:
        """Promoters per forward pass: those wanted, or as many as a trial of one finds room for."""
        if self._wanted_batch is not None:
            return self._wanted_batch
        codes = torch.from_numpy(self._nothing_known).to(self.model.device)
        with torch.inference_mode():
            most = fitting_batch(lambda: self.predictor.forward(codes), MAX_BATCH)
        if self._average is not None:
            finest = max(layout.bytes_of_sample() for layout in self.layouts)
            most = max(1, min(most, MAX_PHASE_BYTES // finest))
        return most

    def work(self, source: Promoters) -> Work:
        """The predictions, and what is collected, of all promoters of a source."""
        return Work(
            source=source,
            noun="promoter",
            batch_size=1 if source.num_samples == 1 else self.batch_size,
            compute=self.compute,
            model=self.model.path,
        )

    def file_layout(self, source: Promoters) -> FileLayout:
        """The layout of what is collected of a source."""
        model = self.model
        downstream = model.downstream if source.downstream is None else source.downstream
        window = window_attributes(source.sha256, model.length, model.task, downstream)
        return FileLayout(
            inputs=PROMOTERS,
            model_sha256=model.sha256,
            attributes=window | ({"verdict": verdict} if (verdict := model.verdict) else {}),
            columns=PROMOTER_COLUMNS,
            groups=(*self.layouts, predictions_layout(self.predictor.names)),
        )

    def compute(self, batch: Promoters) -> Block:
        """Responses or probabilities (B, T), and what is collected."""
        predictions = self._predict(batch.codes)
        arrays: Arrays = self._taken()
        if self._average is not None:
            arrays = self._average.of(batch.codes, arrays, self._maps_of_window)
        return Block(batch.samples, {**arrays, PREDICTIONS: {"values": predictions}})

    def _maps_of_window(self, codes_BL: NDArray[np.uint8]) -> Arrays:
        self._predict(codes_BL)
        return self._taken()

    def _taken(self) -> dict[str, dict[str, NDArray[Any]]]:
        """What the receiver heard; contributions in the units of responses."""
        if self._receiver is None:
            return {}
        arrays = self._receiver.take()
        for path, of_site in arrays.items():
            if CONTRIBUTIONS in of_site:
                _, sd_T = self._member_of[path].response_units(self.predictor.treatments)
                scaled = of_site[CONTRIBUTIONS] * sd_T.cpu().numpy()[:, None, None]
                of_site[CONTRIBUTIONS] = scaled.astype(of_site[WEIGHTS].dtype)
        return arrays

    def _predict(self, codes_BL: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, length) codes → (B, T) responses or probabilities; attention goes to the receiver."""
        try:
            with torch.inference_mode():
                codes = torch.from_numpy(codes_BL).to(self.model.device)
                if self._receiver is None:
                    answer_BT = self.predictor.forward(codes)
                elif self._integrates:
                    answer_BT = self._integrated(codes, self._receiver)
                else:
                    with capture(self._sites, self._receiver, value_weighted=self._value_weighted):
                        answer_BT = self.predictor.forward(codes)
                answer_BT = torch.sigmoid(answer_BT) if self.model.task == "binary" else answer_BT
                predictions: NDArray[np.float32] = answer_BT.float().cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise BioattnError(
                f"{self.model.device}: out of memory with {len(codes_BL)} promoters × "
                f"{len(self.predictor.names)} treatments at a time; give a smaller --batch-size"
            ) from error
        return predictions

    @torch.inference_mode(False)
    def _integrated(self, codes_BL: Tensor, receiver: BatchReceiver) -> Tensor:
        """Responses (B, T); the receiver gets the weights and, for contributions, integrated gradients."""
        treatments, answers = self.predictor.treatments, list[Tensor]()
        for member in self.model.model.members:
            sites, network = attention_sites(member), member.network
            listening = capture(self._sites, receiver, value_weighted=self._value_weighted)
            contributing = [site for site in sites.values() if site.contributes is Contribution.GRADIENT]
            if not contributing:
                with torch.no_grad(), listening:
                    answers.append(member(codes_BL.clone(), treatments))
                continue
            assert isinstance(network, CrossModel)
            with torch.no_grad(), listening:
                bins_BPC, known_BP = network.stem(codes_BL.clone())
                network.stem.in_context(bins_BPC, known_BP)  # listened to here: decoding repeats it
                embeddings_TE = network.treatment_encoder(treatments)
            found = integrated_gradients(
                partial(network.decode, bins_BPC, known_BP, embeddings_TE), contributing
            )
            for name in [name for name in self._sites if name in found.contributions]:
                receiver.receive(sites[name], found.weights[name], found.contributions[name])
            answers.append(member.in_response_units(found.predictions, treatments))
        return torch.stack(answers).sum(0)


def run_promoters(
    model: "LoadedPromoterModel",
    promoters: Path,
    *,
    treatments: TreatmentTable,
    predictions: TextIO | None = None,
    attention: Path | None = None,
    options: AttentionOptions | None = None,
    genes: Sequence[str] = (),
    samples: int | None = None,
    batch_size: int | None = None,
    shard: Shard | None = None,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
) -> RunSummary:
    """Predict every promoter of a FASTA under `treatments`, and write the attention behind it.

    predictions: gets a wide TSV: responses, or probabilities of a binary model. attention: HDF5 file by
    `docs/formats/attention.md`. genes, samples: as `Work.chosen` takes them. batch_size: promoters per
    forward pass, None = what keeps memory flat. shard, resume, force: as in `run_work` and `ResultFile`.

    Raises: BioattnError for promoters or treatments that the model cannot take, and as `run_work`.
    """
    source = model.read(promoters)
    options = options or AttentionOptions()
    runner = PromoterRunner(model.predictor(treatments), None if attention is None else options, batch_size)
    if told := refitted(source):
        LOGGER.info(told)
    work = runner.work(source)
    settings = {
        "model": model.sha256,
        "promoters": source.sha256,
        "treatments": runner.predictor.digest(),
        "sites": [layout.path.removeprefix(f"{SITES}/") for layout in runner.layouts],
    }
    if genes or samples is not None:
        work = work.chosen(genes, samples, promoters)
        settings["samples"] = work.source.samples.digest()
    take = file = None
    if predictions is not None:
        record = None
        if shard is not None:
            record = ShardRecord.of(shard, work.source.num_samples, settings, runner.batch_size)
        named = any(source.samples.columns["name"])
        take = _prediction_writer(predictions, treatments.names, record, names=named)
    if attention is not None:
        file = ResultFile(
            output=attention,
            layout=runner.file_layout(source),
            settings={**asdict(options), **settings},
            about="attention",
            of_each=f" × {counted(len(treatments.names), 'treatment')} at {counted(len(runner.layouts), 'site')}",
            smaller="choose fewer --treatment, --sites or --heads, --genes or --samples, --reduce",
            resume=resume,
            force=force,
        )
    return run_work(work, take, file, shard=shard, progress=progress)


def _prediction_writer(
    file: TextIO, treatments: Sequence[str], shard: ShardRecord | None, *, names: bool
) -> Callable[[Block], None]:
    """Writes rows as they come; seven significant digits, which is what float32 holds.

    shard: of a part of a table, which says so in its first line. names: whether to write genes' names.
    """
    columns = ["id", "name"] if names else ["id"]
    template = "\t".join([*["%s"] * len(columns), *["%.7g"] * len(treatments)]) + "\n"
    if shard is not None:
        file.write(table_line(shard))
    file.write("\t".join([*(f"gene_{column}" for column in columns), *treatments]) + "\n")

    def write(block: Block) -> None:
        told = [block.samples.columns[column] for column in columns]
        rows = zip(*told, block.arrays[PREDICTIONS]["values"].tolist(), strict=True)
        file.write("".join(template % (*row[:-1], *row[-1]) for row in rows))

    return write


class PhaseAverage:
    """Averages the maps of windows that begin a fraction of a bin apart."""

    def __init__(self, layouts: Sequence[GroupLayout], pool: int, number: int) -> None:
        """layouts: the sites as they would be stored without phases; pool: bases of a bin; number: of phases.

        Raises: BioattnError when the bins cannot be cut so, or a site has no positions as keys.
        """
        if number < 1 or pool % number:
            allowed = ", ".join(str(n) for n in range(1, pool + 1) if pool % n == 0)
            raise BioattnError(
                f"--phases {number}: the model's bins have {pool} bases; give one of {allowed}"
            )
        self.shifts = [pool // number * place for place in range(-(number // 2), number - number // 2)]
        """In bases, the window as it is (0) among them."""
        self.layouts = [_fine_layout(layout, pool, number) for layout in layouts]
        self._edges = {layout.path: layout.axis(KEY).edges or () for layout in layouts}
        self._width = pool // number

    def of(
        self, codes_BL: NDArray[np.uint8], maps: Arrays, maps_of: Callable[[NDArray[np.uint8]], Arrays]
    ) -> Arrays:
        """The means over all phases, (..., F), in the type they come in.

        maps: (..., P), of the window as it is. maps_of: computes those of another window.
        """
        sums = {
            site: {name: spread(array, self._edges[site], self._width, 0) for name, array in of_site.items()}
            for site, of_site in maps.items()
        }
        for shift in filter(None, self.shifts):
            for site, of_site in maps_of(shifted(codes_BL, shift)).items():
                for name, array in of_site.items():
                    sums[site][name] += spread(array, self._edges[site], self._width, shift)
        number = len(self.shifts)
        return {
            site: {name: (total / number).astype(maps[site][name].dtype) for name, total in of_site.items()}
            for site, of_site in sums.items()
        }


def fine_edges(length: int, width: int) -> tuple[int, ...]:
    """Edges of bins of `width` bases that end at the window's end; the first may be shorter."""
    return (0, *range(length - (length - 1) // width * width, length + 1, width))


def shifted(codes_BL: NDArray[np.uint8], shift: int) -> NDArray[np.uint8]:
    """The window that begins `shift` bases later; what it has beyond the promoter is N."""
    moved_BL = np.full_like(codes_BL, N_CODE)
    length = codes_BL.shape[1]
    kept = slice(max(0, shift), length - max(0, -shift))
    moved_BL[:, kept.start - shift : kept.stop - shift] = codes_BL[:, kept]
    return moved_BL


def spread(
    weights: NDArray[np.floating], edges: Sequence[int], width: int, shift: int
) -> NDArray[np.float32]:
    """Weights (..., P) of a window that begins `shift` bases later over finer bins (..., F) of `width` bases; rows
    keep their sum. edges: of the model's bins."""
    fine = np.array(fine_edges(edges[-1], width))
    middle_F = (fine[:-1] + fine[1:]) / 2
    moved = np.clip(np.array(edges) + shift, 0, edges[-1])
    source_F = np.clip(np.searchsorted(moved, middle_F, side="right") - 1, 0, len(edges) - 2)
    seen_F = (middle_F > moved[0]) & (middle_F < moved[-1])
    share_F = np.where(seen_F, np.diff(fine) / np.maximum(np.diff(moved)[source_F], 1), 0).astype(np.float32)
    weights = weights.astype(np.float32)
    lost = np.setdiff1d(np.arange(weights.shape[-1]), source_F[share_F > 0])
    if lost.size:
        # A short first bin that was shifted out of the promoter: it weighs something only where nothing is known.
        weights[..., lost.max() + 1] += weights[..., lost].sum(-1)
    finer: NDArray[np.float32] = weights[..., source_F] * share_F
    return finer


def _fine_layout(layout: GroupLayout, pool: int, number: int) -> GroupLayout:
    key = layout.axes[-1]
    name = layout.path.rpartition("/")[2]
    if key.edges is None:
        raise BioattnError(
            f"--phases {number} is for attention to positions (--conditioning cross); the keys of {name} are "
            "none, leave it out"
        )
    if any(axis.name == QUERY for axis in layout.axes):
        raise BioattnError(
            f"--phases {number} is for the attention of treatments to positions; at {name} positions attend to "
            "positions, choose others with --sites"
        )
    width = pool // number
    edges = fine_edges(key.edges[-1], width)
    field = layout.attributes.get("receptive_field")
    # A finer bin gets weight from all bins it lies in, which reach beyond it on both sides.
    wider = {"receptive_field": field + 2 * (pool - width)} if isinstance(field, int) else {}
    return replace(
        layout,
        axes=(*layout.axes[:-1], replace(key, edges=edges, size=len(edges) - 1)),
        attributes={**layout.attributes, **wider, "phases": number},
    )
