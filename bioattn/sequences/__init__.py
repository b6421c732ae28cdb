"""Sequences as letters and tokens: vocabularies, and datasets for models that read whole sequences; no models."""
