"""Attention models on biological sequences, and the maps of where they look.

    import bioattn

    model = bioattn.load_model("model")
    table = model.predict("promoters.fa")
    maps = model.attention("promoters.fa", treatments=["heat"])
    file = bioattn.open("attention.h5")

The package is silent: it never prints, exits or reads the command line (that is `bioattn_cli`). Nothing heavy is
loaded before it is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bioattn.python.model import load_model as load_model
    from bioattn.python.opened import open as open

__version__ = "0.1.0"
_HOMES = {"load_model": "bioattn.python.model", "open": "bioattn.python.opened"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bioattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
