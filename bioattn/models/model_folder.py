"""A trained promoter model as a folder that explains itself.

`config.json` (format, version, shape), `treatments.json` (vocabulary and table), `model.safetensors`,
`training.json` (settings, data digests, versions, metrics), `history.csv`, `README.md` (model card). Nothing in
it is ever unpickled. The schema stands in `docs/formats/model.md`.
"""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from bioattn import __version__
from bioattn.attention.site import AttentionSite
from bioattn.config_file import build
from bioattn.errors import BioattnError, FormatError, SettingsError
from bioattn.files import atomic_output, read_json, sha256_of, write_json
from bioattn.formats.tables import quoted
from bioattn.models.promoter.config import PromoterModelConfig, TreatmentEncoding
from bioattn.models.promoter.model import PromoterModel, attention_sites, make_promoter_model
from bioattn.models.promoter.treatment_vocabulary import UNCONDITIONAL, TreatmentBatch, TreatmentVocabulary
from bioattn.promoters.treatments import TreatmentTable

LOGGER = logging.getLogger("bioattn")

MODEL_FORMAT = "bioattn-model"
MODEL_FORMAT_VERSION = 1
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPromoterModel:
    """A promoter model ready to run, on its device and in evaluation mode."""

    model: PromoterModel
    vocabulary: TreatmentVocabulary
    treatments: TreatmentTable
    """The training treatments with their features."""
    task: Literal["regression", "binary"]
    reference: str | None
    """The treatment that is the control, if one was named."""
    device: torch.device
    sha256: str
    """Of the weights file."""

    @property
    def config(self) -> PromoterModelConfig:
        """The model's shape."""
        return self.model.config

    @property
    def length(self) -> int:
        """Bases of a window."""
        return self.config.length

    @property
    def sites(self) -> dict[str, AttentionSite]:
        """Attention sites by name; empty for `concat`."""
        return attention_sites(self.model)

    def encode_treatments(self, table: TreatmentTable) -> TreatmentBatch:
        """Treatments as the model takes them, on its device.

        With the id encoder only names count. With features, a training treatment may stand in `table` by name
        alone (no columns): its own features are used then. Raises: BioattnError naming what is unknown.
        """
        frame = table.frame
        if self.vocabulary.encoding is TreatmentEncoding.FEATURES and frame.shape[1] == 0:
            known = self.treatments.frame
            unknown = [name for name in frame.index if name not in known.index and name != UNCONDITIONAL]
            if unknown:
                raise BioattnError(
                    f"treatment {unknown[0]!r} was not in training; describe it by a row of --treatment-table "
                    f"with the columns {quoted(self.vocabulary.columns)}"
                )
            frame = known.reindex(frame.index)
        elif self.vocabulary.encoding is TreatmentEncoding.FEATURES:
            self._report_columns(table)
        return self.vocabulary.encode(TreatmentTable(frame=frame)).to(self.device)

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
    write_json(
        folder / "config.json",
        {
            "format": MODEL_FORMAT,
            "format_version": MODEL_FORMAT_VERSION,
            "generated_by": f"bioattn {__version__}",
            "model_type": "promoter",
            "task": task,
            "reference": reference,
            "architecture": asdict(model.config),
        },
    )
    frame = treatments.frame
    write_json(
        folder / "treatments.json",
        {
            "vocabulary": vocabulary.to_json(),
            "names": list(frame.index),
            "columns": {
                column: [None if pd.isna(value) else value for value in frame[column].tolist()]
                for column in frame.columns
            },
        },
    )
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    # One metadata entry only: safetensors writes several in random order, and the bytes would not repeat.
    with atomic_output(folder / WEIGHTS) as temporary:
        temporary.write_bytes(save(weights, metadata={"format": f"{MODEL_FORMAT} {MODEL_FORMAT_VERSION}"}))


def load_promoter_model(folder: Path, device: torch.device) -> LoadedPromoterModel:
    """Load what `write_promoter_model` wrote.

    Raises: FormatError naming the file that is missing, of another version, damaged or at odds with the rest.
    """
    for name in ("config.json", "treatments.json", WEIGHTS):
        if not (folder / name).is_file():
            raise FormatError(f"{folder}: not a model folder, {name} is missing")
    content = read_json(folder / "config.json")
    check_model_config(folder / "config.json", content)
    _check_digest(folder)
    stored = read_json(folder / "treatments.json")
    try:
        config = build(PromoterModelConfig, content["architecture"], f"{folder / 'config.json'}")
        vocabulary = TreatmentVocabulary.from_json(stored["vocabulary"])
        table = TreatmentTable(frame=_frame(stored["names"], stored["columns"]))
    except SettingsError as error:
        raise FormatError(f"{error}; the folder is damaged or was edited") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{folder}: config.json or treatments.json is incomplete ({error!r})") from error
    model = make_promoter_model(config, vocabulary)
    load_weights(model, folder / WEIGHTS)
    return LoadedPromoterModel(
        model=model.to(device).eval(),
        vocabulary=vocabulary,
        treatments=table,
        task=content["task"],
        reference=content.get("reference"),
        device=device,
        sha256=sha256_of(folder / WEIGHTS),
    )


def check_model_config(path: Path, content: Any) -> None:
    """Raises: FormatError when `content` is not the config of a promoter model this version reads."""
    if not isinstance(content, dict) or content.get("format") != MODEL_FORMAT:
        raise FormatError(f"{path}: not the config of a bioattn model")
    if content.get("format_version") != MODEL_FORMAT_VERSION:
        raise FormatError(
            f"{path}: model format version {content.get('format_version')}, this bioattn reads version "
            f"{MODEL_FORMAT_VERSION}; use the bioattn that wrote it ({content.get('generated_by', 'unknown')})"
        )
    if content.get("model_type") != "promoter":
        raise FormatError(
            f"{path}: a model of type {content.get('model_type')!r}, a promoter model is needed"
        )


def load_weights(model: torch.nn.Module, path: Path) -> None:
    """Load safetensors weights. Raises: FormatError naming missing, extra or misshapen arrays."""
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise FormatError(f"{path}: damaged or not a safetensors file ({error})") from error
    expected = model.state_dict()
    for name in expected:
        if name not in weights:
            raise FormatError(
                f"{path}: the array {name} is missing; the file does not belong to this config.json"
            )
    for name, tensor in weights.items():
        if name not in expected:
            raise FormatError(f"{path}: unknown array {name}; the file does not belong to this config.json")
        if tensor.shape != expected[name].shape:
            raise FormatError(
                f"{path}: the array {name} has shape {tuple(tensor.shape)}, "
                f"config.json asks for {tuple(expected[name].shape)}"
            )
        if not torch.isfinite(tensor).all():
            raise FormatError(f"{path}: the array {name} holds NaN or infinite values")
    model.load_state_dict(weights)


def _check_digest(folder: Path) -> None:
    """A flipped bit in a float is a plausible float: only the digests in `training.json` tell."""
    record = folder / "training.json"
    if not record.is_file():
        return
    for name, digest in read_json(record).get("sha256", {}).items():
        if sha256_of(folder / name) != digest:
            raise FormatError(
                f"{folder / name}: differs from the digest in training.json; the file is damaged"
            )


def _frame(names: list[str], columns: dict[str, list[Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(index=pd.Index(names, dtype=object))
    for column, values in columns.items():
        numeric = all(value is None or isinstance(value, (int, float)) for value in values)
        frame[column] = pd.Series(values, index=frame.index, dtype=float if numeric else object)
    return frame
