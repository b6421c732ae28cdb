"""Write the tables of settings in docs/models/ from the dataclasses that hold them.

    python docs/settings_tables.py

Tests compare, so the pages cannot lag behind the code.
"""

import ast
import dataclasses
import inspect
import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.io.settings import DECLARED
from bioattn.models.diffusion.family import DiffusionModelConfig, DiffusionTrainingConfig
from bioattn.models.evoformer.config import SMALL_MODEL, EvoformerConfig, EvoformerTrainingConfig
from bioattn.models.language.config import FineTuningConfig, LanguageModelConfig, LanguageTrainingConfig
from bioattn.models.memory.family import MemoryModelConfig, MemoryTrainingConfig
from bioattn.models.molecule.family import DATASET_GIVES, MoleculeModelConfig, MoleculeTrainingConfig
from bioattn.models.phyloformer.family import PhyloformerConfig, PhyloformerTrainingConfig
from bioattn.models.promoter.config import PromoterModelConfig, TrainingConfig
from bioattn.models.translation.family import TranslationModelConfig, TranslationTrainingConfig
from bioattn.training.settings import UpdateConfig

MODELS = Path(__file__).resolve().parent / "models"
TABLES = {
    "promoter.md": {"model": PromoterModelConfig, "training": TrainingConfig},
    "evoformer.md": {"model": EvoformerConfig},
    "evoformer-training.md": {"training": EvoformerTrainingConfig},
    "language.md": {
        "model": LanguageModelConfig,
        "training": LanguageTrainingConfig,
        "fine-tuning": FineTuningConfig,
    },
    "memory.md": {"model": MemoryModelConfig, "training": MemoryTrainingConfig},
    "diffusion.md": {"model": DiffusionModelConfig, "training": DiffusionTrainingConfig},
    "molecules.md": {"model": MoleculeModelConfig, "training": MoleculeTrainingConfig},
    "phyloformer.md": {"model": PhyloformerConfig, "training": PhyloformerTrainingConfig},
    "translation.md": {"model": TranslationModelConfig, "training": TranslationTrainingConfig},
}
"""By page, the tables it has."""
NOT_A_SETTING = {
    *("length", "alphabet", "form", "source_alphabet", "target_alphabet"),
    *("source_characters", "target_characters", "longest_source", "genetic_code", "treatments"),
    *DATASET_GIVES,
    *("words", "answers", "places"),
}
"""The dataset decides it, or published weights."""
SHARED = ("weight_decay", "warmup_fraction", "average_decay", "gradient_clip", "patience", "precision")
"""What pages of configurations of training that are no `UpdateConfig` tell in one line."""


def field_texts(kind: type) -> dict[str, str]:
    """What each field of a dataclass is: the text under it, or the help of its option."""
    texts = field_texts(kind.__base__) if dataclasses.is_dataclass(kind.__base__) else {}
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    options = {field.name: field.metadata[DECLARED] for field in dataclasses.fields(kind) if field.metadata}
    return texts | {name: option.help for name, option in options.items()}


def toml(value: Any) -> str:
    """A default as TOML writes it; empty for None, which stands for "left out"."""
    if value is None:
        return ""
    return "`" + json.dumps(str(value) if isinstance(value, StrEnum) else value) + "`"


def table(kind: type) -> str:
    """A Markdown table of the settings of `kind`; those that all trainings share are one line of defaults."""
    texts = field_texts(kind)
    shared: list[str] = []
    lines = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for field in dataclasses.fields(kind):
        if field.name in (UpdateConfig.__dataclass_fields__ if issubclass(kind, UpdateConfig) else SHARED):
            shared.append(f"`{field.name} = {toml(field.default)[1:-1]}`")
        elif field.name not in NOT_A_SETTING:
            default = "see below" if field.default is dataclasses.MISSING else toml(field.default)
            lines.append(f"| `{field.name}` | {default} | {texts[field.name]} |")
    if len(lines) == 2:
        lines = []
    if shared:
        lines += ["", f"[Shared settings](../training.md#settings): {', '.join(shared)}."]
    return "\n".join(lines).strip()


def shared_table() -> str:
    """The settings that all trainings share, without their defaults."""
    texts = field_texts(UpdateConfig)
    lines = ["| setting | meaning |", "| --- | --- |"]
    lines += [f"| `{field.name}` | {texts[field.name]} |" for field in dataclasses.fields(UpdateConfig)]
    return "\n".join(lines)


def small_model_table() -> str:
    """What the model that is trained by default has other than AlphaFold 2."""
    lines = ["| setting | here | AlphaFold 2 |", "| --- | --- | --- |"]
    theirs = EvoformerConfig()
    for name, value in SMALL_MODEL.items():
        default = getattr(theirs, name)
        other = "has one" if dataclasses.is_dataclass(default) else toml(default)
        lines.append(f"| `{name}` | {toml(value) or 'none'} | {other} |")
    return "\n".join(lines)


def with_tables(page: str, text: str) -> str:
    """The text of `page` with the tables between its markers written anew."""
    for name, kind in TABLES.get(page, {}).items():
        pattern = rf"(<!-- table of \[{name}\] -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(pattern, lambda m, kind=kind: m[1] + table(kind) + m[2], text, flags=re.DOTALL)
        assert found == 1, name
    for name, make in (("small_model", small_model_table), ("shared", shared_table)):
        marked = rf"(<!-- table of \[{name}\] -->\n).*?(\n?<!-- end -->)"
        text = re.sub(marked, lambda m, make=make: m[1] + make() + "\n<!-- end -->", text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    for path in [MODELS.parent / "training.md", *(MODELS / page for page in TABLES)]:
        page = path.name
        path.write_text(with_tables(page, path.read_text(encoding="utf-8")), encoding="utf-8")
