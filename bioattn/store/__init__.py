"""Results in HDF5: schema, writer, parts, reader and validator of attention and attribution; what any file is.

What users import from here is loaded when it is asked for: `bioattn.store.choices` needs no HDF5.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bioattn.store.attribution import Attribution, open_attribution
    from bioattn.store.reader import Attention, SiteInfo, open_attention

__all__ = ["Attention", "Attribution", "SiteInfo", "open_attention", "open_attribution"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bioattn.store import attribution, reader

    return getattr(reader if hasattr(reader, name) else attribution, name)
