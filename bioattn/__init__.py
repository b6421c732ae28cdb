"""Attention models on biological sequences, and the maps of where they look.

    import bioattn

    model = bioattn.load_model("model")
    table = model.predict("promoters.fa")
    maps = model.attention({"HSP12": "ACGT…"}, treatments=["heat"])
    maps.save("attention.h5")
    maps = bioattn.open("attention.h5")

The package is silent: it never prints, exits or reads the command line (that is `bioattn_cli`). Nothing heavy is
loaded before it is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bioattn.figures.plot import plot as plot
    from bioattn.python.listening import capture as capture
    from bioattn.python.loading import load_model as load_model
    from bioattn.python.loading import train as train
    from bioattn.python.opened import open as open

__version__ = "0.1.0"
_HOMES = {
    "capture": "bioattn.python.listening",
    "load_model": "bioattn.python.loading",
    "open": "bioattn.python.opened",
    "plot": "bioattn.figures.plot",
    "train": "bioattn.python.loading",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'bioattn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
