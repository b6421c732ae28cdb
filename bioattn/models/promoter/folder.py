"""A trained promoter model as a folder of documented files.

`config.json` (format, version, shape), `treatments.json` (vocabulary and table), `model.safetensors`,
`training.json` (settings, data digests, versions, metrics), `history.csv`, `README.md` (model card). The schema
stands in `docs/formats/model.md`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from bioattn.attention.site import AttentionSite
from bioattn.choices import Task
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.inference.finite import require_finite
from bioattn.inference.promoter_windows import PromoterSource, scan_promoters
from bioattn.inference.runner import BinEncoder, WindowBatch
from bioattn.io.config_file import build
from bioattn.io.files import read_json, sha256_of, write_json
from bioattn.io.input_watch import unchanged
from bioattn.models.family import CONFIG, WEIGHTS
from bioattn.models.model_folder import (
    check_sizes,
    load_weights,
    read_model_config,
    write_model_config,
    write_weights,
)
from bioattn.models.promoter.config import (
    Conditioning,
    PromoterModelConfig,
    QuerySource,
    Readout,
    TreatmentEncoding,
)
from bioattn.models.promoter.family import TREATMENTS
from bioattn.models.promoter.model import PromoterModel, attention_sites
from bioattn.models.promoter.predictor import PromoterPredictor
from bioattn.models.promoter.treatment_kernel import kernel_encoder
from bioattn.models.promoter.treatment_vocabulary import TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.dataset import SPLIT_NAMES, read_dataset
from bioattn.promoters.treatments import UNCONDITIONAL, TreatmentTable
from bioattn.store.schema import CONTRIBUTIONS, AttentionOptions
from bioattn.system.progress import Progress
from bioattn.text import quoted

if TYPE_CHECKING:
    from bioattn.models.promoter.controls import PromoterTraining
    from bioattn.models.promoter.head_scorer import PromoterHeadScorer

LOGGER = logging.getLogger("bioattn")

MODEL_TYPE = "promoter"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPromoterModel:
    """A promoter model ready to run, on its device and in evaluation mode: a `bioattn.inference.runner.Runner`."""

    family: ClassVar[str] = MODEL_TYPE

    model: PromoterModel
    vocabulary: TreatmentVocabulary
    treatments: TreatmentTable
    """The training treatments with their features."""
    task: Task
    reference: str | None
    """The treatment that is the control, if one was named."""
    device: torch.device
    sha256: str
    """SHA-256 of the weights file, in hexadecimal."""
    path: Path | None = None
    """The folder it was loaded from."""

    @property
    def config(self) -> PromoterModelConfig:
        return self.model.config

    @property
    def length(self) -> int:
        """Length of a window in bases."""
        return self.config.length

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name; empty for `concat`."""
        return attention_sites(self.model)

    def read(self, path: Path, genes: Sequence[str] = ()) -> PromoterSource:
        """A promoter FASTA, read through once. genes: as `choose_genes` takes them, none = all.

        Raises: FormatError, and BioattnError when there are none, as `scan_promoters`.
        """
        return scan_promoters(path, self.length, genes)

    def predictor(self, treatments: TreatmentTable | None = None) -> PromoterPredictor:
        return PromoterPredictor(self, self.encode_treatments(treatments or self.treatments))

    def encode_treatments(self, table: TreatmentTable) -> TreatmentBatch:
        """Treatments as the model takes them, on its device.

        With the id encoder only names count. With features, a training treatment may stand in `table` by name
        alone (no columns): its own features are used then. Raises: BioattnError naming what is unknown.
        """
        frame = table.frame
        if self.vocabulary.encoding is not TreatmentEncoding.ID and frame.shape[1] == 0:
            known = self.treatments.frame
            unknown = [name for name in frame.index if name not in known.index and name != UNCONDITIONAL]
            if unknown:
                raise BioattnError(
                    f"treatment {unknown[0]!r} was not in training; describe it by a row of --treatment-table "
                    f"with the columns {quoted(self.vocabulary.columns)}"
                )
            frame = known.reindex(frame.index)
        elif self.vocabulary.encoding is not TreatmentEncoding.ID:
            self._report_columns(table)
        return self.vocabulary.encode(TreatmentTable(frame=frame)).to(self.device)

    def treatment_weights(self, table: TreatmentTable) -> NDArray[np.float64] | None:
        """What each training treatment counts for each of `table` (T, N); None without kernel attention."""
        kernel = kernel_encoder(self.model)
        if kernel is None:
            return None
        with torch.inference_mode():
            weights_TN: NDArray[np.float64] = (
                kernel.weights(self.encode_treatments(table)).double().cpu().numpy()
            )
        return weights_TN

    def treatment_vectors(self, treatments: TreatmentTable) -> torch.Tensor:
        """The embedding of each treatment (T, C).

        Raises: as `encode_treatments`; BioattnError for a model that has no embeddings (`concat`, `ridge`).
        """
        encoder = getattr(self.model.network, "treatment_encoder", None)
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
        """What the filters or k-mers of the first layer match in promoters, as counts (places, 4)."""
        from bioattn.models.promoter.first_layer import first_layer_matches

        return first_layer_matches(self.model, codes_BL, self.device)

    def head_scorer(self, dataset: Path, split: str, progress: Progress) -> "PromoterHeadScorer":
        from bioattn.models.promoter.head_scorer import PromoterHeadScorer

        return PromoterHeadScorer(self, read_dataset(dataset), SPLIT_NAMES.index(split))

    def write_pruned(
        self,
        output: Path,
        folder: Path,
        dataset: Path,
        keep: Mapping[str, Sequence[int]],
        note: Mapping[str, Any],
        *,
        force: bool,
        progress: Progress,
    ) -> tuple[float, float] | None:
        """Write a model folder with the heads `keep` alone; returns accuracies of both on test genes."""
        from bioattn.models.promoter.pruning import write_pruned

        return write_pruned(self, output, folder, dataset, keep, note, force=force, progress=progress)

    def trial(self) -> None:
        """Ask one promoter of random bases for all treatments. Raises: NotFiniteError."""
        codes_BL = torch.from_numpy(
            np.random.default_rng(0).integers(4, size=(1, self.length), dtype=np.uint8)
        )
        with torch.inference_mode():
            require_finite(self.predictor().forward(codes_BL.to(self.device)), "predictions")

    def require_checkable(self) -> None:
        if self.config.conditioning is not Conditioning.CROSS:
            raise BioattnError(
                "explain check asks whether treatments attend to the right positions, which they do in "
                f"--conditioning cross only; this model is {self.config.conditioning}"
            )
        if self.config.attention_query is QuerySource.UNIFORM:
            raise BioattnError(
                "this model weighs all positions the same by design (attention_query = uniform): there is nothing "
                "to check"
            )

    def contributions(self, treatments: TreatmentTable, batch: WindowBatch) -> NDArray[np.float64] | None:
        """What each bin contributes (B, T, P), sum over heads, in response units; None without one readout."""
        from bioattn.models.promoter.inference.run import PromoterRunner

        if self.config.readout != Readout.SHARED:
            return None
        runner = PromoterRunner(self.predictor(treatments), len(batch.codes))
        runner.listen(AttentionOptions())
        arrays = runner.compute(batch).arrays.values()
        found_BTHP = [of_site[CONTRIBUTIONS] for of_site in arrays if CONTRIBUTIONS in of_site]
        contributions_BTP: NDArray[np.float64] = sum(each.astype(np.float64).sum(2) for each in found_BTHP)
        return contributions_BTP

    def untrained(self, seed: int) -> "LoadedPromoterModel":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = PromoterModel(self.config, self.vocabulary)
        if fresh.encoder is not None:
            fresh.encoder.load_state_dict(self.encoder().state_dict())
        return replace(self, model=fresh.to(self.device).eval())

    def encoder(self) -> BinEncoder:
        """The encoder of a pretrained stem. Raises: BioattnError without one."""
        if self.model.encoder is None:
            raise BioattnError("this promoter model has no pretrained stem, and so no encoder to go on from")
        return self.model.encoder

    def training(self, folder: Path) -> "PromoterTraining":
        from bioattn.models.promoter.controls import PromoterTraining, read_training_record

        return PromoterTraining(self, read_training_record(folder))


