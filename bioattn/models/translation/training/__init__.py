"""Training translation models."""
