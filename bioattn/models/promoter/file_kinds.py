"""The kinds of files that promoter models own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bioattn.io.files import read_json
from bioattn.models.family import CONFIG
from bioattn.models.file_kinds import model_kind
from bioattn.models.promoter.family import FAMILY
from bioattn.store.kinds import FileKind
from bioattn.text import some


def _describe(folder: Path) -> dict[str, Any]:
    import torch

    from bioattn.models.promoter.folder import load_promoter_model

    model = load_promoter_model(folder, torch.device("cpu"))
    return {
        "generated_by": read_json(folder / CONFIG).get("generated_by"),
        "task": model.task,
        "length": model.length,
        "conditioning": str(model.config.conditioning),
        "treatment_encoder": str(model.config.treatment_encoder),
        "unconditional": model.config.unconditional,
        "reference_treatment": model.reference,
        "parameters": sum(parameter.numel() for parameter in model.model.parameters()),
        "sha256": model.sha256,
        "treatments": some(model.treatments.names),
        "treatment_features": list(model.treatments.columns),
        "attention_sites": list(model.sites),
    }


FILE_KINDS: Sequence[FileKind] = (model_kind(FAMILY, _describe, name="model", slot="model"),)
