"""Results in HDF5: schema, writer, parts, reader and validator of attention and attribution; what any file is."""

from bioattn.store.attention_reader import AttentionFile, SiteInfo, open_attention
from bioattn.store.attribution_reader import AttributionFile, open_attribution

__all__ = ["AttentionFile", "AttributionFile", "SiteInfo", "open_attention", "open_attribution"]