def write_promoter_model(
    folder: Path,
    model: PromoterModel,
    vocabulary: TreatmentVocabulary,
    treatments: TreatmentTable,
    *,
    task: str,
    reference: str | None,
) -> None:
    """Write `config.json`, `treatments.json` and the weights into the existing `folder`."""
    write_model_config(folder, MODEL_TYPE, task=task, reference=reference, architecture=asdict(model.config))
    frame = treatments.frame
    write_json(
        folder / TREATMENTS,
        {
            "vocabulary": vocabulary.to_json(),
            "names": list(frame.index),
            "columns": {
                column: [None if pd.isna(value) else value for value in frame[column].tolist()]
                for column in frame.columns
            },
        },
    )
    write_weights(folder, model)


def load_promoter_model(folder: Path, device: torch.device) -> LoadedPromoterModel:
    """Load what `write_promoter_model` wrote.

    Raises: FormatError naming the file that is missing, of another version, damaged or at odds with the rest;
    BioattnError when one changes meanwhile.
    """
    with unchanged(*(folder / name for name in (CONFIG, TREATMENTS, WEIGHTS))):
        return _load(folder, device)


def _load(folder: Path, device: torch.device) -> LoadedPromoterModel:
    content = read_model_config(folder, MODEL_TYPE, (TREATMENTS,))
    stored = read_json(folder / TREATMENTS)
    try:
        config = build(PromoterModelConfig, content["architecture"], f"{folder / CONFIG}")
        vocabulary = TreatmentVocabulary.from_json(stored["vocabulary"])
        table = TreatmentTable(frame=_frame(stored["names"], stored["columns"]))
    except (FormatError, SettingsError) as error:
        raise FormatError(f"{error}; the folder is damaged or was edited") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}: config.json or treatments.json is incomplete ({error!r})") from error
    check_sizes(lambda: PromoterModel(config, vocabulary), asdict(config), folder / WEIGHTS)
    model = PromoterModel(config, vocabulary)
    load_weights(model, folder / WEIGHTS)
    return LoadedPromoterModel(
        model=model.to(device).eval(),
        vocabulary=vocabulary,
        treatments=table,
        task=content["task"],
        reference=content.get("reference"),
        device=device,
        sha256=sha256_of(folder / WEIGHTS),
        path=folder,
    )


def _frame(names: list[str], columns: dict[str, list[Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(index=pd.Index(names, dtype=object))
    for column, values in columns.items():
        numeric = all(value is None or isinstance(value, (int, float)) for value in values)
        frame[column] = pd.Series(values, index=frame.index, dtype=float if numeric else object)
    return frame
