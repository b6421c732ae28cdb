"""Transformers over the tokens of sequences: encoders, decoders, and encoders with a decoder."""
