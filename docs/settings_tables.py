"""Write the tables of settings in docs/models/promoter.md from the dataclasses that hold them.

    python docs/settings_tables.py

A test compares, so the page cannot lag behind the code.
"""

import ast
import dataclasses
import inspect
import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

from bioattn.models.promoter.config import PromoterModelConfig
from bioattn.training.config import TrainingConfig

PAGE = Path(__file__).resolve().parent / "models" / "promoter.md"
TABLES = {"model": PromoterModelConfig, "training": TrainingConfig}
NOT_A_SETTING = {"length"}
"""The dataset decides it."""


def field_texts(kind: type) -> dict[str, str]:
    """The text under each field of a dataclass."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    texts = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return texts


def toml(value: Any) -> str:
    """A default as TOML writes it; empty for None, which stands for "left out"."""
    if value is None:
        return ""
    return "`" + json.dumps(str(value) if isinstance(value, StrEnum) else value) + "`"


def table(kind: type) -> str:
    """A Markdown table of the settings of `kind`."""
    texts = field_texts(kind)
    lines = ["| setting | default | meaning |", "| --- | --- | --- |"]
    for field in dataclasses.fields(kind):
        if field.name not in NOT_A_SETTING:
            lines.append(f"| `{field.name}` | {toml(field.default)} | {texts[field.name]} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """`page` with the tables between its markers written anew."""
    for name, kind in TABLES.items():
        pattern = rf"(<!-- table of \[{name}\] -->\n).*?(\n<!-- end -->)"
        page, found = re.subn(pattern, lambda m, kind=kind: m[1] + table(kind) + m[2], page, flags=re.DOTALL)
        assert found == 1, name
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
