"""Results in HDF5: schema, writer, parts, reader and validator of attention and attribution; what any file is.

What users import from here is loaded when it is asked for: `bioattn.store.choices` needs no HDF5.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bioattn.store.attention_reader import AttentionFile, SiteInfo, open_attention
    from bioattn.store.attribution_reader import AttributionFile, open_attribution

__all__ = ["AttentionFile", "AttributionFile", "SiteInfo", "open_attention", "open_attribution"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bioattn.store import attention_reader, attribution_reader

    module = attention_reader if hasattr(attention_reader, name) else attribution_reader
    return getattr(module, name)
