"""Results in HDF5: the attention file's schema, writer, parts, reader and validator; what any file is."""

from bioattn.store.attention_reader import AttentionFile, SiteInfo, open_attention

__all__ = ["AttentionFile", "SiteInfo", "open_attention"]
