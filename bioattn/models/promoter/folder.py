"""A trained promoter model as a folder of documented files.

`config.json` (format, version, shape), `treatments.json` (vocabulary and table), `model.safetensors`,
`training.json` (settings, data digests, versions, metrics), `history.csv`, `README.md` (model card). The schema
stands in `docs/formats/model.md`.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bioattn.attention.site import AttentionSite, Contribution
from bioattn.choices import SPLIT_NAMES, Method, Task, chosen
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.inference.inputs import Inputs, names_in, python_call
from bioattn.inference.passes import require_finite
from bioattn.inference.promoter_windows import Promoters, hold_promoters, refitted
from bioattn.inference.runner import BinEncoder, Predictor
from bioattn.io.files import read_json, sha256_of, write_json
from bioattn.io.settings import build
from bioattn.models.attention_settings import AttentionKeywords, ExportAttention, attention_options
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import LoadedModel, load_network, read_model_config, write_model
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.family import TREATMENTS
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.predictor import PromoterPredictor
from bioattn.models.promoter.running import PromoterRunner
from bioattn.models.promoter.treatment_encoder import kernel_encoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.dataset import read_dataset
from bioattn.promoters.treatments import (
    UNCONDITIONAL,
    TreatmentTable,
    named_treatments,
    read_treatment_table,
    select_treatments,
)
from bioattn.store.attribution import Attribution
from bioattn.store.reader import Attention, Sites
from bioattn.store.schema import CONTRIBUTIONS, PREDICTIONS, AttentionOptions
from bioattn.store.training_record import read_training_record
from bioattn.system.progress import Progress
from bioattn.text import quoted

if TYPE_CHECKING:
    from bioattn.checks.engine import CheckSettings, Evidence
    from bioattn.checks.promoters import PromoterProbe
    from bioattn.checks.record import CheckRecord
    from bioattn.models.promoter.heads import PromoterHeadScorer

LOGGER = logging.getLogger("bioattn")

MODEL_TYPE = "promoter"
MOST_RUNS = 8
"""Of treatments and choices of attention that were asked for, how many are kept ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The part of a gene that a model sees."""

    length: int
    downstream: int | None
    """Bases from position 0 of the gene on; None when the dataset of the training did not say it."""

    @property
    def positions(self) -> range:
        """Coordinates of its bases, from position 0 of the gene; where that is not known, from the first base."""
        start = 0 if self.downstream is None else self.downstream - self.length
        return range(start, start + self.length)

    def __repr__(self) -> str:
        first, last = self.positions[0], self.positions[-1]
        unknown = "" if self.downstream is not None else ", counted from the first base"
        return f"<{self.length:,} bases, positions {first} to {last}{unknown}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LoadedPromoterModel(LoadedModel[PromoterModel, PromoterModelConfig]):
    """A promoter model: the response of promoters to treatments, and where it looks for it.

    `inputs` are those of `bioattn.inference.inputs`: the path of a promoter FASTA, a sequence, sequences by name,
    a list, a table, codes or one-hot arrays. Promoters shorter than the window are padded with N upstream; of
    longer ones in memory the end is read, of those in a file the window around position 0.
    """

    family: ClassVar[str] = MODEL_TYPE

    vocabulary: TreatmentVocabulary
    treatments: TreatmentTable
    task: Task
    reference: str | None
    """The treatment that is the control, if one was named."""
    downstream: int | None = None
    _runs: dict[Any, PromoterRunner] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What was asked for last, ready for more promoters."""

    def predict(
        self,
        inputs: Inputs,
        *,
        treatments: str | Sequence[str] = (),
        treatment_table: Path | str | pd.DataFrame | None = None,
        batch_size: int | None = None,
    ) -> pd.DataFrame:
        """Predict the response of promoters: a row per promoter, a column per treatment.

        In the units of the training; of a binary model probabilities. treatments: names; none = all of the
        training; `unconditional` is the token of an unknown one. treatment_table: treatments to predict instead of
        those of the training, by name in the index, or in the first column where the index has none (or the path
        of such a table). batch_size: promoters per forward pass; None = as many as keep memory flat.

        Raises: BioattnError for promoters or treatments that the model cannot take.
        """
        with python_call(ExportAttention, batch_size=batch_size):
            source = self._held(inputs)
            run = self._run(treatments, treatment_table, None, batch_size)
            blocks = run.work(source).blocks()
            values = [block.arrays[PREDICTIONS]["values"] for block in blocks]
        return pd.DataFrame(
            values[0] if len(values) == 1 else np.concatenate(values),
            index=pd.Index(source.samples.ids, name="gene_id"),
            columns=list(run.predictor.names),
        )

    def attention(
        self,
        inputs: Inputs,
        *,
        treatments: str | Sequence[str] = (),
        treatment_table: Path | str | pd.DataFrame | None = None,
        phases: int = 1,
        batch_size: int | None = None,
        **choices: Unpack[AttentionKeywords],
    ) -> Attention:
        """Return the attention weights of promoters under treatments, in memory.

        phases: shifted windows to average over, for bins that many times finer. choices: what is kept, as
        `AttentionKeywords` has them: sites, heads, dtype, reduce, top_k, value_weighted. Other arguments and
        errors: as `predict`.
        """
        options = attention_options(**choices, phases=phases)
        with python_call(ExportAttention, batch_size=batch_size, phases=phases):
            source = self._held(inputs)
            run = self._run(treatments, treatment_table, options, batch_size)
            return Attention(run.work(source).collect(run.file_layout(source)))

    def attribute(
        self,
        inputs: Inputs,
        *,
        method: str = "ism",
        treatments: str | Sequence[str] = (),
        treatment_table: Path | str | pd.DataFrame | None = None,
        steps: int = 50,
    ) -> Attribution:
        """Return what each base of promoters adds to the response to treatments, in memory.

        method: `ism` (every base mutated to every other), `gradient-input` or `integrated-gradients`; of the last,
        steps: points on the path from a quarter of each base to the promoter. Of a binary model in log-odds. Other
        arguments and errors: as `predict`.
        """
        from bioattn.interpret.attribution import attribution_work
        from bioattn.interpret.choices import MethodSettings

        settings = MethodSettings(method=chosen(Method, "method", method), steps=steps)
        with python_call(MethodSettings, steps=steps):
            source, table = self._held(inputs), self._chosen(treatments, treatment_table)
            work, layout = attribution_work(self, source, table, settings)
            return Attribution(work.collect(layout))

    def check(
        self,
        inputs: Inputs,
        *,
        dataset: Path | str | None = None,
        controls: Path | str | None = None,
        seeds: int = 1,
        other_models: Sequence["LoadedPromoterModel"] = (),
        variants: Path | str | None = None,
        treatments: str | Sequence[str] = (),
        samples: int = 300,
        seed: int = 0,
    ) -> "CheckRecord":
        """Check whether the attention of the model can be believed (docs/checks.md).

        dataset: of the training, for the accuracy on held-out genes. controls: a folder for models retrained as
        this one but for one thing, `seeds` of them with another seed. other_models: this one trained with other
        seeds. variants: a table of measured effects of mutations. samples: promoters to check, drawn by `seed`.

        Raises: BioattnError for a model without attention over positions, and what does not fit it.
        """
        from bioattn.checks.engine import CheckSettings, Evidence, check_model

        evidence = Evidence(
            dataset=None if dataset is None else Path(dataset),
            controls=None if controls is None else Path(controls),
            other_models=other_models,
            variants=None if variants is None else Path(variants),
            treatments=names_in(treatments),
        )
        settings = CheckSettings(samples=samples, seed=seed, other_seeds=seeds)
        with python_call():
            return check_model(self, inputs, evidence, settings=settings)

    @property
    def window(self) -> Window:
        """The part of a gene that the model sees."""
        return Window(length=self.length, downstream=self.downstream)

    @property
    def length(self) -> int:
        return self.config.length

    @property
    def sites(self) -> Sites[AttentionSite]:
        """Attention sites by name; empty for `concat`."""
        return Sites(attention_sites(self.model))

    def write(self, folder: Path) -> None:
        """Write `config.json`, `treatments.json` and the weights into the existing `folder`."""
        frame = self.treatments.frame
        write_model(
            folder,
            MODEL_TYPE,
            self.model,
            task=self.task,
            reference=self.reference,
            downstream=self.downstream,
            networks=[asdict(member.config) for member in self.model.members],
        )
        columns = {
            column: [None if pd.isna(value) else value for value in frame[column].tolist()]
            for column in frame.columns
        }
        stored = {"vocabulary": asdict(self.vocabulary), "names": list(frame.index), "columns": columns}
        write_json(folder / TREATMENTS, stored)

    def read(self, inputs: Inputs, genes: Sequence[str] = ()) -> Promoters:
        """Promoters of a FASTA file, or in memory. genes: as `choose_genes` takes them, none = all.

        Raises: FormatError, and BioattnError when there are none, as `hold_promoters`.
        """
        return hold_promoters(inputs, self.length, self.downstream, genes)

    def predictor(self, treatments: TreatmentTable | None = None) -> PromoterPredictor:
        """The model asked for `treatments`; None = those of the training."""
        return PromoterPredictor(self, self.encode_treatments(treatments or self.treatments))

    def _held(self, inputs: Inputs) -> Promoters:
        source = self.read(inputs)
        if told := refitted(source):
            LOGGER.warning(told)
        return source

    def _chosen(
        self, treatments: str | Sequence[str], table: Path | str | pd.DataFrame | None
    ) -> TreatmentTable:
        if isinstance(table, Path | str):
            described: TreatmentTable | None = read_treatment_table(Path(table))
        else:
            if table is not None and isinstance(table.index, pd.RangeIndex) and len(table.columns):
                table = table.set_index(table.columns[0])  # as in a file
            described = None if table is None else TreatmentTable(table.rename(index=str))
        return select_treatments(self.treatments, names_in(treatments), described)

    def _run(
        self,
        treatments: str | Sequence[str],
        table: Path | str | pd.DataFrame | None,
        options: AttentionOptions | None,
        batch_size: int | None,
    ) -> PromoterRunner:
        """The model with treatments encoded and shapes of attention known; kept for the next call."""
        names = names_in(treatments)
        key = (names, options, batch_size)
        if table is None and key in self._runs:
            return self._runs[key]
        run = PromoterRunner(self.predictor(self._chosen(names, table)), options, batch_size)
        if table is None:
            if len(self._runs) >= MOST_RUNS:
                self._runs.clear()
            self._runs[key] = run
        return run

    def encode_treatments(self, table: TreatmentTable) -> TreatmentBatch:
        """Treatments as the model takes them, on its device.

        With the id encoder only names count. With features, a training treatment may stand in `table` by name
        alone (no columns): its own features are used then. Raises: BioattnError naming what is unknown.
        """
        if self.vocabulary.encoding is not TreatmentEncoding.ID:
            if table.columns:
                self._report_columns(table)
            else:
                known = self.treatments.frame
                for name in table.names:
                    if name not in known.index and name != UNCONDITIONAL:
                        raise BioattnError(
                            f"treatment {name!r} was not in training; describe it by a row of --treatment-table "
                            f"with the columns {quoted(self.vocabulary.columns)}"
                        )
                table = TreatmentTable(known.reindex(table.frame.index))
        encoded = self.vocabulary.encode(table).to(self.device)
        for column, names in self.vocabulary.beyond(table, self.treatments).items():
            LOGGER.warning(
                f"{quoted(names)}: {column} lies far outside what training saw; predictions are extrapolated"
            )
        return encoded

    def treatment_weights(self, table: TreatmentTable) -> pd.DataFrame | None:
        """What training treatments (columns) count for those of `table` (rows); None without kernel attention."""
        kernel = kernel_encoder(self.model)
        if kernel is None:
            return None
        with torch.inference_mode():
            weights_TN = kernel.weights(self.encode_treatments(table)).double().cpu().numpy()
        return pd.DataFrame(weights_TN, index=table.names, columns=self.vocabulary.names)

    def treatment_vectors(self, treatments: TreatmentTable) -> torch.Tensor:
        """The embedding of each treatment (T, C).

        Raises: as `encode_treatments`; BioattnError for a model that has no embeddings (`concat`, `ridge`).
        """
        encoder = getattr(self.model.members[0].network, "treatment_encoder", None)
        if encoder is None:
            raise BioattnError(
                f"--conditioning {self.config.conditioning} has no embeddings of treatments; give a model that has"
            )
        with torch.inference_mode():
            vectors_TC: torch.Tensor = encoder(self.encode_treatments(treatments))
        return vectors_TC

    def _report_columns(self, table: TreatmentTable) -> None:
        """Say what of a table of new treatments the model does not use or does not get.

        Raises: BioattnError when no column is a feature of the model.
        """
        features = self.vocabulary.columns
        used = [column for column in features if column in table.columns]
        if not used:
            raise BioattnError(
                "no column of the treatment table is a feature of this model: "
                f"it has {quoted(table.columns)}, the model knows {quoted(features)}"
            )
        missing = [column for column in features if column not in table.columns]
        familiar = {*features, *self.treatments.columns}
        unused = [column for column in table.columns if column not in familiar]
        if missing:
            rest = f"; its columns {quoted(unused)} are not used" if unused else ""
            LOGGER.warning(f"the treatment table lacks {quoted(missing)}, which count as unknown{rest}")
        elif unused:
            LOGGER.info(f"the model does not use the columns {quoted(unused)} of the treatment table")
        told = set(self.vocabulary.unclear_doses(self.treatments))
        unclear = [text for text in self.vocabulary.unclear_doses(table) if text not in told]
        if unclear:
            LOGGER.warning(f"doses that are no number with a unit count as unknown: {quoted(unclear)}")

    def first_layer_matches(self, codes_BL: NDArray[np.uint8]) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """What the filters of the first layer match in promoters, as counts (places, 4)."""
        from bioattn.models.promoter.first_layer import first_layer_matches

        return first_layer_matches(self.model, codes_BL, self.device)

    def head_scorer(self, dataset: Path, split: str, progress: Progress) -> "PromoterHeadScorer":
        from bioattn.models.promoter.heads import PromoterHeadScorer

        return PromoterHeadScorer(self, read_dataset(dataset), SPLIT_NAMES.index(split))

    def write_pruned(self, *arguments: Any, force: bool) -> tuple[float, float] | None:
        """As `bioattn.models.promoter.heads.write_pruned`."""
        from bioattn.models.promoter.heads import write_pruned

        return write_pruned(self, *arguments, force=force)

    def trial(self) -> None:
        """Ask one promoter of random bases for all treatments. Raises: NotFiniteError."""
        codes_BL = torch.from_numpy(
            np.random.default_rng(0).integers(4, size=(1, self.length), dtype=np.uint8)
        )
        with torch.inference_mode():
            require_finite(self.predictor().forward(codes_BL.to(self.device)), "predictions")

    def contributions(self, predictor: Predictor, codes_BL: NDArray[np.uint8]) -> NDArray[np.float64] | None:
        """What each bin contributes (B, T, P), sum over heads and sites, in response units; None without any."""
        if any(member.config.contribution is Contribution.NONE for member in self.model.members):
            return None
        assert isinstance(predictor, PromoterPredictor)
        runner = PromoterRunner(predictor, AttentionOptions())
        blocks = []
        for batch in self.read(codes_BL).batches(runner.batch_size):
            of_sites = [arrays.get(CONTRIBUTIONS) for arrays in runner.compute(batch).arrays.values()]
            each_BTP = [array.astype(np.float64).sum(2) for array in of_sites if array is not None]
            blocks.append(np.sum(each_BTP, axis=0))
        return np.concatenate(blocks)

    def untrained(self, seed: int) -> "LoadedPromoterModel":
        """The same model with the weights it might have begun with; torch's random state stays as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = PromoterModel([member.config for member in self.model.members], self.vocabulary)
        if fresh.encoder is not None:
            fresh.encoder.load_state_dict(self.encoder().state_dict())
        return replace(self, model=fresh.to(self.device).eval())

    @property
    def verdict(self) -> str:
        """Code of the verdict on its maps at the end of its training; empty where none is known."""
        record = {} if self.path is None else read_training_record(self.path)
        return str(record.get("evaluation", {}).get("verdict", ""))

    def encoder(self) -> BinEncoder:
        """The encoder of a pretrained stem. Raises: BioattnError without one."""
        if self.model.encoder is None:
            raise BioattnError("this promoter model has no pretrained stem, and so no encoder to go on from")
        return self.model.encoder

    def check_probe(self, inputs: Inputs, settings: "CheckSettings", evidence: "Evidence") -> "PromoterProbe":
        """Promoters to check the attention with. Raises: as `bioattn.models.promoter.controls.make_probe`."""
        from bioattn.models.promoter.controls import make_probe

        return make_probe(self, inputs, settings, evidence)


def load_promoter_model(folder: Path, device: torch.device) -> LoadedPromoterModel:
    """Load what `LoadedPromoterModel.write` wrote."""
    content = read_model_config(folder, MODEL_TYPE, (TREATMENTS,))
    stored = read_json(folder / TREATMENTS)
    try:
        configs = [build(PromoterModelConfig, each, f"{folder / CONFIG}") for each in content["networks"]]
        vocabulary = build(TreatmentVocabulary, stored["vocabulary"], f"{folder / TREATMENTS}")
        table = named_treatments(stored["names"], stored["columns"])
    except (FormatError, SettingsError) as error:
        raise FormatError(f"{error}; the folder is damaged or was edited") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{folder}: config.json or treatments.json is incomplete ({error!r})") from error
    model = load_network(
        lambda: PromoterModel(configs, vocabulary),
        {"networks": content["networks"]},
        folder / WEIGHTS,
        device,
    )
    return LoadedPromoterModel(
        model=model.eval(),
        vocabulary=vocabulary,
        treatments=table,
        task=content["task"],
        reference=content.get("reference"),
        downstream=content.get("downstream"),
        device=device,
        sha256=sha256_of(folder / WEIGHTS),
        path=folder,
    )
